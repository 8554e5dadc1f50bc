#include "decode/weights.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/text.h"
#include "config/hugging_face.h"
#include "store/newest.h"
#include "train/hugging_face.h"

namespace moesh::decode {
namespace {

std::string read_checkpoint(const std::vector<train::Target>& targets, const std::string& path, backend::Workers& workers) {
  std::string words;
  const auto check = [&](const store::Checkpoint& from) { check_fit(targets, from, train::Unread::prediction_modules); };
  const auto read = [&](store::Checkpoint& from) {
    restore(targets, from, workers);
    words = fmt::format("the parameters of step {} from {}, {}", from.index().about.step, from.folder(), human_bytes(from.bytes_read()));
  };
  store::with_newest_whole(path, check, read);
  return words;
}

std::string read_hugging_face(const std::vector<train::Target>& targets, const models::ModelRequest& request, const std::string& folder,
                              backend::Workers& workers) {
  const store::HuggingFaceModel model = train::hugging_face_model(request.settings, request.shape);
  return fmt::format("the weights of {}, {}", folder, words_of(train::restore(targets, model, folder, workers)));
}

}  // namespace

std::string read_weights(Decoder& decoder, const graph::Graph& graph, const models::ModelRequest& request, const std::string& path,
                         backend::Workers& workers) {
  const auto begin = Clock::now();
  std::vector<train::Target> targets;
  for (const train::Trained& of : train::trained_parameters(graph, request.settings))
    targets.push_back({{of.path, of.shape, of.layers_dim}, decoder.parameter_parts(of.path)});
  const std::string read =
      config::is_hugging_face(path) ? read_hugging_face(targets, request, path, workers) : read_checkpoint(targets, path, workers);
  return fmt::format("{}, read in {}", read, human_seconds(seconds_since(begin)));
}

}  // namespace moesh::decode
