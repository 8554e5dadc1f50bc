#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"
#include "forecast/page/parts.h"
#include "page/html.h"
#include "sharding/report.h"
#include "sharding/why.h"

namespace moesh::forecast {
namespace {

using page::escaped;
using sharding::LaidTensor;

constexpr std::size_t kMostActivations = 60;

// A tensor in each plan; null if the plan has none with this path.
struct SameTensor {
  std::string path;
  std::vector<const LaidTensor*> in;
};

const sharding::Layout& layout_of(const Shown& shown, std::size_t plan) { return shown.courses[plan].shown.layout; }

// A tensor's shape, labels, spec, bytes per device and copies in a plan; equal text means an equal layout.
std::string place_of(const Shown& shown, std::size_t plan, const LaidTensor& tensor) {
  const mesh::Mesh& mesh = layout_of(shown, plan).mesh;
  return fmt::format(
      "<span>{}<small>({})</small></span><span>{}</span><span class=\"n\">{}</span><span class=\"n\">{}</span>",
      escaped(to_string(tensor.shape)), escaped(sharding::words_of(tensor.labels())), escaped(sharding::spec_words(tensor.spec, mesh)),
      human_bytes(bytes_per_device(tensor, mesh)), with_commas(replicas(tensor, mesh)));
}

bool differs(const Shown& shown, const SameTensor& same) {
  if (shown.is_one()) return false;
  for (std::size_t i = 0; i < same.in.size(); ++i) {
    if (same.in[i] == nullptr || same.in[0] == nullptr) return true;
    if (place_of(shown, i, *same.in[i]) != place_of(shown, 0, *same.in[0])) return true;
  }
  return false;
}

std::int64_t largest(const Shown& shown, const SameTensor& same) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < same.in.size(); ++i) {
    if (same.in[i] != nullptr) bytes = std::max(bytes, bytes_per_device(*same.in[i], layout_of(shown, i).mesh));
  }
  return bytes;
}

using Tensors = std::vector<LaidTensor> sharding::Layout::*;

std::vector<SameTensor> tensors_of(const Shown& shown, Tensors list) {
  std::vector<SameTensor> all;
  std::map<std::string, std::size_t> known;
  for (std::size_t i = 0; i < shown.courses.size(); ++i) {
    for (const LaidTensor& tensor : layout_of(shown, i).*list) {
      const auto [entry, is_new] = known.try_emplace(tensor.path, all.size());
      if (is_new) all.push_back({tensor.path, std::vector<const LaidTensor*>(shown.courses.size())});
      all[entry->second].in[i] = &tensor;
    }
  }
  return all;
}

std::string why_html(const sharding::Layout& layout, const LaidTensor& tensor) {
  std::string made = "<table class=\"rules\">";
  for (const sharding::Verdict& verdict : sharding::verdicts(layout, tensor)) {
    const bool has_won = verdict.outcome == sharding::Outcome::taken || verdict.outcome == sharding::Outcome::settled;
    made += fmt::format("<tr class=\"{}\"><td>{}</td><td>{}</td><td>{}</td></tr>", has_won ? "won" : "lost",
                        escaped(verdict.rule), escaped(verdict.words), escaped(verdict.where));
  }
  made += "</table>";
  for (const std::string& words : split(sharding::remarks(layout, tensor), '\n'))
    made += words.empty() ? "" : fmt::format("<p class=\"small\">{}</p>", escaped(words));
  return made;
}

// A moment follows the rules of its parameter, to which the text refers if their specs are equal.
std::string why_of(const Shown& shown, std::size_t plan, const LaidTensor& tensor) {
  const sharding::Layout& layout = layout_of(shown, plan);
  if (tensor.moment_of.empty()) return why_html(layout, tensor);
  const auto parameter = std::find_if(layout.parameters.begin(), layout.parameters.end(),
                                      [&](const LaidTensor& other) { return other.path == tensor.moment_of; });
  if (parameter != layout.parameters.end() && parameter->spec == tensor.spec)
    return fmt::format("<p class=\"small\">As its parameter {}.</p>", escaped(tensor.moment_of));
  return why_html(layout, tensor);
}

std::string row(const Shown& shown, const SameTensor& same) {
  const bool is_other = differs(shown, same);
  std::string made =
      fmt::format("<details class=\"t{}\"><summary><b>{}</b>", is_other ? " other" : "", escaped(same.path));
  std::string why;
  for (std::size_t i = 0; i < same.in.size(); ++i) {
    if (!is_other && i > 0) break;
    const std::string name = is_other ? name_html(shown, i) : "", room = shown.is_one() ? "" : "<span></span>";
    made += fmt::format("<span class=\"place\">{}{}</span>", is_other ? name : room,
                        same.in[i] == nullptr ? "<span>not there</span>" : place_of(shown, i, *same.in[i]));
    if (same.in[i] != nullptr) why += fmt::format("<div>{}{}</div>", name, why_of(shown, i, *same.in[i]));
  }
  return made + fmt::format("</summary><div class=\"whys\">{}</div></details>\n", why);
}

std::string group(const Shown& shown, const std::string& title, const std::vector<SameTensor>& all) {
  if (all.empty()) return "";
  std::string made = fmt::format("<h3>{} <small>{}</small></h3><div class=\"tensors\">\n", title, all.size());
  for (const SameTensor& same : all) made += row(shown, same);
  return made + "</div>\n";
}

// Returns the tensors that are laid out alike in all plans; those that differ go to `others`.
std::vector<SameTensor> alike(const Shown& shown, std::vector<SameTensor> all, std::vector<SameTensor>& others) {
  const auto first =
      std::stable_partition(all.begin(), all.end(), [&](const SameTensor& same) { return !differs(shown, same); });
  others.insert(others.end(), first, all.end());
  all.erase(first, all.end());
  return all;
}

void keep_largest(const Shown& shown, std::vector<SameTensor>& all) {
  std::stable_sort(all.begin(), all.end(),
                   [&](const SameTensor& a, const SameTensor& b) { return largest(shown, a) > largest(shown, b); });
  if (all.size() > kMostActivations) all.resize(kMostActivations);
}

}  // namespace

std::string tensors_part(const Shown& shown) {
  std::string made =
      "<section id=\"tensors\"><h2>Tensors</h2><p>Shape and labels, the axes that shard each dim, bytes a device, and "
      "on how many devices each shard stands. "
      "Each opens to the rules that put it there.</p>"
      "<input id=\"find\" type=\"search\" placeholder=\"find: a name, a label, an axis\" aria-label=\"find tensors\" "
      "hidden>\n"
      "<div class=\"t head\"><b>tensor</b><span class=\"place\">";
  if (!shown.is_one()) made += "<span></span>";
  made +=
      "<span>shape (labels)</span><span>lies as</span><span class=\"n\">a device</span><span "
      "class=\"n\">copies</span></span></div>\n";
  std::vector<SameTensor> others;
  const auto alike_of = [&](Tensors list) { return alike(shown, tensors_of(shown, list), others); };
  const std::vector<SameTensor> parameters = alike_of(&sharding::Layout::parameters);
  const std::vector<SameTensor> caches = alike_of(&sharding::Layout::states);
  std::vector<SameTensor> activations = alike_of(&sharding::Layout::activations);
  const std::vector<SameTensor> moments = alike_of(&sharding::Layout::moments);
  keep_largest(shown, activations);
  if (!shown.is_one() && others.empty()) made += "<p>All lie alike.</p>\n";
  made += group(shown, "Those that differ", others) + group(shown, "Parameters", parameters) + group(shown, "KV cache", caches) +
          group(shown, "Large activations", activations);
  return made + group(shown, "Moments of the optimizer", moments) + "</section>\n";
}

}  // namespace moesh::forecast
