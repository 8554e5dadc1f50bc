// Compares saving and restoring a state with plain writes and reads of the same number of bytes, in turns.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/system.h"
#include "errors.h"
#include "median.h"
#include "store/checkpoint.h"
#include "store/disk.h"
#include "store/saving.h"
#include "words.h"

namespace moesh::bench {
namespace {

constexpr const char* kHelp = R"(bench_checkpoint [--megabytes=N] [--devices=N] [--rounds=N] [--folder=PATH]

Saves a state of parameters and two moments, each of them in as many shards as there are devices, and restores it: MB/s, beside a file
of as many bytes that is written 1 MiB at a time and synchronized, as `dd bs=1M conv=fsync` does, and read again. Rounds take turns;
figures are medians. Files are dropped from the machine's cache before they are read, where that is allowed (root).

  --megabytes=N  of the state (default 500)
  --devices=N    default 8
  --rounds=N     default 5
  --folder=PATH  where to write (default: where temporary files are)
)";

struct Options {
  std::int64_t megabytes = 500, devices = 8, rounds = 5;
  std::string folder = std::filesystem::temp_directory_path().string();
};

double seconds_of(const auto& act) {
  const auto begin = Clock::now();
  act();
  return seconds_since(begin);
}

// A state of 4 MB matrices, each sharded over all devices. Every third tensor has its second dim first in memory, as stacked layers have.
class State {
 public:
  State(std::int64_t megabytes, std::int64_t devices) : devices_(devices) {
    constexpr std::int64_t kRows = 1024, kColumns = 1024;
    for (std::int64_t i = 0; i < megabytes / 4; ++i) {
      std::vector<float>& values = values_.emplace_back(static_cast<std::size_t>(kRows * kColumns));
      for (std::size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k * 2654435761u + static_cast<std::size_t>(i));
    }
  }

  std::vector<store::Held> held() {
    std::vector<store::Held> all;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const bool is_permuted = i % 3 == 2;
      const Shape shape = is_permuted ? Shape{16, 64, 1024} : Shape{1024, 1024};
      all.push_back({fmt::format("w{:03}", i),
                     {DType::float32, shape, -1, "", {}},
                     parts(values_[i], shape, is_permuted),
                     {store::whole_block(shape)}});
    }
    return all;
  }
  void clear() {
    for (std::vector<float>& values : values_) std::fill(values.begin(), values.end(), 0.0f);
  }
  double first() const { return static_cast<double>(values_[0][5]); }
  std::int64_t bytes() const { return static_cast<std::int64_t>(values_.size() * values_[0].size() * sizeof(float)); }

 private:
  std::vector<store::Part> parts(std::vector<float>& values, const Shape& shape, bool is_permuted) const {
    auto* data = reinterpret_cast<std::byte*>(values.data());
    std::vector<store::Part> made;
    const std::int64_t last = shape.back() / devices_;
    for (std::int64_t device = 0; device < devices_; ++device) {
      store::Block block = store::whole_block(shape);
      block.back() = {device * last, (device + 1) * last};
      store::Part part = store::dense_part(block, DType::float32, data);
      if (is_permuted) part.strides = {last * 4, shape[0] * last * 4, 4};
      made.push_back(std::move(part));
      data += store::elements_of(block) * 4;
    }
    return made;
  }

  std::int64_t devices_;
  std::vector<std::vector<float>> values_;
};

void drop_caches() {
  const Descriptor file(::open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC));
  if (file.is_open() && ::write(file.number(), "3", 1) != 1) return;
}

constexpr std::int64_t kBlock = 1 << 20;

void write_plainly(const std::string& path, std::int64_t bytes) {
  const Descriptor file = store::create_file(path);
  const std::vector<char> block(static_cast<std::size_t>(kBlock), 'x');
  for (std::int64_t at = 0; at < bytes; at += kBlock) store::write_at(file.number(), block.data(), std::min(kBlock, bytes - at), at, path);
  store::sync(file.number(), path);
}

void read_plainly(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<char> block(static_cast<std::size_t>(kBlock));
  while (::read(file.number(), block.data(), block.size()) > 0) {
  }
}

int run(int argc, char** argv) {
  Options options;
  for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
    if (name == "--megabytes") options.megabytes = count_in(name, value);
    else if (name == "--devices") options.devices = count_in(name, value, 1024);
    else if (name == "--rounds") options.rounds = count_in(name, value);
    else if (name == "--folder") options.folder = value;
    else return false;
    return true;
  });
  State state(options.megabytes, options.devices);
  backend::Workers workers(0);
  const std::string folder = fmt::format("{}/bench_checkpoint.{}", options.folder, ::getpid());
  make_folder(folder, "--folder=PATH");
  const std::string plain = folder + "/plain", kept = folder + "/1";
  std::vector<double> write, save, read, restore, write_ratios, read_ratios;
  const double expected = state.first();
  const double megabytes = static_cast<double>(state.bytes()) / 1e6;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    std::filesystem::remove(plain);
    std::filesystem::remove_all(kept);
    write.push_back(megabytes / seconds_of([&] { write_plainly(plain, state.bytes()); }));
    save.push_back(megabytes / seconds_of([&] {
      store::Saving saving(kept, {}, state.held());
      saving.wait();
      if (!saving.error().empty()) fail(saving.error());
    }));
    drop_caches();
    read.push_back(megabytes / seconds_of([&] { read_plainly(plain); }));
    drop_caches();
    state.clear();
    restore.push_back(megabytes / seconds_of([&] {
      store::Checkpoint checkpoint(kept);
      for (const store::Held& held : state.held()) checkpoint.read(held.name, held.parts, workers);
    }));
    if (state.first() != expected) fail("what is restored is something else than what was saved", kept);
    write_ratios.push_back(save.back() / write.back());
    read_ratios.push_back(restore.back() / read.back());
  }
  std::filesystem::remove_all(folder);
  fmt::print("{:.0f} MB of {} devices, MB/s\n", megabytes, options.devices);
  fmt::print("written   plainly {:6.0f}   as a checkpoint {:6.0f}   ratio {:.2f}\n", median(write), median(save), median(write_ratios));
  fmt::print("read      plainly {:6.0f}   as a checkpoint {:6.0f}   ratio {:.2f}\n", median(read), median(restore), median(read_ratios));
  return 0;
}

}  // namespace
}  // namespace moesh::bench

int main(int argc, char** argv) { return moesh::bench::with_errors_told([&] { return moesh::bench::run(argc, argv); }); }
