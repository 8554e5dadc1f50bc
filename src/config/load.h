// From a command line to settings: built-in defaults, a file, a model preset, rule sets and key=value overrides.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace moesh::config {

struct Loaded {
  Settings settings;
  std::vector<std::string> notices;  // what the user should know, one sentence each
};

// `arguments`: at most one FILE.yml, and key=value overrides of which a later one wins. Weakest first: the schema, the
// built-in base.yml, FILE.yml with what it inherits, the model's preset, M_KEY environment variables, the overrides;
// custom_mesh_and_rule then replaces mesh axes and rules.
Loaded load(const std::vector<std::string>& arguments);

// What in a request, or in the environment, names the model: a file, model_name, decoder_block, the number of layers or one of their sizes.
// Other keys, such as num_experts or vocab_size, change a model but name none.
struct ModelNaming {
  enum class By { nothing, file, model_name, sizes };
  By by = By::nothing;
  std::string words = {};  // "FILE.yml", "model_name", "M_DECODER_BLOCK"
};
ModelNaming what_names_the_model(const std::vector<std::string>& arguments);

// Gives keys the values of their older names, with notices.
void take_older_names(Settings& settings, std::vector<std::string>& notices);

// Answers options that were replaced by a rule set: with notices, or by refusing them.
void answer_replaced_options(const Settings& settings, std::vector<std::string>& notices);

// Refuses contradictions between keys that can be seen without a mesh.
void check_settings(const Settings& settings);
// Refuses what only a training step cannot do.
void check_training(const Settings& settings);
// Tells of losses beside the entropy whose gradients several microbatches make small; empty if there are none.
std::string diluted_losses(const Settings& settings);

// That an indexer may choose all keys of a row; empty if it leaves some out, or if there is none.
std::string idle_indexer(const Settings& settings);

}  // namespace moesh::config
