// A planned step, with the words that a page says about it.
#pragma once

#include <string>

#include "forecast/forecast.h"

namespace moesh::forecast {

struct ShownPlan {
  std::string name;      // "before"; empty if it is the only plan
  std::string headline;  // "mixtral-8x7b on v6e-8: 8 devices as fsdp=2 x expert=4, default rules"
  std::string batch;     // "256 rows of 2,048 tokens a step, 4 a device"
  std::string command;   // the command that makes the plan
  const Forecast& forecast;
  const plan::Plan& plan;
  const sharding::Layout& layout;
  const mesh::Topology& target;
};

}  // namespace moesh::forecast
