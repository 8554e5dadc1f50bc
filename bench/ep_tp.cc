// Compares expert parallelism that is tensor parallelism outside the experts (ep-tp) with the default expert parallelism and with plain
// tensor parallelism: what a decoding model sends between eight devices and how long it takes, from few rows to many.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "decode/decoder.h"
#include "decode/planned.h"
#include "errors.h"
#include "median.h"
#include "partition/collectives.h"
#include "session/session.h"
#include "train/initialize.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_ep_tp [--planned=TOPOLOGY] [--rounds=N] [--seconds=N] [--prompt=N] [--only=TEXT] [--json]
            [KEY=VALUE ...]

Runs models shaped like Mixtral and DeepSeek 3, scaled down, on eight devices of this machine: single tokens that read a KV cache,
and prompts that fill it. Layouts: ep-tp (expert=8, rules ep-tp), the default rules with expert=8 by rings and by all-to-alls, and
with tensor=8. For each number of rows:

  KiB    what a device sends in a step, as planned: rows to experts are counted as an even router would send them
  ms     a step of a program that does the work of all eight devices on this machine's cores. Equal work of several
         devices is done once and sending is copying, so it measures work and copies, not the wires of a real machine

With --planned the models are whole, in bfloat16, and nothing is run: a step takes what is planned for eight of those chips.

Layouts take turns, round by round, so that a machine's drift meets all; times are medians over the rounds. The last columns hold
the better of the two `ep` layouts, and `tp`, to ep-tp: how many times as many bytes, and how many times as long (the median of
the rounds' ratios; above 1: ep-tp wins; times within a twentieth tie, planned ones within 0.5%).
'-': the layout refuses so few rows.

  --planned=T   the target of eight chips, e.g. h100-8, mi355x-8 or v6e-8
  --rounds=N    rounds of each case (default 9)
  --seconds=N   fewer rounds where a case takes longer, but three (default 20)
  --prompt=N    tokens of a prompt (default 32; the cache has room for four times as many)
  --only=TEXT   only cases whose name has this text, e.g. mixtral, decode
  --json        one line of JSON for each case and layout
  KEY=VALUE     instead of the models' own, e.g. base_emb_dim=2048: weights that the cores' caches do not hold, as those of real
                models are not. Devices of this machine share caches: what one has read of a small weight costs the others nothing
)";

struct Options {
  int rounds = 9;
  double seconds = 20;
  std::int64_t prompt = 32;
  std::string only;
  std::string request;  // KEY=VALUE ...
  std::string planned;  // the target to plan for; empty to run on this machine
  bool json = false;

  bool runs_here() const { return planned.empty(); }
};

Options parse(int argc, char** argv) {
  Options options;
  for_words(argc, argv, kHelp, [&](std::string_view name, const std::string& value) {
    if (name == "--json") options.json = true;
    else if (name == "--planned") options.planned = value;
    else if (name == "--rounds") options.rounds = static_cast<int>(count_in(name, value));
    else if (name == "--seconds") options.seconds = static_cast<double>(count_in(name, value));
    else if (name == "--prompt") options.prompt = count_in(name, value, 4096);
    else if (name == "--only") options.only = value;
    else if (!name.starts_with("-") && !value.empty()) options.request += fmt::format(" {}={}", name, value);
    else return false;
    return true;
  });
  return options;
}

struct Named {
  std::string name;
  std::string request;
};

const std::string kEverywhere = "ici_fsdp_parallelism=1 override_model_config=true scan_layers=false per_device_batch_size=1";
const std::string kPlanned = "dtype=bfloat16 weight_dtype=bfloat16";
const std::string kHere = "compile_topology=cpu-8 dtype=float32 weight_dtype=float32 vocab_size=4096 base_emb_dim=512";

struct Model {
  std::string name;
  std::string request;
  std::string scaled_down;
};

// The models, each with sizes for running here that keep the proportions of the real model; heads and experts divide by eight.
const std::vector<Model> kModels{
    {"mixtral", "model_name=mixtral-8x7b",
     "base_num_query_heads=32 base_num_kv_heads=8 head_dim=16 base_mlp_dim=1792 base_moe_mlp_dim=1792 "
     "base_num_decoder_layers=2 num_experts=8 num_experts_per_tok=2"},
    {"deepseek3", "model_name=deepseek3-671b",
     "base_num_query_heads=16 base_num_kv_heads=16 q_lora_rank=128 kv_lora_rank=64 qk_nope_head_dim=64 "
     "qk_rope_head_dim=32 v_head_dim=64 base_mlp_dim=1280 base_moe_mlp_dim=144 base_num_decoder_layers=3 first_num_dense_layers=1 "
     "num_experts=64 num_experts_per_tok=8 n_routing_groups=8 topk_routing_group=4"},
};

// ep-tp comes first, since the others are compared with it.
const std::vector<Named> kLayouts{
    {"ep-tp", "ici_expert_parallelism=8 custom_mesh_and_rule=ep-tp use_ring_of_experts=true"},
    {"ep ring", "ici_expert_parallelism=8 use_ring_of_experts=true"},
    {"ep all-to-all", "ici_expert_parallelism=8"},
    {"tp", "ici_tensor_parallelism=8"},
};

const std::vector<std::int64_t> kRows{1, 2, 4, 8, 16, 32, 64};

using Parameters = std::vector<std::pair<std::string, run::Array>>;

Parameters make_parameters(const graph::Graph& graph, run::Pool& pool, backend::Workers& workers) {
  Parameters made;
  train::put_initial_values(graph, 1, pool, workers,
                            [&](const std::string& path, run::Array value) { made.emplace_back(path, std::move(value)); });
  return made;
}

// A layout that runs one case: a number of rows with a prompt, or with one token after it.
struct Contestant {
  std::string layout;
  std::string refused;  // why the layout cannot run so few rows; empty if it can
  decode::Program program;
  std::unique_ptr<decode::Decoder> decoder;
  std::unique_ptr<decode::Ready> ready;
  double wire_bytes = 0;
  std::size_t collectives = 0;
  std::vector<double> seconds;

  bool is_there() const { return refused.empty(); }
  void add(const partition::Collective& sent) {
    wire_bytes += sent.total_wire_bytes();
    collectives += static_cast<std::size_t>(sent.runs);
  }
};

struct Case {
  std::string model;
  bool prompt = false;
  std::int64_t rows = 1;
  std::int64_t prompt_length = 1;

  std::string name() const { return fmt::format("{} {}", model, prompt ? "prompt" : "decode"); }
  std::int64_t new_tokens() const { return prompt ? prompt_length : 1; }
  models::DecodeShape shape(std::int64_t length) const { return {length, 4 * prompt_length}; }
  decode::NewTokens tokens(std::int64_t vocabulary) const {
    decode::NewTokens made;
    for (std::int64_t i = 0; i < rows * new_tokens(); ++i) {
      made.ids.push_back(static_cast<std::int32_t>((i * 7919 + 13) % vocabulary));
      made.positions.push_back(static_cast<std::int32_t>(prompt ? i % prompt_length : prompt_length));
      made.segments.push_back(1);
    }
    return made;
  }
};

class Bench {
 public:
  Bench(const Model& model, const Options& options) : options_(options), workers_(0), pool_(run::Pool::create()) {
    const std::string of_place =
        options.runs_here() ? kHere + " " + model.scaled_down : kPlanned + " compile_topology=" + options.planned;
    for (const Named& layout : kLayouts) {
      const std::vector<std::string> words =
          split(join({kEverywhere, model.request, of_place, layout.request, options.request}, " "), ' ');
      std::vector<std::string> arguments;
      std::copy_if(words.begin(), words.end(), std::back_inserter(arguments), [](const std::string& w) { return !w.empty(); });
      sessions_.push_back(session::open(arguments));
    }
    if (options.runs_here()) parameters_ = make_parameters(sessions_.front().graph, *pool_, workers_);
  }

  std::vector<Contestant> measure(const Case& of) {
    std::vector<Contestant> all;
    for (std::size_t i = 0; i < kLayouts.size(); ++i) all.push_back(prepare(i, of));
    const auto start = std::chrono::steady_clock::now();
    for (int round = 0; options_.runs_here() && round < options_.rounds; ++round) {
      for (std::size_t turn = 0; turn < all.size(); ++turn) {
        Contestant& one = all[(turn + static_cast<std::size_t>(round)) % all.size()];
        if (one.is_there()) one.seconds.push_back(seconds_of(one, of));
      }
      const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
      if (round >= 2 && spent.count() > options_.seconds) break;
    }
    return all;
  }

 private:
  Contestant prepare(std::size_t index, const Case& of) {
    Contestant made{kLayouts[index].name, "", {}, nullptr, nullptr, 0, 0, {}};
    try {
      options_.runs_here() ? prepare_to_run(sessions_[index], of, made) : plan(sessions_[index], of, made);
    } catch (const Error& error) {
      made.refused = split(error.what(), '\n').front();
    }
    return made;
  }

  static void plan(const session::Session& session, const Case& of, Contestant& made) {
    const decode::PlannedStep step = decode::plan_step(session::decoding(session, of.rows, of.shape(of.new_tokens())));
    for (const forecast::Sent& sent : step.forecast.collectives) made.add(sent.what);
    made.seconds = {step.forecast.seconds};
  }

  void prepare_to_run(const session::Session& session, const Case& of, Contestant& made) {
    const auto program = [&](std::int64_t new_tokens) {
      return decode::make_program(session::model_request(session, of.rows), of.shape(new_tokens), session.target);
    };
    made.program = program(of.new_tokens());
    for (const partition::Collective& c : partition::collectives_of(made.program.graph, session.mesh)) made.add(c);
    made.decoder = std::make_unique<decode::Decoder>(workers_);
    made.ready = std::make_unique<decode::Ready>(made.decoder->prepare(made.program));
    for (const auto& [path, value] : parameters_) made.decoder->set_parameter(path, value);
    // A token is decoded after a prompt that is in the cache.
    Case before = of;
    before.prompt = true;
    if (!of.prompt) {
      decode::Ready prompt = made.decoder->prepare(program(before.new_tokens()));
      made.decoder->run(prompt, before.tokens(session.shape.vocab_size));
    }
    seconds_of(made, of);
  }

  double seconds_of(Contestant& one, const Case& of) {
    const decode::NewTokens tokens = of.tokens(sessions_.front().shape.vocab_size);
    const auto start = std::chrono::steady_clock::now();
    one.decoder->run(*one.ready, tokens);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  const Options& options_;
  backend::Workers workers_;
  std::shared_ptr<run::Pool> pool_;
  std::vector<session::Session> sessions_;
  Parameters parameters_;
};

// The figures of another layout divided by those of ep-tp.
struct Ratio {
  double bytes = 1;
  double time = 1;
};

Ratio ratio_of(const Contestant& other, const Contestant& ours) {
  std::vector<double> times;
  for (std::size_t r = 0; r < ours.seconds.size(); ++r) times.push_back(other.seconds[r] / ours.seconds[r]);
  return {other.wire_bytes / std::max(1.0, ours.wire_bytes), median(times)};
}

// The ratios of the default expert parallelism (for each figure the better of its two layouts) and of tensor parallelism.
struct Verdict {
  std::optional<Ratio> experts, tensor;
};

Verdict judge(const std::vector<Contestant>& all) {
  Verdict verdict;
  const Contestant& ours = all.front();
  for (std::size_t i = 1; ours.is_there() && i < all.size(); ++i) {
    if (!all[i].is_there()) continue;
    const Ratio ratio = ratio_of(all[i], ours);
    std::optional<Ratio>& best = all[i].layout == "tp" ? verdict.tensor : verdict.experts;
    best = best ? Ratio{std::min(best->bytes, ratio.bytes), std::min(best->time, ratio.time)} : ratio;
  }
  return verdict;
}

void print_head(const std::string& name) {
  fmt::print("\n{}\n{:>4}", name, "rows");
  for (const Named& layout : kLayouts) fmt::print(" |{:>24}", layout.name);
  fmt::print(" | ep/ep-tp: bytes  time | tp/ep-tp: bytes  time\n");
}

void print_row(const Case& of, const std::vector<Contestant>& all, const Verdict& verdict) {
  fmt::print("{:>4}", of.rows);
  for (const Contestant& one : all) {
    if (one.is_there())
      fmt::print(" |{:>10.1f} KiB {:>6.2f} ms", one.wire_bytes / 1024, 1e3 * median(one.seconds));
    else
      fmt::print(" |{:>24}", "-");
  }
  for (const std::optional<Ratio>& ratio : {verdict.experts, verdict.tensor}) {
    if (ratio)
      fmt::print(" |{:>16.2f} {:>5.2f}", ratio->bytes, ratio->time);
    else
      fmt::print(" |{:>16} {:>5}", "-", "-");
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void print_json(const Case& of, const std::vector<Contestant>& all) {
  for (const Contestant& one : all) {
    const std::string figures =
        one.is_there() ? fmt::format(R"("wire_bytes":{:.0f},"collectives":{},"seconds":{:.6f},"rounds":{})", one.wire_bytes,
                                 one.collectives, median(one.seconds), one.seconds.size())
                   : R"("refused":true)";
    fmt::print(R"({{"model":"{}","phase":"{}","rows":{},"layout":"{}",{}}})" "\n", of.model,
               of.prompt ? "prompt" : "decode", of.rows, one.layout, figures);
  }
  std::fflush(stdout);
}

struct Judged {
  std::int64_t rows;
  Verdict verdict;
};

// A summary of one figure: "wins at 1, 8; ties at 16; loses at 64; the other refuses 2, 4". A ratio within `tie` of 1 is a tie.
std::string outcome(const std::vector<Judged>& all, std::optional<Ratio> Verdict::* other, double Ratio::* figure, double tie) {
  std::vector<std::string> won, tied, lost, absent;
  for (const Judged& one : all) {
    const std::optional<Ratio>& ratio = one.verdict.*other;
    const double value = ratio ? (*ratio).*figure : 0;
    (!ratio ? absent : value > 1 + tie ? won : value < 1 - tie ? lost : tied).push_back(std::to_string(one.rows));
  }
  std::vector<std::string> parts;
  for (const auto& [word, rows] : {std::pair{"wins at", won}, std::pair{"ties at", tied}, std::pair{"loses at", lost},
                                   std::pair{"the other refuses", absent}}) {
    if (!rows.empty()) parts.push_back(fmt::format("{} {}", word, join(rows, ", ")));
  }
  return join(parts, "; ");
}

void print_outcome(const std::vector<Judged>& all, double tie_in_time) {
  fmt::print("rows at which ep-tp\n");
  for (const auto& [name, other] : {std::pair{"default ep", &Verdict::experts}, std::pair{"tp", &Verdict::tensor}}) {
    fmt::print("  against {:<10}  bytes: {}\n", name, outcome(all, other, &Ratio::bytes, 0.005));
    fmt::print("  {:<18}  time:  {}\n", "", outcome(all, other, &Ratio::time, tie_in_time));
  }
}

int run(int argc, char** argv) {
  const Options options = parse(argc, argv);
  for (const Model& model : kModels) {
    std::unique_ptr<Bench> bench;
    for (const bool prompt : {false, true}) {
      Case of{model.name, prompt, 1, options.prompt};
      if (of.name().find(options.only) == std::string::npos) continue;
      if (bench == nullptr) bench = std::make_unique<Bench>(model, options);
      if (!options.json) print_head(prompt ? fmt::format("{}, {} tokens a row", of.name(), options.prompt) : of.name());
      std::vector<Judged> judged;
      std::string refused;
      for (const std::int64_t rows : kRows) {
        of.rows = rows;
        const std::vector<Contestant> all = bench->measure(of);
        judged.push_back({rows, judge(all)});
        for (const Contestant& one : all) {
          if (!one.is_there()) refused = fmt::format("{}, {} rows: {}", one.layout, rows, one.refused);
        }
        options.json ? print_json(of, all) : print_row(of, all, judged.back().verdict);
      }
      if (options.json) continue;
      print_outcome(judged, options.runs_here() ? 0.05 : 0.005);
      if (!refused.empty()) fmt::print("- stands for refusals such as: {}\n", refused);
    }
  }
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) { return moesh::bench::with_errors_told([&] { return moesh::bench::run(argc, argv); }); }
