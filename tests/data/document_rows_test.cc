// Rows of documents: what each holds, in any order, from any place on.
#include "data/document_rows.h"

#include <atomic>
#include <map>
#include <set>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/random.h"
#include "tests/data/rows_support.h"
#include "tests/support.h"

namespace moesh::data {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Documents of drawn lengths, some blocks without any. A token tells its document and its place there.
constexpr std::int32_t kMost = 1000;  // tokens of a document

class Drawn : public DocumentReader {
 public:
  Drawn(std::int64_t blocks, int most_documents, int most_tokens) {
    const RandomKey key = random_key(blocks);
    std::uint64_t draws = 0;
    const auto draw = [&](int high) { return random_integer(key, draws++, 0, high); };
    std::int32_t document = 0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      Documents made;
      for (int count = draw(most_documents + 1); count > 0; --count, ++document) {
        Tokens tokens;
        for (int i = 0, size = 1 + draw(most_tokens); i < size; ++i) tokens.push_back(document * kMost + i);
        made.add(tokens);
        ++made.seen;
      }
      blocks_.push_back(std::move(made));
    }
  }

  std::string describe() const override { return "drawn documents"; }
  std::int64_t bytes() const override { return 1 << 20; }
  std::string identity() const override { return fmt::format("drawn {}", blocks_.size()); }
  std::int64_t blocks() const override { return static_cast<std::int64_t>(blocks_.size()); }
  void read(std::int64_t block, Documents& documents) const override {
    ++reads;
    const Documents& from = blocks_[static_cast<std::size_t>(block)];
    for (std::size_t i = 0; i < from.begins.size(); ++i) {
      documents.add(Tokens(from.tokens.begin() + from.begins[i], from.tokens.begin() + from.end_of(i)));
    }
    documents.seen += from.seen;
  }
  void refuse_none() const override { refuse("no document at all", "drawn"); }

  // All tokens, document by document.
  std::map<std::int32_t, std::int32_t> sizes() const {
    std::map<std::int32_t, std::int32_t> all;
    for (const Documents& block : blocks_) {
      for (const std::int32_t token : block.tokens) ++all[token / kMost];
    }
    return all;
  }
  std::int64_t tokens() const {
    std::int64_t all = 0;
    for (const Documents& block : blocks_) all += block.size();
    return all;
  }

  mutable std::atomic<std::int64_t> reads = 0;

 private:
  std::vector<Documents> blocks_;
};

struct Case {
  std::int64_t blocks;
  int documents, tokens;
  std::int64_t length;
  Packing packing = Packing::full;
  bool shuffles = true;
  int threads = 3;
};

std::unique_ptr<TokenSource> rows_of(const Case& of) {
  return rows_of_documents(std::make_unique<Drawn>(of.blocks, of.documents, of.tokens),
                           {{of.shuffles, 5}, {}, of.packing, of.length, of.threads});
}

// One block and many, rows longer than everything and shorter than a document.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const bool shuffles : {false, true}) {
    for (const Packing packing : {Packing::full, Packing::cut, Packing::split}) {
      for (const std::int64_t length : {1, 7, 64, 900}) {
        cases.push_back({1, 9, 12, length, packing, shuffles});
        cases.push_back({16, 3, 40, length, packing, shuffles});
        cases.push_back({17, 1, 5, length, packing, shuffles});
        cases.push_back({100, 2, 90, length, packing, shuffles});
      }
    }
  }
  return cases;
}

TEST(DocumentRows, EveryTokenOfARoundIsAnInputOnceAndDocumentsStayWhole) {
  for (const bool shuffles : {false, true}) {
    const Drawn drawn(100, 3, 30);
    Case of{100, 3, 30, 8, Packing::full, shuffles};
    const auto source = rows_of(of);
    Tokens stream;
    while (std::cmp_less(stream.size(), 2 * drawn.tokens())) {
      const Example row = source->example(static_cast<std::int64_t>(stream.size()) / 8, 8);
      stream.insert(stream.end(), row.inputs.begin(), row.inputs.end());
      EXPECT_TRUE(std::equal(row.targets.begin(), row.targets.end() - 1, row.inputs.begin() + 1));
    }
    const auto middle = stream.begin() + drawn.tokens();
    const std::multiset<std::int32_t> first(stream.begin(), middle), second(middle, middle + drawn.tokens());
    EXPECT_EQ(first, second);
    EXPECT_EQ(std::set<std::int32_t>(first.begin(), first.end()).size(), first.size()) << "no token twice";
    EXPECT_EQ(std::equal(stream.begin(), middle, middle), !shuffles) << "a round has an order of its own";
    for (std::size_t i = 1; i < stream.size(); ++i) {
      const bool begins = stream[i] % kMost == 0;
      EXPECT_TRUE(begins || stream[i] == stream[i - 1] + 1) << i;
    }
  }
}

TEST(DocumentRows, ASegmentIsOfOneDocumentWithPositionsOfItsOwn) {
  for (const Case& of : all_cases()) {
    const auto source = rows_of(of);
    for (std::int64_t r = 0; r < 40; ++r) {
      const Example row = source->example(r, of.length);
      ASSERT_EQ(row.inputs.size(), static_cast<std::size_t>(of.length));
      for (std::size_t i = 0; i < row.inputs.size(); ++i) {
        if (row.target_segments[i] != 0 && row.target_segments[i] == row.segments[i]) {
          EXPECT_EQ(row.targets[i], row.inputs[i] + 1) << "the next of the same document";
        }
        if (i == 0 || row.segments[i] == 0) continue;
        const bool is_same = row.segments[i] == row.segments[i - 1];
        EXPECT_EQ(is_same, row.inputs[i] == row.inputs[i - 1] + 1);
        EXPECT_EQ(row.positions[i], is_same ? row.positions[i - 1] + 1 : 0);
        EXPECT_GE(row.segments[i], row.segments[i - 1]);
      }
    }
  }
}

TEST(DocumentRows, ADocumentAloneIsPaddedAndCutOrSplit) {
  const Drawn drawn(40, 2, 25);
  const auto sizes = drawn.sizes();
  for (const Packing packing : {Packing::cut, Packing::split}) {
    const auto source = rows_of({40, 2, 25, 10, packing});
    std::map<std::int32_t, std::int32_t> seen;
    for (std::int64_t r = 0, rows = source->rows(10); r < rows; ++r) {
      const Example row = source->example(r, 10);
      const auto count = static_cast<std::int32_t>(std::count(row.segments.begin(), row.segments.end(), 1));
      ASSERT_GT(count, 0);
      const std::int32_t document = row.inputs[0] / kMost;
      for (std::int32_t i = 0; i < count; ++i) EXPECT_EQ(row.inputs[static_cast<std::size_t>(i)], row.inputs[0] + i);
      EXPECT_EQ(std::count(row.target_segments.begin(), row.target_segments.end(), 1), count - 1);
      seen[document] += count;
    }
    for (const auto& [document, size] : sizes) EXPECT_EQ(seen[document], packing == Packing::cut ? std::min(size, 10) : size);
  }
}

// On any number of threads, however the rows are asked for, and from any of them on by its place.
TEST(DocumentRows, ARowIsTheSameHoweverItIsComeTo) {
  for (Case of : all_cases()) {
    const auto straight = rows_of(of);
    std::vector<Example> rows;
    std::vector<std::string> places;
    for (std::int64_t r = 0; r < 50; ++r) {
      rows.push_back(straight->example(r, of.length));
      places.push_back(straight->place(r, of.length));
    }
    of.threads = 1;
    const auto other = rows_of(of);
    for (const std::int64_t r : {49, 0, 30, 31, 2, 48}) {
      EXPECT_EQ(other->example(r, of.length), rows[static_cast<std::size_t>(r)]);
      const auto resumed = rows_of(of);
      EXPECT_TRUE(resumed->begin(r, places[static_cast<std::size_t>(r)]));
      for (std::int64_t next = r; next < 50; ++next) EXPECT_EQ(resumed->example(next, of.length), rows[static_cast<std::size_t>(next)]);
      EXPECT_EQ(resumed->example(0, of.length), rows[0]) << "before its begin";
    }
    const auto counted = rows_of(of);
    counted->rows(of.length);
    EXPECT_EQ(counted->example(7, of.length), rows[7]) << "after all were counted";
    EXPECT_TRUE(counted->begin(7, ""));
    EXPECT_EQ(counted->example(7, of.length), rows[7]) << "without a place its number tells it";
  }
}

TEST(DocumentRows, OfOtherDataBeginAtTheirBeginning) {
  const Case of{40, 2, 25, 10};
  const std::string place = rows_of(of)->place(30, 10);
  Case shuffled_otherwise = of;
  shuffled_otherwise.shuffles = false;
  for (const auto& [other, taken] : std::vector<std::pair<Case, std::string>>{
           {{41, 2, 25, 10}, place}, {shuffled_otherwise, place}, {{40, 2, 25, 10, Packing::cut}, place}, {of, "x"}, {of, place + " 1"}, {of, "- 1 1"}, {of, place.substr(0, 17) + "-1 0"}}) {
    const auto source = rows_of(other);
    EXPECT_FALSE(source->begin(30, taken)) << taken;
    EXPECT_EQ(source->example(30, 10), rows_of(other)->example(0, 10));
  }
  Case longer = of;
  longer.length = 20;
  const auto source = rows_of(longer);
  EXPECT_TRUE(source->begin(30, place)) << "rows may have another length";
  EXPECT_EQ(source->example(30, 20).inputs[0], rows_of(of)->example(30, 10).inputs[0]);
}

TEST(DocumentRows, ReadOnlyWhatTheyNeed) {
  auto reader = std::make_unique<Drawn>(10'000, 3, 30);
  const Drawn& drawn = *reader;
  const auto source = rows_of_documents(std::move(reader), {{true, 5}, {}, Packing::full, 8, 2});
  const std::string place = [&] {
    for (std::int64_t r = 0; r < 20; ++r) source->example(r, 8);
    return source->place(20, 8);
  }();
  EXPECT_LE(drawn.reads, 8 * kMixedBlocks);
  EXPECT_TRUE(source->begin(1 << 20, place));
  source->example(1 << 20, 8);
  EXPECT_LE(drawn.reads, 16 * kMixedBlocks);
}

TEST(DocumentRows, WithoutDocumentsAreRefused) {
  EXPECT_EQ(message_of([] { rows_of({3, 0, 1, 8}); }), "drawn: no document at all");
  EXPECT_EQ(message_of([] { rows_of({100, 0, 1, 8}); }), "drawn: no document at all");
}

// A reader of which a split leaves nothing.
class Taken : public Drawn {
 public:
  using Drawn::Drawn;
  void read(std::int64_t, Documents& documents) const override { ++documents.seen; }
};

TEST(DocumentRows, OfWhichASplitLeavesNoneAreRefused) {
  const Split split{Split::Side::training, 0.5, "the command line"};
  EXPECT_EQ(message_of([&] { rows_of_documents(std::make_unique<Taken>(20, 1, 1), {{}, split, Packing::full, 8, 2}); }),
            "the command line: eval_fraction=0.5 of 20 documents leaves none for training\n"
            "  fix: another share, more data, or eval_dataset_path=FILE");
}

// What cannot be read any longer.
class Broken : public Drawn {
 public:
  using Drawn::Drawn;
  void read(std::int64_t block, Documents& documents) const override {
    if (block > 40) fail("the data can no longer be read: gone", "drawn");
    Drawn::read(block, documents);
  }
};

TEST(DocumentRows, ThatCannotBeReadFailWhenTheyAreReached) {
  const auto source = rows_of_documents(std::make_unique<Broken>(100, 3, 30), {{}, {}, Packing::full, 8, 3});
  EXPECT_EQ(message_of([&] { source->example(0, 8); }), "no error");
  EXPECT_EQ(message_of([&] { source->example(400, 8); }), "drawn: the data can no longer be read: gone");
  EXPECT_EQ(message_of([&] { source->example(1, 8); }), "no error");
}

}  // namespace
}  // namespace moesh::data
