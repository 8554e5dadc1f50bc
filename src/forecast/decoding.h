// What a step of decoding takes besides time and memory: its rows, and their KV cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "sharding/layout.h"

namespace moesh::forecast {

struct Forecast;

// A tensor of the KV cache, of all layers if they are scanned.
struct CacheTensor {
  std::string path;
  DType dtype = DType::float32;
  Shape shape;              // global
  std::string spec;         // "[-, -, -, expert, -]"
  std::int64_t bytes = 0;   // on a device
  std::int64_t copies = 1;  // devices that hold the same part
};

// The most rows that fit on the target.
struct MostRows {
  std::int64_t rows = 0;  // 0: not a single one
  double per_device_batch_size = 0;
};

struct Decoding {
  std::int64_t rows = 1;
  std::int64_t new_tokens = 1;  // of each row in a step: 1, or the length of the prompts
  std::int64_t slots = 1;       // tokens of a row that the cache has room for
  std::vector<CacheTensor> cache;
  std::optional<MostRows> most;  // nothing if they were not looked for

  std::int64_t cache_bytes() const;  // on a device
  bool is_prompt() const { return new_tokens > 1; }
};

Decoding decoding_of(const sharding::Layout& layout, std::int64_t rows, std::int64_t new_tokens, std::int64_t slots);

// What a step takes: "a token", "a prompt".
std::string step_words(const Forecast& forecast);

// What tells a command to plan this step: "--decode ", "--prefill ", or nothing for a training step.
std::string_view option_words(const Forecast& forecast);

// For a forecast that has `decoding`: its speed and the rows that fit as sentences, the KV cache as a table, and everything as JSON.
std::string decoding_words(const Forecast& forecast);
std::string cache_table(const Decoding& decoding, int width);
void write_decoding(const Forecast& forecast, JsonWriter& json);

// "1,234", or with a decimal place for slow ones, such as "12.3".
std::string rate_words(double tokens_per_second);

// "1,840", "none", or nothing if they were not looked for.
std::string most_rows_words(const Decoding& decoding);

}  // namespace moesh::forecast
