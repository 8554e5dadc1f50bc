// The flags of another program's command. They are looked up by name, and those that were never looked up can be reported.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::foreign {

struct Flag {
  std::string name;                 // "num-layers", "training.seq_len"
  std::vector<std::string> values;  // the words after it, up to the next flag
  std::string where;                // for messages: "--from megatron: --num-layers", "job.toml:12"
};

// The largest integer that most flags accept, so that the product of any two fits 64 bits with room for sums; and the largest for flags
// that are never multiplied.
inline constexpr std::int64_t kMostOfAFlag = 1'000'000'000;
inline constexpr std::int64_t kMostAlone = 1'000'000'000'000;

class Flags {
 public:
  explicit Flags(std::vector<Flag> all) : all_(std::move(all)) {}

  // The last flag of that name, as in argparse. The name counts as translated from then on.
  const Flag* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }

  // Whether the flag was given, without counting it as translated.
  bool is_given(std::string_view name) const;

  // The flag's value. A missing value, several values, and a value of another type are refused.
  bool is_set(std::string_view name);  // a flag that takes no value
  std::optional<std::string> text(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least, std::int64_t most = kMostOfAFlag);
  std::optional<double> real(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::string choice(std::string_view name, std::string_view otherwise, const std::vector<std::string>& known);

  // Refuses the value that was given.
  [[noreturn]] void refuse_value(std::string_view name, const std::string& expected);

  // The flags that were never looked up, each once, in the order in which they were given.
  std::vector<Flag> left() const;

 private:
  std::vector<Flag> all_;
  std::set<std::string, std::less<>> asked_;
};

// Parses "--name value" and "--name=value"; words before the first flag are ignored. Messages name `where` before the flag.
std::vector<Flag> flags_of(const std::vector<std::string>& words, const std::string& where);

// The same flags with dashes instead of underscores in their names: "--nproc_per_node" becomes "--nproc-per-node".
std::vector<Flag> with_dashes(std::vector<Flag> flags);

}  // namespace moesh::foreign
