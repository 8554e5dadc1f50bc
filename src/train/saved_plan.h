// Plans of training steps that were saved.
#pragma once

#include "config/settings.h"
#include "mesh/topology.h"
#include "plan/file.h"
#include "train/program.h"

namespace moesh::train {

// What a plan is saved with: the machine, and the settings that are not at their defaults.
plan::Origin origin_of(const config::Settings& settings, const mesh::Topology& target);

// Where the settings name a plan: refuses the program unless it is that one.
void check_saved_plan(const StepProgram& program, const config::Settings& settings, const mesh::Topology& target);

}  // namespace moesh::train
