// A plan made ready to run, by one owner of all devices or by several that are kept apart.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string_view>
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
  // Several owners in this process: each with memory of its own, which is closed while another one works, so that bytes move only
  // through the transport. None: one owner.
  std::optional<mesh::Owners> owners = std::nullopt;
  // Or owners in processes of their own, of which this one is one.
  transport::Processes* processes = nullptr;
  // One on the same owners whose memory is taken where it is large enough: what either of them made is gone once the other one runs.
  const class Program* scratch_of = nullptr;
  bool checks_collectives = false;  // before each of them, that all processes are about to do the same
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

// What a run tells while it goes on.
struct Observers {
  // Called with what each kernel and collective made, e.g. to find the first value that is not finite.
  std::function<void(const plan::Instruction&, const std::vector<Placed>&)> watch = nullptr;
  // Grows by the bytes that each device here sends in regions.
  std::vector<double>* sent = nullptr;
  // Called before each kernel, collective and copy: the run ends there when it says so.
  std::function<bool(const plan::Instruction&)> ends_before = nullptr;
  // Grows by the span of each kernel, collective and copy.
  std::vector<Span>* spans = nullptr;
};

// What a process takes for a plan: its state and its other buffers. With one owner, or with those that are here.
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

  // A port's value where it lies: outputs and state are read there, after a run. Of several owners the first one's that has it.
  Placed value(plan::ViewId view) const;
  Placed input(std::string_view name) const { return value_of(name, plan::Port::Kind::input); }
  Placed state(std::string_view name) const { return value_of(name, plan::Port::Kind::state); }
  Placed output(std::string_view name) const { return value_of(name, plan::Port::Kind::output); }
  // Inputs are used up: they are put anew before each run. To every owner.
  void put(plan::ViewId view, const Array& whole) const;

  void run(const Observers& observers = {});

  // In all runs that came to their end. Of a collective: how often it ran, and the bytes that devices took from others, as they
  // were exchanged.
  std::int64_t runs() const { return runs_; }
  Owner::Count count(plan::InstructionId id) const;
  std::vector<std::int64_t> all_bytes() const;  // of each instruction, by the devices of all processes: all of them ask
  std::int64_t planned_bytes() const { return bytes_of(*plan_, *devices_, here_).total(); }

 private:
  Placed value_of(std::string_view name, plan::Port::Kind kind) const;
  const plan::Instruction& instruction(plan::InstructionId id) const { return plan_->instructions[static_cast<std::size_t>(id)]; }
  template <typename Task>
  void by_each(const Task& task);  // one owner after the other, the others' memory closed
  void open_all();
  bool run_range(plan::InstructionId begin, plan::InstructionId end, const Observers& observers);  // false: it ends there
  bool run_loop(plan::InstructionId id, const Observers& observers);
  void run_one(plan::InstructionId id);
  std::string words(const transport::Place& place) const;
  void check_alike(const transport::Place& place) const;
  void run_timed(plan::InstructionId id, std::vector<Span>& spans);
  void tell(plan::InstructionId id, const Observers& observers);

  std::unique_ptr<const plan::Plan> plan_;       // owners point to it
  std::unique_ptr<const mesh::Owners> devices_;  // and to this
  std::shared_ptr<State> state_;
  bool checks_lifetimes_;
  transport::Processes* processes_;
  bool checks_collectives_;
  std::vector<int> here_;  // the owners in this process
  std::vector<std::unique_ptr<transport::Endpoint>> ends_;
  std::vector<std::unique_ptr<Owner>> owners_;
  std::int64_t runs_ = 0;
  Clock::time_point begin_;  // of the run
  Owner* open_ = nullptr;  // the one whose memory may be touched; null: all
};

// Runs a graph once, as tests do: what is read outside its life is NaN. `feeds`: a value for each input and parameter node, in
// the graph's order.
std::vector<Placed> evaluate(const graph::Graph& graph, const std::vector<Placed>& feeds, const mesh::Mesh& mesh, Workers& workers,
                             const backend::Backend& backend = backend::cpu_backend());
// The same on one device.
std::vector<Array> evaluate(const graph::Graph& graph, const std::vector<Array>& feeds, Workers& workers,
                            const backend::Backend& backend = backend::cpu_backend());

}  // namespace moesh::run
