#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/builtin.h"
#include "config/schema.h"
#include "mesh/hardware.h"

namespace moesh::cli {
namespace {

constexpr std::string_view kExamples[] = {"help ici_fsdp_parallelism", "help keys", "help models", "help rules",
                                          "help hardware", "help shardings"};

std::string choices_words(const config::Key& key) {
  std::vector<std::string> done;
  std::vector<std::string> refused;
  for (const config::Choice& choice : config::choices(key)) {
    (choice.refused ? refused : done).push_back(choice.word.empty() ? "''" : std::string(choice.word));
  }
  return join(done, ", ") + (refused.empty() ? "" : "; not done here: " + join(refused, ", "));
}

std::string status_words(config::Status status) {
  switch (status) {
    case config::Status::used: return "used";
    case config::Status::accepted: return "accepted without effect: results are the same without it";
    case config::Status::refused: return "refused unless at its default: it asks for what moesh does not do";
  }
  return "";
}

int show_key(const config::Key& key) {
  fmt::print("{}\n  {}\n  type:    {}\n  default: {}\n", key.name, key.help, name_of(key.kind),
             key.initial.empty() ? "''" : key.initial);
  if (key.kind == config::Kind::choice) {
    fmt::print("  one of:  {}\n", choices_words(key));
  } else if (!key.range.empty()) {
    fmt::print("  range:   {}\n", key.range);
  }
  fmt::print("  status:  {}\n", status_words(key.status));
  return 0;
}

int show_keys() {
  for (const config::Topic& topic : config::topics()) {
    fmt::print("{}\n", topic.title);
    Table table({{"  key", false, false}, {"default", false, true}, {"status", false, false}, {"", false, true}});
    for (const config::Key& key : topic.keys) {
      table.add({"  " + std::string(key.name), shorten(key.initial.empty() ? "''" : key.initial, 28),
                 std::string(name_of(key.status)), std::string(key.help)});
    }
    fmt::print("{}\n", table.text(terminal_width()));
  }
  return 0;
}

// The files of a folder of configs/, each with the comment that opens it.
int show_files(std::string_view folder, std::string_view use) {
  for (const std::string& name : config::builtin_names(folder)) {
    const config::BuiltinFile* file = config::find_builtin(fmt::format("{}/{}.yml", folder, name));
    std::string about;
    for (const std::string& line : split(file->text, '\n')) {
      if (!line.starts_with("# ")) break;
      about += (about.empty() ? "" : " ") + line.substr(2);
    }
    fmt::print("  {:<24} {}\n", name, about);
  }
  fmt::print("\n{}\n", use);
  return 0;
}

int show_hardware() {
  for (const std::string& name : mesh::hardware_names()) fmt::print("  {}\n", name);
  fmt::print(
      "\ncompile_topology=NAME-SIZE, e.g. v6e-8, h100-16, cpu-8; or the path of a YAML file like "
      "configs/hardware/*.yml\n");
  return 0;
}

[[noreturn]] void refuse_topic(const std::string& topic) {
  const std::vector<std::string> close = config::nearest_keys(topic);
  refuse(fmt::format("'{}' is neither a key nor a command", shorten(topic, 80)), "the command line",
         close.empty() ? "`moesh help keys` lists all keys" : "did you mean " + join(close, ", ") + "?");
}

int run(const Arguments& arguments) {
  if (arguments.words().empty()) {
    fmt::print("{}", help_text());
    return 0;
  }
  const std::string& topic = arguments.words().front();
  if (topic == "keys") return show_keys();
  if (topic == "models") return show_files("models", "model_name=NAME, or the path of a YAML file of your own");
  if (topic == "rules") return show_files("rules", "custom_mesh_and_rule=NAME, or the path of a YAML file of your own");
  if (topic == "hardware") return show_hardware();
  if (const config::Key* key = config::find_key(topic)) return show_key(*key);
  for (const Command* command : commands()) {
    if (command->name != topic) continue;
    fmt::print("{}", help_text(*command));
    return 0;
  }
  refuse_topic(topic);
}

}  // namespace

const Command kHelp{
    "help",
    "[KEY | COMMAND | keys | models | rules | hardware]",
    "what a key means, its type, default and range; lists of keys, models, rule sets and hardware",
    "Tells about one configuration key or command, or lists what there is.",
    {},
    kExamples,
    run};

}  // namespace moesh::cli
