#include "base/table.h"

#include <algorithm>

#include "base/text.h"

namespace moesh {
namespace {

constexpr int kGap = 2;
constexpr int kNarrowestColumn = 12;    // least width of a column that is cut
constexpr int kNarrowestText = 24;      // least width of a column that wraps
constexpr int kIndent = 6;              // of the lines below the first cell of a folded row
constexpr int kAbsent = -1;             // width of a column that is left out

using Cells = std::vector<std::string>;

int total(const std::vector<int>& widths) {
  int sum = -kGap;
  for (const int width : widths) sum += width == kAbsent ? 0 : width + kGap;
  return sum;
}

// The widths that columns need.
struct Needs {
  std::vector<int> whole;   // to show each cell in a line
  std::vector<int> least;   // with cells wrapped or cut
  std::vector<int> broken;  // with long words broken too
};

int longest_word(const std::string& cell) {
  int longest = 0;
  for (const std::string& word : split(cell, ' ')) longest = std::max(longest, display_width(word));
  return longest;
}

int least_width(const Column& column, const std::string& cell) {
  switch (column.room) {
    case Room::none: return display_width(cell);
    case Room::cut:
    case Room::cut_start: return kNarrowestColumn;
    case Room::wrap: return std::max(kNarrowestText, longest_word(cell));
  }
  return 0;
}

// Narrows the widest of the columns that can give way, step by step.
void shrink(const std::vector<int>& least, int width, std::vector<int>& widths) {
  while (total(widths) > width) {
    std::size_t widest = widths.size();
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (widths[i] > least[i] && (widest == widths.size() || widths[i] > widths[widest])) widest = i;
    }
    if (widest == widths.size()) return;
    --widths[widest];
  }
}

// Widths that fit, if cutting and leaving columns out can achieve that; otherwise the result is too wide.
std::vector<int> fitted(const std::vector<Column>& columns, const Needs& needs, int width) {
  std::vector<int> allowed = needs.whole;
  while (true) {
    std::vector<int> widths = allowed;
    if (width > 0) shrink(needs.least, width, widths);
    if (width == 0 || total(widths) <= width) return widths;
    std::size_t sparest = columns.size();
    for (std::size_t i = 0; i < columns.size(); ++i) {
      const bool may_go = columns[i].spare > 0 && allowed[i] != kAbsent;
      if (may_go && (sparest == columns.size() || columns[i].spare > columns[sparest].spare)) sparest = i;
    }
    if (sparest == columns.size()) {
      shrink(needs.broken, width, widths);
      return widths;
    }
    allowed[sparest] = kAbsent;
  }
}

bool all_empty(const Cells& cells) {
  return std::all_of(cells.begin(), cells.end(), [](const std::string& cell) { return cell.empty(); });
}

// The text with each word that is wider than the column on lines of its own parts, which end in punctuation where there is some.
std::string with_long_words_broken(const std::string& cell, int width) {
  std::vector<std::string> words = split(cell, ' ');
  for (std::string& word : words) {
    std::string lines;
    while (display_width(word) > width) {
      const std::string_view fits = first_columns(word, width);
      const std::size_t mark = fits.find_last_of("_=/,-");
      const std::size_t end = mark == std::string_view::npos ? fits.size() : mark + 1;
      lines += word.substr(0, end) + "\n";
      word.erase(0, end);
    }
    word.insert(0, lines);
  }
  return join(words, " ");
}

Cells lines_of(const std::string& cell, const Column& column, int width) {
  switch (column.room) {
    case Room::none: return {cell};
    case Room::cut: return {shorten(cell, width)};
    case Room::cut_start: return {shorten_start(cell, width)};
    case Room::wrap: return split(wrapped(with_long_words_broken(cell, width), width), '\n');
  }
  return {};
}

std::string alone_in_line(const Column& column, const std::string& cell, int width) {
  std::string text;
  for (const std::string& line : lines_of(cell, column, width - kIndent)) text += std::string(kIndent, ' ') + line + "\n";
  return text;
}

Needs needs_of(const std::vector<Column>& columns, const std::vector<const Cells*>& rows) {
  const std::vector<int> none(columns.size(), 0);
  Needs needs{none, none, none};
  for (const Cells* cells : rows) {
    // A cell that is alone in its row may run on across the columns beside it.
    if (columns.size() > 1 && all_empty(Cells(cells->begin() + 1, cells->end()))) continue;
    for (std::size_t i = 0; i < cells->size(); ++i) {
      needs.whole[i] = std::max(needs.whole[i], display_width((*cells)[i]));
      needs.least[i] = std::max(needs.least[i], least_width(columns[i], (*cells)[i]));
    }
  }
  for (std::size_t i = 0; i < columns.size(); ++i) needs.broken[i] = columns[i].room == Room::wrap ? kNarrowestText : needs.least[i];
  return needs;
}

std::string padded(const std::string& cell, int width, bool right) {
  const std::string space(static_cast<std::size_t>(std::max(0, width - display_width(cell))), ' ');
  return right ? space + cell : cell + space;
}

// The cells side by side; a cell that wraps continues on the lines below.
std::string line_of(const std::vector<Column>& columns, const Cells& cells, const std::vector<int>& widths, int indent) {
  std::vector<Cells> lines;
  std::size_t height = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    lines.push_back(widths[i] == kAbsent ? Cells{} : lines_of(cells[i], columns[i], widths[i]));
    height = std::max(height, lines.back().size());
  }
  std::string text;
  for (std::size_t k = 0; k < height; ++k) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    bool is_first = true;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (widths[i] == kAbsent) continue;
      if (!is_first) line += std::string(kGap, ' ');
      is_first = false;
      line += padded(k < lines[i].size() ? lines[i][k] : "", widths[i], columns[i].right);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace

Cells Table::titles() const {
  Cells titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  return titles;
}

bool Table::has_titles() const { return !all_empty(titles()); }

std::string Table::beside(const std::vector<int>& widths) const {
  std::string text = has_titles() ? line_of(columns_, titles(), widths, 0) : "";
  for (const Row& row : rows_) {
    if (row.group) text += "\n";
    text += line_of(columns_, row.cells, widths, 0);
  }
  return text;
}

// The first cell is on a line of its own, the others are below it; if even those do not fit side by side, each has its own line.
std::string Table::folded(int width) const {
  const std::vector<Column> others(columns_.begin() + 1, columns_.end());
  const auto rest = [](const Cells& cells) { return Cells(cells.begin() + 1, cells.end()); };
  std::vector<Cells> rests{rest(titles())};
  for (const Row& row : rows_) rests.push_back(row.group ? Cells(others.size()) : rest(row.cells));
  std::vector<const Cells*> measured;
  for (const Cells& cells : rests) measured.push_back(&cells);
  const std::vector<int> widths = fitted(others, needs_of(others, measured), width - kIndent);
  const bool fits = total(widths) <= width - kIndent;
  const auto below = [&](const Cells& cells) {
    if (all_empty(cells)) return std::string();
    if (fits) return line_of(others, cells, widths, kIndent);
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      if (widths[i] != kAbsent && !cells[i].empty()) text += alone_in_line(others[i], cells[i], width);
    }
    return text;
  };
  std::string text = has_titles() ? columns_.front().title + "\n" + below(rests.front()) : "";
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    if (row.group) {
      Cells filled;
      std::copy_if(row.cells.begin(), row.cells.end(), std::back_inserter(filled), [](const std::string& cell) { return !cell.empty(); });
      text += "\n" + join(filled, "  ") + "\n";
    } else {
      text += row.cells.front() + "\n" + below(rests[r + 1]);
    }
  }
  return text;
}

std::string Table::text(int width) const {
  const Cells heads = titles();
  std::vector<const Cells*> measured{&heads};
  for (const Row& row : rows_) measured.push_back(&row.cells);
  const std::vector<int> widths = fitted(columns_, needs_of(columns_, measured), width);
  const bool fits = width == 0 || total(widths) <= width || columns_.size() == 1;
  return fits ? beside(widths) : folded(width);
}

}  // namespace moesh
