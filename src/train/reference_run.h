// A recorded run: what was set, the parameters and the batch it started from, and what came out.
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
  std::set<std::string> kept;         // what `expect` holds of them: "logits", "grad", "step10"
  std::string why_none;               // why nothing else is compared than what is kept
  std::vector<ReferenceStep> curve;
};

// The folder of a run: config.json, batch.safetensors, curve.json, and params.safetensors or the run that config.json
// names, which stands beside it. Or a layout's .json: a model case, found in models/ beside the file's folder, on a mesh.
ReferenceRun read_reference_run(const std::string& folder);

// "decoder.layers.mlp" for "decoder/layers/mlp", as runs spell paths.
std::string dotted(std::string path);

}  // namespace moesh::train
