// A recorded run: its settings, the parameters and the batch it started from, and its results.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "store/safetensors.h"

namespace moesh::train {

struct ReferenceStep {
  std::int64_t step = 0;
  double loss = 0;
  double lm_loss = 0;
  double balance_loss = 0;
  double raw_grad_norm = 0;
  double param_norm = 0;
};

struct ReferenceRun {
  std::string name;
  std::vector<std::string> request;  // key=value, as `moesh` takes them
  std::int64_t devices = 1;
  store::TensorFile parameters;
  store::TensorFile batch;
  store::TensorFile expect;           // "logits", "loss", "raw_grad_norm", "grad.PATH", "stepN.PATH", "router.N.WHAT", as far as kept
  std::set<std::string> kept;         // the kinds of tensors that `expect` holds: "logits", "grad", "step10"
  std::string why_none;               // why tensors that were not kept are not compared
  std::vector<ReferenceStep> curve;
  std::string unrecorded;  // "steps 12 to 19", if the curve ends before the run did
};

// Reads the folder of a run: config.json, batch.safetensors, curve.json, and params.safetensors or that of the run that config.json
// names, whose folder is beside this one. Or reads a layout's .json: a recorded model, found in models/ beside the file's folder,
// on a mesh.
ReferenceRun read_reference_run(const std::string& folder);

// "decoder.layers.mlp" for "decoder/layers/mlp", which is how recorded runs spell paths.
std::string dotted(std::string path);

}  // namespace moesh::train
