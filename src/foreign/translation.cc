#include "foreign/translation.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::foreign {
namespace {

// The key of "key=value"; empty for FILE.yml.
std::string_view key_of(std::string_view word) {
  const std::size_t equals = word.find('=');
  return equals == std::string_view::npos ? std::string_view() : word.substr(0, equals);
}

bool is_prefix(const std::string& name) { return name.ends_with('*'); }

bool holds(std::string_view names, std::string_view name) {
  const std::vector<std::string> all = split(names, ' ');
  return std::any_of(all.begin(), all.end(), [&](const std::string& one) {
    return is_prefix(one) ? name.starts_with(std::string_view(one).substr(0, one.size() - 1)) : name == one;
  });
}

std::vector<std::string> known_names(const KnownProgram& program) {
  std::vector<std::string> names(program.translated.begin(), program.translated.end());
  for (const DifferingFlag& flag : program.differing) names.emplace_back(flag.name);
  for (const KnownFlags& flags : program.idle) {
    for (std::string& name : split(flags.names, ' ')) {
      if (!is_prefix(name)) names.push_back(std::move(name));
    }
  }
  return names;
}

std::vector<std::string> words_in(std::string_view name) {
  std::string words = lower(name);
  std::replace_if(
      words.begin(), words.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return split(words, '-');
}

// The share of the words that two names have in common, from 0 to 1; a misspelled long word counts a little less.
double likeness(const std::vector<std::string>& words, const std::vector<std::string>& others) {
  constexpr std::size_t kLong = 6;
  double common = 0;
  for (const std::string& word : words) {
    if (std::find(others.begin(), others.end(), word) != others.end()) {
      common += 1;
    } else if (word.size() >= kLong && !nearest(word, others, 1).empty()) {
      common += 0.9;
    }
  }
  return 2 * common / static_cast<double>(words.size() + others.size());
}

// The name with the most words in common, with the same first word if there are several, or else the nearest by its letters; empty if
// there is none.
std::string likeliest(const std::string& name, const std::vector<std::string>& known) {
  constexpr double kAlike = 0.6;
  const std::vector<std::string> words = words_in(name);
  double most = kAlike;
  std::vector<std::string> best;
  for (const std::string& one : known) {
    const double alike = likeness(words, words_in(one));
    if (alike < most) continue;
    if (alike > most) best.clear();
    most = alike;
    best.push_back(one);
  }
  if (best.empty()) best = nearest(name, known, 1);
  const auto same = std::find_if(best.begin(), best.end(), [&](const std::string& one) { return words_in(one).front() == words.front(); });
  return same != best.end() ? *same : best.empty() ? "" : best.front();
}

std::string unknown_words(const std::string& name, const KnownProgram& program) {
  const std::string close = likeliest(shorten(name, 60), known_names(program));
  const std::string hint = close.empty() ? "" : fmt::format("; the nearest is --{}", close);
  return fmt::format("--{} is no flag of {}, and says nothing here{}", shorten(name, 60), program.name, hint);
}

std::string_view word_for(Note::Kind kind) {
  switch (kind) {
    case Note::Kind::assumed: return "assumed";
    case Note::Kind::differs: return "differs";
    case Note::Kind::idle: return "not needed";
    case Note::Kind::unknown: return "unknown";
  }
  return "";
}

// The flags that were not translated, sorted by what is known of them.
struct Left {
  std::vector<std::pair<std::string_view, std::vector<std::string>>> differing;  // grouped by reason
  std::map<const KnownFlags*, std::vector<std::string>> idle;                    // in the order of the program's list
  std::vector<std::string> unneeded;
  std::vector<std::string> unknown;  // without dashes
};

void add_differing(std::string_view why, const std::string& name, Left& left) {
  auto found = std::find_if(left.differing.begin(), left.differing.end(), [&](const auto& reason) { return reason.first == why; });
  if (found == left.differing.end()) found = left.differing.insert(found, {why, {}});
  found->second.push_back(name);
}

Left left_of(const Flags& flags, const KnownProgram& program) {
  Left left;
  for (const Flag& flag : flags.left()) {
    const std::string name = "--" + flag.name;
    const auto differing =
        std::find_if(program.differing.begin(), program.differing.end(), [&](const DifferingFlag& one) { return one.name == flag.name; });
    const auto idle =
        std::find_if(program.idle.begin(), program.idle.end(), [&](const KnownFlags& known) { return holds(known.names, flag.name); });
    if (differing != program.differing.end()) {
      add_differing(differing->why, name, left);
    } else if (idle != program.idle.end()) {
      left.idle[&*idle].push_back(name);
    } else if (std::find(program.translated.begin(), program.translated.end(), flag.name) != program.translated.end()) {
      left.unneeded.push_back(name);
    } else {
      left.unknown.push_back(flag.name);
    }
  }
  return left;
}

void note_unknown(const std::vector<std::string>& names, const KnownProgram& program, Translation& translation) {
  constexpr std::size_t kMost = 20;
  for (std::size_t i = 0; i < std::min(names.size(), kMost); ++i)
    translation.note(Note::Kind::unknown, unknown_words(names[i], program));
  if (names.size() <= kMost) return;
  const std::string rest = counted(static_cast<std::int64_t>(names.size() - kMost), "flag");
  translation.note(Note::Kind::unknown, fmt::format("{} more that {} does not have", rest, program.name));
}

}  // namespace

std::string told(const std::vector<Note>& notes) {
  std::string text;
  for (const Note& note : notes) text += fmt::format("{}: {}\n", word_for(note.kind), note.text);
  return text;
}

std::optional<std::string> Translation::own(std::string_view key) const {
  const auto found = std::find_if(own_.rbegin(), own_.rend(), [&](const std::string& word) { return key_of(word) == key; });
  return found == own_.rend() ? std::nullopt : std::optional(found->substr(key.size() + 1));
}

void Translation::give(std::string_view key, const std::string& value) {
  if (is_own(key)) return;
  std::string word = fmt::format("{}={}", key, value);
  const auto given = std::find_if(made_.keys.begin(), made_.keys.end(), [&](const std::string& one) { return key_of(one) == key; });
  if (given != made_.keys.end()) {
    *given = std::move(word);
  } else {
    made_.keys.push_back(std::move(word));
  }
}

void Translation::give(std::string_view key, double value) { give(key, fmt::format("{}", value)); }

void note_what_is_left(const Flags& flags, const KnownProgram& program, Translation& translation) {
  const Left left = left_of(flags, program);
  for (const auto& [why, names] : left.differing) translation.differ(fmt::format("{}: {}", join(names, ", "), why));
  for (const auto& [known, names] : left.idle)
    translation.note(Note::Kind::idle, fmt::format("{} ({})", join(names, ", "), known->topic));
  if (!left.unneeded.empty())
    translation.note(Note::Kind::idle, join(left.unneeded, ", ") + " (without effect beside the other flags)");
  note_unknown(left.unknown, program, translation);
}

}  // namespace moesh::foreign
