#include "train/run_folder.h"

#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/system.h"
#include "base/text.h"

namespace moesh::train {
namespace {

using Path = std::filesystem::path;

constexpr const char* kInstead = "moesh_output";
constexpr const char* kFolderFix = "choose base_output_directory or metrics_file";

Path base_folder(const config::Settings& settings) {
  const std::string& base = settings.text("base_output_directory");
  if (base.empty()) return kInstead;
  if (base.find("://") == std::string::npos) return base;
  log_notice(fmt::format("{} cannot be written from here; {} is used", base, kInstead));
  return kInstead;
}

// A name may contain folders, but must neither lead out of the base folder nor be the base folder itself.
Path given_name(const config::Settings& settings) {
  const std::string& name = settings.text("run_name");
  const Path normal = Path(name).lexically_normal();
  if (normal.is_absolute() || *normal.begin() == ".." || *normal.begin() == ".") {
    refuse(fmt::format("run_name={} is no folder below base_output_directory", shorten(name, 80)),
           settings.origin("run_name").where, "a plain name, and where it lies in base_output_directory");
  }
  return normal;
}

std::string name_of_date(const config::Settings& settings) {
  return Path(settings.text("model_name")).stem().string() + local_time("_%Y-%m-%d-%H-%M-%S");
}

// Of two runs in the same second, the later one takes the next name.
std::string make_new(const Path& base, const std::string& name) {
  make_folder(base, kFolderFix);
  return make_new_folder([&](int i) { return (base / (i == 1 ? name : fmt::format("{}-{}", name, i))).string(); }, kFolderFix);
}

}  // namespace

std::string named_run_folder(const config::Settings& settings) { return (base_folder(settings) / given_name(settings)).string(); }

std::string make_run_folder(const config::Settings& settings) {
  if (settings.text("run_name").empty()) return make_new(base_folder(settings), name_of_date(settings));
  const std::string folder = named_run_folder(settings);
  make_folder(folder, kFolderFix);
  return folder;
}

}  // namespace moesh::train
