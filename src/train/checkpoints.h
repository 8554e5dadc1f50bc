// What a run starts from, and the checkpoints that it leaves.
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
  std::int64_t step = 0;   // the first that is to be done
  bool has_parameters = false;
  std::string words;       // where they came from; none: nothing was read
};

class Checkpoints {
 public:
  // `run_folder`: of a run that is to keep any, else empty. `from`: the step of the one to go on from, where it is not the newest.
  Checkpoints(const config::Settings& settings, const std::string& run_folder, std::optional<std::int64_t> from,
              const Company& company = {});

  // The run's own newest checkpoint that is whole, else load_full_state_path, else load_parameters_path, else nothing.
  Start start(Trainer& trainer, Batches& batches, backend::Workers& workers);

  // To be asked before each instruction of a step: waits where it changes what is still to be saved. Null when nothing is being saved.
  std::function<bool(const plan::Instruction&)> guard(const Trainer& trainer);

  // After a step: saves when it is due. What was saved since the last call, as a line; none mostly.
  std::string after_step(const Trainer& trainer, const Batches& batches);
  // After the last: saves it, and waits until all is on the disk. Lines, each with its end.
  std::string finish(const Trainer& trainer, const Batches& batches);

  double waited() const { return waited_; }  // seconds that steps and the end of the run waited for the disk
  bool has_failed() const { return has_failed_; }  // the last that was to be saved is not there

 private:
  // What a run begins with, and where that is: the newest first.
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
  bool make_room(std::int64_t step);
  void set_aside_after(std::int64_t step) const;
  std::string save_if_due(const Trainer& trainer, const Batches& batches, bool is_last);
  std::string collect();
  void remove_older() const;
  template <typename Wait>
  void wait(const Wait& wait);

  const config::Settings& settings_;
  std::string folder_;
  std::optional<std::int64_t> from_;
  Company company_;
  std::optional<store::FolderLock> lock_;
  std::optional<std::int64_t> newest_;     // the step of the one that is there
  std::optional<std::int64_t> asked_for_;  // the last that was to be saved
  std::unique_ptr<store::Saving> saving_;
  double waited_ = 0;
  bool has_failed_ = false;
};

}  // namespace moesh::train
