#include "forecast/explain.h"

#include <algorithm>
#include <set>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/table.h"
#include "base/text.h"

namespace moesh::forecast {
namespace {

using plan::Instruction;
using plan::InstructionId;
using plan::Plan;

constexpr std::size_t kMostNamed = 8;

bool touches(const Plan& plan, const std::vector<plan::ViewId>& views, plan::BufferId buffer) {
  return std::any_of(views.begin(), views.end(), [&](plan::ViewId id) { return plan.view(id).buffer == buffer; });
}

// The partitioner's choice is found by the path, op, equation and phase of its node.
End end_of(const Plan& plan, const Instruction& instruction, plan::ViewId value,
           const std::vector<partition::Choice>& choices) {
  const auto* einsum = std::get_if<graph::EinsumOf>(&instruction.attributes);
  const std::string equation = einsum == nullptr ? "" : einsum->equation;
  End end{einsum == nullptr ? std::string(name_of(instruction.op)) : equation, instruction.path,
          words_of(plan.view(value), plan.mesh)};
  const auto choice = std::find_if(choices.begin(), choices.end(), [&](const partition::Choice& c) {
    return c.path == instruction.path && c.op == instruction.op && c.equation == equation &&
           c.phase == instruction.phase;
  });
  if (choice != choices.end()) end.choice = &*choice;
  return end;
}

// Goes back to the op that made the value.
End maker_of(const Plan& plan, InstructionId from, const std::vector<partition::Choice>& choices) {
  plan::ViewId value = plan.instructions[static_cast<std::size_t>(from)].operands[0];
  for (InstructionId i = from; i-- > 0;) {
    const Instruction& instruction = plan.instructions[static_cast<std::size_t>(i)];
    if (!touches(plan, instruction.results, plan.view(value).buffer)) continue;
    if (!plan::only_moves(instruction)) return end_of(plan, instruction, value, choices);
    value = instruction.operands[0];
  }
  return {"given", plan.buffer_of(value).name, words_of(plan.view(value), plan.mesh), nullptr};
}

// Goes on to the op that reads the value.
End reader_of(const Plan& plan, InstructionId from, const std::vector<partition::Choice>& choices) {
  plan::ViewId value = plan.instructions[static_cast<std::size_t>(from)].results[0];
  for (std::size_t i = static_cast<std::size_t>(from) + 1; i < plan.instructions.size(); ++i) {
    const Instruction& instruction = plan.instructions[i];
    if (!touches(plan, instruction.operands, plan.view(value).buffer)) continue;
    if (!plan::only_moves(instruction)) return end_of(plan, instruction, value, choices);
    value = instruction.results[0];
  }
  return {"kept", plan.buffer_of(value).name, words_of(plan.view(value), plan.mesh), nullptr};
}

std::string end_words(const char* verb, const End& end) {
  return fmt::format("{} {} ({}) as {}\n", verb, end.path, end.op, end.value);
}

void add_choice(Table& table, const End& end, const mesh::Mesh& mesh) {
  if (end.choice == nullptr) return;
  table.add_group({fmt::format("{} ({})", end.path, end.op), ""});
  table.add({"  chosen: " + to_string(end.choice->chosen, mesh), human_seconds(end.choice->chosen.seconds)});
  table.add({"  next best: " + to_string(end.choice->runner_up, mesh), human_seconds(end.choice->runner_up.seconds)});
}

void write_end(const char* key, const End& end, const mesh::Mesh& mesh, JsonWriter& json) {
  json.line().key(key).begin_object().key("path").value(end.path).key("op").value(end.op).key("value").value(end.value);
  json.key("choice");
  if (end.choice == nullptr) {
    json.null().end_object();
    return;
  }
  json.begin_object()
      .key("chosen")
      .value(to_string(end.choice->chosen, mesh))
      .key("seconds")
      .value(end.choice->chosen.seconds);
  json.key("runner_up")
      .value(to_string(end.choice->runner_up, mesh))
      .key("runner_up_seconds")
      .value(end.choice->runner_up.seconds);
  json.end_object().end_object();
}

bool holds(const Sent& sent, const std::string& word) {
  const std::vector<std::string> axes = split(sent.axes, '+');
  return sent.cause.find(word) != std::string::npos || sent.tensor.find(word) != std::string::npos ||
         sent.kind.find(word) != std::string::npos || sent.axes == word || name_of(sent.phase) == word ||
         std::find(axes.begin(), axes.end(), word) != axes.end();
}

// "5 (c1, c2, c3, ...)"
std::string found_words(const Forecast& f, const std::string& word) {
  std::vector<std::string> names;
  for (const Sent& sent : f.collectives) {
    if (holds(sent, word)) names.push_back(sent.name);
  }
  const std::size_t count = names.size();
  if (count > kMostNamed) names.resize(kMostNamed);
  return fmt::format("{} ({}{})", count, join(names, ", "), count > kMostNamed ? ", ..." : "");
}

// The words that could have been meant: kinds, axes, phases, and paths with their parts.
std::vector<std::string> known_words(const Forecast& f) {
  std::set<std::string> words;
  for (const Sent& sent : f.collectives) {
    words.insert({sent.kind, sent.axes, std::string(name_of(sent.phase)), sent.cause});
    for (const std::string& axis : split(sent.axes, '+')) words.insert(axis);
    for (const std::string& part : split(sent.cause, '/')) words.insert(part);
  }
  return {words.begin(), words.end()};
}

std::string where_listed(const Forecast& f) { return fmt::format("`moesh compile {}... --all` lists them", option_words(f)); }

std::string where_told(const Forecast& f) { return fmt::format("`moesh compile {}...` tells what a step takes", option_words(f)); }

[[noreturn]] void refuse_words(const Forecast& f, const std::vector<std::string>& wanted) {
  std::vector<std::string> alone;
  for (const std::string& word : wanted) {
    if (std::any_of(f.collectives.begin(), f.collectives.end(), [&](const Sent& sent) { return holds(sent, word); })) {
      alone.push_back(fmt::format("'{}' alone finds {}", shorten(word, 80), found_words(f, word)));
      continue;
    }
    const std::vector<std::string> close = nearest(word, known_words(f));
    refuse(fmt::format("no collective's kind, axes or path holds '{}'", shorten(word, 80)), "--at",
           close.empty() ? where_listed(f) : "did you mean " + join(close, ", ") + "?");
  }
  refuse(fmt::format("no collective has all of '{}': {}", shorten(join(wanted, " "), 80), join(alone, ", ")), "--at", "leave a word out");
}

}  // namespace

const Sent& sent_named(const Forecast& f, const std::string& name) {
  const auto sent = std::find_if(f.collectives.begin(), f.collectives.end(), [&](const Sent& s) { return s.name == name; });
  if (sent == f.collectives.end()) {
    refuse(f.collectives.empty()
               ? fmt::format("there is no collective {}: this plan sends nothing", name)
               : fmt::format("there is no collective {}: this plan has c1 to {}", name, f.collectives.back().name),
           kCommandLine, f.collectives.empty() ? where_told(f) : where_listed(f));
  }
  return *sent;
}

std::vector<const Sent*> sent_at(const Forecast& f, const std::string& words) {
  std::vector<std::string> wanted = split(words, ' ');
  std::erase(wanted, "");
  if (wanted.empty()) refuse("--at names nothing", "--at", "moesh why --at \"PATH KIND\" ..., such as \"MoeBlock_0 all-gather\"");
  if (f.collectives.empty()) refuse("nothing is found: this plan sends nothing", "--at", where_told(f));
  std::vector<const Sent*> found;
  for (const Sent& sent : f.collectives) {
    if (std::all_of(wanted.begin(), wanted.end(), [&](const std::string& word) { return holds(sent, word); })) found.push_back(&sent);
  }
  if (found.empty()) refuse_words(f, wanted);
  std::stable_sort(found.begin(), found.end(), [](const Sent* a, const Sent* b) { return a->seconds > b->seconds; });
  return found;
}

Explanation explain(const Sent& sent, const Plan& plan, const std::vector<partition::Choice>& choices) {
  const Instruction& instruction = plan.instructions[static_cast<std::size_t>(sent.instruction)];
  const auto spec = [&](plan::ViewId id) { return sharding::to_string(plan.view(id).spec, plan.mesh); };
  return {sent, spec(instruction.operands[0]), spec(instruction.results[0]), maker_of(plan, sent.instruction, choices),
          reader_of(plan, sent.instruction, choices)};
}

std::string to_text(const Explanation& e, const mesh::Mesh& mesh, int width) {
  const Sent& sent = e.sent;
  const auto runs = static_cast<double>(sent.what.runs);
  std::string text = fmt::format("{}: {} over {}, {} in a group; {} in a step\n", sent.name, sent.kind, sent.axes,
                                 counted(sent.what.group, "device"), counted(sent.what.runs, "run"));
  text += fmt::format(
      "A device hands in {} a run{} and sends {}; {} a run, {} a step, of which kernels wait for {}.\n\n",
      human_bytes(sent.what.operand_bytes),
      sent.what.bound_bytes
          ? fmt::format(" (with an even router; {} at most)", human_bytes(*sent.what.bound_bytes))
          : "",
      human_bytes(sent.what.wire_bytes), human_seconds(sent.seconds / runs), human_seconds(sent.seconds),
      human_seconds(sent.exposed));
  const std::string way = e.from == e.to ? "" : fmt::format(" from {} to {}", e.from, e.to);
  text += fmt::format("It moves {}{}.\n", sent.tensor, way) + end_words("made by", e.made) + end_words("read by", e.read);
  Table table({{"what the partitioner chose", false, Room::wrap}, {"price", true}});
  add_choice(table, e.made, mesh);
  if (e.made.path != e.read.path || e.made.op != e.read.op) add_choice(table, e.read, mesh);
  const bool has_choice = e.made.choice != nullptr || e.read.choice != nullptr;
  if (!has_choice)
    return wrapped(
        text + "\nNo choice led to it: what is asked for there by rules and by the op is all that there is.\n", width,
        2);
  return wrapped(text + "\n", width, 2) + table.text(width) +
         wrapped(
             "A price is an op's own time and that of the collectives that bring its operands and results where they "
             "are wanted.\n",
             width, 2);
}

void write(const Explanation& e, const mesh::Mesh& mesh, JsonWriter& json) {
  json.begin_object().key("name").value(e.sent.name).key("kind").value(e.sent.kind).key("axes").value(e.sent.axes);
  json.key("group")
      .value(e.sent.what.group)
      .key("operand")
      .value(e.sent.operand)
      .key("operand_bytes")
      .value(e.sent.what.operand_bytes)
      .key("sent_bytes")
      .value(e.sent.what.wire_bytes);
  json.key("count")
      .value(e.sent.what.runs)
      .key("seconds")
      .value(e.sent.seconds)
      .key("exposed_seconds")
      .value(e.sent.exposed);
  json.key("cause").value(e.sent.cause).key("tensor").value(e.sent.tensor);
  json.key("from").value(e.from).key("to").value(e.to);
  write_end("made_by", e.made, mesh, json);
  write_end("read_by", e.read, mesh, json);
  json.line().end_object();
}

}  // namespace moesh::forecast
