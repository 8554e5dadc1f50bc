#include <algorithm>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "cli/command.h"
#include "config/hugging_face.h"
#include "session/session.h"
#include "train/convert.h"

namespace moesh::cli {
namespace {

constexpr Option kConvertOptions[] = {
    {"--to", "KIND", "what is written: checkpoint or hugging-face; the other kind than FROM where it is left out"},
    {"--dtype", "TYPE", "in which numbers: float32 or bfloat16; as they were where it is left out"},
    kThreads,
};

constexpr std::string_view kConvertExamples[] = {
    "convert tests/golden/hf/gpt-oss-bf16 gpt-oss.checkpoint",
    "convert gpt-oss.checkpoint my-gpt-oss --dtype float32",
    "convert my-gpt-oss again --to hugging-face --dtype bfloat16",
};

std::optional<DType> dtype_of(const Arguments& arguments) {
  const std::optional<std::string> given = arguments.value("--dtype");
  if (!given) return std::nullopt;
  const std::optional<DType> dtype = parse_dtype(*given);
  if (dtype != DType::float32 && dtype != DType::bfloat16)
    refuse(fmt::format("--dtype {}, float32 or bfloat16 was expected", shorten(*given, 40)), kCommandLine);
  return dtype;
}

enum class To { checkpoint, hugging_face };

To to_of(const Arguments& arguments, bool from_hugging_face) {
  const std::string given = arguments.value("--to").value_or(from_hugging_face ? "checkpoint" : "hugging-face");
  if (given != "checkpoint" && given != "hugging-face")
    refuse(fmt::format("--to {}, checkpoint or hugging-face was expected", shorten(given, 40)), kCommandLine);
  const To to = given == "checkpoint" ? To::checkpoint : To::hugging_face;
  if (to == To::checkpoint && !from_hugging_face)
    refuse("a checkpoint from a checkpoint", kCommandLine,
           "moesh train load_full_state_path=PATH goes on from one in another layout");
  return to;
}

// Converts to the model that model_name=... names, or else to the one that the folder describes.
train::Converted to_checkpoint(const train::Conversion& conversion, const Arguments& arguments,
                               backend::Workers& workers) {
  std::vector<std::string> request = arguments.request();
  const bool is_named = std::any_of(request.begin(), request.end(),
                                    [](const std::string& word) { return word.starts_with("model_name="); });
  if (!is_named) request.push_back("model_name=" + conversion.from);
  request.emplace_back("compile_topology=cpu-1");
  const session::Session session = session::open(request);
  return train::to_checkpoint(conversion, session.loaded.settings, session.graph, workers);
}

// The path without trailing slashes, so that appending to it gives the name of a folder next to it.
std::string destination(std::string path) {
  while (path.size() > 1 && (path.ends_with('/') || path.ends_with("/."))) path.pop_back();
  if (path.empty()) refuse("TO is empty, the name of a new folder was expected", kCommandLine, "moesh convert FROM TO");
  if (path.ends_with("/..")) refuse("TO ends in .., the name of a new folder was expected", kCommandLine, "moesh convert FROM TO");
  return path;
}

int run_convert(const Arguments& arguments) {
  const std::vector<std::string>& paths = arguments.words();
  if (paths.size() != 2) {
    refuse(fmt::format("{}, FROM and TO were expected", counted(static_cast<std::int64_t>(paths.size()), "path")),
           kCommandLine, "moesh convert FROM TO");
  }
  const auto begin = Clock::now();
  const train::Conversion conversion{paths[0], destination(paths[1]), dtype_of(arguments)};
  const bool from_hugging_face = config::is_hugging_face(conversion.from);
  const To to = to_of(arguments, from_hugging_face);
  if (to == To::hugging_face && !arguments.request().empty())
    refuse(fmt::format("'{}' changes nothing of what is written", shorten(arguments.request().front(), 80)),
           kCommandLine, "leave it away");
  backend::Workers workers(threads_of(arguments));
  const train::Converted made = to == To::checkpoint ? to_checkpoint(conversion, arguments, workers)
                                : from_hugging_face  ? train::rewrite_hugging_face(conversion)
                                                     : train::to_hugging_face(conversion, workers);
  fmt::print("{}: {}, {} in {:.2f} s\n", conversion.to, counted(made.tensors, "tensor"),
             human_bytes(made.bytes), seconds_since(begin));
  if (made.left_out.tensors > 0) fmt::print("left out: {}\n", words_of(made.left_out));
  if (!made.architecture.empty()) fmt::print("written as a model of text alone: {}\n", made.architecture);
  return 0;
}

}  // namespace

const Command kConvert{
    "convert",
    "FROM TO [key=value ...] [--to KIND] [--dtype TYPE]",
    "brings a model from a Hugging Face folder into a checkpoint, and back",
    "FROM is a Hugging Face folder (config.json and safetensors, in one file or several behind an index) or a checkpoint, a\n"
    "run's newest whole one where it is a run. Weights may be float32, bfloat16, float16, 8-bit with a scale for each\n"
    "128 x 128, or MXFP4. A checkpoint gets the parameters that load_parameters_path begins with, for the model of the folder or the one\n"
    "that key=value names, whose layers may be stacked or not. Of a checkpoint, config.json is written from its settings, and\n"
    "refused where Hugging Face has no such model; tokenizers are no part of a checkpoint. Tensors go one by one, so memory\n"
    "is taken for the largest. What is made lies in a new folder beside TO, TO.PROCESS.part, until all of it is written and it\n"
    "is renamed to TO; nothing is written over or removed. Of a model that sees images too the text is converted, and what is\n"
    "written for Hugging Face is a model of text alone.",
    kConvertOptions,
    kConvertExamples,
    run_convert};

}  // namespace moesh::cli
