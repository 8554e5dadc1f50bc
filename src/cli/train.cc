#include <fmt/core.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/session.h"
#include "config/pipeline.h"
#include "sharding/tolerance.h"
#include "train/loop.h"

namespace moesh::cli {
namespace {

constexpr std::string_view kExamples[] = {
    "train model_name=deepseek3-tiny override_model_config=true base_num_decoder_layers=2 first_num_dense_layers=1 "
    "vocab_size=256 sparse_matmul=false dataset_type=synthetic compile_topology=cpu-1 per_device_batch_size=2 "
    "max_target_length=64 steps=2",
};

int run(const Arguments& arguments) {
  if (!arguments.words().empty()) {
    refuse(fmt::format("'{}' is neither a FILE.yml nor key=value", arguments.words().front()), "the command line");
  }
  const Session session = open_session(arguments.request());
  const config::Settings& settings = session.loaded.settings;
  if (!config::has_pipeline(settings)) sharding::check_tolerance(session.layout, settings);
  run::Workers workers(0);
  return train::train({session.loaded.settings, session.shape, session.graph, session.batch, {session.layout, session.target}, session.mesh.devices(),
                       headline(session)},
                      workers);
}

}  // namespace

const Command kTrain{
    "train",
    "[FILE.yml] [key=value ...]",
    "trains, on one device so far",
    "Trains a model on this machine: prints the reference's `completed step:` line for each step and writes the same as\n"
    "JSON to BASE_OUTPUT_DIRECTORY/RUN_NAME/metrics.jsonl. An interrupt ends the run after the step.",
    {},
    kExamples,
    run};

}  // namespace moesh::cli
