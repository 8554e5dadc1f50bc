// Why a collective is there: what it moves, who reads it, and what the partitioner chose between.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "forecast/forecast.h"
#include "partition/partition.h"

namespace moesh::forecast {

// One end of a collective's way: an op, and the choice that was made for it where there was one.
struct End {
  std::string op;
  std::string path;
  std::string value;  // as it is there
  const partition::Choice* choice = nullptr;
};

struct Explanation {
  const Sent& sent;
  std::string from, to;  // the value's specs before and after it
  End made, read;
};

// `name`: "c12". Refuses one that the plan lacks.
const Sent& sent_named(const Forecast& forecast, const std::string& name);

// Those in whose kind, axes, phase or paths each of the words is found, the dearest first. Refuses words that find nothing, with the
// nearest ones and what some of them find.
std::vector<const Sent*> sent_at(const Forecast& forecast, const std::string& words);

Explanation explain(const Sent& sent, const plan::Plan& plan, const std::vector<partition::Choice>& choices);

std::string to_text(const Explanation& explanation, const mesh::Mesh& mesh, int width);
void write(const Explanation& explanation, const mesh::Mesh& mesh, JsonWriter& json);

}  // namespace moesh::forecast
