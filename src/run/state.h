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
#include "store/parts.h"

namespace moesh::run {

class State {
 public:
  // Where shards of one owner lie, one after the other.
  struct Place {
    Memory block;  // with other state that was new when it was
    std::int64_t offset = 0;
    std::int64_t bytes = 0;

    std::byte* begin() const { return block.at(offset); }
  };
  // Makes room for the state of a program, as far as it is new: zeros. Programs must agree on what they share, and on who owns which
  // devices. `here`: the owners in this process.
  void take(const plan::Plan& plan, const mesh::Owners& owners, const std::vector<int>& here);
  const Place& place(const std::string& name, int owner) const { return slots_.at(name).places[static_cast<std::size_t>(owner)]; }
  void close(int owner, bool is_closed) const;  // an owner's memory

  bool has(const std::string& name) const { return slots_.contains(name); }
  // The value of that name, where it lies; none when there is none.
  Placed value(const std::string& name) const;
  // The shards of the owners here where they lie, as parts of the value that others see.
  std::vector<store::Part> parts(const std::string& name) const;
  // What of a value this process is to write where each writes a part: what nobody else has, and its share of what others have too.
  std::vector<store::Block> share(const std::string& name) const;
  void put(const std::string& name, const Array& whole) const;  // to every owner here
  void clear(const std::string& name) const;

  std::int64_t bytes() const;

 private:
  struct Slot {
    Shape shape;
    DType dtype = DType::float32;
    sharding::Spec spec;
    int first = 0;              // as the port's
    std::int64_t pitch = 0;     // from one shard to the next
    std::vector<Place> places;  // of each owner; empty ones of those that are not here
  };
  void check(const Slot& slot, const plan::Port& port, const plan::View& view) const;
  Placed of_owner(const Slot& slot, int owner) const;

  std::optional<mesh::Owners> owners_;
  std::vector<int> here_;
  std::map<std::string, Slot> slots_;
  std::vector<std::vector<Memory>> blocks_;  // of each owner
};

}  // namespace moesh::run
