// What serving costs besides decoding: many clients, a third of them hostile, beside the same texts by the batch loop alone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "decode/generation.h"
#include "errors.h"
#include "serve/service.h"
#include "session/session.h"
#include "tests/serve/http_client.h"
#include "tokenizer/bytes.h"
#include "train/initialize.h"
#include "words.h"

namespace moesh {
namespace {

using nlohmann::json;
using test::HttpClient;

constexpr const char* kHelp = R"(bench_serve [--clients=N] [--requests=N] [--rows=N] [--tokens=N] [--threads=N] [--rounds=N]
)";

struct Options {
  std::int64_t clients = 64, requests = 1000, rows = 16, tokens = 32, threads = 2, rounds = 3;
};

constexpr std::int64_t kSlots = 256;

// A mixture of experts whose step takes some milliseconds, of random weights.
session::Session open_model() {
  return session::open_to_run(
      {"model_name=mixtral-8x7b", "override_model_config=true", "base_emb_dim=512", "base_num_query_heads=8", "base_num_kv_heads=4", "head_dim=64",
       "base_mlp_dim=1024", "base_num_decoder_layers=6", "num_experts=8", "num_experts_per_tok=2", "vocab_size=256", "compile_topology=cpu-1",
       "weight_dtype=bfloat16", fmt::format("max_target_length={}", kSlots)},
      config::Run::steps);
}

void draw_weights(decode::Generator& generator, backend::Workers& workers) {
  const graph::Graph& graph = generator.graph();
  for (const graph::Node& node : graph.nodes) {
    if (node.op != graph::Op::parameter) continue;
    const graph::Value& value = graph.value(node.results.front());
    const graph::Initializer& initializer = std::get<graph::ParameterOf>(node.attributes).initializer;
    decode::Decoder& decoder = generator.decoder();
    decoder.set_parameter(node.path, train::initial_value(node.path, value.shape, value.dtype, initializer, 7, decoder.pool(), workers));
  }
}

double resident_mebibytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return static_cast<double>(std::strtoll(line.c_str() + 6, nullptr, 10)) / 1024;
  }
  return 0;
}

// 8 to 39 bytes.
std::string prompt_of(std::int64_t number) {
  std::string text = fmt::format("{:08d}", number * 7919 % 100'000'000);
  for (std::int64_t i = 0; i < number % 32; ++i) text += static_cast<char>('a' + (number + i * 5) % 26);
  return text;
}

bool is_hostile(std::int64_t number) { return number % 3 == 2; }

struct Texts {
  std::map<std::int64_t, std::string> by_number;
  double rate = 0;  // tokens a second
};

// Those of all well-meant requests, by the generator alone.
Texts by_batch_loop(decode::Generator& generator, const tokenizer::Tokenizer& tokenizer, const Options& options) {
  Texts texts;
  std::map<std::int64_t, decode::TextStream> streams;
  for (std::int64_t i = 0; i < options.requests; ++i) {
    if (is_hostile(i)) continue;
    const tokenizer::Ids ids = tokenizer.encode(prompt_of(i), tokenizer::Special::left_out);
    streams.emplace(i, decode::TextStream(tokenizer, ids, {}));
    generator.add({ids, {}, options.tokens, {}, i, 0});
  }
  const auto begin = Clock::now();
  std::int64_t tokens = 0;
  while (!generator.is_idle()) {
    generator.step([&](const decode::Continued& next) {
      texts.by_number[next.text] += streams.at(next.text).add(next.token);
      if (next.ended != decode::Ended::not_yet) texts.by_number[next.text] += streams.at(next.text).finish();
      ++tokens;
      return true;
    });
  }
  texts.rate = static_cast<double>(tokens) / seconds_since(begin);
  return texts;
}

std::string request_of(std::int64_t number, const Options& options, bool streams) {
  return test::post_of(
      json({{"prompt", prompt_of(number)}, {"max_tokens", options.tokens}, {"temperature", 0}, {"stream", streams}}).dump());
}

// What a hostile client does; the status that it is answered with, 0 where it does not stay for one.
struct Hostile {
  const char* name;
  int (*act)(int port, std::int64_t number, const Options& options);
};

int status_of(int port, const std::string& request) { return test::answer_to(port, request).status; }

void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

const Hostile kHostile[] = {
    {"a prompt that is too long", [](int port, std::int64_t, const Options&) { return status_of(port, test::post_of("{\"prompt\": \"" + std::string(100'000, 'a') + "\"}")); }},
    {"broken JSON", [](int port, std::int64_t, const Options&) { return status_of(port, test::post_of("{\"prompt\": [[[")); }},
    {"another path", [](int port, std::int64_t, const Options&) { return status_of(port, test::post_of("{}", "/admin")); }},
    {"no HTTP", [](int port, std::int64_t, const Options&) { return status_of(port, std::string(300, '\xff') + "\r\n\r\n"); }},
    {"8 MB", [](int port, std::int64_t, const Options&) { return status_of(port, test::post_of(std::string(8'000'000, '['))); }},
    {"half of a request",
     [](int port, std::int64_t number, const Options& options) {
       const std::string request = request_of(number, options, false);
       HttpClient(port).send(request.substr(0, request.size() / 2));
       return 0;
     }},
    {"gone before the answer",
     [](int port, std::int64_t number, const Options& options) {
       HttpClient client(port);
       client.send(request_of(number, options, number % 2 == 0));
       pause(20);
       return 0;
     }},
    {"a byte at a time",
     [](int port, std::int64_t number, const Options& options) {
       HttpClient client(port);
       for (const char c : request_of(number, options, false).substr(0, 50)) {
         client.send(std::string(1, c));
         pause(10);
       }
       return 0;
     }},
    {"a stream that is read slowly",
     [](int port, std::int64_t number, const Options& options) {
       HttpClient client(port);
       client.send(request_of(number, options, true));
       for (int i = 0; i < 10; ++i) {
         client.next_line();
         pause(50);
       }
       return 0;
     }},
};

std::int64_t metric(int port, const std::string& name) {
  const std::string all = test::get(port, "/metrics").body;
  const std::size_t at = all.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::strtoll(all.c_str() + at + name.size() + 2, nullptr, 10);
}

struct Outcome {
  std::int64_t right = 0, other = 0;           // well-meant requests with their text, and without
  std::map<std::string, std::map<int, int>> hostile;  // statuses by what was done
  std::vector<double> seconds, mebibytes;
  double rate = 0, all = 0;
};

// Clients that take one request after the other.
Outcome by_clients(int port, const Texts& expected, const Options& options) {
  Outcome outcome;
  std::mutex mutex;
  std::atomic<std::int64_t> next{0};
  const std::int64_t before = metric(port, "moesh_tokens_total");
  const auto begin = Clock::now();
  const auto client = [&] {
    for (std::int64_t i = next++; i < options.requests; i = next++) {
      if (i * 8 % options.requests < 8) {
        const std::lock_guard lock(mutex);
        outcome.mebibytes.push_back(resident_mebibytes());
      }
      if (is_hostile(i)) {
        const Hostile& hostile = kHostile[static_cast<std::size_t>(i / 3) % std::size(kHostile)];
        const int status = hostile.act(port, i, options);
        const std::lock_guard lock(mutex);
        ++outcome.hostile[hostile.name][status];
        continue;
      }
      const auto asked = Clock::now();
      const test::Reply reply = test::answer_to(port, request_of(i, options, false));
      const double took = seconds_since(asked);
      const json body = json::parse(reply.body, nullptr, false);
      const bool is_right = reply.status == 200 && body["choices"][0]["text"] == as_utf8(expected.by_number.at(i));
      const std::lock_guard lock(mutex);
      ++(is_right ? outcome.right : outcome.other);
      outcome.seconds.push_back(took);
    }
  };
  std::vector<std::thread> clients;
  for (std::int64_t i = 0; i < options.clients; ++i) clients.emplace_back(client);
  for (std::thread& thread : clients) thread.join();
  outcome.all = seconds_since(begin);
  outcome.rate = static_cast<double>(metric(port, "moesh_tokens_total") - before) / outcome.all;
  outcome.mebibytes.push_back(resident_mebibytes());
  std::sort(outcome.seconds.begin(), outcome.seconds.end());
  return outcome;
}

void print(const Outcome& outcome, const Texts& alone) {
  fmt::print("batch loop {:7.1f} tokens/s   served {:7.1f} tokens/s   ratio {:.3f}   in {:.1f} s\n", alone.rate, outcome.rate, outcome.rate / alone.rate,
             outcome.all);
  fmt::print("  answers: {} with their text, {} otherwise; median {:.2f} s, worst {:.2f} s\n", outcome.right, outcome.other,
             outcome.seconds[outcome.seconds.size() / 2], outcome.seconds.back());
  fmt::print("  resident:");
  for (const double mebibytes : outcome.mebibytes) fmt::print(" {:.1f}", mebibytes);
  fmt::print(" MiB\n");
}

int measure(int argc, char** argv) {
  Options options;
  bench::for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
    const std::map<std::string, std::int64_t*> words{{"--clients", &options.clients}, {"--requests", &options.requests}, {"--rows", &options.rows},
                                                     {"--tokens", &options.tokens},   {"--threads", &options.threads},   {"--rounds", &options.rounds}};
    if (!words.contains(name)) return false;
    *words.at(name) = bench::count_in(name, value);
    return true;
  });
  hear_notices(false);
  const session::Session session = open_model();
  const auto tokenizer = tokenizer::bytes();
  backend::Workers workers(static_cast<int>(options.threads));
  decode::Generator generator(session::model_request(session, options.rows), session.target, kSlots, workers);
  draw_weights(generator, workers);
  fmt::print("{}; {} rows, {} threads; {} clients, {} requests, a third of them hostile, {} tokens each\n", session::headline(session), options.rows,
             options.threads, options.clients, options.requests, options.tokens);
  by_batch_loop(generator, *tokenizer, {.requests = options.rows, .rows = options.rows, .tokens = 4});  // programs are made once
  std::optional<Outcome> last;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    const Texts alone = by_batch_loop(generator, *tokenizer, options);
    serve::Service service(generator, {"bench", *tokenizer, session.loaded.settings, {}, {}, kSlots, 256, kSlots, 1024}, {options.rows, 1024, false});
    const auto server = serve::listen("127.0.0.1", 0, {}, service);
    last = by_clients(server->port(), alone, options);
    print(*last, alone);
  }
  fmt::print("hostile clients of the last round, and the statuses that they were answered with (0: they did not wait):\n");
  for (const auto& [name, statuses] : last->hostile) {
    fmt::print("  {:<30}", name);
    for (const auto& [status, count] : statuses) fmt::print(" {} x {}", count, status);
    fmt::print("\n");
  }
  return 0;
}

}  // namespace
}  // namespace moesh

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::measure(argc, argv); });
}
