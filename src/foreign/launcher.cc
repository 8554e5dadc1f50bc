#include "foreign/launcher.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "foreign/flags.h"

namespace moesh::foreign {
namespace {

bool is_script(const ShellWord& word) {
  constexpr std::string_view kEndings[] = {".py", "run_train.sh", "torchtitan.train"};
  return !word.is_sign &&
         std::any_of(std::begin(kEndings), std::end(kEndings), [&](std::string_view ending) { return word.text.ends_with(ending); });
}

// Parses a count; "gpu", "1:4" and a shell variable are not counts.
std::optional<std::int64_t> count_in(const std::string& text) {
  const std::optional<std::int64_t> number = parse_integer(text);
  return number && *number > 0 && *number < 1'000'000 ? number : std::nullopt;
}

std::optional<std::int64_t> number_of(Flags& flags, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Flag* flag = flags.find(name);
    if (flag == nullptr || flag->values.empty()) continue;
    if (const auto number = count_in(flag->values.front())) return number;
  }
  return std::nullopt;
}

// The number of devices: NGPU for torchtitan's script, else the total number of processes, else processes per node times nodes. There is
// one node unless the launcher is told otherwise.
std::optional<std::int64_t> devices_of(const std::vector<std::string>& words, const std::string& where) {
  for (const std::string& word : words) {
    if (word.starts_with("NGPU=")) return count_in(word.substr(5));
  }
  Flags flags(with_dashes(flags_of(words, where)));
  if (const auto all = number_of(flags, {"world-size", "ntasks"})) return all;
  const auto nodes = number_of(flags, {"nnodes", "nodes"});
  const auto each = number_of(flags, {"nproc-per-node", "ntasks-per-node", "gpus-per-node"});
  const bool says_nodes = flags.has("nnodes") || flags.has("nodes");
  if (!each || (says_nodes && !nodes)) return std::nullopt;
  return *each * nodes.value_or(1);
}

constexpr std::string_view kOfLaunchers[] = {"world-size",    "nnodes",       "nodes",        "nproc-per-node", "ntasks-per-node",
                                             "gpus-per-node", "ntasks",       "node-rank",    "master-addr",    "master-port",
                                             "rdzv-id",       "rdzv-backend", "rdzv-endpoint"};

bool is_of_launcher(std::string word) {
  if (!word.starts_with("--")) return false;
  word = word.substr(2, word.find('=') - 2);
  std::replace(word.begin(), word.end(), '_', '-');
  return std::find(std::begin(kOfLaunchers), std::end(kOfLaunchers), word) != std::end(kOfLaunchers);
}

}  // namespace

Launched take_launcher(const std::vector<ShellWord>& words, const std::string& where) {
  Launched launched;
  std::vector<std::string> before;
  const auto script = std::find_if(words.begin(), words.end(), is_script);
  const auto begin = script == words.end() ? words.begin() : script + 1;
  for (auto word = words.begin(); word != begin; ++word) before.push_back(word->text);
  bool belongs_to_launcher = false;
  for (auto word = begin; word != words.end() && !word->is_sign; ++word) {
    if (word->text.find("[@]}") != std::string::npos || word->text.find("[*]}") != std::string::npos) {
      refuse(fmt::format("'{}', whose flags stand elsewhere", shorten(word->text, 60)), where,
             "give the command with its arrays written out, as `bash -x SCRIPT` prints it");
    }
    if (word->text.starts_with("--")) belongs_to_launcher = is_of_launcher(word->text);
    (belongs_to_launcher ? before : launched.words).push_back(word->text);
  }
  launched.devices = devices_of(before, where);
  return launched;
}

}  // namespace moesh::foreign
