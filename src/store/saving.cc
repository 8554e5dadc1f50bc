#include "store/saving.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "base/whole_file.h"
#include "store/disk.h"
#include "store/hash.h"
#include "store/safetensors.h"

namespace moesh::store {
namespace {

constexpr std::int64_t kHeaderAlignment = 64;  // of the first tensor's data
constexpr std::chrono::milliseconds kPause(5);  // between two looks for the reports of other processes
constexpr const char* kElsewhere = "choose base_output_directory elsewhere";

// A piece's name in a file: the tensor's own name for all of it, else with the range of each dim, "w[0:8,4:8]".
std::string piece_name(const Held& held, const Block& block) {
  if (elements_of(block) == elements(held.tensor.shape)) return held.name;
  std::string parts;
  for (const sharding::Range& range : block) parts += fmt::format("{}{}:{}", parts.empty() ? "" : ",", range.begin, range.end);
  return fmt::format("{}[{}]", held.name, parts);
}

std::string part_of(const std::string& folder) { return folder + ".part"; }
std::string report_path(const std::string& part, int process) { return fmt::format("{}/part-{:05}.json", part, process); }
std::string failure_path(const std::string& part, int process) { return fmt::format("{}/failed-{:05}", part, process); }

// Reports a failure through a file in the folder that all processes share, where the first process looks for it. If the disk is full, an
// empty file may still be possible.
void tell_failure(const std::string& part, int process, const std::string& what) {
  const std::string path = failure_path(part, process);
  try {
    replace_file(path, what, "");
  } catch (const Error&) {
    // Without the file, the first process stops waiting for this one after its timeout.
    const Descriptor empty(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  }
}

std::string failure_in(const std::string& path) {
  const std::string told = read_file(path, "an error", 1 << 16, "");
  return told.empty() ? "it failed, and has no room to say why" : told;
}

}  // namespace

Saving::Saving(std::string folder, About about, std::vector<Held> tensors, const Share& share, std::string made)
    : folder_(std::move(folder)),
      gives_name_(made.empty()),
      part_(gives_name_ ? part_of(folder_) : std::move(made)),
      share_(share), index_{std::move(about), {}, {}}, tensors_(std::move(tensors)) {
  for (const Held& held : tensors_) is_read_.emplace(held.name, false);
  thread_ = std::thread([this] { run(); });
}

Saving::~Saving() {
  if (thread_.joinable()) thread_.join();
}

void Saving::wait_for(std::string_view tensor) {
  std::unique_lock lock(mutex_);
  const auto found = is_read_.find(tensor);
  if (found == is_read_.end()) return;
  changed_.wait(lock, [&] { return found->second || is_done_; });
}

void Saving::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_done_; });
}

bool Saving::is_done() const {
  const std::lock_guard lock(mutex_);
  return is_done_;
}

void Saving::mark_read(const std::string& tensor) {
  const std::lock_guard lock(mutex_);
  is_read_.find(tensor)->second = true;
  changed_.notify_all();
}

// After a failure, each process removes its own data, and the first one removes the folder once no other process writes there. Returns
// text to append to the error message.
std::string Saving::clean_up(const std::string& error) {
  if (!gives_name_) return "";  // the caller removes it
  if (!index_.files.empty()) ::unlink((part_ + "/" + index_.files.front().name).c_str());
  if (share_.self > 0) {
    tell_failure(part_, share_.self, error);
    return "";
  }
  for (int other = 1; other < share_.count && !have_others_ended_; ++other) {
    while (!is_there(report_path(part_, other)) && !is_there(failure_path(part_, other)) && !is_late() && is_there(part_))
      std::this_thread::sleep_for(kPause);
  }
  std::error_code left;
  std::filesystem::remove_all(part_, left);
  return is_there(part_) ? fmt::format("\n  {} stays until the run is started again: {}", part_, left.message()) : "";
}

void Saving::run() {
  const auto begin = Clock::now();
  std::string error;
  try {
    write_all();
  } catch (const std::exception& caught) {
    error = caught.what();
    error += clean_up(error);
  }
  const std::lock_guard lock(mutex_);
  error_ = error;
  bytes_ = index_.bytes();
  seconds_ = seconds_since(begin);
  is_done_ = true;
  changed_.notify_all();
}

// Determines where each piece will lie in the file, and returns the file's header.
std::string Saving::lay_out() {
  SafetensorsHeader header;
  for (const Held& held : tensors_) {
    for (const Block& block : held.pieces) header.add(piece_name(held, block), {held.tensor.dtype}, sharding::shape_of(block));
  }
  std::string text = header.text(kHeaderAlignment);
  File& file = index_.files.emplace_back();
  file = {fmt::format("data-{:05}.safetensors", share_.self), static_cast<std::int64_t>(text.size()) + header.bytes(),
          static_cast<std::int64_t>(text.size()), hash_of(text)};
  return text;
}

std::uint64_t Saving::write_chunk(const Held& held, const Block& chunk, int file, std::int64_t offset) {
  Hasher hasher;
  const Chunks blocks(chunk, held.tensor.dtype, Chunks::kInCache);
  for (std::int64_t i = 0; i < blocks.count(); ++i) {
    const std::byte* from = gathered(held, blocks.block(i));
    hasher.add(from, static_cast<std::size_t>(blocks.bytes(i)));
    write_at(file, from, blocks.bytes(i), offset + blocks.offset(i), index_.files.back().name);
  }
  begin_writing_out(file, elements_of(chunk) * size_of(held.tensor.dtype), offset);
  return hasher.hash();
}

// The bytes of a block as one contiguous range: in place if they are contiguous there, else as a copy.
const std::byte* Saving::gathered(const Held& held, const Block& block) {
  for (const Part& part : held.parts) {
    if (const std::byte* there = dense_in(part, block)) return there;
  }
  room_.resize(static_cast<std::size_t>(std::max(Chunks::kInCache, elements_of(block) * size_of(held.tensor.dtype))));
  const Part made = dense_part(block, held.tensor.dtype, room_.data());
  for (const Part& part : held.parts) copy_shared(part, made);
  return room_.data();
}

void Saving::write_tensor(Held& held, int file, std::int64_t& offset) {
  Tensor tensor = held.tensor;
  for (const Block& block : held.pieces) {
    if (held.bring) held.parts = {held.bring(block)};
    const Chunks chunks(block, tensor.dtype);
    Piece piece{index_.files.size() - 1, offset, block, {}};
    for (std::int64_t i = 0; i < chunks.count(); ++i) {
      piece.hashes.push_back(write_chunk(held, chunks.block(i), file, offset));
      offset += chunks.bytes(i);
    }
    tensor.pieces.push_back(std::move(piece));
  }
  index_.tensors.emplace(held.name, std::move(tensor));
}

// Renames the finished folder. A folder that has the name already is removed afterwards.
void Saving::give_name() const {
  const std::string old = folder_ + ".old";
  sync_folder(part_);
  const bool replaces = is_there(folder_);
  if (replaces) rename_path(folder_, old);
  rename_path(part_, folder_);
  sync_folder(std::filesystem::absolute(folder_).parent_path());
  if (replaces) remove_folder(old);
}

// Whether the first process has waited for the others for as long as the timeout allows.
bool Saving::is_late() {
  if (!waits_since_) waits_since_ = Clock::now();
  return seconds_since(*waits_since_) > share_.timeout;
}

// The first process waits for the others, and adds their pieces to the index.
void Saving::join_others() {
  for (int other = 1; other < share_.count; ++other) {
    const std::string path = report_path(part_, other), failed = failure_path(part_, other);
    while (!is_there(path)) {
      if (is_there(failed)) fail(fmt::format("process {}: {}", other, failure_in(failed)));
      if (is_late()) {
        fail(fmt::format("process {} has not written its part for {:.0f} s", other, share_.timeout), folder_,
             "look after that process and its disk: all of them need the same folder");
      }
      std::this_thread::sleep_for(kPause);
    }
    Index theirs = parse_index(read_file(path, "the part of a checkpoint", std::int64_t{1} << 30, ""), path, Extent::part);
    const std::size_t files = index_.files.size();
    index_.files.insert(index_.files.end(), theirs.files.begin(), theirs.files.end());
    for (auto& [name, tensor] : theirs.tensors) {
      std::vector<Piece>& ours = index_.tensors.at(name).pieces;  // every process lists all tensors
      for (Piece& piece : tensor.pieces) {
        piece.file += files;
        ours.push_back(std::move(piece));
      }
    }
  }
  have_others_ended_ = true;
  for (int other = 1; other < share_.count; ++other) std::filesystem::remove(report_path(part_, other));
}

void make_part_folder(const std::string& folder) {
  const std::string part = part_of(folder);
  remove_folder(part);
  make_folder(part, kElsewhere);
}

void Saving::write_all() {
  if (share_.count == 1 && gives_name_) make_part_folder(folder_);
  const std::string header = lay_out();
  {
    const std::string path = part_ + "/" + index_.files.back().name;
    const Descriptor file = create_file(path);
    ask_for_room(file.number(), index_.files.back().bytes, path);
    write_at(file.number(), header.data(), static_cast<std::int64_t>(header.size()), 0, path);
    auto offset = static_cast<std::int64_t>(header.size());
    for (Held& held : tensors_) {
      write_tensor(held, file.number(), offset);
      mark_read(held.name);
    }
    sync(file.number(), path);
  }
  if (share_.self > 0) return replace_file(report_path(part_, share_.self), to_json(index_), kElsewhere);
  join_others();
  replace_file(part_ + "/index.json", to_json(index_), kElsewhere);
  if (gives_name_) give_name();
}

}  // namespace moesh::store
