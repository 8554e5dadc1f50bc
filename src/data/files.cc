#include "data/files.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rounding.h"
#include "base/system.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

constexpr std::size_t kSampled = 64;    // most files whose beginning and end are looked at to tell data apart
constexpr std::int64_t kSample = 4096;  // bytes at either end
constexpr const char* kCheck = "check the path: dataset_path, or eval_dataset_path for evaluation";

using Inode = std::pair<dev_t, ino_t>;

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) refuse("the data cannot be read: " + system_reason(), path, kCheck);
  return status;
}

Descriptor open_to_read(const std::string& path) {
  return Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
}

DataFile file_at(const std::string& path, const struct stat& status) {
  if (!open_to_read(path).is_open()) refuse("the data cannot be read: " + system_reason(), path, kCheck);
  return {path, 0, status.st_size, status.st_dev, status.st_ino};
}

// The entries of a folder and all folders below it, sorted by path.
struct Found {
  std::vector<std::string> files, links;  // links: to files
  std::vector<std::string> left_out;
};

void sort_entry(const std::filesystem::directory_entry& entry, Found& found, std::vector<std::string>& folders) {
  std::error_code error;
  const std::string path = entry.path().string();
  const bool is_link = entry.is_symlink(error);
  const auto type = entry.status(error).type();
  if (entry.path().filename().string().starts_with('.')) {
    found.left_out.push_back(path);
  } else if (type == std::filesystem::file_type::regular) {
    (is_link ? found.links : found.files).push_back(path);
  } else if (type == std::filesystem::file_type::directory && !is_link) {
    folders.push_back(path);
  } else {
    found.left_out.push_back(path);
  }
}

Found find_below(const std::string& top) {
  Found found;
  for (std::vector<std::string> folders{top}; !folders.empty();) {
    const std::string folder = folders.back();
    folders.pop_back();
    std::error_code error;
    std::filesystem::directory_iterator entry(folder, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      sort_entry(*entry, found, folders);
    }
    if (error) refuse("the folder cannot be read: " + error.message(), folder, kCheck);
  }
  for (auto* paths : {&found.files, &found.links, &found.left_out}) std::sort(paths->begin(), paths->end());
  return found;
}

[[noreturn]] void fail_as_changed(const DataFile& file) {
  fail("the file was cut short or replaced while the run read it", file.path, "leave the data alone during a run");
}

// A file may have been cut short, removed or replaced since the run began.
Descriptor open_again(const DataFile& file) {
  Descriptor open = open_to_read(file.path);
  if (!open.is_open()) fail("the data can no longer be read: " + system_reason(), file.path);
  struct stat status {};
  ::fstat(open.number(), &status);
  if (status.st_dev != file.device || status.st_ino != file.inode || status.st_size < file.bytes) fail_as_changed(file);
  return open;
}

void read_from(const DataFile& file, std::int64_t first, std::span<std::byte> bytes) {
  const Descriptor open = open_again(file);
  while (!bytes.empty()) {
    const ssize_t count = ::pread(open.number(), bytes.data(), bytes.size(), first);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("the data can no longer be read: " + system_reason(), file.path);
    if (count == 0) fail_as_changed(file);  // cut short since it was opened
    first += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace

DataFiles::DataFiles(const std::string& path) {
  const struct stat status = status_of(path);
  if (S_ISDIR(status.st_mode)) {
    add_folder(path);
    identify();
    return;
  }
  if (!S_ISREG(status.st_mode)) refuse("a pipe or a device, a file or a folder was expected", path, kCheck);
  if (status.st_size == 0) refuse("the file is empty", path, "name a file with something in it");
  add(file_at(path, status));
  identify();
}

// Links are followed only to files that are not in the folder themselves.
void DataFiles::add_folder(const std::string& path) {
  const Found found = find_below(path);
  std::vector<DataFile> files;
  std::set<Inode> seen;
  for (const auto* paths : {&found.files, &found.links}) {
    for (const std::string& name : *paths) {
      const struct stat status = status_of(name);
      if (status.st_size > 0 && seen.insert({status.st_dev, status.st_ino}).second) {
        files.push_back(file_at(name, status));
      }
    }
  }
  std::sort(files.begin(), files.end(), [](const DataFile& a, const DataFile& b) { return a.path < b.path; });
  for (DataFile& file : files) add(std::move(file));
  if (files_.empty()) refuse("the folder holds no files with something in them", path, kCheck);
  if (found.left_out.empty()) return;
  log_notice(fmt::format(
      "{}: left out are hidden entries, pipes, devices and links that lead to no file: {} in all, {} is one", path,
      found.left_out.size(), found.left_out.front()));
}

void DataFiles::add(DataFile file) {
  file.begin = size_;
  size_ += file.bytes;
  files_.push_back(std::move(file));
}

void DataFiles::identify() {
  for (const DataFile& file : files_) identity_ += fmt::format("{} ", file.bytes);
  store::Hasher samples;
  const std::size_t sampled = std::min(kSampled, files_.size());
  for (std::size_t i = 0; i < sampled; ++i) {
    const DataFile& file = files_[i * files_.size() / sampled];
    const std::int64_t bytes = std::min(kSample, file.bytes);
    for (const std::int64_t begin : {std::int64_t{0}, file.bytes - bytes}) {
      const std::string sample = text(file, begin, begin + bytes);
      samples.add(sample.data(), sample.size());
    }
  }
  identity_ += store::hash_text(samples.hash());
}

void DataFiles::read(std::int64_t first, std::span<std::byte> bytes) const {
  auto file = std::upper_bound(files_.begin(), files_.end(), first,
                               [](std::int64_t at, const DataFile& other) { return at < other.begin; });
  for (--file; !bytes.empty(); ++file) {
    const std::int64_t within = first - file->begin;
    const auto count = std::min(bytes.size(), static_cast<std::size_t>(file->bytes - within));
    read_from(*file, within, bytes.first(count));
    bytes = bytes.subspan(count);
    first += static_cast<std::int64_t>(count);
  }
}

std::string DataFiles::text(const DataFile& file, std::int64_t begin, std::int64_t end) const {
  std::string text(static_cast<std::size_t>(end - begin), '\0');
  read(file.begin + begin, std::as_writable_bytes(std::span(text)));
  return text;
}

FileBlocks::FileBlocks(const std::vector<DataFile>& files, std::int64_t bytes) : files_(files), bytes_(bytes), begins_{0} {
  for (const DataFile& file : files) begins_.push_back(begins_.back() + divide_up(file.bytes, bytes));
}

FileBlock FileBlocks::at(std::int64_t block) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), block);
  const auto number = static_cast<std::size_t>(next - begins_.begin()) - 1;
  const std::int64_t begin = (block - begins_[number]) * bytes_;
  return {&files_[number], begin, std::min(begin + bytes_, files_[number].bytes)};
}

}  // namespace moesh::data
