#include "store/folder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/system.h"
#include "base/text.h"
#include "store/disk.h"

namespace moesh::store {
namespace {

using FilePath = std::filesystem::path;

bool is_checkpoint(const FilePath& path) { return std::filesystem::is_regular_file(path / "index.json"); }

}  // namespace

std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const auto step = parse_integer(entry.path().filename().string());
    if (step && *step >= 0 && is_checkpoint(entry.path())) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) { return fmt::format("{}/{}", folder, step); }

std::vector<std::int64_t> keep_newest(const std::string& folder, std::int64_t keep) {
  std::vector<std::int64_t> steps = steps_in(folder);
  steps.resize(static_cast<std::size_t>(std::max<std::int64_t>(0, static_cast<std::int64_t>(steps.size()) - keep)));
  for (const std::int64_t step : steps) remove_folder(checkpoint_path(folder, step));
  return steps;
}

std::vector<std::string> checkpoints_at(const std::string& path) {
  if (is_checkpoint(path)) return {path};
  for (const std::string& folder : {path, path + "/checkpoints"}) {
    std::vector<std::string> found;
    for (const std::int64_t step : steps_in(folder)) found.insert(found.begin(), checkpoint_path(folder, step));
    if (!found.empty()) return found;
  }
  refuse("no checkpoint is there", path, "name a checkpoint (RUN/checkpoints/STEP), or the folder of a run that has some");
}

FolderLock::FolderLock(const std::string& folder) : folder_(-1) {
  make_folder(folder, "choose base_output_directory or run_name, or enable_checkpointing=false");
  folder_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (::flock(folder_.number(), LOCK_EX | LOCK_NB) == 0) return;
  if (errno == EWOULDBLOCK) refuse("another run writes its checkpoints there", folder, "wait for it, or choose another run_name");
  log_notice(fmt::format("{} cannot be locked ({}): no other run may write there", folder, system_reason()));
}

}  // namespace moesh::store
