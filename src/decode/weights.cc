#include "decode/weights.h"

#include <fmt/core.h>

#include "base/clock.h"
#include "base/text.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "train/restore.h"
#include "train/trained.h"

namespace moesh::decode {

std::string read_checkpoint(Generator& generator, const config::Settings& settings, const std::string& path, backend::Workers& workers) {
  const auto begin = Clock::now();
  store::Checkpoint checkpoint(store::checkpoints_at(path).front());
  std::vector<train::Target> targets;
  for (const train::Trained& of : train::trained_parameters(generator.graph(), settings)) {
    targets.push_back({of.path, of.shape, of.layers_dim, generator.decoder().parameter_parts(of.path)});
  }
  check_fit(targets, checkpoint);
  restore(targets, checkpoint, workers);
  return fmt::format("the parameters of step {} from {}, {} in {}", checkpoint.index().about.step, checkpoint.folder(),
                     human_bytes(static_cast<double>(checkpoint.bytes_read())), human_seconds(seconds_since(begin)));
}

}  // namespace moesh::decode
