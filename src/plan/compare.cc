#include "plan/compare.h"

#include <algorithm>
#include <map>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "graph/print.h"
#include "graph/words.h"
#include "plan/fields.h"

namespace moesh::plan {
namespace {

using graph::Words;

constexpr const char* kSaveThisRequest = "save the plan of this request: `moesh compile ... --save-plan FILE`";
constexpr std::size_t kMostSettings = 6;

std::string differs(const std::string& what, const std::string& saved, const std::string& here) {
  const auto words = [](const std::string& text) { return text.empty() ? std::string("nothing") : shorten(text, 120); };
  return fmt::format("{} is {} in the file and {} here", what, words(saved), words(here));
}

std::string differs(const std::string& what, std::size_t saved, std::size_t here) {
  return fmt::format("the file has {}, here are {}", counted(static_cast<std::int64_t>(saved), what), here);
}

class Comparison {
 public:
  Comparison(const Plan& saved, const Plan& here)
      : saved_(saved), here_(here), saved_words_(&saved.mesh), here_words_(&here.mesh) {}

  // Compares ports and instructions with the views and buffers that they name, then the lists themselves, whose numbering may differ.
  std::string run() {
    compare("the mesh", saved_words_(saved_.mesh), here_words_(here_.mesh));
    for (std::size_t i = 0; i < std::min(saved_.ports.size(), here_.ports.size()); ++i) compare_port(i);
    for (std::size_t i = 0; i < std::min(saved_.instructions.size(), here_.instructions.size()); ++i) compare_instruction(i);
    compare_lists("buffer", saved_.buffers, here_.buffers);
    compare_lists("view", saved_.views, here_.views);
    compare_lists("instruction", saved_.instructions, here_.instructions);
    compare_lists("port", saved_.ports, here_.ports);
    compare("the list of results", saved_words_(saved_.results), here_words_(here_.results));
    return found_;
  }

 private:
  void note(const std::string& difference) {
    if (found_.empty()) found_ = difference;
  }

  void compare(const std::string& what, const std::string& saved, const std::string& here) {
    if (found_.empty() && saved != here) found_ = differs(what, saved, here);
  }

  // Compares each field, without those that are numbers of buffers, views or instructions unless `with_numbers`.
  template <typename Of>
  void compare_fields(const std::string& of, const Of& saved, const Of& here, bool with_numbers) {
    if (!found_.empty()) return;
    const auto one = [&](const auto& field) {
      using T = std::remove_cvref_t<decltype(saved.*field.member)>;
      constexpr bool is_number = std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::vector<std::int32_t>>;
      if (is_number && field.name != "split" && !with_numbers) return;
      compare(fmt::format("{}the {} of {}", prefix_, field.name, of), saved_words_(saved.*field.member),
              here_words_(here.*field.member));
    };
    std::apply([&](const auto&... field) { (one(field), ...); }, fields_of(static_cast<const Of*>(nullptr)));
  }

  void compare_view(const std::string& what, ViewId saved, ViewId here) {
    compare_fields(what, saved_.view(saved), here_.view(here), false);
    compare_fields("the buffer of " + what, saved_.buffer_of(saved), here_.buffer_of(here), false);
  }

  void compare_views(const std::string& what, const std::vector<ViewId>& saved, const std::vector<ViewId>& here) {
    if (!found_.empty()) return;
    if (saved.size() != here.size()) return note(prefix_ + differs(what, saved.size(), here.size()));
    for (std::size_t i = 0; i < saved.size(); ++i) compare_view(fmt::format("{} {}", what, i), saved[i], here[i]);
  }

  void compare_port(std::size_t i) {
    if (!found_.empty()) return;
    const Port &saved = saved_.ports[i], &here = here_.ports[i];
    prefix_ = fmt::format("port {}: ", i);
    compare_fields("it", saved, here, false);
    prefix_ = fmt::format("port {} ({}): ", i, saved.name);
    compare_view("its value", saved.view, here.view);
    prefix_.clear();
  }

  static std::string name_of_kind(const Instruction& of) { return fmt::format("{} {}", name_of(of.kind), graph::name_of(of.op)); }

  void compare_instruction(std::size_t i) {
    if (!found_.empty()) return;
    const Instruction &saved = saved_.instructions[i], &here = here_.instructions[i];
    compare(fmt::format("instruction {}", i), fmt::format("{} of {}", name_of_kind(saved), saved.path),
            fmt::format("{} of {}", name_of_kind(here), here.path));
    prefix_ = fmt::format("instruction {} ({} of {}): ", i, name_of_kind(saved), saved.path);
    compare(prefix_ + "what it does", graph::to_text(saved.attributes, &saved_.mesh),
            graph::to_text(here.attributes, &here_.mesh));
    compare_views("operand", saved.operands, here.operands);
    compare_views("result", saved.results, here.results);
    compare_fields("it", saved, here, false);
    prefix_.clear();
  }

  template <typename Of>
  void compare_lists(const std::string& what, const std::vector<Of>& saved, const std::vector<Of>& here) {
    for (std::size_t i = 0; i < std::min(saved.size(), here.size()); ++i)
      compare_fields(fmt::format("{} {}", what, i), saved[i], here[i], true);
    if (saved.size() != here.size()) note(differs(what, saved.size(), here.size()));
  }

  const Plan& saved_;
  const Plan& here_;
  Words saved_words_;
  Words here_words_;
  std::string prefix_;
  std::string found_;
};

// "learning_rate is 0.1 in the file and 0.2 here; ...".
std::string differing_settings(const Origin& saved, const Origin& here) {
  std::map<std::string, std::pair<std::string, std::string>> all;
  for (const auto& [key, value] : saved.settings) all[key].first = value;
  for (const auto& [key, value] : here.settings) all[key].second = value;
  std::vector<std::string> words;
  for (const auto& [key, values] : all) {
    const auto word = [](const std::string& value) { return value.empty() ? std::string("its default") : shorten(value, 60); };
    if (values.first != values.second)
      words.push_back(fmt::format("{} is {} in the file and {} here", key, word(values.first), word(values.second)));
  }
  if (words.size() > kMostSettings) {
    const std::size_t more = words.size() - kMostSettings;
    words.resize(kMostSettings);
    words.push_back(fmt::format("and {} more differ", more));
  }
  return join(words, "; ");
}

std::string machine_words(const Origin& origin) {
  return origin.slices == 1 ? origin.target : fmt::format("{} slices of {}", origin.slices, origin.target);
}

}  // namespace

std::string first_difference(const Plan& saved, const Plan& here) { return Comparison(saved, here).run(); }

void check_same(const SavedPlan& saved, const Plan& here, const Origin& origin, const std::string& path) {
  if (saved.origin.target != origin.target || saved.origin.slices != origin.slices) {
    refuse(fmt::format("the plan is for {}, this run is on {}", machine_words(saved.origin), machine_words(origin)), path,
           "ask for the same compile_topology, or " + std::string(kSaveThisRequest));
  }
  const std::string of_file = Words(&saved.plan.mesh)(saved.plan.mesh), of_here = Words(&here.mesh)(here.mesh);
  if (of_file != of_here) {
    refuse(fmt::format("the plan is for the mesh {}, this run is on {}", of_file, of_here), path,
           "ask for the same axis sizes, or " + std::string(kSaveThisRequest));
  }
  const std::string difference = first_difference(saved.plan, here);
  if (difference.empty()) return;
  const std::string settings = differing_settings(saved.origin, origin);
  refuse("the plan is not what this request runs: " + difference, path,
         settings.empty() ? kSaveThisRequest : fmt::format("{}; or {}", settings, kSaveThisRequest));
}

}  // namespace moesh::plan
