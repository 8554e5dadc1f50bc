#include "serve/answers.h"

#include "base/json.h"

namespace moesh::serve {
namespace {

JsonWriter begun(const AnswerHead& head) {
  JsonWriter json;
  json.begin_object().key("id").value(head.id).key("object").value("text_completion");
  json.key("created").value(head.created).key("model").value(head.model);
  return json;
}

void write_texts(JsonWriter& json, std::span<const Growth> texts) {
  json.key("choices").begin_array();
  for (const Growth& text : texts) {
    json.begin_object().key("index").value(static_cast<std::int64_t>(text.text)).key("text").value(text.more).key("logprobs").null();
    json.key("finish_reason");
    if (const char* const reason = decode::finish_reason(text.ended)) json.value(reason);
    else json.null();
    json.end_object();
  }
  json.end_array();
}

void write_usage(JsonWriter& json, const Usage& usage) {
  json.key("usage").begin_object().key("prompt_tokens").value(usage.prompt_tokens);
  json.key("completion_tokens").value(usage.completion_tokens);
  json.key("total_tokens").value(usage.prompt_tokens + usage.completion_tokens).end_object();
}

}  // namespace

std::string completion_json(const AnswerHead& head, std::span<const Growth> texts, const Usage& usage) {
  JsonWriter json = begun(head);
  write_texts(json, texts);
  write_usage(json, usage);
  return json.end_object().text();
}

std::string growth_event(const AnswerHead& head, std::span<const Growth> texts, bool tells_usage) {
  JsonWriter json = begun(head);
  write_texts(json, texts);
  if (tells_usage) json.key("usage").null();
  return event_of(json.end_object().text());
}

std::string usage_event(const AnswerHead& head, const Usage& usage) {
  JsonWriter json = begun(head);
  write_texts(json, {});
  write_usage(json, usage);
  return event_of(json.end_object().text());
}

std::string event_of(const std::string& json) { return "data: " + json + "\n\n"; }

std::string last_event() { return event_of("[DONE]"); }

}  // namespace moesh::serve
