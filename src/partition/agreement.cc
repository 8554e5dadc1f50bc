#include "partition/agreement.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"

namespace moesh::partition {
namespace {

using sharding::AxisIndex;
using sharding::AxisList;

std::string words_of(const Candidate& operand, const mesh::Mesh& mesh) {
  return moesh::to_string(operand.shape) + " as " + sharding::to_string(operand.lies, mesh);
}

class Agreement {
 public:
  Agreement(const Question& question, const mesh::Mesh& mesh)
      : q_(question), mesh_(mesh), places_(mesh.axes().size(), -1), owner_(mesh.axes().size(), 0) {}

  std::vector<int> find() {
    const auto count = static_cast<int>(q_.factors.factors.size());
    for (const bool parameters : {false, true}) {
      for (int factor = 0; factor < count; ++factor) {
        if (is_in_results(factor)) settle_kept(factor, parameters);
      }
    }
    for (int factor = 0; factor < count; ++factor) {
      if (!is_in_results(factor)) settle_summed(factor);
    }
    return places_;
  }

 private:
  bool is_in_results(int factor) const {
    const auto& all = q_.factors.results;
    return std::any_of(all.begin(), all.end(), [&](const std::vector<int>& dims) {
      return std::find(dims.begin(), dims.end(), factor) != dims.end();
    });
  }

  // The axes that an operand has on a factor; null if the operand lacks the factor.
  const AxisList* axes_on(std::size_t operand, int factor) const {
    const std::vector<int>& dims = q_.factors.operands[operand];
    const auto dim = std::find(dims.begin(), dims.end(), factor);
    return dim == dims.end() ? nullptr : &q_.operands[operand].lies.dims[static_cast<std::size_t>(dim - dims.begin())];
  }

  void settle_kept(int factor, bool parameters) {
    const AxisList* agreed = nullptr;
    std::size_t from = 0;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      const AxisList* axes = axes_on(i, factor);
      if (q_.operands[i].is_parameter != parameters || axes == nullptr || axes->empty()) continue;
      if (agreed != nullptr && *agreed != *axes) disagree(from, i);
      agreed = axes;
      from = i;
    }
    if (agreed == nullptr || (parameters && any_taken(*agreed))) return;
    for (const AxisIndex axis : *agreed) {
      if (places_[axis] >= 0) disagree(owner_[axis], from);
      places_[axis] = factor;
      owner_[axis] = from;
    }
  }

  bool any_taken(const AxisList& axes) const {
    return std::any_of(axes.begin(), axes.end(), [&](AxisIndex axis) { return places_[axis] >= 0; });
  }

  void settle_summed(int factor) {
    const AxisList* agreed = nullptr;
    for (std::size_t i = 0; i < q_.operands.size(); ++i) {
      const AxisList* axes = axes_on(i, factor);
      if (axes == nullptr) continue;
      if (agreed != nullptr && *agreed != *axes) return;
      agreed = axes;
    }
    if (agreed == nullptr || any_taken(*agreed)) return;
    for (const AxisIndex axis : *agreed) places_[axis] = factor;
  }

  [[noreturn]] void disagree(std::size_t a, std::size_t b) const {
    refuse(fmt::format("shard_mode=explicit: the operands of {} do not agree: {} and {}", name_of(q_.node.op), words(a), words(b)),
           q_.node.path, "change the rules of one operand's labels, or shard_mode=auto");
  }

  std::string words(std::size_t i) const { return words_of(q_.operands[i], mesh_); }

  const Question& q_;
  const mesh::Mesh& mesh_;
  std::vector<int> places_;
  std::vector<std::size_t> owner_;  // by axis: the operand that it came from
};

}  // namespace

std::vector<int> agreed_places(const Question& question, const mesh::Mesh& mesh) {
  return Agreement(question, mesh).find();
}

void refuse_uneven_agreement(const Question& question, const mesh::Mesh& mesh) {
  std::vector<std::string> operands;
  for (const Candidate& operand : question.operands) operands.push_back(words_of(operand, mesh));
  refuse(fmt::format("shard_mode=explicit: {} takes blocks of equal size only, its operands lie unevenly: {}", name_of(question.node.op),
                     join(operands, ", ")),
         question.node.path, "choose axis sizes that divide the dims, or shard_mode=auto");
}

}  // namespace moesh::partition
