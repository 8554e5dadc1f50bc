// Runs that keep checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "store/folder.h"
#include "tests/train/train_support.h"

namespace moesh::test {

// A run that keeps its checkpoints in a folder of its own.
class Kept {
 public:
  explicit Kept(std::string request) : request_(std::move(request)) {}

  Outcome run(const std::string& changes = "") const {
    return train_with(words(changes));
  }
  std::string words(const std::string& changes) const {
    return request_ +
           "enable_checkpointing=true log_config=false learning_rate_schedule_steps=8 checkpoint_period=2 run_name=r "
           "base_output_directory=" +
           folder_.path() + " " + changes;
  }
  std::string folder() const { return folder_.path() + "/r/checkpoints"; }
  std::string at(std::int64_t step) const { return store::checkpoint_path(folder(), step); }
  std::string metrics() const { return folder_.path() + "/r/metrics.jsonl"; }
  void remove(std::int64_t step) const { std::filesystem::remove_all(at(step)); }

 private:
  std::string request_;
  TemporaryFolder folder_;
};

inline std::vector<double> losses_in(const std::string& metrics) {
  std::map<std::int64_t, double> by_step;  // the last line of a step counts
  for (const auto& line : metrics_in(metrics)) by_step[line["step"]] = line["loss"];
  std::vector<double> losses;
  for (const auto& [step, loss] : by_step) losses.push_back(loss);
  return losses;
}

}  // namespace moesh::test
