// The plan, a program as it runs: a list of instructions, with loops kept as loops, on views of buffers. All devices of the mesh run the
// same list; the differences between them follow from their coordinates.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "sharding/spec.h"

namespace moesh::plan {

using BufferId = std::int32_t;
using ViewId = std::int32_t;
using InstructionId = std::int32_t;

// How long the content of a buffer is live.
enum class Lasts : std::uint8_t {
  from_run_to_run,  // state: parameters, moments, caches
  as_input,         // from the start of a run to its last use
  as_output,        // from the instruction that makes it to the end of the run
  within            // from one instruction to another
};

struct Buffer {
  std::string name;              // the path of the first value that is made in it
  Lasts lasts = Lasts::within;
  std::int64_t bytes = 0;        // of the largest shard
  sharding::AxisList distinct;   // the axes along which devices have different shards, sorted
};

// In each iteration of the loop the view moves on by `by` times its own size (if it is split, the size of its dims after the split).
struct Advance {
  InstructionId loop = -1;
  std::int64_t by = 1;
  bool operator==(const Advance&) const = default;
};

// A value in a buffer: row-major, with each shard packed to its own extents, and dense unless it is split.
struct View {
  BufferId buffer = -1;
  Shape shape;           // global; in a region, the shape on one device
  DType dtype = DType::float32;
  sharding::Spec spec;   // how the global value is sharded
  std::vector<Advance> advances;
  // One of `stacked` slices of a value in which the stacked dim comes after the first `split` dims: a step along these passes over
  // `stacked` slices, each of the size of the other dims. 0: dense.
  int split = 0;
  std::int64_t stacked = 1;
  // The view of counts whose sum is the number of valid rows (indices of the first dim); -1: all rows are valid.
  ViewId rows = -1;

  bool is_dense() const { return split == 0; }
};

struct Instruction {
  enum class Kind : std::uint8_t {
    kernel,      // touches only the memory of one device
    collective,  // an exchange between the devices of a group
    copy,        // of a value to the place where it is wanted
    loop,        // repeats the instructions up to its `end`
    end
  };
  Kind kind = Kind::kernel;
  graph::Op op = graph::Op::input;  // of a kernel or collective
  std::string path;                 // of the node that it comes from
  graph::Phase phase = graph::Phase::forward;  // of that node
  graph::Attributes attributes;
  std::vector<ViewId> operands;
  std::vector<ViewId> results;
  std::int64_t count = 1;  // a loop's iterations
  bool reverse = false;    // run from the last iteration to the first
  InstructionId other = -1;  // the end of a loop, or the loop of an end
};

// A named value of the plan that the caller feeds (input), keeps from run to run (state) or reads (output).
struct Port {
  enum class Kind : std::uint8_t { input, state, output };
  Kind kind = Kind::input;
  std::string name;
  ViewId view = -1;
  int first = 0;  // the dim, of the value as the caller feeds and reads it, that comes first in memory
};

struct Plan {
  mesh::Mesh mesh{{}};
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<Instruction> instructions;
  std::vector<Port> ports;       // the graph's roots in order, then the outputs
  std::vector<ViewId> results;   // the graph's results in order: state or outputs

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<std::size_t>(id)]; }
  const View& view(ViewId id) const { return views[static_cast<std::size_t>(id)]; }
  const Buffer& buffer_of(ViewId id) const { return buffer(view(id).buffer); }
  std::unordered_map<std::string, ViewId> views_of_states() const;  // by name
};

// A collective of a region: it runs beside the products behind it, until something needs what it brings.
bool runs_beside_products(const Instruction& instruction);

// Whether the instruction leaves values unchanged.
bool only_moves(const Instruction& instruction);

// The axes in which the devices differ between which a collective sends.
const sharding::AxisList& axes_of(const Instruction& collective);

// Whether one of them waits for the other, even if it needs nothing of it.
inline bool share_wire(const Instruction& a, const Instruction& b) { return !sharding::shared(axes_of(a), axes_of(b)).empty(); }

// By instruction: how often it runs in a run of the plan.
std::vector<std::int64_t> runs_of(const Plan& plan);

}  // namespace moesh::plan
