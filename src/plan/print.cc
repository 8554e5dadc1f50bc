#include "plan/print.h"

#include <fmt/core.h>

#include "base/text.h"
#include "graph/print.h"
#include "plan/arena.h"
#include "plan/fields.h"

namespace moesh::plan {
namespace {

using Kind = Instruction::Kind;

class Printer {
 public:
  explicit Printer(const Plan& plan) : plan_(plan) {}

  std::string text() {
    for (const Port& port : plan_.ports) add(fmt::format("{} {}: {}", name_of(port.kind), port.name, words(port.view)));
    for (std::size_t i = 0; i < plan_.instructions.size(); ++i) add_instruction(i);
    add_buffers();
    return std::move(text_);
  }

 private:
  void add(const std::string& line) { text_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + line + "\n"; }

  // "b7 float32[4, 64] as [fsdp, -]"
  std::string words(ViewId id) const {
    const View& view = plan_.view(id);
    std::string text = fmt::format("b{} {}{}", view.buffer, moesh::name_of(view.dtype), to_string(view.shape));
    if (view.spec != sharding::Spec{}) text += " as " + graph::to_text(view.spec, &plan_.mesh);
    for (const Advance& advance : view.advances)
      text += fmt::format(" @{}{}", advance.loop, advance.by == 1 ? "" : fmt::format("x{}", advance.by));
    if (!view.is_dense()) text += fmt::format(" dim {} of {} slices", view.split, view.stacked);
    if (view.rows >= 0) text += fmt::format(" rows b{}", plan_.view(view.rows).buffer);
    return text;
  }

  std::string words(const std::vector<ViewId>& views) const {
    std::vector<std::string> all;
    for (const ViewId view : views) all.push_back(words(view));
    return join(all, ", ");
  }

  void add_instruction(std::size_t i) {
    const Instruction& of = plan_.instructions[i];
    switch (of.kind) {
      case Kind::loop:
        add(fmt::format("{} loop {} times{}  # {}", i, of.count, of.reverse ? " backwards" : "", of.path));
        ++depth_;
        return;
      case Kind::end: --depth_; return;
      case Kind::copy: add(fmt::format("{} {} = copy {}  # {}", i, words(of.results), words(of.operands), of.path)); return;
      case Kind::kernel:
      case Kind::collective: {
        const std::string attributes = graph::to_text(of.attributes, &plan_.mesh);
        add(fmt::format("{} {} = {}{}{}{} {}  # {}", i, words(of.results), of.kind == Kind::collective ? "collective " : "",
                        graph::name_of(of.op), attributes.empty() ? "" : " ", attributes, words(of.operands), of.path));
      }
    }
  }

  void add_buffers() {
    const Arena arena = device_arena(plan_);
    const std::vector<Lifetime> lives = lifetimes_of(plan_);
    for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
      const Buffer& buffer = plan_.buffers[b];
      const bool is_state = buffer.lasts == Lasts::from_run_to_run;
      add(fmt::format("buffer b{} {} {} bytes{}  # {}", b, name_of(buffer.lasts), buffer.bytes,
                      is_state ? "" : fmt::format(" at {} from {} to {}", arena.offsets[b], lives[b].first, lives[b].last), buffer.name));
    }
    add(fmt::format("{} bytes of state, {} bytes of other buffers at the peak", state_bytes(plan_), arena.bytes));
  }

  const Plan& plan_;
  int depth_ = 0;
  std::string text_;
};

}  // namespace

std::string to_text(const Plan& plan) { return Printer(plan).text(); }

}  // namespace moesh::plan
