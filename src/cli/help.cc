#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include "base/error.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/builtin.h"
#include "config/relevance.h"
#include "config/schema.h"
#include "mesh/hardware.h"
#include "mesh/topology.h"
#include "session/reopen.h"
#include "train/model_size.h"

namespace moesh::cli {
namespace {

constexpr std::string_view kHelpExamples[] = {"help ici_fsdp_parallelism", "help keys", "help models", "help rules",
                                          "help hardware", "help shardings", "help v5p", "help ep-tp"};

std::string choices_words(const config::Key& key) {
  std::vector<std::string> done;
  std::vector<std::string> refused;
  for (const config::Choice& choice : config::choices(key)) {
    (choice.refused ? refused : done).push_back(choice.word.empty() ? "''" : std::string(choice.word));
  }
  return join(done, ", ") + (refused.empty() ? "" : "; not done here: " + join(refused, ", "));
}

std::string status_words(const config::Key& key) {
  switch (key.status) {
    case config::Status::used: return "used";
    case config::Status::accepted: return "accepted without effect: results are the same without it";
    case config::Status::planned_without: return "refused by a run unless at its default; plans leave it out, and say so";
    case config::Status::refused:
      return fmt::format("refused{} unless at its default: it asks for what moesh does not do",
                         config::topic_of(key).scope == config::Scope::runs ? " by a run" : "");
  }
  return "";
}

std::string needs_words(const config::Key& key) {
  std::vector<std::string> words;
  for (const config::Need& need : config::needs()) {
    if (need.names(key.name)) words.emplace_back(need.words);
  }
  return join(words, "; ");
}

void show_key(const config::Key& key) {
  fmt::print("{}\n  {}\n  type:    {}\n  default: {}\n", key.name, key.help, name_of(key.kind),
             key.initial.empty() ? "''" : key.initial);
  if (key.kind == config::Kind::choice) {
    fmt::print("  one of:  {}\n", choices_words(key));
  } else if (!key.range.empty()) {
    fmt::print("  range:   {}\n", key.range);
  }
  fmt::print("  status:  {}\n", status_words(key));
  if (const std::string needed = needs_words(key); !needed.empty()) fmt::print("  only with: {}\n", needed);
}

void show_keys() {
  for (const config::Topic& topic : config::topics()) {
    fmt::print("{}\n", topic.title);
    Table table({{"  key"}, {"default", false, Room::cut}, {"status"}, {"", false, Room::wrap}});
    for (const config::Key& key : topic.keys) {
      table.add({"  " + std::string(key.name), shorten(key.initial.empty() ? "''" : key.initial, 28),
                 std::string(name_of(key.status)), std::string(key.help)});
    }
    fmt::print("{}\n", table.text(terminal_width()));
  }
}

void print_list(const Table& table, std::string_view use) {
  const int width = terminal_width();
  fmt::print("{}\n{}\n", table.text(width), wrapped(use, width, 2));
}

// The comment that opens a built-in file.
std::string about(const std::string& path) {
  std::string words;
  for (const std::string& line : split(config::find_builtin(path)->text, '\n')) {
    if (!line.starts_with("# ")) break;
    words += (words.empty() ? "" : " ") + line.substr(2);
  }
  return words;
}

void show_rules() {
  Table table({{""}, {"", false, Room::wrap}});
  for (const std::string& name : config::builtin_names("rules")) table.add({"  " + name, about("rules/" + name + ".yml")});
  print_list(table, "custom_mesh_and_rule=NAME, or the path of a YAML file of your own");
}

std::string expert_words(const config::ModelShape& shape) {
  if (!shape.is_moe()) return "-";
  const std::string shared = shape.moe.shared_experts > 0 ? fmt::format(" + {} shared", shape.moe.shared_experts) : "";
  return fmt::format("{} of {}{}", shape.moe.experts_per_token, shape.moe.experts, shared);
}

void show_models() {
  Table table({{"  model"}, {"parameters", true}, {"active", true}, {"layers", true}, {"experts a token"},
               {"family", false, Room::none, 1}});
  for (const std::string& name : config::builtin_names("models")) {
    const session::Session session = session::reopen({"model_name=" + name, "compile_topology=cpu-1"});
    const train::ModelSize size = train::model_size(session.graph, session.shape, 1, 1);
    table.add({"  " + name, human_count(static_cast<double>(size.parameters)), human_count(static_cast<double>(size.active)),
               std::to_string(session.shape.layers), expert_words(session.shape), session.loaded.settings.text("decoder_block")});
  }
  print_list(table, "model_name=NAME, or the path of a YAML file of your own");
}

std::string flops_words(const std::optional<double>& flops) { return flops ? fmt::format("{:.5g}", *flops / 1e12) : "-"; }

std::int64_t most_devices(const mesh::Chip& chip) {
  if (const auto* nodes = std::get_if<mesh::NodeSizes>(&chip.sizes)) return nodes->most;
  if (const auto* any = std::get_if<mesh::AnySizes>(&chip.sizes)) return any->most;
  std::int64_t most = 0;
  for (const auto& grid : std::get<mesh::GridSizes>(chip.sizes).grids) most = std::max(most, mesh::chips_of(grid) * chip.devices_per_chip);
  return most;
}

void show_hardware() {
  Table table({{"  name"}, {"memory", true}, {"GB/s", true}, {"TFLOP/s", true}, {"links and their GB/s", false, Room::wrap},
               {"devices", true}, {"a node", true, Room::none, 1}, {"", false, Room::none, 2}});
  for (const std::string& name : mesh::hardware_names()) {
    const mesh::Chip chip = mesh::load_builtin_chip(name);
    std::vector<std::string> links;
    for (const mesh::Link& link : chip.links) links.push_back(fmt::format("{} {:.4g}", link.kind, link.bytes_per_second / 1e9));
    const auto* nodes = std::get_if<mesh::NodeSizes>(&chip.sizes);
    table.add({"  " + name, human_bytes(chip.memory_bytes), fmt::format("{:.5g}", chip.memory_bytes_per_second / 1e9),
               flops_words(chip.bf16_flops_per_second), join(links, ", "), with_commas(most_devices(chip)),
               nodes != nullptr ? std::to_string(nodes->node) : "-", chip.title});
  }
  print_list(table,
             "All figures are those of one device: its memory and the speed of it, products in bfloat16, what leaves it in one direction; "
             "and the most devices that are planned for. compile_topology=NAME-SIZE, e.g. v6e-8, h100-16, cpu-8; or the path of a YAML "
             "file like configs/hardware/*.yml");
}

// A built-in file as it is.
void show_file(const std::string& title, const std::string& path) {
  fmt::print("{}\n\n{}", title, config::find_builtin(path)->text);
}

void show_rule_set(const std::string& name) {
  show_file(fmt::format("{}: a rule set, for custom_mesh_and_rule={}", name, name), "rules/" + name + ".yml");
}

void show_model(const std::string& name) {
  const session::Session session = session::reopen({"model_name=" + name, "compile_topology=cpu-1"});
  const train::ModelSize size = train::model_size(session.graph, session.shape, 1, 1);
  const std::string experts = session.shape.is_moe() ? ", experts a token: " + expert_words(session.shape) : "";
  show_file(fmt::format("{}: a model, for model_name={}; {} parameters, {} active, {}{}", name, name,
                        human_count(static_cast<double>(size.parameters)), human_count(static_cast<double>(size.active)),
                        counted(session.shape.layers, "layer"), experts),
            "models/" + name + ".yml");
}

// "v5p-8, v5p-16, ...", which are all sizes that there are, or the sizes of machines of nodes.
std::string sizes_words(const mesh::Chip& chip) {
  if (const auto* nodes = std::get_if<mesh::NodeSizes>(&chip.sizes))
    return fmt::format("{}-N for N devices: a power of two within a node of {}, or whole nodes, up to {}", chip.name, nodes->node,
                       with_commas(nodes->most));
  if (const auto* any = std::get_if<mesh::AnySizes>(&chip.sizes))
    return fmt::format("{}-N for N devices, up to {}", chip.name, with_commas(any->most));
  const std::vector<std::string> all = mesh::machines_like(chip.name + "-1", 1, most_devices(chip));
  const std::int64_t devices = mesh::find_topology(all.back(), 1).devices();
  return fmt::format("{}; {} has {}", join(all, ", "), all.back(), counted(devices, "device"));
}

void show_kind(const std::string& name) {
  const mesh::Chip chip = mesh::load_builtin_chip(name);
  fmt::print("{}\n\n", wrapped(fmt::format("{}: {}, for compile_topology={}-SIZE\nsizes: {}", name, chip.title, name, sizes_words(chip)),
                               terminal_width(), 2));
  show_file(fmt::format("configs/hardware/{}.yml:", name), "hardware/" + name + ".yml");
}

const Command* command_named(const std::string& topic) {
  const auto found = std::find_if(commands().begin(), commands().end(), [&](const Command* command) { return command->name == topic; });
  return found == commands().end() ? nullptr : *found;
}

struct ListOfAll {
  std::string_view topic;
  void (*show)();
};

constexpr ListOfAll kLists[] = {{"keys", show_keys}, {"models", show_models}, {"rules", show_rules}, {"hardware", show_hardware}};

const ListOfAll* list_of(const std::string& topic) {
  const auto found = std::find_if(std::begin(kLists), std::end(kLists), [&](const ListOfAll& one) { return one.topic == topic; });
  return found == std::end(kLists) ? nullptr : found;
}

// What has a name in a catalogue: `help NAME` tells about one.
struct Catalogue {
  std::vector<std::string> (*names)();
  void (*show)(const std::string& name);
};

constexpr Catalogue kCatalogues[] = {{[] { return mesh::hardware_names(); }, show_kind},
                                     {[] { return config::builtin_names("rules"); }, show_rule_set},
                                     {[] { return config::builtin_names("models"); }, show_model}};

const Catalogue* catalogue_of(const std::string& topic) {
  for (const Catalogue& one : kCatalogues) {
    const std::vector<std::string> names = one.names();
    if (std::find(names.begin(), names.end(), topic) != names.end()) return &one;
  }
  return nullptr;
}

bool is_topic(const std::string& topic) {
  return list_of(topic) != nullptr || config::find_key(topic) != nullptr || command_named(topic) != nullptr ||
         catalogue_of(topic) != nullptr;
}

void show_topic(const std::string& topic) {
  if (const ListOfAll* all = list_of(topic)) {
    all->show();
    const config::Key* key = config::find_key(topic);  // hardware is a key of MaxText's too
    if (key == nullptr) return;
    fmt::print("\n");
    show_key(*key);
  } else if (const config::Key* key = config::find_key(topic)) {
    show_key(*key);
  } else if (const Command* command = command_named(topic)) {
    print_help(help_text(*command));
  } else {
    catalogue_of(topic)->show(topic);
  }
}

[[noreturn]] void refuse_topic(const std::string& topic) {
  std::vector<std::string> close = config::nearest_keys(topic);
  for (const Catalogue& one : kCatalogues) {
    for (const std::string& name : nearest(topic, one.names())) close.push_back(name);
  }
  refuse(fmt::format("'{}' is neither a key nor a command, and no model, rule set or hardware", shorten(topic, 80)), kCommandLine,
         close.empty() ? "`moesh help keys` lists all keys" : "did you mean " + join(close, ", ") + "?");
}

int run_help(const Arguments& arguments) {
  const std::vector<std::string>& topics = arguments.all_words();
  if (topics.empty()) print_help(help_text());
  for (const std::string& topic : topics) {
    if (!is_topic(topic)) refuse_topic(topic);
  }
  for (const std::string& topic : topics) {
    if (&topic != &topics.front()) fmt::print("\n");
    show_topic(topic);
  }
  return 0;
}

}  // namespace

const Command kHelp{
    "help",
    "[KEY | COMMAND | keys | models | rules | hardware | NAME]...",
    "what a key means, its type, default and range; lists of keys, models, rule sets and hardware, and each of them",
    "Tells about configuration keys and commands, or lists what there is. Of a model, a rule set or a kind of hardware it shows the file;\n"
    "of hardware also the sizes of machines that there are.",
    {},
    kHelpExamples,
    run_help};

}  // namespace moesh::cli
