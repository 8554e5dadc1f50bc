// Writes the server's answers in the format of OpenAI's completions interface: whole, or as events of a stream.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "serve/texts.h"

namespace moesh::serve {

// The fields that every piece of an answer repeats.
struct AnswerHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
};

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
};

// An answer with all texts, complete.
std::string completion_json(const AnswerHead& head, std::span<const Growth> texts, const Usage& usage);

// An event of a stream, with the new part of each text. `tells_usage`: the stream ends with the usage, which is null in this event.
std::string growth_event(const AnswerHead& head, std::span<const Growth> texts, bool tells_usage);
std::string usage_event(const AnswerHead& head, const Usage& usage);
std::string event_of(const std::string& json);
std::string last_event();

}  // namespace moesh::serve
