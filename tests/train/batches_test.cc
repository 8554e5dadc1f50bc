// Rows of data, assembled into batches.
#include "train/batches.h"

#include <filesystem>
#include <set>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "config/load.h"
#include "tests/paths.h"
#include "tests/support.h"

namespace moesh::train {
namespace {

using data::Tokens;
using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The tokens of a row count up from 100 times the row's number.
class Counting : public data::TokenSource {
 public:
  std::string describe() const override { return "counting"; }
  std::int64_t rows(std::int64_t) override { return 1000; }
  data::Example example(std::int64_t row, std::int64_t length) override {
    Tokens tokens;
    for (std::int64_t i = 0; i <= length; ++i) tokens.push_back(static_cast<std::int32_t>(row * 100 + i));
    return data::one_segment(tokens);
  }
};

Batch counted_batch(std::int64_t first, std::int64_t rows, std::int64_t length, std::int64_t vocab_size, run::Pool& pool) {
  Counting source;
  return make_batch(make_rows(source, first, rows, length), vocab_size, pool);
}

Tokens values_of(const run::Array& array) {
  return {array.as<std::int32_t>(), array.as<std::int32_t>() + array.view.count()};
}

TEST(Batch, HasTargetsOneTokenAheadOfInputs) {
  const auto pool = run::Pool::create();
  const Batch batch = counted_batch(0, 2, 3, 1000, *pool);
  EXPECT_THAT(values_of(batch.at("inputs")), ElementsAre(0, 1, 2, 100, 101, 102));
  EXPECT_THAT(values_of(batch.at("targets")), ElementsAre(1, 2, 3, 101, 102, 103));
  EXPECT_THAT(values_of(batch.at("inputs_position")), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(values_of(batch.at("inputs_order")), ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_THAT(values_of(batch.at("inputs_segmentation")), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_THAT(values_of(batch.at("targets_segmentation")), ElementsAre(1, 1, 1, 1, 1, 1));
  for (const auto& [name, array] : batch) EXPECT_EQ(array.view.shape, (Shape{2, 3})) << name;
}

// Four rows are loaded per step, of which the first two are trained on.
TEST(Batch, GoesOnWhereTheLastStepsLoadingEnded) {
  const auto pool = run::Pool::create();
  const config::Settings settings = config::load(test::words_of("max_target_length=2 dataset_type=synthetic vocab_size=10000")).settings;
  Batches batches(settings, {4, 2, 2}, 10000, 2);
  EXPECT_EQ(batches.first_row(3), 12);
  EXPECT_TRUE(batches.begin(3, 100, ""));
  EXPECT_EQ(batches.first_row(5), 108);
  EXPECT_EQ(batches.at(5, *pool).at("inputs").view.shape, (Shape{2, 2}));
  EXPECT_THAT(values_of(counted_batch(12, 2, 2, 10000, *pool).at("inputs")),
              ElementsAre(1200, 1201, 1300, 1301));
}

TEST(Batch, RefusesTokensThatTheVocabularyLacks) {
  const auto pool = run::Pool::create();
  EXPECT_EQ(message_of([&] { counted_batch(0, 2, 3, 103, *pool); }),
            "the data: token 103 in row 1, but vocab_size=103\n"
            "  fix: a larger vocab_size, or the data that belongs to this model");
  EXPECT_EQ(message_of([&] { counted_batch(0, 2, 3, 104, *pool); }), "no error");
  EXPECT_THAT(message_of([&] { counted_batch(-2, 2, 3, 100, *pool); }), HasSubstr("token -200 in row -2"));
}

// Data of each kind, as one file or as two files with shares.
std::vector<std::string> data_of_each_kind(const test::TemporaryFolder& folder) {
  std::string lines, text;
  for (int i = 0; i < 20'000; ++i) {
    const std::string words = fmt::format("document {} of {}", i * 7919 % 20'000, std::string(static_cast<std::size_t>(i % 200), static_cast<char>('a' + i % 26)));
    lines += fmt::format("{{\"text\": \"{}\"}}\n", words);
    text += words + "\n";
  }
  const std::string a = folder.write("a.jsonl", lines), b = folder.write("b.jsonl", lines.substr(lines.find('\n', lines.size() / 2) + 1));
  const std::string small = folder.write("small.txt", text.substr(0, 100'000)), large = folder.write("large.txt", text + text + text);
  const std::string tokenizer = "tokenizer_path=" + (test::source_folder() / "tests/golden/tokenizers/bytelevel-gpt2").string();
  return {"dataset_type=text dataset_path=" + small,
          "dataset_type=text dataset_path=" + small + " " + tokenizer,
          "dataset_type=text dataset_path=" + large + " " + tokenizer,
          "dataset_type=jsonl dataset_path=" + a,
          "dataset_type=jsonl packing=false dataset_path=" + a + " " + tokenizer,
          "dataset_type=jsonl packing=false use_truncation=false eval_fraction=0.2 dataset_path=" + b,
          "dataset_type=jsonl dataset_path=" + a + ",0.3;" + b + ",0.7 " + tokenizer,
          "dataset_type=jsonl enable_data_shuffling=false dataset_path=" + b};
}

// A run stops and resumes with another batch size, as on another number of devices; its rows continue without a gap.
TEST(BatchSlow, RowsFollowEachOtherWhereverARunStopsAndGoesOn) {
  const test::TemporaryFolder folder;
  const auto pool = run::Pool::create();
  for (const std::string& data : data_of_each_kind(folder)) {
    const config::Settings settings = config::load(test::words_of("max_target_length=64 vocab_size=50000 " + data)).settings;
    const auto rows = [&](Batches& batches, std::int64_t first_step, std::int64_t steps) {
      std::vector<Tokens> all;
      for (std::int64_t step = first_step; step < first_step + steps; ++step) {
        const Batch batch = batches.at(step, *pool);
        const Tokens inputs = values_of(batch.at("inputs")), segments = values_of(batch.at("targets_segmentation"));
        for (auto row = 0; row < batch.at("inputs").view.size(0); ++row) {
          Tokens one(inputs.begin() + row * 64, inputs.begin() + (row + 1) * 64);
          one.insert(one.end(), segments.begin() + row * 64, segments.begin() + (row + 1) * 64);
          all.push_back(std::move(one));
        }
      }
      return all;
    };
    Batches straight(settings, {8, 8, 8}, 50'000, 2);
    const std::vector<Tokens> whole = rows(straight, 0, 40);
    EXPECT_GT(std::set<Tokens>(whole.begin(), whole.end()).size(), 200u) << data;
    Batches before(settings, {8, 8, 8}, 50'000, 2);
    std::vector<Tokens> pieces = rows(before, 0, 15);
    Batches after(settings, {20, 20, 20}, 50'000, 1);
    EXPECT_TRUE(after.begin(15, before.first_row(15), before.place(15))) << data;
    for (const Tokens& row : rows(after, 15, 10)) pieces.push_back(row);
    EXPECT_EQ(pieces, whole) << data;
  }
}

// A fractional per_device_batch_size loads more rows than it trains on, and another number of them on another mesh.
TEST(Batch, ThatIsRepeatedIsTheSameWhereverARunGoesOn) {
  const test::TemporaryFolder folder;
  const auto pool = run::Pool::create();
  const std::string text = "reuse_example_batch=1 dataset_type=text dataset_path=" + folder.write("a.txt", std::string(400, 'a') + std::string(4000, 'b'));
  for (const std::string& data : {text, std::string("dataset_type=synthetic")}) {
    const config::Settings settings = config::load(test::words_of("max_target_length=64 vocab_size=500 " + data)).settings;
    Batches before(settings, {4, 4, 4}, 500, 1), after(settings, {16, 4, 4}, 500, 1);
    const Tokens first = values_of(before.at(0, *pool).at("inputs"));
    EXPECT_EQ(values_of(before.at(1, *pool).at("inputs")), first) << data;
    EXPECT_TRUE(after.begin(2, before.first_row(2), before.place(2))) << data;
    for (const std::int64_t step : {2, 3}) EXPECT_EQ(values_of(after.at(step, *pool).at("inputs")), first) << data;
  }
}

// The file is cut short between two steps.
TEST(Batch, OfDataThatVanishFail) {
  const test::TemporaryFolder folder;
  const auto pool = run::Pool::create();
  const std::string path = folder.write("a.bin", std::string(1 << 20, '\1'));
  Batches batches(config::load(test::words_of("max_target_length=64 vocab_size=300 token_bytes=2 dataset_type=tokens dataset_path=" + path)).settings, {8, 8, 8}, 300, 2);
  batches.at(0, *pool);
  std::filesystem::resize_file(path, 100);
  EXPECT_EQ(message_of([&] {
              for (int step = 1; step < 20; ++step) batches.at(step, *pool);
            }),
            path + ": the file was cut short or replaced while the run read it\n  fix: leave the data alone during a run");
}

}  // namespace
}  // namespace moesh::train
