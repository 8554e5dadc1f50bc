#include "decode/generation.h"

#include <algorithm>
#include <cassert>

#include <fmt/core.h>

#include "backend/element.h"
#include "base/error.h"
#include "base/machine_memory.h"
#include "base/place.h"
#include "base/text.h"
#include "graph/segments.h"

namespace moesh::decode {
namespace {

// Prompts are prefilled by programs of a few lengths: a prompt takes the next longer program, or several runs of the longest.
constexpr std::int64_t kLengths[] = {8, 32, 128, 512};
static_assert(std::end(kLengths)[-1] <= models::DecodeShape{}.most_new_tokens);

// Elements as float32: in place if they are of that type, else converted into `room`.
std::span<const float> floats(const run::Array& array, std::int64_t first, std::int64_t count, std::vector<float>& room) {
  if (array.view.dtype == DType::float32) return {array.as<float>() + first, static_cast<std::size_t>(count)};
  backend::for_floating(array.view.dtype, [&]<typename T>() {
    for (std::int64_t i = 0; i < count; ++i) room.push_back(static_cast<float>(backend::load(array.as<T>()[first + i])));
  });
  return room;
}

// Relative time of a program on this many tokens, in units of reading the weights; the GEMMs of 16 tokens take about as long. The rule
// is not measured, so that the same prompts always take the same path.
double cost(std::int64_t tokens) {
  constexpr double kAsLongAsWeights = 16;
  return 1 + static_cast<double>(tokens) / kAsLongAsWeights;
}

// Refuses a program whose weights and caches need more memory than is free. Devices of a mesh share what they have alike.
const Program& with_room(const Program& program) {
  std::int64_t bytes = 0;
  for (const graph::Node& node : program.graph.nodes) {
    const auto* input = std::get_if<graph::InputOf>(&node.attributes);
    const bool is_kept = node.op == graph::Op::parameter || (input != nullptr && input->kind == graph::InputOf::Kind::state);
    if (is_kept) bytes += graph::bytes_of(program.graph.value(node.results[0]));
  }
  const FreeMemory free = free_memory();
  if (free.where.empty() || bytes < free.bytes) return program;
  refuse(fmt::format("weights and KV cache take {}, {} are free", human_bytes(bytes), human_bytes(free.bytes)), free.where,
         "fewer texts at a time (--batch), a shorter max_target_length, or a smaller model");
}

}  // namespace

const char* finish_reason(Ended ended) {
  switch (ended) {
    case Ended::not_yet: return nullptr;
    case Ended::by_stop: return "stop";
    case Ended::by_length: return "length";
  }
  return nullptr;
}

Generator::Generator(const models::ModelRequest& request, const mesh::Topology& target, std::int64_t slots, backend::Workers& workers)
    : request_(request),
      target_(target),
      slots_(slots),
      workers_(workers),
      decoder_(workers, backend::find_backend(request.settings.text("backend"))),
      program_(make_program(request, {1, slots}, target)),
      step_(decoder_.prepare(with_room(program_))),
      rows_(static_cast<std::size_t>(request.rows)) {}

void Generator::add(Prompt prompt) {
  const auto length = static_cast<std::int64_t>(prompt.ids.size());
  const auto where = fmt::format("prompt {}", prompt.text);
  if (length == 0) refuse("a prompt without any token", where, "give it some text, or a token that begins texts");
  if (length >= slots_) {
    refuse(fmt::format("{}, and {} at most make a text with what follows", counted(length, "token"), slots_), where,
           "a shorter prompt, or a larger max_target_length");
  }
  waiting_.push_back(std::move(prompt));
}

bool Generator::is_idle() const {
  return waiting_.empty() && std::all_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_free(); });
}

void Generator::take_rows() {
  for (Row& row : rows_) {
    if (!row.is_free() || waiting_.empty()) continue;
    row.prompt = std::move(waiting_.front());
    waiting_.pop_front();
    row.ids = row.prompt.ids;
    row.kept = 0;
    ++row.segment;
  }
}

// The next tokens of each row, at most `length` and without the last `left` of the row, then padding. The padding's cache entry is
// overwritten by the row's next token before any token attends to it. Padding attends to no slot but its own: with the segment of slots
// that were never written, it would attend to all of those.
NewTokens Generator::next_tokens(std::int64_t length, std::int64_t left) {
  NewTokens tokens;
  for (Row& row : rows_) {
    const std::int64_t count = std::clamp<std::int64_t>(static_cast<std::int64_t>(row.ids.size()) - row.kept - left, 0, length);
    for (std::int64_t i = 0; i < length; ++i) {
      const bool is_there = i < count;
      tokens.ids.push_back(is_there ? row.ids[static_cast<std::size_t>(row.kept + i)] : 0);
      tokens.positions.push_back(static_cast<std::int32_t>(row.kept + std::min(i, count)));
      tokens.segments.push_back(is_there ? row.segment : graph::kSegmentOfNewPadding);
    }
    row.kept += count;
  }
  return tokens;
}

Ready& Generator::prefill(std::int64_t length) {
  const auto found = prefills_.find(length);
  if (found != prefills_.end()) return found->second;
  const Ready* beside = prefills_.empty() ? &step_ : &prefills_.rbegin()->second;
  return prefills_.emplace(length, decoder_.prepare(make_program(request_, {length, slots_, false}, target_), beside)).first->second;
}

// Whether to prefill. A prefill runs on all rows, so all texts wait for it; without it, each prompt waits one step per token while the
// others advance. The choice is the one with the shorter total wait.
bool Generator::pays(std::int64_t length) const {
  const auto rows = static_cast<std::int64_t>(rows_.size());
  std::int64_t texts = 0, left = 0;
  for (const Row& row : rows_) {
    texts += row.is_free() ? 0 : 1;
    left += row.left();
  }
  return static_cast<double>(texts) * cost(rows * length) < static_cast<double>(left) * cost(rows);
}

// Prefills prompts except for their last token, whose logits are needed and which a step therefore runs.
void Generator::keep_prompts() {
  while (true) {
    std::int64_t most = 0;
    for (const Row& row : rows_) most = std::max(most, row.left());
    if (most <= 0) return;
    std::int64_t length = std::end(kLengths)[-1];
    for (const std::int64_t candidate : kLengths) length = candidate >= most ? std::min(length, candidate) : length;
    length = std::min(length, slots_);
    if (!pays(length)) return;
    const NewTokens tokens = next_tokens(length, 1);
    decoder_.keep(prefill(length), tokens);
  }
}

Ended Generator::end_of(const Row& row, std::int32_t token) const {
  const auto& stops = row.prompt.stop_ids;
  if (std::find(stops.begin(), stops.end(), token) != stops.end()) return Ended::by_stop;
  const auto length = static_cast<std::int64_t>(row.ids.size());
  const bool is_long = length - static_cast<std::int64_t>(row.prompt.ids.size()) >= row.prompt.most_tokens || length >= slots_;
  return is_long ? Ended::by_length : Ended::not_yet;
}

void Generator::step(const std::function<bool(const Continued&)>& see) {
  take_rows();
  keep_prompts();
  const std::vector<std::int32_t> tokens = drawn(decoder_.run(step_, next_tokens(1, 0)));
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    Row& row = rows_[r];
    if (!row.is_kept()) continue;
    row.ids.push_back(tokens[r]);
    const Ended ended = end_of(row, tokens[r]);
    const bool goes_on = see({row.prompt.text, tokens[r], ended});
    if (ended != Ended::not_yet || !goes_on) row.free();
  }
}

// Samples the next token of each row whose tokens are all in the cache.
std::vector<std::int32_t> Generator::drawn(const run::Array& logits) const {
  std::vector<std::int32_t> tokens(rows_.size());
  const std::int64_t vocabulary = logits.view.shape.back();
  workers_.parallel(static_cast<std::int64_t>(rows_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      const Row& row = rows_[at(r)];
      if (!row.is_kept()) continue;
      std::vector<float> room;
      const std::span<const float> scores = floats(logits, r * vocabulary, vocabulary, room);
      tokens[at(r)] = sample(scores, row.ids, row.prompt.sampling, row.prompt.number);
    }
  });
  return tokens;
}

void Generator::drop(std::int64_t text) {
  std::erase_if(waiting_, [&](const Prompt& prompt) { return prompt.text == text; });
  for (Row& row : rows_) {
    if (!row.is_free() && row.prompt.text == text) row.free();
  }
}

}  // namespace moesh::decode
