// Explains why a collective is there: what it moves, what reads it, and between which alternatives the partitioner chose.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "forecast/forecast.h"
#include "partition/partition.h"

namespace moesh::forecast {

// One end of a collective: the op that makes or reads the value, and the partitioner's choice for that op, if there was one.
struct End {
  std::string op;
  std::string path;
  std::string value;  // its dtype, shape and spec at this op
  const partition::Choice* choice = nullptr;
};

struct Explanation {
  const Sent& sent;
  std::string from, to;  // the value's spec before and after the collective
  End made, read;
};

// `name`: "c12". Refuses a name that the plan lacks.
const Sent& sent_named(const Forecast& forecast, const std::string& name);

// The collectives in whose kind, axes, phase or paths each of the words is found, the longest-running first. If there are none, refuses
// the words, and tells which known words are nearest, or what each word finds alone.
std::vector<const Sent*> sent_at(const Forecast& forecast, const std::string& words);

Explanation explain(const Sent& sent, const plan::Plan& plan, const std::vector<partition::Choice>& choices);

std::string to_text(const Explanation& explanation, const mesh::Mesh& mesh, int width);
void write(const Explanation& explanation, const mesh::Mesh& mesh, JsonWriter& json);

}  // namespace moesh::forecast
