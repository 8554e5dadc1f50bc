// Measures how the training time per token grows with the number of experts, the length of a row and the number of devices. The sizes
// of a curve take turns step by step, so that drift of the machine's speed affects all of them alike.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/progress.h"
#include "base/table.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "errors.h"
#include "median.h"
#include "plot.h"
#include "session/session.h"
#include "sharding/tolerance.h"
#include "train/batches.h"
#include "train/loop.h"
#include "words.h"

namespace moesh {
namespace {

constexpr const char* kHelp = R"(bench_growth [--rounds=N] [--plot=F.svg]

Times steps of training a mixture of experts: against the number of experts, of which a token takes two of the same size; against
the length of a row, with as many tokens a step; against the number of devices that this machine plays, with the same batch. The
trainers of a row of sizes take turns, round by round; a figure is the median over the rounds.

  --rounds=N     rounds of each size (default 5)
  --plot=F.svg   writes the curves as a picture
)";

struct Options {
  int rounds = 5;
  std::string plot;
};

Options parse(int argc, char** argv) {
  Options options;
  bench::for_words(argc, argv, kHelp, [&](std::string_view name, const std::string& value) {
    if (name == "--rounds") options.rounds = static_cast<int>(bench::count_in(name, value));
    else if (name == "--plot") options.plot = value;
    else return false;
    return true;
  });
  return options;
}

const std::string kModel =
    "model_name=mixtral-8x7b override_model_config=true base_num_decoder_layers=2 base_emb_dim=256 base_num_query_heads=8 base_num_kv_heads=4 "
    "head_dim=32 base_mlp_dim=256 base_moe_mlp_dim=256 vocab_size=4096 num_experts_per_tok=2 dataset_type=synthetic enable_checkpointing=false "
    "dtype=float32 remat_policy=minimal metrics_file= ";

// Trains a request step by step and keeps the times.
class Runner {
 public:
  Runner(const std::string& request, backend::Workers& workers) : session_(session::open(split(kModel + request, ' '))), workers_(workers) {
    const config::Settings& settings = session_.loaded.settings;
    sharding::check_tolerance(session_.layout, settings);
    batches_ = std::make_unique<train::Batches>(settings, session_.batch, session_.shape.vocab_size, workers_.threads());
    trainer_ = std::make_unique<train::Trainer>(train::step_program(session_.graph, settings, {session_.layout, session_.target}), settings, workers_);
    initialize(*trainer_, session_.graph, settings.integer("init_weights_seed"), workers_);
    step();
    seconds_.clear();
  }

  void step() {
    const train::Batch batch = batches_->at(steps_++, trainer_->pool());
    const auto begin = std::chrono::steady_clock::now();
    trainer_->run_step(batch, {});
    seconds_.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }

  double microseconds_a_token() const {
    return bench::median(seconds_) * 1e6 / static_cast<double>(session_.batch.rows_to_train * session_.loaded.settings.integer("max_target_length"));
  }

 private:
  session::Session session_;
  backend::Workers& workers_;
  std::unique_ptr<train::Batches> batches_;
  std::unique_ptr<train::Trainer> trainer_;
  std::int64_t steps_ = 0;
  std::vector<double> seconds_;
};

struct Size {
  double at;
  std::string request;
};

bench::Curve measure(const std::string& name, const std::vector<Size>& sizes, int rounds, backend::Workers& workers) {
  std::vector<std::unique_ptr<Runner>> runners;
  Progress progress(name, static_cast<std::int64_t>(sizes.size()) * (rounds + 1));
  std::int64_t done = 0;
  for (const Size& size : sizes) {
    runners.push_back(std::make_unique<Runner>(size.request, workers));
    progress.advance(++done);
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t turn = 0; turn < runners.size(); ++turn) {
      runners[(turn + static_cast<std::size_t>(round)) % runners.size()]->step();
      progress.advance(++done);
    }
  }
  bench::Curve curve{name, {}};
  for (std::size_t i = 0; i < sizes.size(); ++i) curve.points.emplace_back(sizes[i].at, runners[i]->microseconds_a_token());
  return curve;
}

std::vector<Size> sizes_of(const std::vector<int>& all, const char* request) {
  std::vector<Size> sizes;
  for (const int at : all) sizes.push_back({static_cast<double>(at), fmt::format(fmt::runtime(request), at, 8192 / at, 64 / at)});
  return sizes;
}

void print(const bench::Panel& panel) {
  fmt::print("{}: us a token\n", panel.title);
  std::vector<Column> columns{{panel.x}};
  for (const bench::Curve& curve : panel.curves) {
    columns.push_back({curve.name, true});
    columns.push_back({"to the first", true});
  }
  Table table(columns);
  for (std::size_t i = 0; i < panel.curves.front().points.size(); ++i) {
    std::vector<std::string> line{fmt::format("{:g}", panel.curves.front().points[i].first)};
    for (const bench::Curve& curve : panel.curves) {
      line.push_back(fmt::format("{:.1f}", curve.points[i].second));
      line.push_back(fmt::format("{:.2f}", curve.points[i].second / curve.points.front().second));
    }
    table.add(line);
  }
  fmt::print("{}\n", table.text(0));
}

int measure_all(const Options& options) {
  backend::Workers workers(0);
  const auto curve = [&](const std::string& name, const std::vector<int>& sizes, const char* request) {
    return measure(name, sizes_of(sizes, request), options.rounds, workers);
  };
  const std::vector<int> experts{8, 16, 32, 64, 128, 256}, lengths{256, 512, 1024, 2048, 4096, 8192}, devices{1, 2, 4, 8, 16, 32, 64};
  const std::vector<bench::Panel> panels{
      {"Experts, of which two are active", "experts", "us a token",
       {curve("8 x 256 tokens", experts, "compile_topology=cpu-1 per_device_batch_size=8 max_target_length=256 num_experts={}"),
        curve("32 x 256 tokens", experts, "compile_topology=cpu-1 per_device_batch_size=32 max_target_length=256 num_experts={}")}},
      {"Length of a row, 8192 tokens a step", "tokens of a row", "us a token",
       {curve("all keys", lengths, "compile_topology=cpu-1 num_experts=8 max_target_length={0} per_device_batch_size={1}")}},
      {"Devices, 64 x 64 tokens a step", "devices", "us a token",
       {curve("fsdp", devices, "num_experts=8 max_target_length=64 compile_topology=cpu-{0} ici_fsdp_parallelism={0} per_device_batch_size={2}")}}};
  for (const bench::Panel& panel : panels) print(panel);
  if (options.plot.empty()) return 0;
  replace_file(options.plot, bench::svg_of(panels), "--plot=F.svg");
  return 0;
}

}  // namespace
}  // namespace moesh

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::measure_all(moesh::parse(argc, argv)); });
}
