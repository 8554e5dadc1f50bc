#include <fmt/core.h>

#include "base/text.h"
#include "forecast/page/parts.h"
#include "forecast/report.h"
#include "page/html.h"

namespace moesh::forecast {
namespace {

using page::escaped;

// A figure of one plan, with a remark.
struct Figure {
  std::string words, remark;
  double value = 0;
  bool is_bad = false;
};

std::string ratio_of(double before, double after) {
  return before > 0 ? fmt::format("\u00d7 {:.2f}", after / before) : "";
}

// `tell` makes the figure of a plan.
template <typename Tell>
std::string tile(const Shown& shown, const std::string& title, const Tell& tell) {
  std::string made = fmt::format("<figure class=\"tile\"><figcaption>{}</figcaption>", title);
  const Figure first = tell(shown.courses.front().shown);
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    const Figure figure = tell(shown.courses[i].shown);
    const std::string ratio = i == 0 ? "" : ratio_of(first.value, figure.value);
    made += fmt::format("<div class=\"figure{}\">{}<strong>{}</strong>{}<small>{}</small></div>",
                        figure.is_bad ? " bad" : "", name_html(shown, i), figure.words,
                        ratio.empty() ? "" : "<em>" + ratio + "</em>", figure.remark);
  }
  return made + "</figure>\n";
}

Figure memory_figure(const Forecast& f) {
  const auto peak = static_cast<double>(f.memory.peak), usable = static_cast<double>(f.usable_memory);
  const std::string left = f.fits() ? human_bytes(usable - peak) + " left" : human_bytes(peak - usable) + " missing";
  const char* fit = f.fits_narrowly() ? "fits narrowly" : f.fits() ? "fits" : "does not fit";
  return {left, fmt::format("{}: {} of {}.{}", fit, human_bytes(peak), human_bytes(usable), engine_words(f)), 0, !f.fits()};
}

Figure rows_figure(const ShownPlan& plan) {
  const Decoding& of = *plan.forecast.decoding;
  return {with_commas(of.rows), of.most ? fmt::format("{} fit at most", most_rows_words(of)) : "", static_cast<double>(of.rows)};
}

std::string heads(const Shown& shown) {
  std::string made;
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    const ShownPlan& plan = shown.courses[i].shown;
    made += fmt::format("<div class=\"plan-head\"><p>{}<b>{}</b><br>{}</p><pre class=\"command\">{}</pre></div>\n",
                        name_html(shown, i), escaped(plan.headline), escaped(plan.batch), escaped(plan.command));
  }
  return made;
}

}  // namespace

std::string figures_part(const Shown& shown) {
  std::string made = heads(shown) + "<div class=\"tiles\">\n";
  made += tile(shown, "memory of a device", [](const ShownPlan& plan) { return memory_figure(plan.forecast); });
  made += tile(shown, step_words(shown.courses.front().shown.forecast), [](const ShownPlan& plan) {
    const Forecast& f = plan.forecast;
    return Figure{human_seconds(f.seconds), "kernels run for " + human_seconds(f.kernels), f.seconds};
  });
  made += tile(shown, "exposed communication", [](const ShownPlan& plan) {
    const Forecast& f = plan.forecast;
    return Figure{human_seconds(f.exposed), fmt::format("{:.1f}% of the step", 100 * f.exposed / f.seconds), f.exposed};
  });
  made += tile(shown, "tokens/s a device", [](const ShownPlan& plan) {
    const double tokens = plan.forecast.tokens_per_second_per_device;
    const double all = tokens * static_cast<double>(plan.plan.mesh.devices());
    return Figure{rate_words(tokens), rate_words(all) + " in all", tokens};
  });
  if (shown.courses.front().shown.forecast.decoding) return made + tile(shown, "rows", rows_figure) + "</div>\n";
  made += tile(shown, "MFU", [](const ShownPlan& plan) {
    const std::optional<double>& mfu = plan.forecast.mfu;
    return mfu ? Figure{fmt::format("{:.1f}%", 100 * *mfu), "of the peak FLOP/s", *mfu}
               : Figure{"\u2013", "the chip's peak is not known"};
  });
  return made + "</div>\n";
}

}  // namespace moesh::forecast
