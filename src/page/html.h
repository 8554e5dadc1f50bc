// What all pages have in common: how they look, tables, and text made safe. A page is one file that asks for no other.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace moesh::page {

// For HTML, within elements and attributes.
std::string escaped(std::string_view text);

struct Heading {
  std::string title;
  bool is_number = false;
};

// A cell's text is escaped; `order` is what it is sorted by where that is not its text.
struct Cell {
  std::string text;
  std::string order = {};
};
Cell number_cell(std::string text, double order);

struct Table {
  std::vector<Heading> headings;
  std::vector<std::vector<Cell>> rows;
};

// In a box that scrolls where it is too wide.
std::string to_html(const Table& table, bool is_sortable = false);

// A whole page: `style` and `script` stand behind what all pages have. Titles are escaped.
struct Page {
  std::string title;
  std::string style = {};
  std::string body;
  std::string script = {};
};
std::string to_html(const Page& page);

}  // namespace moesh::page
