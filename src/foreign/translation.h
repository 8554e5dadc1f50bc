// What a command of another program comes to in moesh's keys, and what of it they do not say.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foreign/flags.h"

namespace moesh::foreign {

struct Note {
  enum class Kind {
    assumed,  // what the command does not say
    differs,  // what is planned otherwise than it runs there, and matters
    idle,     // flags that have no counterpart, and need none
    unknown,  // flags that the program does not have
  };
  Kind kind = Kind::assumed;
  std::string text;
};

// A line each: "differs: ...".
std::string told(const std::vector<Note>& notes);

struct Imported {
  std::vector<std::string> keys;  // "base_emb_dim=4096", none of which the user gave
  std::vector<Note> notes;
};

// A translation as it is made. `own`: what the user gave besides, FILE.yml and key=value, which win.
class Translation {
 public:
  explicit Translation(const std::vector<std::string>& own) : own_(own) {}

  // The user's own value of a key, the last one.
  std::optional<std::string> own(std::string_view key) const;
  bool is_own(std::string_view key) const { return own(key).has_value(); }

  // Keys that the user gave are left to them; a later value of one key replaces the earlier, and no value leaves it as it is.
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

  Imported take() { return std::move(made_); }

 private:
  const std::vector<std::string>& own_;
  Imported made_;
};

// Flags of one program that have no counterpart, by what they are about: "--save and --load (checkpoints)".
struct KnownFlags {
  std::string_view topic;
  std::string_view names;  // between blanks; "log-*" for all that begin so
};

struct DifferingFlag {
  std::string_view name;
  std::string_view why;  // "further tokens are not predicted: that layer's parameters and time are missing"
};

// What a program has besides the flags that are translated.
struct KnownProgram {
  std::string_view name;  // "Megatron-LM"
  std::span<const KnownFlags> idle;
  std::span<const DifferingFlag> differing;
  std::span<const std::string_view> translated;  // for what is nearest to a misspelled one
};

// Tells of all flags that are left what they mean here.
void note_what_is_left(const Flags& flags, const KnownProgram& program, Translation& translation);

}  // namespace moesh::foreign
