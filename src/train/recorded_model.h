// A Hugging Face model with recorded numbers: the results and gradients of a batch, and prompts with their continuations.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "store/safetensors.h"

namespace moesh::train {

struct RecordedPrompt {
  std::string name;  // "p5"
  std::vector<std::int32_t> prompt;
  std::vector<std::int32_t> tokens;  // the continuation, each token the likeliest
  std::vector<double> logits;        // [tokens, V]
};

struct RecordedModel {
  std::string name;
  std::string path;                  // the folder, or a config.json in it under another name
  std::vector<std::string> request;  // key=value, without the batch
  std::int64_t rows = 0, length = 0;
  std::vector<std::int32_t> ids;  // [rows, length]
  store::TensorFile expect;       // "logits", "loss", "grad_norm", "grad.NAME", "router_experts.LAYER", ...
  std::map<std::string, double> gradient_norms;  // of every tensor's gradient, by the tensor's name
  double logits_tolerance = 0;  // of a logit: 1e-4, or more if two ways through the library that it was recorded with differ more
  std::vector<RecordedPrompt> prompts;
};

// Reads a folder with config.json, weights, expect.safetensors and expect.json, or a config file in such a folder.
RecordedModel read_recorded_model(const std::string& path);

// How many rows a mesh with this many devices takes, which are copies of the recorded ones.
std::int64_t rows_on(const RecordedModel& recorded, std::int64_t devices);

}  // namespace moesh::train
