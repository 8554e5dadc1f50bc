#include "base/file_lines.h"

#include <algorithm>
#include <cerrno>

#include <fmt/core.h>

#include "base/error.h"
#include "base/system.h"
#include "base/whole_file.h"

namespace moesh {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 18;

}  // namespace

FileLines::FileLines(const std::string& path, const std::string& what, const std::string& fix, std::size_t longest)
    : path_(path), what_(what), fix_(fix), longest_(longest), file_(open_to_read(path, what, fix)) {}

bool FileLines::fill() {
  block_.resize(kBlock);
  at_ = 0;
  ssize_t count = 0;
  do count = ::pread(file_.number(), block_.data(), kBlock, place_);
  while (count < 0 && errno == EINTR);
  block_.resize(static_cast<std::size_t>(std::max<ssize_t>(0, count)));
  if (count < 0) fail(fmt::format("{} cannot be read: {}", what_, system_reason()), path_, fix_);
  place_ += count;
  return count > 0;
}

bool FileLines::next(Line& line) {
  if (at_ == block_.size() && !fill()) return false;
  line.text.clear();
  line.begin = place_ - static_cast<std::int64_t>(block_.size() - at_);
  line.is_cut = false;
  do {
    const std::size_t end = std::min(block_.find('\n', at_), block_.size());
    const std::size_t kept = std::min(end - at_, longest_ - line.text.size());
    line.text.append(block_, at_, kept);
    line.is_cut = line.is_cut || kept < end - at_;
    at_ = end;
  } while (at_ == block_.size() && fill());
  line.has_end = at_ < block_.size();
  if (line.has_end) ++at_;
  return true;
}

void FileLines::go_to(std::int64_t begin) {
  const std::int64_t first = place_ - static_cast<std::int64_t>(block_.size());
  if (begin >= first && begin < place_) {
    at_ = static_cast<std::size_t>(begin - first);
    return;
  }
  block_.clear();
  at_ = 0;
  place_ = begin;
}

}  // namespace moesh
