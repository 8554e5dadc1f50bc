// What stays from run to run: parameters, moments and caches, each in one place that all programs of a process share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mesh/owners.h"
#include "plan/plan.h"
#include "run/memory.h"
#include "run/placed.h"

namespace moesh::run {

class State {
 public:
  // The place of an owner's shards of a program's state, one after the other; zeros when it is new. Programs must agree on what
  // they share, and on who owns which devices.
  const Memory& memory(const plan::Port& port, const plan::Plan& plan, const mesh::Owners& owners, int owner);

  bool has(const std::string& name) const { return slots_.contains(name); }
  // The value of that name, where it lies; none when there is none.
  Placed value(const std::string& name) const;
  void put(const std::string& name, const Array& whole) const;  // to every owner
  void clear(const std::string& name) const;

  std::int64_t bytes() const;

 private:
  struct Slot {
    Shape shape;
    DType dtype = DType::float32;
    sharding::Spec spec;
    std::int64_t pitch = 0;        // from one shard to the next
    std::vector<Memory> memories;  // of each owner
  };
  Placed of_owner(const Slot& slot, int owner) const;

  std::optional<mesh::Owners> owners_;
  std::map<std::string, Slot> slots_;
};

}  // namespace moesh::run
