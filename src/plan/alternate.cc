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

namespace moesh::plan {
namespace {

using Kind = Instruction::Kind;

constexpr std::int64_t kFewer = 8;  // what brings so many times fewer bytes than others brings no rows, but their counts

// Instructions without a loop among them, in a new order. They are numbered from 0.
class Turns {
 public:
  Turns(const Plan& plan, std::size_t begin, std::size_t end) : plan_(plan), begin_(begin), count_(end - begin) {
    int last_part = 0;
    for (std::size_t i = 0; i < count_; ++i) last_part = std::max(last_part, part(i));
    queues_.resize(at(last_part) + 1);
    if (queues_.size() == 1) return;
    for (std::size_t i = 0; i < count_; ++i) queues_[at(part(i))].push_back(i);
    heads_.resize(queues_.size());
    find_needs();
    find_rows();
    find_leads();
  }

  bool has_parts() const { return queues_.size() > 1; }

  std::vector<std::size_t> run() {
    is_placed_.resize(count_);
    is_on_the_way_.resize(count_);
    is_hidden_.resize(count_);
    behind_.resize(count_);
    while (order_.size() < count_) {
      if (!go_on() && !place_any_product()) wait();
    }
    return std::move(order_);
  }

 private:
  const Instruction& instruction(std::size_t i) const { return plan_.instructions[begin_ + i]; }
  int part(std::size_t i) const { return graph::part_of(instruction(i).path); }
  bool is_product(std::size_t i) const { return instruction(i).kind == Kind::kernel && graph::is_product(instruction(i).op); }

  // An instruction needs those before it that write what it uses, or use what it writes.
  void find_needs() {
    struct Uses {
      std::size_t writer = 0;
      bool has_writer = false;
      std::vector<std::size_t> readers = {};
    };
    std::map<BufferId, Uses> uses;
    needs_.resize(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      std::vector<BufferId> read, written;
      for (const ViewId id : instruction(i).operands) add_buffers(id, read, read);
      for (const ViewId id : instruction(i).results) add_buffers(id, written, read);
      for (const BufferId buffer : read) {
        if (uses[buffer].has_writer) needs_[i].push_back(uses[buffer].writer);
        uses[buffer].readers.push_back(i);
      }
      for (const BufferId buffer : written) {
        Uses& of = uses[buffer];
        if (of.has_writer) needs_[i].push_back(of.writer);
        needs_[i].insert(needs_[i].end(), of.readers.begin(), of.readers.end());
        of = {i, true};
      }
      std::erase(needs_[i], i);
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
    for (std::size_t i = 0; i < count_; ++i) {
      if (runs_beside_products(instruction(i))) largest = std::max(largest, bytes(i));
    }
    for (std::size_t i = 0; i < count_; ++i)
      brings_rows_.push_back(runs_beside_products(instruction(i)) && kFewer * bytes(i) >= largest);
  }

  void find_leads() {
    leads_on_.resize(count_);
    for (std::size_t i = count_; i-- > 0;) {
      if (!brings_rows(i) && !leads_on_[i]) continue;
      for (const std::size_t need : needs_[i]) leads_on_[need] = true;
    }
  }

  // Whether it moves rows, and not only their counts.
  bool brings_rows(std::size_t i) const { return brings_rows_[i]; }

  bool is_ready(std::size_t i) const {
    return std::all_of(needs_[i].begin(), needs_[i].end(), [&](std::size_t need) { return is_placed_[need]; });
  }
  bool waits_for_rows(std::size_t i) const {
    return std::any_of(needs_[i].begin(), needs_[i].end(), [&](std::size_t need) { return is_on_the_way_[need]; });
  }
  // Whether it needs what a collective brings that queues for the wire behind rows. If it leads on to rows, it goes once these are hidden.
  bool waits_behind_rows(std::size_t i) const {
    const auto holds_up = [&](std::size_t rows) { return is_on_the_way_[rows] && !(leads_on_[i] && is_hidden_[rows]); };
    return std::any_of(needs_[i].begin(), needs_[i].end(),
                       [&](std::size_t need) { return std::any_of(behind_[need].begin(), behind_[need].end(), holds_up); });
  }

  void place(std::size_t i) {
    if (instruction(i).kind == Kind::collective && !brings_rows(i)) {
      for (const std::size_t rows : sent_) {
        if (share_wire(instruction(i), instruction(rows))) behind_[i].push_back(rows);
      }
    }
    is_placed_[i] = true;
    order_.push_back(i);
    if (brings_rows(i)) {
      is_on_the_way_[i] = true;
      sent_.push_back(i);
    }
    for (const std::size_t rows : sent_) is_hidden_[rows] = is_hidden_[rows] || (is_product(i) && part(rows) != part(i));
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
      if (brings_rows(*next)) place_gathers_beside(*next, part);
      place(*next);
      return true;
    }
    return false;
  }

  // What a part may do next: its instructions that are not placed, up to the first that brings rows.
  std::span<const std::size_t> near(std::size_t part) {
    const std::vector<std::size_t>& queue = queues_[part];
    std::size_t& head = heads_[part];
    while (head < queue.size() && is_placed_[queue[head]]) ++head;
    return up_to_rows(part, head);
  }

  std::span<const std::size_t> up_to_rows(std::size_t part, std::size_t from) const {
    const std::vector<std::size_t>& queue = queues_[part];
    std::size_t end = from;
    while (end < queue.size() && (is_placed_[queue[end]] || !brings_rows(queue[end]))) ++end;
    return std::span(queue).subspan(from, std::min(end + 1, queue.size()) - from);
  }

  // Whether rows that are on their way let the part go on. If not, nothing will hide those of the last part but what is left of it.
  bool awaits_rows(std::size_t part) {
    const std::span<const std::size_t> next = near(part);
    return std::any_of(next.begin(), next.end(), [&](std::size_t i) { return !is_placed_[i] && is_ready(i) && waits_for_rows(i); });
  }

  // The turn is over in which products of another part stood behind rows, so that these have come.
  void take_hidden_rows() {
    for (const std::size_t rows : sent_) is_on_the_way_[rows] = !is_hidden_[rows];
    std::erase_if(sent_, [&](std::size_t rows) { return is_hidden_[rows]; });
  }

  // What needs another part's instructions, such as a sum of the parts' gradients, is passed over until they are placed; so is what waits
  // for other things than rows.
  std::optional<std::size_t> next_of(std::size_t part) {
    for (const std::size_t i : near(part)) {
      if (is_placed_[i] || !is_ready(i)) continue;
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
      if (!is_product(product) || is_placed_[product] || !can_run(product, needed)) continue;
      std::sort(needed.begin(), needed.end());
      for (const std::size_t gather : needed) {
        std::vector<std::size_t> of_gather;
        if (is_placed_[gather] || instruction(gather).op != graph::Op::reshard || !can_run(gather, of_gather)) continue;
        std::sort(of_gather.begin(), of_gather.end());
        if (std::any_of(of_gather.begin(), of_gather.end(), [&](std::size_t i) { return is_product(i); })) continue;
        for (const std::size_t need : of_gather) place(need);
      }
    }
  }

  // The first product that can run now, with what it needs.
  bool place_any_product() {
    for (std::size_t part = 0; part < queues_.size(); ++part) {
      for (const std::size_t i : near(part)) {
        std::vector<std::size_t> needed;
        if (is_placed_[i] || !is_product(i) || !can_run(i, needed)) continue;
        std::sort(needed.begin(), needed.end());
        for (const std::size_t need : needed) place(need);
        return true;
      }
    }
    return false;
  }

  // Whether neither the instruction nor what it needs waits for rows. `needed`: those that are not placed yet.
  bool can_run(std::size_t i, std::vector<std::size_t>& needed) const {
    if (is_placed_[i] || std::find(needed.begin(), needed.end(), i) != needed.end()) return true;
    if (brings_rows(i) || waits_for_rows(i) || waits_behind_rows(i)) return false;
    needed.push_back(i);
    return std::all_of(needs_[i].begin(), needs_[i].end(), [&](std::size_t need) { return can_run(need, needed); });
  }

  // Nothing is left to do before rows arrive: those that were sent first. There are some: of all instructions that are not placed the first
  // is ready, so it waits for rows.
  void wait() {
    assert(!sent_.empty());
    current_ = at(part(sent_.front()));
    is_on_the_way_[sent_.front()] = false;
    sent_.erase(sent_.begin());
  }

  const Plan& plan_;
  std::size_t begin_, count_;
  std::vector<std::vector<std::size_t>> queues_;  // by part, in the old order
  std::vector<std::size_t> heads_;                // by part: the first that may not be placed yet
  std::vector<std::vector<std::size_t>> needs_;
  std::vector<bool> leads_on_;  // those that rows on their way depend on
  std::vector<bool> brings_rows_;
  std::size_t current_ = 0;   // the part whose turn it is
  std::vector<bool> is_placed_;
  std::vector<std::size_t> sent_;    // the rows that are on the way, those first that were sent first
  std::vector<bool> is_on_the_way_;
  std::vector<bool> is_hidden_;      // rows behind which a product of another part stands
  std::vector<std::vector<std::size_t>> behind_;  // by collective: the rows that were on the same wire when it was placed
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
  return plan;
}

}  // namespace moesh::plan
