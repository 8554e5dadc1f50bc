// A Hugging Face model with recorded numbers: a batch and what comes of it, gradients, and prompts that are gone on
// from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/safetensors.h"

namespace moesh::train {

struct RecordedPrompt {
  std::string name;  // "p5"
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> tokens;  // that follow, each the likeliest
  std::vector<double> logits;        // [tokens, V]
};

struct RecordedModel {
  std::string name;
  std::string path;                  // the folder, or its config.json by another name
  std::vector<std::string> request;  // key=value, but for the batch
  std::int64_t rows = 0, length = 0;
  std::vector<std::int32_t> ids;  // [rows, length]
  store::TensorFile expect;       // "logits", "loss", "grad_norm", "grad.NAME", "router_experts.LAYER", ...
  std::map<std::string, double> gradient_norms;  // of every tensor, by its name
  std::vector<RecordedPrompt> prompts;
};

// A folder with config.json, weights, expect.safetensors and expect.json, or a config file in one.
RecordedModel read_recorded_model(const std::string& path);

// How many rows a mesh of so many devices takes: copies of the recorded ones.
std::int64_t rows_on(const RecordedModel& recorded, std::int64_t devices);

}  // namespace moesh::train
