#include "foreign/translation.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/text.h"

namespace moesh::foreign {
namespace {

// "key" of "key=value"; nothing for FILE.yml.
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

std::string unknown_words(const std::string& name, const KnownProgram& program) {
  const std::vector<std::string> close = nearest(name, known_names(program), 1);
  const std::string hint = close.empty() ? "" : fmt::format("; the nearest is --{}", close.front());
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
  std::vector<std::vector<std::string>> idle(program.idle.size());
  std::vector<std::string> unknown, unneeded;
  std::vector<std::pair<std::string_view, std::vector<std::string>>> differing_by_reason;
  for (const Flag& flag : flags.left()) {
    const auto differing =
        std::find_if(program.differing.begin(), program.differing.end(), [&](const DifferingFlag& one) { return one.name == flag.name; });
    const auto topic =
        std::find_if(program.idle.begin(), program.idle.end(), [&](const KnownFlags& one) { return holds(one.names, flag.name); });
    if (differing != program.differing.end()) {
      const auto alike = std::find_if(differing_by_reason.begin(), differing_by_reason.end(),
                                      [&](const auto& reason) { return reason.first == differing->why; });
      auto& reason =
          alike == differing_by_reason.end() ? differing_by_reason.emplace_back(differing->why, std::vector<std::string>()) : *alike;
      reason.second.push_back("--" + flag.name);
    } else if (topic != program.idle.end()) {
      idle[static_cast<std::size_t>(topic - program.idle.begin())].push_back("--" + flag.name);
    } else if (std::find(program.translated.begin(), program.translated.end(), flag.name) != program.translated.end()) {
      unneeded.push_back("--" + flag.name);
    } else {
      unknown.push_back(flag.name);
    }
  }
  for (const auto& [why, names] : differing_by_reason) translation.differ(fmt::format("{}: {}", join(names, ", "), why));
  for (std::size_t i = 0; i < idle.size(); ++i) {
    if (!idle[i].empty()) translation.note(Note::Kind::idle, fmt::format("{} ({})", join(idle[i], ", "), program.idle[i].topic));
  }
  if (!unneeded.empty()) translation.note(Note::Kind::idle, join(unneeded, ", ") + " (without effect beside the other flags)");
  constexpr std::size_t kMostUnknown = 20;
  for (std::size_t i = 0; i < std::min(unknown.size(), kMostUnknown); ++i)
    translation.note(Note::Kind::unknown, unknown_words(unknown[i], program));
  if (unknown.size() > kMostUnknown) {
    const auto rest = static_cast<std::int64_t>(unknown.size() - kMostUnknown);
    translation.note(Note::Kind::unknown, fmt::format("{} more that {} does not have", counted(rest, "flag"), program.name));
  }
}

}  // namespace moesh::foreign
