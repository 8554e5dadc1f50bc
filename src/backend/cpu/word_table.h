// The table of a vocabulary as GEMMs read it, a unit of words at a time.
#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/cpu/simd.h"
#include "backend/element.h"
#include "backend/kernel.h"

namespace moesh::backend::cpu {

// The elements of the table are T, or T's wide type, which is rounded to T.
template <typename T>
class WordTable {
  using W = Wide<T>;

 public:
  // The table is [words][width] if `by_word`, else [width][words]. `unit` is the number of words at a time.
  WordTable(Isa isa, const View& table, bool by_word, std::int64_t unit)
      : isa_(isa),
        is_wide_(table.dtype != dtype_of<T>()),
        elements_(is_wide_ ? nullptr : table.as<const T>()),
        wide_(is_wide_ ? table.as<const W>() : nullptr),
        by_word_(by_word),
        words_(table.size(by_word ? 0 : 1)),
        width_(table.size(by_word ? 1 : 0)),
        unit_(unit) {}

  // Strides from one word to the next and from one dim to the next.
  std::int64_t word_step() const { return by_word_ ? width_ : 1; }
  std::int64_t dim_step() const { return by_word_ ? 1 : words_; }

  Wide<T> element(std::int64_t word, std::int64_t dim) const {
    const std::int64_t at = word * word_step() + dim * dim_step();
    return load(is_wide_ ? store<T>(wide_[at]) : elements_[at]);
  }

  bool is_wide() const { return is_wide_; }
  const T* unit(std::int64_t unit) const { return elements_ + unit * unit_ * word_step(); }  // only if the table is not wide

  // The words of a unit: in place, or rounded into `room` with the dims in the same order as in the table.
  struct Words {
    const T* data;
    std::int64_t word_step, dim_step;
  };
  Words words(std::int64_t unit, T* room) const {
    if (!is_wide_) return {this->unit(unit), word_step(), dim_step()};
    const Lines lines = lines_of(unit);
    vectorised(isa_, [&]() MOESH_LOOP {
      for (std::int64_t i = 0; i < lines.count; ++i) {
        const W* const from = wide_ + lines.begin + i * lines.pitch;
        for (std::int64_t j = 0; j < lines.length; ++j) room[i * lines.length + j] = store<T>(from[j]);
      }
    });
    return {room, by_word_ ? lines.length : 1, by_word_ ? 1 : lines.length};
  }
  std::int64_t room_of_words() const { return is_wide_ ? unit_ * width_ : 0; }

  // Prefetches one of `shares` shares of a unit into the L1 cache, if there is such a unit.
  void ask_for(std::int64_t unit, std::int64_t share, std::int64_t shares) const {
    if (unit * unit_ >= words_) return;
    const Lines lines = lines_of(unit);
    for (std::int64_t i = share * lines.count / shares; i < (share + 1) * lines.count / shares; ++i) {
      const std::int64_t at = lines.begin + i * lines.pitch;
      if (is_wide_)
        prefetch(wide_ + at, lines.length);
      else
        prefetch(elements_ + at, lines.length);
    }
  }

 private:
  // A unit as lines of contiguous elements.
  struct Lines {
    std::int64_t begin, count, length, pitch;
  };
  Lines lines_of(std::int64_t unit) const {
    const std::int64_t begin = unit * unit_ * word_step(), here = std::min(unit_, words_ - unit * unit_);
    return by_word_ ? Lines{begin, here, width_, width_} : Lines{begin, width_, here, words_};
  }

  Isa isa_;
  bool is_wide_;
  const T* elements_;
  const W* wide_;
  bool by_word_;
  std::int64_t words_, width_, unit_;
};

}  // namespace moesh::backend::cpu
