// The translation of another program's command into moesh's keys, with notes on what the keys do not express.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/engine.h"
#include "foreign/flags.h"

namespace moesh::foreign {

struct Note {
  enum class Kind {
    assumed,  // something that the command does not say
    differs,  // something that is planned differently than the program runs it, and that matters
    idle,     // flags that have no counterpart and need none
    unknown,  // flags that the program does not have
  };
  Kind kind = Kind::assumed;
  std::string text;
};

// The notes, one per line: "differs: ...".
std::string told(const std::vector<Note>& notes);

struct Imported {
  std::vector<std::string> keys;  // "base_emb_dim=4096"; no key that the user gave
  std::vector<Note> notes;
  config::Engine engine;
};

// A translation under construction. `own`: the FILE.yml and key=value that the user gave, which override it.
class Translation {
 public:
  explicit Translation(const std::vector<std::string>& own) : own_(own) {}

  // The user's own value of a key, the last one.
  std::optional<std::string> own(std::string_view key) const;
  bool is_own(std::string_view key) const { return own(key).has_value(); }

  // Sets a key. A key that the user gave keeps the user's value; a later value replaces an earlier one; an absent value changes nothing.
  void give(std::string_view key, const std::string& value);
  void give(std::string_view key, const char* value) { give(key, std::string(value)); }
  void give(std::string_view key, std::int64_t value) { give(key, std::to_string(value)); }
  void give(std::string_view key, double value);
  void give(std::string_view key, std::same_as<bool> auto value) { give(key, value ? "true" : "false"); }
  template <typename Value>
  void give(std::string_view key, const std::optional<Value>& value) {
    if (value) give(key, *value);
  }

  void note(Note::Kind kind, const std::string& text) { made_.notes.push_back({kind, text}); }
  void assume(const std::string& text) { note(Note::Kind::assumed, text); }
  void differ(const std::string& text) { note(Note::Kind::differs, text); }

  void run_by(config::Engine engine) { made_.engine = std::move(engine); }

  Imported take() { return std::move(made_); }

 private:
  const std::vector<std::string>& own_;
  Imported made_;
};

// Flags of one program that have no counterpart, by topic: "--save and --load (checkpoints)".
struct KnownFlags {
  std::string_view topic;
  std::string_view names;  // separated by blanks; "log-*" stands for all names with that beginning
};

struct DifferingFlag {
  std::string_view name;
  std::string_view why;  // "further tokens are not predicted: that layer's parameters and time are missing"
};

// The flags that are known of a program.
struct KnownProgram {
  std::string_view name;  // "Megatron-LM"
  std::span<const KnownFlags> idle;
  std::span<const DifferingFlag> differing;
  std::span<const std::string_view> translated;  // tells flags without effect from misspelled ones, for which it suggests the nearest
};

// Adds notes on what the flags that were not translated mean for the plan.
void note_what_is_left(const Flags& flags, const KnownProgram& program, Translation& translation);

}  // namespace moesh::foreign
