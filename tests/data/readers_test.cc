// Reads files of documents block by block: nothing is lost or read twice where blocks meet, and damage is reported.
#include <cstring>
#include <filesystem>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include "base/random.h"
#include "config/load.h"
#include "data/document_rows.h"
#include "data/json_lines.h"
#include "data/megatron.h"
#include "data/text_pieces.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::data {
namespace {

using test::bytes_of;
using test::message_of;
using test::TemporaryFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

config::Settings settings_of(const std::string& more = "") { return config::load(test::words_of("vocab_size=300 add_eos=false " + more)).settings; }

Documents all_of(const DocumentReader& reader) {
  Documents documents;
  for (std::int64_t block = 0; block < reader.blocks(); ++block) reader.read(block, documents);
  return documents;
}

// The documents as texts, one token per byte.
std::vector<std::string> texts_of(const Documents& documents) {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < documents.begins.size(); ++i) {
    texts.emplace_back(documents.tokens.begin() + documents.begins[i], documents.tokens.begin() + documents.end_of(i));
  }
  return texts;
}

std::shared_ptr<const DocumentTokens> tokens_of(const config::Settings& settings) { return std::make_shared<const DocumentTokens>(settings); }

std::unique_ptr<DocumentReader> lines_of(const std::string& path) {
  return read_json_lines(DataFiles(path), {"text", tokens_of(settings_of())}, settings_of());
}

std::unique_ptr<DocumentReader> ids_in(const std::string& path, const std::string& field) {
  return read_json_lines(DataFiles(path), {field, nullptr}, settings_of());
}

std::string letters(std::int64_t count, std::uint64_t seed) {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += static_cast<char>('a' + random_integer(random_key(7), seed * 1'000'003 + static_cast<std::uint64_t>(i), 0, 26));
  return text;
}

constexpr std::int64_t kBorder = 64 << 10;

// The first line ends at every place around the end of a block. There are also empty lines, lines of several
// blocks, and a file without a final newline.
TEST(JsonLines, AreReadOnceWhereverABlockEnds) {
  const TemporaryFolder folder;
  const std::string frame = "{\"text\": \"\"}";
  const auto line = [&](const std::string& text) { return "{\"text\": \"" + text + "\"}"; };
  for (std::int64_t end = kBorder - 20; end <= kBorder + 20; ++end) {
    std::vector<std::string> expected{letters(end - static_cast<std::int64_t>(frame.size()) - 1, 1), "b", letters(3 * kBorder, 2), "c"};
    const std::string text = line(expected[0]) + "\n\n" + line(expected[1]) + "\r\n" + line(expected[2]) + "\n" + line(expected[3]);
    const auto reader = lines_of(folder.write("a.jsonl", text));
    EXPECT_EQ(texts_of(all_of(*reader)), expected) << end;
    EXPECT_EQ(reader->left_out(), 0);
  }
}

TEST(JsonLines, OfSeveralFilesAreReadFileByFile) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/d");
  std::vector<std::string> expected;
  for (int file = 0; file < 5; ++file) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      expected.push_back(letters(1 + file * 1000 + i, static_cast<std::uint64_t>(file * 100 + i)));
      text += "{\"text\": \"" + expected.back() + "\"}" + (i < 39 ? "\n" : "");
    }
    folder.write(fmt::format("d/{}", file), text);
  }
  const auto reader = lines_of(folder.path() + "/d");
  EXPECT_EQ(texts_of(all_of(*reader)), expected);
  EXPECT_THAT(reader->describe(), HasSubstr("/d/0 and 4 more files"));
}

TEST(JsonLines, ThatCannotBeReadAreLeftOutAndTheFirstAreNamed) {
  const TemporaryFolder folder;
  const std::string bad[] = {"{\"text\": 3}", "{\"txt\": \"a\"}", "[\"text\"]", "{\"text\": \"a\"", "text", "\"text\"", "null", "{\"text\": \"\\ud800\"}",
                             "{\"text\": \"\xff\"}", "{\"text\": \"\xed\xa0\x80\"}", std::string("\0", 1)};
  for (const std::string& line : bad) {
    const std::string path = folder.write("a.jsonl", "{\"text\": \"one\"}\n" + line + "\n{\"text\": \"two\"}");
    const auto reader = lines_of(path);
    ::testing::internal::CaptureStderr();
    const auto texts = texts_of(all_of(*reader));
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(texts, ElementsAre("one", "two")) << line;
    EXPECT_EQ(reader->left_out(), 1);
    EXPECT_THAT(told, HasSubstr(path + ":2: no JSON"));
    EXPECT_THAT(told, HasSubstr("the line is left out"));
  }
}

TEST(JsonLines, AreNamedThreeTimesAndCountedOnceEach) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 30'000; ++i) text += i % 3000 == 7 ? "bad\n" : "{\"text\": \"abcdefgh\"}\n";
  const auto reader = lines_of(folder.write("a.jsonl", text));
  ::testing::internal::CaptureStderr();
  all_of(*reader);
  all_of(*reader);
  const std::string told = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(reader->left_out(), 10);
  EXPECT_THAT(told, HasSubstr("a.jsonl:6008: no JSON: the line is left out; more of them are counted, and not named"));
  EXPECT_EQ(told.find("a.jsonl:9008"), std::string::npos);
}

TEST(JsonLines, WithoutTheFieldAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"body\": \"a\"}\n");
  EXPECT_EQ(message_of([&] { lines_of(path)->refuse_none(); }),
            path + ": no line is found that holds a text as \"text\"\n  fix: name the field that holds the documents: train_data_columns=[FIELD]; the first line has body");
  EXPECT_THAT(message_of([&] { ids_in(path, "ids")->refuse_none(); }), HasSubstr("no line is found that holds a list of token ids as \"ids\""));
}

TEST(JsonLines, OfIdsAreHeldToTheVocabulary) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": [1, 299]}\n{\"text\": [1, 2, 300]}\n");
  EXPECT_EQ(message_of([&] { all_of(*ids_in(path, "text")); }),
            path + ":2: token 300 at position 2 of the document, but vocab_size=300\n  fix: a larger vocab_size, or the data that belongs to this model");
  const auto odd = ids_in(folder.write("b.jsonl", "{\"text\": [1, -2]}\n{\"text\": [4294967297]}\n{\"text\": [1.5]}\n{\"text\": [7]}\n"), "text");
  EXPECT_THAT(all_of(*odd).tokens, ElementsAre(7));
  EXPECT_EQ(odd->left_out(), 3);
}

TEST(TextPieces, AreTheTextInOrder) {
  const TemporaryFolder folder;
  std::string lines, words, letters_only, characters;
  for (std::uint64_t i = 0; i < 4000; ++i) lines += letters(static_cast<std::int64_t>(i % 97), i) + "\n";
  for (std::uint64_t i = 0; i < 30'000; ++i) words += letters(static_cast<std::int64_t>(i % 13), i) + " ";
  letters_only = letters(200'000, 3);
  for (int i = 0; i < 70'000; ++i) characters += "\u20ac";
  for (const std::string& text : {lines, words, letters_only, characters, lines + std::string(70'000, '\xbf'), std::string(65'537, 'x')}) {
    const auto reader = read_text_pieces(DataFiles(folder.write("a.txt", text)), {}, tokens_of(settings_of()));
    const Documents documents = all_of(*reader);
    EXPECT_EQ(std::string(documents.tokens.begin(), documents.tokens.end()), text);
    EXPECT_GT(documents.begins.size(), 1u);
    for (const std::string& piece : texts_of(documents)) {
      if (text == lines) { EXPECT_EQ(piece.back(), '\n'); }
      if (text == characters) {
        EXPECT_EQ(piece.size() % 3, 0u) << "whole characters";
      }
      EXPECT_LE(piece.size(), 100'000u);
    }
  }
}

TEST(TextPieces, BeginAndEndWhereTheFileDoes) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() + "/d");
  for (const char* name : {"d/a", "d/b"}) folder.write(name, std::string(150'000, 'x'));
  const auto reader = read_text_pieces(DataFiles(folder.path() + "/d"), {}, tokens_of(settings_of("add_eos=true")));
  const Tokens tokens = all_of(*reader).tokens;
  EXPECT_EQ(std::count(tokens.begin(), tokens.end(), 0), 2);
  EXPECT_EQ(tokens[150'000], 0);
  EXPECT_EQ(tokens.back(), 0);
  EXPECT_THAT(message_of([&] { reader->refuse_none(); }), HasSubstr("no token is made of the text"));
}

// An index: the number of tokens of each sequence, and where documents begin among the sequences.
struct MegatronIndex {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 4;
  std::vector<std::int32_t> sizes;
  std::vector<std::int64_t> begins, documents;

  std::string bytes() const {
    return magic + bytes_of<std::uint64_t>({version}) + bytes_of<std::uint8_t>({code}) + bytes_of<std::uint64_t>({sizes.size(), documents.size()}) +
           bytes_of(sizes) + bytes_of(begins) + bytes_of(documents);
  }
};

MegatronIndex small_index() { return {.sizes = {2, 0, 3, 1}, .begins = {0, 8, 8, 20}, .documents = {0, 1, 3, 4}}; }

TEST(Megatron, DocumentsAreTheirSequencesOneAfterTheOther) {
  const TemporaryFolder folder;
  folder.write("a.idx", small_index().bytes());
  folder.write("a.bin", bytes_of<std::int32_t>({7, 8, 9, 10, 11, 12}));
  for (const char* name : {"/a", "/a.bin", "/a.idx"}) {
    const auto reader = read_megatron(folder.path() + name, {}, settings_of());
    EXPECT_EQ(reader->blocks(), 3);
    const Documents documents = all_of(*reader);
    EXPECT_THAT(documents.tokens, ElementsAre(7, 8, 9, 10, 11, 12));
    EXPECT_THAT(documents.begins, ElementsAre(0, 2, 5));
    EXPECT_THAT(reader->describe(), HasSubstr("3 documents of 6 tokens"));
  }
}

std::vector<Tokens> ids_of(const Documents& documents) {
  std::vector<Tokens> ids;
  for (std::size_t i = 0; i < documents.begins.size(); ++i) {
    ids.emplace_back(documents.tokens.begin() + documents.begins[i], documents.tokens.begin() + documents.end_of(i));
  }
  return ids;
}

// The files and the expected ids come from Megatron's own tools; see tests/golden/megatron/README.md.
TEST(Megatron, FilesOfItsOwnToolsHaveTheIdsThatItReads) {
  const std::string golden = (test::source_folder() / "tests/golden/megatron/").string();
  const nlohmann::json recorded = nlohmann::json::parse(test::read_text(golden + "documents.json"));
  const auto expected = [&](const char* name) {
    auto documents = recorded[name].get<std::vector<Tokens>>();
    std::erase(documents, Tokens{});
    return documents;
  };
  const config::Settings settings = settings_of("vocab_size=70001 add_bos=false tokenizer_path=" + golden + "../tokenizers/bytelevel-gpt2");
  for (const char* name : {"texts", "sentences"}) EXPECT_EQ(ids_of(all_of(*read_megatron(golden + name, {}, settings))), expected(name)) << name;
  const auto lines = read_json_lines(DataFiles(golden + "texts.jsonl"), {"text", tokens_of(settings)}, settings);
  EXPECT_EQ(ids_of(all_of(*lines)), expected("texts")) << "and so have the texts";
}

template <typename T>
void expect_read(std::uint8_t code, const std::vector<T>& ids, const Tokens& expected) {
  const TemporaryFolder folder;
  const MegatronIndex index{.code = code, .sizes = {static_cast<std::int32_t>(ids.size())}, .begins = {0}, .documents = {0, 1}};
  folder.write("a.idx", index.bytes());
  folder.write("a.bin", bytes_of(ids));
  EXPECT_EQ(all_of(*read_megatron(folder.path() + "/a", {}, settings_of("vocab_size=70000"))).tokens, expected) << int(code);
}

TEST(Megatron, IdsOfAllTypesOfIntegersAreRead) {
  expect_read<std::uint8_t>(1, {0, 255}, {0, 255});
  expect_read<std::int8_t>(2, {0, 127}, {0, 127});
  expect_read<std::int16_t>(3, {0, 32767}, {0, 32767});
  expect_read<std::int32_t>(4, {0, 69999}, {0, 69999});
  expect_read<std::int64_t>(5, {0, 69999}, {0, 69999});
  expect_read<std::uint16_t>(8, {0, 65535}, {0, 65535});
}

TEST(Megatron, IdsThatAreNoneAreRefused) {
  const TemporaryFolder folder;
  MegatronIndex index{.sizes = {2}, .begins = {0}, .documents = {0, 1}};
  const auto message = [&] { return message_of([&] { all_of(*read_megatron(folder.path() + "/a", {}, settings_of())); }); };
  folder.write("a.idx", index.bytes());
  folder.write("a.bin", bytes_of<std::int32_t>({7, 300}));
  EXPECT_EQ(message(), folder.path() + "/a.bin: token 300 at position 1 of document 0, but vocab_size=300\n"
                                       "  fix: a larger vocab_size, or the data that belongs to this model");
  folder.write("a.bin", bytes_of<std::int32_t>({-1, 300}));
  EXPECT_THAT(message(), HasSubstr("no token id at position 0 of document 0"));
  index.code = 2;
  folder.write("a.idx", index.bytes());
  folder.write("a.bin", bytes_of<std::int8_t>({7, -2}));
  EXPECT_THAT(message(), HasSubstr("no token id at position 1 of document 0"));
  index.code = 5;
  folder.write("a.idx", index.bytes());
  folder.write("a.bin", bytes_of<std::int64_t>({1, std::int64_t{1} << 32}));
  EXPECT_THAT(message(), HasSubstr("no token id at position 1 of document 0"));
}

TEST(Megatron, AnIndexThatIsDamagedIsRefused) {
  const TemporaryFolder folder;
  folder.write("a.bin", bytes_of<std::int32_t>({7, 8, 9, 10, 11, 12}));
  const auto message = [&](const std::string& bytes) {
    folder.write("a.idx", bytes);
    return message_of([&] { all_of(*read_megatron(folder.path() + "/a", {}, settings_of())); });
  };
  const auto with = [&](auto change) {
    MegatronIndex index = small_index();
    change(index);
    return message(index.bytes());
  };
  const std::string whole = small_index().bytes();
  EXPECT_EQ(message(whole), "no error");
  for (std::size_t size = 1; size < whole.size(); ++size) EXPECT_NE(message(whole.substr(0, size)), "no error") << size;
  EXPECT_THAT(message(whole.substr(0, whole.size() - 1)), HasSubstr("113 bytes, but 4 sequences and 4 marks take 114: the index is cut short"));
  EXPECT_EQ(message("text"), folder.path() + "/a.idx: no index of token ids: it does not begin with MMIDIDX\n"
                                             "  fix: make the files again, or copy both of them again");
  EXPECT_THAT(with([](auto& of) { of.version = 2; }), HasSubstr("version 2 of the index, 1 was expected"));
  for (const std::uint8_t code : std::initializer_list<std::uint8_t>{0, 6, 7, 9, 255}) EXPECT_THAT(with([&](auto& of) { of.code = code; }), HasSubstr(fmt::format("ids of type {}, which are no integers", code)));
  EXPECT_THAT(with([](auto& of) { of.sizes[2] = -1; }), HasSubstr("sequence 2 is -1 tokens from byte 8 on, in a .bin of 24 bytes"));
  EXPECT_THAT(with([](auto& of) { of.sizes[3] = 2; }), HasSubstr("sequence 3 is 2 tokens from byte 20 on, in a .bin of 24 bytes"));
  EXPECT_THAT(with([](auto& of) { of.begins[1] = -8; }), HasSubstr("sequence 1 is 0 tokens from byte -8 on"));
  EXPECT_THAT(with([](auto& of) { of.begins[0] = std::int64_t{1} << 62; }), HasSubstr("sequence 0 is 2 tokens from byte"));
  EXPECT_THAT(with([](auto& of) { of.documents = {0, 3, 1, 4}; }), HasSubstr("a document begins with sequence 1, after one that begins with 3, of 4"));
  EXPECT_THAT(with([](auto& of) { of.documents = {0, 9}; }), HasSubstr("a document begins with sequence 9"));
  EXPECT_THAT(with([](auto& of) { of.documents = {1, 4}; }), HasSubstr("documents go from sequence 1 to 4, of 4"));
  EXPECT_THAT(with([](auto& of) { of.documents = {0, 3}; }), HasSubstr("documents go from sequence 0 to 3, of 4"));
  EXPECT_THAT(with([](auto& of) { of.documents = {}; }), HasSubstr("the index is cut short"));
  for (const std::size_t at : {18u, 26u}) {
    std::string huge = whole;
    huge[at + 7] = '\x7f';
    EXPECT_THAT(message(huge), HasSubstr("the index is cut short"));
  }
}

TEST(Megatron, AnIndexWithoutDocumentsIsRefused) {
  const TemporaryFolder folder;
  folder.write("a.idx", MegatronIndex{.sizes = {}, .begins = {}, .documents = {0}}.bytes());
  folder.write("a.bin", bytes_of<std::int32_t>({7}));
  EXPECT_EQ(message_of([&] { rows_of_documents(read_megatron(folder.path() + "/a", {}, settings_of()), {}); }),
            folder.path() + "/a.bin: no document has a token\n  fix: make the files again, or copy both of them again");
}

TEST(Megatron, FilesThatAreNotThereOrEmptyAreNamed) {
  const TemporaryFolder folder;
  const auto message = [&] { return message_of([&] { all_of(*read_megatron(folder.path() + "/a", {}, settings_of())); }); };
  EXPECT_THAT(message(), HasSubstr("/a.idx: the data cannot be read"));
  folder.write("a.idx", small_index().bytes());
  EXPECT_THAT(message(), HasSubstr("/a.bin: the data cannot be read"));
  folder.write("a.bin", "");
  EXPECT_THAT(message(), HasSubstr("/a.bin: the file is empty"));
  folder.write("a.bin", bytes_of<std::int32_t>({7, 8, 9, 10, 11, 12}));
  folder.write("a.idx", MegatronIndex{.sizes = {0}, .begins = {0}, .documents = {0, 1}}.bytes());
  EXPECT_EQ(message_of([&] { read_megatron(folder.path() + "/a", {}, settings_of())->refuse_none(); }),
            folder.path() + "/a.bin: no document has a token\n  fix: make the files again, or copy both of them again");
}

}  // namespace
}  // namespace moesh::data
