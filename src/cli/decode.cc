#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>

#include <fmt/core.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/json_reader.h"
#include "base/log.h"
#include "base/streams.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "data/document_tokens.h"
#include "decode/generation.h"
#include "decode/source.h"
#include "decode/text_stream.h"
#include "decode/weights.h"
#include "session/session.h"
#include "tokenizer/tokenizer.h"

namespace moesh::cli {
namespace {

using decode::Ended;

constexpr Option kDecodeOptions[] = {
    {"--file", "FILE", "takes prompts from JSON Lines, each {\"prompt\": TEXT} with, if it is to, max_tokens, seed and stop"},
    {"--max-tokens", "N", "tokens that follow a prompt at most (default 128)"},
    {"--batch", "N", "texts that go on at a time (default: as many as there are, up to 8)"},
    {"--stop", "TEXT", "ends a text before this; may be given several times", true},
    {"--ignore-end", "", "goes on where the model ends a text"},
    {"--json", "", "a JSON object a text, in the order of the prompts"},
    kThreads,
};

constexpr std::string_view kDecodeExamples[] = {
    "decode tests/golden/hf/llama tokenizer_path= --max-tokens 8 abc",
    "decode tests/golden/hf/llama tokenizer_path= --max-tokens 8 --json abc de f --batch 2",
    "decode moesh_output/kept \"The author\" --max-tokens 40",
    "decode moesh_output/kept --max-tokens 40 -- \"x=1\"",
    "decode base.yml load_parameters_path=tests/golden/hf/llama tokenizer_path= prompt=\"I love to\"",
    "decode moesh_output/kept \"The author\" decode_sampling_strategy=weighted decode_sampling_temperature=0.8 --stop .",
};

constexpr std::int64_t kMostAtOnce = 8;
constexpr std::int64_t kMostNewTokens = 1'000'000'000;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

// One prompt and what is asked for its continuation.
struct Asked {
  std::string prompt;
  std::int64_t most_tokens = 0;
  std::optional<std::int64_t> seed;
  std::vector<std::string> stops;
};

// Whether a word has the form key=value; all other words are prompts.
bool is_setting(const std::string& word) {
  const std::size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 &&
         word.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == equals;
}

struct Words {
  decode::Source source;
  std::vector<std::string> prompts;
};

Words words_of(const Arguments& arguments) {
  std::string model;
  std::vector<std::string> settings, prompts;
  const std::vector<std::string>& all = arguments.all_words();
  const auto is_of_weights = [](const std::string& word) { return word.starts_with(decode::kWeights); };
  const bool names_weights = std::any_of(all.begin(), all.end(), is_of_weights);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_plain = i + arguments.plain_words() >= all.size();  // behind --
    if (!is_plain && is_setting(all[i])) settings.push_back(all[i]);
    else if (!is_plain && model.empty() && config::is_yaml_path(all[i])) settings.push_back(all[i]);
    else if (model.empty() && (!names_weights || std::filesystem::exists(all[i]))) model = all[i];
    else prompts.push_back(all[i]);
  }
  return {decode::source_of(model, settings), std::move(prompts)};
}

std::vector<std::string> strings_of(const Json& json, const std::string& where) {
  if (json.is_string()) return {json.get<std::string>()};
  const bool is_list = json.is_array() && std::all_of(json.begin(), json.end(), [](const Json& one) { return one.is_string(); });
  if (!is_list) refuse("'stop' is neither a text nor a list of texts", where);
  return json.get<std::vector<std::string>>();
}

Asked asked_in(const std::string& line, const Asked& otherwise, const std::string& where) {
  const Json json = parse_json(line, where);
  const auto prompt = member<std::string>(json, "prompt", where);
  constexpr std::array<std::string_view, 4> kMembers{"prompt", "max_tokens", "seed", "stop"};
  for (const auto& [name, value] : json.items()) {
    if (std::find(kMembers.begin(), kMembers.end(), name) == kMembers.end())
      refuse(fmt::format("'{}' says nothing about a prompt", name), where, "prompt, max_tokens, seed or stop");
  }
  Asked asked = otherwise;
  asked.prompt = prompt;
  if (json.contains("max_tokens")) asked.most_tokens = member<std::int64_t>(json, "max_tokens", where);
  if (asked.most_tokens < 1 || asked.most_tokens > kMostNewTokens)
    refuse(fmt::format("'max_tokens' is {}, 1 to {} was expected", asked.most_tokens, kMostNewTokens), where);
  if (json.contains("seed")) asked.seed = member<std::int64_t>(json, "seed", where);
  if (json.contains("stop")) asked.stops = strings_of(json["stop"], where);
  return asked;
}

std::vector<Asked> all_asked(const Arguments& arguments, const Words& words, const config::Settings& settings) {
  const auto most_tokens = count_of(arguments, "--max-tokens", kMostNewTokens, "--max-tokens 100");
  Asked otherwise{"", most_tokens.value_or(128), {}, arguments.values("--stop")};
  std::vector<Asked> all;
  for (const std::string& prompt : words.prompts) {
    all.push_back(otherwise);
    all.back().prompt = prompt;
  }
  if (const auto file = arguments.value("--file")) {
    const std::vector<std::string> lines = split(read_file(*file, "the prompts", kMostBytes, "--file FILE"), '\n');
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!trim(lines[i]).empty()) all.push_back(asked_in(lines[i], otherwise, fmt::format("{}:{}", *file, i + 1)));
    }
    if (all.empty()) refuse("no line is a prompt", *file);
  }
  if (!all.empty()) return all;
  otherwise.prompt = settings.text("prompt");
  return {otherwise};
}

// A text that is being generated.
struct Text {
  Asked asked;
  std::size_t prompt_tokens = 0;
  decode::TextStream stream;
  std::string made = {};
  std::int64_t tokens = 0;
  Ended ended = Ended::not_yet;
};

// Prints a single text as it grows, and several texts each as a whole, in the order of their prompts.
class Output {
 public:
  Output(bool as_json, std::size_t texts) : as_json_(as_json), is_alone_(texts == 1) {}

  void begin(const Text& text) const {
    if (!as_json_ && is_alone_) show(text.asked.prompt);
  }
  void grow(const std::string& more) const {
    if (!as_json_ && is_alone_) show(more);
  }
  // Prints the texts that have ended, up to the first that has not.
  void show_ended(const std::vector<Text>& texts) {
    for (; next_ < texts.size() && texts[next_].ended != Ended::not_yet; ++next_) {
      const Text& text = texts[next_];
      if (as_json_) show(json_of(text) + "\n");
      else if (is_alone_) show("\n");
      else show(fmt::format("{}{}{}\n", next_ > 0 ? "\n" : "", text.asked.prompt, text.made));
    }
  }

 private:
  static void show(const std::string& words) {
    fmt::print("{}", words);
    flush_output();
  }
  static std::string json_of(const Text& text) {
    JsonWriter json;
    json.begin_object().key("prompt").value(text.asked.prompt).key("text").value(text.made);
    json.key("prompt_tokens").value(static_cast<std::int64_t>(text.prompt_tokens)).key("tokens").value(text.tokens);
    return json.key("finish_reason").value(decode::finish_reason(text.ended)).end_object().text();
  }

  bool as_json_, is_alone_;
  std::size_t next_ = 0;
};

struct Speed {
  double first = 0, all = 0;  // seconds from the start of generation to the first token and to the end
  std::int64_t tokens = 0;
};

Speed generate(decode::Generator& generator, std::vector<Text>& texts, Output& output) {
  const auto begin = Clock::now();
  Speed speed;
  while (!generator.is_idle()) {
    generator.step([&](const decode::Continued& next) {
      Text& text = texts[static_cast<std::size_t>(next.text)];
      if (speed.tokens++ == 0) speed.first = seconds_since(begin);
      ++text.tokens;
      const decode::Grown grown = decode::grown(text.stream, next);
      text.ended = grown.ended;
      text.made += grown.more;
      output.grow(grown.more);
      return text.ended == Ended::not_yet;
    });
    output.show_ended(texts);
  }
  speed.all = seconds_since(begin);
  return speed;
}

bool have_beginning(const std::vector<Text>& texts, const std::string& expected) {
  bool have_all = true;
  for (const Text& text : texts) {
    if (as_utf8(text.made).starts_with(expected)) continue;
    log_error(fmt::format("'{}' goes on with '{}', autoregressive_decode_assert expects '{}'", shorten(text.asked.prompt, 80),
                          shorten(text.made, 80), shorten(expected, 80)));
    have_all = false;
  }
  return have_all;
}

int run_decode(const Arguments& arguments) {
  const Words words = words_of(arguments);
  const decode::Source& source = words.source;
  const session::Session session = session::open_model(decode::request_of(source.model, source.settings));
  decode::note_idle(source.settings);
  const config::Settings& settings = session.loaded.settings;
  const auto tokenizer = data::open_tokenizer(settings);
  const decode::Bounds bounds = decode::bounds_of(*tokenizer, settings);
  const tokenizer::Ids ends = arguments.has("--ignore-end") ? tokenizer::Ids{} : bounds.ends;
  const decode::Sampling sampling = decode::sampling_of(settings);
  std::vector<Text> texts;
  std::vector<decode::Prompt> prompts;
  std::int64_t longest = 0;
  for (Asked& asked : all_asked(arguments, words, settings)) {
    const auto number = static_cast<std::int64_t>(texts.size());
    decode::Prompt prompt{decode::prompt_ids(*tokenizer, bounds, asked.prompt), sampling, asked.most_tokens, ends, number, number};
    if (asked.seed) prompt.sampling.seed = *asked.seed;
    decode::check_ids(prompt.ids, session.shape.vocab_size, fmt::format("prompt {}", number + 1));
    longest = std::max(longest, static_cast<std::int64_t>(prompt.ids.size()) + asked.most_tokens);
    texts.push_back({asked, prompt.ids.size(), decode::TextStream(*tokenizer, prompt.ids, asked.stops)});
    prompts.push_back(std::move(prompt));
  }
  const std::int64_t slots = decode::slots_of(settings, longest);
  backend::Workers workers(threads_of(arguments));
  const std::int64_t wanted = std::min(static_cast<std::int64_t>(texts.size()), kMostAtOnce);
  const auto rows = count_of(arguments, "--batch", 1'000'000, "--batch 8");
  const models::ModelRequest model = session::model_request(session, decode::rows_for(session, rows, wanted));
  decode::Generator generator(model, session.target, slots, workers);
  const run::Taken memory = generator.planned_memory();
  log_notice(fmt::format("{} of {} at most: {} of weights, keys and values, and {} to work in", counted(model.rows, "row"),
                         counted(slots, "token"), human_bytes(memory.state),
                         human_bytes(memory.scratch)));
  for (decode::Prompt& prompt : prompts) generator.add(std::move(prompt));
  log_notice(decode::read_weights(generator.decoder(), generator.graph(), model, source.model, workers));
  Output output(arguments.has("--json"), texts.size());
  output.begin(texts.front());
  const Speed speed = generate(generator, texts, output);
  log_notice(fmt::format("{} in {}, {:.1f} tokens/s, the first after {}", counted(speed.tokens, "token"), human_seconds(speed.all),
                         static_cast<double>(speed.tokens) / speed.all, human_seconds(speed.first)));
  return have_beginning(texts, settings.text("autoregressive_decode_assert")) ? 0 : 1;
}

}  // namespace

const Command kDecode{
    "decode",
    "MODEL|load_parameters_path=MODEL [PROMPT ...] [key=value ...]",
    "goes on with texts",
    "Goes on with prompts, token by token. MODEL is a Hugging Face folder with its tokenizer, a run that saved its parameters\n"
    "(enable_checkpointing), or a checkpoint, under the settings that it was saved with; key=value changes them. Instead of\n"
    "MODEL the key load_parameters_path may name it, as in MaxText's commands, then with FILE.yml of settings as well. One device\n"
    "decodes, unless ici_... or compile_topology ask for a mesh: keys and values that are kept lie there as the rules say.\n"
    "Several prompts go on together: when one ends, the next takes its place. decode_sampling_... choose how tokens are drawn;\n"
    "without them the likeliest is taken. But for rounding, a text depends on its prompt, its number and the seed alone. Prompt\n"
    "and text have max_target_length tokens at most, and, unless that key is given, no more than the positions of a Hugging Face\n"
    "model. Without a prompt, the key `prompt` is one. Words behind -- are prompts, whatever they hold.",
    kDecodeOptions,
    kDecodeExamples,
    run_decode};

}  // namespace moesh::cli
