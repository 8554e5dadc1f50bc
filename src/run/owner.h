// Runs a plan on the devices of one owner: holds their memory, and knows for each instruction what is called on which addresses.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "mesh/owners.h"
#include "plan/arena.h"
#include "plan/plan.h"
#include "run/lifetime_checks.h"
#include "run/memory.h"
#include "run/placed.h"
#include "run/state.h"
#include "transport/endpoint.h"
#include "transport/exchange.h"
#include "transport/group.h"
#include "transport/rows.h"

namespace moesh::run {

class Owner {
 public:
  // Everything it refers to must outlive the owner.
  struct Setup {
    const plan::Plan& plan;
    const mesh::Owners& owners;
    int self = 0;
    const State& state;  // with room for the plan's state
    Workers& workers;
    const backend::Backend& backend;
    bool checks_lifetimes = false;
    transport::Endpoint* wire = nullptr;  // null if there is no other owner
    const Memory* scratch = nullptr;      // see ProgramOptions
  };
  explicit Owner(const Setup& setup);

  std::int64_t bytes() const { return memory_.bytes() - gaps_; }  // without the state and what only checks need
  const Memory& memory() const { return memory_; }
  void close(bool is_closed) const;                       // makes its memory and state inaccessible, or accessible again

  // A collective has rounds: in each, all owners send before any of them receives. Other instructions have no rounds and are launched.
  int rounds(plan::InstructionId id) const;
  void launch(plan::InstructionId id);
  void send(plan::InstructionId id, int round);
  void receive(plan::InstructionId id, int round);
  // Moves the views of a loop by this many iterations, forward or back.
  void advance(plan::InstructionId loop, std::int64_t iterations);
  void rewind();  // after a run ended inside a loop: the next run starts from the loop's first iteration

  const LifetimeChecks* checks() const { return checks_.get(); }
  // Its shards of a value, in the order of OwnedShards.
  Placed value(plan::ViewId view) const;
  // The same for what an instruction made last, with the rows that really exist.
  std::vector<Placed> made(plan::InstructionId id) const;

  // For a collective, over all runs that were completed: how often it ran, and the bytes that its devices received from others.
  struct Count {
    std::int64_t runs = 0;
    std::int64_t bytes = 0;
  };
  const Count& count(plan::InstructionId id) const { return prepared_[static_cast<std::size_t>(id)].counted; }
  void end_run(bool is_whole);
  // Adds to `sent`, from here on, the bytes that each device sends in regions to devices of this owner.
  void count_sent(std::vector<double>* sent) { sent_ = sent; }

 private:
  // A view of which only some rows exist: as many as the numbers in another view add up to.
  struct Rows {
    std::size_t view;
    std::size_t counts;
    std::int64_t room;
  };
  // One call of a kernel. Its views stand one after the other, operands first.
  struct Launch {
    std::size_t views = 0;
    std::size_t operands = 0;
    std::size_t results = 0;
    std::vector<Shape> origins;
    std::int64_t member = 0;
    std::int64_t members = 1;
    std::vector<int> owners;      // in a collective: the owner of each member's operands; -1: here
    std::vector<char> is_packed;  // whether each member's operands come in a message
    // Devices of this owner that get this result, and which member of the group each of them is.
    struct Taker {
      std::int64_t device, member;
      std::vector<std::int64_t> senders;  // number of the device that each member is
    };
    std::vector<Taker> takers;
    std::vector<Rows> rows;
  };
  // What a device of another owner needs from a device of this one.
  struct Outgoing {
    int owner;
    std::size_t views;  // the first operand
    std::int64_t from, to;
    std::vector<Rows> rows;
  };
  struct Moved {
    std::size_t view;
    std::int64_t bytes;
  };
  struct Prepared {
    backend::Kernel kernel = nullptr;
    transport::RowCollective rows = nullptr;
    std::vector<Launch> launches;
    std::vector<Outgoing> outgoing;
    std::vector<transport::Exchange> exchanges;  // the rounds of a collective on whole shards, which has one launch
    std::vector<Moved> moved;                    // in a loop: how far each view moves per iteration
    Count counted, of_this_run;
  };
  struct Layouts;

  const plan::Instruction& instruction(plan::InstructionId id) const { return plan_.instructions[static_cast<std::size_t>(id)]; }
  Prepared& prepared(plan::InstructionId id) { return prepared_[static_cast<std::size_t>(id)]; }
  const sharding::OwnedShards& shards(const sharding::AxisList& distinct) const;
  std::int64_t stored_bytes(const plan::Buffer& buffer) const;
  std::byte* address(const plan::View& view, const Coordinates& at) const;
  std::int64_t unit_bytes(const plan::View& view, const Coordinates& at) const;
  Shape shape_at(const plan::View& view, const Coordinates& at) const;
  std::size_t add_view(plan::ViewId id, const Coordinates& at);
  std::vector<Rows> add_views(const std::vector<std::pair<plan::ViewId, Coordinates>>& views);
  void prepare(plan::InstructionId id);
  void prepare_kernel(const plan::Instruction& instruction, Prepared& prepared);
  void prepare_rows(const plan::Instruction& instruction, Prepared& prepared);
  Launch rows_launch(const plan::Instruction& instruction, const Coordinates& at);
  void prepare_outgoing(const plan::Instruction& instruction, int owner, Prepared& prepared);
  sharding::AxisList sent_axes(const plan::Instruction& instruction) const;
  void prepare_copy(const plan::Instruction& instruction, Prepared& prepared);
  void prepare_exchange(const plan::Instruction& instruction, Prepared& prepared);
  void count_rows(const std::vector<Rows>& rows);
  void run_copy(const plan::Instruction& instruction, const Launch& launch) const;
  void send_rows(const plan::Instruction& instruction, const Prepared& prepared);
  void receive_rows(const plan::Instruction& instruction, Prepared& prepared);
  void unpack(const plan::Instruction& instruction, const Launch& launch, std::span<const std::byte*> messages);
  void count_moved(const plan::Instruction& instruction, const Launch& launch, Prepared& prepared);
  std::span<const View> views(std::size_t first, std::size_t count) const { return {views_.data() + first, count}; }

  const plan::Plan& plan_;
  const mesh::Owners& owners_;
  int self_;
  Workers& workers_;
  const backend::Backend& backend_;
  const State& state_;
  transport::Endpoint* wire_;
  mutable std::map<sharding::AxisList, sharding::OwnedShards> shards_;  // made when they are first needed
  plan::Arena arena_;
  Memory memory_;
  std::int64_t gaps_ = 0;  // bytes between buffers, for lifetime checks
  std::vector<std::byte*> begins_;  // address of each buffer
  std::vector<std::shared_ptr<std::byte>> held_;
  std::unique_ptr<LifetimeChecks> checks_;
  std::vector<Prepared> prepared_;  // one per instruction
  std::vector<View> views_;
  std::vector<std::byte*> starts_;  // of each view, before any loop has moved it
  std::vector<double>* sent_ = nullptr;
  std::array<View, 4> handed_;  // operands of a collective while its bytes are counted
};

}  // namespace moesh::run
