#include "serve/service.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include <fmt/core.h>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "decode/source.h"

namespace moesh::serve {
namespace {

constexpr std::ptrdiff_t kReaders = 4;
constexpr std::chrono::milliseconds kGlance{250};  // interval at which a waiting request checks that its client is still connected

// HTTP statuses; 499 is what servers log if the client has closed the connection.
constexpr int kNotSo = 405, kGone = 499, kNotNow = 503;

constexpr std::string_view kCompletions = "/v1/completions", kModels = "/v1/models", kHealth = "/health", kMetrics = "/metrics";

ApiError client_is_gone() { return {kGone, "the client is gone"}; }

std::int64_t seconds_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// Holds one unit of a semaphore during its lifetime.
class Held {
 public:
  explicit Held(std::counting_semaphore<>& of) : of_(of) { of_.acquire(); }
  ~Held() { of_.release(); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;

 private:
  std::counting_semaphore<>& of_;
};

std::string words_of(const Completion& asked, std::int64_t tokens, Clock::time_point begin) {
  return fmt::format("{}, {} + {} in {}", counted(static_cast<std::int64_t>(asked.texts()), "text"), asked.prompt_tokens(),
                     counted(tokens, "token"), human_seconds(seconds_since(begin)));
}

const char* reason_of(int status) {
  switch (status) {
    case 400: return "this is no request of HTTP/1.1, its headers are too long, or they do not say for sure where its body ends";
    case 414: return "the path is too long";
    case 416: return "no such range";
    case 500: return "the server is at fault";
    default: return "the request is not answered";
  }
}

std::vector<decode::Prompt> prompts_of(const Completion& asked, const tokenizer::Ids& ends) {
  std::vector<decode::Prompt> prompts;
  for (const AskedPrompt& one : asked.prompts) {
    for (std::int64_t i = 0; i < asked.texts_each; ++i) {
      prompts.push_back({one.ids, asked.sampling, one.most_tokens, asked.ignores_end ? tokenizer::Ids{} : ends, 0, i});
    }
  }
  return prompts;
}

}  // namespace

Service::Service(decode::Generator& generator, Served served, const ServiceOptions& options)
    : served_(std::move(served)),
      options_(options),
      started_(seconds_now()),
      readers_(kReaders),
      loop_(generator, options.rows + options.most_waiting) {}

HttpAnswer Service::answer(const HttpRequest& request) {
  try {
    return routed(request);
  } catch (const ApiError& error) {
    HttpAnswer answer = refused(error);
    if (error.status == kNotSo) answer.headers.emplace_back("Allow", request.path == kCompletions ? "POST" : "GET");
    return answer;
  } catch (const std::bad_alloc&) {
    return refused(ApiError(kNotNow, "the server is out of memory"));
  } catch (const std::exception& error) {
    return refused(ApiError(500, error.what()));
  }
}

HttpAnswer Service::refusal(int status) { return refused(ApiError(status, reason_of(status))); }

HttpAnswer Service::routed(const HttpRequest& request) {
  const auto only = [&](std::string_view method) {
    if (request.method == method || (method == "GET" && request.method == "HEAD")) return;
    reject(fmt::format("{} is asked for by {}", shorten(request.path, 80), method), "", kNotSo);
  };
  if (request.path == kCompletions) {
    only("POST");
    return complete(request);
  }
  if (request.path == kModels || request.path.starts_with(fmt::format("{}/", kModels))) {
    only("GET");
    return models(request.path);
  }
  if (request.path == kHealth || request.path == kMetrics) {
    only("GET");
    return request.path == kHealth ? health() : metrics();
  }
  if (request.path == "/v1/chat/completions") {
    reject("chat templates are not applied: make the prompt, and ask /v1/completions", "", 404);
  }
  reject(fmt::format("nothing is at '{}': ask /v1/completions, /v1/models, /health or /metrics", shorten(request.path, 80)), "", 404);
}

HttpAnswer Service::models(const std::string& path) const {
  const bool is_list = path.size() == kModels.size();
  if (!is_list) check_model(path.substr(kModels.size() + 1), served_);
  JsonWriter json;
  if (is_list) json.begin_object().key("object").value("list").key("data").begin_array();
  json.begin_object().key("id").value(served_.name).key("object").value("model").key("created").value(started_);
  json.key("owned_by").value("moesh").key("max_model_len").value(served_.slots).end_object();
  if (is_list) json.end_array().end_object();
  return {.body = json.text()};
}

HttpAnswer Service::health() const { return {.body = JsonWriter().begin_object().key("status").value("ok").end_object().text()}; }

// Metrics in the text format of Prometheus.
HttpAnswer Service::metrics() const {
  const Loop::Counts counts = loop_.counts();
  const std::int64_t running = std::min(counts.texts, options_.rows);
  std::string text = fmt::format(
      "# TYPE moesh_texts_running gauge\nmoesh_texts_running {}\n# TYPE moesh_texts_waiting gauge\nmoesh_texts_waiting {}\n"
      "# TYPE moesh_tokens_total counter\nmoesh_tokens_total {}\n# TYPE moesh_answers_total counter\n",
      running, counts.texts - running, counts.tokens);
  const std::lock_guard lock(mutex_);
  for (const auto& [status, count] : by_status_) text += fmt::format("moesh_answers_total{{status=\"{}\"}} {}\n", status, count);
  return {.content_type = "text/plain; version=0.0.4", .body = text};
}

Completion Service::read(const HttpRequest& request) {
  if (request.came == HttpRequest::Body::too_long) reject("the body is longer than --max-body", "", 413);
  if (request.came == HttpRequest::Body::encoded) reject("the body is encoded: send it without Content-Encoding", "", 415);
  if (request.came == HttpRequest::Body::broken) reject("a chunk of the body does not begin with its size", "", 400);
  if (request.came == HttpRequest::Body::cut_short) reject("the body did not come whole, or not in time", "", 408);
  if (lower(trim(request.content_type.substr(0, request.content_type.find(';')))) != "application/json") {
    reject(fmt::format("the body is '{}': Content-Type: application/json was expected", shorten(request.content_type, 80)), "", 415);
  }
  const Held held(readers_);
  return parse_completion(request.body, served_);
}

HttpAnswer Service::complete(const HttpRequest& request) {
  const auto begin = Clock::now();
  Completion asked = read(request);
  const auto texts = std::make_shared<Texts>(asked, served_.tokenizer);
  switch (loop_.take(texts, prompts_of(asked, served_.bounds.ends))) {
    case Loop::Taken::yes: return asked.streams ? stream(request, texts, asked, begin) : whole(request, texts, asked, begin);
    case Loop::Taken::is_full: reject("too many texts wait: ask again", "", kNotNow, "overloaded");
    case Loop::Taken::is_ending: reject("the server ends", "", kNotNow);
  }
  return {};
}

HttpAnswer Service::whole(const HttpRequest& request, const std::shared_ptr<Texts>& texts, const Completion& asked,
                          Clock::time_point begin) {
  std::vector<Growth> all(asked.texts());
  while (true) {
    const Heard heard = texts->wait(kGlance);
    for (const Growth& growth : heard.growth) {
      Growth& text = all[growth.text];
      text = {growth.text, text.more + growth.more, growth.ended};
    }
    if (heard.are_whole) {
      tell(200, words_of(asked, heard.tokens, begin));
      return {.body = completion_json(new_head(), all, {asked.prompt_tokens(), heard.tokens})};
    }
    if (!heard.failure.empty()) throw ApiError(kNotNow, heard.failure);
    if (!request.is_alive()) throw client_is_gone();
  }
}

HttpAnswer Service::stream(const HttpRequest& request, const std::shared_ptr<Texts>& texts, const Completion& asked,
                           Clock::time_point begin) {
  struct Streaming {
    // Reports a client that is gone: the code that sends the pieces may notice it before `next` does.
    ~Streaming() {
      if (!is_over) service.refused(client_is_gone());
    }
    Service& service;
    std::shared_ptr<Texts> texts;
    std::function<bool()> is_alive;
    Completion asked;
    AnswerHead head;
    Clock::time_point begin;
    bool is_over = false;
  };
  const std::shared_ptr<Streaming> of(new Streaming{*this, texts, request.is_alive, asked, new_head(), begin});
  HttpAnswer answer{.content_type = "text/event-stream", .headers = {{"Cache-Control", "no-cache"}}};
  answer.next = [this, of]() -> std::optional<std::string> {
    if (of->is_over) return std::nullopt;
    const Heard heard = of->texts->wait(kGlance);
    std::string events;
    for (const Growth& growth : heard.growth) events += growth_event(of->head, {&growth, 1}, of->asked.tells_usage);
    of->is_over = heard.are_whole || !heard.failure.empty();
    if (heard.are_whole) {
      tell(200, words_of(of->asked, heard.tokens, of->begin));
      if (of->asked.tells_usage) events += usage_event(of->head, {of->asked.prompt_tokens(), heard.tokens});
      return events + last_event();
    }
    if (!heard.failure.empty()) return events + event_of(refused(ApiError(kNotNow, heard.failure)).body);
    if (!of->is_alive()) throw client_is_gone();
    return events;
  };
  return answer;
}

HttpAnswer Service::refused(const ApiError& error) {
  tell(error.status, error.what());
  HttpAnswer answer{.status = error.status, .body = to_json(error)};
  if (error.status == kNotNow) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

AnswerHead Service::new_head() {
  return {fmt::format("cmpl-{:x}-{}", started_, ++answers_), seconds_now(), served_.name};
}

// Control characters are replaced, so that text from a client cannot control the terminal that shows the log.
void Service::tell(int status, std::string what) {
  {
    const std::lock_guard lock(mutex_);
    ++by_status_[status];
  }
  if (!options_.tells_requests) return;
  std::replace_if(what.begin(), what.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7F; }, ' ');
  log_notice(fmt::format("{}: {}", status, as_utf8(what)));
}

}  // namespace moesh::serve
