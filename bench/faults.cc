// Prints how a run ends when something goes wrong around it: its message, its exit code, and how long it takes.
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/system.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "errors.h"
#include "session/session.h"
#include "store/folder.h"
#include "temporary_folder.h"
#include "train/batches.h"
#include "train/trainer.h"
#include "transport/processes.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_faults [--timeout=SECONDS] [--damages=N]

A table of faults that runs are put through: a full disk, a folder that is read-only or gone, files that are damaged, processes that
differ, sleep, die or come apart. For each: the exit code, the seconds from the fault to the end, whether the newest whole checkpoint is
still found, and the message. Needs to be root, to mount small disks, and mpirun.

  --timeout=SECONDS  collective_timeout of the runs (default 5)
  --damages=N        bit flips and truncations of each kind (default 100)
)";

struct Options {
  std::int64_t timeout = 5, damages = 100;
  bool comes_apart = false;  // this process is one of two whose steps differ
};

const std::string kModel =
    "model_name=mixtral-8x7b override_model_config=true compile_topology=cpu-4 ici_fsdp_parallelism=2 "
    "ici_expert_parallelism=2 "
    "num_experts=4 dtype=float32 base_num_decoder_layers=2 base_emb_dim=96 base_num_query_heads=2 base_num_kv_heads=2 "
    "head_dim=8 "
    "base_mlp_dim=512 base_moe_mlp_dim=512 vocab_size=64 per_device_batch_size=1 max_target_length=16 "
    "dataset_type=synthetic "
    "log_config=false enable_checkpointing=true checkpoint_period=1 ";

// A temporary folder on which small disks can be mounted.
class Folder : public TemporaryFolder {
 public:
  Folder() = default;
  ~Folder() {
    while (::umount2(path().c_str(), MNT_DETACH) == 0) {
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  // Mounts a disk in memory with these options, such as its size.
  void mount(const std::string& options) const {
    if (::mount("none", path().c_str(), "tmpfs", 0, options.c_str()) != 0)
      fail("a small disk cannot be mounted: " + system_reason());
  }
  // Makes the disk read-only as soon as no file is being written.
  void make_read_only() const {
    while (::mount("none", path().c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "") != 0) {
      if (errno != EBUSY) fail("a disk cannot be made read-only: " + system_reason());
    }
  }
};

// A command in a process group of its own, with its output in files.
class Process {
 public:
  Process(const std::vector<std::string>& words, const std::string& folder)
      : out_(folder + "/out"), err_(folder + "/err") {
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    id_ = ::fork();
    if (id_ > 0) return;
    ::setpgid(0, 0);
    for (const auto& [stream, path] : {std::pair{STDOUT_FILENO, &out_}, {STDERR_FILENO, &err_}}) {
      ::dup2(::open(path->c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), stream);
    }
    for (const char* variable : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      ::setenv(variable, "1", 0);
    ::setenv("OMPI_MCA_btl_vader_single_copy_mechanism", "none", 0);
    ::execvp(arguments.front(), arguments.data());
    ::_exit(127);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  int wait() const {
    int status = 0;
    ::waitpid(id_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string text(const std::string& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string out() const { return text(out_); }
  std::string err() const { return text(err_); }
  // The first error in its output, or else the last line.
  std::string message() const {
    std::string last;
    for (const std::string& line : split(err(), '\n')) {
      if (line.find("error: ") != std::string::npos) return line.substr(line.find("error: ") + 7);
      if (!trim(line).empty()) last = line;
    }
    return last;
  }

 private:
  std::string out_, err_;
  pid_t id_ = 0;
};

pid_t process_of(const std::string& folder, int number) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const auto id = parse_integer(entry.path().filename().string());
    const auto text = [&](const char* name) {
      std::ifstream file(entry.path() / name);
      return std::string{std::istreambuf_iterator<char>(file), {}};
    };
    if (!id || text("cmdline").find(folder) == std::string::npos) continue;
    if (text("environ").find(fmt::format("OMPI_COMM_WORLD_RANK={}", number) + '\0') != std::string::npos)
      return static_cast<pid_t>(*id);
  }
  return 0;
}

void wait_until(const std::function<bool()>& is_so) {
  for (int i = 0; i < 6000; ++i) {
    if (is_so()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  fail("a run did not come to where it was to be disturbed");
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (const std::string& word : split(text, ' ')) {
    if (!word.empty()) words.push_back(word);
  }
  return words;
}

class Faults {
 public:
  explicit Faults(const Options& options)
      : options_(options),
        table_({{"fault"}, {"code", true}, {"seconds", true}, {"left"}, {"message", false, Room::wrap}}) {}

  void run() {
    in_one_process();
    in_several();
    of_files();
    fmt::print("{}", table_.text(columns_of(Stream::out)));
  }

 private:
  std::string request(const Folder& folder, const std::string& more) const {
    return fmt::format("{} train {}base_output_directory={} run_name=r collective_timeout={} {}", MOESH_BINARY, kModel,
                       folder.path(), options_.timeout, more);
  }
  static std::string checkpoints(const Folder& folder) { return folder.path() + "/r/checkpoints"; }
  static bool has_step(const Folder& folder, std::int64_t step) {
    const auto steps = store::steps_in(checkpoints(folder));
    return !steps.empty() && steps.back() >= step;
  }
  static std::string left(const Folder& folder) {
    const auto steps = store::steps_in(checkpoints(folder));
    const Process check({MOESH_BINARY, "checkpoint", "check", folder.path() + "/r"}, "/tmp");
    if (steps.empty()) return "none was there";
    return fmt::format("step {}, {}", steps.back(), check.wait() == 0 ? "whole" : "DAMAGED");
  }
  void add(const std::string& fault, int code, double seconds, const std::string& state, const std::string& message) {
    table_.add({fault, std::to_string(code), fmt::format("{:.1f}", seconds), state, message});
    fmt::print(stderr, "{}\n", fault);
  }

  // Starts a long run and calls `act` once it has saved some steps.
  void disturb(const std::string& fault, const Folder& folder, const std::string& more,
               const std::function<void()>& act) {
    const Process run(words_of(request(folder, more)), "/tmp");
    wait_until([&] { return has_step(folder, 3); });
    const auto begin = Clock::now();
    act();
    const int code = run.wait();
    add(fault, code, seconds_since(begin), left(folder), run.message());
  }

  void in_one_process() {
    const Folder full;
    full.mount("size=80m");
    disturb("the disk is full", full, "steps=30 max_num_checkpoints_to_keep=100", [] {});
    const Folder locked;
    locked.mount("size=100m");
    disturb("the folder becomes read-only", locked, "steps=400 max_num_checkpoints_to_keep=2 metrics_file=/dev/null",
            [&] { locked.make_read_only(); });
    const Folder gone;
    disturb("the folder is removed", gone, "steps=200 max_num_checkpoints_to_keep=2",
            [&] { std::filesystem::rename(gone.path() + "/r", gone.path() + "/elsewhere"); });
    const Folder shared;
    const Process first(words_of(request(shared, "steps=100000")), shared.path());
    wait_until([&] { return has_step(shared, 2); });
    const auto begin = Clock::now();
    const Process second(words_of(request(shared, "steps=5")), "/tmp");
    const int code = second.wait();
    const double seconds = seconds_since(begin);
    std::system(fmt::format("pkill -TERM -f {}", shared.path()).c_str());
    first.wait();
    add("a second run in the folder", code, seconds, left(shared), second.message());
  }

  // Runs two processes by mpirun, each started with its own command.
  void apart(const std::string& fault, const std::string& one, const std::string& other) {
    const auto begin = Clock::now();
    const Process run(words_of("mpirun -q --bind-to none --oversubscribe -n 1 " + one + " : -n 1 " + other), "/tmp");
    const int code = run.wait();
    add(fault, code, seconds_since(begin), "", run.message());
  }

  void in_several() {
    for (const auto& [fault, signal] : {std::pair{"a process sleeps", SIGSTOP}, {"a process dies", SIGKILL}}) {
      const Folder folder;
      pid_t victim = 0;
      disturb(fault, folder, "steps=100000 --processes 2", [&] {
        victim = process_of(folder.path(), 1);
        ::kill(victim, signal);
      });
      if (signal == SIGSTOP && victim > 0) ::kill(victim, SIGKILL);
    }
    const Folder folder;
    const std::string plain = request(folder, "steps=3 ");
    apart("another setting", plain, plain + "learning_rate=0.5");
    const std::string other = folder.path() + "/moesh";
    std::filesystem::copy(MOESH_BINARY, other);
    std::filesystem::copy(std::filesystem::path(MOESH_BINARY).parent_path() / "libmoesh_mpi.so",
                          folder.path() + "/libmoesh_mpi.so");
    std::ofstream(other, std::ios::app) << "another one";
    apart("another binary", plain, other + plain.substr(std::string(MOESH_BINARY).size()));
    apart("other instructions", plain, "env MOESH_ISA=portable " + plain);
    const std::string large = plain + "base_mlp_dim=16384 base_moe_mlp_dim=16384";
    apart("too little memory", large, "prlimit --as=400000000 " + large);
    const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
    apart("collectives that differ", self + " --comes-apart", self + " --comes-apart");
  }

  void of_files() {
    const Folder folder;
    const Process run(words_of(request(folder, "steps=3 max_num_checkpoints_to_keep=2")), "/tmp");
    if (run.wait() != 0) fail("a run to damage: " + run.message());
    const std::string path = store::checkpoints_at(folder.path() + "/r").front();
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path().string());
    damage("bits flipped, each found", path, files, [](std::string& bytes, std::mt19937_64& engine) {
      bytes[engine() % bytes.size()] ^= static_cast<char>(1 << engine() % 8);
    });
    damage("files cut off, each found", path, files,
           [](std::string& bytes, std::mt19937_64& engine) { bytes.resize(engine() % bytes.size()); });
  }

  void damage(const std::string& fault, const std::string& checkpoint, const std::vector<std::string>& files,
              const std::function<void(std::string&, std::mt19937_64&)>& act) {
    std::mt19937_64 engine(1);
    std::int64_t found = 0;
    std::string message;
    const auto begin = Clock::now();
    for (std::int64_t i = 0; i < options_.damages; ++i) {
      const std::string& file = files[engine() % files.size()];
      const std::string whole = read_file(file, "a file of the checkpoint", std::int64_t{1} << 30, "");
      std::string bytes = whole;
      act(bytes, engine);
      std::ofstream(file, std::ios::binary | std::ios::trunc) << bytes;
      const Process check({MOESH_BINARY, "checkpoint", "check", checkpoint}, "/tmp");
      found += check.wait() != 0 ? 1 : 0;
      if (message.empty()) message = check.message() + std::string(trim(check.out()));
      std::ofstream(file, std::ios::binary | std::ios::trunc) << whole;
    }
    add(fmt::format("{}: {} of {}", fault, found, options_.damages), found == options_.damages ? 1 : 0,
        seconds_since(begin) / static_cast<double>(options_.damages), "", message);
  }

  Options options_;
  Table table_;
};

// Runs as one of two processes whose steps differ, and that did not check beforehand that they agree.
int come_apart(const Options& options) {
  const auto processes = transport::join_launched(static_cast<double>(options.timeout));
  if (processes == nullptr) refuse("--comes-apart, in a process that stands alone", "the command line", "leave it out");
  try {
    const std::string more = processes->is_first() ? "" : "gradient_clipping_threshold=0";
    const session::Session session = session::open(words_of(kModel + more));
    backend::Workers workers(1);
    train::StepProgram program =
        train::step_program(session.graph, session.loaded.settings, {session.layout, session.target});
    program.owners = processes->count();
    program.self = processes->self();
    train::Trainer trainer(std::move(program), session.loaded.settings, workers, {processes.get(), true});
    train::initialize(trainer, session.graph, 0, workers);
    trainer.step(
        train::Batches(session.loaded.settings, session.batch, session.shape.vocab_size, 1).at(0, trainer.pool()));
    return 0;
  } catch (const transport::EndedByOther& ended) {
    return ended.code;
  } catch (const Error& error) {
    if (processes->is_first()) fmt::print(stderr, "moesh: error: {}\n", error.what());
    processes->end_all(error.exit_code(), error.what());
    return error.exit_code();
  }
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  using namespace moesh::bench;
  return with_errors_told([&] {
    Options options;
    for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
      if (name == "--timeout")
        options.timeout = count_in(name, value, 600);
      else if (name == "--damages")
        options.damages = count_in(name, value);
      else if (name == "--comes-apart")
        options.comes_apart = true;
      else
        return false;
      return true;
    });
    if (options.comes_apart) return come_apart(options);
    Faults(options).run();
    return 0;
  });
}
