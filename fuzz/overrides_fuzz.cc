// Fuzzes command lines: any words give a layout with all its reports, or an error.
#include <array>

#include "config/builtin.h"
#include "config/schema.h"
#include "fuzz/mutate.h"
#include "fuzz/targets.h"

namespace moesh::fuzz {
namespace {

std::vector<const config::Key*> all_keys() {
  std::vector<const config::Key*> keys;
  for (const config::Topic& topic : config::topics()) {
    for (const config::Key& key : topic.keys) {
      // Keys that moesh uses are drawn more often than the many that it only accepts.
      keys.insert(keys.end(), key.status == config::Status::used ? 8 : 1, &key);
    }
  }
  return keys;
}

std::string some_number(Random& random) {
  constexpr std::array kNumbers = {"1",   "2",  "3",   "4",    "8",        "0",   "-1",        "7",  "16", "64",
                                   "256", "1000", "65536", "1000000", "1000000000", "0.5", "1e-06", "1.25", "-2", "9e15"};
  return one_of(random, kNumbers);
}

std::string some_list(Random& random) {
  constexpr std::array kLists = {"[]", "null", "[a]", "[data, fsdp]", "[fsdp, data, expert, stage]", "[[data, fsdp]]",
                                 "[[embed, [fsdp]], [mlp, []]]", "[[exp, [expert]], [embed, null], [exp, fsdp]]",
                                 "[activation_batch, activation_length]", "[silu, linear]", "[1, 2]", "{a: b}", "[~]"};
  return one_of(random, kLists);
}

std::string name_in(Random& random, std::string_view folder) {
  const std::vector<std::string> names = config::builtin_names(folder);
  return one_of(random, names);
}

std::string some_value(Random& random, const config::Key& key) {
  if (below(random, 16) == 0) return some_number(random);
  if (below(random, 32) == 0) return some_list(random);
  if (key.name == "model_name") return name_in(random, "models");
  if (key.name == "custom_mesh_and_rule") return name_in(random, "rules");
  if (key.name == "compile_topology") return name_in(random, "hardware") + "-" + some_number(random);
  switch (key.kind) {
    case config::Kind::boolean: return below(random, 2) == 0 ? "true" : "false";
    case config::Kind::integer:
    case config::Kind::real: return below(random, 8) == 0 ? std::string(key.initial) : some_number(random);
    case config::Kind::choice: return std::string(one_of(random, config::choices(key)).word);
    default: return some_list(random);
  }
}

std::string some_override(Random& random) {
  static const std::vector<const config::Key*> keys = all_keys();
  const config::Key& key = *one_of(random, keys);
  return std::string(key.name) + "=" + some_value(random, key);
}

}  // namespace
}  // namespace moesh::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return moesh::fuzz::mutate_text(data, size, max_size, seed, moesh::fuzz::some_override);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  moesh::fuzz::fuzz_overrides(moesh::fuzz::as_text(data, size));
  return 0;
}
