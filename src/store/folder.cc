#include "store/folder.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <optional>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/system.h"
#include "base/text.h"
#include "store/disk.h"

namespace moesh::store {
namespace {

constexpr const char* kSeeTo = "see to its permissions and its disk";
constexpr const char* kOtherFolder = "choose base_output_directory or run_name, or enable_checkpointing=false";

// The names in a folder; none if the folder does not exist.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    names.push_back(entry->path().filename().string());
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    fail("the folder cannot be read: " + error.message(), folder, kSeeTo);
  return names;
}

// The step in a name that consists of a step and the ending (which may be empty); nothing for other names.
std::optional<std::int64_t> step_of(std::string_view name, std::string_view ending) {
  if (!name.ends_with(ending)) return std::nullopt;
  name.remove_suffix(ending.size());
  const auto step = parse_integer(name);
  return step && *step >= 0 ? step : std::nullopt;
}

// Orbax keeps the reference's checkpoints.
bool is_of_orbax(const std::string& path) {
  constexpr std::string_view kNames[] = {"/_CHECKPOINT_METADATA", "/_METADATA", "/items/_METADATA"};
  return std::any_of(std::begin(kNames), std::end(kNames), [&](std::string_view name) { return is_there(path + std::string(name)); });
}

void check_writable(const std::string& folder) {
  const std::string probe = fmt::format("{}/.probe-{}", folder, ::getpid());
  ::unlink(probe.c_str());
  const Descriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
  // A full disk does not end the run: it is reported at each checkpoint, and removing old checkpoints makes room.
  if (!file.is_open() && errno != ENOSPC && errno != EDQUOT)
    fail("no file can be made there: " + system_reason(), folder, fmt::format("{}, {}", kSeeTo, kOtherFolder));
  ::unlink(probe.c_str());
}

}  // namespace

bool has_index(const std::string& checkpoint) {
  const std::string path = checkpoint + "/index.json";
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) return S_ISREG(status.st_mode);
  if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return false;
  fail("the system does not say whether it is there: " + system_reason(), path, kSeeTo);
}

// A dangling symbolic link counts too: the disk that it points to may not be mounted.
std::vector<std::int64_t> steps_in(const std::string& folder) {
  std::vector<std::int64_t> steps;
  for (const std::string& name : names_in(folder)) {
    std::error_code ignored;
    const auto step = step_of(name, "");
    const auto status = std::filesystem::symlink_status(folder + "/" + name, ignored);
    if (step && !std::filesystem::is_regular_file(status)) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::string checkpoint_path(const std::string& folder, std::int64_t step) { return fmt::format("{}/{}", folder, step); }

namespace {

void remove_checkpoint(const std::string& path) {
  const std::string gone = path + ".part";
  remove_folder(gone);      // left by a process that died
  rename_path(path, gone);  // so that a half removed checkpoint is not taken for a damaged one
  remove_folder(gone);
}

// One rename, so that a checkpoint is whole in one place or in the other if the process dies. One that is there by its name stays.
void move_checkpoint(const std::string& path, const std::string& folder, std::int64_t step) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) fail("the folder cannot be made: " + error.message(), folder, "name another checkpoint_todelete_subdir");
  std::string moved = checkpoint_path(folder, step);
  while (std::filesystem::exists(std::filesystem::symlink_status(moved))) moved += "+";
  rename_path(path, moved);
  sync_folder(folder);
}

}  // namespace

std::vector<std::int64_t> keep_newest(const std::string& folder, std::int64_t keep, const std::string& aside, const Counts& counts) {
  std::vector<std::int64_t> steps = steps_in(folder);
  std::erase_if(steps, [&](std::int64_t step) { return !has_index(checkpoint_path(folder, step)); });
  std::int64_t kept = 0;
  while (kept < keep && !steps.empty()) {
    if (!counts || counts(checkpoint_path(folder, steps.back()))) ++kept;
    steps.pop_back();
  }
  for (const std::int64_t step : steps) {
    const std::string path = checkpoint_path(folder, step);
    if (aside.empty()) remove_checkpoint(path);
    else move_checkpoint(path, folder + "/" + aside, step);
  }
  return steps;
}

std::string set_aside(const std::string& path) {
  std::string aside = path + local_time(".aside-%Y%m%d-%H%M%S");
  while (std::filesystem::exists(std::filesystem::symlink_status(aside))) aside += "+";
  rename_path(path, aside);
  return aside;
}

void clear_leftovers(const std::string& folder) {
  for (const std::string& name : names_in(folder)) {
    const std::string path = folder + "/" + name;
    if (!is_folder(path) || std::filesystem::is_symlink(path)) continue;
    if (step_of(name, ".part")) {
      try {
        remove_folder(path);
      } catch (const Error& error) {
        log_notice(fmt::format("what a run that died has left behind stays: {}", error.what()));
      }
    }
    const auto replaced = step_of(name, ".old");
    if (!replaced) continue;
    const std::string own = checkpoint_path(folder, *replaced);
    if (!has_index(path)) {
      remove_folder(path);
    } else if (!std::filesystem::exists(std::filesystem::symlink_status(own))) {
      rename_path(path, own);
      log_notice(fmt::format("{} was about to be replaced when a run died: it is {} again", path, own));
    } else {
      log_notice(fmt::format("{} is an earlier checkpoint of a step that was saved again: it is {} now", path, set_aside(path)));
    }
  }
}

std::vector<std::string> checkpoints_at(const std::string& path) {
  if (has_index(path)) return {path};
  // MaxText's commands name the folder of the state in a checkpoint: RUN/checkpoints/STEP/items.
  const std::filesystem::path named(path.ends_with('/') ? path.substr(0, path.size() - 1) : path);
  if (named.filename() == "items" && has_index(named.parent_path().string())) return {named.parent_path().string()};
  const std::string of_run = checkpoints_of_run(path), &folder = is_folder(of_run) ? of_run : path;
  std::vector<std::string> found;
  for (const std::int64_t step : steps_in(folder)) found.insert(found.begin(), checkpoint_path(folder, step));
  if (const std::string& newest = found.empty() ? path : found.front(); is_of_orbax(newest) && !has_index(newest))
    refuse("a checkpoint of Orbax, which moesh does not read", newest, "export it to a Hugging Face folder, whose weights it reads");
  if (!found.empty()) return found;
  refuse("no checkpoint is there", path, "name a checkpoint (RUN/checkpoints/STEP), or the folder of a run that has some");
}

FolderLock::FolderLock(const std::string& folder) : folder_(-1) {
  make_folder(folder, kOtherFolder);
  folder_ = Descriptor(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.is_open()) fail("its checkpoints cannot be listed: " + system_reason(), folder, fmt::format("{}, {}", kSeeTo, kOtherFolder));
  if (::flock(folder_.number(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) refuse("another run writes its checkpoints there", folder, "wait for it, or choose another run_name");
    log_notice(fmt::format("{} cannot be locked ({}): no other run may write there", folder, system_reason()));
  }
  check_writable(folder);
}

}  // namespace moesh::store
