#include "data/json_lines.h"

#include <algorithm>
#include <limits>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "data/document_tokens.h"
#include "data/file_reader.h"
#include "data/vocabulary.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kLongest = 256 << 20;    // bytes of a line
constexpr std::size_t kNamed = 3;               // bad lines that are named
constexpr std::size_t kNamedFields = 8;         // fields that are named
constexpr std::size_t kRemembered = 100'000;    // bad lines that are counted once however often they are read

// The lines that begin in a block, as one text, and the offset of that text in the file.
struct Lines {
  std::string text;
  std::int64_t begin = 0;
  bool is_too_long = false;  // the last line is
};

// Lines that were left out, identified by their place in the data.
class BadLines {
 public:
  // Returns whether it is one of the first, which are to be named.
  bool add(std::int64_t place) {
    const std::lock_guard lock(mutex_);
    if (seen_.contains(place)) return false;
    ++count_;
    if (seen_.size() < kRemembered) seen_.insert(place);
    return seen_.size() <= kNamed;
  }
  std::int64_t count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }

 private:
  mutable std::mutex mutex_;
  std::set<std::int64_t> seen_;
  std::int64_t count_ = 0;
};

// A line belongs to the block that it begins in.
class JsonLines : public FileReader {
 public:
  JsonLines(DataFiles files, LineFormat format, const config::Settings& settings)
      : FileReader(std::move(files)),
        format_(std::move(format)),
        vocab_size_(settings.integer("vocab_size")) {}

  std::string describe() const override {
    const std::size_t more = files().files().size() - 1;
    return "the texts of " + path() + (more == 0 ? "" : " and " + counted(static_cast<std::int64_t>(more), "more file"));
  }
  std::string identity() const override {
    return fmt::format("jsonl {} {} {}", format_.field, is_text() ? format_.tokens->identity() : "ids", files().identity());
  }
  std::int64_t left_out() const override { return bad_.count(); }

  void read(std::int64_t block, Documents& documents) const override {
    const FileBlock of = at(block);
    const Lines lines = lines_of(of);
    for (std::string_view rest = lines.text; !rest.empty();) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      const std::string_view line = rest.substr(0, end);
      const std::int64_t at = lines.begin + (line.data() - lines.text.data());
      rest.remove_prefix(std::min(end + 1, rest.size()));
      if (lines.is_too_long && rest.empty()) {
        leave_out(*of.file, at, "longer than " + human_bytes(kLongest));
      } else if (!trim(line).empty()) {
        add(line, *of.file, at, documents);
      }
    }
  }

  void refuse_none() const override { refuse("no line is found that holds " + wanted(), path(), remedy()); }

 private:
  bool is_text() const { return format_.tokens != nullptr; }
  // What to do, by the first line.
  std::string remedy() const {
    const std::string begin = files().text(files().files().front(), 0, std::min(kBlock, files().files().front().bytes));
    const Json line = Json::parse(begin.substr(0, begin.find('\n')), nullptr, false);
    if (!line.is_object()) return fmt::format(R"(lines that are JSON objects, {{"{}": ...}}, or dataset_type=text)", format_.field);
    const auto content = line.find(format_.field);
    if (content != line.end() && is_text() && is_ids(*content)) return fmt::format("{}=false takes token ids", format_.tokenize);
    if (content != line.end() && !is_text() && content->is_string()) return fmt::format("{}=true takes texts", format_.tokenize);
    std::vector<std::string> fields;
    for (const auto& [name, ignored] : line.items()) fields.push_back(shorten(as_utf8(name), 40));
    if (fields.size() > kNamedFields) fields.resize(kNamedFields);
    return fmt::format("name the field that holds the documents: {}=[FIELD]; the first line has {}", format_.columns,
                       fields.empty() ? "none" : join(fields, ", "));
  }

  std::string wanted() const { return fmt::format("a {} as \"{}\"", is_text() ? "text" : "list of token ids", format_.field); }

  // Read from one byte before the block, which tells whether a line begins with the block.
  Lines lines_of(const FileBlock& of) const {
    Lines lines;
    lines.begin = std::max<std::int64_t>(of.begin - 1, 0);
    lines.text = files().text(*of.file, lines.begin, of.end);
    if (of.begin > 0) {
      const std::size_t first = lines.text.find('\n');
      if (first == std::string::npos || first + 1 == lines.text.size()) return {};
      lines.text.erase(0, first + 1);
      lines.begin += static_cast<std::int64_t>(first) + 1;
    }
    std::int64_t end = of.end;
    const std::size_t last = lines.text.rfind('\n') + 1;  // where the last line begins
    while (end < of.file->bytes && lines.text.back() != '\n' && !lines.is_too_long) {
      const std::string more = files().text(*of.file, end, std::min(end + kBlock, of.file->bytes));
      const std::size_t stop = std::min(more.find('\n'), more.size() - 1) + 1;
      lines.text.append(more, 0, stop);
      end += static_cast<std::int64_t>(stop);
      lines.is_too_long = std::cmp_greater(lines.text.size() - last, kLongest);
    }
    return lines;
  }

  void add(std::string_view line, const DataFile& file, std::int64_t at, Documents& documents) const {
    const Json json = Json::parse(line, nullptr, false);
    const Json content = json.is_object() && json.contains(format_.field) ? json[format_.field] : Json();
    const bool is_right = is_text() ? content.is_string() : is_ids(content);
    if (!is_right) return leave_out(file, at, json.is_discarded() ? "no JSON" : "no JSON object with " + wanted());
    Tokens tokens;
    if (!is_text()) tokens = content.get<Tokens>();
    check(tokens, file, at);
    const std::uint64_t hash = is_text() ? store::hash_of(content.get_ref<const std::string&>())
                                         : store::hash_of(tokens.data(), tokens.size() * sizeof(Tokens::value_type));
    ++documents.seen;
    if (!format_.split.takes(hash)) return;
    if (is_text()) tokens = format_.tokens->of(content.get_ref<const std::string&>());
    if (is_text()) check(tokens, file, at);
    documents.add(tokens);
  }

  // An id that does not fit must not be read as another one.
  static bool is_ids(const Json& content) {
    return content.is_array() && std::all_of(content.begin(), content.end(), [](const Json& id) {
             return id.is_number_unsigned() && id.get<std::uint64_t>() <= std::numeric_limits<std::int32_t>::max();
           });
  }

  void check(const Tokens& ids, const DataFile& file, std::int64_t at) const {
    const auto foreign = first_foreign(ids, vocab_size_);
    if (!foreign) return;
    refuse_foreign(fmt::format("token {} at position {} of the document", ids[*foreign], *foreign), vocab_size_, where(file, at));
  }

  void leave_out(const DataFile& file, std::int64_t at, const std::string& why) const {
    if (!bad_.add(file.begin + at)) return;
    log_notice(fmt::format("{}: {}: the line is left out{}", where(file, at), why,
                           bad_.count() == kNamed ? "; more of them are counted, and not named" : ""));
  }

  // FILE:LINE
  std::string where(const DataFile& file, std::int64_t at) const {
    std::int64_t line = 1;
    for (std::int64_t begin = 0; begin < at; begin += kBlock) {
      const std::string text = files().text(file, begin, std::min(begin + kBlock, at));
      line += std::count(text.begin(), text.end(), '\n');
    }
    return fmt::format("{}:{}", file.path, line);
  }

  LineFormat format_;
  std::int64_t vocab_size_;
  mutable BadLines bad_;
};

}  // namespace

std::unique_ptr<DocumentReader> read_json_lines(DataFiles files, const LineFormat& format, const config::Settings& settings) {
  return std::make_unique<JsonLines>(std::move(files), format, settings);
}

}  // namespace moesh::data
