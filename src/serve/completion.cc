#include "serve/completion.h"

#include <algorithm>
#include <random>
#include <set>

#include <fmt/core.h>

#include "base/json_reader.h"
#include "base/text.h"
#include "decode/text_stream.h"
#include "serve/api_error.h"

namespace moesh::serve {
namespace {

constexpr std::int64_t kUsualTokens = 16;  // new tokens per text if a request does not say
constexpr std::size_t kMostStops = 16;
constexpr std::size_t kMostStopBytes = 1024;
constexpr std::int64_t kMostSeed = std::numeric_limits<std::int64_t>::max();

// The members of a request, read by name; null counts as not given.
class Members {
 public:
  explicit Members(const Json& json) : json_(json) {}

  const Json* find(const char* key) {
    known_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() || found->is_null() ? nullptr : &*found;
  }
  bool boolean(const char* key) {
    const Json* value = find(key);
    if (value != nullptr && !value->is_boolean()) reject_value(key, *value, "true or false");
    return value != nullptr && value->get<bool>();
  }
  std::optional<std::int64_t> integer(const char* key, std::int64_t least, std::int64_t most) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!holds<std::int64_t>(*value) || *value < least || *value > most) {
      reject_value(key, *value, fmt::format("an integer from {} to {}", least, most));
    }
    return value->get<std::int64_t>();
  }
  std::optional<double> real(const char* key, double least, double most) {
    const Json* value = find(key);
    if (value == nullptr) return std::nullopt;
    if (!value->is_number() || !(value->get<double>() >= least && value->get<double>() <= most)) {
      reject_value(key, *value, fmt::format("a number from {} to {}", least, most));
    }
    return value->get<double>();
  }
  // Rejects a parameter that is not supported, unless its value turns it off.
  void refuse_unless(const char* key, const Json& off) {
    const Json* value = find(key);
    if (value != nullptr && *value != off) reject(fmt::format("'{}' is not supported", key), key, 400, "unsupported_parameter");
  }
  void refuse_others() const {
    for (const auto& [key, value] : json_.items()) {
      if (!known_.contains(key)) reject(fmt::format("'{}' is no parameter of completions", shorten(key, 80)), shorten(key, 80));
    }
  }
  [[noreturn]] static void reject_value(const char* key, const Json& value, const std::string& expected) {
    reject(fmt::format("'{}' is {}, {} was expected", key, shortened(value, 60), expected), key);
  }

 private:
  const Json& json_;
  std::set<std::string> known_;
};

std::vector<std::string> stops_of(Members& members) {
  const Json* stop = members.find("stop");
  if (stop == nullptr) return {};
  const auto is_text = [](const Json& one) { return one.is_string() && one.get_ref<const std::string&>().size() <= kMostStopBytes; };
  const bool is_list = stop->is_array() && stop->size() <= kMostStops && std::all_of(stop->begin(), stop->end(), is_text);
  if (!is_text(*stop) && !is_list) {
    Members::reject_value("stop", *stop, fmt::format("a text or a list of up to {}, each of up to {} bytes,", kMostStops, kMostStopBytes));
  }
  return is_list ? stop->get<std::vector<std::string>>() : std::vector{stop->get<std::string>()};
}

decode::Sampling sampling_of(Members& members, const Served& served) {
  decode::Sampling sampling = served.sampling;
  sampling.limits_after_temperature = true;
  sampling.temperature = members.real("temperature", 0, 2).value_or(sampling.temperature);
  sampling.top_p = members.real("top_p", 0, 1).value_or(sampling.top_p);
  if (const auto top_k = members.integer("top_k", -1, 1'000'000'000)) sampling.top_k = std::max<std::int64_t>(*top_k, 0);
  sampling.min_p = members.real("min_p", 0, 1).value_or(sampling.min_p);
  sampling.repetition_penalty = members.real("repetition_penalty", 1e-6, 1e6).value_or(sampling.repetition_penalty);
  const std::optional<std::int64_t> seed = members.integer("seed", -kMostSeed, kMostSeed);
  sampling.seed = seed ? *seed : served.seed ? *served.seed : static_cast<std::int64_t>(std::random_device()());
  return sampling;
}

bool is_id(const Json& json) { return json.is_number_integer(); }

std::int32_t id_of(const Json& json, const Served& served) {
  const std::int64_t most = std::min(served.vocabulary, served.tokenizer.size());
  if (json < 0 || json >= most) reject(fmt::format("token {} lies outside the vocabulary of {}", shortened(json, 60), most), "prompt");
  return static_cast<std::int32_t>(json.get<std::int64_t>());
}

AskedPrompt prompt_of_text(const Json& json, const Served& served) {
  AskedPrompt prompt{json.get<std::string>(), {}, 0};
  prompt.ids = decode::prompt_ids(served.tokenizer, served.bounds, prompt.text);
  for (const std::int32_t id : prompt.ids) {
    if (id >= served.vocabulary) reject(fmt::format("token {} lies outside the vocabulary of {}", id, served.vocabulary), "prompt");
  }
  return prompt;
}

AskedPrompt prompt_of_ids(const Json& json, const Served& served, bool echoes) {
  AskedPrompt prompt;
  for (const Json& id : json) prompt.ids.push_back(id_of(id, served));
  if (static_cast<std::int64_t>(prompt.ids.size()) >= served.slots || !echoes) return prompt;
  prompt.text = served.tokenizer.decode(decode::with_text(served.tokenizer, prompt.ids), tokenizer::Special::left_out);
  return prompt;
}

// The prompt is a text, a list of texts, a list of ids, or a list of such lists.
std::vector<AskedPrompt> prompts_of(const Json& json, const Served& served, bool echoes) {
  const auto is_text = [](const Json& one) { return one.is_string(); };
  const auto is_ids = [](const Json& one) { return one.is_array() && !one.empty() && std::all_of(one.begin(), one.end(), is_id); };
  if (json.is_string()) return {prompt_of_text(json, served)};
  if (json.is_array() && json.empty()) reject("a prompt without any token", "prompt");
  if (is_ids(json)) return {prompt_of_ids(json, served, echoes)};
  const bool is_list = json.is_array() && (std::all_of(json.begin(), json.end(), is_text) || std::all_of(json.begin(), json.end(), is_ids));
  if (!is_list) Members::reject_value("prompt", json, "a text, a list of texts, a list of token ids or a list of such lists");
  if (static_cast<std::int64_t>(json.size()) > served.most_texts) {
    reject(fmt::format("{} prompts in a request, at most {} are taken", json.size(), served.most_texts), "prompt");
  }
  std::vector<AskedPrompt> prompts;
  for (const Json& one : json) prompts.push_back(one.is_string() ? prompt_of_text(one, served) : prompt_of_ids(one, served, echoes));
  return prompts;
}

// Sets how many tokens may follow the prompt: the number that the request asks for, else kUsualTokens or fewer if there is less room.
void set_length(AskedPrompt& prompt, std::optional<std::int64_t> asked, const Served& served) {
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  if (length == 0) reject("a prompt without any token", "prompt");
  const std::int64_t room = served.slots - length;
  if (room < asked.value_or(1)) {
    reject(fmt::format("prompt and text have {} at most; the prompt has {}, and {} were to follow", counted(served.slots, "token"),
                       with_commas(length), with_commas(asked.value_or(kUsualTokens))),
           "prompt", 400, "context_length_exceeded");
  }
  prompt.most_tokens = asked.value_or(std::min({kUsualTokens, room, served.most_tokens}));
}

Json object_of(std::string_view body) {
  try {
    const Json json = parse_json(body, "the body");
    if (json.is_object()) return json;
  } catch (const Error& error) {
    reject(error.what());
  }
  reject("the body is no JSON object");
}

Completion completion_of(const Json& json, const Served& served) {
  Members members(json);
  const Json* model = members.find("model");
  if (model != nullptr && !model->is_string()) Members::reject_value("model", *model, "a text");
  if (model != nullptr) check_model(model->get<std::string>(), served);
  members.find("user");
  for (const char* key : {"presence_penalty", "frequency_penalty"}) members.refuse_unless(key, 0);
  members.refuse_unless("logit_bias", Json::object());
  members.refuse_unless("logprobs", false);
  members.refuse_unless("suffix", "");
  Completion made;
  made.sampling = sampling_of(members, served);
  made.stops = stops_of(members);
  made.texts_each = members.integer("n", 1, served.most_texts).value_or(1);
  members.refuse_unless("best_of", made.texts_each);
  made.echoes = members.boolean("echo");
  made.ignores_end = members.boolean("ignore_eos");
  made.streams = members.boolean("stream");
  const auto most_tokens = members.integer("max_tokens", 1, served.most_tokens);
  if (const Json* options = members.find("stream_options")) {
    if (!made.streams) reject("'stream_options' without 'stream'", "stream_options");
    if (!options->is_object()) Members::reject_value("stream_options", *options, "an object");
    Members of_stream(*options);
    made.tells_usage = of_stream.boolean("include_usage");
    of_stream.refuse_others();
  }
  const Json* prompt = members.find("prompt");
  members.refuse_others();
  if (prompt == nullptr) reject("'prompt' is missing", "prompt");
  made.prompts = prompts_of(*prompt, served, made.echoes);
  if (static_cast<std::int64_t>(made.texts()) > served.most_texts) {
    reject(fmt::format("{} texts of a request, at most {} go on", made.texts(), served.most_texts), "n");
  }
  for (AskedPrompt& one : made.prompts) set_length(one, most_tokens, served);
  return made;
}

}  // namespace

std::int64_t Completion::prompt_tokens() const {
  std::int64_t tokens = 0;
  for (const AskedPrompt& prompt : prompts) tokens += static_cast<std::int64_t>(prompt.ids.size());
  return tokens;
}

void check_model(const std::string& name, const Served& served) {
  if (name == served.name) return;
  reject(fmt::format("the model '{}' is not here, '{}' is", shorten(name, 80), served.name), "model", 404, "model_not_found");
}

Completion parse_completion(std::string_view body, const Served& served) {
  const Json json = object_of(body);
  try {
    return completion_of(json, served);
  } catch (const Error& error) {
    reject(error.what());
  }
}

}  // namespace moesh::serve
