// A program as it runs: instructions in order, loops kept as loops, on views of buffers. It is one list for all devices of a
// mesh; what differs from one to another follows from their coordinates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "mesh/mesh.h"
#include "sharding/spec.h"

namespace moesh::plan {

using BufferId = std::int32_t;
using ViewId = std::int32_t;
using InstructionId = std::int32_t;

// How long a buffer's content is needed.
enum class Lasts : std::uint8_t {
  from_run_to_run,  // parameters, moments, caches
  as_input,         // from the start of a run to its last use
  as_output,        // from the instruction that makes it to the end of the run
  within            // from one instruction to another
};

struct Buffer {
  std::string name;              // the path of what is made in it first
  Lasts lasts = Lasts::within;
  std::int64_t bytes = 0;        // of the largest shard
  sharding::AxisList distinct;   // sorted: the axes along which devices have shards of their own
};

// With each iteration of the loop a view moves on by so many of its own sizes.
struct Advance {
  InstructionId loop = -1;
  std::int64_t by = 1;
  bool operator==(const Advance&) const = default;
};

// A value in a buffer: dense, row-major, each shard packed at its own extents.
struct View {
  BufferId buffer = -1;
  Shape shape;           // of the whole value; in a region, of one device's
  DType dtype = DType::float32;
  sharding::Spec spec;   // how the whole is cut
  std::vector<Advance> advances;
  // A slice of a value that is stacked behind its first `split` dims: those step over `stacked` slices. 0: dense.
  int split = 0;
  std::int64_t stacked = 1;
  // As many of its first dim exist as the numbers in this view add up to; -1: all.
  ViewId rows = -1;

  bool is_dense() const { return split == 0; }
};

struct Instruction {
  enum class Kind : std::uint8_t {
    kernel,      // on the memory of one device
    collective,  // what devices of a group exchange
    copy,        // of a value to where it is wanted
    loop,        // what stands between it and its `end`
    end
  };
  Kind kind = Kind::kernel;
  graph::Op op = graph::Op::input;  // of a kernel or collective
  std::string path;                 // of the node that it comes from
  graph::Phase phase = graph::Phase::forward;  // of it
  graph::Attributes attributes;
  std::vector<ViewId> operands;
  std::vector<ViewId> results;
  std::int64_t count = 1;  // of a loop's iterations
  bool reverse = false;    // from the last iteration to the first
  InstructionId other = -1;  // a loop's end, an end's loop
};

// A buffer's value by its name: what is fed, kept and read.
struct Port {
  enum class Kind : std::uint8_t { input, state, output };
  Kind kind = Kind::input;
  std::string name;
  ViewId view = -1;
  int first = 0;  // the dim of the value, as it is fed and read, that comes first in memory
};

struct Plan {
  mesh::Mesh mesh{{}};
  std::vector<Buffer> buffers;
  std::vector<View> views;
  std::vector<Instruction> instructions;
  std::vector<Port> ports;       // first the graph's roots, in order
  std::vector<ViewId> results;   // of the graph, in order: state or outputs

  const Buffer& buffer(BufferId id) const { return buffers[static_cast<std::size_t>(id)]; }
  const View& view(ViewId id) const { return views[static_cast<std::size_t>(id)]; }
  const Buffer& buffer_of(ViewId id) const { return buffer(view(id).buffer); }
  const Port* find_port(std::string_view name, Port::Kind kind) const;
};

// Elements of the largest shard.
std::int64_t shard_elements(const View& view, const mesh::Mesh& mesh);

}  // namespace moesh::plan
