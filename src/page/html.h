// What all HTML pages share: their style, tables, and the escaping of text. A page is one file that loads no other.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesh::page {

// The text escaped for HTML elements and attributes.
std::string escaped(std::string_view text);

struct Heading {
  std::string title;
  bool is_number = false;
};

// A cell of a table. The text is escaped when it is written; `order` is the value to sort by, if that is not the text.
struct Cell {
  std::string text;
  std::string order = {};
};
Cell number_cell(std::string text, double order);

struct Table {
  std::vector<Heading> headings;
  std::vector<std::vector<Cell>> rows;
};

// The table in a box that scrolls if the table is too wide.
std::string to_html(const Table& table, bool is_sortable = false);

// A whole page. `style` is added after the style that all pages share, and `script` after the body. The title is escaped.
struct Page {
  std::string title;
  std::string style = {};
  std::string body;
  std::string script = {};
};
std::string to_html(const Page& page);

}  // namespace moesh::page
