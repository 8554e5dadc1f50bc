// Compares predicted training throughputs with those that others measured and published.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "errors.h"
#include "plot.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_throughput [--rows=F.json] [--plot=F.svg]

Has `moesh compile` predict the tokens a second and device of each row, prints them beside those that were published, and sums up: over the
families of rows that the engine's constants were chosen by, and over those that were set aside before.

  --rows=F.json  default tests/golden/throughput/rows.json
  --plot=F.svg   writes a picture: published across, predicted up
)";

struct Row {
  std::string name, hardware;
  bool aside = false;
  double published = 0, predicted = 0;

  double ratio() const { return predicted / published; }
  double error() const { return std::abs(std::log(ratio())); }
};

std::string output_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  if (pipe == nullptr) fail("no shell can be started", command);
  std::string text(1 << 16, '\0'), all;
  while (const std::size_t count = std::fread(text.data(), 1, text.size(), pipe.get())) all.append(text, 0, count);
  return all;
}

std::vector<Row> rows_of(const std::string& path) {
  std::vector<Row> rows;
  for (const nlohmann::json& row : nlohmann::json::parse(read_file(path, "the rows", 1 << 24, ""))) {
    const std::string words = row["command"], id = row["id"];
    const nlohmann::json made = nlohmann::json::parse(output_of(fmt::format("{} compile --json {} 2>/dev/null", MOESH_BINARY, words)), nullptr, false);
    if (made.is_discarded()) fail(fmt::format("{} is not planned", id), words);
    rows.push_back({id, id.substr(0, id.find('-')), row["aside"], row["tokens_per_s_per_device"], made["tokens_per_second_per_device"]});
  }
  return rows;
}

std::string summary_of(const std::vector<Row>& rows, bool aside) {
  std::vector<double> errors;
  for (const Row& row : rows) {
    if (row.aside == aside) errors.push_back(row.error());
  }
  std::sort(errors.begin(), errors.end());
  const auto part = [&](double share) { return errors[static_cast<std::size_t>(std::ceil(share * static_cast<double>(errors.size()))) - 1]; };
  return fmt::format("{}, {}: half within a factor of {:.2f}, nine of ten within {:.2f}\n", aside ? "set aside" : "chosen by",
                     counted(static_cast<std::int64_t>(errors.size()), "row"), std::exp(part(0.5)), std::exp(part(0.9)));
}

void write_plot(const std::vector<Row>& rows, const std::string& path) {
  Panel panel{"tokens a second and device", "published", "predicted", {}};
  std::map<std::string, Curve> kinds;
  double least = rows.front().published, most = least;
  for (const Row& row : rows) {
    Curve& curve = kinds[row.hardware];
    curve.name = row.hardware;
    curve.is_joined = false;
    curve.points.emplace_back(row.published, row.predicted);
    least = std::min(least, row.published);
    most = std::max(most, row.published);
  }
  panel.curves.push_back({"as published", {{least, least}, {most, most}}});
  for (auto& [name, curve] : kinds) panel.curves.push_back(std::move(curve));
  replace_file(path, svg_of({panel}), "");
}

int measure(int argc, char** argv) {
  std::string path = "tests/golden/throughput/rows.json", plot;
  for_words(argc, argv, kHelp, [&](std::string_view name, const std::string& value) {
    if (name == "--rows") path = value;
    else if (name == "--plot") plot = value;
    else return false;
    return true;
  });
  std::vector<Row> rows = rows_of(path);
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.ratio() < b.ratio(); });
  Table table({{"row"}, {"published", true}, {"predicted", true}, {"ratio", true}, {""}});
  for (const Row& row : rows) {
    table.add({row.name, fmt::format("{:.1f}", row.published), fmt::format("{:.1f}", row.predicted), fmt::format("{:.2f}", row.ratio()), row.aside ? "aside" : ""});
  }
  fmt::print("{}\n{}{}", table.text(0), summary_of(rows, false), summary_of(rows, true));
  if (!plot.empty()) write_plot(rows, plot);
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::bench::measure(argc, argv); });
}
