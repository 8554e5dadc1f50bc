#include "base/table.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"

namespace moesh {
namespace {

constexpr int kGap = 2;
constexpr int kNarrowest = 12;  // of a flexible column

std::string padded(const std::string& cell, int width, bool right) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(cell))), ' ');
  return right ? space + cell : cell + space;
}

}  // namespace

std::vector<int> Table::widths(int width) const {
  std::vector<int> needed;
  for (const Column& column : columns_) needed.push_back(display_width(column.title));
  for (const Row& row : rows_) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) needed[i] = std::max(needed[i], display_width(row.cells[i]));
  }
  if (width == 0) return needed;
  const auto total = [&] { return std::accumulate(needed.begin(), needed.end(), kGap * static_cast<int>(needed.size() - 1)); };
  // The widest flexible column gives way first.
  while (total() > width) {
    int widest = -1;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const bool gives = columns_[i].flexible && needed[i] > kNarrowest;
      if (gives && (widest < 0 || needed[i] > needed[static_cast<std::size_t>(widest)])) widest = static_cast<int>(i);
    }
    if (widest < 0) break;
    --needed[static_cast<std::size_t>(widest)];
  }
  return needed;
}

std::string Table::text(int width) const {
  const std::vector<int> columns = widths(width);
  std::string out;
  const auto write = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += std::string(kGap, ' ');
      const std::string cell = columns_[i].keep_end ? shorten_start(cells[i], columns[i]) : shorten(cells[i], columns[i]);
      line += padded(cell, columns[i], columns_[i].right);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  write(titles);
  for (const Row& row : rows_) {
    if (row.group) out += "\n";
    write(row.cells);
  }
  return out;
}

int terminal_width() {
  if (const char* columns = std::getenv("COLUMNS")) {
    const auto value = parse_integer(columns);
    if (value && *value >= 40 && *value <= 1000) return static_cast<int>(*value);
  }
  winsize size{};
  if (isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40) return size.ws_col;
  return 0;
}

}  // namespace moesh
