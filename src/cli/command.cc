#include "cli/command.h"

#include <algorithm>
#include <array>
#include <exception>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/streams.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/failure.h"
#include "cli/foreign.h"
#include "config/schema.h"
#include "config/yaml.h"

namespace moesh::cli {
namespace {

const std::array kCommands{&kShardings, &kWhy,     &kLint,   &kCompile, &kSearch, &kDoctor, &kGraph, &kTrain,    &kCheckpoint, &kRuns,
                           &kReport,    &kConvert, &kDecode, &kServe,   &kBench, &kTokenize, &kVerify,     &kHelp};

constexpr std::string_view kIntroduction =
    "moesh: a layout is data. Tells where every tensor of a model lies over a device mesh, why, and what it costs.\n";

constexpr int kPage = 120;  // columns of help when the output is not a terminal

const Option* find_option(std::span<const Option> options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  return found == options.end() ? nullptr : &*found;
}

// "--steps" becomes "steps", "-ici-fsdp-parallelism" becomes "ici_fsdp_parallelism".
std::string key_of(std::string name) {
  name.erase(0, name.find_first_not_of('-'));
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Refuses a key that is written like an option of other programs: "--steps=3", "--steps 3", "-per-device-batch-size=1".
void refuse_key_with_dashes(const std::string& word, const std::string& after) {
  const std::size_t equals = word.find('=');
  const std::string name = key_of(word.substr(0, equals));
  if (config::find_key(name) == nullptr) return;
  const std::string value = equals != std::string::npos ? word.substr(equals + 1) : after.empty() ? "VALUE" : after;
  refuse(fmt::format("'{}' is a key, not an option: keys are given without dashes", shorten(word, 80)), kCommandLine,
         shorten(name + "=" + value, 120));
}

// What to do about an option that a command does not have.
std::string fix_of_option(const std::string& name, const std::vector<std::string>& names) {
  std::vector<std::string> others;
  for (const Command* command : kCommands) {
    if (find_option(command->options, name) != nullptr) others.emplace_back(command->name);
  }
  if (!others.empty()) return fmt::format("leave it out; it is an option of {}", join(others, ", "));
  if (const std::vector<std::string> close = nearest(name, names, 1); !close.empty()) return close.front();
  const std::vector<std::string> keys = config::nearest_keys(key_of(name), 1);
  // A long key is also near to any word that is a part of it.
  if (!keys.empty() && keys.front().size() <= 2 * name.size()) return keys.front() + "=VALUE, without dashes";
  return "`moesh help keys` lists the keys, which are given without dashes";
}

const Option& known_option(std::span<const Option> options, const std::string& word, const std::string& after) {
  const std::string name = word.substr(0, word.find('='));
  if (const Option* option = find_option(options, name)) return *option;
  refuse_key_with_dashes(word, after);
  std::vector<std::string> names{"--help"};
  for (const Option& option : options) names.emplace_back(option.name);
  refuse(fmt::format("unknown option '{}', one of {} was expected", shorten(name, 80), join(names, ", ")), kCommandLine,
         fix_of_option(name, names));
}

const Command& known_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    if (command->name == name) return *command;
    names.emplace_back(command->name);
  }
  const std::vector<std::string> close = nearest(name, names, 1);
  refuse(fmt::format("unknown command '{}'", shorten(name, 80)), kCommandLine,
         close.empty() ? "`moesh --help` lists the commands" : "moesh " + close.front());
}

[[noreturn]] void refuse_missing(const Option& option) {
  refuse(fmt::format("{} takes {}, which is missing", option.name, option.value), kCommandLine);
}

// Whether a second value of the option would be ignored.
bool takes_one_value(const Option& option) { return !option.value.empty() && !option.value.ends_with("...") && !option.repeats; }

constexpr std::string_view kNoMoreOptions = "--";  // words after it are not options, whatever they begin with

bool asks_for_help(const std::string& word) { return word == "--help" || word == "-h"; }

int run_checked(const std::vector<std::string>& words) {
  if (words.empty() || asks_for_help(words[0])) {
    print_help(help_text());
    return 0;
  }
  if (words[0] == "--version") {
    fmt::print("moesh {}\n", MOESH_VERSION);
    return 0;
  }
  const Command& command = known_command(words[0]);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (std::any_of(rest.begin(), std::find(rest.begin(), rest.end(), kNoMoreOptions), asks_for_help)) {
    print_help(help_text(command));
    return 0;
  }
  return command.run(with_foreign_request(command, Arguments(command.options, rest)));
}

}  // namespace

Arguments::Arguments(std::span<const Option> options, const std::vector<std::string>& words) {
  const Option* taking_rest = nullptr;
  std::size_t taken_before = 0;  // number of values that were given before that option
  const auto end_rest = [&] {
    if (taking_rest != nullptr && given_.size() == taken_before) refuse_missing(*taking_rest);
    taking_rest = nullptr;
  };
  bool are_words = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!are_words && word == kNoMoreOptions) {
      are_words = true;
      end_rest();
      continue;
    }
    if (are_words || !word.starts_with('-') || word.size() == 1) {
      if (taking_rest == nullptr) all_words_.push_back(word);
      if (are_words) ++plain_words_;
      if (taking_rest != nullptr) {
        given_.push_back({taking_rest->name, word});
      } else if (word.find('=') != std::string::npos || config::is_yaml_path(word)) {
        request_.push_back(word);
      } else {
        words_.push_back(word);
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    const std::vector<std::string> from = values(kFrom.name);
    if (!from.empty() && is_unquoted(from.back()) && find_option(options, word.substr(0, equals)) == nullptr) refuse_unquoted();
    const Option& option = known_option(options, word, i + 1 < words.size() ? words[i + 1] : "");
    end_rest();
    if (has(option.name) && takes_one_value(option)) {
      refuse(fmt::format("{} more than once", option.name), kCommandLine, "give it once");
    }
    const auto count = static_cast<std::size_t>(1 + std::count(option.value.begin(), option.value.end(), ' '));
    if (option.value.empty()) {
      if (equals != std::string::npos) refuse(fmt::format("{} takes no value", option.name), kCommandLine);
      given_.push_back({option.name, ""});
    } else if (option.value.ends_with("...")) {
      taking_rest = &option;
      taken_before = given_.size();
      if (equals != std::string::npos) given_.push_back({option.name, word.substr(equals + 1)});
    } else if (equals != std::string::npos && count == 1) {
      given_.push_back({option.name, word.substr(equals + 1)});
    } else if (equals == std::string::npos && i + count < words.size()) {
      for (std::size_t taken = 0; taken < count; ++taken) given_.push_back({option.name, words[++i]});
    } else {
      refuse_missing(option);
    }
    if (count == 1 && has(option.name) && takes_one_value(option) && values(option.name).back().empty()) refuse_missing(option);
  }
  end_rest();
}

void Arguments::translate(config::Keys translated, config::Request::With with, config::Engine engine) {
  translated_ = std::move(translated);
  request_ = config::joined(translated_, request_);
  with_ = std::move(with);
  engine_ = std::move(engine);
}

config::Request Arguments::changeable(const config::Keys& more) const {
  config::Keys words = config::joined(request_, more);
  if (!with_) return words;
  return {std::move(words), [with = with_, more](const config::Keys& changes) { return with(config::joined(more, changes)); }, engine_};
}

bool Arguments::has(std::string_view option) const {
  return std::any_of(given_.begin(), given_.end(), [&](const Given& g) { return g.option == option; });
}

std::optional<std::string> Arguments::value(std::string_view option) const {
  for (const Given& given : given_) {
    if (given.option == option) return given.value;
  }
  return std::nullopt;
}

std::vector<std::string> Arguments::values(std::string_view option) const {
  std::vector<std::string> all;
  for (const Given& given : given_) {
    if (given.option == option) all.push_back(given.value);
  }
  return all;
}

std::optional<std::int64_t> count_of(const Arguments& arguments, std::string_view option, std::int64_t most, const std::string& fix) {
  const std::optional<std::string> given = arguments.value(option);
  if (!given) return std::nullopt;
  const std::optional<std::int64_t> count = parse_integer(*given);
  if (!count || *count < 1 || *count > most) {
    refuse(fmt::format("{} {}: not a number from 1 to {}", option, shorten(*given, 40), most), kCommandLine, fix);
  }
  return count;
}

int threads_of(const Arguments& arguments) {
  return static_cast<int>(count_of(arguments, kThreads.name, 4096, "--threads 2, or nothing for one a core").value_or(0));
}

const std::vector<std::string>& request_alone(const Arguments& arguments, const std::string& fix) {
  if (!arguments.words().empty()) {
    refuse(fmt::format("'{}' is neither a FILE.yml nor key=value", shorten(arguments.words().front(), 80)),
           kCommandLine, fix);
  }
  return arguments.request();
}

std::int64_t timed_steps(const config::Settings& settings) {
  constexpr std::int64_t kEnough = 10;  // where nobody says how many: not the 150,001 of a training run
  if (!settings.is_by_user("steps")) return kEnough;
  const std::int64_t steps = settings.integer("steps");
  if (steps < 1) refuse(fmt::format("steps={}: how many are to be timed?", steps), settings.origin("steps").where, "steps=3");
  return steps;
}

config::Keys skew_of(const Arguments& arguments) {
  const auto skew = arguments.value(kSkew.name);
  if (skew && skew->starts_with('-'))
    refuse(fmt::format("--skew {}: a router_skew of 0 or more was expected", *skew), kCommandLine, "--skew 0.5");
  return skew ? config::Keys{"router_skew=" + *skew} : config::Keys{};
}

std::vector<std::string> request_with_skew(const Arguments& arguments, const std::string& fix) {
  return config::joined(request_alone(arguments, fix), skew_of(arguments));
}

std::span<const Command* const> commands() { return kCommands; }

std::string help_text() {
  std::string text = fmt::format("{}\nusage: moesh COMMAND [FILE.yml] [key=value ...] [options]\n\n", kIntroduction);
  for (const Command* command : kCommands) text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  text +=
      "\nKeys, defaults and meanings are MaxText's: `moesh help KEY`. A later key=value wins.\n"
      "`moesh COMMAND --help` (or -h) tells more, with examples; `moesh --version` which version this is.\n"
      "Exit codes: 0 done, 1 it failed, 2 the request was wrong, 128 + N ended by signal N (130 for Ctrl-C).\n";
  return text;
}

std::string help_text(const Command& command) {
  const int terminal = terminal_width();
  const int width = terminal == 0 ? kPage : terminal;
  std::string text = fmt::format("usage: moesh {} {}\n", command.name, command.usage);
  std::string_view rest = command.details;
  while (!rest.empty()) {
    const std::size_t ends = std::min(rest.find("\n\n"), rest.size());
    std::string paragraph(rest.substr(0, ends));
    std::replace(paragraph.begin(), paragraph.end(), '\n', ' ');
    text += fmt::format("\n{}\n", wrapped(paragraph, width));
    rest.remove_prefix(std::min(ends + 2, rest.size()));
  }
  if (!command.options.empty()) text += "\noptions:\n";
  Table options({{""}, {"", false, Room::wrap}});
  for (const Option& option : command.options) options.add({fmt::format("  {} {}", option.name, option.value), std::string(option.help)});
  text += options.text(width);
  if (command.more != nullptr) text += "\n" + command.more(width);
  text += "\nexamples:\n";
  for (const std::string_view example : command.examples) text += fmt::format("  moesh {}\n", example);
  return text;
}

void print_help(const std::string& text) { fmt::print("{}", wrapped(text, terminal_width(), 2)); }

int run(const std::vector<std::string>& words) {
  try {
    const int code = run_checked(words);
    flush_output();
    return code;
  } catch (...) {
    const Failure failure = failure_of(std::current_exception());
    if (!failure.message.empty()) log_error(failure.message);
    return failure.code;
  }
}

}  // namespace moesh::cli
