#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <limits>

#include <fmt/core.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "cli/command.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "store/hash.h"

namespace moesh::cli {
namespace {

constexpr Option kCheckpointOptions[] = {
    {"--filter", "TEXT", "show: only tensors whose name has this text"},
    {"--keep", "N", "rm: how many of the newest whole ones stay"},
    {"--json", "", "all but rm: the same as JSON"},
    {"--threads", "N", "check, diff and rm: reads with N threads, not with one for each core that this process may keep busy"},
};

constexpr std::string_view kCheckpointExamples[] = {
    "checkpoint ls moesh_output/kept",
    "checkpoint show moesh_output/kept --filter embed",
    "checkpoint check moesh_output/kept",
    "checkpoint diff moesh_output/kept/checkpoints/0 moesh_output/kept/checkpoints/3",
    "checkpoint rm moesh_output/kept --keep 2",
};

std::string mesh_words(const store::About& about) {
  std::vector<std::string> axes;
  for (const auto& [axis, size] : about.mesh) axes.push_back(fmt::format("{}={}", axis, size));
  return axes.empty() ? "one device" : join(axes, " ");
}

std::int64_t bytes_of(const store::Tensor& tensor) { return elements(tensor.shape) * size_of(tensor.dtype); }

// A hash over the hashes of the tensor's chunks. It tells whether two tensors are equal if both were cut into the same chunks.
std::string hash_words(const store::Tensor& tensor) {
  std::string all;
  for (const store::Piece& piece : tensor.pieces) {
    for (const std::uint64_t hash : piece.hashes) all += store::hash_text(hash);
  }
  return store::hash_text(store::hash_of(all));
}

// The paths that a command line names after its first word.
std::vector<std::string> paths(const Arguments& arguments, std::size_t least, std::size_t most) {
  if (!arguments.request().empty()) {
    refuse(fmt::format("'{}' is no path", shorten(arguments.request().front(), 80)), kCommandLine, "moesh checkpoint --help");
  }
  const std::vector<std::string>& words = arguments.words();
  const std::size_t given = words.size() - 1;
  if (given < least || given > most) {
    refuse(fmt::format("{} for '{}', {} expected", counted(static_cast<std::int64_t>(given), "path"), words.front(),
                       most == 1 ? "one was" : least == 2 ? "two were" : "one or more were"),
           kCommandLine, "moesh checkpoint --help");
  }
  return {words.begin() + 1, words.end()};
}

int list(const Arguments& arguments) {
  Table table({{"checkpoint", false, Room::cut_start}, {"date"}, {"bytes", true}, {"parameters", true}, {"optimizer"}, {"mesh"}, {""}});
  JsonWriter json;
  json.begin_array();
  for (const std::string& path : store::checkpoints_at(paths(arguments, 1, 1).front())) {
    json.line().begin_object().key("path").value(path);
    try {
      const store::Checkpoint checkpoint(path);
      const store::About& about = checkpoint.index().about;
      table.add({path, about.date, human_bytes(checkpoint.index().bytes()), with_commas(about.parameters), about.optimizer,
                 mesh_words(about), ""});
      json.key("step").value(about.step).key("date").value(about.date).key("bytes").value(checkpoint.index().bytes());
      json.key("parameters").value(about.parameters).key("optimizer").value(about.optimizer).key("mesh").begin_object();
      for (const auto& [axis, size] : about.mesh) json.key(axis).value(size);
      json.end_object().key("error").null();
    } catch (const Error& error) {
      const std::string what = split(error.what(), '\n').front();
      table.add({path, "", "", "", "", "", what});
      json.key("error").value(what);
    }
    json.end_object();
  }
  json.line().end_array();
  fmt::print("{}", arguments.has("--json") ? json.text() + "\n" : table.text(terminal_width()));
  return 0;
}

void show_json(const store::Index& index, const std::string& path, const std::string& filter) {
  JsonWriter json;
  json.begin_object().key("path").value(path).key("bytes").value(index.bytes());
  write(json.line(), index.about);
  json.line().key("tensors").begin_array();
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find(filter) == std::string::npos) continue;
    json.line().begin_object().key("name").value(name).key("dtype").value(name_of(tensor.dtype)).key("shape").values(tensor.shape);
    json.key("bytes").value(bytes_of(tensor)).key("spec").value(tensor.spec).key("hash").value(hash_words(tensor)).end_object();
  }
  fmt::print("{}\n", json.line().end_array().end_object().text());
}

int show(const Arguments& arguments) {
  const std::string path = store::checkpoints_at(paths(arguments, 1, 1).front()).front();
  const store::Checkpoint checkpoint(path);
  const store::Index& index = checkpoint.index();
  const std::string filter = arguments.value("--filter").value_or("");
  if (arguments.has("--json")) {
    show_json(index, path, filter);
    return 0;
  }
  const store::About& about = index.about;
  fmt::print("{}: after step {}, {} by moesh {}\n", path, about.step, about.date, about.moesh);
  fmt::print("{} parameters, optimizer {}, {} in {}; saved from {}; the next row of the data is {}\n", with_commas(about.parameters),
             about.optimizer, human_bytes(index.bytes()), counted(static_cast<std::int64_t>(index.files.size()), "file"), mesh_words(about),
             with_commas(about.rows));
  for (const auto& [key, value] : about.settings) fmt::print("  {}: {}\n", key, value);
  Table table({{"tensor", false, Room::cut_start}, {"type"}, {"shape"}, {"lay as"}, {"bytes", true}, {"hash"}});
  for (const auto& [name, tensor] : index.tensors) {
    if (name.find(filter) != std::string::npos) {
      table.add({name, std::string(name_of(tensor.dtype)), to_string(tensor.shape), tensor.spec, human_bytes(bytes_of(tensor)),
                 hash_words(tensor)});
    }
  }
  fmt::print("{}", table.text(terminal_width()));
  return 0;
}

enum class Verdict { whole, damaged, not_read, removed };

std::string_view words_of(Verdict verdict) {
  constexpr std::string_view kWords[] = {"whole", "DAMAGED", "NOT READ", "removed"};
  return kWords[static_cast<std::size_t>(verdict)];
}

struct Checked {
  Verdict verdict = Verdict::whole;
  std::string words;  // behind the verdict
  std::vector<std::string> damage;
};

Checked checked(const std::string& path, backend::Workers& workers) {
  Checked made;
  try {
    const auto begin = Clock::now();
    store::Checkpoint checkpoint(path);
    made.damage = checkpoint.damage(workers);
    if (!made.damage.empty()) made.verdict = Verdict::damaged;
    else made.words = fmt::format(", {} and {} held to their hashes in {:.2f} s",
                                  counted(static_cast<std::int64_t>(checkpoint.index().tensors.size()), "tensor"),
                                  human_bytes(checkpoint.bytes_read()), seconds_since(begin));
  } catch (const Error& error) {
    if (!std::filesystem::exists(path)) return {Verdict::removed, " meanwhile", {}};  // a run that goes on removes its oldest
    made.verdict = error.parts().fault == Fault::failed ? Verdict::not_read : Verdict::damaged;
    made.damage.emplace_back(error.what());
  }
  for (std::string& what : made.damage) what = split(what, '\n').front();
  return made;
}

int check(const Arguments& arguments) {
  backend::Workers workers(threads_of(arguments));
  bool is_whole = true;
  const bool as_json = arguments.has("--json");
  JsonWriter json;
  json.begin_array();
  for (const std::string& named : paths(arguments, 1, std::numeric_limits<std::size_t>::max())) {
    for (const std::string& path : store::checkpoints_at(named)) {
      const Checked made = checked(path, workers);
      is_whole = is_whole && made.damage.empty();
      json.line().begin_object().key("path").value(path).key("verdict").value(lower(words_of(made.verdict)));
      json.key("damage").values(made.damage).end_object();
      if (as_json) continue;
      fmt::print("{}: {}{}\n", path, words_of(made.verdict), made.words);
      for (const std::string& what : made.damage) fmt::print("  {}\n", what);
    }
  }
  if (as_json) fmt::print("{}\n", json.line().end_array().text());
  return is_whole ? 0 : 1;
}

struct Distance {
  double most = 0;       // largest difference of an element
  double difference = 0, size = 0;  // sums of squares of the differences and of the elements of A

  double relative() const { return size > 0 ? std::sqrt(difference / size) : std::sqrt(difference); }
};

// Compares one tensor of two checkpoints, a chunk at a time.
Distance distance(store::Checkpoint& a, store::Checkpoint& b, const std::string& name, backend::Workers& workers) {
  const store::Tensor& of = a.index().tensors.at(name);
  Distance distance;
  const store::Chunks chunks(store::whole_block(of.shape), of.dtype);
  std::vector<float> of_a, of_b;
  for (std::int64_t i = 0; i < chunks.count(); ++i) {
    const store::Block block = chunks.block(i);
    const auto fill = [&](store::Checkpoint& from, std::vector<float>& to) {
      to.resize(static_cast<std::size_t>(store::elements_of(block)));
      from.read(name, {store::dense_part(block, DType::float32, reinterpret_cast<std::byte*>(to.data()))}, workers);
    };
    fill(a, of_a);
    fill(b, of_b);
    for (std::size_t k = 0; k < of_a.size(); ++k) {
      const double difference = static_cast<double>(of_b[k]) - static_cast<double>(of_a[k]);
      distance.most = std::max(distance.most, std::abs(difference));
      distance.difference += difference * difference;
      distance.size += static_cast<double>(of_a[k]) * static_cast<double>(of_a[k]);
    }
  }
  return distance;
}

class Difference {
 public:
  void add(const std::string& kind, const std::string& name, const std::string& a, const std::string& b) {
    table_.add({kind, name, a, b});
    json_.line().begin_object().key("kind").value(kind).key("name").value(name).key("a").value(a).key("b").value(b).end_object();
    ++count_;
  }
  Difference() { json_.begin_array(); }
  int print(bool as_json) {
    json_.line().end_array();
    if (as_json) fmt::print("{}\n", json_.text());
    else if (count_ == 0) fmt::print("the same\n");
    else fmt::print("{}", table_.text(terminal_width()));
    return count_ == 0 ? 0 : 1;
  }

 private:
  Table table_{{{"what"}, {"name", false, Room::cut_start}, {"A"}, {"B"}}};
  JsonWriter json_;
  int count_ = 0;
};

std::string shape_words(const store::Tensor& of) { return fmt::format("{}{}", name_of(of.dtype), to_string(of.shape)); }

int diff(const Arguments& arguments) {
  const std::vector<std::string> named = paths(arguments, 2, 2);
  backend::Workers workers(threads_of(arguments));
  store::Checkpoint a(store::checkpoints_at(named[0]).front()), b(store::checkpoints_at(named[1]).front());
  Difference found;
  const store::About &before = a.index().about, &after = b.index().about;
  if (before.step != after.step) found.add("setting", "(step)", std::to_string(before.step), std::to_string(after.step));
  for (const auto& [key, was, is] : store::changed_settings(before.settings, after.settings)) {
    if (key != "run_name" && key != "base_output_directory") found.add("setting", key, was, is);
  }
  Progress progress("tensor", static_cast<std::int64_t>(a.index().tensors.size()));
  std::int64_t done = 0;
  for (const auto& [name, tensor] : a.index().tensors) {
    progress.advance(done++);
    const auto other = b.index().tensors.find(name);
    if (other == b.index().tensors.end()) found.add("tensor", name, shape_words(tensor), "-");
    else if (other->second.shape != tensor.shape) found.add("tensor", name, shape_words(tensor), shape_words(other->second));
    else if (const Distance d = distance(a, b, name, workers); d.most > 0 || std::isnan(d.difference)) {
      found.add("values", name, shape_words(tensor), fmt::format("{:.2e} relative, {:.2e} at most", d.relative(), d.most));
    }
  }
  for (const auto& [name, tensor] : b.index().tensors) {
    if (!a.index().tensors.contains(name)) found.add("tensor", name, "-", shape_words(tensor));
  }
  return found.print(arguments.has("--json"));
}

int remove(const Arguments& arguments) {
  const std::string path = paths(arguments, 1, 1).front();
  const auto keep = count_of(arguments, "--keep", std::numeric_limits<std::int32_t>::max(), "--keep 2");
  if (!keep) refuse("how many are to stay?", kCommandLine, "moesh checkpoint rm RUN --keep N");
  const std::string folder = store::steps_in(path).empty() ? store::checkpoints_of_run(path) : path;
  if (store::steps_in(folder).empty()) refuse("no checkpoint is there", path, "name the folder of a run that has some");
  const store::FolderLock lock(folder);
  store::clear_leftovers(folder);
  backend::Workers workers(threads_of(arguments));
  const auto is_whole = [&](const std::string& checkpoint) {
    const Checked made = checked(checkpoint, workers);
    if (made.damage.empty()) return made.verdict == Verdict::whole;
    log_warning(fmt::format("{}: {}, so an older one stays in its place: {}", checkpoint, words_of(made.verdict), made.damage.front()));
    return false;
  };
  const std::vector<std::int64_t> gone = store::keep_newest(folder, *keep, "", is_whole);
  fmt::print("{} removed, {} left\n", counted(static_cast<std::int64_t>(gone.size()), "checkpoint"), store::steps_in(folder).size());
  return 0;
}

struct Act {
  std::string_view name;
  int (*run)(const Arguments&);
  std::string_view options;  // the options that it takes, separated by blanks
};

constexpr Act kActs[] = {
    {"ls", list, "--json"}, {"show", show, "--filter --json"}, {"check", check, "--json --threads"}, {"diff", diff, "--json --threads"},
    {"rm", remove, "--keep --threads"}};

int run_checkpoint(const Arguments& arguments) {
  const std::string asked = arguments.words().empty() ? "" : arguments.words().front();
  const auto act = std::find_if(std::begin(kActs), std::end(kActs), [&](const Act& one) { return one.name == asked; });
  if (act == std::end(kActs))
    refuse(fmt::format("'{}': ls, show, check, diff or rm was expected", shorten(asked, 40)), kCommandLine,
           "moesh checkpoint ls RUN");
  const std::vector<std::string> taken = split(act->options, ' ');
  for (const Option& option : kCheckpointOptions) {
    if (!arguments.has(option.name) || std::find(taken.begin(), taken.end(), option.name) != taken.end()) continue;
    refuse(fmt::format("{} has no effect on `checkpoint {}`, which takes {}", option.name, asked, join(taken, " and ")), kCommandLine,
           "leave it out");
  }
  return act->run(arguments);
}

}  // namespace

const Command kCheckpoint{
    "checkpoint",
    "ls RUN | show PATH | check PATH... | diff A B | rm RUN --keep N",
    "lists, shows, checks, compares and removes checkpoints",
    "PATH is a checkpoint (RUN/checkpoints/STEP), or a run's folder, which stands for its newest; `check` takes all of a run's.\n"
    "show tells the settings a checkpoint was saved with, and each tensor's type, shape, layout and hash. check reads all of it\n"
    "and holds every byte to its hash: exit code 1 when something is damaged or not read. diff tells other settings (the run's\n"
    "name and folder aside), tensors that one of them lacks, and how far values are apart: exit code 1 when something differs.\n"
    "rm checks those that are to stay, and removes what is older than the newest N that are whole.",
    kCheckpointOptions,
    kCheckpointExamples,
    run_checkpoint};

}  // namespace moesh::cli
