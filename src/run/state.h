// State that stays from run to run: parameters, moments and caches, each in one place that all programs of a process share.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "mesh/owners.h"
#include "plan/plan.h"
#include "run/memory.h"
#include "run/placed.h"
#include "store/parts.h"

namespace moesh::run {

class State {
 public:
  // Where shards of one owner lie, one after the other.
  struct Place {
    Memory block;  // shared with other state that was allocated at the same time
    std::int64_t offset = 0;
    std::int64_t bytes = 0;

    std::byte* begin() const { return block.at(offset); }
  };
  // Allocates the state of a program as far as it does not exist yet, filled with zeros. Programs must agree on the state that they
  // share, and on who owns which devices. `here`: the owners in this process.
  void take(const plan::Plan& plan, const mesh::Owners& owners, const std::vector<int>& here);
  const Place& place(const std::string& name, int owner) const { return slots_.at(name).places[static_cast<std::size_t>(owner)]; }
  void close(int owner, bool is_closed) const;  // makes an owner's memory inaccessible, or accessible again

  // The value of that name, in place; empty if there is none.
  Placed value(const std::string& name) const;
  // The shards of the owners here, in place, as parts of the value that others see.
  std::vector<store::Part> parts(const std::string& name) const;
  // The blocks of a value that this process writes if each process writes a part: what nobody else has, and its share of what
  // others have too.
  std::vector<store::Block> share(const std::string& name) const;
  void put(const std::string& name, const Array& whole) const;  // to every owner here
  void clear(const std::string& name) const;

  std::int64_t bytes() const;

 private:
  struct Slot {
    Shape shape;
    DType dtype = DType::float32;
    sharding::Spec spec;
    int first = 0;              // see plan::Port
    std::int64_t pitch = 0;     // bytes from one shard to the next
    std::vector<Place> places;  // of each owner; empty for those that are not here
  };
  void check(const Slot& slot, const plan::Port& port, const plan::View& view) const;
  Placed of_owner(const Slot& slot, int owner) const;

  std::optional<mesh::Owners> owners_;
  std::vector<int> here_;
  std::map<std::string, Slot> slots_;
  std::vector<std::vector<Memory>> blocks_;  // per owner
};

}  // namespace moesh::run
