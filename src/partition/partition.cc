#include "partition/partition.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/place.h"
#include "base/text.h"
#include "graph/facts.h"
#include "graph/print.h"
#include "graph/rewrite.h"
#include "partition/agreement.h"
#include "partition/assignment.h"
#include "partition/beside.h"
#include "partition/expand.h"
#include "partition/reshard.h"

namespace moesh::partition {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::Op;
using graph::ValueId;
using sharding::AxisIndex;
using sharding::AxisList;
using sharding::Spec;

// The spec without partial sums.
Spec whole(const Spec& spec) {
  Spec made = spec;
  made.partial.clear();
  return made;
}

// State that a graph shares with the bodies inside it.
struct Shared {
  const PartitionRequest& request;
  Prices prices;
  std::vector<Choice> choices;
  std::map<std::string, Answers> answered;  // by key_of(question): unrolled layers ask the same questions again
};

class Walk {
 public:
  Walk(const Graph& in, Shared& shared)
      : in_(in),
        shared_(shared),
        numbers_(in.values.size()),
        made_(in.values.size()),
        asked_(in.values.size()),
        constrained_(in.values.size()),
        trained_(in.values.size()) {}

  // `trained`: for each root of a body, whether it is a parameter or a slice of one.
  Graph run(const std::vector<Spec>& roots, const std::vector<Want>& results, const std::vector<bool>& trained = {}) {
    wants_ = find_wants(in_, results, shared_.request);
    beside_ = find_beside(in_, wants_);
    for (const Node& node : in_.nodes) {
      if (node.op == Op::constraint) constrained_[at(node.operands[0])] = true;
    }
    std::size_t root = 0;
    for (const Node& node : in_.nodes) {
      if (graph::is_root(node)) {
        trained_[at(node.results[0])] = node.op == Op::parameter || (root < trained.size() && trained[root]);
        add_root(node, roots.at(root++));
      } else {
        place(node);
      }
    }
    for (std::size_t i = 0; i < in_.results.size(); ++i) {
      const ValueId id = in_.results[i];
      path_ = in_.producer_of(id).path;
      phase_ = in_.producer_of(id).phase;
      const AxisList& partial = spec_of_version(made_[at(id)]).partial;
      const bool is_wanted = i < results.size() && results[i];
      out_.results.push_back(version(id, is_wanted ? with_partial_within(*results[i], partial) : smallest(id)));
    }
    out_.result_names = in_.result_names;
    return graph::without_dead_nodes(std::move(out_));
  }

 private:
  const mesh::Mesh& mesh() const { return shared_.request.mesh; }
  const graph::Value& value(ValueId id) const { return in_.value(id); }
  const Spec& spec_of_version(ValueId version) const { return out_.value(version).spec; }
  // The layout in which a value was made, or in which a constraint asks for it while it is still a partial sum.
  const Spec& made(ValueId id) const { return asked_[at(id)] ? *asked_[at(id)] : spec_of_version(made_[at(id)]); }
  // The layout that is wanted of a value, unless another one in which it exists takes less memory of a device.
  Spec smallest(ValueId id) const {
    const auto bytes = [&](const Spec& spec) { return sharding::shard_bytes(value(id).shape, value(id).dtype, spec, mesh()); };
    Spec least = whole(want_of(id).value_or(made(id)));
    for (const ValueId version : versions(id)) {
      const Spec& spec = spec_of_version(version);
      if (spec.partial.empty() && bytes(spec) < bytes(least)) least = spec;
    }
    return least;
  }
  std::vector<ValueId>& versions(ValueId id) { return versions_[numbers_[at(id)]]; }
  const std::vector<ValueId>& versions(ValueId id) const { return versions_[numbers_[at(id)]]; }

  // Registers a new value with the first layout that it exists in.
  void start(ValueId id, ValueId version) {
    numbers_[at(id)] = versions_.size();
    versions_.push_back({version});
    made_[at(id)] = version;
  }

  ValueId add_value(Shape shape, DType dtype, Spec spec) {
    return graph::add_value(out_, {std::move(shape), dtype, static_cast<NodeId>(out_.nodes.size()), std::move(spec)});
  }

  void add_root(const Node& node, const Spec& spec) {
    const graph::Value& root = value(node.results[0]);
    const ValueId id = add_value(root.shape, root.dtype, spec);
    Node copy = node;
    copy.results = {id};
    out_.nodes.push_back(std::move(copy));
    start(node.results[0], id);
  }

  // `is_free`: the reader takes the value in the layout it was last resharded to, so that later ops stay there instead of moving it back.
  Candidate candidate(ValueId id, bool is_free = false) const {
    Candidate made{value(id).shape, value(id).dtype, numbers_[at(id)], this->made(id), {}, false, trained_[at(id)]};
    for (const ValueId version : versions(id)) made.versions.push_back(spec_of_version(version));
    if (is_free) made.lies = made.versions.back();
    made.asked = std::find(made.versions.begin(), made.versions.end(), made.lies) == made.versions.end();
    return made;
  }

  // The value in the layout `goal`: an existing version, or one resharded by collectives from the version that is cheapest to start from.
  ValueId version(ValueId id, const Spec& goal) {
    if (!goal.partial.empty() && is_zero(id)) return zero_in(id, goal);
    double seconds = 0;
    const std::optional<Spec> from = cheapest_version(candidate(id), goal, shared_.prices.reshards, &seconds);
    if (!from) fail_to_reshard(path_);
    ValueId at_version = *std::find_if(versions(id).begin(), versions(id).end(), [&](ValueId v) { return spec_of_version(v) == *from; });
    for (const ReshardStep& step : shared_.prices.reshards.fastest(value(id).shape, value(id).dtype, *from, goal).steps) {
      const ValueId next = add_value(value(id).shape, value(id).dtype, step.result);
      out_.nodes.push_back({Op::reshard, path_, "", {at_version}, {next}, step.how, phase_});
      versions(id).push_back(next);
      at_version = next;
    }
    return at_version;
  }

  bool is_zero(ValueId id) const {
    const Node& producer = in_.producer_of(id);
    return producer.op == Op::fill && std::get<graph::FillOf>(producer.attributes).value == 0;
  }

  // Zeros as a partial sum: they are filled in that layout, as no collective makes one.
  ValueId zero_in(ValueId id, const Spec& goal) {
    for (const ValueId version : versions(id)) {
      if (spec_of_version(version) == goal) return version;
    }
    Node copy = in_.producer_of(id);
    copy.results = {add_value(value(id).shape, value(id).dtype, goal)};
    versions(id).push_back(copy.results[0]);
    out_.nodes.push_back(copy);
    return copy.results[0];
  }

  void place(const Node& node) {
    path_ = node.path;
    phase_ = node.phase;
    if (graph::facts_of(node.op).keeps_parameter) trained_[at(node.results[0])] = trained_[at(node.operands[0])];
    switch (node.op) {
      case Op::constraint: return place_constraint(node);
      case Op::repeat: return place_repeat(node);
      case Op::region: return place_region(node);
      case Op::stage_state:
        refuse(fmt::format("the stages of a pipeline run on one device so far, this mesh has {}", mesh().devices()), node.path,
               "ici_pipeline_parallelism=1");
      default: return place_op(node);
    }
  }

  // A constraint's result is the same value as its operand, so the versions of either serve both. A partial sum is not reduced
  // until it is read: an addition may take it as it is, and another constraint may ask for another layout. A constraint in the
  // update phase takes effect at once, and its result starts with only the layout that is asked for.
  void place_constraint(const Node& node) {
    const ValueId operand = node.operands[0];
    const ValueId result = node.results[0];
    const Spec& lies = spec_of_version(made_[at(operand)]);
    const Spec goal = with_partial_within(spec_of(in_, node, shared_.request), lies.partial);
    if (is_free(node)) return start(result, version(operand, goal));
    numbers_[at(result)] = numbers_[at(operand)];
    made_[at(result)] = made_[at(operand)];
    if (lies.partial.empty()) {
      made_[at(result)] = version(operand, goal);
    } else if (lies != goal) {
      asked_[at(result)] = goal;
    }
  }

  Want want_of(ValueId id) const { return wants_[at(id)] ? wants_[at(id)] : want_beside(id); }

  // The layout of the value that a broadcast or a cotangent is read with or, for a cotangent that is read with none, the one in which a
  // product makes such a cotangent of it.
  Want want_beside(ValueId id) const {
    if (beside_.with[at(id)]) return whole(made(*beside_.with[at(id)]));
    if (beside_.reader[at(id)] < 0) return std::nullopt;
    const Node& reader = in_.node(beside_.reader[at(id)]);
    const Want wanted = want_beside(reader.results[0]);
    if (!wanted) return std::nullopt;
    const auto place = std::find(reader.operands.begin(), reader.operands.end(), id) - reader.operands.begin();
    return passed_on(graph::factors_of(in_, reader), *wanted, static_cast<std::size_t>(place));
  }

  void place_op(const Node& node) {
    Question question{node, graph::factors_of(in_, node), {}, {}, {}, {}, {}};
    question.factors.anywhere = question.factors.anywhere && is_free(node);
    const graph::OpFacts& facts = graph::facts_of(node.op);
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      question.operands.push_back(candidate(node.operands[i], is_free(node)));
      if (facts.part_read != nullptr) question.operands.back().part_read = facts.part_read({in_, node}, i);
    }
    for (const ValueId id : node.results) {
      question.result_shapes.push_back(value(id).shape);
      question.result_dtypes.push_back(value(id).dtype);
      question.wants.push_back(want_of(id));
    }
    // An addition whose first operand is a partial sum with a constraint takes the layout that the constraint asks for.
    if (question.factors.linear_together && !question.wants[0] && question.operands[0].asked) {
      question.wants[0] = question.operands[0].lies;
    }
    if (shared_.request.explicit_mode && !is_free(node) && !is_told(node)) question.agreed = agreed_places(question, mesh());
    const Answers& answers = answer(question);
    if (question.agreed && answers.best.results.size() != node.results.size()) refuse_uneven_agreement(question, mesh());
    if (answers.best.results.size() != node.results.size()) fail_to_reshard(path_);
    note(node, answers);
    Node copy = node;
    for (std::size_t i = 0; i < node.operands.size(); ++i) copy.operands[i] = version(node.operands[i], answers.best.operands[i]);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      copy.results[i] = add_value(value(node.results[i]).shape, value(node.results[i]).dtype, answers.best.results[i]);
      start(node.results[i], copy.results[i]);
    }
    out_.nodes.push_back(std::move(copy));
  }

  // Explicit mode does not check the operands of these: a constraint fixes the result's layout, and cotangents are laid out like
  // the values they belong to.
  bool is_told(const Node& node) const {
    return node.phase == graph::Phase::backward || constrained_[at(node.results[0])];
  }

  const Answers& answer(const Question& question) {
    const auto [entry, is_new] = shared_.answered.try_emplace(key_of(question, mesh()));
    if (is_new) entry->second = choose(question, shared_.prices, mesh());
    return entry->second;
  }

  // Everything that an answer depends on, as bytes.
  static std::string key_of(const Question& question, const mesh::Mesh& mesh) {
    std::string key = fmt::format("{} {} {}", static_cast<int>(question.node.op), graph::to_text(question.node.attributes, &mesh),
                                  question.factors.flops);
    const auto add_dims = [&](const std::vector<int>& dims) {
      for (const int dim : dims) key.push_back(static_cast<char>(dim));
      key.push_back('\xfc');
    };
    for (const graph::Factor& factor : question.factors.factors) key += fmt::format(",{}{}", factor.size, factor.even ? "e" : "");
    for (std::size_t i = 0; i < question.operands.size(); ++i) {
      const Candidate& operand = question.operands[i];
      add_dims(question.factors.operands[i]);
      key.push_back(question.factors.linear[i] ? 'l' : '-');
      key.push_back(operand.is_parameter ? 'p' : '-');
      // Which operands are the same value matters, but not which value that is.
      for (std::size_t k = 0; k < i; ++k) key.push_back(question.operands[k].id == operand.id ? '=' : '.');
      key += fmt::format("{}{}", static_cast<int>(operand.dtype), moesh::to_string(operand.shape));
      append_to(key, operand.lies);
      for (const Spec& version : operand.versions) append_to(key, version);
    }
    for (std::size_t i = 0; i < question.wants.size(); ++i) {
      add_dims(question.factors.results[i]);
      key += fmt::format("{}{}", static_cast<int>(question.result_dtypes[i]), moesh::to_string(question.result_shapes[i]));
      if (question.wants[i]) append_to(key, *question.wants[i]);
    }
    key += question.factors.linear_together ? "+" : "";
    key += question.factors.anywhere ? "*" : "";
    key += question.factors.in_place ? "@" : "";
    if (question.agreed) add_dims(*question.agreed);
    return key;
  }

  void note(const Node& node, const Answers& answers) {
    if (!answers.runner_up) return;
    const auto* einsum = std::get_if<graph::EinsumOf>(&node.attributes);
    const std::string equation = einsum == nullptr ? "" : einsum->equation;
    shared_.choices.push_back({node.path, node.op, equation, node.phase, answers.best, *answers.runner_up});
  }

  struct Body;
  void place_repeat(const Node& node);
  Body place_body(const Node& node);
  Body place_body(const Node& node, const std::vector<Want>& carried_as);

  // A region fixes the specs of its operands and results and is copied unchanged.
  void place_region(const Node& node) {
    const auto& of = std::get<graph::RegionOf>(node.attributes);
    Node copy = node;
    for (std::size_t i = 0; i < node.operands.size(); ++i) copy.operands[i] = version(node.operands[i], of.operands[i]);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const graph::Value& result = value(node.results[i]);
      copy.results[i] = add_value(result.shape, result.dtype, of.results[i]);
      start(node.results[i], copy.results[i]);
    }
    out_.nodes.push_back(std::move(copy));
  }

  const Graph& in_;
  Shared& shared_;
  Graph out_;
  std::vector<Want> wants_;
  Beside beside_;
  std::vector<std::size_t> numbers_;            // by value: its index in versions_, which a constraint's result shares with its operand
  std::vector<std::vector<ValueId>> versions_;  // the values of out_, one for each layout in which that value exists
  std::vector<ValueId> made_;                   // by value: the version in which it was made
  std::vector<Want> asked_;                     // by value: the layout that a constraint asks for a partial sum
  std::vector<bool> constrained_;               // by value: whether a constraint reads it
  std::vector<bool> trained_;                   // by value: whether it is a parameter, or one in another type or shape
  std::string path_;                            // of the node that is being placed
  graph::Phase phase_ = graph::Phase::forward;  // of the node that is being placed
};

// The body of a repeat and the specs of the repeat's operands.
struct Walk::Body {
  std::vector<Spec> operands;
  std::shared_ptr<Graph> graph;
};

// A carried value has the same layout before and after an iteration. A stacked result has the layout that is wanted outside the
// repeat, or else the one that an iteration makes it in.
Walk::Body Walk::place_body(const Node& node, const std::vector<Want>& carried_as) {
  const auto& of = std::get<graph::RepeatOf>(node.attributes);
  const std::size_t stacked_dims = of.sizes.size();
  const auto carried = static_cast<std::size_t>(of.carried);
  const std::size_t sliced_from = carried + static_cast<std::size_t>(of.shared);
  Body placed;
  std::vector<Spec> roots;
  std::vector<Want> results;
  std::vector<bool> trained;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    trained.push_back(trained_[at(node.operands[i])]);
    Spec spec = whole(made(node.operands[i]));
    if (i < carried && carried_as[i]) spec = *carried_as[i];
    if (i < carried) results.emplace_back(spec);
    if (i >= sliced_from) {
      const int position = of.slices[i - sliced_from];
      for (std::size_t k = 0; k < stacked_dims; ++k) spec.dims[static_cast<std::size_t>(position) + k].clear();
      roots.push_back(without_dims(spec, position, stacked_dims));
    } else {
      roots.push_back(spec);
    }
    placed.operands.push_back(std::move(spec));
  }
  for (std::size_t i = carried; i < node.results.size(); ++i) {
    const Want& wanted = wants_[at(node.results[i])];
    results.push_back(wanted ? Want(without_dims(*wanted, of.stacks[i - carried], stacked_dims)) : std::nullopt);
  }
  placed.graph = std::make_shared<Graph>(Walk(*of.body, shared_).run(roots, results, trained));
  return placed;
}

// A value can be carried as a partial sum over the axes over which an iteration makes it one. The first attempt supposes all axes that are
// asked for; over those that it reduces, the next one carries the whole value.
Walk::Body Walk::place_body(const Node& node) {
  std::vector<Want> carried_as = carried_wants(node, shared_.request);
  for (std::size_t i = 0; i < carried_as.size(); ++i) {
    const ValueId first = node.operands[i];
    if (carried_as[i] && !is_zero(first)) carried_as[i] = with_partial_within(*carried_as[i], made(first).partial);
  }
  const std::size_t choices = shared_.choices.size();
  while (true) {
    Body body = place_body(node, carried_as);
    bool fits = true;
    for (std::size_t i = 0; i < carried_as.size(); ++i) {
      const AxisList& partial = body.graph->value(body.graph->results[i]).spec.partial;
      if (body.operands[i].partial == partial) continue;
      carried_as[i] = with_partial_within(*carried_as[i], partial);
      fits = false;
    }
    if (fits) return body;
    shared_.choices.resize(choices);
  }
}

void Walk::place_repeat(const Node& node) {
  const auto& of = std::get<graph::RepeatOf>(node.attributes);
  const auto carried = static_cast<std::size_t>(of.carried);
  Body body = place_body(node);
  Node copy = node;
  for (std::size_t i = 0; i < node.operands.size(); ++i) copy.operands[i] = version(node.operands[i], body.operands[i]);
  for (std::size_t i = 0; i < node.results.size(); ++i) {
    Spec spec = body.graph->value(body.graph->results[i]).spec;
    if (i >= carried) spec = with_dims(spec, of.stacks[i - carried], of.sizes.size());
    copy.results[i] = add_value(value(node.results[i]).shape, value(node.results[i]).dtype, spec);
    start(node.results[i], copy.results[i]);
  }
  auto& made = std::get<graph::RepeatOf>(copy.attributes);
  made.body = std::move(body.graph);
  made.saved.clear();
  out_.nodes.push_back(std::move(copy));
}

}  // namespace

Partitioned partition(const Graph& graph, const std::vector<Spec>& roots, const std::vector<Want>& results,
                      const PartitionRequest& request) {
  Shared shared{request, Prices(request.mesh, request.target), {}, {}};
  Partitioned made;
  made.expanded = expand(graph, results, request);
  made.graph = Walk(made.expanded, shared).run(roots, results);
  for (std::size_t i = 0; i < made.graph.results.size(); ++i) {
    const graph::ValueId id = made.graph.results[i];
    if (i < results.size() && results[i] && made.graph.value(id).spec != *results[i]) fail_to_reshard(made.graph.producer_of(id).path);
  }
  made.choices = std::move(shared.choices);
  return made;
}

std::string to_string(const Answer& answer, const mesh::Mesh& mesh) {
  const auto words = [&](const std::vector<Spec>& specs) {
    std::vector<std::string> all;
    for (const Spec& spec : specs) all.push_back(sharding::to_string(spec, mesh));
    return join(all, ", ");
  };
  return words(answer.operands) + " -> " + words(answer.results);
}

}  // namespace moesh::partition
