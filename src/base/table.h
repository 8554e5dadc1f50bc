// Tables for terminals: columns as wide as they need to be; on a narrow terminal they are narrowed, left out or folded.
#pragma once

#include <string>
#include <vector>

namespace moesh {

// How the cells of a column give way when the terminal is narrow.
enum class Room {
  none,       // not at all
  cut,        // their ends are cut off
  cut_start,  // their starts are cut off, as for paths
  wrap,       // they continue on the lines below
};

struct Column {
  std::string title;
  bool right = false;  // aligned to the right, for numbers
  Room room = Room::none;
  int spare = 0;  // the column is left out if cutting is not enough, the largest number first; 0: never
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  void add_group(std::vector<std::string> cells) { rows_.push_back({std::move(cells), true}); }  // a heading row

  // `width` 0: unlimited. If leaving columns out is not enough, each row is folded: its first cell is on a line, the others are below.
  std::string text(int width) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool group;
  };
  std::vector<std::string> titles() const;
  bool has_titles() const;
  std::string beside(const std::vector<int>& widths) const;
  std::string folded(int width) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace moesh
