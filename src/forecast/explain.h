// Why a collective is there: what it moves, who reads it, and what the partitioner chose between.
#pragma once

#include <string>
#include <vector>

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
  End made, read;
};

// `name`: "c12". Refuses one that the plan lacks.
Explanation explain(const Forecast& forecast, const plan::Plan& plan, const std::vector<partition::Choice>& choices,
                    const std::string& name);

std::string to_text(const Explanation& explanation, const mesh::Mesh& mesh, int width);
std::string to_json(const Explanation& explanation, const mesh::Mesh& mesh);

}  // namespace moesh::forecast
