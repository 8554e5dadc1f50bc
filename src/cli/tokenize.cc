#include <cstdio>
#include <limits>

#include <fmt/core.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/system.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/text.h"
#include "base/whole_file.h"
#include "cli/command.h"
#include "tokenizer/tokenizer.h"

namespace moesh::cli {
namespace {

using tokenizer::Piece;
using tokenizer::Special;
using tokenizer::Tokenizer;

constexpr Option kTokenizeOptions[] = {
    {"--file", "FILE", "takes the text, or the ids, from a file"},
    {"--plain", "", "without the special tokens that the tokenizer puts around a text, or that stand among ids"},
    {"--decode", "", "the words are token ids: prints their text"},
    {"--count", "", "prints how many tokens there are and how fast they were made"},
    {"--json", "", "a JSON object a text"},
};

constexpr std::string_view kTokenizeExamples[] = {
    "tokenize tests/golden/tokenizers/bytelevel-llama3 hello world",
    "tokenize tests/golden/tokenizers/spm-bpe/tokenizer.model --plain -- -1=+1",
    "tokenize tests/golden/tokenizers/bytelevel-llama3 --decode 1 261 445",
    "tokenize tests/golden/tokenizers/bytelevel-llama3 --count --file configs/first.yml",
    "tokenize tests/golden/tokenizers/bytelevel-llama3 --json --file configs/first.yml",
};

constexpr std::int64_t kMostTextBytes = std::int64_t{1} << 31;

std::string of_standard_input() {
  std::string text, block(1 << 16, '\0');
  while (const std::size_t count = std::fread(block.data(), 1, block.size(), stdin)) text.append(block, 0, count);
  if (std::ferror(stdin) != 0) fail("the text cannot be read: " + system_reason(), "standard input");
  return text;
}

// Each word after the tokenizer is a text. Without any, the content of the file or of standard input is the only one.
std::vector<std::string> texts_of(const Arguments& arguments) {
  const auto file = arguments.value("--file");
  std::vector<std::string> texts(arguments.all_words().begin() + 1, arguments.all_words().end());
  if (file && !texts.empty()) refuse("a text and a file to take it from", kCommandLine, "one of the two");
  if (file) return {read_file(*file, "the text", kMostTextBytes, "--file FILE")};
  return texts.empty() ? std::vector{of_standard_input()} : texts;
}

// The text with control characters written as C escapes.
std::string visible(std::string_view text) {
  std::string made;
  for (const char c : text) {
    if (c == '\n')
      made += "\\n";
    else if (c == '\t')
      made += "\\t";
    else if (c == '\r')
      made += "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      made += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      made += c;
  }
  return made;
}

// The part of a text that a piece covers. If it cuts through a character, which several tokens then share, all bytes are written in hex.
std::string part_of(std::string_view text, const Piece& piece) {
  const std::string_view part =
      text.substr(static_cast<std::size_t>(piece.begin), static_cast<std::size_t>(piece.end - piece.begin));
  if (is_valid_utf8(part)) return visible(part);
  std::string made;
  for (const char c : part) made += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return made;
}

void print_table(std::string_view text, const std::vector<Piece>& pieces) {
  Table table({{"id", true}, {"token", false, Room::cut}, {"bytes", true}, {"text", false, Room::cut, 1}});
  for (const Piece& piece : pieces) {
    const bool has_bytes = piece.begin < piece.end;
    table.add({std::to_string(piece.id), visible(piece.token),
               has_bytes ? fmt::format("{}-{}", piece.begin, piece.end) : "", part_of(text, piece)});
  }
  const std::string counts = fmt::format("{}, {}", counted(static_cast<std::int64_t>(pieces.size()), "token"),
                                         counted(static_cast<std::int64_t>(text.size()), "byte"));
  fmt::print("{}{}\n", pieces.empty() ? "" : table.text(terminal_width()), counts);
}

void print_json(const std::vector<Piece>& pieces) {
  JsonWriter json;
  tokenizer::Ids ids;
  for (const Piece& piece : pieces) ids.push_back(piece.id);
  json.begin_object().key("ids").values(ids).key("pieces").begin_array();
  for (const Piece& piece : pieces) {
    json.begin_object().key("id").value(piece.id).key("token").value(piece.token);
    json.key("begin").value(piece.begin).key("end").value(piece.end).end_object();
  }
  fmt::print("{}\n", json.end_array().end_object().text());
}

void print_count(const Tokenizer& tokenizer, std::string_view text, Special special, bool as_json) {
  const Clock::time_point begin = Clock::now();
  const auto tokens = static_cast<double>(tokenizer.encode(text, special).size());
  const double seconds = seconds_since(begin), bytes = static_cast<double>(text.size());
  if (as_json) {
    JsonWriter json;
    json.begin_object()
        .key("tokens")
        .value(static_cast<std::int64_t>(tokens))
        .key("bytes")
        .value(static_cast<std::int64_t>(bytes));
    fmt::print("{}\n", json.key("seconds").value(seconds).end_object().text());
    return;
  }
  const std::string rate = tokens > 0 ? fmt::format(", {:.2f} bytes a token", bytes / tokens) : "";
  fmt::print("{} of {}{}; {}, {} tokens/s, {:.1f} MB/s\n", counted(static_cast<std::int64_t>(tokens), "token"),
             counted(static_cast<std::int64_t>(bytes), "byte"), rate, human_seconds(seconds),
             with_commas(static_cast<std::int64_t>(tokens / seconds)), bytes / 1e6 / seconds);
}

// Parses token ids: "1 2 3", "1,2,3" or "[1, 2, 3]".
tokenizer::Ids ids_of(const std::vector<std::string>& texts) {
  tokenizer::Ids ids;
  for (const std::string& text : texts) {
    std::string words = text;
    for (char& c : words) c = std::string_view("[],\n\r\t").find(c) != std::string_view::npos ? ' ' : c;
    for (const std::string& word : split(words, ' ')) {
      if (word.empty()) continue;
      const auto id = parse_integer(word);
      if (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max())
        refuse(fmt::format("'{}' is no token id", shorten(word, 40)), kCommandLine,
               "moesh tokenize TOKENIZER --decode 1 2 3");
      ids.push_back(static_cast<std::int32_t>(*id));
    }
  }
  return ids;
}

void print_text(const std::string& text, bool as_json) {
  JsonWriter json;
  if (as_json) json.begin_object().key("text").value(text).end_object();
  fmt::print("{}\n", as_json ? json.text() : text);
}

int run_tokenize(const Arguments& arguments) {
  if (arguments.all_words().empty()) refuse("which tokenizer?", kCommandLine, "moesh tokenize FOLDER \"a text\"");
  const auto tokenizer = tokenizer::open(arguments.all_words().front());
  const Special special = arguments.has("--plain") ? Special::left_out : Special::added;
  const bool as_json = arguments.has("--json"), counts = arguments.has("--count");
  if (arguments.has("--decode") && counts)
    refuse("--count of texts, but --decode takes ids", kCommandLine, "one of the two");
  const std::vector<std::string> texts = texts_of(arguments);
  if (arguments.has("--decode")) {
    print_text(tokenizer->decode(ids_of(texts), special), as_json);
    return 0;
  }
  for (const std::string& text : texts) {
    if (counts)
      print_count(*tokenizer, text, special, as_json);
    else if (as_json)
      print_json(tokenizer->pieces(text, special));
    else
      print_table(text, tokenizer->pieces(text, special));
  }
  return 0;
}

}  // namespace

const Command kTokenize{"tokenize",
                        "TOKENIZER [text...] [--file FILE]",
                        "shows the tokens of a text, or the text of token ids",
                        "TOKENIZER is a tokenizer.json, a tokenizer.model of SentencePiece, or a folder that has one, "
                        "as those of Hugging Face do. Each\n"
                        "further word is a text; without any, the text is read from FILE or standard input. For each "
                        "token it tells its id, how the\n"
                        "tokenizer writes it, and the bytes of the text that it stands for. Bytes that are no UTF-8 "
                        "count as U+FFFD. Chat templates are\n"
                        "not applied. Words behind -- are texts also where they begin with a dash.",
                        kTokenizeOptions,
                        kTokenizeExamples,
                        run_tokenize};

}  // namespace moesh::cli
