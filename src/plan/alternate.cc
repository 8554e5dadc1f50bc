#include "plan/alternate.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "base/place.h"
#include "graph/parts.h"
#include "graph/work.h"
#include "plan/verify.h"

namespace moesh::plan {
namespace {

using Kind = Instruction::Kind;

constexpr std::int64_t kFewer = 8;  // what brings so many times fewer bytes than others brings no rows, but their counts

struct Step {
  int part = 0;
  bool is_product = false;
  bool brings_rows = false;        // a collective beside products; not one of the rows' counts
  bool leads_on = false;           // rows depend on it
  std::vector<std::size_t> needs;  // what has to stand before it
  bool is_placed = false;
  bool is_on_the_way = false;       // for rows
  bool is_hidden = false;           // for rows: a product of another part stands behind them
  std::vector<std::size_t> behind;  // for a collective that brings no rows: the rows that were on its wire when it was placed
};

// Instructions without a loop among them, in a new order. They are numbered from 0.
class Turns {
 public:
  Turns(const Plan& plan, std::size_t begin, std::size_t end) : plan_(plan), begin_(begin), steps_(end - begin) {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Instruction& of = instruction(i);
      Step& step = steps_[i];
      step.part = graph::part_of(of.path);
      step.is_product = of.kind == Kind::kernel && graph::is_product(of.op);
      if (at(step.part) >= queues_.size()) queues_.resize(at(step.part) + 1);
      queues_[at(step.part)].push_back(i);
    }
    if (!has_parts()) return;
    heads_.resize(queues_.size());
    find_needs();
    find_rows();
    find_leads();
  }

  bool has_parts() const { return queues_.size() > 1; }

  std::vector<std::size_t> run() {
    while (order_.size() < steps_.size()) {
      if (!go_on() && !place_any_product()) wait();
    }
    return std::move(order_);
  }

 private:
  const Instruction& instruction(std::size_t i) const { return plan_.instructions[begin_ + i]; }

  // An instruction needs those before it that write what it uses, or use what it writes.
  void find_needs() {
    struct Uses {
      std::size_t writer = 0;
      bool has_writer = false;
      std::vector<std::size_t> readers = {};
    };
    std::map<BufferId, Uses> uses;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      std::vector<BufferId> read, written;
      for (const ViewId id : instruction(i).operands) add_buffers(id, read, read);
      for (const ViewId id : instruction(i).results) add_buffers(id, written, read);
      for (const BufferId buffer : read) {
        if (uses[buffer].has_writer) steps_[i].needs.push_back(uses[buffer].writer);
        uses[buffer].readers.push_back(i);
      }
      for (const BufferId buffer : written) {
        Uses& of = uses[buffer];
        if (of.has_writer) steps_[i].needs.push_back(of.writer);
        steps_[i].needs.insert(steps_[i].needs.end(), of.readers.begin(), of.readers.end());
        of = {i, true};
      }
      std::erase(steps_[i].needs, i);
    }
  }

  void add_buffers(ViewId id, std::vector<BufferId>& buffers, std::vector<BufferId>& of_counts) const {
    const View& view = plan_.view(id);
    buffers.push_back(view.buffer);
    if (view.rows >= 0) of_counts.push_back(plan_.view(view.rows).buffer);
  }

  std::int64_t bytes(std::size_t i) const {
    std::int64_t sum = 0;
    for (const ViewId id : instruction(i).results) {
      const View& view = plan_.view(id);
      sum += sharding::shard_bytes(view.shape, view.dtype, view.spec, plan_.mesh);
    }
    return sum;
  }

  void find_rows() {
    std::int64_t largest = 0;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (runs_beside_products(instruction(i))) largest = std::max(largest, bytes(i));
    }
    for (std::size_t i = 0; i < steps_.size(); ++i)
      steps_[i].brings_rows = runs_beside_products(instruction(i)) && kFewer * bytes(i) >= largest;
  }

  void find_leads() {
    for (std::size_t i = steps_.size(); i-- > 0;) {
      if (!steps_[i].brings_rows && !steps_[i].leads_on) continue;
      for (const std::size_t need : steps_[i].needs) steps_[need].leads_on = true;
    }
  }

  bool is_ready(std::size_t i) const {
    return std::all_of(steps_[i].needs.begin(), steps_[i].needs.end(), [&](std::size_t need) { return steps_[need].is_placed; });
  }
  bool waits_for_rows(std::size_t i) const {
    return std::any_of(steps_[i].needs.begin(), steps_[i].needs.end(), [&](std::size_t need) { return steps_[need].is_on_the_way; });
  }
  // Whether it needs what a collective brings that queues for the wire behind rows. If it leads on to rows, it goes once these are hidden.
  bool waits_behind_rows(std::size_t i) const {
    const auto holds_up = [&](std::size_t rows) { return steps_[rows].is_on_the_way && !(steps_[i].leads_on && steps_[rows].is_hidden); };
    return std::any_of(steps_[i].needs.begin(), steps_[i].needs.end(),
                       [&](std::size_t need) { return std::any_of(steps_[need].behind.begin(), steps_[need].behind.end(), holds_up); });
  }

  void place(std::size_t i) {
    if (instruction(i).kind == Kind::collective && !steps_[i].brings_rows) {
      for (const std::size_t rows : sent_) {
        if (share_wire(instruction(i), instruction(rows))) steps_[i].behind.push_back(rows);
      }
    }
    steps_[i].is_placed = true;
    order_.push_back(i);
    if (steps_[i].brings_rows) {
      steps_[i].is_on_the_way = true;
      sent_.push_back(i);
    }
    for (const std::size_t rows : sent_)
      steps_[rows].is_hidden = steps_[rows].is_hidden || (steps_[i].is_product && steps_[rows].part != steps_[i].part);
  }

  // The next instruction of the part whose turn it is, or of the first part after it that need not wait.
  bool go_on() {
    for (std::size_t turn = 0; turn < queues_.size(); ++turn) {
      const std::size_t part = (current_ + turn) % queues_.size();
      const std::optional<std::size_t> next = next_of(part);
      if (!next && turn == 0) {
        if (!awaits_rows(part) && place_any_product()) return true;
        take_hidden_rows();
      }
      if (!next) continue;
      current_ = part;
      if (steps_[*next].brings_rows) place_gathers_beside(*next, part);
      place(*next);
      return true;
    }
    return false;
  }

  // What a part may do next: its instructions that are not placed, up to the first that brings rows.
  std::span<const std::size_t> near(std::size_t part) {
    const std::vector<std::size_t>& queue = queues_[part];
    std::size_t& head = heads_[part];
    while (head < queue.size() && steps_[queue[head]].is_placed) ++head;
    return up_to_rows(part, head);
  }

  std::span<const std::size_t> up_to_rows(std::size_t part, std::size_t from) const {
    const std::vector<std::size_t>& queue = queues_[part];
    std::size_t end = from;
    while (end < queue.size() && (steps_[queue[end]].is_placed || !steps_[queue[end]].brings_rows)) ++end;
    return std::span(queue).subspan(from, std::min(end + 1, queue.size()) - from);
  }

  // Whether rows that are on their way let the part go on. If not, nothing will hide those of the last part but what is left of it.
  bool awaits_rows(std::size_t part) {
    const std::span<const std::size_t> next = near(part);
    return std::any_of(next.begin(), next.end(), [&](std::size_t i) { return !steps_[i].is_placed && is_ready(i) && waits_for_rows(i); });
  }

  // The turn is over in which products of another part stood behind rows, so that these have come.
  void take_hidden_rows() {
    for (const std::size_t rows : sent_) steps_[rows].is_on_the_way = !steps_[rows].is_hidden;
    std::erase_if(sent_, [&](std::size_t rows) { return steps_[rows].is_hidden; });
  }

  // What needs another part's instructions, such as a sum of the parts' gradients, is passed over until they are placed; so is what waits
  // for other things than rows.
  std::optional<std::size_t> next_of(std::size_t part) {
    for (const std::size_t i : near(part)) {
      if (steps_[i].is_placed || !is_ready(i)) continue;
      if (waits_for_rows(i)) return std::nullopt;
      if (!waits_behind_rows(i)) return i;
    }
    return std::nullopt;
  }

  // Places what brings weights to the part's products that can run beside `rows`, which would otherwise hold them up on the wire.
  void place_gathers_beside(std::size_t rows, std::size_t part) {
    const std::vector<std::size_t>& queue = queues_[part];
    const auto behind = std::upper_bound(queue.begin(), queue.end(), rows);
    for (const std::size_t product : up_to_rows(part, static_cast<std::size_t>(behind - queue.begin()))) {
      std::vector<std::size_t> needed;
      if (!steps_[product].is_product || steps_[product].is_placed || !can_run(product, needed)) continue;
      std::sort(needed.begin(), needed.end());
      for (const std::size_t gather : needed) {
        std::vector<std::size_t> of_gather;
        if (steps_[gather].is_placed || instruction(gather).op != graph::Op::reshard || !can_run(gather, of_gather)) continue;
        std::sort(of_gather.begin(), of_gather.end());
        if (std::any_of(of_gather.begin(), of_gather.end(), [&](std::size_t i) { return steps_[i].is_product; })) continue;
        for (const std::size_t need : of_gather) place(need);
      }
    }
  }

  // The first product that can run now, with what it needs.
  bool place_any_product() {
    for (std::size_t part = 0; part < queues_.size(); ++part) {
      for (const std::size_t i : near(part)) {
        std::vector<std::size_t> needed;
        if (steps_[i].is_placed || !steps_[i].is_product || !can_run(i, needed)) continue;
        std::sort(needed.begin(), needed.end());
        for (const std::size_t need : needed) place(need);
        return true;
      }
    }
    return false;
  }

  // Whether neither the instruction nor what it needs waits for rows. `needed`: those that are not placed yet.
  bool can_run(std::size_t i, std::vector<std::size_t>& needed) const {
    if (steps_[i].is_placed || std::find(needed.begin(), needed.end(), i) != needed.end()) return true;
    if (steps_[i].brings_rows || waits_for_rows(i) || waits_behind_rows(i)) return false;
    needed.push_back(i);
    return std::all_of(steps_[i].needs.begin(), steps_[i].needs.end(), [&](std::size_t need) { return can_run(need, needed); });
  }

  // Nothing is left to do before rows arrive: those that were sent first. There are some: of all instructions that are not placed the first
  // is ready, so it waits for rows.
  void wait() {
    assert(!sent_.empty());
    current_ = at(steps_[sent_.front()].part);
    steps_[sent_.front()].is_on_the_way = false;
    sent_.erase(sent_.begin());
  }

  const Plan& plan_;
  std::size_t begin_;
  std::vector<Step> steps_;
  std::vector<std::vector<std::size_t>> queues_;  // by part, in the old order
  std::vector<std::size_t> heads_;                // by part: the first that may not be placed yet
  std::size_t current_ = 0;                       // the part whose turn it is
  std::vector<std::size_t> sent_;                 // the rows that are on the way, those first that were sent first
  std::vector<std::size_t> order_;
};

void order(Plan& plan, std::size_t begin, std::size_t end) {
  Turns turns(plan, begin, end);
  if (!turns.has_parts()) return;
  std::vector<Instruction> ordered;
  for (const std::size_t i : turns.run()) ordered.push_back(std::move(plan.instructions[begin + i]));
  std::move(ordered.begin(), ordered.end(), plan.instructions.begin() + static_cast<std::ptrdiff_t>(begin));
}

}  // namespace

Plan with_parts_alternating(Plan plan) {
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= plan.instructions.size(); ++i) {
    const Kind kind = i < plan.instructions.size() ? plan.instructions[i].kind : Kind::end;
    if (kind != Kind::loop && kind != Kind::end) continue;
    order(plan, begin, i);
    begin = i + 1;
  }
#ifndef NDEBUG
  verify(plan);
#endif
  return plan;
}

}  // namespace moesh::plan
