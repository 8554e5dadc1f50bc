#include "backend/workspace.h"

#include <algorithm>
#include <optional>

#include "backend/cpu/workspace.h"
#include "graph/facts.h"

namespace moesh::backend {
namespace {

using graph::Graph;
using graph::Node;
using graph::Op;

class Walk {
 public:
  Walk(const mesh::Mesh& mesh, std::int64_t threads) : mesh_(mesh), threads_(threads) {}

  void see(const Graph& graph) {
    for (const Node& node : graph.nodes) see(graph, node);
  }
  // Memory that the threads of one kernel share is counted once per running kernel: at most one runs per device.
  std::int64_t bytes() const {
    return threads_ * (cpu::gemm_scratch_bytes() + attention_ + attention_grad_ + indexing_ + delta_ + norm_ + loss_.own) +
           std::min(threads_, mesh_.devices()) * loss_.shared;
  }

 private:
  void see(const Graph& graph, const Node& node) {
    const auto shard = [&](graph::ValueId id) {
      return sharding::shard_shape(graph.value(id).shape, graph.value(id).spec, mesh_);
    };
    const auto of_operand = [&](std::size_t i) { return shard(node.operands[i]); };
    switch (node.op) {
      case Op::attention:
        attention_ = std::max(attention_, cpu::attention_bytes(of_operand(0), of_operand(1), of_operand(2)));
        break;
      case Op::attention_grad:
        attention_grad_ = std::max(attention_grad_, cpu::attention_grad_bytes(of_operand(0), of_operand(1), of_operand(2)));
        break;
      case Op::index_scores:
      case Op::index_scores_grad: indexing_ = std::max(indexing_, cpu::index_scores_bytes(of_operand(0))); break;
      case Op::delta_rule:
      case Op::delta_rule_grad:
        delta_ = std::max(delta_, cpu::delta_rule_bytes(of_operand(0), of_operand(2), node.op == Op::delta_rule_grad));
        break;
      case Op::attention_shares: indexing_ = std::max(indexing_, cpu::attention_shares_bytes(of_operand(1))); break;
      case Op::vocab_loss:
      case Op::vocab_logs:
      case Op::vocab_loss_grad: {
        const auto type_of = [&](graph::ValueId id) { return graph.value(id).dtype; };
        const graph::ValueId dtable = graph::summed_wide(node);
        const cpu::VocabLossTypes types{std::get<graph::VocabLossOf>(node.attributes),
                                        of_operand(0),
                                        of_operand(1),
                                        type_of(node.operands[0]),
                                        type_of(node.operands[1]),
                                        dtable < 0 ? std::nullopt : std::optional(type_of(dtable))};
        const cpu::SharedBytes bytes = cpu::vocab_loss_bytes(types, threads_);
        loss_ = {std::max(loss_.shared, bytes.shared), std::max(loss_.own, bytes.own)};
        break;
      }
      case Op::rms_norm_grad:
      case Op::rms_norm_grad_of_dots: norm_ = std::max(norm_, cpu::rms_norm_grad_bytes(of_operand(0))); break;
      default: break;
    }
    if (const Graph* body = graph::body_of(node)) see(*body);
  }

  const mesh::Mesh& mesh_;
  std::int64_t threads_;
  std::int64_t attention_ = 0, attention_grad_ = 0, indexing_ = 0, delta_ = 0, norm_ = 0;  // per thread, the most that any one node takes
  cpu::SharedBytes loss_;
};

}  // namespace

std::int64_t workspace_of(const Graph& graph, const mesh::Mesh& mesh, std::int64_t threads) {
  Walk walk(mesh, threads);
  walk.see(graph);
  return walk.bytes();
}

}  // namespace moesh::backend
