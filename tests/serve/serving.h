// A server for tests, and what it is asked and answers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/workers.h"
#include "base/log.h"
#include "decode/source.h"
#include "decode/weights.h"
#include "serve/service.h"
#include "tests/process.h"
#include "tests/serve/http_client.h"
#include "tests/serve/metrics.h"
#include "tokenizer/bytes.h"

namespace moesh::serve {

inline std::string llama() { return (test::source_folder() / "tests/golden/hf/llama").string(); }

inline constexpr std::int64_t kSlots = 2000;

struct Wanted {
  std::int64_t rows = 4, waiting = 100;
  HttpLimits limits = {};
  bool has_weights = true;
};

// A small model of bytes that goes on with texts.
struct ByteModel {
  ByteModel(std::int64_t rows, std::int64_t slots, int threads)
      : session(session::open_model(
            decode::request_of(llama(), {"tokenizer_path=", "dtype=float32", "max_target_length=" + std::to_string(slots)}))),
        tokenizer(tokenizer::bytes()),
        workers(threads),
        request(session::model_request(session, rows)),
        generator(request, session.target, slots, workers) {}

  void read_weights() { decode::read_weights(generator.decoder(), generator.graph(), request, llama(), workers); }

  session::Session session;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  backend::Workers workers;
  models::ModelRequest request;
  decode::Generator generator;
};

// It, served on a port by this process.
class Serving {
 public:
  explicit Serving(const Wanted& wanted = {}) : model_(wanted.rows, kSlots, 2) {
    hear_notices(false);
    if (wanted.has_weights) model_.read_weights();
    const tokenizer::Tokenizer& tokenizer = *model_.tokenizer;
    const Served served{"llama", tokenizer, decode::bounds_of(tokenizer, model_.session.loaded.settings), {.temperature = 1}, {}, kSlots, 256, kSlots, wanted.rows + wanted.waiting};
    service_.emplace(model_.generator, served, ServiceOptions{wanted.rows, wanted.waiting, true});
    server_ = listen("127.0.0.1", 0, wanted.limits, *service_);
  }
  ~Serving() {
    server_.reset();
    service_.reset();
    hear_notices(true);
  }

  int port() const { return server_->port(); }
  HttpServer& server() { return *server_; }
  Service& service() { return *service_; }
  std::string metrics() const { return test::get(port(), "/metrics").body; }
  bool comes_to(const std::string& metric) const {
    return test::wait_until([&] { return metrics().find(metric + "\n") != std::string::npos; });
  }
  std::int64_t metric(const std::string& name) const { return test::metric_of(metrics(), name); }

 private:
  ByteModel model_;
  std::optional<Service> service_;
  std::unique_ptr<HttpServer> server_;
};

inline std::string greedy(const std::string& prompt, int tokens, const std::string& more = "") {
  return nlohmann::json({{"prompt", prompt}, {"max_tokens", tokens}, {"temperature", 0}}).dump().insert(1, more);
}

inline nlohmann::json body_of(const test::Reply& reply) {
  EXPECT_EQ(reply.status, 200) << reply.body;
  return nlohmann::json::parse(reply.body, nullptr, false);
}

inline std::string text_of(const test::Reply& reply) { return body_of(reply)["choices"][0]["text"]; }
inline std::string message_of(const test::Reply& reply) { return nlohmann::json::parse(reply.body)["error"]["message"]; }

}  // namespace moesh::serve
