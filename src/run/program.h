// A plan that is ready to run, by one owner of all devices or by several that are kept separate.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "base/clock.h"
#include "mesh/owners.h"
#include "plan/plan.h"
#include "run/owner.h"
#include "run/placed.h"
#include "run/state.h"
#include "transport/endpoint.h"
#include "transport/processes.h"

namespace moesh::run {

struct ProgramOptions {
  const backend::Backend& backend = backend::cpu_backend();
  // Several owners in this process, each with memory of its own, which is inaccessible while another one works, so that bytes move
  // only through the transport. None: one owner.
  std::optional<mesh::Owners> owners = std::nullopt;
  // Alternatively, owners in separate processes, of which this is one.
  transport::Processes* processes = nullptr;
  // A program of the same owners whose memory is used if it is large enough. What one of the two has made is gone once the other one runs.
  const class Program* scratch_of = nullptr;
  bool checks_collectives = false;  // before each collective, that all processes are about to run the same one
#ifdef NDEBUG
  bool checks_lifetimes = false;
#else
  bool checks_lifetimes = true;
#endif
};

// When an instruction ran, in seconds since the run began.
struct Span {
  plan::InstructionId instruction = -1;
  double begin = 0;
  double end = 0;
};

// What a run reports while it goes on.
struct Observers {
  // Called with the results of each kernel and collective, e.g. to find the first value that is not finite.
  std::function<void(const plan::Instruction&, const std::vector<Placed>&)> watch = nullptr;
  // Set to the bytes that each device sends in regions to the devices of this process.
  std::vector<double>* sent = nullptr;
  // Called before each kernel, collective and copy: the run ends there if it returns true.
  std::function<bool(const plan::Instruction&)> ends_before = nullptr;
  // Gets the span of each kernel, collective and copy appended.
  std::vector<Span>* spans = nullptr;
};

// The bytes that a process needs for a plan: for its state and for its other buffers. The first function is for one owner of all
// devices, the second for the owners that are here.
struct Taken {
  std::int64_t state = 0;
  std::int64_t scratch = 0;

  std::int64_t total() const { return state + scratch; }
};
Taken bytes_of(const plan::Plan& plan);
Taken bytes_of(const plan::Plan& plan, const mesh::Owners& owners, const std::vector<int>& here);

class Program {
 public:
  Program(plan::Plan plan, std::shared_ptr<State> state, Workers& workers, const ProgramOptions& options = {});

  const plan::Plan& plan() const { return *plan_; }
  const mesh::Mesh& mesh() const { return plan_->mesh; }
  std::int64_t bytes() const;  // without the state
  std::int64_t state_bytes() const { return state_->bytes(); }

  // A port's value in place: outputs and state are read there after a run. If several owners have a shard, it is the first one's.
  Placed value(plan::ViewId view) const;
  Placed input(std::string_view name) const { return value_of(name, plan::Port::Kind::input); }
  Placed state(std::string_view name) const { return value_of(name, plan::Port::Kind::state); }
  Placed output(std::string_view name) const { return value_of(name, plan::Port::Kind::output); }
  // Copies an input to every owner. A run consumes its inputs: they must be put again before each run.
  void put(plan::ViewId view, const Array& whole) const;

  void run(const Observers& observers = {});

  // Over all runs that were completed. For a collective: how often it ran, and the bytes that devices received from others, counted
  // as they were exchanged.
  std::int64_t runs() const { return runs_; }
  Owner::Count count(plan::InstructionId id) const;
  std::vector<std::int64_t> all_bytes() const;  // per instruction, over the devices of all processes, which must all call it
  std::int64_t planned_bytes() const { return bytes_of(*plan_, *devices_, here_).total(); }

 private:
  Placed value_of(std::string_view name, plan::Port::Kind kind) const;
  const plan::Instruction& instruction(plan::InstructionId id) const { return plan_->instructions[static_cast<std::size_t>(id)]; }
  template <typename Task>
  void by_each(const Task& task);  // runs one owner after the other, with the others' memory inaccessible
  void open_all();
  bool run_range(plan::InstructionId begin, plan::InstructionId end, const Observers& observers);  // false: an observer ended the run
  bool run_loop(plan::InstructionId id, const Observers& observers);
  void run_one(plan::InstructionId id);
  std::string words(const transport::Place& place) const;
  void check_alike(const transport::Place& place) const;
  void run_timed(plan::InstructionId id, std::vector<Span>& spans);
  void tell(plan::InstructionId id, const Observers& observers);

  std::unique_ptr<const plan::Plan> plan_;       // owners point to it
  std::map<std::pair<plan::Port::Kind, std::string_view>, const plan::Port*> ports_;
  std::unique_ptr<const mesh::Owners> devices_;  // and owners point to this
  std::shared_ptr<State> state_;
  bool checks_lifetimes_;
  transport::Processes* processes_;
  bool checks_collectives_;
  std::vector<int> here_;  // the owners in this process
  std::vector<std::unique_ptr<transport::Endpoint>> ends_;
  std::vector<std::unique_ptr<Owner>> owners_;
  std::int64_t runs_ = 0;
  Clock::time_point begin_;  // start of the run
  Owner* open_ = nullptr;  // the owner whose memory is accessible; null: all of them
};

// Runs a graph once, as tests do: what is read outside its lifetime is NaN. `feeds`: a value for each input and parameter node, in
// the graph's order.
std::vector<Placed> evaluate(const graph::Graph& graph, const std::vector<Placed>& feeds, const mesh::Mesh& mesh, Workers& workers,
                             const backend::Backend& backend = backend::cpu_backend());
// The same on one device.
std::vector<Array> evaluate(const graph::Graph& graph, const std::vector<Array>& feeds, Workers& workers,
                            const backend::Backend& backend = backend::cpu_backend());

}  // namespace moesh::run
