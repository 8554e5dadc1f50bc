#include "store/checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <mutex>
#include <sys/stat.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/whole_file.h"
#include "store/folder.h"
#include "store/hash.h"

namespace moesh::store {
namespace {

constexpr std::int64_t kMostIndex = std::int64_t{1} << 30;
constexpr const char* kNameOne =
    "name a folder that moesh has written a checkpoint to; a run of which none is whole can begin anew under another run_name";

// An error of the system says nothing about the file, which may be intact, so it does not count as damage.
[[noreturn]] void not_read(const std::string& path, int error) {
  fail("the system does not let it be read: " + system_reason(error), path,
       "see to its permissions and its disk and try again, or " + std::string(kTakeAnother));
}

Descriptor open_there(const std::string& path) {
  Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  const bool is_missing = !opened.is_open() && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP);
  if (is_missing) refuse("it cannot be opened: " + system_reason(), path, kTakeAnother);
  if (!opened.is_open()) not_read(path, errno);
  return opened;
}

void read_at(int file, std::byte* to, std::int64_t bytes, std::int64_t offset, const std::string& path) {
  while (bytes > 0) {
    const ssize_t count = ::pread(file, to, static_cast<std::size_t>(bytes), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) not_read(path, errno);
    if (count == 0) refuse(fmt::format("cut short: it cannot be read up to byte {}", offset + bytes), path, kTakeAnother);
    to += count;
    offset += count;
    bytes -= count;
  }
}

Descriptor open_file(const std::string& path, const File& file) {
  Descriptor opened = open_there(path);
  struct stat status {};
  if (::fstat(opened.number(), &status) != 0) not_read(path, errno);
  if (!S_ISREG(status.st_mode) || status.st_size != file.bytes) {
    refuse(fmt::format("{} bytes, index.json says {}", status.st_size, file.bytes), path, kTakeAnother);
  }
  std::vector<std::byte> header(static_cast<std::size_t>(file.header_bytes));
  read_at(opened.number(), header.data(), file.header_bytes, 0, path);
  if (hash_of(header.data(), header.size()) != file.header_hash)
    refuse("its header is damaged: the hash is another one", path, kTakeAnother);
  return opened;
}

}  // namespace

Checkpoint::Checkpoint(std::string folder) : folder_(std::move(folder)) {
  const std::string path = folder_ + "/index.json";
  if (has_index(folder_)) open_there(path);  // tells an index that may not be read from a damaged one
  index_ = parse_index(read_file(path, "the index of a checkpoint", kMostIndex, kNameOne), path);
  for (const File& file : index_.files) files_.push_back(open_file(folder_ + "/" + file.name, file));
}

const Tensor& Checkpoint::tensor(const std::string& name) const {
  const auto found = index_.tensors.find(name);
  if (found == index_.tensors.end()) refuse("the checkpoint has no such tensor", fmt::format("{}: {}", folder_, name), kTakeAnother);
  return found->second;
}

// Copies each block to its targets while it is in the cache, although the hash of the whole chunk is known only at the end.
void Checkpoint::read_chunk(const std::string& name, DType dtype, const Wanted& wanted, const std::vector<Part>& to) {
  const Piece& piece = *wanted.piece;
  const Chunks chunks(piece.block, dtype);
  const std::int64_t begin = piece.offset + chunks.offset(wanted.chunk), bytes = chunks.bytes(wanted.chunk);
  const std::string path = folder_ + "/" + index_.files[piece.file].name;
  thread_local std::vector<std::byte> room;
  Hasher hasher;
  const Chunks blocks(chunks.block(wanted.chunk), dtype, Chunks::kInCache);
  for (std::int64_t i = 0; i < blocks.count(); ++i) {
    room.resize(static_cast<std::size_t>(std::max(Chunks::kInCache, blocks.bytes(i))));
    read_at(files_[piece.file].number(), room.data(), blocks.bytes(i), begin + blocks.offset(i), path);
    hasher.add(room.data(), static_cast<std::size_t>(blocks.bytes(i)));
    const Part from = dense_part(blocks.block(i), dtype, room.data());
    for (const Part& part : to) copy_shared(from, part);
  }
  bytes_read_ += bytes;
  if (hasher.hash() != piece.hashes[static_cast<std::size_t>(wanted.chunk)]) {
    refuse(fmt::format("{} is damaged: the hash of bytes {} to {} is another one", name, begin, begin + bytes), path, kTakeAnother);
  }
}

void Checkpoint::read(const std::string& name, const std::vector<Part>& to, backend::Workers& workers) {
  const Tensor& of = tensor(name);
  for (const Part& part : to) {
    const bool converts = part.dtype != of.dtype && is_floating(part.dtype) && is_floating(of.dtype);
    if (part.dtype != of.dtype && !converts) {
      refuse(fmt::format("it is {}, {} was expected", name_of(of.dtype), name_of(part.dtype)), fmt::format("{}: {}", folder_, name),
             kTakeAnother);
    }
  }
  std::vector<Wanted> wanted;
  for (const Piece& piece : of.pieces) {
    const Chunks chunks(piece.block, of.dtype);
    for (std::int64_t chunk = 0; chunk < chunks.count(); ++chunk) {
      const Block block = chunks.block(chunk);
      const auto shares = [&](const Part& part) { return shared_block(block, part.block).has_value(); };
      if (std::any_of(to.begin(), to.end(), shares)) wanted.push_back({&piece, chunk});
    }
  }
  workers.parallel(static_cast<std::int64_t>(wanted.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) read_chunk(name, of.dtype, wanted[static_cast<std::size_t>(i)], to);
  });
}

std::vector<std::string> Checkpoint::damage(backend::Workers& workers) {
  std::vector<std::string> all;
  for (const auto& [name, of] : index_.tensors) {
    for (const Piece& piece : of.pieces) {
      std::mutex mutex;
      workers.parallel(Chunks(piece.block, of.dtype).count(), 1, [&, &tensor = name, &of = of](std::int64_t begin, std::int64_t end) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          try {
            read_chunk(tensor, of.dtype, {&piece, chunk}, {});
          } catch (const Error& error) {
            const std::lock_guard lock(mutex);
            all.emplace_back(error.what());
          }
        }
      });
    }
  }
  return all;
}

}  // namespace moesh::store
