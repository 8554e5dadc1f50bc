#include "foreign/megatron.h"

#include <algorithm>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "foreign/degrees.h"
#include "foreign/launcher.h"
#include "foreign/megatron_model.h"

namespace moesh::foreign {
namespace {

constexpr const char* kMegatronLm = "Megatron-LM";

class Run {
 public:
  Run(Flags& flags, std::optional<std::int64_t> devices, Translation& translation)
      : flags_(flags), told_(devices), translation_(translation) {}

  void give() {
    const std::int64_t tensor = size("tensor-model-parallel-size");
    const ModelFacts model = give_model(tensor);
    length_ = flags_.integer("seq-length", 1);
    translation_.give("max_target_length", length_);
    if (!length_ && !translation_.is_own("max_target_length"))
      translation_.assume("no --seq-length: max_target_length= says how long a row is");
    give_parallelism(model, tensor);
    give_recomputation();
    give_formats();
    tell_dropout();
    give_optimizer();
    give_schedule();
  }

 private:
  std::int64_t size(std::string_view name) { return flags_.integer(name, 1).value_or(1); }

  // A model_name that the user gives replaces the model that the flags describe.
  ModelFacts give_model(std::int64_t tensor) {
    const std::optional<std::string> own = translation_.own("model_name");
    if (!own) return give_megatron_model(flags_, tensor, translation_);
    translation_.assume("model_name is yours: what the flags say of the model's sizes is left out");
    return facts_of(*own);
  }

  Degrees::Data kind() {
    const bool is_torch = flags_.is_set("use-torch-fsdp2"), has_moments = flags_.is_set("use-distributed-optimizer");
    if (flags_.is_set("use-megatron-fsdp")) return kind_of_strategy();
    if (is_torch) return Degrees::Data::sharded;
    return has_moments ? Degrees::Data::sharded_moments : Degrees::Data::copied;
  }

  // What Megatron-FSDP shards; --use-distributed-optimizer says nothing beside it.
  Degrees::Data kind_of_strategy() {
    const std::string strategy =
        flags_.choice("data-parallel-sharding-strategy", "optim_grads_params", {"no_shard", "optim", "optim_grads", "optim_grads_params"});
    if (strategy == "optim") {
      translation_.differ(
          "--data-parallel-sharding-strategy optim: gradients are planned as under optim_grads, summed into shards where "
          "that is possible, rather than whole on every device");
    }
    return strategy == "optim_grads_params" ? Degrees::Data::sharded
           : strategy == "no_shard"         ? Degrees::Data::copied
                                            : Degrees::Data::sharded_moments;
  }

  void give_parallelism(const ModelFacts& model, std::int64_t tensor) {
    Degrees degrees;
    degrees.tensor = tensor;
    degrees.context = size("context-parallel-size");
    degrees.stages = size("pipeline-model-parallel-size");
    degrees.experts = size("expert-model-parallel-size");
    degrees.tensor_in_experts = flags_.integer("expert-tensor-parallel-size", 1).value_or(tensor);
    if (flags_.is_set("moe-extended-tp")) {  // all experts lie over tensor x expert parallelism by their width
      degrees.tensor_in_experts = degrees.tensor * degrees.experts;
      degrees.experts = 1;
    }
    degrees.has_slots = flags_.real("moe-expert-capacity-factor").value_or(0) > 0;
    degrees.shards_sequence = flags_.is_set("sequence-parallel");
    degrees.kind = kind();
    degrees.model = model;
    if (degrees.experts > 1 && model.experts == 0) flags_.refuse_value("expert-model-parallel-size", "1, or --num-experts beside it");
    const Devices devices = give_mesh(degrees, told_, kFromMegatron, translation_);
    give_rows(degrees, devices);
    if (devices.stages > 1) give_layers_of_stages(model, degrees.stages, devices.stages);
    give_dispatch(degrees);
    tell_state(degrees);
    give_sums(degrees, devices);
    tell_gathers(degrees);
    give_loss();
    if (length_) tell_refused(degrees, *length_);
  }

  // Bytes of a parameter with what belongs to it: on every device, and spread over data parallelism.
  struct Bytes {
    int whole = 0, spread = 0;
    bool operator==(const Bytes&) const = default;
  };

  bool computes_narrow() const { return flags_.is_given("bf16") || flags_.is_given("fp16"); }
  bool is_precision_aware() const { return flags_.is_given("use-precision-aware-optimizer"); }

  // Of the optimizer's moments, there and as they are planned.
  std::pair<int, int> bytes_of_moments() {
    const std::string name = name_of_optimizer();
    if (name == "sgd") return {momentum() == 0 ? 0 : 4, 0};
    if (name.ends_with("muon")) return {4, 4};
    if (name == "lion") return {4, 8};
    if (!is_precision_aware()) return {8, 8};
    const auto size = [&](std::string_view flag) {
      const std::string format = flags_.text(flag).value_or("fp32");
      return format == "fp32" ? 4 : format == "fp8" ? 1 : 2;
    };
    const int first = size("exp-avg-dtype"), second = size("exp-avg-sq-dtype");
    return {first + second, std::max(first, 2) + 4};
  }

  // Parameters in half precision have main copies in float32 there, and an update takes its gradients in float32.
  std::pair<Bytes, Bytes> bytes_of_state(Degrees::Data kind) {
    const auto [moments_there, moments_here] = bytes_of_moments();
    const bool is_narrow = computes_narrow(), shards_gradients = flags_.is_given("use-megatron-fsdp");
    const bool has_half_main = is_precision_aware() && flags_.text("main-params-dtype") == "fp16";
    const int gradient = has_narrow_gradients() ? 2 : 4, main = !is_narrow ? 0 : has_half_main ? 2 : 4;
    const int of_update = is_narrow && gradient == 2 && !is_precision_aware() ? 4 : 0;
    Bytes there{is_narrow ? 2 : 4, main + moments_there + of_update}, here{4, moments_here};
    (shards_gradients && flags_.text("data-parallel-sharding-strategy") != "optim" ? there.spread : there.whole) += gradient;
    (shards_gradients ? here.spread : here.whole) += gradient;
    for (Bytes* bytes : {&there, &here}) {
      if (kind == Degrees::Data::copied) *bytes = {bytes->whole + bytes->spread, 0};
    }
    return {there, here};
  }

  void tell_state(const Degrees& degrees) {
    if (degrees.kind == Degrees::Data::sharded) return;
    const auto [there, here] = bytes_of_state(degrees.kind);
    const bool has_moments = degrees.kind == Degrees::Data::sharded_moments;
    std::vector<std::string> words;
    if (here != there && !has_moments)
      words.push_back(
          fmt::format("parameters have no copy in half precision: {} bytes each on every device with gradient and moments rather than {}",
                      here.whole, there.whole));
    if (here != there && has_moments)
      words.push_back(
          fmt::format("parameters are float32 copies: {} bytes each on every device and {} spread over devices rather than {} and {}",
                      here.whole, here.spread, there.whole, there.spread));
    if (has_moments && passes_ == 1 && !flags_.is_given("use-megatron-fsdp"))
      words.emplace_back("gradients are summed into shards where that is possible");
    if (has_moments && degrees.experts * degrees.context > 1)
      words.emplace_back("moments are spread over the data axis, not over those of experts and context");
    if (words.empty()) return;
    translation_.differ(fmt::format("data parallelism {}: {}",
                                    !has_moments                           ? "without a distributed optimizer"
                                    : flags_.is_given("use-megatron-fsdp") ? "with shards of moments"
                                                                           : "with --use-distributed-optimizer",
                                    join(words, "; ")));
  }

  // Megatron-LM adds up gradients of all microbatches before devices sum them; Megatron-FSDP and torch's sum those of each.
  void give_sums(const Degrees& degrees, const Devices& devices) {
    const bool is_once = passes_ > 1 && degrees.kind != Degrees::Data::sharded && !flags_.is_given("use-megatron-fsdp");
    if (passes_ > 1) translation_.give("reduce_gradients", is_once ? "once" : "each_pass");
    const bool has_same_format = !computes_narrow() || has_narrow_gradients() || flags_.is_given("use-torch-fsdp2");
    if (is_once || has_same_format || devices.stages > 1 || devices.data * degrees.context == 1) return;
    tell_narrow_sums(kMegatronLm, translation_);
  }

  void tell_gathers(const Degrees& degrees) {
    if (!flags_.is_given("use-torch-fsdp2") || degrees.kind != Degrees::Data::sharded) return;
    if (!flags_.is_set("torch-fsdp2-no-reshard-after-forward")) return;
    tell_kept_weights("--torch-fsdp2-no-reshard-after-forward", kMegatronLm, computes_narrow(), translation_);
  }

  // The loss keeps probabilities in float32, in whose place it makes their gradient, which is then rounded. Transformer Engine's makes the
  // gradient in the place of the logits.
  void give_loss() {
    const bool is_fused = flags_.is_set("cross-entropy-loss-fusion");
    const bool is_in_place = flags_.choice("cross-entropy-fusion-impl", "native", {"native", "te"}) == "te" && is_fused;
    translation_.run_by({kMegatronLm, (computes_narrow() ? 2 : 4) + (computes_narrow() && !is_in_place ? 4 : 0), 1});
  }

  // What Megatron-LM refuses though it can be planned.
  void tell_refused(const Degrees& degrees, std::int64_t length) {
    if (degrees.model.experts > 0 && degrees.tensor > 1 && !degrees.shards_sequence)
      translation_.differ("Megatron-LM refuses to train experts with tensor parallelism and without --sequence-parallel");
    const auto must_divide = [&](std::int64_t size, const char* what) {
      if (length % size == 0) return;
      translation_.differ(fmt::format("Megatron-LM refuses --seq-length {}: a multiple of {}, {}, is expected there", length, size, what));
    };
    if (degrees.context > 1) must_divide(2 * degrees.context, "twice the context parallelism");
    if (degrees.shards_sequence) must_divide(degrees.tensor * degrees.context, "tensor x context parallelism under --sequence-parallel");
  }

  void give_rows(const Degrees& degrees, const Devices& devices) {
    Batch batch;
    batch.rows = static_cast<double>(size("micro-batch-size"));
    if (!flags_.has("micro-batch-size")) translation_.assume("no --micro-batch-size: 1");
    if (const auto rows = flags_.integer("global-batch-size", 1)) {
      batch.all_rows = static_cast<double>(*rows);
    } else if (degrees.stages > 1) {
      batch.parts = degrees.stages;
      translation_.assume("no --global-batch-size: as many microbatches as stages");
    }
    rows_ = batch.all_rows.value_or(batch.rows * static_cast<double>(devices.data * batch.parts));
    passes_ = give_batch(batch, devices, degrees.stages, kFromMegatron, translation_);
  }

  bool shares_layers_unevenly() const {
    constexpr std::string_view kUneven[] = {"decoder-first-pipeline-num-layers",  "decoder-last-pipeline-num-layers",
                                            "pipeline-model-parallel-layout",     "account-for-embedding-in-pipeline-split",
                                            "account-for-loss-in-pipeline-split", "hybrid-layer-pattern"};
    return std::any_of(std::begin(kUneven), std::end(kUneven), [&](std::string_view name) { return flags_.is_given(name); });
  }

  // `stages` are the command's; a mesh of the user's own may have others, for which the command's chunks mean nothing.
  void give_layers_of_stages(const ModelFacts& model, std::int64_t stages, std::int64_t of_mesh) {
    const auto chunk = flags_.integer("num-layers-per-virtual-pipeline-stage", 1),
               chunks = flags_.integer("num-virtual-stages-per-pipeline-rank", 1);
    if (of_mesh != stages) return give_stages(model, of_mesh, 0, kFromMegatron, translation_);
    if (model.layers % stages != 0 && !shares_layers_unevenly()) {
      refuse(fmt::format("{} for {}, which do not divide them", counted(model.layers, "layer"), counted(stages, "stage")), kFromMegatron,
             "another --pipeline-model-parallel-size, or --pipeline-model-parallel-layout beside it");
    }
    const std::int64_t layers = model.layers - model.dense_layers;
    if (chunks && !chunk) check_virtual_stages(model.layers / stages, *chunks);
    const std::int64_t of_chunks = chunks ? std::max<std::int64_t>(1, layers / stages / *chunks) : 0;
    give_stages(model, stages, chunk.value_or(of_chunks), kFromMegatron, translation_);
  }

  void check_virtual_stages(std::int64_t layers, std::int64_t chunks) {
    if (layers >= chunks && (layers % chunks == 0 || shares_layers_unevenly())) return;
    flags_.refuse_value("num-virtual-stages-per-pipeline-rank", fmt::format("a divisor of the {} of a stage", counted(layers, "layer")));
  }

  // Megatron's default dispatcher gathers the tokens of all devices (all-gather); the others send each token only to its experts.
  void give_dispatch(const Degrees& degrees) {
    const std::string type = flags_.choice("moe-token-dispatcher-type", "allgather", {"allgather", "alltoall", "flex"});
    const auto capacity = flags_.real("moe-expert-capacity-factor");
    if (degrees.model.experts == 0) return;
    const bool is_split = degrees.experts > 1;
    if (capacity && *capacity > 0) {
      translation_.give("sparse_matmul", false);
      translation_.give("capacity_factor", *capacity);
      if (is_split) translation_.give("moe_dispatch_no_expert_sharding", true);
      return;
    }
    if (is_split && type == "allgather") {
      translation_.give("use_ring_of_experts", true);
      translation_.give("use_ragged_sort", true);
    }
    give_room_for_rows(degrees, translation_);
  }

  // Where nothing is recomputed, layers keep what the backward pass reads.
  void give_recomputation() {
    std::string granularity = flags_.choice("recompute-granularity", "", {"full", "selective"});
    if (flags_.is_set("recompute-activations")) granularity = "selective";
    if (flags_.is_set("checkpoint-activations")) {
      granularity = "full";
      translation_.assume(
          "--checkpoint-activations, which Megatron-LM has no more, recomputes every layer, as --recompute-granularity full");
    }
    if (flags_.is_set("moe-layer-recompute")) granularity = "selective", recomputes_mlp_ = true;
    const std::string method = flags_.choice("recompute-method", "uniform", {"uniform", "block"});
    const auto layers = flags_.integer("recompute-num-layers", 1);
    std::vector<std::string> parts;
    if (const Flag* modules = flags_.find("recompute-modules")) {
      for (const std::string& module : modules->values) {
        recomputes_mlp_ = recomputes_mlp_ || module == "mlp" || module == "moe";
        if (module != "core_attn") parts.push_back(module);  // fused attention makes its scores again anyway
      }
    }
    if (granularity == "full") {
      translation_.give("remat_policy", "full");
      if (method == "block") translation_.differ("--recompute-method block: every layer is recomputed, not the first ones of a stage");
      if (method == "uniform" && layers.value_or(1) > 1)
        translation_.differ(fmt::format("--recompute-num-layers {}: every layer's input is kept, not every {}th", *layers, *layers));
      return;
    }
    if (granularity != "selective" || (!recomputes_mlp_ && parts.empty())) return translation_.give("remat_policy", "everything");
    translation_.give("remat_policy", recomputes_mlp_ ? "save_dot_with_context_except_mlp" : "minimal_with_context");
    if (recomputes_mlp_) return;
    translation_.differ(fmt::format("--recompute-modules {}: products are kept, and all between them is made again, exchanges of rows too",
                                    join(parts, " ")));
  }

  void give_formats() {
    const bool is_narrow = flags_.is_set("bf16"), is_half = flags_.is_set("fp16");
    if (!is_narrow && !is_half) translation_.give("dtype", "float32");
    if (is_half) translation_.differ("--fp16: bfloat16 is planned, which takes as much memory and time, and needs no loss scale");
    if (has_narrow_gradients()) translation_.give("grad_dtype", "bfloat16");
    give_formats_of_state();
    const std::string recipe = flags_.choice("fp8-recipe", "delayed", {"delayed", "tensorwise", "mxfp8", "blockwise", "custom"});
    if (flags_.choice("fp8-format", "", {"hybrid", "e4m3"}).empty()) return;
    translation_.give("quantization", recipe == "delayed" ? "te_fp8_delayedscaling"
                                      : recipe == "mxfp8" ? "te_mxfp8"
                                                          : "te_fp8_currentscaling");
    if (recipe == "blockwise" || recipe == "custom")
      translation_.differ(fmt::format("--fp8-recipe {}: one scale a tensor is planned", recipe));
  }

  // Under --bf16 gradients are float32 unless flags say otherwise; under --fp16, and in Megatron-FSDP, they have the parameters' format.
  bool has_narrow_gradients() {
    const std::vector<std::string> formats{"fp32", "bf16", "fp16", "auto"};
    const bool accumulates_wide = flags_.is_set("accumulate-allreduce-grads-in-fp32");
    if (flags_.is_set("grad-reduce-in-bf16")) return true;
    if (flags_.is_given("use-megatron-fsdp")) {
      const std::string format = flags_.choice("megatron-fsdp-main-grads-dtype", "auto", formats);
      return format == "bf16" || format == "fp16" || (format == "auto" && (flags_.is_given("bf16") || flags_.is_given("fp16")));
    }
    if (flags_.is_given("fp16")) return !accumulates_wide;
    return is_precision_aware() && flags_.choice("main-grads-dtype", "fp32", formats) == "bf16";
  }

  // The formats of moments and of the parameters' main copies.
  void give_formats_of_state() {
    const bool says_format = flags_.is_given("megatron-fsdp-main-grads-dtype") || translation_.is_own("grad_dtype");
    if (flags_.is_given("use-megatron-fsdp") && !says_format && has_narrow_gradients())
      translation_.assume(
          "Megatron-FSDP keeps gradients in the parameters' format: grad_dtype=float32 plans for an older one, which did not");
    if (!flags_.is_set("use-precision-aware-optimizer")) return;
    const std::vector<std::string> formats{"fp32", "fp16", "bf16", "fp8"};
    const std::string first = flags_.choice("exp-avg-dtype", "fp32", formats), second = flags_.choice("exp-avg-sq-dtype", "fp32", formats);
    if (first != "fp32") translation_.give("mu_dtype", "bfloat16");
    if (first == "fp16" || first == "fp8")
      translation_.differ(fmt::format("--exp-avg-dtype {}: the first moment is planned in bfloat16", first));
    if (second != "fp32") translation_.differ(fmt::format("--exp-avg-sq-dtype {}: the second moment is planned in float32", second));
    const std::string main = flags_.choice("main-params-dtype", "fp32", {"fp32", "fp16"});
    if (main != "fp32") translation_.differ(fmt::format("--main-params-dtype {}: parameters are planned in float32", main));
  }

  void give_offload() {
    const double share = flags_.real("optimizer-offload-fraction").value_or(1);
    if (!flags_.is_set("optimizer-cpu-offload") || share <= 0) return;
    translation_.give("optimizer_memory_host_offload", true);
    if (share < 1) translation_.differ(fmt::format("--optimizer-offload-fraction {}: all moments are planned in the host's memory", share));
  }

  void tell_dropout() {
    constexpr double kUsual = 0.1;
    const double hidden = flags_.real("hidden-dropout").value_or(kUsual), attention = flags_.real("attention-dropout").value_or(kUsual);
    if (hidden > 0 || attention > 0)
      translation_.differ(fmt::format("--hidden-dropout {} and --attention-dropout {}: nothing is dropped, memory and time hardly differ",
                                      hidden, attention));
  }

  std::string name_of_optimizer() {
    return flags_.choice("optimizer", "adam", {"adam", "sgd", "muon", "dist_muon", "lion", "soap", "adaptive_muon"});
  }
  double momentum() { return flags_.real("sgd-momentum").value_or(0.9); }

  void give_sgd() {
    translation_.give("opt_type", "sgd");
    if (momentum() == 0) return;
    translation_.differ(
        fmt::format("--optimizer sgd: no momentum is planned, where Megatron-LM has one of {}: 4 bytes of a parameter", momentum()));
  }

  void give_optimizer() {
    const std::string name = name_of_optimizer();
    if (name == "sgd") give_sgd();
    if (name.ends_with("muon")) translation_.give("opt_type", "muon");
    if (name == "lion" || name == "soap")
      translation_.differ(fmt::format("--optimizer {}: AdamW is planned, with two moments of a parameter", name));
    translation_.give("learning_rate", flags_.real("lr"));
    translation_.give(name.ends_with("muon") ? "muon_weight_decay" : "adam_weight_decay", flags_.real("weight-decay"));
    translation_.give("gradient_clipping_threshold", flags_.real("clip-grad"));
    if (name == "sgd") return;
    give_offload();
    translation_.give("adam_b1", flags_.real("adam-beta1"));
    translation_.give("adam_b2", flags_.real("adam-beta2"));
    translation_.give("adam_eps", flags_.real("adam-eps"));
  }

  std::optional<std::int64_t> steps_of(std::string_view by_steps, std::string_view by_rows) {
    if (const auto steps = flags_.integer(by_steps, 0)) return steps;
    if (const auto rows = flags_.integer(by_rows, 0, kMostAlone)) return static_cast<std::int64_t>(static_cast<double>(*rows) / rows_);
    return std::nullopt;
  }

  void give_schedule() {
    const auto steps = steps_of("train-iters", "train-samples"), decay = steps_of("lr-decay-iters", "lr-decay-samples");
    const auto warmup = steps_of("lr-warmup-iters", "lr-warmup-samples"), fall = steps_of("lr-wsd-decay-iters", "lr-wsd-decay-samples");
    const auto share = flags_.real("lr-warmup-fraction"), rate = flags_.real("lr"), least = flags_.real("min-lr");
    const std::string style = flags_.choice("lr-decay-style", "linear", {"constant", "linear", "cosine", "inverse-square-root", "WSD"});
    const double whole = static_cast<double>(decay.value_or(steps.value_or(0)));
    if (steps) translation_.give("steps", *steps);
    if (!rate || whole < 1) return;
    if (decay && decay != steps) translation_.give("learning_rate_schedule_steps", *decay);
    const double rises = std::clamp(share ? *share : static_cast<double>(warmup.value_or(0)) / whole, 0.0, 1.0);
    translation_.give("warmup_steps_fraction", rises);
    const bool is_constant = style == "constant";
    if (*rate > 0) translation_.give("learning_rate_final_fraction", is_constant ? 1.0 : std::max(0.0, least.value_or(0) / *rate));
    if (style == "cosine") return;
    if (style == "inverse-square-root") translation_.differ("--lr-decay-style inverse-square-root: the rate falls in a straight line");
    translation_.give("lr_schedule_type", "wsd");
    const double falls = style == "WSD" ? static_cast<double>(fall.value_or(0)) / whole : 1 - rises;
    translation_.give("wsd_decay_steps_fraction", std::clamp(falls, 0.0, 1 - rises));
  }

  Flags& flags_;
  std::optional<std::int64_t> told_;
  Translation& translation_;
  std::optional<std::int64_t> length_;
  double rows_ = 1;  // rows per step
  std::int64_t passes_ = 1;
  bool recomputes_mlp_ = false;
};

}  // namespace

Imported from_megatron(const std::vector<ShellWord>& words, const std::vector<std::string>& own) {
  const Launched launched = take_launcher(words, kFromMegatron);
  Flags flags(spelled_as_now(with_dashes(flags_of(launched.words, kFromMegatron))));
  Translation translation(own);
  Run(flags, launched.devices, translation).give();
  note_what_is_left(flags, {"Megatron-LM", idle_megatron_flags(), differing_megatron_flags(), translated_megatron_flags()}, translation);
  return translation.take();
}

}  // namespace moesh::foreign
