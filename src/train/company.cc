#include "train/company.h"

#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::train {

void check_same(const Company& company, const std::vector<std::pair<std::string, std::string>>& facts) {
  std::string said;
  for (const auto& [name, value] : facts) said += fmt::format("{}\x1f{}\x1e", name, value);
  const std::vector<std::string> all = company.all_say(said, "before the first step");
  const auto read = [](const std::string& words) {
    std::map<std::string, std::string> made;
    for (const std::string& fact : split(words, '\x1e')) {
      const std::size_t middle = fact.find('\x1f');
      if (middle != std::string::npos) made[fact.substr(0, middle)] = fact.substr(middle + 1);
    }
    return made;
  };
  const std::map<std::string, std::string> first = read(all[0]);
  for (std::size_t process = 1; process < all.size(); ++process) {
    std::map<std::string, std::string> other = read(all[process]);
    for (const auto& [name, value] : first) other.try_emplace(name, "not set");
    for (const auto& [name, value] : other) {
      const auto found = first.find(name);
      const std::string of_first = found == first.end() ? "not set" : found->second;
      if (of_first == value) continue;
      refuse(fmt::format("{} is {} in process {}, and {} in process 0", name, shorten(value, 80), process, shorten(of_first, 80)),
             "the processes of the run", "start all of them with the same binary, settings, data and checkpoints");
    }
  }
}

}  // namespace moesh::train
