// Measures what a layer of experts costs besides grouped GEMMs and communication, as the expert axis grows: with a fixed number of
// tokens per device, the time per row routed to a device should stay constant.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/table.h"
#include "base/text.h"
#include "config/load.h"
#include "errors.h"
#include "median.h"
#include "graph/autodiff.h"
#include "graph/facts.h"
#include "graph/rewrite.h"
#include "nn/moe/moe.h"
#include "partition/partition.h"
#include "plan/lower.h"
#include "run/program.h"
#include "sharding/labels.h"
#include "words.h"

namespace moesh::bench {
namespace {

using Clock = std::chrono::steady_clock;
using graph::Op;

constexpr const char* kHelp = R"(bench_routed [--tokens=N] [--width=N] [--hidden=N] [--experts=N] [--top-k=N] [--axes=N,N,...] [--strategy=ring|all-to-all]
             [--skew=S] [--rounds=N] [--json]

Times one layer of experts, forward and backward, on meshes whose expert axis grows while the tokens of a device stay. What the
products of the experts take, and what moves values from device to device, is left out; what remains (routing, sorting, permuting,
the function between the projections, weighting and summing) is divided by the rows that are routed. Meshes take turns, round by
round; figures are medians over the rounds. "worst case" is how many rows a device would go through that has to be ready for all
that could come, for each that does come.

  --tokens=N     of a device (default 1024)
  --width=N      of a token (default 512), --hidden=N: of an expert (default 128)
  --experts=N    (default 64), --top-k=N: of a token (default 4)
  --axes=N,...   sizes of the expert axis (default 1,2,4,8,16,32)
  --strategy=S   ring (default) or all-to-all
  --skew=S       expert e is drawn with probability (e + 1)^-S (default 0: an even router)
  --rounds=N     (default 7)
  --json         one line of JSON for each mesh
)";

struct Options {
  std::map<std::string, std::string> words{{"tokens", "1024"}, {"width", "512"},        {"hidden", "128"}, {"experts", "64"},
                                           {"top-k", "4"},     {"axes", "1,2,4,8,16,32"}, {"strategy", "ring"}, {"skew", "0"},
                                           {"rounds", "7"}};
  bool json = false;

  std::int64_t number(const std::string& word) const { return count_in("--" + word, words.at(word)); }
};

Options parse(int argc, char** argv) {
  Options options;
  for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
    const auto known = options.words.find(name.substr(std::min<std::size_t>(name.size(), 2)));
    if (name == "--json") options.json = true;
    else if (known != options.words.end()) known->second = value;
    else return false;
    return true;
  });
  return options;
}

bool is_product_or_wire(const plan::Instruction& node) {
  return node.op == Op::grouped_matmul || node.op == Op::grouped_outer || node.op == Op::reshard ||
         node.kind == plan::Instruction::Kind::collective;
}

// One layer of experts on a mesh, forward and backward.
class Trial {
 public:
  Trial(const Options& options, std::int64_t axis, backend::Workers& workers)
      : axis_(axis), loaded_(config::load(request(options, axis))), shape_(config::model_shape(loaded_.settings)),
        target_(mesh::target_of(loaded_.settings)), mesh_(mesh::build_mesh(loaded_.settings, target_)),
        pool_(run::Pool::create()), tokens_(options.number("tokens")) {
    build(workers);
  }

  // The seconds that are measured, and those of grouped GEMMs and communication.
  std::pair<double, double> run() {
    work_ = rest_ = 0;
    last_ = Clock::now();
    const auto watch = [this](const plan::Instruction& node, const std::vector<run::Placed>&) {
      const auto now = Clock::now();
      (is_product_or_wire(node) ? rest_ : work_) += std::chrono::duration<double>(now - last_).count();
      last_ = now;
    };
    program_->run({watch});
    return {work_, rest_};
  }

  std::int64_t axis() const { return axis_; }
  std::int64_t rows() const { return axis_ * tokens_ * shape_.moe.experts_per_token; }
  double worst_case() const {
    const auto k = static_cast<double>(shape_.moe.experts_per_token);
    return std::min(static_cast<double>(axis_), static_cast<double>(shape_.moe.experts) / k);
  }

 private:
  static std::vector<std::string> request(const Options& o, std::int64_t axis) {
    return {"decoder_block=mixtral", "num_experts=" + o.words.at("experts"), "num_experts_per_tok=" + o.words.at("top-k"),
            "base_emb_dim=" + o.words.at("width"), "base_mlp_dim=" + o.words.at("hidden"), "base_moe_mlp_dim=" + o.words.at("hidden"),
            "max_target_length=" + o.words.at("tokens"), "dtype=float32", "per_device_batch_size=1", "dataset_type=synthetic",
            "ici_fsdp_parallelism=1", fmt::format("ici_expert_parallelism={}", axis), "router_skew=" + o.words.at("skew"),
            fmt::format("use_ring_of_experts={}", o.words.at("strategy") == "ring")};
  }

  // The labels of a value of tokens [B, S, ...]. A value of fewer than two dims does not belong to tokens and is replicated.
  static Labels first_labels(const Labels& tokens, std::size_t rank) {
    return rank < 2 ? Labels(rank) : Labels(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(rank));
  }

  void build(backend::Workers& workers) {
    graph::Builder builder;
    const nn::Context context{loaded_.settings, shape_, axis_, tokens_, axis_, &mesh_};
    const graph::Tensor x = builder.input("x", {axis_, tokens_, shape_.emb_dim}, DType::float32, Labels(3));
    nn::Tokens tokens;
    tokens.numbers = builder.input("numbers", {axis_, tokens_}, DType::int32, Labels(2));
    tokens.draw_keys = builder.input("draw_key", {2}, DType::int32, Labels(1));
    const graph::Tensor out = nn::moe(builder, context, "moe", x, {labels::embed}, tokens).out;
    std::vector<graph::Tensor> of{x};
    for (const graph::Node& node : builder.graph().nodes) {
      if (node.op == Op::parameter) of.push_back(builder.tensor(node.results[0]));
    }
    const graph::Tensor loss = graph::reduce(graph::Reduction::sum, graph::multiply(out, out), {0, 1, 2});
    for (const graph::Tensor& gradient : graph::gradients(loss, of)) builder.mark_result(gradient);
    const auto& rules = loaded_.settings.rules("logical_axis_rules");
    const graph::Graph whole = graph::without_dead_nodes(builder.take());
    std::vector<sharding::Spec> roots;
    std::vector<std::optional<sharding::Spec>> results;
    for (const graph::Node& node : whole.nodes) {
      if (!graph::is_root(node)) continue;
      const auto* parameter = std::get_if<graph::ParameterOf>(&node.attributes);
      const Labels of_tokens{labels::activation_batch, labels::activation_norm_length, labels::none};
      const Labels asked = parameter == nullptr ? first_labels(of_tokens, whole.value(node.results[0]).shape.size()) : parameter->labels;
      roots.push_back(sharding::without_size_one(sharding::resolve_spec(asked, rules, mesh_), mesh_));
      // A gradient has the spec of its parameter or input; the integer inputs (numbers and keys) have no gradient.
      if (is_floating(whole.value(node.results[0]).dtype)) results.emplace_back(roots.back());
    }
    graph_ = mesh_.devices() == 1 ? graph::without_constraints(whole) : partition::partition(whole, roots, results, {mesh_, target_, rules}).graph;
    program_ = std::make_unique<run::Program>(plan::lower(graph_, mesh_), std::make_shared<run::State>(), workers);
    std::size_t next = 0;
    for (const graph::Node& node : whole.nodes) {
      if (!graph::is_root(node)) continue;
      const graph::Value& value = whole.value(node.results[0]);
      const run::Array values = pool_->allocate(value.shape, value.dtype);
      for (std::int64_t i = 0; i < values.view.count(); ++i) {
        if (value.dtype == DType::int32) {
          values.as<std::int32_t>()[i] = static_cast<std::int32_t>(i);
        } else {
          values.as<float>()[i] = static_cast<float>((i * 2654435761 >> 7) % 2048 - 1024) / 20000;
        }
      }
      program_->put(program_->plan().ports[next++].view, values);
    }
  }

  std::int64_t axis_;
  config::Loaded loaded_;
  config::ModelShape shape_;
  mesh::Topology target_;
  mesh::Mesh mesh_;
  std::shared_ptr<run::Pool> pool_;
  std::unique_ptr<run::Program> program_;
  std::int64_t tokens_;
  graph::Graph graph_;
  Clock::time_point last_;
  double work_ = 0, rest_ = 0;
};

int measure(const Options& options) {
  if (options.words.at("strategy") != "ring" && options.words.at("strategy") != "all-to-all") {
    refuse("--strategy=" + options.words.at("strategy") + ", ring or all-to-all was expected", "bench_routed");
  }
  backend::Workers workers(0);
  std::vector<std::unique_ptr<Trial>> trials;
  for (const std::string& word : split(options.words.at("axes"), ',')) {
    trials.push_back(std::make_unique<Trial>(options, count_in("--axes", word), workers));
  }
  std::vector<std::vector<double>> work(trials.size()), rest(trials.size()), ratios(trials.size());
  for (auto& trial : trials) trial->run();
  for (std::int64_t round = 0; round < options.number("rounds"); ++round) {
    for (std::size_t i = 0; i < trials.size(); ++i) {
      const auto [of_work, of_rest] = trials[i]->run();
      const auto rows = static_cast<double>(trials[i]->rows());
      work[i].push_back(of_work / rows);
      rest[i].push_back(of_rest / rows);
      ratios[i].push_back(work[i].back() / work[0].back());
    }
  }
  Table table({{"expert axis", true}, {"rows a device", true}, {"us a row", true},
               {"against the first", true}, {"worst case", true}, {"products and wire, us a row", true}});
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const Trial& trial = *trials[i];
    if (options.json) {
      fmt::print("{{\"expert_axis\": {}, \"rows\": {}, \"us_a_row\": {:.4f}, \"ratio\": {:.3f}, \"worst_case\": {:.1f}, \"rest_us_a_row\": {:.4f}}}\n",
                 trial.axis(), trial.rows() / trial.axis(), 1e6 * median(work[i]), median(ratios[i]), trial.worst_case(), 1e6 * median(rest[i]));
    }
    table.add({std::to_string(trial.axis()), std::to_string(trial.rows() / trial.axis()), fmt::format("{:.3f}", 1e6 * median(work[i])),
               fmt::format("{:.2f}", median(ratios[i])), fmt::format("{:.1f}", trial.worst_case()), fmt::format("{:.3f}", 1e6 * median(rest[i]))});
  }
  if (!options.json) fmt::print("{}", table.text(160));
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) { return moesh::bench::with_errors_told([&] { return moesh::bench::measure(moesh::bench::parse(argc, argv)); }); }
