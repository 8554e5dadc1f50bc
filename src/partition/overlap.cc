#include "partition/overlap.h"

#include <algorithm>
#include <vector>

#include "base/place.h"
#include "graph/facts.h"
#include "graph/rewrite.h"
#include "graph/work.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

class Ordering {
 public:
  explicit Ordering(const Graph& body)
      : body_(body), is_placed_(body.nodes.size()), is_on_the_way_(body.nodes.size()), leads_on_(body.nodes.size()) {}

  Graph run() {
    const auto count = static_cast<NodeId>(body_.nodes.size());
    for (NodeId id = count; id-- > 0;) {
      if (!is_collective(id) && !leads_on_[at(id)]) continue;
      for (const NodeId maker : makers_of(id)) leads_on_[at(maker)] = true;
    }
    for (NodeId id = 0; id < count; ++id) {
      if (is_placed_[at(id)]) continue;
      if (!is_product(id)) place_or_put_off(id);
      else if (!leads_on_[at(id)] && is_near_collective(id)) behind_collective_.push_back(id);
      else place_product(id);
      if (is_collective(id) && is_placed_[at(id)]) place_behind_collective();
    }
    place_behind_collective();
    for (NodeId id = 0; id < count; ++id) place(id);
    Graph made = body_;
    for (std::size_t i = 0; i < order_.size(); ++i) made.nodes[i] = body_.node(order_[i]);
    graph::find_producers(made);
    return graph::without_dead_nodes(std::move(made));  // numbers the values in their new order
  }

 private:
  bool is_collective(NodeId id) const { return graph::collective_of(body_.node(id)).has_value(); }
  bool is_product(NodeId id) const { return graph::is_product(body_.node(id)); }

  std::vector<NodeId> makers_of(NodeId id) const {
    std::vector<NodeId> makers;
    for (const ValueId operand : body_.node(id).operands) makers.push_back(body_.value(operand).producer);
    return makers;
  }

  // Behind what it needs.
  void place(NodeId id) {
    if (is_placed_[at(id)]) return;
    for (const NodeId maker : makers_of(id)) place(maker);
    is_placed_[at(id)] = true;
    is_on_the_way_[at(id)] = is_collective(id);
    order_.push_back(id);
  }

  void place_or_put_off(NodeId id) {
    if (is_placed_[at(id)]) return;
    const std::vector<NodeId> makers = makers_of(id);
    const bool waits = std::any_of(makers.begin(), makers.end(),
                                   [&](NodeId maker) { return !is_placed_[at(maker)] || is_on_the_way_[at(maker)]; });
    if (waits) put_off_.push_back(id);
    else place(id);
  }

  void place_product(NodeId id) {
    for (const NodeId collective : collectives_before(id)) place(collective);
    if (ahead_ < 0 || ahead_ == id || is_placed_[at(ahead_)]) send_ahead(id);
    place(id);
    std::fill(is_on_the_way_.begin(), is_on_the_way_.end(), false);
    std::vector<NodeId> put_off;
    put_off.swap(put_off_);
    for (const NodeId other : put_off) place_or_put_off(other);
  }

  // Whether at most one other product stands between this one and the next collective. If it went behind others, their results would be
  // held beside its operands.
  bool is_near_collective(NodeId id) const {
    int products = 0;
    for (NodeId next = id + 1; at(next) < body_.nodes.size() && products < 2; ++next) {
      if (is_placed_[at(next)]) continue;
      if (is_collective(next)) return true;
      products += is_product(next) && leads_on_[at(next)];
    }
    return false;
  }

  void place_behind_collective() {
    std::vector<NodeId> products;
    products.swap(behind_collective_);
    for (const NodeId product : products) place_product(product);
  }

  // Sends what the next product after this one needs that waits for anything.
  void send_ahead(NodeId id) {
    for (ahead_ = id + 1; at(ahead_) < body_.nodes.size(); ++ahead_) {
      if (!is_product(ahead_) || is_placed_[at(ahead_)]) continue;
      const std::vector<NodeId> collectives = collectives_before(ahead_);
      for (const NodeId collective : collectives) place(collective);
      if (!collectives.empty()) return;
    }
    ahead_ = -1;
  }

  // The collectives that the product needs and that need no other product, as far as they are not placed yet.
  std::vector<NodeId> collectives_before(NodeId product) const {
    std::vector<NodeId> found;
    std::vector<Needs> needs(body_.nodes.size());
    for (const NodeId maker : makers_of(product)) look(maker, needs, found);
    std::sort(found.begin(), found.end());
    return found;
  }

  enum class Needs : std::uint8_t { unknown, product, no_product };

  bool look(NodeId id, std::vector<Needs>& needs, std::vector<NodeId>& found) const {
    if (is_placed_[at(id)]) return false;
    Needs& known = needs[at(id)];
    if (known == Needs::unknown) {
      known = is_product(id) ? Needs::product : Needs::no_product;
      for (const NodeId maker : makers_of(id)) {
        if (!is_product(id) && look(maker, needs, found)) known = Needs::product;
      }
      if (known == Needs::no_product && is_collective(id)) found.push_back(id);
    }
    return known == Needs::product;
  }

  const Graph& body_;
  std::vector<bool> is_placed_;
  std::vector<bool> is_on_the_way_;  // collectives that no product stands behind yet
  std::vector<bool> leads_on_;       // nodes that a collective needs
  std::vector<NodeId> order_;
  std::vector<NodeId> put_off_;      // until a product stands before them, or needs them
  std::vector<NodeId> behind_collective_;  // products that no collective needs, for the next one to run beside
  NodeId ahead_ = -1;                // the product for which something was sent ahead
};

}  // namespace

Graph with_overlap(Graph graph) {
  for (Node& node : graph.nodes) {
    if (auto* repeat = std::get_if<graph::RepeatOf>(&node.attributes)) graph::replace_body(*repeat, with_overlap(*repeat->body));
    auto* region = std::get_if<graph::RegionOf>(&node.attributes);
    if (region != nullptr && region->overlaps) graph::replace_body(*region, Ordering(*region->body).run());
  }
  return graph;
}

}  // namespace moesh::partition
