// Measures how fast a tokenizer encodes a text, lists its pieces and decodes ids, in one thread:
//   bench_tokenizer TOKENIZER FILE
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/whole_file.h"
#include "errors.h"
#include "tokenizer/tokenizer.h"

namespace moesh::bench {
namespace {

constexpr int kTimes = 5;

// The least of several times, in seconds, since other work on the machine makes them longer.
template <typename Work>
double seconds_of(Work work) {
  double least = 1e9;
  for (int i = 0; i < kTimes; ++i) {
    const Clock::time_point begin = Clock::now();
    work();
    least = std::min(least, seconds_since(begin));
  }
  return least;
}

int measure(const std::string& path, const std::string& file) {
  using tokenizer::Special;
  const Clock::time_point begin = Clock::now();
  const auto tokenizer = tokenizer::open(path);
  const double opened = seconds_since(begin);
  const std::string text = read_file(file, "the text", std::int64_t{1} << 31, "bench_tokenizer TOKENIZER FILE");
  const auto megabytes = static_cast<double>(text.size()) / 1e6;
  tokenizer::Ids ids;
  std::size_t pieces = 0, bytes = 0;
  const double encoding = seconds_of([&] { ids = tokenizer->encode(text, Special::left_out); });
  const double telling = seconds_of([&] { pieces = tokenizer->pieces(text, Special::left_out).size(); });
  const double decoding = seconds_of([&] { bytes = tokenizer->decode(ids, Special::added).size(); });
  fmt::print("{}: opened in {:.2f} s; {:.1f} MB, {} ids\n", tokenizer->describe(), opened, megabytes, ids.size());
  fmt::print("  ids     {:7.1f} MB/s  {:6.2f} M tokens/s\n", megabytes / encoding,
             static_cast<double>(ids.size()) / 1e6 / encoding);
  fmt::print("  pieces  {:7.1f} MB/s  {:6.2f} M tokens/s\n", megabytes / telling,
             static_cast<double>(pieces) / 1e6 / telling);
  fmt::print("  text    {:7.1f} MB/s  {} bytes\n", megabytes / decoding, bytes);
  return 0;
}

int run(int argc, char** argv) {
  if (argc == 3) return measure(argv[1], argv[2]);
  fmt::print(stderr, "usage: bench_tokenizer TOKENIZER FILE\n");
  return 2;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::bench::run(argc, argv); });
}
