// What Megatron-LM has besides the flags that are translated.
#include "foreign/megatron.h"

namespace moesh::foreign {
namespace {

constexpr KnownFlags kIdle[] = {
    {"logging, profiling, evaluation, checkpoints and restarts",
     "run-workload-inspector-server inprocess-restart inprocess-max-iterations inprocess-monitor-thread-interval "
     "inprocess-monitor-process-interval inprocess-progress-watchdog-interval inprocess-heartbeat-interval "
     "inprocess-soft-timeout inprocess-hard-timeout inprocess-heartbeat-timeout inprocess-barrier-timeout "
     "inprocess-completion-timeout inprocess-last-call-wait inprocess-termination-grace-time inprocess-granularity "
     "inprocess-active-world-size inprocess-empty-cuda-cache no-one-logger one-logger-project one-logger-run-name "
     "one-logger-async app-tag-run-name app-tag-run-version enable-ft-package calc-ft-timeouts ft-num-warmup-iters otel-enabled "
     "otel-service-name otel-span-groups no-check-for-nan-in-loss-and-grad check-for-large-grads "
     "result-rejected-tracker-filename dump-param-to-param-group-map no-save-optim no-save-rng no-load-optim no-load-rng "
     "override-ckpt-iteration use-dist-ckpt dist-ckpt-format dist-ckpt-workers ckpt-fully-parallel-save "
     "ckpt-drop-redundant-extra-state adlr-autoresume adlr-autoresume-interval enable-msc disable-msc moe-per-layer-logging "
     "config-logger-dir log-straggler straggler-ctrlr-port straggler-minmax-count disable-straggler-on-startup log-interval "
     "log-params-norm log-throughput log-progress timing-log-level timing-log-option tensorboard-dir tensorboard-log-interval "
     "tensorboard-queue-size log-timers-to-tensorboard no-log-loss-scale-to-tensorboard disable-log-loss-scale-to-tensorboard "
     "log-validation-ppl-to-tensorboard log-memory-to-tensorboard log-memory-interval log-device-memory-used "
     "log-num-zeros-in-grad log-max-attention-logit no-barrier-with-level-1-timing log-world-size-to-tensorboard wandb-project "
     "wandb-exp-name wandb-save-dir wandb-entity logging-level log-energy moe-routing-trace-path "
     "moe-routing-trace-max-training-iters moe-routing-trace-capture-logits moe-routing-trace-capture-hidden-states "
     "moe-routing-trace-dump-weights profile profile-step-start profile-step-end use-pytorch-profiler "
     "pytorch-profiler-collect-shapes pytorch-profiler-collect-callstack pytorch-profiler-collect-chakra profile-ranks "
     "record-memory-history memory-snapshot-path record-shapes nvtx-ranges check-weight-hash-across-dp-replicas-interval "
     "exit-interval exit-duration-in-mins exit-signal-handler exit-signal exit-signal-handler-for-dataloader "
     "exit-signal-handler-for-training error-injection-rate error-injection-type rerun-mode check-for-spiky-loss save "
     "save-interval persistent-save-interval save-params-interval save-activations-interval save-tokens-per-expert-interval "
     "save-wgrads-interval save-dgrads-interval save-retain-interval load load-main-params-from-ckpt "
     "non-persistent-save-interval non-persistent-ckpt-type non-persistent-global-ckpt-dir non-persistent-local-ckpt-dir "
     "non-persistent-local-ckpt-algo finetune pretrained-checkpoint ckpt-step no-use-tokenizer-model-from-checkpoint-args "
     "disable-use-tokenizer-model-from-checkpoint-args exit-on-missing-checkpoint ckpt-format auto-detect-ckpt-format "
     "ckpt-convert-format ckpt-convert-save ckpt-convert-update-legacy-dist-opt-format no-ckpt-fully-parallel-save async-save "
     "async-strategy use-persistent-ckpt-worker async-ckpt-cpu-priority async-ckpt-io-priority async-ckpt-use-cpu-shm "
     "ckpt-fully-parallel-load ckpt-fully-parallel-load-exchange-algo ckpt-fully-parallel-load-per-rank-objects "
     "ckpt-fully-parallel-save-process-group ckpt-fully-parallel-load-process-group ckpt-assume-constant-structure "
     "ckpt-pg-tensors-cache-path ckpt-pg-tensors-cache-create no-ckpt-load-validate-sharding-integrity "
     "disable-ckpt-load-validate-sharding-integrity no-strict-fsdp-dtensor-load disable-strict-fsdp-dtensor-load "
     "dist-ckpt-strictness dist-ckpt-save-pre-mcore-014 dist-ckpt-optim-fully-reshardable "
     "distrib-optim-fully-reshardable-mem-efficient no-save-tokenizer-assets disable-save-tokenizer-assets replication "
     "replication-jump replication-factor verify-integrity eval-iters eval-interval start-eval-at-iter eval-global-batch-size "
     "eval-micro-batch-size skip-train test-mode full-validation multiple-validation-sets validation-set-names "
     "fault-injector-ranks fault-injector-num-ranks fault-injector-fault-types fault-injector-fault-probabilities "
     "fault-injector-fault-delay fault-injector-delay-start-iteration fault-injector-mtti-seconds fault-injector-offset-seconds "
     "fault-injector-seed"},
    {"data and tokenizers",
     "dataloader-type data-path phase-transition-iterations split train-data-path valid-data-path test-data-path data-args-path "
     "per-split-data-args-path per-dataset-sequences-path dataloader-fast-cache-load dataloader-defer-npy-index-mmap "
     "data-cache-path no-mmap-bin-files mock-data encoder-seq-length decoder-seq-length sample-rate mask-prob short-seq-prob "
     "num-workers reset-position-ids dataloader-inter-document-masking eod-mask-loss no-create-attention-mask-in-dataloader "
     "num-dataset-builder-threads object-storage-cache-path mid-level-dataset-surplus allow-ambiguous-pad-tokens fim-data "
     "fim-rate fim-spm-rate fim-split-sample fim-fragment-rate fim-no-prefix fim-prefix-token fim-middle-token fim-suffix-token "
     "fim-pad-token fim-eod-token iterations-to-skip vocab-file merge-file vocab-extra-ids tokenizer-model tokenizer-metadata "
     "tokenizer-special-tokens tiktoken-pattern tiktoken-num-special-tokens tokenizer-sentencepiece-legacy "
     "no-tokenizer-sentencepiece-ignore-extra-whitespaces disable-tokenizer-sentencepiece-ignore-extra-whitespaces "
     "tokenizer-hf-no-use-fast tokenizer-hf-no-include-special-tokens trust-remote-code null-tokenizer-eod-id "
     "null-tokenizer-pad-id chat-template use-gigatoken"},
    {"inference",
     "inference-batch-times-seqlen-threshold max-tokens-to-oom output-bert-embeddings bert-embedder-type cuda-graph-scope "
     "cuda-graph-modules use-legacy-static-engine inference-max-requests inference-max-seq-length inference-dynamic-batching "
     "inference-dynamic-batching-buffer-size-gb inference-dynamic-batching-paused-buffer-size-gb "
     "inference-dynamic-batching-mamba-memory-ratio inference-dynamic-batching-block-size "
     "inference-dynamic-batching-max-requests inference-dynamic-batching-max-tokens inference-dynamic-batching-num-cuda-graphs "
     "inference-dynamic-batching-track-paused-request-events inference-dynamic-batching-track-generated-token-events "
     "decode-only-cuda-graphs inference-cuda-graph-all-prefills inference-cuda-graph-max-tokens "
     "inference-dynamic-batching-unified-memory-level enable-chunked-prefill num-speculative-tokens "
     "inference-dynamic-batching-prefix-caching inference-dynamic-batching-prefix-caching-eviction-policy "
     "inference-dynamic-batching-prefix-caching-coordinator-policy inference-dynamic-batching-prefix-caching-routing-alpha "
     "inference-dynamic-batching-prefix-caching-mamba-gb inference-dynamic-batching-cuda-graph-mixed-prefill-count "
     "inference-dynamic-batching-cuda-graph-sizing-distribution inference-dynamic-batching-sampling-backend "
     "use-same-sampling-seed-across-dp-ranks inference-dynamic-batching-async-sched-mode "
     "inference-dynamic-batching-logprobs-mode inference-logging-step-interval inference-text-gen-server-logging "
     "inference-wandb-logging inference-coordinator-port mamba-inference-conv-states-dtype mamba-inference-ssm-states-dtype "
     "inference-use-synchronous-zmq-collectives inference-disable-ep-consensus inference-shards "
     "rl-offload-optimizer-during-inference rl-inference-logprobs-is-correction rl-inference-tensor-model-parallel-size "
     "rl-inference-pipeline-model-parallel-size rl-inference-expert-model-parallel-size "
     "rl-inference-expert-tensor-model-parallel-size rl-inference-model-unified-memory-level "
     "rl-offload-inference-model-weights-when-idle rl-inference-parsers cache-mla-latents "
     "moe-pad-experts-for-cuda-graph-inference inference-cuda-graph-scope flash-decode symmetric-ar-type "
     "nccl-all-reduce-for-prefill inference-fuse-tp-communication inference-disable-triton-nvls-kernels "
     "inference-grouped-gemm-backend inference-moe-disable-fused-quant-kernels inference-moe-token-dispatcher-type "
     "mlp-chunks-for-prefill inference-rng-tracker"},
    {"other kinds of models and of training, by flags of their own",
     "decoder-num-layers relative-attention-max-distance openai-gelu onnx-safe bert-no-binary-head rl-prompts-per-eval "
     "grpo-prompts-per-step grpo-group-size rl-generation-lag rl-max-inflight-requests rl-submission-granularity "
     "rl-consumption-granularity rl-durable-rollout-bank rl-rollout-bank-dir rl-rollout-bank-max-bytes grpo-iterations "
     "grpo-clamp-eps-lower grpo-clamp-eps-upper grpo-kl-beta grpo-entropy-term-weight grpo-filter-groups-with-same-reward "
     "langrl-env-config rl-default-temperature rl-default-top-p rl-default-top-k rl-kv-cache-management-mode "
     "rl-persist-cuda-graphs rl-partial-rollouts rl-importance-sampling-truncation-coef rl-use-sequence-packing "
     "rl-sequence-packing-max-sequences-per-bin rl-sequence-packing-algo rl-training-cuda-graphs refit-method "
     "rl-verify-model-weights-swap rl-skip-bos-token rl-profile rl-profile-dir warmup mamba-training-ssm-states-dtype "
     "ict-head-size biencoder-projection-dim biencoder-shared-query-context-model ict-load bert-load titles-data-path "
     "query-in-block-prob use-one-sent-docs evidence-data-path retriever-report-topk-accuracies retriever-score-scaling "
     "block-data-path embedding-path indexer-batch-size indexer-log-interval num-classes img-h img-w num-channels patch-dim "
     "classes-fraction data-per-class-fraction no-data-sharding head-lr-mult vision-pretraining vision-pretraining-type "
     "vision-backbone-type swin-backbone-type mask-type mask-factor iter-per-epoch dino-local-img-size dino-local-crops-number "
     "dino-head-hidden-size dino-bottleneck-size dino-freeze-last-layer dino-norm-last-layer dino-warmup-teacher-temp "
     "dino-teacher-temp dino-warmup-teacher-temp-epochs moe-upcycling-granularity kitchen-config-file kitchen-recipe-number "
     "sft-tokenizer-prompt-format logits-save-top-k logits-save-top-p logits-save-top-p-min-k logits-save-dir logits-save-dtype "
     "logits-load-dir logits-load-decode-threads logits-load-prefetch-factor logits-load-msc-prefetch-depth "
     "logits-load-kd-loss-alpha logits-load-ignore-errors mtp-standalone mtp-loss-scaling-factor mtp-use-repeated-layer "
     "mtp-detach-heads mtp-hsm mtp-hybrid-override-pattern qk-clip-alpha dsa-indexer-n-heads dsa-indexer-head-dim "
     "dsa-indexer-topk dsa-indexer-topk-freq dsa-indexer-skip-topk-offset dsa-indexer-loss-coeff dsa-indexer-use-sparse-loss "
     "dsa-kernel-backend dsa-indexer-rope-interleaved no-dsa-indexer-rotate-activation disable-dsa-indexer-rotate-activation "
     "no-dsa-indexer-scoring-relu disable-dsa-indexer-scoring-relu dsa-indexer-k-norm-epsilon dsa-indexer-k-norm-fp32 "
     "linear-conv-kernel-dim linear-key-head-dim linear-value-head-dim linear-num-key-heads linear-num-value-heads "
     "mup-width-mult mup-base-hidden-size mup-embedding-mult mup-output-mult mup-base-head-dim mup-attn-scale-power "
     "mhc-sinkhorn-iterations mhc-init-gating-factor mhc-recompute-layer-num mrope-section mamba-state-dim mamba-head-dim "
     "mamba-num-groups mamba-num-heads gdp-num-householder disable-mamba-mem-eff-path gdp-cutedsl-kernel "
     "gdp-num-chunk-states-to-recompute"},
    {"how and when bytes travel, which moesh plans by itself",
     "tp-comm-overlap-cfg overlap-cpu-optimizer-d2h-h2d no-overlap-p2p-communication overlap-grad-reduce ddp-num-buckets "
     "ddp-bucket-size ddp-pad-buckets-for-high-nccl-busbw ddp-reduce-scatter-with-fp32-accumulation "
     "gtp-remat-reduce-scatter-with-fp32-accumulation ddp-param-name-patterns-for-fp32-local-accumulation "
     "ddp-average-in-collective overlap-param-gather overlap-param-gather-with-optimizer-step no-align-param-gather "
     "megatron-fsdp-version no-use-layer-wise-param-layout use-nccl-ub disable-symmetric-registration gtp-remat-nccl-ub "
     "gtp-expert-remat-nccl-ub fsdp-manual-registration create-all-gather-group no-gradient-reduce-div-fusion "
     "fsdp-double-buffer suggested-communication-unit-size keep-fp8-transpose-cache enable-full-sharding-in-hsdp "
     "torch-fsdp2-no-reshard-after-forward fake-process-group megatron-fsdp-main-params-dtype megatron-fsdp-main-grads-dtype "
     "megatron-fsdp-grad-comm-dtype megatron-fsdp-enable-fine-grained-param-gather megatron-fsdp-max-pool-double-buffer "
     "fsdp-db-use-persist-buf-on-alloc-fail pipeline-model-parallel-comm-backend max-seqlen-per-dp-cp-rank no-initialization "
     "use-cpu-initialization tp-comm-overlap no-tp-comm-bulk-wgrad disable-tp-comm-bulk-wgrad no-tp-comm-bulk-dgrad "
     "disable-tp-comm-bulk-dgrad no-tp-comm-overlap-ag disable-tp-comm-overlap-ag no-tp-comm-overlap-rs "
     "disable-tp-comm-overlap-rs tp-comm-overlap-rs-dgrad no-tp-comm-split-ag disable-tp-comm-split-ag no-tp-comm-split-rs "
     "disable-tp-comm-split-rs tp-comm-bootstrap-backend overlap-moe-expert-parallel-comm delay-wgrad-compute "
     "overlap-dispatch-backward-with-experts-wgrad ep-overlap-early-attn-memory-release use-ring-exchange-p2p "
     "defer-embedding-wgrad-compute wgrad-deferral-limit overlap-p2p-communication-warmup-flush "
     "microbatch-group-size-per-virtual-pipeline-stage attention-backend kitchen-attention-backend "
     "high-priority-a2a-comm-stream moe-shared-expert-overlap moe-enable-deepep moe-flex-dispatcher-backend "
     "moe-permute-fusion-into-hybridep moe-hybridep-pad-uneven-dispatch-inputs gtp-remat-opt-in-modules "
     "moe-flex-dispatcher-num-sms moe-deepep-num-sms moe-hybridep-num-sms moe-hybridep-num-blocks-permute "
     "moe-hybridep-num-blocks-unpermute moe-hybridep-num-sms-preprocessing moe-ncclep-zero-copy moe-dispatch-fwd-dtype "
     "moe-combine-bwd-dtype no-clone-scatter-output-in-embedding disable-clone-scatter-output-in-embedding "
     "batch-invariant-backend distributed-backend distributed-timeout-minutes no-align-grad-reduce disable-align-grad-reduce "
     "local-rank lazy-mpu-init nccl-communicator-config-path use-tp-pp-dp-mapping disable-gloo-process-groups use-sharp "
     "sharp-enabled-group high-priority-stream-groups distributed-timeout-seconds-after-init flight-recorder-dump-path "
     "flight-recorder-trace-buffer-size no-flight-recorder-dump-on-timeout disable-flight-recorder-dump-on-timeout "
     "flight-recorder-include-stack-trace no-flight-recorder-include-only-active disable-flight-recorder-include-only-active "
     "no-flight-recorder-extra-dump-on-exec disable-flight-recorder-extra-dump-on-exec"},
    {"initial values, seeds, loss scaling and other numbers",
     "apply-wd-to-qk-layernorm sgd-momentum muon-momentum muon-no-split-qkv muon-nesterov muon-scale-mode muon-fp32-matmul-prec "
     "muon-coefficient-type muon-num-ns-steps muon-tp-mode muon-use-syrk muon-extra-scale-factor muon-scalar-optimizer "
     "lion-beta1 lion-beta2 no-weight-decay-cond-type init-method-xavier-uniform loss-scale initial-loss-scale min-loss-scale "
     "loss-scale-window hysteresis fp16-lm-cross-entropy glu-linear-offset calculate-per-token-loss init-method-std "
     "embedding-init-method-std init-model-with-meta-device apply-query-key-layer-scaling moe-router-quantile-balancing-ema "
     "moe-router-force-biased moe-token-drop-policy seed te-rng-tracker data-parallel-random-init lr-wsd-decay-style "
     "lr-warmup-init lr-decay-steps lr-warmup-steps override-opt-param-scheduler use-checkpoint-opt-param-scheduler "
     "start-weight-decay end-weight-decay weight-decay-incr-style wd-incr-steps wsd-decay-steps"},
    {"how kernels compute; all are priced as well-tuned ones",
     "te-precision-config-file yarn-correction-range-round-to-int no-yarn-correction-range-round-to-int "
     "no-masked-softmax-fusion no-bias-gelu-fusion no-bias-swiglu-fusion no-bias-dropout-fusion no-rope-fusion use-flash-attn "
     "optimizer-cuda-graph use-torch-optimizer-for-cpu-offload no-pin-cpu-grads no-pin-cpu-params no-persist-layer-norm "
     "no-gradient-accumulation-fusion use-mcore-models attention-softmax-in-fp32 accumulate-allreduce-grads-in-fp32 "
     "output-logit-dtype reuse-grad-buf-for-mxfp8-param-ag mla-down-proj-fusion enable-experimental deterministic-mode "
     "cross-entropy-loss-fusion cross-entropy-fusion-impl cpu-offloading-retain-pinned-cpu-buffers flash-attention-version "
     "rotary-interleaved disable-bf16-reduced-precision-matmul use-fused-weighted-squared-relu fused-residual-rmsnorm "
     "use-transformer-engine-op-fuser fp8-quantizer-factory fp8-margin fp8-interval fp8-amax-history-len fp8-amax-compute-algo "
     "no-fp8-wgrad disable-fp8-wgrad fp8-output-proj num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 "
     "use-kitchen-attention fp4-recipe fp4-quantizer-factory use-grouped-gemm-for-shared-expert "
     "moe-shared-expert-glu-interleave-size moe-enable-routing-replay moe-router-padding-for-quantization "
     "moe-router-padding-for-fp8 use-grouped-gemm-for-dense-mlp moe-grouped-gemm moe-use-grouped-tensor "
     "moe-single-grouped-weight moe-single-grouped-bias moe-permute-fusion moe-router-fusion moe-mlp-glu-interleave-size "
     "enable-cuda-graph cuda-graph-warmup-steps external-cuda-graph cuda-graph-impl batch-invariant-mode use-te-activation-func "
     "mlp-chunks-for-training transformer-impl min-offloaded-tensor-size delay-offload-until-cuda-graph "
     "delta-offload-bytes-across-pp-ranks activation-offload-fraction moe-paged-stash moe-paged-stash-page-size "
     "moe-paged-stash-buffer-size-factor-cuda moe-paged-stash-buffer-size-factor-cpu "
     "fine-grained-offloading-max-inflight-offloads decrease-batch-size-if-needed empty-unused-memory-level "
     "gpu-sniff-test-interval train-sync-interval manual-gc manual-gc-interval no-manual-gc-eval disable-manual-gc-eval "
     "disable-jit-fuser"},
};

constexpr DifferingFlag kDiffering[] = {
    {"mtp-num-layers", "further tokens are not predicted: those layers' parameters, memory and time are missing"},
    {"hybrid-layer-pattern", "layers of other kinds than attention and MLPs are planned as these"},
    {"hybrid-override-pattern", "layers of other kinds than attention and MLPs are planned as these"},
    {"is-hybrid-model", "layers of other kinds than attention and MLPs are planned as these"},
    {"spec", "the layers of the module that it names are not known: those of the other flags are planned"},
    {"experimental-attention-variant", "full attention is planned"},
    {"linear-attention-freq", "full attention is planned in every layer"},
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
    {"attention-output-gate", "attention's result has no gate here"},
    {"qk-clip", "weights of queries and keys are not clipped"},
    {"fp32-residual-connection", "the residual stream is planned in bfloat16: it takes half of the memory"},
    {"apply-residual-connection-post-layernorm", "the residual stream leaves out the norm"},
    {"fp4-format", "products are planned in bfloat16, or as --fp8-format says"},
    {"fp8-param-gather", "weights are gathered in bfloat16, twice the bytes"},
    {"fp4-param-gather", "weights are gathered in bfloat16, four times the bytes"},
    {"first-last-layers-bf16", "all layers are planned in the low precision"},
    {"use-precision-aware-optimizer", "parameters and moments are planned in float32, more than these formats take"},
    {"main-grads-dtype", "grad_dtype= says how gradients are kept"},
    {"main-params-dtype", "weight_dtype= says how parameters are kept"},
    {"exp-avg-dtype", "mu_dtype= says how the first moment is kept"},
    {"exp-avg-sq-dtype", "the second moment is planned in float32"},
    {"optimizer-cpu-offload", "moments are planned in the memory of the device"},
    {"optimizer-offload-fraction", "moments are planned in the memory of the device"},
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
    {"model-parallel-size", "old: give --tensor-model-parallel-size"},
    {"batch-size", "old: give --micro-batch-size"},
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
    "rope-type", "hidden-dropout", "attention-dropout", "moe-layer-freq", "hidden-size", "num-attention-heads", "norm-epsilon", "untie-embeddings-and-output-weights",
    "num-query-groups", "kv-channels", "qk-layernorm", "qk-l2-norm", "q-lora-rank", "kv-lora-rank", "qk-head-dim",
    "qk-pos-emb-head-dim", "v-head-dim", "max-position-embeddings", "no-position-embedding", "rotary-base", "rotary-percent",
    "use-rope-scaling", "rope-scaling-factor", "rotary-seq-len-interpolation-factor", "rotary-scaling-factor", "mscale",
    "mscale-all-dim", "yarn-beta-fast", "yarn-beta-slow", "yarn-original-max-position-embeddings", "ffn-hidden-size",
    "quick-geglu", "squared-relu", "activation-func-clamp-value", "moe-router-topk", "moe-ffn-hidden-size",
    "moe-router-score-function", "moe-router-pre-softmax", "moe-router-bias-update-rate", "moe-router-dtype",
    "moe-router-force-load-balancing", "moe-router-group-topk", "moe-router-load-balancing-type", "moe-aux-loss-coeff",
    "no-rope-freq", "window-size", "window-attn-skip-freq", "padded-vocab-size", "vocab-size", "make-vocab-size-divisible-by",
    "no-pad-vocab-size", "disable-pad-vocab-size", "tokenizer-type",
};

}  // namespace

std::span<const KnownFlags> idle_megatron_flags() { return kIdle; }
std::span<const DifferingFlag> differing_megatron_flags() { return kDiffering; }
std::span<const std::string_view> translated_megatron_flags() { return kTranslated; }

}  // namespace moesh::foreign
