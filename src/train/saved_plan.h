// What the plan of a training step is saved with, and the check against a plan that was saved.
#pragma once

#include "config/settings.h"
#include "mesh/topology.h"
#include "plan/file.h"
#include "train/program.h"

namespace moesh::train {

// What a plan is saved with: the machine, and the settings that are not at their defaults.
plan::Origin origin_of(const config::Settings& settings, const mesh::Topology& target);

// If the settings name a saved plan: refuses the program unless its plan is the same.
void check_saved_plan(const StepProgram& program, const config::Settings& settings, const mesh::Topology& target);

}  // namespace moesh::train
