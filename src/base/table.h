// Tables for terminals: columns as wide as they need to be, the flexible ones cut when the terminal is narrow.
#pragma once

#include <string>
#include <vector>

namespace moesh {

struct Column {
  std::string title;
  bool right = false;     // numbers
  bool flexible = false;  // may be cut
  bool keep_end = false;  // cut at the start, as paths are
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  void add_group(std::vector<std::string> cells) { rows_.push_back({std::move(cells), true}); }  // a heading row

  // `width` 0: as wide as it gets.
  std::string text(int width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool group;
  };
  std::vector<int> widths(int width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Columns of the terminal on the output; 0 when it is none (a pipe or a file), unless COLUMNS says otherwise.
int terminal_width();

}  // namespace moesh
