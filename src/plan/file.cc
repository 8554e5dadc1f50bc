#include "plan/file.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "graph/print.h"
#include "graph/reader.h"
#include "plan/fields.h"
#include "plan/verify.h"

namespace moesh::plan {
namespace {

using graph::Line;
using graph::Reader;
using graph::Words;
using Kind = Instruction::Kind;

constexpr std::string_view kBegin = "moesh plan ";
constexpr int kFormat = 1;
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;
constexpr const char* kSaveAgain = "save the plan again: `moesh compile ... --save-plan FILE`";

// FNV-1a, which changes if any one byte changes.
std::uint64_t hash_of(std::string_view content) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : content) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

bool has_attributes(const Instruction& of) { return of.kind == Kind::kernel || of.kind == Kind::collective; }

std::string line_of(const Instruction& of, const Words& words, const mesh::Mesh& mesh) {
  std::string line = fmt::format("{} {}", name_of(of.kind), graph::name_of(of.op));
  for (const std::string& part : {graph::to_text(of.attributes, &mesh), words.fields(of)}) line += part.empty() ? "" : " " + part;
  return line + "\n";
}

class FileReader {
 public:
  FileReader(std::string_view content, std::string where) : content_(content), where_(std::move(where)) {}

  SavedPlan run() {
    read_version();
    read_purpose();
    while (take_line("setting ")) read_setting();
    const mesh::Mesh* mesh = &saved_.plan.mesh;
    while (take_line("buffer ")) read(saved_.plan.buffers.emplace_back(), mesh);
    while (take_line("view ")) read_view(mesh);
    while (take_instruction()) read_instruction(mesh);
    while (take_line("port ")) read(saved_.plan.ports.emplace_back(), mesh);
    if (!take_line("results ")) line().refuse_here("a line of the plan");
    Reader(line_, mesh)(saved_.plan.results);
    line_.expect_end();
    if (!content_.empty()) line().refuse_here("the plan's end");
    const std::string rule = broken_rule(saved_.plan);
    if (!rule.empty()) refuse("the plan breaks a rule: " + rule, where_, kSaveAgain);
    return std::move(saved_);
  }

 private:
  // The next line, without consuming it.
  Line line() const { return {content_.substr(0, content_.find('\n')), fmt::format("{}, line {}", where_, number_)}; }

  void take() {
    line_ = line();
    const std::size_t end = content_.find('\n');
    content_.remove_prefix(end == std::string_view::npos ? content_.size() : end + 1);
    ++number_;
  }

  // Consumes the next line if it begins with `begin`; the rest of it is then in line_.
  bool take_line(std::string_view begin) {
    if (!content_.starts_with(begin)) return false;
    take();
    line_.expect(begin.substr(0, begin.size() - 1));
    return true;
  }

  void expect_line(std::string_view begin) {
    if (!take_line(begin)) line().refuse_here(fmt::format("'{}'", begin));
  }

  void read_version() {
    expect_line("by ");
    const std::string version = line_.name("a version");
    line_.expect_end();
    if (version != MOESH_VERSION) {
      refuse(fmt::format("the plan was made by moesh {}, this is moesh {}", shorten(version, 40), MOESH_VERSION), where_,
             kSaveAgain);
    }
  }

  void read_purpose() {
    expect_line("for ");
    saved_.origin.target = line_.name("a machine");
    line_.expect("slices");
    saved_.origin.slices = line_.integer();
    line_.expect("mesh");
    saved_.plan.mesh = graph::read_mesh(line_);
    line_.expect_end();
  }

  void read_setting() {
    const std::string key = line_.word("a key");
    line_.expect("=");
    saved_.origin.settings.emplace_back(key, line_.name("a value"));
    line_.expect_end();
  }

  template <typename Of>
  void read(Of& of, const mesh::Mesh* mesh) {
    Reader(line_, mesh).fields(of);
    line_.expect_end();
  }

  void read_view(const mesh::Mesh* mesh) {
    View& view = saved_.plan.views.emplace_back();
    const Line before = line_;
    read(view, mesh);
    double count = 1;
    for (const std::int64_t size : view.shape) {
      if (size < 0 || size > graph::kMostSize) before.refuse_here("a view of sizes from 0 to 2^40");
      count *= static_cast<double>(std::max<std::int64_t>(1, size));
    }
    if (count > graph::kMostElements) before.refuse_here("a view of at most 1e15 elements");
  }

  bool take_instruction() {
    constexpr auto kinds = words_of(static_cast<const Kind*>(nullptr));
    const bool is_one = std::any_of(kinds.begin(), kinds.end(), [&](std::string_view kind) {
      return content_.starts_with(kind) && content_.substr(kind.size()).starts_with(' ');
    });
    if (is_one) take();
    return is_one;
  }

  void read_instruction(const mesh::Mesh* mesh) {
    Instruction& of = saved_.plan.instructions.emplace_back();
    Reader(line_, mesh)(of.kind);
    of.op = graph::read_op(line_);
    if (has_attributes(of)) of.attributes = graph::read_attributes(line_, of.op, mesh);
    read(of, mesh);
  }

  std::string_view content_;  // the text that is still to be read
  std::string where_;
  std::size_t number_ = 2;
  Line line_{"", ""};
  SavedPlan saved_;
};

// The text after the first line, once that line is checked. All of its bytes are compared, so that no damage to it goes unnoticed.
std::string_view checked_content(const std::string& text, const std::string& where) {
  if (!text.starts_with(kBegin))
    refuse("this is no saved plan", where, "name a file that `moesh compile ... --save-plan FILE` wrote");
  const std::string_view first = std::string_view(text).substr(0, text.find('\n'));
  const std::string_view format = first.substr(kBegin.size(), first.find(' ', kBegin.size()) - kBegin.size());
  if (format != std::to_string(kFormat)) {
    refuse(fmt::format("the plan is of format {}, this moesh reads format {}", shorten(format, 40), kFormat), where, kSaveAgain);
  }
  const std::string_view content = std::string_view(text).substr(std::min(text.size(), first.size() + 1));
  if (text != with_hash(std::string(content)))
    refuse("the plan is damaged: what the file holds is not what its hash was made of", where, kSaveAgain);
  return content;
}

}  // namespace

std::string with_hash(const std::string& content) {
  return fmt::format("{}{} hash {:016x}\n{}", kBegin, kFormat, hash_of(content), content);
}

std::string file_text(const Plan& plan, const Origin& origin) {
  const Words words(&plan.mesh);
  std::string text = fmt::format("by {}\nfor {} slices {} mesh {}\n", MOESH_VERSION, graph::quoted(origin.target), origin.slices,
                                 words(plan.mesh));
  for (const auto& [key, value] : origin.settings) text += fmt::format("setting {}={}\n", key, graph::quoted(value));
  for (const Buffer& buffer : plan.buffers) text += "buffer " + words.fields(buffer) + "\n";
  for (const View& view : plan.views) text += "view " + words.fields(view) + "\n";
  for (const Instruction& instruction : plan.instructions) text += line_of(instruction, words, plan.mesh);
  for (const Port& port : plan.ports) text += "port " + words.fields(port) + "\n";
  return with_hash(text + "results " + words(plan.results) + "\n");
}

SavedPlan parse_file(const std::string& text, const std::string& where) {
  return FileReader(checked_content(text, where), where).run();
}

void save(const Plan& plan, const Origin& origin, const std::string& path) {
  replace_file(path, file_text(plan, origin), "name another file to save the plan in");
}

SavedPlan load(const std::string& path) {
  return parse_file(read_file(path, "the plan", kMostBytes, "name a file that `moesh compile ... --save-plan FILE` wrote"), path);
}

}  // namespace moesh::plan
