// The flags of a command of another program, each asked for by its name, so that what nobody asked for can be told.
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
  std::vector<std::string> values;  // what stands behind it, up to the next flag
  std::string where;                // for messages: "--from megatron: --num-layers", "job.toml:12"
};

class Flags {
 public:
  explicit Flags(std::vector<Flag> all) : all_(std::move(all)) {}

  // The last one of that name, as argparse has it; afterwards it counts as translated.
  const Flag* find(std::string_view name);
  bool has(std::string_view name) { return find(name) != nullptr; }

  // Whether it is there, without counting it as translated.
  bool is_given(std::string_view name) const;

  // What it says. A missing value, several of them and one of another kind are refused.
  bool is_set(std::string_view name);  // a flag that takes no value
  std::optional<std::string> text(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t least);
  std::optional<double> real(std::string_view name);
  std::optional<bool> boolean(std::string_view name);
  std::string choice(std::string_view name, std::string_view otherwise, const std::vector<std::string>& known);

  // Refuses the value that was given.
  [[noreturn]] void refuse_value(std::string_view name, const std::string& expected);

  // Those that nobody asked for, each once, in the order in which they were given.
  std::vector<Flag> left() const;

 private:
  std::vector<Flag> all_;
  std::set<std::string, std::less<>> asked_;
};

// "--name value", "--name=value"; words before the first flag are none of them. `where` stands before the flag in messages.
std::vector<Flag> flags_of(const std::vector<std::string>& words, const std::string& where);

// The same flags, "--nproc_per_node" as "--nproc-per-node".
std::vector<Flag> with_dashes(std::vector<Flag> flags);

}  // namespace moesh::foreign
