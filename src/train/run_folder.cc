#include "train/run_folder.h"

#include <ctime>

#include <fmt/core.h>

#include "base/log.h"

namespace moesh::train {

std::string run_folder(const config::Settings& settings) {
  std::string base = settings.text("base_output_directory");
  const bool remote = base.find("://") != std::string::npos;
  if (remote) log_notice(fmt::format("{} cannot be written from here; moesh_output is used", base));
  if (base.empty() || remote) base = "moesh_output";
  std::string name = settings.text("run_name");
  if (name.empty()) {
    char stamp[32];
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    std::strftime(stamp, sizeof stamp, "%Y-%m-%d-%H-%M", localtime_r(&now, &local));
    name = settings.text("model_name") + "_" + stamp;
  }
  return base + "/" + name;
}

}  // namespace moesh::train
