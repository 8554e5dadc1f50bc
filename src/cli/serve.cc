#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/core.h>

#include "backend/workers.h"
#include "base/error.h"
#include "base/log.h"
#include "base/streams.h"
#include "base/text.h"
#include "cli/command.h"
#include "data/document_tokens.h"
#include "decode/generation.h"
#include "decode/source.h"
#include "decode/weights.h"
#include "serve/service.h"
#include "session/session.h"
#include "train/interrupts.h"

namespace moesh::cli {
namespace {

constexpr Option kServeOptions[] = {
    {"--host", "ADDRESS", "where it listens (default 127.0.0.1: this machine alone; 0.0.0.0 is every address)"},
    {"--port", "N", "the port (default 8000; 0 takes one that is free)"},
    {"--name", "NAME", "what the model is called (default: the last part of its path)"},
    {"--batch", "N", "texts that go on at a time (default 8)"},
    {"--queue", "N", "texts that wait besides, before more are refused with status 503 (default 1024)"},
    {"--max-tokens", "N", "tokens that a request may ask for (default: as many as go with a prompt)"},
    {"--max-body", "BYTES", "of a request (default 1048576); more is refused with status 413"},
    {"--connections", "N", "at a time (default 1024, or what the open files of this process allow); more wait"},
    {"--timeout", "SECONDS", "in which a request comes whole, and a client takes what it is sent (default 30)"},
    {"--grace", "SECONDS", "that texts have to end when the server is asked to (default 5)"},
    {"--quiet", "", "no line for each request"},
    kThreads,
};

constexpr std::string_view kServeExamples[] = {
    "serve tests/golden/hf/llama tokenizer_path=",
    "serve moesh_output/kept --batch 16 --max-tokens 512 max_target_length=2048",
    "serve tests/golden/hf/llama tokenizer_path= --port 0 --name small ici_tensor_parallelism=2 decode_sampling_strategy=greedy",
};

// Requests without a temperature are sampled at 1, the default of OpenAI's interface, unless the settings say otherwise.
constexpr const char* kUsualStrategy = "decode_sampling_strategy=weighted";
constexpr std::int64_t kUsualRows = 8, kUsualQueue = 1024, kUsualPort = 8000, kUsualGrace = 5;
constexpr std::chrono::milliseconds kGlance{50};  // interval at which the main thread checks whether the server is to end

std::int64_t port_of(const Arguments& arguments) {
  const auto given = arguments.value("--port");
  if (!given) return kUsualPort;
  const auto port = parse_integer(*given);
  if (!port || *port < 0 || *port > 65'535) {
    refuse(fmt::format("--port {}: not a number from 0 to 65535", shorten(*given, 40)), kCommandLine,
           "--port 8000, or --port 0 for any");
  }
  return *port;
}

decode::Source source_of(const Arguments& arguments) {
  const std::vector<std::string>& words = arguments.words();
  if (words.size() > 1) refuse(fmt::format("'{}' after the model is no key=value", shorten(words[1], 80)), kCommandLine);
  return decode::source_of(words.empty() ? "" : words.front(), arguments.request());
}

std::string name_of(const Arguments& arguments, const std::string& model) {
  if (const auto name = arguments.value("--name")) return *name;
  std::filesystem::path path = std::filesystem::weakly_canonical(model);
  if (path.filename().empty() || path.filename() == "config.json") path = path.parent_path();
  return path.filename();
}

serve::HttpLimits limits_of(const Arguments& arguments) {
  serve::HttpLimits limits;
  limits.connections = count_of(arguments, "--connections", 1'000'000, "--connections 1024").value_or(serve::most_connections());
  limits.body_bytes = count_of(arguments, "--max-body", std::int64_t{1} << 32, "--max-body 1048576").value_or(limits.body_bytes);
  const auto seconds = count_of(arguments, "--timeout", 86'400, "--timeout 30");
  if (seconds) limits.read_seconds = limits.write_seconds = static_cast<double>(*seconds);
  return limits;
}

int run_serve(const Arguments& arguments) {
  const decode::Source source = source_of(arguments);
  const std::string& path = source.model;
  const std::int64_t port = port_of(arguments);
  const std::int64_t waiting = count_of(arguments, "--queue", 1'000'000, "--queue 1024").value_or(kUsualQueue);
  const std::chrono::seconds grace{count_of(arguments, "--grace", 86'400, "--grace 5").value_or(kUsualGrace)};
  const serve::HttpLimits limits = limits_of(arguments);
  const session::Session session = session::open_model(decode::request_of(source.model, source.settings, {kUsualStrategy}));
  decode::note_idle(source.settings);
  const config::Settings& settings = session.loaded.settings;
  const auto tokenizer = data::open_tokenizer(settings);
  const std::int64_t slots = decode::slots_of(settings);
  const std::int64_t rows = decode::rows_for(session, count_of(arguments, "--batch", 1'000'000, "--batch 8"), kUsualRows);
  const decode::Bounds bounds = decode::bounds_of(*tokenizer, settings);
  serve::Served served{name_of(arguments, path), *tokenizer, bounds, decode::sampling_of(settings), {}, slots};
  if (settings.is_by_user("decode_sampling_seed")) served.seed = settings.integer("decode_sampling_seed");
  served.vocabulary = session.shape.vocab_size;
  served.most_tokens = count_of(arguments, "--max-tokens", 1'000'000'000, "--max-tokens 100").value_or(slots);
  served.most_texts = rows + waiting;

  backend::Workers workers(threads_of(arguments));
  const models::ModelRequest model = session::model_request(session, rows);
  decode::Generator generator(model, session.target, slots, workers);
  const std::string host = arguments.value("--host").value_or("127.0.0.1");
  serve::check_place(host, static_cast<int>(port));
  log_notice(decode::read_weights(generator.decoder(), generator.graph(), model, path, workers));
  const train::Interrupts interrupts("moesh: ending when the texts have ended; once more ends it at once\n");
  serve::Service service(generator, served, {rows, waiting, !arguments.has("--quiet")});
  const auto server = serve::listen(host, static_cast<int>(port), limits, service);
  const std::string shown = host.find(':') == std::string::npos ? host : "[" + host + "]";
  fmt::print("moesh serves {} at http://{}:{}/v1\n", served.name, shown, server->port());
  flush_output();
  while (!interrupts.asked()) std::this_thread::sleep_for(kGlance);
  service.end(grace);
  server->stop();
  return 0;
}

}  // namespace

const Command kServe{
    "serve",
    "MODEL [key=value ...]",
    "answers requests for completions over HTTP",
    "Serves a model as OpenAI's interface has it: POST /v1/completions, whole or streamed, and GET /v1/models; besides, /health and\n"
    "/metrics. MODEL is what `moesh decode` takes, and the same key=value apply; its texts are those of `moesh decode`. Requests go on\n"
    "together: whoever comes takes a row that is free, or waits for one. They may say model, prompt (a text, texts, or token ids),\n"
    "max_tokens (16), temperature (1), top_p, top_k, min_p, repetition_penalty, seed, n, stop, echo, stream, stream_options,\n"
    "ignore_eos and user; what else they say is refused. With a seed the same request has the same answer, whatever else goes on\n"
    "(but for rounding in bfloat16, see docs/models.md); decode_sampling_... say what counts where a request says nothing. It prints\n"
    "its address when it is ready. Ctrl-C or SIGTERM ends it: texts that go on have --grace seconds. It asks for no key, so put\n"
    "something before it that does where others reach it.",
    kServeOptions,
    kServeExamples,
    run_serve};

}  // namespace moesh::cli
