// What stays from run to run: parameters, moments and caches, each in one place that all programs of a process share.
#pragma once

#include <map>
#include <string>

#include "plan/plan.h"
#include "run/memory.h"
#include "run/placed.h"

namespace moesh::run {

class State {
 public:
  struct Slot {
    Shape shape;
    DType dtype = DType::float32;
    sharding::Spec spec;
    Memory memory;  // the shards, one after the other
  };

  // The place of a program's state, zeros when it is new. Programs must agree on what they share.
  const Slot& slot(const plan::Port& port, const plan::Plan& plan);

  // The value of that name, where it lies; none when there is none.
  Placed value(const std::string& name, const mesh::Mesh& mesh) const;

  std::int64_t bytes() const;

 private:
  std::map<std::string, Slot> slots_;
};

}  // namespace moesh::run
