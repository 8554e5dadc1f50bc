// What the server says: completions whole and in pieces, as OpenAI's interface has them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "serve/texts.h"

namespace moesh::serve {

// What stands in each piece of an answer.
struct AnswerHead {
  std::string id;
  std::int64_t created = 0;  // seconds since 1970
  std::string model;
};

struct Usage {
  std::int64_t prompt_tokens = 0, completion_tokens = 0;
};

// All texts, whole.
std::string completion_json(const AnswerHead& head, std::span<const Growth> texts, const Usage& usage);

// An event of a stream: what came to texts. `tells_usage`: the stream ends with the usage, and says so in each event.
std::string growth_event(const AnswerHead& head, std::span<const Growth> texts, bool tells_usage);
std::string usage_event(const AnswerHead& head, const Usage& usage);
std::string event_of(const std::string& json);
std::string last_event();

}  // namespace moesh::serve
