// Measures what surrounds a training step: how long it waits for its data, and how long writing its metrics takes.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/machine_memory.h"
#include "base/random.h"
#include "base/table.h"
#include "base/text.h"
#include "errors.h"
#include "median.h"
#include "session/session.h"
#include "temporary_folder.h"
#include "train/batches.h"
#include "train/initialize.h"
#include "train/metrics_file.h"
#include "train/run_words.h"
#include "train/tensorboard.h"
#include "train/trainer.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_surroundings [--megabytes=N] [--steps=N] [--rounds=N] [FILE.yml] [key=value ...]

Trains a request (default: configs/first.yml) on files that it makes and removes: fixed batches, a text as bytes, JSON Lines as bytes and by
a tokenizer, and a text by the tokenizer, in turns. Of each: how long it took to open, until the first batch was there, what of the steps'
time they waited, and the tokens a second beside those of fixed batches. Then steps with and without all that a run writes of each, in turns.

  --megabytes=N      of each file (default 1000)
  --steps=N          of a round (default 20)
  --rounds=N         default 3
  --tokenizer=PATH   default tests/golden/tokenizers/bytelevel-gpt2
)";

struct Options {
  std::int64_t megabytes = 1000, steps = 20, rounds = 3;
  std::string tokenizer = "tests/golden/tokenizers/bytelevel-gpt2";
  std::vector<std::string> request;
};

// Writes documents of 100 to 3,000 bytes, whose words have letters about as frequent as those of English.
void make_files(const std::string& folder, std::int64_t megabytes) {
  std::ofstream lines(folder + "/a.jsonl"), text(folder + "/a.txt");
  const std::string letters = "etaoinshrdlcumwfgypbvkjxqz";
  std::vector<std::string> words;
  for (std::uint64_t i = 0, draws = 0; i < 20'000; ++i) {
    std::string& word = words.emplace_back();
    for (int size = random_integer(random_key(1), i, 1, 10); size > 0; --size) {
      const double u = static_cast<double>(random_uniform(random_key(2), draws++));
      word += letters[static_cast<std::size_t>(u * u * 26)];
    }
  }
  std::uint64_t draws = 0;
  for (std::int64_t bytes = 0; bytes < megabytes * 1'000'000;) {
    std::string document;
    for (const int size = random_integer(random_key(3), draws++, 100, 3000); std::cmp_less(document.size(), size);) {
      const double u = static_cast<double>(random_uniform(random_key(4), draws++));
      document += words[static_cast<std::size_t>(u * u * u * 20'000)] + " ";
    }
    lines << "{\"text\": \"" << document << "\"}\n";
    text << document << "\n";
    bytes += static_cast<std::int64_t>(document.size()) + 13;
  }
}

struct Kind {
  std::string name;
  std::vector<std::string> words;
};

struct Seen {
  // One value per round, in seconds; `step` is the median step, and `waited` is the waiting time as a fraction of the time of all steps.
  std::vector<double> open, first, step, waited;
};

class Model {
 public:
  explicit Model(const session::Session& session)
      : settings_(session.loaded.settings),
        tokens_(static_cast<double>(session.batch.rows_to_train * settings_.integer("max_target_length"))),
        workers_(0),
        trainer_(train::step_program(session.graph, settings_, {session.layout, session.target}), settings_, workers_) {
    initialize(trainer_, session.graph, settings_.integer("init_weights_seed"), workers_);
  }
  train::Trainer& trainer() { return trainer_; }
  int threads() const { return workers_.threads(); }
  double tokens() const { return tokens_; }  // tokens per step

 private:
  const config::Settings& settings_;
  double tokens_;
  backend::Workers workers_;
  train::Trainer trainer_;
};

std::vector<std::string> together(std::vector<std::string> words, const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// One round of steps on one kind of data.
void round_of(const Kind& kind, const Options& options, Model& model, Seen& seen) {
  const session::Session session = session::open(together(options.request, kind.words));
  const auto begin = Clock::now();
  train::Batches batches(session.loaded.settings, session.batch, session.shape.vocab_size, model.threads());
  seen.open.push_back(seconds_since(begin));
  std::vector<double> steps;
  double all = 0, first = 0;
  for (std::int64_t step = 0; step <= options.steps; ++step) {
    const auto start = Clock::now();
    const train::Batch batch = batches.at(step, model.trainer().pool());
    if (step == 0) first = batches.waited();
    model.trainer().run_step(batch);
    if (step == 0) continue;
    steps.push_back(seconds_since(start));
    all += steps.back();
  }
  seen.first.push_back(first);
  seen.step.push_back(median(steps));
  seen.waited.push_back((batches.waited() - first) / all);
}

void measure_data(const Options& options, const std::string& folder, Model& model) {
  make_files(folder, options.megabytes);
  const std::string lines = "dataset_path=" + folder + "/a.jsonl", text = "dataset_path=" + folder + "/a.txt", tokenizer = "tokenizer_path=" + options.tokenizer;
  const std::vector<Kind> kinds{{"fixed batches", {"dataset_type=synthetic"}},
                                {"text, bytes", {"dataset_type=text", text, "tokenizer_path="}},
                                {"text, tokenized", {"dataset_type=text", text, tokenizer}},
                                {"JSON Lines, bytes", {"dataset_type=jsonl", lines, "tokenizer_path="}},
                                {"JSON Lines, tokenized", {"dataset_type=jsonl", lines, tokenizer}}};
  Seen warm_up;
  round_of(kinds[0], options, model, warm_up);
  std::vector<Seen> seen(kinds.size());
  const std::int64_t before = resident_memory();
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < kinds.size(); ++i) round_of(kinds[i], options, model, seen[i]);
  }
  Table table({{"data"}, {"opened in", true}, {"first batch in", true}, {"waited", true}, {"tokens/s", true}, {"of fixed", true}});
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const double rate = model.tokens() / median(seen[i].step), fixed = model.tokens() / median(seen[0].step);
    table.add({kinds[i].name, human_seconds(median(seen[i].open)), human_seconds(median(seen[i].first)), fmt::format("{:.2f}%", 100 * median(seen[i].waited)),
               fmt::format("{:.0f}", rate), fmt::format("{:.2f}", rate / fixed)});
  }
  fmt::print("{}\nfiles of {} MB each; the process holds {} more than before\n\n", table.text(0), options.megabytes,
             human_bytes(std::max<std::int64_t>(0, resident_memory() - before)));
}

// Compares the time of steps with and without writing their metrics, curves and log lines; the two alternate.
void measure_writing(const Options& options, const std::string& folder, Model& model) {
  const session::Session session = session::open(together(options.request, {"dataset_type=synthetic"}));
  const config::Settings& settings = session.loaded.settings;
  train::Batches batches(settings, session.batch, session.shape.vocab_size, model.threads());
  train::MetricsFile metrics(folder + "/metrics.jsonl");
  metrics.begin(settings);
  train::TensorBoard board(folder + "/tensorboard", 0, 1, settings);
  std::vector<double> with, without, writing;
  for (std::int64_t step = 0; step < 2 * options.steps * options.rounds + 1; ++step) {
    const auto begin = Clock::now();
    const train::StepMetrics made = model.trainer().run_step(batches.at(step, model.trainer().pool())).metrics;
    const double seconds = seconds_since(begin);
    if (step == 0) continue;
    if (step % 2 == 1) {
      const train::StepSpeed speed{seconds, 1e9, model.tokens(), 1};
      metrics.write(made, {seconds}, speed);
      board.write(made, speed);
      train::step_line(made, speed, session.shape.is_moe());
      with.push_back(seconds_since(begin));
      writing.push_back(with.back() - seconds);
    } else {
      without.push_back(seconds_since(begin));
    }
  }
  fmt::print("a step {}, with all that is written of it {} ({:.3f}); writing alone {}, {:.2f}% of a step\n", human_seconds(median(without)),
             human_seconds(median(with)), median(with) / median(without), human_seconds(median(writing)), 100 * median(writing) / median(without));
}

int measure(int argc, char** argv) {
  Options options;
  std::vector<char*> dashed;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with("--")) dashed.push_back(argv[i]);
    else options.request.emplace_back(argv[i]);
  }
  dashed.insert(dashed.begin(), argv[0]);
  for_words(static_cast<int>(dashed.size()), dashed.data(), kHelp, [&](std::string_view name, const std::string& value) {
    if (name == "--megabytes") options.megabytes = count_in(name, value);
    else if (name == "--steps") options.steps = count_in(name, value);
    else if (name == "--rounds") options.rounds = count_in(name, value);
    else if (name == "--tokenizer") options.tokenizer = value;
    else return false;
    return true;
  });
  if (options.request.empty()) options.request = {"configs/first.yml", "vocab_size=512"};
  const TemporaryFolder folder;
  const session::Session session = session::open(together(options.request, {"dataset_type=synthetic"}));
  Model model(session);
  measure_data(options, folder.path(), model);
  measure_writing(options, folder.path(), model);
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::bench::measure(argc, argv); });
}
