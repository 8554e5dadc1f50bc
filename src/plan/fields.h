// The fields of a plan's structs, each with its name in files: saving, loading and comparing plans iterate over these lists.
#pragma once

#include <tuple>

#include "graph/fields.h"
#include "plan/plan.h"

namespace moesh::plan {

using graph::Field;

constexpr auto fields_of(const Buffer*) {
  return std::tuple{Field{"lasts", &Buffer::lasts}, Field{"bytes", &Buffer::bytes}, Field{"distinct", &Buffer::distinct},
                    Field{"name", &Buffer::name}};
}
constexpr auto fields_of(const Advance*) { return std::tuple{Field{"loop", &Advance::loop}, Field{"by", &Advance::by}}; }
constexpr auto fields_of(const View*) {
  return std::tuple{Field{"buffer", &View::buffer},   Field{"dtype", &View::dtype},       Field{"shape", &View::shape},
                    Field{"spec", &View::spec},       Field{"advances", &View::advances}, Field{"split", &View::split},
                    Field{"stacked", &View::stacked}, Field{"rows", &View::rows}};
}
// Without the kind, the op and its attributes, which are written separately.
constexpr auto fields_of(const Instruction*) {
  return std::tuple{Field{"operands", &Instruction::operands}, Field{"results", &Instruction::results},
                    Field{"count", &Instruction::count},       Field{"reverse", &Instruction::reverse},
                    Field{"other", &Instruction::other},       Field{"phase", &Instruction::phase},
                    Field{"path", &Instruction::path}};
}
constexpr auto fields_of(const Port*) {
  return std::tuple{Field{"kind", &Port::kind}, Field{"view", &Port::view}, Field{"first", &Port::first}, Field{"name", &Port::name}};
}

// Fails to compile if a field is added to one of these structs, as a reminder to add it to its list.
inline void all_fields_are_listed(const Buffer& of_buffer, const Advance& of_advance, const View& of_view,
                                  const Instruction& of_instruction, const Port& of_port) {
  [[maybe_unused]] const auto& [a1, a2, a3, a4] = of_buffer;
  [[maybe_unused]] const auto& [b1, b2] = of_advance;
  [[maybe_unused]] const auto& [c1, c2, c3, c4, c5, c6, c7, c8] = of_view;
  [[maybe_unused]] const auto& [d1, d2, d3, d4, d5, d6, d7, d8, d9, d10] = of_instruction;
  [[maybe_unused]] const auto& [e1, e2, e3, e4] = of_port;
}

// The names of the enumerators, in order.
constexpr auto words_of(const Lasts*) { return graph::words_up_to<Lasts::within>("state", "input", "output", "scratch"); }
constexpr auto words_of(const Instruction::Kind*) {
  return graph::words_up_to<Instruction::Kind::end>("kernel", "collective", "copy", "loop", "end");
}
constexpr auto words_of(const Port::Kind*) { return graph::words_up_to<Port::Kind::output>("input", "state", "output"); }

template <typename Word>
requires std::is_same_v<Word, Lasts> || std::is_same_v<Word, Instruction::Kind> || std::is_same_v<Word, Port::Kind>
    std::string_view name_of(Word word) {
  return words_of(static_cast<const Word*>(nullptr))[static_cast<std::size_t>(word)];
}

}  // namespace moesh::plan
