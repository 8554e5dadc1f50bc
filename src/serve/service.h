// The server's routes: which requests it answers, and how.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <semaphore>
#include <string>

#include "base/clock.h"
#include "serve/api_error.h"
#include "serve/answers.h"
#include "serve/completion.h"
#include "serve/http.h"
#include "serve/loop.h"

namespace moesh::serve {

struct ServiceOptions {
  std::int64_t rows = 1;           // texts that are generated at a time
  std::int64_t most_waiting = 0;   // largest number of further texts that wait
  bool tells_requests = true;      // logs a line per request
};

class Service final : public HttpHandler {
 public:
  // The generator and what `served` refers to must outlive the service.
  Service(decode::Generator& generator, Served served, const ServiceOptions& options);

  HttpAnswer answer(const HttpRequest& request) override;
  HttpAnswer refusal(int status) override;

  // Takes no more texts, and gives the present ones at most `grace` to end.
  void end(std::chrono::milliseconds grace) { loop_.end(grace); }

 private:
  HttpAnswer routed(const HttpRequest& request);
  HttpAnswer models(const std::string& path) const;
  HttpAnswer health() const;
  HttpAnswer metrics() const;
  HttpAnswer complete(const HttpRequest& request);
  HttpAnswer whole(const HttpRequest& request, const std::shared_ptr<Texts>& texts, const Completion& asked, Clock::time_point begin);
  HttpAnswer stream(const HttpRequest& request, const std::shared_ptr<Texts>& texts, const Completion& asked, Clock::time_point begin);
  Completion read(const HttpRequest& request);
  HttpAnswer refused(const ApiError& error);
  AnswerHead new_head();
  void tell(int status, std::string what);

  const Served served_;
  const ServiceOptions options_;
  const std::int64_t started_;  // seconds since 1970
  std::counting_semaphore<> readers_;  // limits how many requests are parsed at a time, since that may take much memory
  std::atomic<std::int64_t> answers_{0};
  mutable std::mutex mutex_;
  std::map<int, std::int64_t> by_status_;
  Loop loop_;
};

}  // namespace moesh::serve
