#include "measure/rates.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <new>

#include "backend/cpu/gemm.h"
#include "backend/cpu/micro_kernel.h"
#include "base/clock.h"
#include "base/pages.h"

namespace moesh::measure {
namespace {

using backend::Workers;
using backend::cpu::Block;
using backend::cpu::Isa;
using backend::cpu::Matrices;
using backend::cpu::MicroKernels;

constexpr int kTries = 3;

template <typename Work>
double best_seconds(const Work& work) {
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const auto begin = Clock::now();
    work();
    best = std::min(best, seconds_since(begin));
  }
  return best;
}

template <typename Work>
void on_each_thread(Workers& workers, const Work& work) {
  workers.parallel(workers.threads(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread) work();
  });
}

// Elements at the start of a cache line, because tiles elsewhere read twice as many lines. They are not zeros, which take less power and
// therefore less time.
template <typename T>
class Elements {
 public:
  explicit Elements(std::int64_t count) : pages_(take_pages(count * static_cast<std::int64_t>(sizeof(T)))) {
    if (pages_ == nullptr) throw std::bad_alloc();
    for (std::int64_t i = 0; i < count; ++i) {
      data()[i] = backend::store<T>(static_cast<backend::Wide<T>>(0.37 * static_cast<double>(i % 29) - 5));
    }
  }
  T* data() const { return reinterpret_cast<T*>(pages_.get()); }

 private:
  std::shared_ptr<std::byte> pages_;
};

// One register block, computed over and over with the micro-kernel of the instruction set. Steps of tile kernels are long, so they get
// fewer of them, which keeps the operands in the L1 cache.
template <typename P>
double register_rate(Workers& workers, const MicroKernels<P>& kernels) {
  constexpr std::int64_t kSteps = 128, kTimes = 20000;
  const std::int64_t depth = kSteps * kernels.depth_step / (kernels.depth_step > 2 ? 16 : 1);
  const double seconds = best_seconds([&] {
    on_each_thread(workers, [&] {
      const Elements<P> a(kernels.block_lines(kernels.rows) * depth), b(kernels.columns * depth);
      const Elements<backend::Wide<P>> c(kernels.rows * kernels.columns);
      const Block<P> block{.steps = depth / kernels.depth_step,
                           .a = a.data(),
                           .a_room = depth,
                           .b = b.data(),
                           .b_pitch = kernels.columns * MicroKernels<P>::kTogether,
                           .c = c.data(),
                           .c_pitch = kernels.columns};
      if (kernels.begin != nullptr) kernels.begin();
      for (std::int64_t i = 0; i < kTimes; ++i) kernels.find(false, kernels.rows)(block);
      if (kernels.end != nullptr) kernels.end();
    });
  });
  const auto flops = static_cast<double>(2 * kernels.rows * kernels.columns * depth * kTimes * workers.threads());
  return flops / seconds;
}

template <typename T>
double large_rate(Workers& workers, Isa isa) {
  constexpr std::int64_t kSide = 2048;
  const Elements<T> a(kSide * kSide), b(kSide * kSide), c(kSide * kSide);
  const auto zero = backend::cpu::steps(1, 0), lines = backend::cpu::steps(kSide, kSide), neighbours = backend::cpu::steps(kSide, 1);
  const double seconds = best_seconds([&] {
    backend::cpu::multiply(&workers, isa, Matrices<const T>{a.data(), zero, lines, neighbours},
                           Matrices<const T>{b.data(), zero, lines, neighbours}, Matrices<T>{c.data(), zero, lines, neighbours});
  });
  return 2.0 * kSide * kSide * kSide / seconds;
}

double stream_rate(Workers& workers) {
  constexpr std::int64_t kBytes = 256 << 20, kPart = 1 << 20;
  const auto from = take_pages(kBytes), to = take_pages(kBytes);
  std::memset(from.get(), 1, kBytes);
  const double seconds = best_seconds([&] {
    workers.parallel(kBytes / kPart, 1, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to.get() + begin * kPart, from.get() + begin * kPart, static_cast<std::size_t>((end - begin) * kPart));
    });
  });
  return 2.0 * kBytes / seconds;
}

}  // namespace

MachineRates measure_rates(Workers& workers) {
  const Isa isa = backend::cpu::chosen_isa();
  MachineRates rates;
  rates.float32 = {register_rate(workers, backend::cpu::micro_kernels<float>(isa)), large_rate<float>(workers, isa)};
  rates.bfloat16 = {
      backend::cpu::packs_bfloat16(isa) ? register_rate(workers, backend::cpu::micro_kernels<bfloat16>(isa)) : rates.float32.registers,
      large_rate<bfloat16>(workers, isa)};
  rates.stream = stream_rate(workers);
  return rates;
}

}  // namespace moesh::measure
