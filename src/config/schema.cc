// Finds keys in the table, and reads its columns that are written as text.
#include "config/schema.h"

#include <algorithm>

#include "base/text.h"
#include "config/schema_topics.h"

namespace moesh::config {
namespace {

std::vector<Topic> gather_topics() {
  const std::span<const Topic> parts[] = {
      run_topics(),          model_topics(),      attention_topics(), moe_topics(),          mesh_topics(),
      sharding_topics(),     memory_topics(),     training_topics(),  data_topics(),         checkpoints_topics(),
      decode_topics(),       monitoring_topics(), kernels_topics(),   quantization_topics(), multimodal_topics(),
      other_models_topics(), trainers_topics(),   earlier_topics(),
  };
  std::vector<Topic> all;
  for (const std::span<const Topic> part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

bool by_name(const Key* a, const Key* b) { return a->name < b->name; }

const std::vector<const Key*>& keys_by_name() {
  static const std::vector<const Key*> sorted = [] {
    std::vector<const Key*> keys;
    for (const Topic& topic : topics()) {
      for (const Key& key : topic.keys) keys.push_back(&key);
    }
    std::sort(keys.begin(), keys.end(), by_name);
    return keys;
  }();
  return sorted;
}

}  // namespace

std::span<const Topic> topics() {
  static const std::vector<Topic> all = gather_topics();
  return all;
}

const Key* find_key(std::string_view name) {
  const std::vector<const Key*>& keys = keys_by_name();
  const auto found = std::lower_bound(keys.begin(), keys.end(), name,
                                      [](const Key* key, std::string_view wanted) { return key->name < wanted; });
  return found != keys.end() && (*found)->name == name ? *found : nullptr;
}

const Topic& topic_of(const Key& key) {
  const std::span<const Topic> all = topics();
  return *std::find_if(all.begin(), all.end(), [&](const Topic& topic) {
    return &key >= topic.keys.data() && &key < topic.keys.data() + topic.keys.size();
  });
}

bool is_kept_on_texts(const Key& key) {
  if (key.on_texts != OnTexts::as_topic) return key.on_texts == OnTexts::kept;
  const Topic& topic = topic_of(key);
  return topic.is_of_models || topic.is_of_texts;
}

std::vector<Choice> choices(const Key& key) {
  if (key.kind != Kind::choice) return {};
  std::vector<Choice> words;
  std::string_view rest = key.range;
  while (true) {
    const std::size_t bar = rest.find('|');
    std::string_view word = rest.substr(0, bar);
    const bool refused = word.starts_with('!');
    if (refused) word.remove_prefix(1);
    words.push_back({word, refused});
    if (bar == std::string_view::npos) return words;
    rest.remove_prefix(bar + 1);
  }
}

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::boolean: return "true or false";
    case Kind::integer: return "an integer";
    case Kind::real: return "a number";
    case Kind::text: return "text";
    case Kind::choice: return "one of a few words";
    case Kind::texts: return "a list of words";
    case Kind::integers: return "a list of integers";
    case Kind::rules: return "a list of [label, [axes]]";
    case Kind::nested: return "a mapping or a list";
  }
  return "";
}

std::string_view name_of(Status status) {
  switch (status) {
    case Status::used: return "used";
    case Status::accepted: return "accepted";
    case Status::planned_without: return "planned without";
    case Status::refused: return "refused";
  }
  return "";
}

std::vector<std::string> nearest_keys(std::string_view name, int limit) {
  std::vector<std::string> names;
  for (const Key* key : keys_by_name()) names.emplace_back(key->name);
  return nearest(name, names, limit);
}

}  // namespace moesh::config
