#include "train/remat.h"

#include "config/model_shape.h"

namespace moesh::train {
namespace {

// The names that each of MaxText's policies keeps, apart from full.
std::set<std::string> kept_names(const config::Settings& settings) {
  const std::string& policy = settings.text("remat_policy");
  const std::set<std::string> projections{"query_proj", "key_proj", "value_proj", "qkv_proj"};
  const auto and_also = [](std::set<std::string> names, std::initializer_list<std::string> more) {
    names.insert(more);
    return names;
  };
  if (policy == "save_out_proj") return {"out_proj"};
  if (policy == "save_qkv_proj" || policy == "qkv_proj_offloaded") return projections;
  const std::set<std::string> attention = and_also(projections, {"out_proj"});
  if (policy == "save_dot_except_mlp") return attention;
  if (policy == "save_dot_with_context_except_mlp") return and_also(attention, {"context"});
  if (policy == "save_dot_except_mlpwi") return and_also(attention, {"mlpwo"});
  const std::set<std::string> dots = and_also(attention, {"mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo"});
  if (policy == "minimal" || policy == "minimal_offloaded") return dots;
  if (policy == "minimal_with_quantization") return and_also(dots, {"quantization"});
  if (policy == "minimal_with_context_and_quantization") return and_also(dots, {"context", "quantization"});
  if (policy == "minimal_with_context" || policy == "minimal_flash") return and_also(dots, {"context"});
  std::set<std::string> chosen;
  for (const std::string_view name : config::kSavedValues) {
    if (settings.text(name) != "remat") chosen.emplace(name);
  }
  return chosen;
}

// In MaxText a few values have two names each: adds the one that is used here if the other one is given.
std::set<std::string> with_other_names(std::set<std::string> names, const config::Settings& settings) {
  const auto also_called = [&](const char* tag, const char* other) {
    if (names.contains(other)) names.insert(tag);
  };
  also_called("context", "attention_out");
  also_called("moe_mlpwi_0", "mlpwi_0");
  also_called("moe_mlpwo", "mlpwo");
  if (!settings.boolean("sparse_matmul")) also_called("moe_mlpwi_1", "mlpwi_1");
  return names;
}

}  // namespace

graph::Remat remat_of(const config::Settings& settings) {
  const std::string& policy = settings.text("remat_policy");
  graph::Remat remat;
  remat.save_all = policy.empty() || policy == "everything";
  if (remat.save_all || policy == "full") return remat;
  remat.tags = with_other_names(kept_names(settings), settings);
  return remat;
}

std::set<std::string> offloaded_names(const config::Settings& settings) {
  const std::string& policy = settings.text("remat_policy");
  if (policy.ends_with("_offloaded")) return with_other_names(kept_names(settings), settings);
  std::set<std::string> names;
  if (policy != "custom") return names;
  for (const std::string_view name : config::kSavedValues) {
    if (settings.text(name) == "offload") names.emplace(name);
  }
  if (settings.text("decoder_layer_input") == "offload") names.insert("decoder_layer_input");
  return with_other_names(names, settings);
}

}  // namespace moesh::train
