#include "decode/weights.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/progress.h"
#include "base/text.h"
#include "config/hugging_face.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "train/hugging_face.h"
#include "train/restore.h"
#include "train/trained.h"

namespace moesh::decode {
namespace {

using train::Trained;

std::string read_checkpoint(Decoder& decoder, const std::vector<Trained>& parameters, const std::string& path, backend::Workers& workers) {
  store::Checkpoint checkpoint(store::checkpoints_at(path).front());
  std::vector<train::Target> targets;
  for (const Trained& of : parameters) targets.push_back({of.path, of.shape, of.layers_dim, decoder.parameter_parts(of.path)});
  check_fit(targets, checkpoint);
  restore(targets, checkpoint, workers);
  return fmt::format("the parameters of step {} from {}, {}", checkpoint.index().about.step, checkpoint.folder(),
                     human_bytes(static_cast<double>(checkpoint.bytes_read())));
}

std::string read_hugging_face(Decoder& decoder, const std::vector<Trained>& parameters, const models::ModelRequest& request,
                              const std::string& folder, backend::Workers& workers) {
  store::HuggingFaceSource source(train::hugging_face_model(request.settings, request.shape), folder, train::model_tensors(parameters));
  Progress progress("reading weights, tensor", static_cast<std::int64_t>(parameters.size()));
  std::int64_t done = 0;
  for (const Trained& of : parameters) {
    source.fill(of.path, decoder.parameter_parts(of.path), workers);
    progress.advance(++done);
  }
  return fmt::format("the weights of {}, {}", folder, counted(source.tensors(), "tensor"));
}

}  // namespace

std::string read_weights(Decoder& decoder, const graph::Graph& graph, const models::ModelRequest& request, const std::string& path,
                         backend::Workers& workers) {
  const auto begin = Clock::now();
  const std::vector<Trained> parameters = train::trained_parameters(graph, request.settings);
  const std::string read = config::is_hugging_face(path)
                               ? read_hugging_face(decoder, parameters, request, config::hugging_face_folder(path), workers)
                               : read_checkpoint(decoder, parameters, path, workers);
  return fmt::format("{}, read in {}", read, human_seconds(seconds_since(begin)));
}

}  // namespace moesh::decode
