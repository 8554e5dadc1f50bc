// Tokenizers: how a text and its tokens correspond, and what is said about files that are not valid.
#include <chrono>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <sys/mman.h>

#include "tests/paths.h"
#include "tests/tokenizer/tokenizer_support.h"

namespace moesh::tokenizer {
namespace {

using test::message_of;
using test::Part;
using test::tokenizer_of;
using test::tokens_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kTokenizers = (test::source_folder() / "tests/golden/tokenizers").string();
const std::string kByteLevel = R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";

std::string refusal(const std::vector<Part>& parts) {
  return message_of([&] { tokenizer_of(parts); });
}

TEST(Tokenizer, MergesPairsInTheirOrder) {
  const auto tokenizer = tokenizer_of({});
  EXPECT_THAT(tokens_of(*tokenizer, "abcab c"), ElementsAre("abc", "ab", " ", "c"));
  EXPECT_THAT(tokenizer->encode("abcab", Special::added), ElementsAre(11, 10));
  EXPECT_EQ(tokenizer->decode(Ids{11, 9, 10}, Special::added), "abc ab");
  EXPECT_EQ(tokenizer->size(), 12);
  EXPECT_EQ(tokenizer->describe(), "byte pairs of t");
}

TEST(Tokenizer, TellsTheBytesThatATokenCameFromThroughAllSteps) {
  const auto tokenizer = tokenizer_of({{"normalizer", R"({"type": "Sequence", "normalizers": [
      {"type": "NFKD"}, {"type": "StripAccents"}, {"type": "Lowercase"}, {"type": "Replace", "pattern": {"String": "ef"}, "content": "d"}]})"}});
  const std::vector<Piece> pieces = tokenizer->pieces(
      "\xC3\x81"
      "B\xEF\xBC\xA3"
      "ef",
      Special::added);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[0].token, "abc");
  EXPECT_EQ(pieces[0].begin, 0);
  EXPECT_EQ(pieces[0].end, 6);
  EXPECT_EQ(pieces[1].token, "d");
  EXPECT_EQ(pieces[1].begin, 6);
  EXPECT_EQ(pieces[1].end, 8);
}

// A multi-byte sequence that breaks off is replaced by one character, as most decoders do.
TEST(Tokenizer, TakesBytesThatAreNoTextForReplacementCharacters) {
  const auto tokenizer = open(kTokenizers + "/bytelevel-gpt2");
  const std::string bad =
                        "a\xFF\xE6\x97"
                        "b\xF0\x9F\x92",
                    good =
                        "a\xEF\xBF\xBD\xEF\xBF\xBD"
                        "b\xEF\xBF\xBD";
  EXPECT_EQ(tokenizer->encode(bad, Special::added), tokenizer->encode(good, Special::added));
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(bad, Special::added), Special::added), good);
  EXPECT_EQ(tokenizer->pieces(bad, Special::added).back().end, 8);
  const auto pieces = open(kTokenizers + "/spm-bpe");
  EXPECT_EQ(pieces->decode(pieces->encode("a\xE6\x97", Special::added), Special::added), "a\xEF\xBF\xBD\xEF\xBF\xBD");
}

TEST(Tokenizer, KeepsAllThatIsAscii) {
  const auto tokenizer = open(kTokenizers + "/bytelevel-llama3");
  std::string all;
  for (int c = 0; c < 128; ++c) all += static_cast<char>(c);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(all, Special::left_out), Special::added), all);
}

TEST(Tokenizer, MayBeUsedBySeveralThreads) {
  const auto tokenizer = open(kTokenizers + "/bytelevel-gpt2");
  const std::string text = "hello world, the same words again and again";
  const Ids expected = tokenizer->encode(text, Special::added);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int times = 0; times < 200; ++times) wrong[i] += tokenizer->encode(text, Special::added) == expected ? 0 : 1;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
}

// A long word is cut only where no token can span the cut, so its parts have the same tokens as the whole.
TEST(Tokenizer, CutsLongWordsOnlyWhereNoTokenGoesAcross) {
  const auto tokenizer = tokenizer_of({});
  std::string text;
  for (int i = 0; i < 100; ++i) text += i % 3 == 0 ? "abc" : i % 3 == 1 ? "bca" : "?xab";
  const std::vector<std::string> tokens = tokens_of(*tokenizer, text);
  std::vector<std::string> expected;
  for (int i = 0; i < 100; ++i) {
    for (const std::string& token : tokens_of(*tokenizer, i % 3 == 0 ? "abc" : i % 3 == 1 ? "bca" : "?xab"))
      expected.push_back(token);
  }
  // No part ends with "a" before a part that begins with "b".
  EXPECT_EQ(tokens, expected);
}

TEST(TokenizerSlow, TakesTimeThatGrowsWithTheTextOnly) {
  const auto tokenizer = open(kTokenizers + "/bytelevel-gpt2");
  const auto begin = std::chrono::steady_clock::now();
  const std::string word(2'000'000, 'x'), blanks(2'000'000, ' ');
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(word, Special::added), Special::added), word);
  EXPECT_EQ(tokenizer->decode(tokenizer->encode(blanks + "a", Special::added), Special::added), blanks + "a");
  for (const char* name : {"uni-whole", "llama-spm", "bert-uncased", "metaspace-strip"})
    open(kTokenizers + "/" + name)->encode(word, Special::added);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(test::kIsSanitized ? 300 : 60));
}

// A tokenizer.json alone does not name the token, but puts it there.
TEST(Tokenizer, TextsBeginAsTheTokenizerBeginsThem) {
  const auto tokenizer = open(kTokenizers + "/bytelevel-llama3");
  ASSERT_TRUE(tokenizer->begin_id);
  EXPECT_EQ(tokenizer->encode("a", Special::added).front(), *tokenizer->begin_id);
  EXPECT_NE(tokenizer->encode("a", Special::left_out).front(), *tokenizer->begin_id);
}

TEST(Tokenizer, ReadsTheNamesOfTokensThatBeginAndEndTexts) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.json", test::tokenizer_json().dump());
  EXPECT_EQ(open(folder.path())->begin_id, std::nullopt);
  folder.write("special_tokens_map.json", R"({"eos_token": "d"})");
  folder.write("tokenizer_config.json", R"({"bos_token": {"content": "c"}, "eos_token": null})");
  const auto tokenizer = open(folder.path());
  EXPECT_EQ(tokenizer->begin_id, 3);
  EXPECT_EQ(tokenizer->end_id, 4);
  folder.write("tokenizer_config.json", "[]");
  EXPECT_THAT(message_of([&] { open(folder.path()); }), HasSubstr("the settings of a tokenizer are no object"));
}

TEST(Tokenizer, PutsTokensAroundSentencePiecesAsTheSettingsSay) {
  const test::TemporaryFolder folder;
  folder.write("tokenizer.model", test::read_text(kTokenizers + "/spm-bpe/tokenizer.model"));
  EXPECT_THAT(open(folder.path())->encode("", Special::added), ElementsAre(1));
  folder.write("tokenizer_config.json", R"({"add_bos_token": false, "add_eos_token": true})");
  EXPECT_THAT(open(folder.path())->encode("", Special::added), ElementsAre(2));
  EXPECT_THAT(open(folder.path())->encode("", Special::left_out), ElementsAre());
  EXPECT_EQ(open(folder.path())->begin_id, 1);
}

TEST(Tokenizer, OpensAFolderByTheFileThatItHas) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(message_of([&] { open(folder.path()); }),
            folder.path() +
                ": the folder has no tokenizer.json and no tokenizer.model\n"
                "  fix: a folder with a tokenizer.json or tokenizer.model, or such a file");
  folder.write("tokenizer.model", test::read_text(kTokenizers + "/spm-unigram/tokenizer.model"));
  EXPECT_THAT(open(folder.path())->describe(), HasSubstr("SentencePiece's pieces of "));
  const std::string json = folder.write("tokenizer.json", test::tokenizer_json().dump());
  EXPECT_THAT(open(folder.path())->describe(), HasSubstr("byte pairs of "));
  EXPECT_THAT(open(folder.path(), Format::sentencepiece)->describe(), HasSubstr("tokenizer.model"));
  EXPECT_THAT(message_of([&] { open(json, Format::sentencepiece); }),
              HasSubstr("a tokenizer.model was asked for, the file is none"));
}

TEST(Tokenizer, RefusesFilesThatAreNone) {
  const test::TemporaryFolder folder;
  const auto message = [&](const std::string& text) { return message_of([&] { open(folder.write("a", text)); }); };
  EXPECT_THAT(message("{"), HasSubstr("not readable as JSON"));
  EXPECT_THAT(message("{\"model_type\": \"llama\"}"), HasSubstr("no tokenizer.json: it has no \"model\""));
  EXPECT_THAT(message("no tokenizer"), HasSubstr("not readable as a tokenizer.model: "));
  EXPECT_THAT(message(""), HasSubstr("not readable as a tokenizer.model: "));
  EXPECT_THAT(message(test::read_text(kTokenizers + "/spm-bpe/tokenizer.model").substr(0, 4000)),
              HasSubstr("not readable as a tokenizer.model: "));
  EXPECT_THAT(message_of([&] { open(folder.path() + "/nothing"); }),
              HasSubstr("the tokenizer cannot be read: No such file"));
  EXPECT_THAT(message_of([&] { open("vocab.tiktoken"); }), HasSubstr("files of tiktoken are not read"));
  const std::string whole = test::read_text(kTokenizers + "/bytelevel-gpt2/tokenizer.json");
  for (std::size_t cut = 1; cut < whole.size() - 2; cut += whole.size() / 50) {
    EXPECT_THAT(message(whole.substr(0, cut)), HasSubstr("not readable as JSON")) << cut;
  }
}

TEST(Tokenizer, RefusesIdsThatItLacks) {
  const auto tokenizer = tokenizer_of({});
  for (const std::int32_t id : {-1, 12, 1'000'000'000}) {
    EXPECT_EQ(message_of([&] {
                tokenizer->decode(Ids{1, id}, Special::added);
              }),
              "t: " + std::to_string(id) +
                  " is the id of no token, those that there are lie below 12\n  fix: ids that this tokenizer has made");
  }
  const auto pieces = open(kTokenizers + "/spm-bpe");
  EXPECT_THAT(message_of([&] { pieces->decode(Ids{480}, Special::added); }),
              HasSubstr("480 is the id of no token, those that there are lie below 480"));
  EXPECT_EQ(pieces->id("<s>"), 1);
  EXPECT_EQ(pieces->id("no such token"), std::nullopt);
}

TEST(Tokenizer, RefusesTextsBeyondAllBounds) {
  const std::size_t bytes = (std::size_t{1} << 31) + 1;
  void* nothing = ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(nothing, MAP_FAILED);
  const std::string_view text(static_cast<const char*>(nothing), bytes);
  EXPECT_THAT(
      message_of([&] { tokenizer_of({})->encode(text, Special::added); }),
      HasSubstr("a text of 2,147,483,649 bytes, or that grows to them, at most 2,147,483,648 are tokenized at once"));
  EXPECT_THAT(message_of([&] { open(kTokenizers + "/spm-bpe")->encode(text, Special::added); }),
              HasSubstr("a text of 2,147,483,649 bytes, SentencePiece takes at most 67,108,864 at once"));
  ::munmap(nothing, bytes);
}

TEST(Tokenizer, RefusesPartsThatItDoesNotDoByTheirNames) {
  EXPECT_EQ(refusal({{"normalizer", R"({"type": "Unknown"})"}}),
            "t: normalizer: a normalizer of type Unknown is not done\n  fix: one of NFC, NFD, NFKC, NFKD, Lowercase, "
            "Strip, StripAccents, "
            "Replace, Prepend, BertNormalizer, Precompiled, Nmt, ByteLevel, Sequence");
  EXPECT_THAT(refusal({{"pre_tokenizer", R"({"type": "UnicodeScripts"})"}}),
              HasSubstr("a pre_tokenizer of type UnicodeScripts is not done"));
  EXPECT_THAT(refusal({{"decoder", R"({"type": "CTC"})"}}), HasSubstr("a decoder of type CTC is not done"));
  EXPECT_THAT(refusal({{"post_processor", R"({"type": "X"})"}}), HasSubstr("a post_processor of type X is not done"));
  EXPECT_THAT(refusal({{"model", R"({"type": "Other"})"}}), HasSubstr("a model of type Other is not done"));
  EXPECT_THAT(refusal({{"version", R"("2.0")"}}), HasSubstr("version '2.0' of the format, 1.0 was expected"));
  EXPECT_THAT(refusal({{"normalizer", R"({"normalizers": []})"}}), HasSubstr("'type' is missing"));
  EXPECT_THAT(refusal({{"normalizer", R"({"type": "Sequence", "normalizers": 3})"}}),
              HasSubstr("'normalizers' is no list"));
  EXPECT_THAT(refusal({{"added_tokens", "{}"}}), HasSubstr("'added_tokens' is no list"));
}

TEST(Tokenizer, RefusesStepsThatAskForTheImpossible) {
  EXPECT_THAT(refusal({{"normalizer", R"({"type": "Replace", "pattern": {"String": ""}, "content": "a"})"}}),
              HasSubstr("an empty string stands as a pattern"));
  EXPECT_THAT(refusal({{"normalizer", R"({"type": "Replace", "pattern": {"Regex": "(a"}, "content": "a"})"}}),
              HasSubstr("not a regular expression: '(a': missing closing parenthesis"));
  for (const char* map : {"AAA", "AAAAAAAA", "//////////////8=", "?AAAAAAAAAAA"}) {
    EXPECT_EQ(refusal({{"normalizer", fmt::format(R"({{"type": "Precompiled", "precompiled_charsmap": "{}"}})", map)}}),
              "t: normalizer: 'precompiled_charsmap' is damaged\n  fix: take the file from where it came from again")
        << map;
  }
  EXPECT_THAT(refusal({{"pre_tokenizer",
                        R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Odd", "invert": false})"}}),
              HasSubstr("a behavior 'Odd'"));
  EXPECT_THAT(refusal({{"pre_tokenizer", R"({"type": "Metaspace", "replacement": "_", "prepend_scheme": "last"})"}}),
              HasSubstr("prepend_scheme 'last' with add_prefix_space true"));
  EXPECT_THAT(refusal({{"pre_tokenizer", R"({"type": "Metaspace", "replacement": ""})"}}),
              HasSubstr("an empty 'replacement' of spaces"));
  EXPECT_THAT(refusal({{"pre_tokenizer", R"({"type": "FixedLength", "length": 0})"}}),
              HasSubstr("words of length 0, 1 or more was expected"));
  EXPECT_THAT(refusal({{"decoder", R"({"type": "BPEDecoder", "suffix": ""})"}}), HasSubstr("'suffix' is empty"));
  EXPECT_THAT(refusal({{"post_processor", R"({"type": "BertProcessing", "sep": ["d", 4], "cls": ["c"]})"}}),
              HasSubstr("'cls' is no token with its id"));
  EXPECT_THAT(refusal({{"post_processor", R"({"type": "BertProcessing", "sep": ["d", 4], "cls": ["c", -3]})"}}),
              HasSubstr("a special token with id -3"));
  EXPECT_THAT(refusal({{"post_processor", R"({"type": "BertProcessing", "sep": ["d", 4], "cls": ["c", 12]})"}}),
              HasSubstr("12 is the id of no token"));
  EXPECT_THAT(
      refusal({{"post_processor",
                R"({"type": "TemplateProcessing", "single": [{"Sequence": {"id": "B"}}], "special_tokens": {}})"}}),
      HasSubstr("a template for one text names another one than A"));
  const std::string bert = R"({"type": "BertProcessing", "sep": ["d", 4], "cls": ["c", 3]})";
  EXPECT_THAT(refusal({{"post_processor", R"({"type": "Sequence", "processors": [)" + bert + "," + bert + "]}"}}),
              HasSubstr("two post_processors that add tokens"));
}

TEST(Tokenizer, RefusesVocabulariesThatContradictThemselves) {
  const auto model = [](const std::string& vocab, const std::string& more) {
    return refusal({{"model", R"({"type": "BPE", "vocab": )" + vocab + more + "}"}});
  };
  EXPECT_THAT(model(R"({"a": 0})", R"(, "merges": ["a b"])"),
              HasSubstr("the merge \"a b\" has or makes 'b', which is no token"));
  EXPECT_THAT(model(R"({"a": 0, "b": 1})", R"(, "merges": [["a", "b"]])"),
              HasSubstr("has or makes 'ab', which is no token"));
  EXPECT_THAT(model(R"({"a": 0})", R"(, "merges": ["ab"])"), HasSubstr("a merge \"ab\", which is not of two tokens"));
  EXPECT_THAT(model(R"({"a": 0})", R"(, "merges": ["a b c"])"), HasSubstr("which is not of two tokens"));
  EXPECT_THAT(model(R"({"a": 0})", R"(, "merges": 1)"), HasSubstr("'merges' is no list"));
  EXPECT_THAT(model(R"({"a": 0})", ""), HasSubstr("'merges' is missing"));
  EXPECT_THAT(model(R"({"a": 0})", R"(, "merges": [], "dropout": 0.5)"),
              HasSubstr("dropout 0.5 of merges, with which a text has other tokens each time"));
  EXPECT_THAT(model("[]", R"(, "merges": [])"), HasSubstr("'vocab' is no object of tokens and their ids"));
  EXPECT_THAT(model(R"({"a": "0"})", R"(, "merges": [])"), HasSubstr("token 'a' has \"0\" as its id"));
  EXPECT_THAT(model(R"({"a": -1})", R"(, "merges": [])"),
              HasSubstr("token 'a' has id -1, ids from 0 to 16777215 are taken"));
  EXPECT_THAT(model(R"({"a": 1e18})", R"(, "merges": [])"), HasSubstr("as its id"));
  EXPECT_THAT(model(R"({"a": 2147483647})", R"(, "merges": [])"), HasSubstr("ids from 0 to 16777215 are taken"));
  EXPECT_THAT(model(R"({"a": 3, "b": 3})", R"(, "merges": [])"), HasSubstr("tokens 'a' and 'b' have the same id 3"));
  const auto unigram = [](const std::string& more) {
    return refusal({{"model", R"({"type": "Unigram", )" + more + "}"}});
  };
  EXPECT_THAT(unigram(R"("vocab": [])"), HasSubstr("'vocab' is empty"));
  EXPECT_THAT(unigram(R"("vocab": [["a"]])"),
              HasSubstr("an entry [\"a\"] of 'vocab', which is no token with its score"));
  EXPECT_THAT(unigram(R"("vocab": [["a", 0]], "unk_id": 1)"), HasSubstr("'unk_id' is 1, the vocabulary has 1 token"));
}

TEST(Tokenizer, RefusesTextsThatNoTokenTakesWhereNothingStandsForThem) {
  const std::string reason = "the text: a part of the text is in no token, and the token for that, '";
  const auto message = [](const std::string& model, const std::string& text) {
    const auto tokenizer = tokenizer_of({{"model", model}});
    return message_of([&] { tokenizer->encode(text, Special::added); });
  };
  EXPECT_THAT(message(R"({"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_token": "?"})", "ab"),
              HasSubstr(reason + "?'"));
  EXPECT_THAT(message(R"({"type": "Unigram", "vocab": [["a", 0]]})", "ab"), HasSubstr(reason + "unk_id'"));
  EXPECT_THAT(message(R"({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "?"})", "ab"), HasSubstr(reason));
  EXPECT_EQ(message(R"({"type": "BPE", "vocab": {"a": 0}, "merges": []})", "ab"), "no error")
      << "it is left out where no token is named";
}

// An expression that backtracks without end is given up on.
TEST(Tokenizer, GivesUpOnExpressionsWithoutEnd) {
  const auto tokenizer = tokenizer_of(
      {{"pre_tokenizer",
        R"({"type": "Split", "pattern": {"Regex": "(a+)+b|(a|aa)+$x"}, "behavior": "Isolated", "invert": false})"}});
  EXPECT_THAT(message_of([&] { tokenizer->encode(std::string(5000, 'a') + "c", Special::added); }),
              HasSubstr("t: pre_tokenizer: a regular expression gave up on a text: "));
}

TEST(Tokenizer, GivesAddedTokensTheIdsThatTheModelHasOrThoseBehind) {
  const auto added = [](int id, const std::string& content) {
    return fmt::format(
        R"({{"id": {}, "content": "{}", "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}})",
        id, content);
  };
  const auto tokenizer =
      tokenizer_of({{"added_tokens", "[" + added(12, "<x>") + "," + added(1, "a") + "," + added(13, "<xy>") + "]"}});
  EXPECT_THAT(tokenizer->encode("a<xy><x>b", Special::added), ElementsAre(1, 13, 12, 2));
  EXPECT_EQ(tokenizer->decode(Ids{1, 13, 2}, Special::added), "a<xy>b");
  EXPECT_EQ(tokenizer->decode(Ids{1, 13, 2}, Special::left_out), "b");
  EXPECT_EQ(tokenizer->size(), 14);
  EXPECT_EQ(tokenizer->id("<xy>"), 13);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(tokenizer_of({{"added_tokens", "[" + added(40, "<x>") + "]"}})->id("<x>"), 12);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("t: added_tokens: token '<x>' has id 12, which the file says is 40"));
}

TEST(Tokenizer, SaysThatTextsAreNotCutOrPadded) {
  ::testing::internal::CaptureStderr();
  tokenizer_of({{"truncation", R"({"max_length": 4})"}});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("t: its truncation is left out, texts stay as long as they are"));
}

}  // namespace
}  // namespace moesh::tokenizer
