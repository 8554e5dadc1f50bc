// A step's batch in words and as JSON.
#include "config/batch_words.h"

#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/load.h"

namespace moesh::config {
namespace {

BatchSizes sizes(const std::vector<std::string>& keys, std::int64_t devices) { return batch_sizes(load(keys).settings, devices); }

TEST(BatchWords, TellRowsOfAStepAndOfADevice) {
  EXPECT_EQ(batch_words(sizes({"per_device_batch_size=2"}, 8), 128, 8), "16 rows of 128 tokens a step, 2 a device");
  EXPECT_EQ(batch_words(sizes({"per_device_batch_size=1"}, 1), 1, 1), "1 row of 1 token a step, 1 a device");
}

TEST(BatchWords, TellMicrobatches) {
  EXPECT_EQ(batch_words(sizes({"per_device_batch_size=2", "gradient_accumulation_steps=3"}, 8), 2048, 8),
            "48 rows of 2,048 tokens a step, 6 a device, in 3 microbatches of 16 rows");
}

// Each device loads a whole row, even if several devices share one row.
TEST(BatchWords, TellFractionsAndWhatIsLoadedBesides) {
  EXPECT_EQ(batch_words(sizes({"per_device_batch_size=0.25"}, 8), 128, 8),
            "2 rows of 128 tokens a step, 0.25 a device, the first of 8 rows that are loaded");
  EXPECT_EQ(batch_words(sizes({"per_device_batch_size=0.5", "gradient_accumulation_steps=2"}, 8), 128, 8),
            "8 rows of 128 tokens a step, 1 a device, in 2 microbatches of 4 rows, the first of 16 rows that are loaded");
}

// The rows are a product that is rounded down: 15 / 11 * 11 is less than 15.
TEST(BatchKey, MakesTheRowsItWasWrittenFor) {
  EXPECT_EQ(batch_key(0.5), "per_device_batch_size=0.5");
  EXPECT_EQ(batch_key(rows_a_device(13, 128)), "per_device_batch_size=0.1015625");
  for (std::int64_t devices = 1; devices < 300; ++devices) {
    for (std::int64_t rows = 1; rows < 3 * devices; rows += 7) {
      const std::string key = batch_key(rows_a_device(rows, devices));
      const double read = parse_real(key.substr(key.find('=') + 1)).value();
      ASSERT_EQ(static_cast<std::int64_t>(read * static_cast<double>(devices)), rows) << key << " on " << devices;
    }
  }
}

TEST(BatchInPasses, TakesEveryDivisorOfTheRowsOfADevice) {
  EXPECT_EQ(parts_of_rows(9), (std::vector<std::int64_t>{2, 3, 4, 8, 9, 16}));
  EXPECT_EQ(parts_of_rows(0.5), (std::vector<std::int64_t>{2, 4, 8, 16}));
  for (std::int64_t rows = 1; rows <= 64; ++rows) {
    const std::vector<std::int64_t> all = parts_of_rows(static_cast<double>(rows));
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    for (std::int64_t parts = 2; parts <= rows; ++parts) {
      if (rows % parts != 0) continue;
      EXPECT_EQ(std::count(all.begin(), all.end(), parts), 1) << rows << " in " << parts;
    }
  }
}

TEST(BatchInPasses, KeepsTheRowsOfAStep) {
  const Settings settings = load({"per_device_batch_size=9", "gradient_accumulation_steps=2"}).settings;
  EXPECT_EQ(in_passes(settings, 3), (Keys{"per_device_batch_size=3", "gradient_accumulation_steps=6"}));
  EXPECT_EQ(in_passes(settings, 2), (Keys{"per_device_batch_size=4.5", "gradient_accumulation_steps=4"}));
}

TEST(BatchWords, AreAlsoJson) {
  const auto json = nlohmann::json::parse(batch_json(sizes({"per_device_batch_size=0.5", "gradient_accumulation_steps=2"}, 8), 128, 8));
  EXPECT_EQ(json["rows"], 8);
  EXPECT_EQ(json["rows_loaded"], 16);
  EXPECT_EQ(json["rows_per_device"], 1.0);
  EXPECT_EQ(json["microbatches"], 2);
  EXPECT_EQ(json["rows_of_a_microbatch"], 4);
  EXPECT_EQ(json["tokens_of_a_row"], 128);
  EXPECT_EQ(json["tokens"], 8 * 128);
}

}  // namespace
}  // namespace moesh::config
