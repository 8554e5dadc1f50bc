// Options that something else stands for here. One that rule sets replaced: a notice if the rules in force already do the same, otherwise
// an error that names the right ones. A value by an older name: a notice. A kernel of another engine: a notice that one of moesh's computes
// the same. A key by an older name: its value is that of the key, with a notice.
#include <array>
#include <string_view>

#include <fmt/core.h>

#include "base/error.h"
#include "config/load.h"

namespace moesh::config {
namespace {

struct Replacement {
  std::string_view option;
  std::string_view rule_set;  // empty: the default rules
};

constexpr std::array<Replacement, 3> kAttentionOptions{{{"tp", "ep-tp"}, {"context", "ep-as-cp"}, {"fsdp", ""}}};

constexpr std::pair<std::string_view, std::string_view> kOlderNames[] = {{"use_sparse_indexer", "use_indexer"},
                                                                         {"index_n_heads", "indexer_n_heads"},
                                                                         {"index_head_dim", "indexer_head_dim"},
                                                                         {"index_topk", "indexer_topk"}};

std::string spelled(std::string_view rule_set) {
  return rule_set.empty() ? "the default rules" : fmt::format("custom_mesh_and_rule={}", rule_set);
}

}  // namespace

void take_older_names(Settings& settings, std::vector<std::string>& notices) {
  for (const auto& [older, name] : kOlderNames) {
    if (!settings.is_given(older)) continue;
    if (settings.is_by_user(name) && settings.value(name) != settings.value(older)) {
      refuse(fmt::format("{}={} and {}={} are given, which are two names of one key", older, to_string(settings.value(older)), name,
                         to_string(settings.value(name))),
             settings.origin(older).where, fmt::format("leave out {}, the older name", older));
    }
    settings.set(name, settings.value(older), settings.origin(older));
    notices.push_back(fmt::format("{} is an older name of {}", older, name));
  }
}

void answer_replaced_options(const Settings& settings, std::vector<std::string>& notices) {
  constexpr const char* kKey = "expert_shard_attention_option";
  const std::string &option = settings.text(kKey), &chosen = settings.text("custom_mesh_and_rule");
  for (const auto& [replaced, rule_set] : kAttentionOptions) {
    if (replaced != option) continue;
    const std::string given = fmt::format("{}={}", kKey, option);
    if (chosen == rule_set) {
      notices.push_back(fmt::format("{} is deprecated: {} already says it", given, spelled(rule_set)));
      continue;
    }
    refuse(fmt::format("{} is deprecated, and {} {} in force", given, spelled(chosen), chosen.empty() ? "are" : "is"),
           settings.origin(kKey).where,
           rule_set.empty() ? "leave both options out: the default rules say it" : "use " + spelled(rule_set) + " instead");
  }
  if (settings.text("remat_policy").empty())
    notices.emplace_back("remat_policy= saves everything, as remat_policy=everything says; for MaxText it is full");
  if (settings.text("remat_policy") == "minimal_flash")
    notices.emplace_back("remat_policy=minimal_flash is an older name of minimal_with_context");
  if (settings.text("decoder_block") == "qwen3_5" && settings.is_by_user("decoder_block"))
    notices.emplace_back("decoder_block=qwen3_5 is qwen3_next here, with text alone, but for its names in Hugging Face's files");
  if (const std::string& attention = settings.text("attention"); attention.starts_with("cudnn_flash"))
    notices.push_back(fmt::format("attention={} is computed as attention=flash: kernels are moesh's own", attention));
}

}  // namespace moesh::config
