// Restores what a run starts from, and saves its checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/workers.h"
#include "config/settings.h"
#include "store/folder.h"
#include "store/saving.h"
#include "train/batches.h"
#include "train/company.h"
#include "train/trainer.h"

namespace moesh::train {

struct Start {
  std::int64_t step = 0;   // first step to run
  bool has_parameters = false;
  bool goes_on = false;    // whether it resumes from a checkpoint of the same run
  std::string words;       // where the parameters came from; empty if nothing was read
};

class Checkpoints {
 public:
  // `run_folder`: the folder of a run that keeps checkpoints, else empty. `from`: the step of the checkpoint to resume from, if it
  // is not the newest.
  Checkpoints(const config::Settings& settings, const std::string& run_folder, std::optional<std::int64_t> from,
              const Company& company = {});

  // Restores the run's own newest undamaged checkpoint, else load_full_state_path, else load_parameters_path, else nothing.
  Start start(Trainer& trainer, Batches& batches, backend::Workers& workers);

  // A function to call before each instruction of a step: it waits if the instruction changes state that is still to be saved. Null
  // if nothing is being saved.
  std::function<bool(const plan::Instruction&)> guard(const Trainer& trainer);

  // After a step: saves a checkpoint if one is due. Returns a line on what was saved since the last call, which is mostly empty.
  std::string after_step(const Trainer& trainer, const Batches& batches);
  // After the last step: saves a checkpoint if one is due, and waits until all is on the disk. Returns lines, each with its newline.
  std::string finish(const Trainer& trainer, const Batches& batches);

  double waited() const { return waited_; }  // seconds that steps and the end of the run waited for the disk
  bool has_failed() const { return has_failed_; }  // the last checkpoint that was due could not be saved

 private:
  // What a run begins with, and the paths where it is, the newest first.
  struct Source {
    enum class Kind { nothing, own, full_state, parameters };
    Kind kind = Kind::nothing;
    std::vector<std::string> paths;
  };
  Source source() const;
  Start start_with(const std::string& hugging_face, Trainer& trainer, backend::Workers& workers) const;
  void say_what_changed(const store::About& then) const;
  bool is_due(std::int64_t step, bool is_last) const;
  std::vector<std::string> own() const;
  bool make_folder(std::int64_t step);
  void set_aside_after(std::int64_t step) const;
  std::string save_if_due(const Trainer& trainer, const Batches& batches, bool is_last);
  std::string collect();
  std::string aside() const;
  void make_room(std::int64_t bytes) const;
  void remove_older(std::int64_t coming) const;
  template <typename Wait>
  void wait(const Wait& wait);

  const config::Settings& settings_;
  std::string folder_;
  std::optional<std::int64_t> from_;
  Company company_;
  std::optional<store::FolderLock> lock_;
  std::optional<std::int64_t> newest_;     // step of the newest checkpoint on the disk
  std::optional<std::int64_t> asked_for_;  // step of the last checkpoint that was due
  std::unique_ptr<store::Saving> saving_;
  double waited_ = 0;
  bool has_failed_ = false;
};

}  // namespace moesh::train
