// The one table of configuration keys: type, default, range, help, and what moesh does with each.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace moesh::config {

enum class Kind {
  boolean,
  integer,
  real,
  text,
  choice,    // one of the words in Key::range
  texts,     // a list of words
  integers,  // a list of integers
  rules,     // a list of [label, [axes]]
  nested,    // a mapping or list that moesh does not read; only ever accepted or refused
};

enum class Status {
  used,             // moesh acts on it
  accepted,         // steers something that moesh does not have; results are the same without it: noted once
  planned_without,  // any value but the default asks a run for something that moesh does not do; plans leave it out, and say so
  refused,          // any value but the default asks for something that moesh does not do: an error
};

// Whether a model that a run has trained goes on with texts by the run's value of a key, rather than by the default.
enum class OnTexts {
  as_topic,  // if the key's topic is_of_models or is_of_texts
  kept,
  dropped,  // of how rows were sent to experts: a text would depend on the texts beside it, which may take its room
};

struct Key {
  std::string_view name;
  Kind kind;
  std::string_view initial;  // the default, as it would be written in YAML; "null" for none
  // integer, real: "LOW..HIGH" with either end optional, "LOW..<HIGH" if HIGH itself is out of range. choice: words joined by '|'; a word
  // after '!' is known to users of other engines but not supported here. Otherwise empty.
  std::string_view range;
  Status status;
  std::string_view help;  // one line
  OnTexts on_texts = OnTexts::as_topic;
};

// The commands that a key matters to: a key of the data, for instance, means nothing to a command that only plans a layout.
enum class Scope { plans, runs };

// All keys, by topic, in the order in which they are documented.
struct Topic {
  std::string_view title;
  std::span<const Key> keys;
  Scope scope = Scope::plans;
  bool is_of_models = false;  // its keys say which model it is, whatever it is run on, so they go with its weights
  bool is_of_texts = false;   // its keys also say how a trained model goes on with texts
  bool is_of_training = false;  // nothing but training reads its keys
};
std::span<const Topic> topics();

const Key* find_key(std::string_view name);
const Topic& topic_of(const Key& key);
bool is_kept_on_texts(const Key& key);

// The words of a choice; `refused` ones are those marked '!'.
struct Choice {
  std::string_view word;
  bool refused;
};
std::vector<Choice> choices(const Key& key);

std::string_view name_of(Kind kind);
std::string_view name_of(Status status);

// Up to `limit` names of keys that are similar to `name`, best first.
std::vector<std::string> nearest_keys(std::string_view name, int limit = 3);

}  // namespace moesh::config
