#!/usr/bin/env bash
# Builds the fuzzers and runs each for a while, one after the other. Findings are in build/fuzz/, and the exit code is then
# not zero.  usage: fuzz/run.sh SECONDS [TARGET...]
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/fuzz
seconds=${1:?usage: fuzz/run.sh SECONDS [TARGET...]}
shift
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=(yaml overrides rules hardware safetensors index hugging_face graph plan tokenizer text completion lines megatron foreign)

# Limits of a run: bytes of input, megabytes of memory, seconds per input.
length() { case $1 in yaml | graph | plan) echo 65536 ;; tokenizer) echo 16384 ;; hardware) echo 8192 ;; *) echo 4096 ;; esac; }
memory=512
slowest=20

words() {
  cat "$root/fuzz/$1.dict"
  case $1 in
    overrides) "$root/fuzz/words.sh" overrides ;;
    safetensors | index | hugging_face | graph | plan | tokenizer | text | completion | lines | megatron | foreign) ;;
    *) "$root/fuzz/words.sh" configs ;;
  esac
}

# Collects the seeds: the configuration files as their readers get them, and the files in fuzz/corpus/ and tests/fuzz_regressions/.
seed() {
  local into=$1 target=$2 file name
  mkdir -p "$into"
  for folder in "$root/fuzz/corpus/$target" "$root/tests/fuzz_regressions/$target"; do
    [ -d "$folder" ] && find "$folder" -type f -exec cp -t "$into" {} +
  done
  case $target in
    yaml) for file in "$root"/configs/*.yml "$root"/configs/*/*.yml; do cp "$file" "$into/${file//\//_}"; done ;;
    overrides) for file in "$root"/configs/models/*.yml; do
      name=$(basename "$file" .yml)
      echo "model_name=$name" > "$into/model_$name"
    done ;;
    hugging_face) for file in "$root"/tests/golden/hf/*/*.json; do cp "$file" "$into/${file//\//_}"; done ;;
    rules) for file in "$root"/configs/rules/*.yml; do cp "$file" "$into/"; done ;;
    graph) for name in llama2-7b mixtral-8x7b deepseek2-16b; do
      "$root/moesh" graph "model_name=$name" > "$into/$name"
      "$root/moesh" graph "model_name=$name" compile_topology=v5p-16 ici_fsdp_parallelism=4 ici_expert_parallelism=2 --partitioned > "$into/$name.step"
    done ;;
    tokenizer) for file in "$root"/tests/golden/tokenizers/*/tokenizer.json; do
      [ "$(stat -c %s "$file")" -lt 16000 ] || continue
      name=$(basename "$(dirname "$file")")
      { echo "Hello, world! na\u00efve 123"; cat "$file"; } > "$into/$name"
    done ;;
    hardware) for file in "$root"/configs/hardware/*.yml; do
      { echo ":8"; sed '/^#/d' "$file"; } > "$into/$(basename "$file")"
    done ;;
  esac
}

# Runs each input that ended a fuzzer again, and shows the end of its output.
explain() {
  local target=$1 found
  for found in "$build/artifacts/$target"-*; do
    [ -e "$found" ] || continue
    echo "fuzz: found $found" >&2
    (cd "$build/empty" && "$build/fuzz/${target}_fuzz" -rss_limit_mb=$memory -timeout=$slowest "$found") 2>&1 | tail -n 60 >&2 || true
  done
}

run_target() {
  local target=$1 corpus=$build/corpus/$1
  seed "$build/seeds/$target" "$target"
  mkdir -p "$corpus" "$build/artifacts" "$build/empty"
  words "$target" > "$build/$target.dict"
  local log=$build/$target.log
  if (cd "$build/empty" && "$build/fuzz/${target}_fuzz" "$corpus" "$build/seeds/$target" -fork=0 -dict="$build/$target.dict" \
    -max_total_time="$seconds" -max_len="$(length "$target")" -rss_limit_mb=$memory -timeout=$slowest -close_fd_mask=3 \
    -print_final_stats=1 -artifact_prefix="$build/artifacts/$target-" > "$log" 2>&1); then
    echo "fuzz: $target: nothing found; $(grep -oE 'cov: [0-9]+ ft: [0-9]+' "$log" | tail -n 1)," \
      "$(grep -oE 'Done [0-9]+ runs in [0-9]+ second' "$log" | tail -n 1)s"
    return 0
  fi
  echo "fuzz: $target: something found, see $log" >&2
  explain "$target"
  return 1
}

export ASAN_OPTIONS=${ASAN_OPTIONS:-quarantine_size_mb=4:malloc_context_size=8:max_malloc_fill_size=0}
export UBSAN_OPTIONS=${UBSAN_OPTIONS:-print_stacktrace=1}
build_targets() {
  cd "$root"
  flock 9  # two of these scripts may run side by side
  cmake --preset fuzz && cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"
}
mkdir -p "$root/build"
(build_targets) 9> "$build.lock" > "$build.log" 2>&1 || {
  tail -n 40 "$build.log" >&2
  echo "fuzz: the build failed; all of its output is in $build.log" >&2
  exit 1
}
code=0
for target in "${targets[@]}"; do run_target "$target" || code=1; done
exit $code
