// The loss over a vocabulary, fused with its products and their gradients, for some tokens at a time. A panel of tokens goes over the
// vocabulary unit by unit: scores, exponentials relative to the token's base, and their product with the table, which becomes dx. A token's
// base is its largest score in the first unit, so that exponentials need not be recomputed when a larger score comes: they all have one
// scale, and are kept for the product with x that becomes dtable. The division by their sum is folded into x. If only the loss is wanted,
// exponentials are summed and nothing is kept.
// Shape suffixes: N tokens, V vocabulary, M embedding.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/cache_line.h"
#include "backend/cpu/column_softmax.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/row_loop.h"
#include "backend/cpu/vocab_loss_memory.h"
#include "backend/cpu/vocabulary.h"
#include "backend/cpu/word_table.h"
#include "backend/cpu/workspace.h"
#include "backend/scalar.h"
#include "backend/scratch_list.h"

namespace moesh::backend::cpu {
namespace {

constexpr std::int64_t kUnit = LossShape::kUnit, kGradientPanels = LossShape::kGradientPanels;
constexpr std::int64_t kPanelsOfTask = 8;  // panels of tokens that share a unit while it is in a core's cache

// A score that exceeds its token's base by more than this becomes the new base.
constexpr double kMostAboveBase = 60;

// Copies elements `first` to `first + count` of a column of results [dim][column] to `line`, where they are contiguous.
template <typename W>
void take_column(const W* results, std::int64_t columns, std::int64_t column, std::int64_t first, std::int64_t count, W* line) {
  const W* from = results + first * columns + column;
  for (std::int64_t i = 0; i < count; ++i, from += columns) line[i] = *from;
}
constexpr std::int64_t kLine = 256;  // elements that are copied at a time

bool keeps_slopes(const graph::VocabLossOf& of, bool gives_gradients) { return of.soft_cap > 0 && gives_gradients; }

// What a kernel gives: the loss, with gradients or without; of a piece of the vocabulary, logarithms of sums of exponentials, or gradients
// by those of all pieces.
enum class Part : std::uint8_t { loss, logarithms, gradients };

bool gives_gradients(const KernelCall& call, Part part) {
  return part == Part::gradients || (part == Part::loss && graph::gives_gradients(call.results.size()));
}
const View& table_gradient(const KernelCall& call, Part part) { return call.results[part == Part::gradients ? 1 : 2]; }

template <typename T, typename P>
class VocabLoss {
  using W = Wide<T>;

 public:
  VocabLoss(const KernelCall& call, Isa isa, Part part)
      : call_(call),
        part_(part),
        of_(std::get<graph::VocabLossOf>(call.attributes)),
        isa_(isa),
        x_(call.operands[0].as<T>()),
        table_(isa, call.operands[1], of_.by_token, kUnit),
        targets_(call.operands[2].as<std::int32_t>()),
        segments_(part == Part::logarithms ? nullptr : call.operands[3].as<std::int32_t>()),
        first_word_(call.origins.empty() ? 0 : call.origins[1][of_.by_token ? 0 : 1]),
        dsum_(gives_gradients(call, part) ? load_scalar(call.operands[4]) : 0),
        all_(call.operands[2].count()),
        rounds_gradient_(gives_gradients(call, part) && table_gradient(call, part).dtype != wide_of(table_gradient(call, part).dtype)),
        shape_(all_, call.operands[1].size(of_.by_token ? 0 : 1), call.operands[0].size(2), sizeof(P), gives_gradients(call, part),
               rounds_gradient_, call.workers.threads()),
        shared_(memory(isa, shape_)),
        words_in_place_(of_.by_token && !table_.is_wide() &&
                        shared_.rows.template may_be_in_place<T>(kUnit, shape_.width, table_.word_step())),
        dims_in_place_(!of_.by_token && !table_.is_wide() &&
                       shared_.transposed.template may_be_in_place<T>(shape_.width, kUnit, table_.dim_step())),
        losses_(call, part == Part::loss ? all_ : 0, of_.z_loss) {}

  void run() {
    for (std::int64_t i = 0; part_ == Part::loss && i < all_; ++i) {
      if (counts(i) && !has_target(i)) fail_token("target", targets_[i], i, call_.operands[2], shape_.vocabulary);
    }
    if (all_ == 0 && shape_.has_gradients) {
      const View& dtable = table_gradient(call_, part_);
      std::fill_n(dtable.raw(), dtable.count() * size_of(dtable.dtype), std::byte(0));
    }
    for (first_ = 0; first_ < all_; first_ += shape_.tokens) {
      tokens_ = std::min(shape_.tokens, all_ - first_);
      for_panels([&](std::int64_t p) { begin_panel(p); });
      const std::int64_t units = shape_.all_units();
      for (std::int64_t unit = 0; unit < units; unit += shape_.units) meet_units(unit, std::min(unit + shape_.units, units));
      for_panels([&](std::int64_t p) { end_panel(p); });
      if (shape_.has_gradients) add_table_gradient();
    }
    if (shape_.has_sums) round_sums();
    if (part_ == Part::loss) losses_.give_sums(call_);
  }

 private:
  static LossMemory<T, P> memory(Isa isa, const LossShape& shape) {
    thread_local Scratch mine;
    return {Pieces(mine.of<std::byte>(LossMemory<T, P>(Pieces(nullptr), isa, shape).bytes)), isa, shape};
  }
  OwnLossMemory<T, P> own_memory() const {
    thread_local Scratch mine;
    const std::int64_t rounded = table_.room_of_words();
    const bool has_slopes = keeps_slopes(of_, shape_.has_gradients);
    const std::int64_t bytes = OwnLossMemory<T, P>(Pieces(nullptr), isa_, rounded, has_slopes).bytes;
    return {Pieces(mine.of<std::byte>(bytes)), isa_, rounded, has_slopes};
  }

  bool counts(std::int64_t token) const { return segments_ == nullptr || segments_[token] != 0; }
  std::int64_t target(std::int64_t token) const { return targets_[token] - first_word_; }
  bool has_target(std::int64_t token) const { return target(token) >= 0 && target(token) < shape_.vocabulary; }
  std::int64_t first_of(std::int64_t panel) const { return first_ + panel * shared_.columns; }
  std::int64_t count_of(std::int64_t panel) const { return std::min(shared_.columns, tokens_ - panel * shared_.columns); }

  template <typename Body>
  void for_panels(const Body& body) const {
    call_.workers.parallel(divide_up(tokens_, shared_.columns), 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t p = begin; p < end; ++p) body(p);
    });
  }

  // Tokens that do not count get an infinite base, so that their exponentials are 0.
  void begin_panel(std::int64_t p) const {
    const OffsetList tokens = steps(count_of(p), shape_.width), dims = steps(shape_.width, 1);
    const std::int64_t room = round_up(shape_.width, shared_.kernels.depth_step);
    Packer<P, T>(isa_, shared_.kernels, room)
        .columns({x_ + first_of(p) * shape_.width, tokens, dims, false, true}, {0, count_of(p)}, {0, shape_.width},
                 shared_.x + p * shared_.x_size);
    if (shape_.has_gradients) std::fill_n(shared_.dx + p * shared_.dx_size, shared_.dx_size, W(0));
    for (std::int64_t j = 0; j < shared_.columns; ++j) {
      const bool is_there = j < count_of(p) && counts(first_of(p) + j);
      const std::int64_t column = p * shared_.columns + j;
      shared_.base[column] = is_there ? first_base(first_of(p) + j) : std::numeric_limits<W>::infinity();
      shared_.sum[column] = shared_.target_score[column] = shared_.target_exponential[column] = 0;
      shared_.target_slope[column] = 1;
    }
  }

  // The logarithm of the sum of all exponentials, where it is known.
  W first_base(std::int64_t token) const {
    if (part_ != Part::gradients) return -std::numeric_limits<W>::infinity();
    const std::int64_t pieces = call_.operands[5].shape.back();
    return log_of_all(call_.operands[5].as<const W>() + token * pieces, pieces);
  }

  void meet_units(std::int64_t begin, std::int64_t end) const {
    call_.workers.parallel(end - begin, 1, [&](std::int64_t first, std::int64_t last) {
      const OwnLossMemory<T, P> own = own_memory();
      for (std::int64_t i = first; i < last; ++i) pack_unit(own, begin + i, i);
    });
    const std::int64_t panels = divide_up(tokens_, shared_.columns);
    const std::int64_t of_task = std::clamp<std::int64_t>(divide_up(panels, call_.workers.threads()), 1, kPanelsOfTask);
    call_.workers.parallel(divide_up(panels, of_task), 1, [&](std::int64_t first, std::int64_t last) {
      const OwnLossMemory<T, P> own = own_memory();
      const KernelsInUse in_use(shared_.kernels);
      for (std::int64_t task = first; task < last; ++task) {
        for (std::int64_t unit = begin; unit < end; ++unit) {
          for (std::int64_t p = task * of_task; p < std::min(panels, (task + 1) * of_task); ++p) meet(own, p, unit, unit - begin);
        }
      }
      fence_streaming_stores();
    });
  }

  std::int64_t rows_of(std::int64_t unit) const { return std::min(kUnit, shape_.vocabulary - unit * kUnit); }

  // The words of a unit as rows, and its dims as rows: those that are contiguous may be read from the table in place, unless it must be
  // rounded.
  LeftRows<P> words_of(std::int64_t unit, std::int64_t place) const {
    LeftRows<P> words = shared_.rows_of(place);
    if (words_in_place_) words.set_in_place(table_.unit(unit), table_.word_step());
    return words;
  }
  LeftRows<P> dims_of(std::int64_t unit, std::int64_t place) const {
    LeftRows<P> dims = shared_.transposed_of(place, shape_.width);
    if (dims_in_place_ && rows_of(unit) == kUnit) dims.set_in_place(table_.unit(unit), table_.dim_step());
    return dims;
  }

  void pack_unit(const OwnLossMemory<T, P>& own, std::int64_t unit, std::int64_t place) const {
    const LeftRows<P> as_words = words_of(unit, place), as_dims = dims_of(unit, place);
    const typename WordTable<T>::Words from = table_.words(unit, own.rounded);
    const OffsetList words = steps(rows_of(unit), from.word_step), dims = steps(shape_.width, from.dim_step);
    if (!as_words.are_in_place()) as_words.pack(isa_, Lines<T>{from.data, words, dims, from.word_step == 1, from.dim_step == 1});
    if (!shape_.has_gradients || as_dims.are_in_place()) return;
    as_dims.pack(isa_, Lines<T>{from.data, dims, words, from.dim_step == 1, from.word_step == 1});
  }

  void meet(const OwnLossMemory<T, P>& own, std::int64_t p, std::int64_t unit, std::int64_t place) const {
    const std::int64_t columns = shared_.columns, rows = rows_of(unit), depth = round_up(rows, shared_.kernels.depth_step);
    const bool is_narrow = count_of(p) <= columns / 2;
    table_.ask_for(unit + shape_.units, p, divide_up(tokens_, columns));  // the unit packed next, prefetched while this one is multiplied
    words_of(unit, place).multiply({0, rows}, {0, shape_.width}, shared_.x + p * shared_.x_size, is_narrow, false, own.scores, columns);
    clear_columns(rows, columns, count_of(p), own.scores);
    finish_scores(own, rows * columns);
    with_columns(columns, [&]<int kColumns>() { soften<kColumns>(own, p, unit); });
    if (!shape_.has_gradients) return;
    std::fill(own.exponentials + rows * columns, own.exponentials + depth * columns, P());
    dims_of(unit, place)
        .multiply({0, shape_.width}, {0, depth}, as_panel<P>(isa_, shared_.kernels, own.exponentials, depth, own.packed), is_narrow, true,
                  shared_.dx + p * shared_.dx_size, columns);
  }

  // Turns products into scores.
  void finish_scores(const OwnLossMemory<T, P>& own, std::int64_t count) const {
    const auto scale = static_cast<W>(of_.scale);
    if (of_.soft_cap > 0) return cap_scores(isa_, count, scale, static_cast<W>(of_.soft_cap), own.scores, own.slopes);
    if (scale == 1) return;
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < count; ++i) own.scores[i] *= scale;
    });
  }

  // Turns scores into exponentials, except for the scores of targets: their exponentials are kept separately. Exponentials that gradients
  // are made of are multiplied by the slopes of a soft cap.
  template <int kColumns>
  void soften(const OwnLossMemory<T, P>& own, std::int64_t p, std::int64_t unit) const {
    const std::int64_t rows = rows_of(unit);
    const W* const scores = own.scores;
    W* const base = shared_.base + p * kColumns;
    W largest[kColumns];
    vectorised(isa_, [&]() MOESH_LOOP {
      W most[kColumns];
      for (int j = 0; j < kColumns; ++j) most[j] = scores[j];
      for (std::int64_t v = 1; v < rows; ++v) {
        for (int j = 0; j < kColumns; ++j) most[j] = scores[v * kColumns + j] > most[j] ? scores[v * kColumns + j] : most[j];
      }
      for (int j = 0; j < kColumns; ++j) largest[j] = most[j];
    });
    for (int j = 0; j < kColumns; ++j) {
      if (base[j] == -std::numeric_limits<W>::infinity()) base[j] = base_of(largest[j]);
      else if (largest[j] - base[j] > static_cast<W>(kMostAboveBase)) raise_base(p, j, unit, largest[j]);
    }
    const auto for_targets = [&](const auto& body) {
      for (std::int64_t j = 0; j < count_of(p); ++j) {
        const std::int64_t row = target(first_of(p) + j) - unit * kUnit;
        if (row >= 0 && row < rows) body(j, row * kColumns + j);
      }
    };
    for_targets([&](std::int64_t j, std::int64_t at) {
      shared_.target_score[p * kColumns + j] = scores[at];
      shared_.target_exponential[p * kColumns + j] = exp_of(scores[at] - base[j]);
      shared_.target_slope[p * kColumns + j] = own.slopes == nullptr ? W(1) : own.slopes[at];
    });
    const RowsInBlocks<P> kept = shape_.has_gradients ? shared_.exponentials_of(unit).rows_of(p) : RowsInBlocks<P>{};  // for dtable
    exponentiate<kColumns>(isa_, rows, base, scores, own.exponentials, shared_.sum + p * kColumns, own.slopes, kept);
    for_targets([&](std::int64_t, std::int64_t at) { own.exponentials[at] = P(); });
  }

  // Raises the base of a token; what was computed relative to the lower base is scaled down.
  void raise_base(std::int64_t p, std::int64_t j, std::int64_t unit, W to) const {
    const std::int64_t column = p * shared_.columns + j;
    const W shrink = exp_of(shared_.base[column] - to);
    shared_.base[column] = to;
    shared_.sum[column] *= shrink;
    shared_.target_exponential[column] *= shrink;
    if (!shape_.has_gradients) return;
    W* const dx = shared_.dx + p * shared_.dx_size;
    for (std::int64_t m = 0; m < shape_.width; ++m) dx[m * shared_.columns + j] *= shrink;
    if (j >= count_of(p)) return;
    for (std::int64_t before = 0; before < unit; ++before) {
      const RowsByPanel<P> exponentials = shared_.exponentials_of(before);
      for (std::int64_t v = 0; v < kUnit; ++v) exponentials.at(v, column) = store<P>(load(exponentials.at(v, column)) * shrink);
    }
  }

  void end_panel(std::int64_t p) {
    for (std::int64_t j = 0; j < count_of(p); ++j) end_token(p, j);
  }

  void end_token(std::int64_t p, std::int64_t j) {
    const std::int64_t token = first_of(p) + j, column = p * shared_.columns + j;
    const double base = shared_.base[column];
    if (part_ == Part::gradients) return give_gradients(p, j, base);
    const double log_sum = std::log(static_cast<double>(shared_.sum[column])), log = base + log_sum;
    if (part_ == Part::logarithms) return give_logarithm(token, shared_.target_score[column], static_cast<W>(log));
    if (counts(token)) losses_.set(token, (base - shared_.target_score[column]) + log_sum, log);
    if (shape_.has_gradients) give_gradients(p, j, log);
  }

  // If the device has several pieces of the vocabulary, the first stands for all.
  void give_logarithm(std::int64_t token, W of_target, W log) const {
    const std::int64_t pieces = call_.results[1].shape.back();
    W* const logs = call_.results[1].as<W>() + token * pieces;
    std::fill_n(logs, pieces, -std::numeric_limits<W>::infinity());
    logs[0] = log;
    call_.results[0].as<W>()[token] = of_target;
  }

  // The gradient of a logit is dsum (slope e / sum), minus dsum for the target. So dx and x are scaled by dsum slope / sum, and sum / slope
  // is subtracted from the exponential of the target; this difference is taken before it is rounded. The derivative of a soft cap, at the
  // target too, joins the exponentials, and constant factors of logits the scale of dx and x.
  void give_gradients(std::int64_t p, std::int64_t j, double log) {
    const std::int64_t token = first_of(p) + j, column = p * shared_.columns + j;
    const W* const dx = shared_.dx + p * shared_.dx_size;
    T* const to = call_.results[part_ == Part::gradients ? 0 : 1].as<T>() + token * shape_.width;
    T* const scaled = shared_.scaled_x + column * shape_.width;
    if (!counts(token)) {
      std::fill_n(to, shape_.width, store<T>(W(0)));
      std::fill_n(scaled, shape_.width, store<T>(W(0)));
      return;
    }
    const W sum = part_ == Part::gradients ? W(1) : shared_.sum[column];
    const double slope = slope_at(log);
    const auto share = static_cast<W>(dsum_ * slope / sum * (of_.soft_cap > 0 ? of_.soft_cap * of_.scale : of_.scale));
    const auto of_target = static_cast<W>((shared_.target_exponential[column] - sum / slope) * shared_.target_slope[column]);
    const bool is_here = has_target(token);
    const std::int64_t word = target(token);
    if (is_here) shared_.exponentials_of(word / kUnit).at(word % kUnit, column) = store<P>(of_target);
    const T* const x = x_ + token * shape_.width;
    W line[kLine], words[kLine];
    for (std::int64_t first = 0; first < shape_.width; first += kLine) {
      const std::int64_t count = std::min(kLine, shape_.width - first);
      take_column(dx, shared_.columns, j, first, count, line);
      for (std::int64_t i = 0; i < count; ++i) words[i] = is_here ? table_.element(word, first + i) : W(0);
      vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t i = 0; i < count; ++i) to[first + i] = store<T>(share * (line[i] + of_target * words[i]));
        for (std::int64_t i = 0; i < count; ++i) scaled[first + i] = store<T>(share * load(x[first + i]));
      });
    }
  }

  // Derivative of the loss by the logarithm of the sum; never 0, because it is a divisor.
  double slope_at(double log) const {
    constexpr double kLeast = 1e-20;
    const double slope = 1 + 2 * of_.z_loss * log;
    return std::abs(slope) < kLeast ? kLeast : slope;
  }

  void add_table_gradient() const {
    const std::int64_t panels = divide_up(shape_.width, shared_.columns);
    call_.workers.parallel(panels, 1, [&](std::int64_t begin, std::int64_t end) {
      const OffsetList tokens = steps(tokens_, shape_.width), dims = steps(shape_.width, 1);
      for (std::int64_t panel = begin; panel < end; ++panel) {
        const Range of_panel{panel * shared_.columns, std::min(shape_.width, (panel + 1) * shared_.columns)};
        Packer<P, T>(isa_, shared_.kernels, shared_.depth)
            .columns({shared_.scaled_x, dims, tokens, true, false}, of_panel, {0, tokens_},
                     shared_.packed_x + of_panel.begin * shared_.depth);
      }
    });
    call_.workers.parallel(shape_.all_units(), 1, [&](std::int64_t begin, std::int64_t end) {
      const OwnLossMemory<T, P> own = own_memory();
      const KernelsInUse in_use(shared_.kernels);
      for (std::int64_t unit = begin; unit < end; ++unit) {
        for (std::int64_t first = 0; first < shape_.width; first += kGradientPanels * shared_.columns) add_table_gradient(own, unit, first);
      }
      fence_streaming_stores();
    });
  }

  // Adds the gradient of a unit of the table, for some panels of the width.
  void add_table_gradient(const OwnLossMemory<T, P>& own, std::int64_t unit, std::int64_t first) const {
    const std::int64_t columns = shared_.columns, rows = rows_of(unit);
    const std::int64_t panels = std::min(kGradientPanels, divide_up(shape_.width - first, columns));
    shared_.exponentials_of(unit).multiply(rows, tokens_,
                                           {.count = panels,
                                            .b = shared_.packed_x + first * shared_.depth,
                                            .b_size = columns * shared_.depth,
                                            .c = own.gradients,
                                            .c_size = own.size_of_panel});
    for (std::int64_t i = 0; i < panels; ++i, first += columns) {
      const W* const from = own.gradients + i * own.size_of_panel;
      const std::int64_t count = std::min(columns, shape_.width - first);
      const std::int64_t at = unit * kUnit * table_.word_step() + first * table_.dim_step();
      if (of_.by_token) {
        write_back(from, columns, rows, count, at, table_.word_step());
      } else {
        transpose_lines(isa_, from, columns, rows, count, own.transposed, kUnit);
        write_back(own.transposed, kUnit, count, rows, at, table_.dim_step());
      }
    }
  }

  void write_back(const W* from, std::int64_t from_pitch, std::int64_t lines, std::int64_t width, std::int64_t at,
                  std::int64_t to_pitch) const {
    const View& dtable = table_gradient(call_, part_);
    if (shape_.has_sums) write_back_to(from, from_pitch, lines, width, shared_.table_sums + at, to_pitch);
    else if (rounds_gradient_) write_back_to(from, from_pitch, lines, width, dtable.as<T>() + at, to_pitch);
    else write_back_to(from, from_pitch, lines, width, dtable.as<W>() + at, to_pitch);
  }

  // Adds lines to the gradient of the table, or stores them if it has none yet.
  template <typename To>
  void write_back_to(const W* from, std::int64_t from_pitch, std::int64_t lines, std::int64_t width, To* to, std::int64_t to_pitch) const {
#if defined(__x86_64__)
    if constexpr (std::is_same_v<To, float>) {
      const bool has_lines = reinterpret_cast<std::uintptr_t>(to) % kCacheLineBytes == 0 && to_pitch % 16 == 0 && width % 32 == 0;
      if (first_ == 0 && has_lines && isa_ >= Isa::avx512) return stream_avx512(from, from_pitch, lines, width, to, to_pitch);
    }
#endif
    vectorised(isa_, [&]() MOESH_LOOP {
      with_constant(first_ > 0, [&](auto adds) MOESH_LOOP {
        for (std::int64_t i = 0; i < lines; ++i) {
          To* __restrict line = to + i * to_pitch;
          const W* __restrict source = from + i * from_pitch;
          for (std::int64_t j = 0; j < width; ++j) line[j] = store<To>(adds ? load(line[j]) + source[j] : source[j]);
        }
      });
    });
  }

  void round_sums() const {
    const W* const from = shared_.table_sums;
    T* const to = table_gradient(call_, part_).as<T>();
    call_.workers.parallel(table_gradient(call_, part_).count(), kGrain, [&](std::int64_t begin, std::int64_t end) {
      vectorised(isa_, [&]() MOESH_LOOP {
        for (std::int64_t i = begin; i < end; ++i) to[i] = store<T>(from[i]);
      });
    });
  }

  const KernelCall& call_;
  Part part_;
  const graph::VocabLossOf& of_;
  Isa isa_;
  const T* x_;
  WordTable<T> table_;
  const std::int32_t* targets_;
  const std::int32_t* segments_;  // null if all tokens count
  std::int64_t first_word_;       // of this piece of the vocabulary
  double dsum_;
  std::int64_t all_;  // tokens
  bool rounds_gradient_;
  LossShape shape_;
  LossMemory<T, P> shared_;
  bool words_in_place_, dims_in_place_;
  TokenLosses losses_;
  std::int64_t first_ = 0, tokens_ = 0;  // the tokens that are processed together
};

// Calls body with the type of x, and the type that GEMMs read.
template <typename Body>
void with_types(DType dtype, Isa isa, const Body& body) {
  for_floating(dtype, [&]<typename T>() {
    if constexpr (std::is_same_v<T, bfloat16>) {
      if (packs_bfloat16(isa)) return body.template operator()<T, bfloat16>();
    }
    body.template operator()<T, Wide<T>>();
  });
}

}  // namespace

SharedBytes vocab_loss_bytes(const VocabLossTypes& types, std::int64_t threads) {
  const Isa isa = chosen_isa();
  const Shape& x = types.x;
  const bool gives_gradients = types.of_gradient.has_value();
  SharedBytes bytes;
  with_types(types.dtype, isa, [&]<typename T, typename P>() {
    const bool rounds_gradient = gives_gradients && *types.of_gradient != wide_of(*types.of_gradient);
    const LossShape shape(x[0] * x[1], types.table[types.of.by_token ? 0 : 1], x[2], sizeof(P), gives_gradients, rounds_gradient, threads);
    const std::int64_t rounded = types.of_table == types.dtype ? 0 : kUnit * x[2];
    const bool has_slopes = keeps_slopes(types.of, gives_gradients);
    bytes = {bytes_of_pages(LossMemory<T, P>(Pieces(nullptr), isa, shape).bytes),
             bytes_of_pages(OwnLossMemory<T, P>(Pieces(nullptr), isa, rounded, has_slopes).bytes)};
  });
  return bytes;
}

namespace {

void run_part(const KernelCall& call, Part part) {
  const Isa isa = chosen_isa();
  with_types(call.operands[0].dtype, isa, [&]<typename T, typename P>() { VocabLoss<T, P>(call, isa, part).run(); });
}

}  // namespace

void vocab_loss(const KernelCall& call) { run_part(call, Part::loss); }
void vocab_logs(const KernelCall& call) { run_part(call, Part::logarithms); }
void vocab_loss_grad(const KernelCall& call) { run_part(call, Part::gradients); }

}  // namespace moesh::backend::cpu
