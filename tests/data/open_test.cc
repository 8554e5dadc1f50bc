// Where batches come from: what each reader returns, and what it refuses.
#include <cstring>
#include <filesystem>
#include <set>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "config/load.h"
#include "data/open.h"
#include "tests/data/rows_support.h"
#include "tests/paths.h"
#include "tests/support.h"
#include "tokenizer/tokenizer.h"

namespace moesh::data {
namespace {

using test::bytes_of;
using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::unique_ptr<TokenSource> opened(const std::string& request, std::int64_t rows = 4) {
  return open_source(config::load(test::words_of("max_target_length=2 " + request)).settings, rows, 2);
}

std::unique_ptr<TokenSource> file(const std::string& type, const std::string& path) {
  return opened("enable_data_shuffling=false dataset_type=" + type + " dataset_path=" + path);
}

TEST(Data, SyntheticTokensAreTheSameAtEveryStepAndSpreadOverTheVocabulary) {
  const auto tokens = opened("dataset_type=synthetic vocab_size=50", 3);
  std::set<std::int32_t> seen;
  for (std::int64_t row = 0; row < 3; ++row) {
    const Tokens first = row_of(*tokens, row, 200);
    EXPECT_EQ(first, row_of(*tokens, row + 3, 200));
    EXPECT_NE(first, row_of(*tokens, (row + 1) % 3, 200));
    seen.insert(first.begin(), first.end());
  }
  EXPECT_EQ(seen.size(), 50u);
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), 49);
}

TEST(Data, TextIsItsBytesInRowsThatOverlapByOneTokenRoundAndRound) {
  const test::TemporaryFolder folder;
  const auto text = file("text", folder.write("a.txt", "abcdefg\xff"));
  EXPECT_THAT(row_of(*text, 0, 4), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(row_of(*text, 1, 4), ElementsAre('d', 'e', 'f', 'g'));
  EXPECT_THAT(row_of(*text, 2, 4), ElementsAre('g', 255, 'a', 'b'));
  EXPECT_THAT(row_of(*text, 8, 4), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(text->describe(), HasSubstr("8 tokens"));
}

TEST(Data, TextShorterThanARowIsRepeatedWithinIt) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(row_of(*file("text", folder.write("a.txt", "ab")), 0, 5), ElementsAre('a', 'b', 'a', 'b', 'a'));
}

TEST(Data, JsonLinesGiveTheirTextsEachWithAZeroBehind) {
  const test::TemporaryFolder folder;
  const auto texts =
      file("jsonl", folder.write("a.jsonl", "{\"text\": \"ab\", \"id\": 3}\n\n  \r\n{\"text\": \"\\u00e9\"}\n"));
  EXPECT_THAT(row_of(*texts, 0, 6), ElementsAre('a', 'b', 0, 0xc3, 0xa9, 0));
}

TEST(Data, JsonLinesWithoutAnyDocumentAreRefused) {
  const test::TemporaryFolder folder;
  const std::string of_lines = "lines that are JSON objects, {\"text\": ...}, or dataset_type=text";
  const std::string of_fields = "name the field that holds the documents: train_data_columns=[FIELD]; the first line has ";
  const std::pair<const char*, std::string> cases[] = {
      {"\n \n", of_lines}, {"text", of_lines}, {"[{\"text\": \"a\"}]", of_lines}, {"{\"text\": 3}\n", of_fields + "text"},
      {"{\"id\": 3, \"body\": \"a\"}\n", of_fields + "body, id"}, {"{}\n", of_fields + "none"},
      {"{\"text\": [1, 2]}\n", "tokenize_train_data=false takes token ids"}};
  for (const auto& [text, fix] : cases) {
    const std::string path = folder.write("a.jsonl", text);
    EXPECT_EQ(message_of([&] { file("jsonl", path); }), path + ": no line is found that holds a text as \"text\"\n  fix: " + fix);
  }
  const std::string texts = folder.write("b.jsonl", "{\"text\": \"a\"}\n");
  EXPECT_THAT(message_of([&] { opened("dataset_type=jsonl tokenize_train_data=false dataset_path=" + texts); }),
              HasSubstr("\n  fix: tokenize_train_data=true takes texts"));
}

// By their first bytes.
TEST(Data, FilesThatAreCompressedOrInAnotherEncodingAreNoText) {
  const test::TemporaryFolder folder;
  const std::pair<std::string, std::string> forms[] = {{"\x1f\x8b\x08", "compressed by gzip"},     {"\x28\xb5\x2f\xfd", "compressed by zstd"},
                                                       {"\xfd" "7zXZ", "compressed by xz"},       {"BZh91AY&SY", "compressed by bzip2"},
                                                       {"PK\x03\x04", "a ZIP archive"},          {"\xff\xfe" "a", "in UTF-16"},
                                                       {"\xfe\xff", "in UTF-16"},              {"PAR1", "in Parquet"},
                                                       {"ARROW1", "in Arrow"}};
  for (const auto& [begin, words] : forms) {
    const std::string path = folder.write("a", begin + "and more");
    for (const std::string type : {"text", "jsonl"})
      EXPECT_THAT(message_of([&] { file(type, path); }), HasSubstr(path + ": the file is " + words + ", plain text was expected\n  fix: ")) << type;
  }
  EXPECT_THAT(message_of([&] { file("text", folder.write("a", "PAR1")); }),
              HasSubstr("fix: dataset_type=jsonl, of what pandas makes: read_parquet or read_feather, then to_json("));
  EXPECT_THAT(message_of([&] { file("text", folder.write("a", "\x1f\x8b")); }), HasSubstr("fix: gunzip " + folder.path() + "/a"));
  folder.write("b", "PAR1");
  EXPECT_THAT(message_of([&] { file("text", folder.path()); }), HasSubstr("the file is compressed by gzip, plain text was expected"));
  folder.write("b", "text");
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(message_of([&] { file("text", folder.path()); }), "no error");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(folder.path() + "/a: the file is compressed by gzip, and its bytes are taken as they are"));
}

TEST(Data, TokensAreReadAsInt32OrByTheEndingAsUint16) {
  const test::TemporaryFolder folder;
  const auto wide = opened("enable_data_shuffling=false dataset_type=tokens vocab_size=70001 dataset_path=" +
                           folder.write("a.bin", bytes_of<std::int32_t>({7, 70000, 0})));
  EXPECT_THAT(row_of(*wide, 0, 3), ElementsAre(7, 70000, 0));
  const auto narrow = opened("enable_data_shuffling=false dataset_type=tokens vocab_size=70001 dataset_path=" +
                             folder.write("a.u16", bytes_of<std::uint16_t>({7, 65535, 0})));
  EXPECT_THAT(row_of(*narrow, 0, 3), ElementsAre(7, 65535, 0));
}

TEST(Data, TokensThatAreCutShortAreRefused) {
  const test::TemporaryFolder folder;
  const std::string wide = folder.write("a.bin", "abcdef");
  EXPECT_EQ(message_of([&] { opened("dataset_type=tokens token_bytes=4 dataset_path=" + wide); }),
            wide + ": 6 bytes are no whole number of 4-byte tokens\n"
                   "  fix: the file is cut short, or token_bytes says otherwise");
  const std::string narrow = folder.write("a.u16", "abc");
  EXPECT_THAT(message_of([&] { file("tokens", narrow); }), HasSubstr("3 bytes are no whole number of 2-byte tokens"));
}

TEST(Data, FilesMustBeNamed) {
  for (const char* type : {"text", "jsonl", "tokens", "megatron"}) {
    EXPECT_THAT(message_of([&] { opened(std::string("dataset_type=") + type); }), HasSubstr("dataset_path is empty"));
  }
}

TEST(Data, OtherSourcesAreRefusedWithAWayOut) {
  const std::string message = message_of([] { opened("dataset_type=tfds"); });
  EXPECT_THAT(message, HasSubstr("dataset_type=tfds is not read by moesh"));
  EXPECT_THAT(message, HasSubstr("dataset_type=synthetic"));
  EXPECT_EQ(message_of([] { opened("dataset_type=parquet"); }),
            "the command line: dataset_type=parquet is not read by moesh: Debian 12 has no library for it\n"
            "  fix: dataset_type=jsonl, of files that pyarrow or pandas makes: read_parquet(FILE).to_json(FILE, orient=\"records\", lines=True)");
}

// The row has two documents; the second continues in the next row.
TEST(Data, DocumentsInARowAreSegmentsWithPositionsOfTheirOwn) {
  const test::TemporaryFolder folder;
  const auto texts = file("jsonl", folder.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cdefgh\"}\n"));
  const Example first = texts->example(0, 5);
  EXPECT_THAT(first.inputs, ElementsAre('a', 'b', 0, 'c', 'd'));
  EXPECT_THAT(first.targets, ElementsAre('b', 0, 'c', 'd', 'e'));
  EXPECT_THAT(first.segments, ElementsAre(1, 1, 1, 2, 2));
  EXPECT_THAT(first.positions, ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(first.target_segments, ElementsAre(1, 1, 2, 2, 2));
  const Example second = texts->example(1, 5);
  EXPECT_THAT(second.inputs, ElementsAre('e', 'f', 'g', 'h', 0));
  EXPECT_THAT(second.segments, ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(second.positions, ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(second.target_segments, ElementsAre(1, 1, 1, 1, 2)) << "round and round";
}

TEST(Data, ATextIsOneDocument) {
  const test::TemporaryFolder folder;
  const Example made = file("text", folder.write("a.txt", "abc"))->example(0, 4);
  EXPECT_THAT(made.segments, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(made.positions, ElementsAre(0, 1, 2, 3));
}

TEST(Data, UnpackedDocumentsHaveARowEach) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"ab\"}\n{\"text\": \"cdefgh\"}\n");
  const std::string request =
      "dataset_type=jsonl packing=false enable_data_shuffling=false max_target_length=4 dataset_path=";
  const auto cut = opened(request + path);
  const Example first = cut->example(0, 4);
  EXPECT_THAT(first.inputs, ElementsAre('a', 'b', 0, 0));
  EXPECT_THAT(first.targets, ElementsAre('b', 0, 0, 0));
  EXPECT_THAT(first.segments, ElementsAre(1, 1, 1, 0));
  EXPECT_THAT(first.target_segments, ElementsAre(1, 1, 0, 0));
  const Example second = cut->example(1, 4);
  EXPECT_THAT(second.inputs, ElementsAre('c', 'd', 'e', 'f'));
  EXPECT_THAT(second.target_segments, ElementsAre(1, 1, 1, 0)) << "what is cut off is no target";
  EXPECT_EQ(cut->example(2, 4).inputs, first.inputs);
  const auto split = opened(request + path + " use_truncation=false");
  EXPECT_THAT(split->example(2, 4).inputs, ElementsAre('g', 'h', 0, 0));
  EXPECT_EQ(split->example(3, 4).inputs, first.inputs);
  EXPECT_THAT(split->describe(), HasSubstr("3 rows"));
}

TEST(Data, JsonLinesAreReadAsTheirKeysSay) {
  const test::TemporaryFolder folder;
  const std::string request = "dataset_type=jsonl enable_data_shuffling=false dataset_path=";
  const std::string path = folder.write("a.jsonl", "{\"body\": \"ab\", \"ids\": [7, 300]}\n");
  EXPECT_THAT(row_of(*opened(request + path + " train_data_columns=[body]"), 0, 3), ElementsAre('a', 'b', 0));
  EXPECT_THAT(row_of(*opened(request + path + " train_data_columns=[body] add_eos=false"), 0, 3),
              ElementsAre('a', 'b', 'a'));
  const std::string ids = request + path + " tokenize_train_data=false train_data_columns=";
  EXPECT_THAT(row_of(*opened(ids + "[ids]"), 0, 2), ElementsAre(7, 300)) << "token ids are taken as they are";
  EXPECT_THAT(message_of([&] { opened(ids + "[body]"); }), HasSubstr("no line is found that holds a list of token ids as \"body\""));
}

TEST(Data, ShufflingTakesEveryRowOnceInAnOrderOfTheSeed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.txt", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ");
  const auto firsts = [&](const std::string& more) {
    const auto text = opened("dataset_type=text dataset_path=" + path + more);
    Tokens all;
    for (std::int64_t row = 0; row < 24; ++row) all.push_back(row_of(*text, row, 4).front());
    return all;
  };
  const Tokens plain = firsts(" enable_data_shuffling=false");
  const Tokens shuffled = firsts("");
  EXPECT_NE(shuffled, plain);
  EXPECT_NE(shuffled, firsts(" data_shuffle_seed=1"));
  EXPECT_EQ(shuffled, firsts(" data_shuffle_seed=0"));
  const Tokens first_round(shuffled.begin(), shuffled.begin() + 12),
      second_round(shuffled.begin() + 12, shuffled.end());
  EXPECT_NE(first_round, second_round);
  EXPECT_THAT(first_round, ::testing::UnorderedElementsAreArray(plain.begin(), plain.begin() + 12));
  EXPECT_THAT(second_round, ::testing::UnorderedElementsAreArray(plain.begin(), plain.begin() + 12));
}

TEST(Data, TheFirstBatchIsReusedWhereThatIsAsked) {
  const test::TemporaryFolder folder;
  const auto text =
      opened("dataset_type=text reuse_example_batch=1 dataset_path=" + folder.write("a.txt", "abcdefghij"), 2);
  EXPECT_EQ(row_of(*text, 2, 3), row_of(*text, 0, 3));
  EXPECT_EQ(row_of(*text, 5, 3), row_of(*text, 1, 3));
  EXPECT_NE(row_of(*text, 0, 3), row_of(*text, 1, 3));
  EXPECT_EQ(text->example(5, 2).inputs, text->example(1, 2).inputs);
}

// The expected values were drawn by the reference: a batch of 4 rows of 12 tokens with at most 5 segments.
TEST(Data, SyntheticSegmentsAreTheReferences) {
  const auto segments = [](const std::string& more) {
    const auto tokens = opened("dataset_type=synthetic max_segments_per_seq=5" + more);
    std::vector<Tokens> rows;
    for (std::int64_t row = 0; row < 4; ++row) rows.push_back(tokens->example(row, 12).segments);
    return rows;
  };
  EXPECT_THAT(
      segments(""),
      ElementsAre(ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2), ElementsAre(1, 2, 2, 2, 2, 2, 3, 3, 4, 5, 5, 5),
                  ElementsAre(1, 2, 2, 2, 2, 2, 2, 2, 3, 4, 5, 5), ElementsAre(1, 1, 1, 2, 2, 3, 3, 3, 3, 3, 3, 3)));
  const Tokens one(12, 1);
  EXPECT_THAT(segments(" packing=false"), ElementsAre(one, one, one, one));
  const Example made = opened("dataset_type=synthetic max_segments_per_seq=5")->example(5, 12);
  EXPECT_THAT(made.target_segments, ElementsAre(1, 2, 2, 2, 2, 2, 3, 3, 4, 5, 5, 5));
  EXPECT_THAT(made.positions, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11))
      << "they count on, as the reference's do";
  EXPECT_THAT(opened("dataset_type=synthetic max_segments_per_seq=5")->example(0, 1).segments, ElementsAre(1));
  for (std::int64_t row = 0; row < 4; ++row)
    EXPECT_THAT(opened("dataset_type=synthetic max_segments_per_seq=5")->example(row, 2).segments, ElementsAre(1, 2))
        << "no more than tokens";
}

TEST(Data, WhatAFileIsNotReadAsIsRefused) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a", "abc");
  const auto refusal = [&](const std::string& request) {
    return message_of([&] { opened(request + " dataset_path=" + path); });
  };
  EXPECT_THAT(refusal("dataset_type=text tokenizer_path=a/b"), HasSubstr("a/b: the tokenizer cannot be read: No such file"));
  EXPECT_THAT(refusal("dataset_type=text tokenize_train_data=false"),
              HasSubstr("tokenize_train_data=false, but dataset_type=text holds no token ids"));
  EXPECT_THAT(refusal("dataset_type=tokens packing=false"),
              HasSubstr("packing=false gives each document a row, but dataset_type=tokens knows no documents"));
  EXPECT_THAT(refusal("dataset_type=jsonl train_data_columns=[a,b]"),
              HasSubstr("train_data_columns names 2 fields, 1 was expected"));
  EXPECT_THAT(refusal("dataset_type=jsonl max_segments_per_seq=3"),
              HasSubstr("max_segments_per_seq=3, but rows of a file take as many documents as they hold"));
  EXPECT_THAT(refusal("dataset_type=jsonl max_segments_per_seq=1"), HasSubstr("max_segments_per_seq=1, but rows of a file"));
  EXPECT_EQ(refusal("dataset_type=synthetic tokenizer_path=a/b packing=false"), "no error");
}

std::unique_ptr<TokenSource> validation(const std::string& request) {
  return open_validation(config::load(test::words_of("max_target_length=2 eval_interval=1 " + request)).settings, 4, 2);
}

std::multiset<Tokens> rows_of(TokenSource& opened) {
  std::multiset<Tokens> rows;
  for (std::int64_t row = 0, count = opened.rows(2); row < count; ++row) rows.insert(row_of(opened, row, 3));
  return rows;
}

// Rows are split by their number and documents by their content, whatever the order of training.
TEST(Data, IsSplitIntoWhatIsTrainedOnAndWhatIsHeldOut) {
  const test::TemporaryFolder folder;
  std::string text, lines;
  for (int i = 0; i < 400; ++i) text += fmt::format("{:03}.", i);
  for (int i = 0; i < 200; ++i) lines += fmt::format("{{\"text\": \"{:02}\"}}\n", i);
  for (const std::string& data : {"dataset_type=text dataset_path=" + folder.write("a.txt", text),
                                  "dataset_type=jsonl packing=false add_eos=false dataset_path=" + folder.write("a.jsonl", lines)}) {
    const auto all = rows_of(*opened(data));
    const auto trained = rows_of(*opened(data + " eval_fraction=0.2")), held_out = rows_of(*validation(data + " eval_fraction=0.2"));
    EXPECT_NEAR(static_cast<double>(held_out.size()), 0.2 * static_cast<double>(all.size()), 0.07 * static_cast<double>(all.size())) << data;
    std::multiset<Tokens> both = trained;
    both.insert(held_out.begin(), held_out.end());
    EXPECT_EQ(both, all) << data;
    EXPECT_EQ(rows_of(*validation(data + " eval_fraction=0.2 data_shuffle_seed=7")), held_out) << data;
    const auto more = rows_of(*validation(data + " eval_fraction=0.4"));
    EXPECT_TRUE(std::includes(more.begin(), more.end(), held_out.begin(), held_out.end())) << data;
  }
}

TEST(Data, OfWhichAPartIsHeldOutIsShuffledToo) {
  const test::TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 200; ++i) text += fmt::format("{:03}.", i);
  const std::string request = "dataset_type=text eval_fraction=0.2 dataset_path=" + folder.write("a.txt", text);
  const auto firsts = [&](const std::string& more) {
    const auto source = opened(request + more);
    std::vector<Tokens> rows;
    for (std::int64_t row = 0; row < source->rows(2); ++row) rows.push_back(row_of(*source, row, 3));
    return rows;
  };
  const std::vector<Tokens> plain = firsts(" enable_data_shuffling=false"), shuffled = firsts("");
  EXPECT_NE(shuffled, plain);
  EXPECT_THAT(shuffled, ::testing::UnorderedElementsAreArray(plain));
}

TEST(Data, DocumentsThatAreTheSameAreOnOneSide) {
  const test::TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += fmt::format("{{\"text\": \"{}\"}}\n", i % 30);
  const std::string data = "dataset_type=jsonl packing=false dataset_path=" + folder.write("a.jsonl", lines) + " eval_fraction=0.3";
  const auto trained = rows_of(*opened(data)), held_out = rows_of(*validation(data));
  for (const Tokens& row : held_out) EXPECT_FALSE(trained.contains(row));
}

std::int64_t threads_of_this_process() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator());
}

TEST(Data, IsReadByAsManyThreadsAsAreGivenWhateverTheNumberOfSources) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n");
  std::vector<std::unique_ptr<TokenSource>> kept;
  for (const int threads : {1, 2, 4, 9}) {
    for (const int sources : {1, 3, 6}) {
      std::string paths = path;
      for (int i = 1; i < sources; ++i) paths += ",1;" + path;
      if (sources > 1) paths += ",2";
      const std::int64_t before = threads_of_this_process();
      const config::Settings settings = config::load(test::words_of("max_target_length=2 dataset_type=jsonl dataset_path=" + paths)).settings;
      kept.push_back(open_source(settings, 4, threads));
      const auto row = kept.back()->example(40, 2);
      EXPECT_EQ(threads_of_this_process() - before, std::min(threads, 4)) << sources;
      EXPECT_EQ(open_source(settings, 4, 1)->example(40, 2), row) << "the same rows on any number of threads";
    }
  }
}

TEST(Data, OfValidationEndsInPadding) {
  const test::TemporaryFolder folder;
  const auto set = validation("dataset_type=text dataset_path=x eval_dataset_path=" + folder.write("v.txt", "abcdefg"));
  ASSERT_EQ(set->rows(2), 3);
  EXPECT_THAT(set->example(1, 2).inputs, ElementsAre('c', 'd'));
  EXPECT_THAT(set->example(2, 2).target_segments, ElementsAre(1, 1));
  EXPECT_THAT(set->example(3, 2).target_segments, ElementsAre(0, 0));
  EXPECT_THAT(row_of(*set, 3, 3), ElementsAre(0, 0, 0));
  const std::string line = folder.write("v.jsonl", "{\"text\": \"a\"}");
  EXPECT_EQ(validation("dataset_type=jsonl add_eos=false dataset_path=x eval_dataset_path=" + line)->rows(2), 1)
      << "less than a row is one";
}

TEST(Data, OfValidationMayHaveItsOwnForm) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("v.jsonl", "{\"ids\": [7, 8]}\n");
  const auto set = validation("dataset_type=jsonl dataset_path=x packing=false add_eos=false eval_data_columns=[ids] tokenize_eval_data=false "
                              "eval_dataset_path=" + path);
  EXPECT_THAT(row_of(*set, 0, 3), ElementsAre(7, 8, 0));
}

TEST(Data, OfValidationMustBeThere) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("a.jsonl", "{\"text\": \"one\"}\n"), data = "dataset_type=jsonl dataset_path=" + path;
  EXPECT_EQ(message_of([&] { validation(data); }),
            "the command line: eval_interval=1 asks for evaluations, and there is no validation set\n"
            "  fix: eval_dataset_path=FILE, or eval_fraction=0.01 to hold out a part of dataset_path");
  EXPECT_THAT(message_of([&] { validation(data + " eval_fraction=0.5 eval_dataset_path=b"); }),
              HasSubstr("eval_fraction=0.5 holds out a validation set, and eval_dataset_path=b is one"));
  EXPECT_THAT(message_of([&] { validation(data + " eval_fraction=1e-9"); }), HasSubstr("eval_fraction=1e-09 of 1 document leaves none for evaluation"));
  EXPECT_THAT(message_of([&] { opened(data + " eval_fraction=0.999999"); }), HasSubstr("of 1 document leaves none for training"));
  EXPECT_EQ(message_of([&] { validation("dataset_type=text dataset_path=x eval_dataset_path=/nowhere"); }),
            "/nowhere: the data cannot be read: No such file or directory\n  fix: check the path: dataset_path, or eval_dataset_path for evaluation");
}

TEST(Data, HeldOutInVainAreToldOf) {
  const test::TemporaryFolder folder;
  const std::string data = "dataset_type=text dataset_path=" + folder.write("a.txt", std::string(1000, 'a')) + " eval_fraction=0.2";
  const auto told = [&](const std::string& more) {
    ::testing::internal::CaptureStderr();
    opened(data + more);
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(told(""), "moesh: warning: eval_fraction=0.2 keeps a part of the data from training, and nothing is evaluated: eval_interval=N does that\n");
  EXPECT_EQ(told(" eval_interval=1"), "");
}

const std::string kTokenizers = (test::source_folder() / "tests/golden/tokenizers").string();

// In spm-bpe, id 1 begins a text and id 2 ends it.
TEST(Data, TextsComeAsTheTokenizersIdsWithBeginAndEndAroundEach) {
  const test::TemporaryFolder folder;
  const auto tokenizer = tokenizer::open(kTokenizers + "/spm-bpe");
  const auto ids = [&](const std::string& text) { return tokenizer->encode(text, tokenizer::Special::left_out); };
  const auto rows = [&](const std::string& type, const std::string& path, const std::string& more) {
    const auto made = opened("vocab_size=480 enable_data_shuffling=false tokenizer_path=" + kTokenizers + "/spm-bpe dataset_type=" + type +
                             " dataset_path=" + path + more);
    const std::string words = made->describe();
    const auto count = parse_integer(words.substr(words.rfind(", ") + 2, words.rfind(' ') - words.rfind(", ") - 2));
    return row_of(*made, 0, *count);
  };
  const auto joined = [](std::vector<Tokens> all) {
    Tokens one;
    for (const Tokens& tokens : all) one.insert(one.end(), tokens.begin(), tokens.end());
    return one;
  };
  const std::string lines = folder.write("a.jsonl", "{\"text\": \"hello\"}\n{\"text\": \"the world\"}\n");
  EXPECT_EQ(rows("jsonl", lines, ""), joined({{1}, ids("hello"), {2, 1}, ids("the world"), {2}}));
  EXPECT_EQ(rows("jsonl", lines, " add_bos=false add_eos=false"), joined({ids("hello"), ids("the world")}));
  const std::string text = folder.write("a.txt", "hello, the\nworld");
  EXPECT_EQ(rows("text", text, ""), joined({{1}, ids("hello, the\nworld"), {2}}));
  EXPECT_EQ(rows("text", text, " add_bos=false"), joined({ids("hello, the\nworld"), {2}}));
}

TEST(Data, DocumentsWithoutATokenAreNamed) {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("empty.jsonl", "{\"text\": []}\n{\"text\": []}\n");
  EXPECT_THAT(message_of([&] { opened("dataset_type=jsonl tokenize_train_data=false dataset_path=" + path); }),
              HasSubstr("2 documents and not one token\n  fix: name data with texts in it"));
}

TEST(Data, TheTokenizerHasToFitWhatIsAskedFor) {
  const test::TemporaryFolder folder;
  const std::string text = folder.write("a.txt", "hello"), request = "dataset_type=text dataset_path=" + text + " tokenizer_path=" + kTokenizers;
  const auto refusal = [&](const std::string& more) { return message_of([&] { opened(request + more); }); };
  EXPECT_EQ(refusal("/spm-bpe vocab_size=479"),
            "the command line: the tokenizer has ids up to 479, but vocab_size=479\n  fix: vocab_size=480, or the tokenizer of this model");
  EXPECT_EQ(refusal("/spm-bpe vocab_size=480"), "no error");
  EXPECT_EQ(refusal("/bytelevel-gpt2"), "no error") << "the file tells its format";
  EXPECT_THAT(refusal("/bytelevel-gpt2 tokenizer_type=sentencepiece"), HasSubstr("the folder has no tokenizer.model"));
  EXPECT_THAT(refusal("/spm-bpe tokenizer_type=huggingface"), HasSubstr("the folder has no tokenizer.json"));
  EXPECT_EQ(refusal("/spm-bpe tokenizer_type=tiktoken"),
            "the command line: tokenizer_type=tiktoken is not read\n  fix: give the model's tokenizer.json and tokenizer_type=huggingface");
  EXPECT_THAT(refusal("/bert-uncased"), "no error");
  const std::string blank = folder.write("blank.txt", " \n ");
  EXPECT_THAT(message_of([&] { opened("dataset_type=text dataset_path=" + blank + " add_bos=false tokenizer_path=" + kTokenizers + "/bert-odd"); }),
              HasSubstr("no token is made of the text"));
}

}  // namespace
}  // namespace moesh::data
