// A plan made ready for this process: its memory, and for each instruction what is called on which addresses.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "plan/arena.h"
#include "plan/plan.h"
#include "run/exchange.h"
#include "run/kernel.h"
#include "run/lifetime_checks.h"
#include "run/memory.h"
#include "run/placed.h"
#include "run/state.h"
#include "run/workers.h"

namespace moesh::run {

struct ProgramOptions {
#ifdef NDEBUG
  bool checks_lifetimes = false;
#else
  bool checks_lifetimes = true;
#endif
};

// What a run tells while it goes on.
struct Observers {
  // Called with what each kernel and collective made, e.g. to find the first value that is not finite.
  std::function<void(const plan::Instruction&, const std::vector<Placed>&)> watch = nullptr;
  // Grows by the bytes that each device sends in regions.
  std::vector<double>* sent = nullptr;
  // Called before each kernel, collective and copy: the run ends there when it says so.
  std::function<bool(const plan::Instruction&)> ends_before = nullptr;
};

class Program {
 public:
  Program(plan::Plan plan, std::shared_ptr<State> state, Workers& workers, const ProgramOptions& options = {});

  const plan::Plan& plan() const { return plan_; }
  const mesh::Mesh& mesh() const { return plan_.mesh; }
  std::int64_t bytes() const { return memory_.bytes(); }  // without the state
  std::int64_t state_bytes() const { return state_->bytes(); }

  // A port's value where it lies: inputs and state are written there, before a run; outputs and state are read there, after it.
  Placed value(plan::ViewId view) const;
  Placed input(std::string_view name) const { return value_of(name, plan::Port::Kind::input); }
  Placed state(std::string_view name) const { return value_of(name, plan::Port::Kind::state); }
  Placed output(std::string_view name) const { return value_of(name, plan::Port::Kind::output); }

  // Inputs are used up: they are fed again before the next run.
  void run(const Observers& observers = {});

 private:
  // One call of a kernel: its views stand one after the other, operands first.
  struct Launch {
    std::size_t views = 0;
    std::size_t operands = 0;
    std::size_t results = 0;
    std::vector<Shape> origins;
    std::int64_t member = 0;
    std::int64_t members = 1;
    // A view of which only as many rows exist as another one counts.
    struct Rows {
      std::size_t view;
      std::size_t counts;
      std::int64_t room;
    };
    std::vector<Rows> rows;
  };
  struct Layouts;
  struct Moved {
    std::size_t view;
    std::int64_t bytes;
  };
  struct Prepared {
    Kernel kernel = nullptr;
    std::vector<Launch> launches;
    std::optional<Exchange> exchange;  // of all shards, in one launch
    std::vector<Moved> moved;          // of a loop: by an iteration
  };

  Placed value_of(std::string_view name, plan::Port::Kind kind) const;
  const plan::Instruction& instruction(plan::InstructionId id) const { return plan_.instructions[static_cast<std::size_t>(id)]; }
  std::byte* address(const plan::View& view, const Coordinates& at) const;
  std::int64_t unit_bytes(const plan::View& view, const Coordinates& at) const;
  std::size_t add_view(plan::ViewId id, const Coordinates& at);
  void add_rows(Launch& launch, std::size_t view, plan::ViewId counts, const Coordinates& at);
  void prepare(plan::InstructionId id);
  void prepare_kernel(const plan::Instruction& instruction, Prepared& prepared);
  Launch prepare_launch(const plan::Instruction& instruction, const Coordinates& at, std::size_t coordinates);
  void prepare_copy(const plan::Instruction& instruction, Prepared& prepared);
  void prepare_exchange(const plan::Instruction& instruction, Prepared& prepared);
  void count_rows(const Launch& launch);
  void move(const Prepared& loop, std::int64_t iterations);
  bool run_range(plan::InstructionId begin, plan::InstructionId end, const Observers& observers);  // false: it ends there
  bool run_loop(plan::InstructionId id, const Observers& observers);
  void rewind();
  void run_one(plan::InstructionId id);
  void run_copy(const plan::Instruction& instruction, const Launch& launch) const;
  void tell(plan::InstructionId id, const Observers& observers) const;
  std::vector<Placed> placed(plan::InstructionId id, bool results) const;

  plan::Plan plan_;
  std::shared_ptr<State> state_;
  Workers& workers_;
  plan::Arena arena_;
  Memory memory_;
  std::vector<std::byte*> begins_;  // of each buffer
  std::vector<std::shared_ptr<std::byte>> owners_;
  std::unique_ptr<LifetimeChecks> checks_;
  std::vector<Prepared> prepared_;  // of each instruction
  std::vector<View> views_;
  std::vector<std::byte*> starts_;  // of the views before any loop
};

// What a process takes for a plan: its state and its other buffers.
std::int64_t bytes_of(const plan::Plan& plan);

// Runs a graph once, as tests do: what is read outside its life is NaN. `feeds`: a value for each input and parameter node, in the graph's order.
std::vector<Placed> evaluate(const graph::Graph& graph, const std::vector<Placed>& feeds, const mesh::Mesh& mesh, Workers& workers);
// The same on one device.
std::vector<Array> evaluate(const graph::Graph& graph, const std::vector<Array>& feeds, Workers& workers);

}  // namespace moesh::run
