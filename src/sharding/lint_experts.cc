#include "sharding/lint_experts.h"

#include <fmt/core.h>

#include "base/chance.h"
#include "base/text.h"

namespace moesh::sharding {
namespace {

constexpr double kWorthSaying = 1.25;

// The bytes that a device sends per forward pass, with a balanced router, for tokens that no other device has.
double ring_bytes(double tokens, const LaidRegion& r) {
  const auto n = static_cast<double>(r.devices);
  const double returned = n * tokens * chance_of_any(r.experts / n, r.choices, r.experts) * (n - 1) / n;
  return ((n - 1) * tokens + returned) * r.token_bytes;
}
double exchange_bytes(double tokens, const LaidRegion& r) {
  const auto n = static_cast<double>(r.devices);
  return 2 * tokens * r.choices * (n - 1) / n * r.token_bytes;
}

std::string bytes(double b) { return human_bytes(b); }

std::string axis_words(const LaidRegion& region, const mesh::Mesh& mesh) {
  return join(names_of(region.axes, mesh), "+");
}

// Finds that the other strategy to bring tokens to experts would send clearly fewer bytes.
void find_dearer_strategy(const LaidRegion& r, std::vector<Finding>& findings) {
  const double ring = ring_bytes(r.tokens, r);
  const double exchange = exchange_bytes(r.tokens, r);
  const bool is_ring = r.strategy == Dispatch::ring;
  const double chosen = is_ring ? ring : exchange;
  const double other = is_ring ? exchange : ring;
  if (chosen < kWorthSaying * other) return;
  Finding f{Severity::info, Check::dearer_strategy, "the experts",
            fmt::format("{} a token over {} devices: {} sends more than {} would",
                        counted(static_cast<std::int64_t>(r.choices), "expert"), r.devices,
                        is_ring ? "a ring" : "an all-to-all", is_ring ? "an all-to-all" : "a ring"),
            r.path,
            fmt::format("a device sends {} in a pass forward, the other way {} (even router; a ring always sends whole tokens, "
                        "and has no counts to wait for)", bytes(chosen), bytes(other))};
  f.tries = {{is_ring ? "use_ring_of_experts=false" : "use_ring_of_experts=true"}};
  f.gain = Gain::speed;
  findings.push_back(std::move(f));
}

// Finds that the devices over which the experts are sharded all have the same tokens, which is right for few tokens but costly for many.
void find_shared_tokens(const LaidRegion& r, const mesh::Mesh& mesh, std::vector<Finding>& findings) {
  const auto n = static_cast<double>(r.devices);
  const double summed = 2 * r.tokens * (n - 1) / n * r.token_bytes;  // a reduce-scatter and an all-gather
  const double alone = exchange_bytes(r.tokens / n, r);
  if (summed < kWorthSaying * alone) return;
  Finding f{Severity::info, Check::shared_tokens, "the experts",
            fmt::format("{} devices along {} have the same {} and other experts", r.devices, axis_words(r, mesh),
                        counted(static_cast<std::int64_t>(r.tokens), "token")),
            r.path,
            fmt::format("the layer's sums cost a device {} in a pass forward; with tokens of their own an all-to-all would send {}. "
                        "Few tokens, as in decoding, are what this layout is for", bytes(summed), bytes(alone))};
  f.tries = {{"custom_mesh_and_rule="}};
  f.gain = Gain::speed;
  findings.push_back(std::move(f));
}

// Regions of other layers have the same cause, so their findings are merged.
void add_once(Finding finding, std::vector<Finding>& findings) {
  for (Finding& known : findings) {
    if (known.check != finding.check) continue;
    known.where += ", " + finding.where;
    return;
  }
  findings.push_back(std::move(finding));
}

}  // namespace

std::vector<Finding> lint_experts(const Layout& layout) {
  std::vector<Finding> findings;
  for (const LaidRegion& region : layout.regions) {
    if (region.devices == 1) continue;
    std::vector<Finding> of_region;
    if (region.strategy == Dispatch::local) {
      find_shared_tokens(region, layout.mesh, of_region);
    } else {
      find_dearer_strategy(region, of_region);
    }
    for (Finding& f : of_region) add_once(std::move(f), findings);
  }
  return findings;
}

}  // namespace moesh::sharding
