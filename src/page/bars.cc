#include "page/bars.h"

#include <algorithm>

#include <fmt/core.h>

#include "page/html.h"
#include "page/scale.h"

namespace moesh::page {
namespace {

constexpr double kBarWidth = 300, kRow = 24, kHead = 56, kMargin = 14, kGap = 8;
constexpr double kLetter = 6.6;  // about the width of a letter
constexpr std::string_view kBarStyle =
    "<style>svg{background:#fff;font:12px system-ui,sans-serif}text{fill:#222}.title{font-size:14px;font-weight:600}.words{fill:#666}"
    ".value{fill:#2f6fb0}.beside{fill:#c9772c}@media(prefers-color-scheme:dark){svg{background:#16181c}text{fill:#e4e4e4}"
    ".words{fill:#a0a0a0}.value{fill:#5b9bd8}.beside{fill:#e0995a}}</style>\n";

std::string text(double x, double y, std::string_view kind, std::string_view words) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", kind, x, y, escaped(words));
}

std::string box(double x, double y, double width, double height, std::string_view kind) {
  return fmt::format("<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", kind, x, y, width, height);
}

double width_of(std::size_t letters) { return kLetter * static_cast<double>(letters); }

// A coloured square and what it stands for; returns where the next one may begin.
double add_key(double x, std::string_view kind, const std::string& words, std::string& made) {
  made += box(x, kHead - 25, 10, 10, kind) + text(x + 15, kHead - 16, "words", words);
  return x + 15 + width_of(words.size()) + 2 * kGap;
}

}  // namespace

std::string svg_of(const Bars& of) {
  Scale scale{0, kBarWidth, 0, 0};
  std::size_t name = 0, words = 0;
  bool has_beside = false;
  for (const Bar& bar : of.bars) {
    scale.see(std::max(bar.value, bar.beside.value_or(0)));
    name = std::max(name, bar.name.size());
    words = std::max(words, bar.words.size());
    has_beside = has_beside || bar.beside;
  }
  const double left = kMargin + width_of(name) + kGap;
  const double width = std::max(left + kBarWidth + kGap + width_of(words), kMargin + 1.2 * width_of(of.title.size())) + kMargin;
  const double height = kHead + kRow * static_cast<double>(of.bars.size()) + kMargin;
  std::string made = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" viewBox=\"0 0 {0:.0f} {1:.0f}\">\n", width, height);
  made += std::string(kBarStyle) + text(kMargin, 22, "title", of.title);
  const double next = add_key(kMargin, "value", of.value, made);
  if (has_beside) add_key(next, "beside", of.beside, made);
  double y = kHead;
  for (const Bar& bar : of.bars) {
    made += text(kMargin, y + 15, "name", bar.name);
    const auto length = [&](double value) { return scale.most > 0 ? scale.at(value) : 0; };
    made += box(left, y + 4, length(bar.value), has_beside ? 9 : 14, "value");
    if (bar.beside) made += box(left, y + 14, length(*bar.beside), 5, "beside");
    made += text(left + length(std::max(bar.value, bar.beside.value_or(0))) + kGap, y + 15, "words", bar.words);
    y += kRow;
  }
  return made + "</svg>\n";
}

}  // namespace moesh::page
