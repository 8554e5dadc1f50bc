// The loops of the micro-kernels, for vectors of any width. This file is included once per instruction set, inside an unnamed namespace,
// after the definitions of MOESH_INSTRUCTIONS (the compiler's names of the instructions) and of the largest numbers of rows of a block:
// kRows, kRowsThatRun for rows that are read in place, and kRowsOfTwoPanels if the block is two panels wide as well, or 0. Rows that are
// read in place are few, because cache lines of rows a power of two apart fall into one set of the L1 cache, which has eight to twelve
// ways.
#pragma once

#define MOESH_TARGET [[gnu::target(MOESH_INSTRUCTIONS)]]
#define MOESH_INLINE [[gnu::target(MOESH_INSTRUCTIONS), gnu::always_inline]] inline

// The vector operations of blocks, for vectors of BITS bits: for example, _mm512_add_ps has BITS 512 and SUFFIX ps.
#define MOESH_VECTORS(NAME, ELEMENT, VECTOR, BITS, SUFFIX)                                                                    \
  struct NAME {                                                                                                               \
    using Element = ELEMENT;                                                                                                  \
    using Sum = ELEMENT;                                                                                                      \
    using Vector = VECTOR;                                                                                                    \
    static constexpr int kWidth = BITS / 8 / sizeof(Element);                                                                 \
    [[maybe_unused]] static constexpr bool kRounds = false;                                                                   \
    MOESH_INLINE static Vector zero() { return _mm##BITS##_setzero_##SUFFIX(); }                                              \
    MOESH_INLINE static Vector read(const Element* p) { return _mm##BITS##_loadu_##SUFFIX(p); }                               \
    MOESH_INLINE static Vector read_sum(const Sum* p) { return _mm##BITS##_loadu_##SUFFIX(p); }                               \
    MOESH_INLINE static Vector spread(const Element* p) { return _mm##BITS##_set1_##SUFFIX(*p); }                             \
    MOESH_INLINE static Vector multiply_add(Vector a, Vector b, Vector sum) { return _mm##BITS##_fmadd_##SUFFIX(a, b, sum); } \
    MOESH_INLINE static void pack(Element* p, Vector of_b) { _mm##BITS##_storeu_##SUFFIX(p, of_b); }                          \
    MOESH_INLINE static void write(Sum* p, Vector sum, bool add) {                                                            \
      _mm##BITS##_storeu_##SUFFIX(p, add ? _mm##BITS##_add_##SUFFIX(_mm##BITS##_loadu_##SUFFIX(p), sum) : sum);               \
    }                                                                                                                         \
  }

// Largest depth of a chunk, in bytes. A larger one makes blocks faster, as their sums are written once per chunk, but also makes packed
// operands larger.
constexpr std::int64_t kChunkBytes = 2048;

// Lines that the packed rows of a block take.
constexpr int kRowRoom = (kRows + 7) / 8 * 8;

// Packed rows are prefetched 64 steps ahead, because rows that were packed long ago come from memory.
constexpr std::int64_t kStepsAhead = 64;

// A source of the steps of a: rows that are packed step by step.
template <typename Words, int rows>
struct RowsByStep {
  static constexpr int kRowsOfBlock = rows, kTogether = MicroKernels<typename Words::Element>::kTogether;
  const typename Words::Element* a;

  MOESH_INLINE void ask() const {}
  MOESH_INLINE typename Words::Vector of(int row) const { return Words::spread(a + row * kTogether); }
  MOESH_INLINE void next() {
    a += kRowRoom * kTogether;
    __builtin_prefetch(a + kStepsAhead * kRowRoom * kTogether);
  }
};

// A source of the steps of a: contiguous rows that are read in place, at one pitch. Three of them share a base address.
template <typename Words, int rows>
struct RowsThatRun {
  using Element = typename Words::Element;
  static constexpr int kRowsOfBlock = rows, kTogether = MicroKernels<Element>::kTogether, kTriples = (rows + 2) / 3;
  const Element* triples[kTriples];
  std::int64_t pitch, ahead;

  MOESH_INLINE explicit RowsThatRun(const Block<Element>& block) : pitch(block.a_room), ahead(block.a_ahead) {
#pragma GCC unroll 5
    for (int i = 0; i < kTriples; ++i) triples[i] = block.a + 3 * i * pitch;
  }
  MOESH_INLINE void ask() const {
#pragma GCC unroll 16
    for (int i = 0; i < rows; ++i) __builtin_prefetch(triples[i / 3] + i % 3 * pitch + ahead);
  }
  MOESH_INLINE typename Words::Vector of(int row) const { return Words::spread(triples[row / 3] + row % 3 * pitch); }
  MOESH_INLINE void next() {
#pragma GCC unroll 5
    for (int i = 0; i < kTriples; ++i) triples[i] += kTogether;
  }
};

// A source of the steps of a: rows in the layout in which an earlier product computes its panels.
template <typename Words>
struct RowsOfPanels {
  using Element = typename Words::Element;
  static constexpr int kRowsOfBlock = kRows, kTogether = MicroKernels<Element>::kTogether;
  static constexpr std::int64_t kColumns = 2 * Words::kWidth, kSteps = kColumns / kTogether;
  const Element* a;
  const char* ahead;
  std::int64_t ahead_bytes;
  std::int64_t left = kSteps;  // steps left in the panel

  MOESH_INLINE explicit RowsOfPanels(const Block<Element>& block)
      : a(block.a), ahead(reinterpret_cast<const char*>(block.ahead)), ahead_bytes(block.ahead_bytes) {}
  MOESH_INLINE void ask() const {}
  MOESH_INLINE typename Words::Vector of(int row) const { return Words::spread(a + row * kColumns); }
  MOESH_INLINE void next() {
    __builtin_prefetch(ahead, 0, 2);
    ahead += ahead_bytes;
    a += kTogether;
    if (--left > 0) return;
    a += (kRows - 1) * kColumns;
    left = kSteps;
  }
};

// A source of the steps of b: a packed panel, or two of them.
template <typename Words, int vectors>
struct PackedPanel {
  static constexpr int kVectors = vectors;
  const typename Words::Element* b;
  std::int64_t pitch;
  std::int64_t beside;  // from one panel to the other

  MOESH_INLINE explicit PackedPanel(const Block<typename Words::Element>& block)
      : b(block.b), pitch(block.b_pitch), beside(block.b_beside) {}
  MOESH_INLINE void take(typename Words::Vector (&of_b)[vectors]) {
    constexpr int kOfPanel = 2;
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) {
      const std::int64_t place = j % kOfPanel * Words::kWidth * MicroKernels<typename Words::Element>::kTogether;
      of_b[j] = Words::read(b + j / kOfPanel * beside + place);
    }
    b += pitch;
  }
};

// A source of the steps of b: lines that are read in place and packed on the way. The lines that come next are prefetched.
template <typename Words, typename Reader, typename B>
struct PanelToPack {
  static constexpr int kVectors = 2;
  static constexpr std::int64_t kTogether = MicroKernels<typename Words::Element>::kTogether, kLinesAhead = 16;
  const B* b;
  std::int64_t pitch;
  std::int64_t left;  // remaining depth
  typename Words::Element* packed;

  MOESH_INLINE void take(typename Words::Vector (&of_b)[2]) {
    Reader::read(b, pitch, left, of_b);
#pragma GCC unroll 2
    for (std::int64_t line = 0; line < kTogether; ++line) {
#pragma GCC unroll 2
      for (std::int64_t byte = 0; byte < 2 * Words::kWidth * static_cast<std::int64_t>(sizeof(B)); byte += 64) {
        __builtin_prefetch(reinterpret_cast<const char*>(b + (kLinesAhead + line) * pitch) + byte);
        __builtin_prefetch(reinterpret_cast<const char*>(b + 2 * Words::kWidth + line * pitch) + byte, 0, 2);
      }
    }
    Words::pack(packed, of_b[0]);
    Words::pack(packed + Words::kWidth * kTogether, of_b[1]);
    b += kTogether * pitch;
    left -= kTogether;
    packed += 2 * Words::kWidth * kTogether;
  }
};

template <typename Words, typename Rows, typename Panel, int rows, int vectors>
MOESH_INLINE void multiply_step(Rows& of_a, Panel& of_b, typename Words::Vector (&sum)[rows][vectors]) {
  typename Words::Vector columns[vectors];
  of_b.take(columns);
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
    const typename Words::Vector row = of_a.of(i);
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = Words::multiply_add(row, columns[j], sum[i][j]);
  }
  of_a.next();
}

// Prefetches the lines of the result of a block while it is computed: one row after another, because the L1 cache has few fill buffers,
// which the operands need too.
template <int rows, int vectors>
class LinesOfResult {
 public:
  template <typename P>
  MOESH_INLINE explicit LinesOfResult(const Block<P>& block)
      : line_(block.rounded != nullptr ? reinterpret_cast<const char*>(block.rounded) : reinterpret_cast<const char*>(block.c)),
        pitch_(block.c_pitch * static_cast<std::int64_t>(block.rounded != nullptr ? sizeof(bfloat16) : sizeof(*block.c))),
        last_(line_ + (rows - 1) * pitch_) {}

  MOESH_INLINE void ask() {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) __builtin_prefetch(line_ + j * kCacheLineBytes, 1);
    line_ = line_ == last_ ? last_ : line_ + pitch_;
  }

 private:
  const char* line_;
  std::int64_t pitch_;
  const char* last_;
};

template <typename Words, typename Rows, typename Panel>
MOESH_INLINE void multiply_with(const Block<typename Words::Element>& block, Rows of_a, Panel of_b) {
  constexpr int rows = Rows::kRowsOfBlock, vectors = Panel::kVectors;
  constexpr std::int64_t kStepsOfRow = 8;  // steps after which the next row of the result is prefetched
  typename Words::Sum* __restrict c = block.c;
  const std::int64_t c_pitch = block.c_pitch;
  const bool add = block.add;
  typename Words::Vector sum[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) sum[i][j] = Words::zero();
  }
  LinesOfResult<rows, vectors> result(block);
  for (std::int64_t i = block.steps / kStepsOfRow; i < rows; ++i) result.ask();  // rows for which there are too few steps
  std::int64_t step = 0;
  for (; step + kStepsOfRow <= block.steps; step += kStepsOfRow) {
    result.ask();
    of_a.ask();
#pragma GCC unroll 8
    for (int i = 0; i < kStepsOfRow; ++i) multiply_step<Words>(of_a, of_b, sum);
  }
  for (; step < block.steps; ++step) multiply_step<Words>(of_a, of_b, sum);
  if constexpr (Words::kRounds) {
    if (block.rounded != nullptr) {
#pragma GCC unroll 16
      for (int i = 0; i < rows; ++i) Words::round(block.rounded + i * c_pitch, sum[i]);
      return;
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < vectors; ++j) Words::write(c + i * c_pitch + j * Words::kWidth, sum[i][j], add);
  }
}

template <typename Words, int rows, int vectors>
MOESH_TARGET void multiply_block(const Block<typename Words::Element>& block) {
  multiply_with<Words>(block, RowsByStep<Words, rows>{block.a}, PackedPanel<Words, vectors>(block));
}

template <typename Words, int rows, int vectors>
MOESH_TARGET void multiply_runs(const Block<typename Words::Element>& block) {
  multiply_with<Words>(block, RowsThatRun<Words, rows>(block), PackedPanel<Words, vectors>(block));
}

template <typename Words>
MOESH_TARGET void multiply_panels(const Block<typename Words::Element>& block) {
  multiply_with<Words>(block, RowsOfPanels<Words>(block), PackedPanel<Words, 2>(block));
}

template <typename Words, typename Reader, typename B>
MOESH_TARGET void multiply_and_pack(const Block<typename Words::Element>& block, const Unpacked<typename Words::Element, B>& b) {
  multiply_with<Words>(block, RowsByStep<Words, kRows>{block.a}, PanelToPack<Words, Reader, B>{b.lines, b.pitch, b.depth, b.packed});
}

template <typename Words, typename Reader, typename B>
MOESH_TARGET void multiply_runs_and_pack(const Block<typename Words::Element>& block, const Unpacked<typename Words::Element, B>& b) {
  using Panel = PanelToPack<Words, Reader, B>;
  multiply_with<Words>(block, RowsThatRun<Words, kRows>(block), Panel{b.lines, b.pitch, b.depth, b.packed});
}

constexpr std::int64_t kBytesAhead = 16 * 1024, kLineBytesAhead = 256;

// Steps [first, first + count) of a strip of one row. `Reader` reads two vectors of b for a step. `fetches`: b is prefetched, in the order
// in which it lies in memory.
template <typename Words, typename Reader, int count, bool fetches, typename B>
MOESH_TARGET void multiply_steps(const Strip<typename Words::Element, B>& strip, std::int64_t first) {
  using Vector = typename Words::Vector;
  constexpr int kTogether = MicroKernels<typename Words::Element>::kTogether;
  Vector of_a[count];
#pragma GCC unroll 8
  for (int step = 0; step < count; ++step) of_a[step] = Words::spread(strip.a + (first + step) * kRowRoom * kTogether);
  constexpr std::int64_t kBytes = 2 * Words::kWidth * count * kTogether * sizeof(B);
  const B* b = strip.b + first * kTogether * strip.b_pitch;
  const char* ahead = reinterpret_cast<const char*>(b) + kBytesAhead;
  for (std::int64_t j = 0; j < strip.columns; j += 2 * Words::kWidth, b += 2 * Words::kWidth, ahead += kBytes) {
    if constexpr (fetches) {
#pragma GCC unroll 8
      for (std::int64_t byte = 0; byte < kBytes; byte += kCacheLineBytes) __builtin_prefetch(ahead + byte);
    }
    typename Words::Sum* const c = strip.c + j;
    Vector sum[2] = {first == 0 ? Words::zero() : Words::read_sum(c), first == 0 ? Words::zero() : Words::read_sum(c + Words::kWidth)};
    if constexpr (!fetches && kTogether > 1) {  // for float32 the hardware prefetcher does better
#pragma GCC unroll 8
      for (int line = 0; line < count * kTogether; ++line) __builtin_prefetch(b + line * strip.b_pitch + kLineBytesAhead / sizeof(B));
    }
#pragma GCC unroll 8
    for (int step = 0; step < count; ++step) {
      Vector of_b[2];
      Reader::read(b + step * kTogether * strip.b_pitch, strip.b_pitch, strip.depth - (first + step) * kTogether, of_b);
      sum[0] = Words::multiply_add(of_a[step], of_b[0], sum[0]);
      sum[1] = Words::multiply_add(of_a[step], of_b[1], sum[1]);
    }
    Words::write(c, sum[0], false);
    Words::write(c + Words::kWidth, sum[1], false);
  }
}

template <typename Words, typename Reader, typename B>
MOESH_TARGET void multiply_row(const Strip<typename Words::Element, B>& strip) {
  constexpr std::int64_t kTogether = MicroKernels<typename Words::Element>::kTogether;
  // Up to 8 lines of b are read side by side; if they are long, the hardware prefetches them. If short lines directly follow one another,
  // it does not, and a single row would be slower than memory: then 2 lines are read at a time, with software prefetching.
  constexpr std::int64_t kSteps = 8 / kTogether, kFewSteps = 2 / kTogether, kShortBytes = 4096;
  const std::int64_t steps = (strip.depth + kTogether - 1) / kTogether;
  std::int64_t step = 0;
  if (strip.b_pitch == strip.columns && strip.columns * static_cast<std::int64_t>(sizeof(B)) <= kShortBytes) {
    for (; step + kFewSteps <= steps; step += kFewSteps) multiply_steps<Words, Reader, kFewSteps, true>(strip, step);
  }
  for (; step + kSteps <= steps; step += kSteps) multiply_steps<Words, Reader, kSteps, false>(strip, step);
  for (; step < steps; ++step) multiply_steps<Words, Reader, 1, false>(strip, step);
}

// Lines of b that several rows read at a time, side by side. In long lines the hardware prefetches too. If lines are short, the next ones
// are prefetched in the order in which they lie in memory, into the L2 cache: the L1 cache has few fill buffers, for which they would have
// to wait.
constexpr std::int64_t kStripLines = 32, kLongBytes = 3072;
constexpr int kStripRows = std::min(kRows, 8);

// Terms [begin, end) of the chunk, for the group of rows from `first` on.
template <typename Words, typename Reader, int rows, bool are_long, typename B>
MOESH_TARGET void multiply_lines(const Strip<typename Words::Element, B>& strip, std::int64_t first, std::int64_t begin, std::int64_t end,
                                 const B* next) {
  using Vector = typename Words::Vector;
  constexpr std::int64_t kTogether = MicroKernels<typename Words::Element>::kTogether, kColumns = 2 * Words::kWidth;
  [[maybe_unused]] constexpr std::int64_t kAhead = kLineBytesAhead / sizeof(B), kFetch = kColumns * kTogether;
  [[maybe_unused]] std::int64_t fetched = 0;
  for (std::int64_t j = 0; j < strip.columns; j += kColumns) {
    typename Words::Sum* const c = strip.c + first * strip.c_pitch + j;
    Vector sum[rows][2];
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      sum[i][0] = begin == 0 ? Words::zero() : Words::read_sum(c + i * strip.c_pitch);
      sum[i][1] = begin == 0 ? Words::zero() : Words::read_sum(c + i * strip.c_pitch + Words::kWidth);
    }
    const typename Words::Element* a = strip.a + first / strip.group_rows * strip.a_pitch + begin * kRowRoom;
    const B* b = strip.b + begin * strip.b_pitch + j;
    for (std::int64_t p = begin; p < end; p += kTogether, a += kRowRoom * kTogether, b += kTogether * strip.b_pitch) {
      Vector of_b[2];
      Reader::read(b, strip.b_pitch, end - p, of_b);
      if constexpr (are_long) {
#pragma GCC unroll 2
        for (std::int64_t line = 0; line < kTogether; ++line) {
#pragma GCC unroll 2
          for (std::int64_t k = 0; k < kColumns; k += kCacheLine<B>) __builtin_prefetch(b + line * strip.b_pitch + kAhead + k);
        }
      } else {
#pragma GCC unroll 4
        for (std::int64_t k = 0; k < kFetch; k += kCacheLine<B>) __builtin_prefetch(next + fetched + k, 0, 2);
        if ((fetched += kFetch) >= strip.columns) {
          fetched = 0;
          next += strip.b_pitch;
        }
      }
#pragma GCC unroll 8
      for (int i = 0; i < rows; ++i) {
        const Vector of_a = Words::spread(a + i * kTogether);
        sum[i][0] = Words::multiply_add(of_a, of_b[0], sum[i][0]);
        sum[i][1] = Words::multiply_add(of_a, of_b[1], sum[i][1]);
      }
    }
#pragma GCC unroll 8
    for (int i = 0; i < rows; ++i) {
      Words::write(c + i * strip.c_pitch, sum[i][0], false);
      Words::write(c + i * strip.c_pitch + Words::kWidth, sum[i][1], false);
    }
  }
}

template <typename Words, typename Reader, bool are_long, typename B, int... row>
void multiply_rows(const Strip<typename Words::Element, B>& strip, std::integer_sequence<int, row...>) {
  static constexpr decltype(&multiply_lines<Words, Reader, 1, are_long, B>) kOfRows[] = {
      multiply_lines<Words, Reader, row + 1, are_long, B>...};
  for (std::int64_t begin = 0; begin < strip.depth; begin += kStripLines) {
    const std::int64_t end = std::min(begin + kStripLines, strip.depth);
    const B* const next = end < strip.depth ? strip.b + end * strip.b_pitch : strip.next;
    for (std::int64_t first = 0; first < strip.rows; first += strip.group_rows) {
      kOfRows[std::min(strip.group_rows, strip.rows - first) - 1](strip, first, begin, end, next);
    }
  }
}

template <typename Words, typename Reader, typename B>
void multiply_strip(const Strip<typename Words::Element, B>& strip) {
  if (strip.rows == 1) return multiply_row<Words, Reader>(strip);
  const auto rows = std::make_integer_sequence<int, kStripRows>();
  if (strip.columns * static_cast<std::int64_t>(sizeof(B)) >= kLongBytes) multiply_rows<Words, Reader, true>(strip, rows);
  else multiply_rows<Words, Reader, false>(strip, rows);
}

template <typename Words, int vectors, int... row>
KernelsOfRuns<typename Words::Element> all_runs(std::integer_sequence<int, row...>) {
  return {sizeof...(row), {multiply_runs<Words, row + 1, vectors>...}};
}

template <typename Words, int... row>
MicroKernels<typename Words::Element> all_blocks(std::integer_sequence<int, row...>) {
  return {.chunk = kChunkBytes / static_cast<std::int64_t>(sizeof(typename Words::Element)),
          .rows = kRows,
          .columns = 2 * Words::kWidth,
          .row_room = kRowRoom,
          .rounds = Words::kRounds,
          .whole = {multiply_block<Words, row + 1, 2>...},
          .narrow = {multiply_block<Words, row + 1, 1>...},
          .runs = all_runs<Words, 2>(std::make_integer_sequence<int, kRowsThatRun>()),
          .narrow_runs = all_runs<Words, 1>(std::make_integer_sequence<int, kRowsThatRun>()),
          .wide_runs = all_runs<Words, 4>(std::make_integer_sequence<int, kRowsOfTwoPanels>()),
          .of_panels = multiply_panels<Words>};
}

template <typename Words>
MicroKernels<typename Words::Element> all_blocks() {
  return all_blocks<Words>(std::make_integer_sequence<int, kRows>());
}
