// The flags of Megatron-LM: those without a counterpart in moesh, and those that are translated.
#include "foreign/megatron.h"

namespace moesh::foreign {
namespace {

constexpr KnownFlags kIdle[] = {
    {"logging, profiling, evaluation, checkpoints and restarts",
     "run-workload-inspector-server inprocess-* no-one-logger one-logger-* app-tag-run-* enable-ft-package calc-ft-timeouts "
     "ft-num-warmup-iters otel-* no-check-for-nan-in-loss-and-grad check-for-large-grads result-rejected-tracker-filename "
     "dump-param-to-param-group-map no-save-* no-load-* override-ckpt-iteration use-dist-ckpt dist-ckpt-* ckpt-* "
     "adlr-autoresume adlr-autoresume-interval enable-msc disable-msc moe-per-layer-logging config-logger-dir log-* "
     "straggler-* disable-straggler-on-startup timing-log-level timing-log-option tensorboard-* "
     "no-log-loss-scale-to-tensorboard disable-log-loss-scale-to-tensorboard no-barrier-with-level-1-timing wandb-* "
     "logging-level moe-routing-trace-* profile* use-pytorch-profiler pytorch-profiler-* record-memory-history "
     "memory-snapshot-path record-shapes nvtx-ranges check-weight-hash-across-dp-replicas-interval exit-* error-injection-* "
     "rerun-mode check-for-spiky-loss save save-* persistent-save-interval load load-main-params-from-ckpt non-persistent-* "
     "finetune pretrained-checkpoint no-use-tokenizer-model-from-checkpoint-args "
     "disable-use-tokenizer-model-from-checkpoint-args auto-detect-ckpt-format no-ckpt-* async-* use-persistent-ckpt-worker "
     "disable-ckpt-load-validate-sharding-integrity no-strict-fsdp-dtensor-load disable-strict-fsdp-dtensor-load "
     "distrib-optim-fully-reshardable-mem-efficient disable-save-tokenizer-assets replication* verify-integrity eval-* "
     "start-eval-at-iter skip-train test-mode full-validation multiple-validation-sets validation-set-names fault-injector-*"},
    {"data and tokenizers",
     "dataloader-* data-path phase-transition-iterations split train-data-path valid-data-path test-data-path data-args-path "
     "per-split-data-args-path per-dataset-sequences-path data-cache-path no-mmap-bin-files mock-data encoder-seq-length "
     "decoder-seq-length sample-rate mask-prob short-seq-prob num-workers reset-position-ids eod-mask-loss "
     "no-create-attention-mask-in-dataloader num-dataset-builder-threads object-storage-cache-path mid-level-dataset-surplus "
     "allow-ambiguous-pad-tokens fim-* iterations-to-skip vocab-file merge-file vocab-extra-ids tokenizer-* tiktoken-* "
     "no-tokenizer-sentencepiece-ignore-extra-whitespaces disable-tokenizer-sentencepiece-ignore-extra-whitespaces "
     "trust-remote-code null-tokenizer-* chat-template use-gigatoken"},
    {"inference",
     "inference-* max-tokens-to-oom output-bert-embeddings bert-embedder-type use-legacy-static-engine "
     "decode-only-cuda-graphs enable-chunked-prefill num-speculative-tokens use-same-sampling-seed-across-dp-ranks "
     "cache-mla-latents moe-pad-experts-for-cuda-graph-inference flash-decode symmetric-ar-type nccl-all-reduce-for-prefill "
     "mlp-chunks-for-prefill"},
    {"other kinds of models and of training, by flags of their own",
     "decoder-num-layers relative-attention-max-distance openai-gelu onnx-safe bert-no-binary-head rl-* grpo-* "
     "langrl-env-config refit-method warmup mamba-* ict-* biencoder-projection-dim biencoder-shared-query-context-model "
     "bert-load titles-data-path query-in-block-prob use-one-sent-docs evidence-data-path retriever-* block-data-path "
     "embedding-path indexer-batch-size indexer-log-interval num-classes img-h img-w num-channels patch-dim classes-fraction "
     "data-per-class-fraction no-data-sharding head-lr-mult vision-* swin-backbone-type mask-type mask-factor iter-per-epoch "
     "dino-* moe-upcycling-granularity sft-tokenizer-prompt-format logits-* mtp-standalone "
     "mtp-use-repeated-layer mtp-detach-heads mtp-hsm mtp-hybrid-override-pattern qk-clip-alpha dsa-kernel-backend "
     "dsa-indexer-rope-interleaved no-dsa-indexer-rope-interleaved disable-dsa-indexer-rope-interleaved "
     "dsa-indexer-rotate-activation no-dsa-indexer-rotate-activation disable-dsa-indexer-rotate-activation "
     "dsa-indexer-k-norm-epsilon dsa-indexer-topk-freq dsa-indexer-skip-topk-offset "
     "mup-* "
     "mhc-* mrope-section gdp-* disable-mamba-mem-eff-path enable-gpt-oss export-*"},
    {"how and when bytes travel, which moesh plans by itself",
     "tp-comm-* overlap-cpu-optimizer-d2h-h2d no-overlap-p2p-communication overlap-grad-reduce ddp-* gtp-* "
     "overlap-param-gather overlap-param-gather-with-optimizer-step no-align-param-gather megatron-fsdp-* "
     "no-use-layer-wise-param-layout use-nccl-ub disable-symmetric-registration fsdp-* create-all-gather-group "
     "no-gradient-reduce-div-fusion suggested-communication-unit-size keep-fp8-transpose-cache enable-full-sharding-in-hsdp "
     "fake-process-group pipeline-model-parallel-comm-backend max-seqlen-per-dp-cp-rank "
     "no-initialization use-cpu-initialization no-tp-comm-* disable-tp-comm-* overlap-moe-expert-parallel-comm "
     "delay-wgrad-compute overlap-dispatch-backward-with-experts-wgrad ep-overlap-early-attn-memory-release "
     "use-ring-exchange-p2p defer-embedding-wgrad-compute wgrad-deferral-limit overlap-p2p-communication-warmup-flush "
     "microbatch-group-size-per-virtual-pipeline-stage attention-backend high-priority-a2a-comm-stream "
     "moe-shared-expert-overlap moe-enable-deepep moe-flex-dispatcher-* moe-permute-fusion-into-hybridep moe-hybridep-* "
     "moe-deepep-num-sms moe-ncclep-zero-copy moe-dispatch-fwd-dtype moe-combine-bwd-dtype "
     "no-clone-scatter-output-in-embedding disable-clone-scatter-output-in-embedding distributed-backend "
     "distributed-timeout-minutes no-align-grad-reduce disable-align-grad-reduce local-rank lazy-mpu-init "
     "nccl-communicator-config-path use-tp-pp-dp-mapping disable-gloo-process-groups use-sharp sharp-enabled-group "
     "high-priority-stream-groups distributed-timeout-seconds-after-init flight-recorder-* no-flight-* disable-flight-*"},
    {"initial values, seeds, loss scaling and other numbers",
     "apply-wd-to-qk-layernorm muon-* lion-* no-weight-decay-cond-type init-method-* loss-scale "
     "initial-loss-scale min-loss-scale loss-scale-window hysteresis fp16-lm-cross-entropy glu-linear-offset "
     "calculate-per-token-loss embedding-init-method-std init-model-with-meta-device apply-query-key-layer-scaling "
     "moe-router-quantile-balancing-ema moe-router-force-biased moe-token-drop-policy seed te-rng-tracker "
     "data-parallel-random-init lr-wsd-decay-style lr-warmup-init lr-decay-steps lr-warmup-steps "
     "override-opt-param-scheduler use-checkpoint-opt-param-scheduler start-weight-decay end-weight-decay "
     "weight-decay-incr-style wd-incr-steps wsd-decay-steps"},
    {"how kernels compute; all are priced as well-tuned ones",
     "te-precision-config-file yarn-correction-range-round-to-int no-yarn-correction-range-round-to-int "
     "no-masked-softmax-fusion no-bias-* no-rope-fusion use-flash-attn optimizer-cuda-graph "
     "use-torch-optimizer-for-cpu-offload no-pin-cpu-grads no-pin-cpu-params no-persist-layer-norm "
     "no-gradient-accumulation-fusion use-mcore-models attention-softmax-in-fp32 "
     "output-logit-dtype reuse-grad-buf-for-mxfp8-param-ag mla-down-proj-fusion enable-experimental deterministic-mode "
     "cpu-offloading-retain-pinned-cpu-buffers flash-attention-version "
     "rotary-interleaved disable-bf16-reduced-precision-matmul use-fused-weighted-squared-relu fused-residual-rmsnorm "
     "use-transformer-engine-op-fuser fp8-quantizer-factory fp8-margin fp8-interval fp8-amax-* no-fp8-wgrad "
     "disable-fp8-wgrad fp8-output-proj num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 use-kitchen-attention "
     "fp4-recipe fp4-quantizer-factory use-grouped-gemm-for-shared-expert moe-shared-expert-glu-interleave-size "
     "moe-enable-routing-replay moe-router-padding* use-grouped-gemm-for-dense-mlp moe-grouped-gemm moe-use-grouped-tensor "
     "moe-single-* moe-permute-fusion moe-router-fusion moe-mlp-glu-interleave-size enable-cuda-graph cuda-graph-* "
     "external-cuda-graph batch-invariant-* use-te-activation-func mlp-chunks-for-training transformer-impl "
     "min-offloaded-tensor-size delay-offload-until-cuda-graph delta-offload-bytes-across-pp-ranks "
     "activation-offload-fraction moe-paged-stash* fine-grained-offloading-max-inflight-offloads "
     "decrease-batch-size-if-needed empty-unused-memory-level gpu-sniff-test-interval train-sync-interval manual-gc "
     "manual-gc-interval no-manual-gc-eval disable-manual-gc-eval disable-jit-fuser kitchen-*"},
    {"of an older Megatron-LM, and not needed here",
     "DDP-impl align-param-gather allow-trivial-doc bias-dropout-fusion bias-gelu-fusion bias-swiglu-fusion block-index-path "
     "block-top-k cache-dir cased-data-path cased-vocab cloze-eval data-epochs data-impl data-loader "
     "deallocate-pipeline-outputs debug deep-init delay-param-gather delim disable-chunked-prefill "
     "disrib-opt-comm-mem-savings distrib-opt-comm-mem-savings embedding-weights-in-fp32 empty-unused-memory-each-iter "
     "enable-one-logger enable-onelogger encoder-pipeline-model-parallel-size encoder-tensor-model-parallel-size end-wd "
     "epochs erf-gelu faiss-use-gpu fp32-allreduce fp32-embedding fp32-layernorm fp32-tokentypes genfile greedy "
     "hash-data-path img-dim index-reload-interval initialize-socket-comms input-data-sizes-file "
     "keep-fp8-transpose-cache-when-using-custom-fsdp langrl-external-server langrl-inference-server-conversation-template "
     "langrl-inference-server-type lazy-loader legacy-tokenizer load-all-rng load-model-opt-format load-openai load-optim "
     "load-rng loose-json max-num-samples max-preds-per-seq max-seqlen-per-cp-rank max-training-rank min-scale mmap-warmup "
     "model-parallel-memory-opt moe-use-legacy-grouped-gemm ner-data-path no-async-tensor-model-parallel-allreduce "
     "no-contiguous-buffers-in-local-ddp no-delay-grad-reduce no-log-learnig-rate-to-tensorboard "
     "no-log-memory-to-tensorboard no-query-key-layer-scaling no-scaled-masked-softmax-fusion "
     "no-scatter-gather-tensors-in-pipeline num-microbatches num-microbatches-in-minibatch num-samples out-seq-length "
     "overlap-p2p-communication overlapping-eval override-checkpoint-version override-lr-scheduler pool-type "
     "presplit-sentences pretrained-bert projection-dim renormalize-blend-weights report-topk-accuracies resume-dataloader "
     "retro-* s3-cache-path sample-input-file sample-output-file scaled-masked-softmax-fusion "
     "scaled-upper-triang-masked-softmax-fusion scatter-gather-tensors-in-pipeline shared-query-context-model shuffle "
     "skip-mmap-warmup start-wd strict-lambada temperature test-data text-key top-k top-p train-data "
     "use-checkpoint-lr-scheduler use-contiguous-buffers-in-ddp use-gpu-initialization use-legacy-models use-npy-data-loader "
     "use-pipelining use-random-spans use-regular-masking use-tfrecords val-data-path valid-data validate-model-load "
     "vit-load vocab wd-incr-style"},
};

constexpr DifferingFlag kDiffering[] = {
    {"hybrid-layer-pattern", "layers of other kinds than attention and MLPs are planned as these"},
    {"hybrid-override-pattern", "layers of other kinds than attention and MLPs are planned as these"},
    {"is-hybrid-model", "layers of other kinds than attention and MLPs are planned as these"},
    {"spec", "the layers of the module that it names are not known: those of the other flags are planned"},
    {"heterogeneous-layers-config-path", "all layers are planned alike"},
    {"heterogeneous-layers-config-encoded-json", "all layers are planned alike"},
    {"yaml-cfg", "what the file says is not read: give its settings as flags"},
    {"use-checkpoint-args", "sizes that the checkpoint has are not read: give them as flags"},
    {"use-mp-args-from-checkpoint-args", "degrees that the checkpoint has are not read: give them as flags"},
    {"moe-latent-size", "experts are planned at the width of the residual stream"},
    {"moe-z-loss-coeff", "the router has no such loss: numbers differ, memory and time hardly"},
    {"moe-input-jitter-eps", "the router has no jitter: numbers differ"},
    {"moe-pad-expert-input-to-capacity", "slots are full-sized in the plan anyway, with --moe-expert-capacity-factor"},
    {"moe-apply-probs-on-input", "experts' results are weighted, not their inputs"},
    {"moe-expert-rank-capacity-factor", "rows of a device are not bounded: ragged_buffer_factor= does so"},
    {"moe-use-upcycling", "a model with experts is planned, not made of a dense one"},
    {"enable-mhc-connections", "one residual stream is planned"},
    {"mhc-num-residual-streams", "one residual stream is planned"},
    {"qk-clip", "weights of queries and keys are not clipped"},
    {"fp32-residual-connection", "the residual stream is planned in bfloat16: it takes half of the memory"},
    {"apply-residual-connection-post-layernorm", "the residual stream leaves out the norm"},
    {"fp4-format", "products are planned in bfloat16, or as --fp8-format says"},
    {"fp8-param-gather", "weights are gathered in bfloat16, twice the bytes"},
    {"fp4-param-gather", "weights are gathered in bfloat16, four times the bytes"},
    {"first-last-layers-bf16", "all layers are planned in the low precision"},
    {"cpu-offloading-num-layers", "activations are planned in the memory of the device"},
    {"fine-grained-activation-offloading", "activations are planned in the memory of the device"},
    {"offload-modules", "activations are planned in the memory of the device"},
    {"distribute-saved-activations", "saved activations lie as the other ones"},
    {"decoder-first-pipeline-num-layers", "stages have as many layers each"},
    {"decoder-last-pipeline-num-layers", "stages have as many layers each"},
    {"pipeline-model-parallel-layout", "stages have as many layers each"},
    {"account-for-embedding-in-pipeline-split", "stages have as many layers each"},
    {"account-for-loss-in-pipeline-split", "stages have as many layers each"},
    {"hierarchical-context-parallel-sizes", "keys and values are gathered along one axis"},
    {"hybrid-context-parallel", "every sequence is split over the same devices"},
    {"cp-comm-type", "keys and values are gathered (context_parallel_strategy=all_gather), which sends as much as a ring of them"},
    {"num-distributed-optimizer-instances", "moments are spread over all of data parallelism"},
    {"outer-dp-sharding-strategy", "moments are spread over all of data parallelism"},
    {"tensor-parallel-num-weight-shards", "weights are split once along tensor parallelism"},
    {"expert-tensor-parallel-num-weight-shards", "weights are split once along tensor parallelism"},
    {"rampup-batch-size", "the batch is planned at its full size"},
    {"step-batch-size-schedule", "the batch is planned at its full size"},
    {"decoupled-lr", "the embedding learns at the rate of the rest"},
    {"decoupled-min-lr", "the embedding learns at the rate of the rest"},
    {"apply-layernorm-1p", "norms multiply by their scale, not by 1 + it"},
    {"use-mup", "widths do not scale rates"},
    {"freeze-all-layers", "all parameters are planned to learn"},
    {"encoder-num-layers", "a decoder alone is planned"},
    {"expert-parallel", "of an older Megatron-LM: --expert-model-parallel-size says how many devices share the experts"},
    {"lr-warmup-percent", "of an older Megatron-LM: --lr-warmup-fraction says how long the rate rises"},
    {"moe-router-type", "of an older Megatron-LM: each token goes to the best --moe-router-topk experts"},
    {"moe-router-topk-limited-devices", "of an older Megatron-LM: experts are chosen on all devices"},
    {"moe-token-dropping", "of an older Megatron-LM: no rows are dropped without --moe-expert-capacity-factor"},
    {"num-unique-layers", "of an older Megatron-LM: every layer has parameters of its own"},
    {"param-sharing-style", "of an older Megatron-LM: every layer has parameters of its own"},
    {"pipeline-model-parallel-split-rank", "of an older Megatron-LM: a decoder alone is planned"},
    {"standalone-embedding-stage", "of an older Megatron-LM: stages have as many layers each"},
    {"standalone-embed-stage", "of an older Megatron-LM: stages have as many layers each"},
    {"retro-add-retriever", "of an older Megatron-LM: nothing is retrieved, and layers have no such part"},
    {"checkpoint-attention", "of an older Megatron-LM: --recompute-granularity says what is recomputed"},
    {"recompute", "of an older Megatron-LM: --recompute-granularity says what is recomputed"},
    {"reset-attention-mask", "rows are planned as one document each: attention over shorter ones is faster"},
    {"relative-attention-num-buckets", "positions are rotary"},
    {"qk-clip-threshold", "weights of queries and keys are not clipped"},
    {"sft", "training on all tokens is planned"},
    {"perform-rl-step", "a step of plain training is planned"},
};

constexpr std::string_view kTranslated[] = {
    "tensor-model-parallel-size", "seq-length", "num-experts", "expert-model-parallel-size", "multi-latent-attention",
    "use-torch-fsdp2", "use-megatron-fsdp", "data-parallel-sharding-strategy", "use-distributed-optimizer",
    "context-parallel-size", "pipeline-model-parallel-size", "expert-tensor-parallel-size", "sequence-parallel",
    "micro-batch-size", "global-batch-size", "num-layers-per-virtual-pipeline-stage", "num-virtual-stages-per-pipeline-rank",
    "moe-token-dispatcher-type", "moe-expert-capacity-factor", "recompute-granularity", "recompute-activations",
    "checkpoint-activations", "moe-layer-recompute", "recompute-method", "recompute-num-layers", "recompute-modules", "bf16",
    "fp16", "grad-reduce-in-bf16", "fp8-recipe", "fp8-format", "optimizer", "lr", "weight-decay", "clip-grad", "adam-beta1",
    "adam-beta2", "adam-eps", "train-iters", "train-samples", "lr-decay-iters", "lr-decay-samples", "lr-warmup-iters",
    "lr-warmup-samples", "lr-wsd-decay-iters", "lr-wsd-decay-samples", "lr-warmup-fraction", "min-lr", "lr-decay-style",
    "num-layers", "disable-bias-linear", "add-qkv-bias", "swiglu", "normalization", "moe-shared-expert-intermediate-size",
    "moe-shared-expert-gate", "softmax-type", "moe-router-num-groups", "moe-router-topk-scaling-factor",
    "moe-router-enable-expert-bias", "group-query-attention", "position-embedding-type", "use-rotary-position-embeddings",
    "rope-type", "hidden-dropout", "attention-dropout", "moe-layer-freq", "hidden-size", "num-attention-heads", "norm-epsilon",
    "untie-embeddings-and-output-weights",
    "num-query-groups", "kv-channels", "qk-layernorm", "qk-l2-norm", "q-lora-rank", "kv-lora-rank", "qk-head-dim",
    "qk-pos-emb-head-dim", "v-head-dim", "experimental-attention-variant", "dsa-indexer-n-heads", "dsa-indexer-head-dim",
    "dsa-indexer-topk", "dsa-indexer-loss-coeff", "dsa-indexer-use-sparse-loss",
    "linear-attention-freq", "linear-conv-kernel-dim", "linear-key-head-dim", "linear-value-head-dim", "linear-num-key-heads",
    "linear-num-value-heads", "attention-output-gate",
    "max-position-embeddings", "no-position-embedding", "rotary-base", "rotary-percent",
    "use-rope-scaling", "rope-scaling-factor", "rotary-seq-len-interpolation-factor", "rotary-scaling-factor", "mscale",
    "mscale-all-dim", "yarn-beta-fast", "yarn-beta-slow", "yarn-original-max-position-embeddings", "ffn-hidden-size",
    "quick-geglu", "squared-relu", "activation-func-clamp-value", "moe-router-topk", "moe-ffn-hidden-size",
    "moe-router-score-function", "moe-router-pre-softmax", "moe-router-bias-update-rate", "moe-router-dtype",
    "moe-router-force-load-balancing", "moe-router-group-topk", "moe-router-load-balancing-type", "moe-aux-loss-coeff",
    "mtp-num-layers", "mtp-loss-scaling-factor", "no-rope-freq", "window-size", "window-attn-skip-freq", "padded-vocab-size",
    "vocab-size", "make-vocab-size-divisible-by",
    "no-pad-vocab-size", "disable-pad-vocab-size", "tokenizer-type", "tokenizer-model", "megatron-fsdp-main-grads-dtype",
    "use-precision-aware-optimizer", "main-grads-dtype", "main-params-dtype", "exp-avg-dtype", "exp-avg-sq-dtype",
    "optimizer-cpu-offload", "optimizer-offload-fraction", "moe-extended-tp", "accumulate-allreduce-grads-in-fp32", "sgd-momentum",
    "torch-fsdp2-no-reshard-after-forward", "cross-entropy-loss-fusion", "cross-entropy-fusion-impl",
};

}  // namespace

std::span<const KnownFlags> idle_megatron_flags() { return kIdle; }
std::span<const DifferingFlag> differing_megatron_flags() { return kDiffering; }
std::span<const std::string_view> translated_megatron_flags() { return kTranslated; }

}  // namespace moesh::foreign
