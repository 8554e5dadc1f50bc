#include "cli/command.h"

#include <algorithm>
#include <array>
#include <exception>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/streams.h"
#include "base/text.h"
#include "cli/failure.h"

namespace moesh::cli {
namespace {

const std::array<const Command*, 7> kCommands{&kShardings, &kWhy, &kLint, &kGraph, &kTrain, &kVerify, &kHelp};

constexpr std::string_view kIntroduction =
    "moesh: a layout is data. Tells where every tensor of a model lies over a device mesh, why, and what it costs.\n";

const Option* find_option(std::span<const Option> options, std::string_view name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  return found == options.end() ? nullptr : &*found;
}

const Option& known_option(std::span<const Option> options, const std::string& name) {
  if (const Option* option = find_option(options, name)) return *option;
  std::vector<std::string> names{"--help"};
  for (const Option& option : options) names.emplace_back(option.name);
  const std::vector<std::string> close = nearest(name, names, 1);
  refuse(fmt::format("unknown option '{}', one of {} was expected", shorten(name, 80), join(names, ", ")),
         "the command line", close.empty() ? "" : close.front());
}

const Command& known_command(const std::string& name) {
  std::vector<std::string> names;
  for (const Command* command : kCommands) {
    if (command->name == name) return *command;
    names.emplace_back(command->name);
  }
  const std::vector<std::string> close = nearest(name, names, 1);
  refuse(fmt::format("unknown command '{}'", shorten(name, 80)), "the command line",
         close.empty() ? "`moesh --help` lists the commands" : "moesh " + close.front());
}

int run_checked(const std::vector<std::string>& words) {
  const bool wants_help = words.empty() || words[0] == "--help" || words[0] == "-h";
  if (wants_help) {
    fmt::print("{}", help_text());
    return 0;
  }
  if (words[0] == "--version") {
    fmt::print("moesh {}\n", MOESH_VERSION);
    return 0;
  }
  const Command& command = known_command(words[0]);
  const std::vector<std::string> rest(words.begin() + 1, words.end());
  if (std::find(rest.begin(), rest.end(), "--help") != rest.end()) {
    fmt::print("{}", help_text(command));
    return 0;
  }
  return command.run(Arguments(command.options, rest));
}

}  // namespace

Arguments::Arguments(std::span<const Option> options, const std::vector<std::string>& words) {
  const Option* taking_rest = nullptr;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      if (taking_rest != nullptr) {
        given_.push_back({taking_rest->name, word});
      } else if (word.find('=') != std::string::npos || word.ends_with(".yml") || word.ends_with(".yaml")) {
        request_.push_back(word);
      } else {
        words_.push_back(word);
      }
      continue;
    }
    const std::size_t equals = word.find('=');
    const Option& option = known_option(options, word.substr(0, equals));
    taking_rest = nullptr;
    if (option.value.empty()) {
      if (equals != std::string::npos) refuse(fmt::format("{} takes no value", option.name), "the command line");
      given_.push_back({option.name, ""});
    } else if (equals != std::string::npos) {
      given_.push_back({option.name, word.substr(equals + 1)});
    } else if (option.value.ends_with("...")) {
      taking_rest = &option;
    } else if (i + 1 < words.size()) {
      given_.push_back({option.name, words[++i]});
    } else {
      refuse(fmt::format("{} takes {}, which is missing", option.name, option.value), "the command line");
    }
  }
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

std::span<const Command* const> commands() { return kCommands; }

std::string help_text() {
  std::string text = fmt::format("{}\nusage: moesh COMMAND [FILE.yml] [key=value ...] [options]\n\n", kIntroduction);
  for (const Command* command : kCommands) text += fmt::format("  {:<10} {}\n", command->name, command->summary);
  text +=
      "\nKeys, defaults and meanings are MaxText's: `moesh help KEY`. A later key=value wins.\n"
      "`moesh COMMAND --help` tells more, with examples.\n"
      "Exit codes: 0 done, 1 it failed, 2 the request was wrong, 128 + N ended by signal N (130 for Ctrl-C).\n";
  return text;
}

std::string help_text(const Command& command) {
  std::string text = fmt::format("usage: moesh {} {}\n\n{}\n", command.name, command.usage, command.details);
  if (!command.options.empty()) text += "\noptions:\n";
  for (const Option& option : command.options) {
    const std::string spelled = fmt::format("{} {}", option.name, option.value);
    text += fmt::format("  {:<24} {}\n", spelled, option.help);
  }
  text += "\nexamples:\n";
  for (const std::string_view example : command.examples) text += fmt::format("  moesh {}\n", example);
  return text;
}

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
