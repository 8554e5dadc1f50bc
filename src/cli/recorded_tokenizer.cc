#include "cli/recorded_tokenizer.h"

#include <filesystem>
#include <utility>

#include "base/json_reader.h"
#include "base/whole_file.h"
#include "tokenizer/tokenizer.h"

namespace moesh::cli {
namespace {

using tokenizer::Ids;
using tokenizer::Special;

constexpr std::int64_t kMostRecordedBytes = 1 << 30;

std::string expected_in(const std::string& path) { return path + "/expect.json"; }

// Counts the cases in which a quantity differs from the record, and keeps the first such text.
class Differing {
 public:
  explicit Differing(std::string quantity) : verdict_{std::move(quantity), 0, 0, ""} {}

  void add(bool is_equal, const std::string& text) {
    if (is_equal) return;
    if (verdict_.error == 0) verdict_.worst = shortened(Json(text), 60);
    ++verdict_.error;
  }
  const train::Verdict& verdict() const { return verdict_; }

 private:
  train::Verdict verdict_;
};

}  // namespace

bool is_recorded_tokenizer(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(path) / "expect.json", ignored) && tokenizer::is_in(path);
}

std::vector<train::Verdict> verify_tokenizer(const std::string& path) {
  const std::string where = expected_in(path);
  const Json expected = parse_json(read_file(where, "what is expected", kMostRecordedBytes, "a recorded tokenizer"), where);
  const auto tokenizer = tokenizer::open(path);
  Differing ids("ids"), plain_ids("ids without special tokens"), text("text"),
      plain_text("text without special tokens");
  for (const Json& one : child(expected, "cases", where)) {
    const auto of = member<std::string>(one, "text", where);
    const Ids wanted = member<Ids>(one, "ids", where);
    ids.add(tokenizer->encode(of, Special::added) == wanted, of);
    plain_ids.add(tokenizer->encode(of, Special::left_out) == member<Ids>(one, "ids_plain", where), of);
    text.add(tokenizer->decode(wanted, Special::added) == member<std::string>(one, "decoded", where), of);
    plain_text.add(tokenizer->decode(wanted, Special::left_out) == member<std::string>(one, "decoded_skip", where), of);
  }
  return {ids.verdict(), plain_ids.verdict(), text.verdict(), plain_text.verdict()};
}

}  // namespace moesh::cli
