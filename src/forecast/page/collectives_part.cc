#include <algorithm>
#include <initializer_list>
#include <tuple>

#include <fmt/core.h>

#include "base/text.h"
#include "forecast/page/parts.h"
#include "forecast/report.h"
#include "page/html.h"

namespace moesh::forecast {
namespace {

// Identifies a collective across plans: cause, tensor, kind, axes, phase, and its index among those for which all these are equal.
using SameKey = std::tuple<std::string, std::string, std::string, std::string, graph::Phase, int>;

// A collective by plan; null if the plan does not have it.
using SameSent = std::vector<const Sent*>;

double seconds_of(const Sent* sent) { return sent == nullptr ? 0 : sent->seconds; }

// The key to sort by: the time of a collective, or with several plans how much its time differs between them.
double weight(const SameSent& same) {
  double least = seconds_of(same[0]), most = least;
  for (const Sent* sent : same) {
    least = std::min(least, seconds_of(sent));
    most = std::max(most, seconds_of(sent));
  }
  return same.size() == 1 ? most : most - least;
}

std::vector<SameSent> sent_of(const Shown& shown) {
  std::map<SameKey, SameSent> found;
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    for (const Sent& sent : shown.courses[i].shown.forecast.collectives) {
      for (int alike = 0;; ++alike) {
        SameSent& same = found[{sent.cause, sent.tensor, sent.kind, sent.axes, sent.phase, alike}];
        same.resize(shown.courses.size());
        if (same[i] != nullptr) continue;
        same[i] = &sent;
        break;
      }
    }
  }
  std::vector<SameSent> all;
  for (auto& [key, same] : found) all.push_back(std::move(same));
  std::stable_sort(all.begin(), all.end(), [](const SameSent& a, const SameSent& b) { return weight(a) > weight(b); });
  return all;
}

// Adds a column for each figure and plan.
void add_figures(std::initializer_list<const char*> figures, const Shown& shown, page::Table& table) {
  for (const char* figure : figures) {
    for (const Course& course : shown.courses)
      table.headings.push_back({shown.is_one() ? figure : fmt::format("{}, {}", figure, course.shown.name), true});
  }
}

std::string table_of(const Shown& shown) {
  page::Table table{{{"name"}, {"kind"}, {"axes"}, {"for"}}, {}};
  if (shown.is_one()) table.headings.push_back({"runs", true});
  add_figures({"sent", "time", "exposed"}, shown, table);
  for (const SameSent& same : sent_of(shown)) {
    std::vector<std::string> names;
    for (const Sent* sent : same) names.push_back(sent == nullptr ? "\u2013" : sent->name);
    const Sent& any = **std::find_if(same.begin(), same.end(), [](const Sent* sent) { return sent != nullptr; });
    std::vector<page::Cell> row{page::number_cell(join(names, " / "), any.instruction),
                                {any.kind},
                                {any.axes},
                                {fmt::format("{} ({})", any.cause, name_of(any.phase))}};
    if (shown.is_one())
      row.push_back(page::number_cell(with_commas(any.what.runs), static_cast<double>(any.what.runs)));
    const auto add = [&](const auto& value, const auto& words) {
      for (const Sent* sent : same)
        row.push_back(sent == nullptr ? page::number_cell("\u2013", 0)
                                      : page::number_cell(words(value(*sent)), value(*sent)));
    };
    add([](const Sent& sent) { return sent.what.total_wire_bytes(); }, [](double bytes) { return human_bytes(bytes); });
    add([](const Sent& sent) { return sent.seconds; }, human_seconds);
    add([](const Sent& sent) { return sent.exposed; }, human_seconds);
    table.rows.push_back(std::move(row));
  }
  return to_html(table, true);
}

using TotalsByPlan = std::vector<SentTotal>;

std::vector<page::Cell> total_row(const std::string& kind, const std::string& axes, const TotalsByPlan& totals) {
  std::vector<page::Cell> row{{kind}, {axes}};
  for (const SentTotal& one : totals) row.push_back({with_commas(one.runs)});
  for (const SentTotal& one : totals) row.push_back({human_bytes(one.wire_bytes)});
  for (const SentTotal& one : totals) row.push_back({human_seconds(one.seconds)});
  for (const SentTotal& one : totals) row.push_back({human_seconds(one.exposed)});
  return row;
}

// Totals by kind and axes, those that take the longest first.
std::string totals_table(const Shown& shown) {
  std::map<std::pair<std::string, std::string>, TotalsByPlan> found;
  TotalsByPlan all(shown.courses.size());
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    for (const Sent& sent : shown.courses[i].shown.forecast.collectives) {
      TotalsByPlan& alike = found[{sent.kind, sent.axes}];
      alike.resize(shown.courses.size());
      alike[i].add(sent);
      all[i].add(sent);
    }
  }
  std::vector<std::pair<std::pair<std::string, std::string>, TotalsByPlan>> order(found.begin(), found.end());
  const auto longest = [](const TotalsByPlan& totals) {
    double seconds = 0;
    for (const SentTotal& one : totals) seconds = std::max(seconds, one.seconds);
    return seconds;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto& a, const auto& b) { return longest(a.second) > longest(b.second); });
  page::Table table{{{"kind"}, {"axes"}}, {}};
  add_figures({"runs", "sent", "time", "exposed"}, shown, table);
  for (const auto& [key, totals] : order) table.rows.push_back(total_row(key.first, key.second, totals));
  table.rows.push_back(total_row("all", "", all));
  return to_html(table);
}

}  // namespace

std::string collectives_part(const Shown& shown) {
  const auto sends = [](const Course& course) { return !course.shown.forecast.collectives.empty(); };
  std::string made = "<section id=\"collectives\"><h2>Collectives</h2>\n";
  if (std::none_of(shown.courses.begin(), shown.courses.end(), sends))
    return made + "<p>Nothing is exchanged.</p></section>\n";
  const Forecast& any = std::find_if(shown.courses.begin(), shown.courses.end(), sends)->shown.forecast;
  const std::string first =
      fmt::format("<code>moesh why {} {}...</code> tells why one is there.", any.collectives.front().name, option_words(any));
  made += fmt::format("<p>In a step, of each device. {} {}</p>\n",
                      shown.is_one() ? "Those that take the longest first."
                                     : "Where plans differ most stands first; \u2013 is not there.",
                      first);
  return made + totals_table(shown) + "<h3>Each of them</h3><div class=\"tall\">\n" + table_of(shown) +
         "</div></section>\n";
}

}  // namespace moesh::forecast
