#include "cli/foreign.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include <fmt/core.h>

#include "base/error.h"
#include "base/shell.h"
#include "base/terminal.h"
#include "base/text.h"
#include "config/keys.h"
#include "foreign/import.h"

namespace moesh::cli {
namespace {

using foreign::Imported;

// `own`: the keys that the user gives directly.
Imported imported(const Arguments& arguments, config::Keys own) {
  Imported all;
  const std::vector<std::string> from = arguments.values(kFrom.name);
  if (const std::optional<std::string> path = arguments.value(kHuggingFace.name)) {
    all = foreign::from_hugging_face(*path, own);
    own = config::joined(std::move(own), all.keys);
  }
  if (from.empty()) return all;
  if (is_unquoted(from[1])) refuse_unquoted();
  Imported made = foreign::from_program(from[0], from[1], own);
  all.keys = config::joined(std::move(all.keys), made.keys);
  all.engine = std::move(made.engine);
  std::move(made.notes.begin(), made.notes.end(), std::back_inserter(all.notes));
  return all;
}

// The words as a shell command, broken into lines by backslashes so that it can be pasted.
std::string pasted_lines(const std::vector<std::string>& words) {
  constexpr std::size_t kWide = 110;
  std::string text, line;
  for (const std::string& word : words) {
    const std::string shown = shell_word(word);
    if (!line.empty() && line.size() + shown.size() > kWide) {
      text += line + "\\\n    ";
      line.clear();
    }
    line += shown + " ";
  }
  line.pop_back();
  return text + line + "\n";
}

std::string told(const Command& command, const Arguments& arguments, const Imported& made) {
  std::vector<std::string> words{"moesh", std::string(command.name)};
  for (const auto* part : {&arguments.words(), &made.keys, &arguments.request()}) words = config::joined(std::move(words), *part);
  std::string text = pasted_lines(words);
  return text + wrapped(foreign::told(made.notes), terminal_width(), 2) + "\n";
}

// The option's value is compared too, since `train` has another --from, which takes a step.
bool takes_foreign_requests(const Command& command) {
  return std::any_of(command.options.begin(), command.options.end(),
                     [](const Option& option) { return option.name == kFrom.name && option.value == kFrom.value; });
}

}  // namespace

bool is_unquoted(const std::string& text) { return text.starts_with("--") && text.find_first_of(" =\n\t") == std::string::npos; }

void refuse_unquoted() {
  refuse("the command behind --from is several words of this command line", kCommandLine,
         "put it in quotes: --from megatron \"--num-layers 32 --hidden-size 4096 ...\"");
}

Arguments with_foreign_request(const Command& command, Arguments arguments) {
  if (!takes_foreign_requests(command) || (!arguments.has(kFrom.name) && !arguments.has(kHuggingFace.name))) return arguments;
  const Imported made = imported(arguments, arguments.request());
  const std::string text = told(command, arguments, made);
  fmt::print(arguments.has("--json") ? stderr : stdout, "{}", text);
  const auto with = [given = arguments](const config::Keys& more) {
    const config::Keys own = config::joined(given.request(), more);
    return config::joined(imported(given, own).keys, own);
  };
  arguments.translate(made.keys, with, made.engine);
  return arguments;
}

}  // namespace moesh::cli
