// Support for tests of plans: the plans of small training steps.
#pragma once

#include <string>

#include "plan/file.h"
#include "tests/config/small_models.h"
#include "train/program.h"
#include "train/saved_plan.h"

namespace moesh::test {

// Two devices by default; keys that are appended take precedence.
inline const std::string kOnTwo =
    kSparse + "compile_topology=cpu-2 per_device_batch_size=1 base_emb_dim=16 vocab_size=32 max_target_length=16 ";

inline plan::SavedPlan planned(const std::string& request) {
  const session::Session opened = session(request);
  return {train::origin_of(opened.loaded.settings, opened.target),
          train::step_program(opened.graph, opened.loaded.settings, {opened.layout, opened.target}).plan};
}

}  // namespace moesh::test
