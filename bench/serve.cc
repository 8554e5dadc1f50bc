// Measures the cost of serving besides decoding: many clients with a third of the requests hostile, compared with the batch loop alone
// on the same texts.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/workers.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "decode/generation.h"
#include "decode/text_stream.h"
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

// A mixture-of-experts model with random weights, whose step takes some milliseconds.
session::Session open_model() {
  return session::open_model(
      {"model_name=mixtral-8x7b", "override_model_config=true", "base_emb_dim=512", "base_num_query_heads=8", "base_num_kv_heads=4",
       "head_dim=64", "base_mlp_dim=1024", "base_moe_mlp_dim=1024", "base_num_decoder_layers=4", "num_experts=8", "num_experts_per_tok=2",
       "vocab_size=256", "compile_topology=cpu-1", "weight_dtype=bfloat16", fmt::format("max_target_length={}", kSlots)});
}

void draw_weights(decode::Generator& generator, backend::Workers& workers) {
  decode::Decoder& decoder = generator.decoder();
  train::put_initial_values(generator.graph(), 7, decoder.pool(), workers,
                            [&](const std::string& path, const run::Array& value) { decoder.set_parameter(path, value); });
}

double resident_mebibytes() {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("VmRSS:")) return static_cast<double>(std::strtoll(line.c_str() + 6, nullptr, 10)) / 1024;
  }
  return 0;
}

// The CPU time of all threads of this process, which does not count what else runs on the machine.
double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A prompt of 8 to 39 bytes.
std::string prompt_of(std::int64_t number) {
  std::string text = fmt::format("{:08d}", number * 7919 % 100'000'000);
  for (std::int64_t i = 0; i < number % 32; ++i) text += static_cast<char>('a' + (number + i * 5) % 26);
  return text;
}

// The lengths of texts differ, so that rows become free at different times.
std::int64_t tokens_of(std::int64_t number, const Options& options) { return options.tokens / 2 + number * 13 % options.tokens; }

bool is_hostile(std::int64_t number) { return number % 3 == 2; }

struct Texts {
  std::map<std::int64_t, std::string> by_number;
  double rate = 0;            // tokens per second
  double processor_rate = 0;  // tokens per second of CPU time
};

// The texts of all requests that are not hostile, by the generator without a server.
Texts by_batch_loop(decode::Generator& generator, const tokenizer::Tokenizer& tokenizer, const Options& options) {
  Texts texts;
  std::map<std::int64_t, decode::TextStream> streams;
  for (std::int64_t i = 0; i < options.requests; ++i) {
    if (is_hostile(i)) continue;
    const tokenizer::Ids ids = tokenizer.encode(prompt_of(i), tokenizer::Special::left_out);
    streams.emplace(i, decode::TextStream(tokenizer, ids, {}));
    generator.add({ids, {}, tokens_of(i, options), {}, i, 0});
  }
  const auto begin = Clock::now();
  const double processor = processor_seconds();
  std::int64_t tokens = 0;
  while (!generator.is_idle()) {
    generator.step([&](const decode::Continued& next) {
      texts.by_number[next.text] += decode::grown(streams.at(next.text), next).more;
      ++tokens;
      return true;
    });
  }
  texts.rate = static_cast<double>(tokens) / seconds_since(begin);
  texts.processor_rate = static_cast<double>(tokens) / (processor_seconds() - processor);
  return texts;
}

std::string request_of(std::int64_t number, const Options& options, bool streams) {
  return test::post_of(
      json({{"prompt", prompt_of(number)}, {"max_tokens", tokens_of(number, options)}, {"temperature", 0}, {"stream", streams}}).dump());
}

// A hostile request. `act` sends it and returns the status of the answer, or 0 if it does not wait for one.
struct Hostile {
  const char* name;
  int (*act)(int port, std::int64_t number, const Options& options);
};

int status_of(int port, const std::string& request) { return test::answer_to(port, request).status; }

void pause(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

const Hostile kHostile[] = {
    {"a prompt that is too long",
     [](int port, std::int64_t, const Options&) {
       return status_of(port, test::post_of("{\"prompt\": \"" + std::string(100'000, 'a') + "\"}"));
     }},
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

// Runs the clients against a server of another process. Returns JSON with counts of answers, and seconds.
json by_clients(int port, const json& expected, const Options& options) {
  std::mutex mutex;
  std::atomic<std::int64_t> next{0};
  std::int64_t right = 0, other = 0;
  std::vector<double> seconds;
  json hostile_statuses;
  const std::int64_t before = metric(port, "moesh_tokens_total");
  const auto begin = Clock::now();
  // A client sends its requests one after the other.
  const auto client = [&] {
    for (std::int64_t i = next++; i < options.requests; i = next++) {
      if (is_hostile(i)) {
        const Hostile& hostile = kHostile[static_cast<std::size_t>(i / 3) % std::size(kHostile)];
        const std::string status = std::to_string(hostile.act(port, i, options));
        const std::lock_guard lock(mutex);
        json& count = hostile_statuses[hostile.name][status];
        count = count.is_null() ? 1 : count.get<int>() + 1;
        continue;
      }
      const auto asked = Clock::now();
      const test::Reply reply = test::answer_to(port, request_of(i, options, false));
      const double took = seconds_since(asked);
      const json body = json::parse(reply.body, nullptr, false);
      const bool is_right = reply.status == 200 && body["choices"][0]["text"] == expected[std::to_string(i)];
      const std::lock_guard lock(mutex);
      ++(is_right ? right : other);
      seconds.push_back(took);
    }
  };
  std::vector<std::thread> clients;
  for (std::int64_t i = 0; i < options.clients; ++i) clients.emplace_back(client);
  for (std::thread& thread : clients) thread.join();
  const double all = seconds_since(begin);
  const auto tokens = static_cast<double>(metric(port, "moesh_tokens_total") - before);
  std::sort(seconds.begin(), seconds.end());
  return {{"right", right},       {"other", other}, {"median", seconds[seconds.size() / 2]}, {"worst", seconds.back()},
          {"rate", tokens / all}, {"all", all},     {"tokens", tokens}, {"hostile", hostile_statuses}};
}

// Runs the clients in a process of their own, so that the measured memory is the server's alone. The two exchange lines of JSON.
class Clients {
 public:
  explicit Clients(const Options& options) {
    int there[2], back[2];
    if (::pipe(there) != 0 || ::pipe(back) != 0) fail("no pipe to a process of its own", "clients");
    id_ = ::fork();
    to_ = ::fdopen(id_ == 0 ? back[1] : there[1], "w");
    from_ = ::fdopen(id_ == 0 ? there[0] : back[0], "r");
    ::close(id_ == 0 ? there[1] : there[0]);
    ::close(id_ == 0 ? back[0] : back[1]);
    if (id_ != 0) return;
    for (json asked = read(); !asked.is_discarded(); asked = read()) write(by_clients(asked["port"], asked["texts"], options));
    ::_exit(0);
  }
  ~Clients() {
    std::fclose(to_);
    std::fclose(from_);
    ::waitpid(id_, nullptr, 0);
  }
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  void write(const json& line) {
    fmt::print(to_, "{}\n", line.dump());
    std::fflush(to_);
  }
  bool has_answered() const {
    pollfd of{::fileno(from_), POLLIN, 0};
    return ::poll(&of, 1, 100) > 0;
  }
  json read() {
    std::string line;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) line += static_cast<char>(c);
    return json::parse(line, nullptr, false);
  }

 private:
  pid_t id_ = 0;
  std::FILE *to_ = nullptr, *from_ = nullptr;
};

// Nine of the values, evenly spaced from the first to the last.
std::string words_of(const std::vector<double>& mebibytes) {
  std::string words;
  for (std::size_t i = 0; i <= 8; ++i) words += fmt::format(" {:.1f}", mebibytes[i * (mebibytes.size() - 1) / 8]);
  return words;
}

json texts_json(const Texts& texts) {
  json all;
  for (const auto& [number, text] : texts.by_number) all[std::to_string(number)] = as_utf8(text);
  return all;
}

int measure(int argc, char** argv) {
  Options options;
  bench::for_words(argc, argv, kHelp, [&](const std::string& name, const std::string& value) {
    const std::map<std::string, std::int64_t*> words{{"--clients", &options.clients}, {"--requests", &options.requests},
                                                     {"--rows", &options.rows},       {"--tokens", &options.tokens},
                                                     {"--threads", &options.threads}, {"--rounds", &options.rounds}};
    if (!words.contains(name)) return false;
    *words.at(name) = bench::count_in(name, value);
    return true;
  });
  Clients clients(options);  // forks, so it comes before any thread starts
  hear_notices(false);
  const session::Session session = open_model();
  const auto tokenizer = tokenizer::bytes();
  backend::Workers workers(static_cast<int>(options.threads));
  decode::Generator generator(session::model_request(session, options.rows), session.target, kSlots, workers);
  draw_weights(generator, workers);
  fmt::print("{}; {} rows, {} threads; {} clients, {} requests, a third of them hostile, about {} tokens each\n",
             session::headline(session), options.rows, options.threads, options.clients, options.requests, options.tokens);
  by_batch_loop(generator, *tokenizer, {.requests = options.rows, .rows = options.rows, .tokens = 4});  // warm-up: programs are built once
  json told;
  for (std::int64_t round = 0; round < options.rounds; ++round) {
    const Texts alone = by_batch_loop(generator, *tokenizer, options);
    const serve::Served served{"bench", *tokenizer, {}, {}, {}, kSlots, 256, kSlots, 1024};
    serve::Service service(generator, served, {options.rows, 1024, false});
    const auto server = serve::listen("127.0.0.1", 0, {}, service);
    std::vector<double> mebibytes{resident_mebibytes()};
    clients.write({{"port", server->port()}, {"texts", texts_json(alone)}});
    const double processor = processor_seconds();
    while (!clients.has_answered()) mebibytes.push_back(resident_mebibytes());
    told = clients.read();
    const double processor_rate = told["tokens"].get<double>() / (processor_seconds() - processor);
    const double rate = told["rate"];
    fmt::print("batch loop {:.1f} tokens/s, served {:.1f} tokens/s: ratio {:.3f}; {:.1f} s\n", alone.rate, rate, rate / alone.rate,
               told["all"].get<double>());
    fmt::print("  a processor: batch loop {:.1f} tokens/s, served {:.1f} tokens/s: ratio {:.3f}\n", alone.processor_rate, processor_rate,
               processor_rate / alone.processor_rate);
    fmt::print("  answers: {} with their text, {} otherwise; median {:.2f} s, worst {:.2f} s\n", told["right"].get<int>(),
               told["other"].get<int>(), told["median"].get<double>(), told["worst"].get<double>());
    fmt::print("  resident from begin to end:{} MiB\n", words_of(mebibytes));
    std::fflush(stdout);
  }
  fmt::print("hostile clients of the last round, and how often they were answered with a status (0: they did not wait):\n");
  for (const auto& [name, statuses] : told["hostile"].items()) fmt::print("  {:<30} {}\n", name, statuses.dump());
  return 0;
}

}  // namespace
}  // namespace moesh

int main(int argc, char** argv) {
  return moesh::bench::with_errors_told([&] { return moesh::measure(argc, argv); });
}
