#include "train/report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <fmt/core.h>

#include "base/text.h"
#include "page/curves.h"
#include "page/html.h"
#include "store/png.h"
#include "train/expert_shades.h"

namespace moesh::train {
namespace {

using page::Curve;
using page::escaped;
using page::svg_of;

constexpr std::size_t kMostLayers = 12, kMostColumns = 240;

constexpr const char* kStyle = R"(polyline{fill:none;stroke-width:1.6;stroke-linejoin:round}
img{width:100%;image-rendering:pixelated;border-radius:4px;display:block}
)";

std::string colours() {
  std::string made;
  for (int i = 0; i < 6; ++i)
    made += fmt::format(
        "polyline.run{0}{{stroke:var(--c{0})}}circle.run{0}{{fill:var(--c{0})}}.key.run{0}{{background:var(--c{0})}}\n",
        i);
  return made;
}

std::size_t colour_of(std::size_t run) { return run % 6; }

std::string base64(std::string_view bytes) {
  constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string made;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k) made += i + k <= bytes.size() ? kLetters[three >> (18 - 6 * k) & 63] : '=';
  }
  return made;
}

std::string name_of(const RunRecord& run) {
  const std::filesystem::path path(run.path);
  return path.has_parent_path() ? path.parent_path().filename().string() : run.path;
}

std::string heading_of(const RunRecord& run, std::size_t number) {
  return fmt::format("<span class=\"key run{}\"></span>{}", colour_of(number), escaped(name_of(run)));
}

class ReportRows {
 public:
  explicit ReportRows(const std::vector<RunRecord>& runs) : runs_(runs) {
    text_ = "<div class=\"scroll\"><table><tr><th></th>";
    for (std::size_t i = 0; i < runs.size(); ++i)
      text_ += fmt::format("<th class=\"n\">{}</th>", heading_of(runs[i], i));
    text_ += "</tr>\n";
  }
  template <typename Cell>
  void add(const std::string& name, const Cell& cell) {
    text_ += fmt::format("<tr><td>{}</td>", escaped(name));
    for (const RunRecord& run : runs_) text_ += fmt::format("<td class=\"n\">{}</td>", escaped(cell(run)));
    text_ += "</tr>\n";
  }
  std::string text() const { return text_ + "</table></div>\n"; }

 private:
  const std::vector<RunRecord>& runs_;
  std::string text_;
};

std::string number_words(double number) {
  return std::isfinite(number) ? fmt::format("{:.4f}", number) : "not a number";
}

std::string figures_of(const std::vector<RunRecord>& runs) {
  ReportRows rows(runs);
  rows.add("began", [](const RunRecord& run) {
    return run.began + (run.starts > 1 ? fmt::format(", start {}", run.starts) : "");
  });
  rows.add("layout", [](const RunRecord& run) { return run.layout.empty() ? std::string("-") : run.layout; });
  rows.add("state", [](const RunRecord& run) {
    return std::string(run.goes_on ? "goes on" : run.end ? "ended" : "ended without its last lines");
  });
  rows.add("steps",
           [](const RunRecord& run) { return std::to_string(run.steps.empty() ? 0 : run.steps.back().step + 1); });
  const auto last = [](const auto& all, const auto& words) {
    return all.empty() ? std::string("-") : words(all.back());
  };
  rows.add("loss", [&](const RunRecord& run) {
    return last(run.steps, [](const RecordedStep& step) { return number_words(step.loss); });
  });
  rows.add("loss of the evaluation", [&](const RunRecord& run) {
    return last(run.evals, [](const RecordedEval& eval) { return number_words(eval.loss); });
  });
  rows.add("tokens/s, in the middle",
           [](const RunRecord& run) { return with_commas(std::llround(run.tokens_per_second())); });
  const auto memory = [](std::int64_t RunEnd::*of) {
    return [of](const RunRecord& run) {
      return run.end ? human_bytes(*run.end.*of) : std::string("-");
    };
  };
  rows.add("memory of values, as planned", memory(&RunEnd::planned_memory));
  rows.add("as taken", memory(&RunEnd::memory));
  return rows.text();
}

template <typename Value>
std::string curve(const std::string& title, const std::vector<RunRecord>& runs, const Value& value,
                  bool with_evaluations = false) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    Curve made{colour_of(i), false, {}};
    for (const RecordedStep& step : runs[i].steps)
      made.points.emplace_back(static_cast<double>(step.step), value(step));
    curves.push_back(std::move(made));
    if (!with_evaluations) continue;
    Curve dots{colour_of(i), true, {}};
    for (const RecordedEval& eval : runs[i].evals) dots.points.emplace_back(static_cast<double>(eval.step), eval.loss);
    curves.push_back(std::move(dots));
  }
  return svg_of(title, curves);
}

// One line per expert, one column per stretch of steps.
std::string load_picture(const ExpertHistory::OfLayer& of) {
  const std::size_t experts = of.tokens.front().size(), columns = of.tokens.size();
  std::vector<std::uint8_t> shades(experts * columns);
  for (std::size_t column = 0; column < columns; ++column) {
    const std::vector<std::uint8_t> of_column = expert_shades(of.tokens[column]);
    for (std::size_t e = 0; e < experts; ++e) shades[e * columns + column] = of_column[e];
  }
  const std::string picture = base64(store::png_of(shades, static_cast<std::int64_t>(columns)));
  const std::size_t height = std::clamp<std::size_t>(8 * experts, 48, 220);
  return fmt::format(
      "<figure><figcaption>layer {}</figcaption><img style=\"height:{}px\" alt=\"tokens of each expert of layer {} "
      "over the steps\" "
      "src=\"data:image/png;base64,{}\"></figure>\n",
      of.layer, height, of.layer, picture);
}

std::string experts_of(const std::vector<RunRecord>& runs) {
  std::string made;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const ExpertHistory history = expert_history(runs[i], kMostLayers, kMostColumns);
    if (history.layers == 0) continue;
    const std::size_t shown = history.chosen.size();
    made += fmt::format(
        "<h2>Experts of {}</h2><p>A line an expert, from the first step to the last: black has no token, grey its even "
        "share, white "
        "twice that and more{}.</p><div class=\"figures\">",
        heading_of(runs[i], i),
        shown < history.layers ? fmt::format("; {} of {}", shown, counted(static_cast<std::int64_t>(history.layers), "layer")) : "");
    for (const ExpertHistory::OfLayer& one : history.chosen) made += load_picture(one);
    made += "</div>\n";
  }
  return made;
}

std::string collectives_of(const std::vector<RunRecord>& runs) {
  std::string made;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].end || runs[i].end->collectives.empty()) continue;
    made += fmt::format(
        "<h2>What devices of {} exchanged</h2><p>{}In all steps together; bytes are those that all devices together got from "
        "others.</p><div class=\"scroll\"><table><tr><th>collective</th><th>where</th><th "
        "class=\"n\">runs</th>"
        "<th class=\"n\">planned</th><th class=\"n\">bytes of all devices</th><th class=\"n\">planned</th></tr>\n",
        heading_of(runs[i], i), runs[i].layout.empty() ? "" : escaped(runs[i].layout) + ". ");
    for (const RecordedCollective& one : runs[i].end->collectives) {
      made += fmt::format(
          "<tr><td>{}</td><td>{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td "
          "class=\"n\">{}{}</td></tr>\n",
          escaped(one.kind), escaped(one.where), with_commas(one.runs), with_commas(one.planned_runs),
          human_bytes(one.bytes), one.is_bound ? "at most " : "",
          human_bytes(one.planned_bytes));
    }
    made += "</table></div>\n";
  }
  return made;
}

// The settings that differ, if there are several runs; all settings of a single run.
std::string settings_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> keys;
  for (const RunRecord& run : runs) {
    for (const auto& [key, value] : run.settings) {
      const bool differs =
          std::any_of(runs.begin(), runs.end(),
                      [&, &own = value, &name = key](const RunRecord& other) { return other.setting(name) != own; });
      if ((runs.size() == 1 || differs) && std::find(keys.begin(), keys.end(), key) == keys.end()) keys.push_back(key);
    }
  }
  if (keys.empty()) return "";
  ReportRows rows(runs);
  for (const std::string& key : keys) rows.add(key, [&](const RunRecord& run) { return run.setting(key); });
  return std::string(runs.size() == 1 ? "<h2>Settings</h2>" : "<h2>Settings that differ</h2>") + rows.text();
}

}  // namespace

std::string report_of(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names;
  for (const RunRecord& run : runs) names.push_back(name_of(run));
  const std::string title = join(names, ", ");
  std::string body = fmt::format("<h1>{}</h1><p>written by moesh {}</p>\n", escaped(title), MOESH_VERSION);
  body += figures_of(runs) + "<h2>Curves</h2><div class=\"figures\">\n";
  body += curve(
      "loss; dots: of evaluations", runs, [](const RecordedStep& step) { return step.loss; }, true);
  body += curve("tokens a second", runs, [](const RecordedStep& step) { return step.tokens_per_second(); });
  body +=
      curve("norm of the gradient, before clipping", runs, [](const RecordedStep& step) { return step.raw_grad_norm; });
  body += curve("learning rate", runs, [](const RecordedStep& step) { return step.learning_rate; });
  body += curve("the busiest expert's tokens, times the mean", runs, [](const RecordedStep& step) { return step.busiest; });
  const auto drops = [](const RecordedStep& step) { return step.dropped > 0; };
  if (std::any_of(runs.begin(), runs.end(), [&](const RunRecord& run) { return std::any_of(run.steps.begin(), run.steps.end(), drops); }))
    body += curve("choices that found no room", runs, [](const RecordedStep& step) { return step.dropped; });
  body += "</div>\n" + experts_of(runs) + collectives_of(runs) + settings_of(runs);
  return to_html(page::Page{title, kStyle + colours(), body});
}

}  // namespace moesh::train
