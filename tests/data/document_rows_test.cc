// Rows packed from documents: what each row holds, in any order, and from any place on.
#include "data/document_rows.h"

#include <atomic>
#include <map>
#include <set>

#include <fmt/core.h>
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "tests/data/rows_support.h"
#include "tests/support.h"

namespace moesh::data {
namespace {

using test::message_of;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Documents of random lengths, and some blocks without any. A token tells its document and its place in it.
constexpr std::int32_t kMost = 1000;  // the most tokens of a document

// A range of blocks; the second number is not included.
using Range = std::pair<std::int64_t, std::int64_t>;

class Drawn : public DocumentReader {
 public:
  Drawn(std::int64_t blocks, int most_documents, int most_tokens, const std::vector<Range>& empty = {}) {
    const RandomKey key = random_key(blocks);
    std::uint64_t draws = 0;
    const auto draw = [&](int high) { return random_integer(key, draws++, 0, high); };
    std::int32_t document = 0;
    for (std::int64_t block = 0; block < blocks; ++block) {
      Documents made;
      const bool is_empty = std::any_of(empty.begin(), empty.end(), [&](const Range& of) { return block >= of.first && block < of.second; });
      for (int count = is_empty ? 0 : draw(most_documents + 1); count > 0; --count, ++document) {
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

  // The number of tokens of each document.
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

struct Packed {
  std::int64_t blocks;
  int documents, tokens;
  std::int64_t length;
  Packing packing = Packing::full;
  bool shuffles = true;
  int threads = 3;
  std::vector<Range> empty = {};  // blocks without documents
};

std::unique_ptr<TokenSource> document_rows_of(const Packed& of) {
  return rows_of_documents(std::make_unique<Drawn>(of.blocks, of.documents, of.tokens, of.empty),
                           {{of.shuffles, 5}, {}, of.packing, of.length, of.threads});
}

// One block and many; rows longer than all data and rows shorter than a document.
std::vector<Packed> all_cases() {
  std::vector<Packed> cases;
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
    Packed of{100, 3, 30, 8, Packing::full, shuffles};
    const auto source = document_rows_of(of);
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
  for (const Packed& of : all_cases()) {
    const auto source = document_rows_of(of);
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
    const auto source = document_rows_of({40, 2, 25, 10, packing});
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

// A row is the same on any number of threads, in any order of access, and after a restart at its place.
TEST(DocumentRows, ARowIsTheSameHoweverItIsComeTo) {
  for (Packed of : all_cases()) {
    const auto straight = document_rows_of(of);
    std::vector<Example> rows;
    std::vector<std::string> places;
    for (std::int64_t r = 0; r < 50; ++r) {
      rows.push_back(straight->example(r, of.length));
      places.push_back(straight->place(r, of.length));
    }
    of.threads = 1;
    const auto other = document_rows_of(of);
    for (const std::int64_t r : {49, 0, 30, 31, 2, 48}) {
      EXPECT_EQ(other->example(r, of.length), rows[static_cast<std::size_t>(r)]);
      const auto resumed = document_rows_of(of);
      EXPECT_TRUE(resumed->begin(r, places[static_cast<std::size_t>(r)]));
      for (std::int64_t next = r; next < 50; ++next) EXPECT_EQ(resumed->example(next, of.length), rows[static_cast<std::size_t>(next)]);
      EXPECT_EQ(resumed->example(0, of.length), rows[0]) << "before its begin";
    }
    const auto counted = document_rows_of(of);
    counted->rows(of.length);
    EXPECT_EQ(counted->example(7, of.length), rows[7]) << "after all were counted";
    EXPECT_TRUE(counted->begin(7, ""));
    EXPECT_EQ(counted->example(7, of.length), rows[7]) << "without a place its number tells it";
  }
}

TEST(DocumentRows, OfOtherDataBeginAtTheirBeginning) {
  const Packed of{40, 2, 25, 10};
  const std::string place = document_rows_of(of)->place(30, 10);
  Packed shuffled_otherwise = of;
  shuffled_otherwise.shuffles = false;
  for (const auto& [other, taken] : std::vector<std::pair<Packed, std::string>>{
           {{41, 2, 25, 10}, place}, {shuffled_otherwise, place}, {{40, 2, 25, 10, Packing::cut}, place}, {of, "x"}, {of, place + " 1"}, {of, "- 1 1"}, {of, place.substr(0, 17) + "-1 0"},
           {of, place.substr(0, 17) + "9223372036854775807 0"}}) {
    const auto source = document_rows_of(other);
    EXPECT_FALSE(source->begin(30, taken)) << taken;
    EXPECT_EQ(source->example(30, 10), document_rows_of(other)->example(0, 10));
  }
  Packed longer = of;
  longer.length = 20;
  const auto source = document_rows_of(longer);
  EXPECT_TRUE(source->begin(30, place)) << "rows may have another length";
  EXPECT_EQ(source->example(30, 20).inputs[0], document_rows_of(of)->example(30, 10).inputs[0]);
}

// A place counts tokens, documents, or pieces that are as long as a row, and is of use only to what counts the same.
TEST(DocumentRows, GoOnOnlyWherePlacesCountTheSame) {
  const std::vector<Packed> kinds{{40, 2, 25, 10}, {40, 2, 25, 10, Packing::cut}, {40, 2, 25, 10, Packing::split}};
  for (std::size_t saved = 0; saved < kinds.size(); ++saved) {
    const std::string place = document_rows_of(kinds[saved])->place(3, 10);
    for (std::size_t next = 0; next < kinds.size(); ++next) {
      for (const std::int64_t length : {10, 20}) {
        Packed of = kinds[next];
        of.length = length;
        const bool counts_the_same = saved == next && (length == 10 || of.packing != Packing::split);
        EXPECT_EQ(document_rows_of(of)->begin(3, place), counts_the_same) << saved << " " << next << " " << length;
      }
    }
  }
}

// The documents of several rounds, at least a hundred in all, in the order in which they are taken, and the group of each.
struct Plain {
  std::vector<Tokens> documents;
  std::vector<std::int64_t> groups;
};

// Without shuffling, data are read from the first block to the last. A shuffle's order is read off rows that
// hold one document each; every round must have each document once.
Plain plain_of(const Packed& of) {
  const Drawn drawn(of.blocks, of.documents, of.tokens, of.empty);
  const std::int64_t groups = (of.blocks + kMixedBlocks - 1) / kMixedBlocks;
  Plain once;
  std::map<std::int32_t, std::size_t> numbers;
  for (std::int64_t block = 0; block < of.blocks; ++block) {
    Documents documents;
    drawn.read(block, documents);
    for (std::size_t i = 0; i < documents.begins.size(); ++i) {
      const auto tokens = documents.of(i);
      numbers.emplace(tokens[0] / kMost, once.documents.size());
      once.documents.emplace_back(tokens.begin(), tokens.end());
      once.groups.push_back(block / kMixedBlocks);
    }
  }
  Packed cut = of;
  cut.packing = Packing::cut;
  const auto shuffled = of.shuffles ? document_rows_of(cut) : nullptr;
  const auto count = static_cast<std::int64_t>(once.documents.size());
  Plain all;
  for (std::int64_t round = 0; round <= 100 / count; ++round) {
    std::set<std::size_t> seen;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t row = round * count + i;
      const std::size_t from = of.shuffles ? numbers.at(shuffled->example(row, of.length).inputs[0] / kMost) : static_cast<std::size_t>(i);
      all.documents.push_back(once.documents[from]);
      all.groups.push_back(of.shuffles ? *parse_integer(split(shuffled->place(row, of.length), ' ')[1]) : round * groups + once.groups[from]);
      EXPECT_TRUE(seen.insert(from).second) << "a document twice in a round";
    }
  }
  return all;
}

// The row that begins with token `first` if documents are packed one after the other.
Example plainly_packed(const Plain& plain, std::int64_t first, std::int64_t length) {
  Example made;
  std::int64_t at = 0;
  std::int32_t segment = 0, target_segment = 0, position = 0;
  for (const Tokens& document : plain.documents) {
    for (std::size_t i = 0; i < document.size() && at <= first + length; ++i, ++at) {
      if (at < first) continue;
      const bool begins = i == 0 || at == first;
      segment += begins ? 1 : 0;
      position = begins ? 0 : position + 1;
      target_segment = segment;
      if (at > first) made.targets.push_back(document[i]);
      if (at > first) made.target_segments.push_back(target_segment);
      if (at == first + length) return made;
      made.inputs.push_back(document[i]);
      made.positions.push_back(position);
      made.segments.push_back(segment);
    }
  }
  ADD_FAILURE() << "too few rounds were read";
  return made;
}

// A document, or a part of one, as a row of its own.
Example plainly_alone(Tokens tokens, std::int64_t length) {
  const std::size_t count = tokens.size(), row = static_cast<std::size_t>(length);
  tokens.resize(row + 1, 0);
  Example made;
  for (std::size_t i = 0; i < row; ++i) {
    made.inputs.push_back(tokens[i]);
    made.targets.push_back(tokens[i + 1]);
    made.positions.push_back(static_cast<std::int32_t>(i));
    made.segments.push_back(i < count ? 1 : 0);
    made.target_segments.push_back(i + 1 < count ? 1 : 0);
  }
  return made;
}

// All rows if documents have rows of their own, and the group of each.
std::vector<std::pair<Tokens, std::int64_t>> plain_pieces(const Plain& plain, Packing packing, std::int64_t length) {
  const auto most = static_cast<std::size_t>(length);
  std::vector<std::pair<Tokens, std::int64_t>> pieces;
  for (std::size_t d = 0; d < plain.documents.size(); ++d) {
    const Tokens& of = plain.documents[d];
    for (std::size_t begin = 0; begin < of.size() && (begin == 0 || packing == Packing::split); begin += most) {
      const auto from = of.begin() + static_cast<std::ptrdiff_t>(begin);
      pieces.emplace_back(Tokens(from, from + static_cast<std::ptrdiff_t>(std::min(most, of.size() - begin))), plain.groups[d]);
    }
  }
  return pieces;
}

// The row that lies `further` rows of `length` after the beginning of row `first`, which is counted in rows of `length_before`.
Example plain_row(const Plain& plain, Packing packing, std::int64_t first, std::int64_t length_before, std::int64_t further, std::int64_t length) {
  if (packing == Packing::full) return plainly_packed(plain, first * length_before + further * length, length);
  // A place consists of a group and the number of a row within it.
  const auto before = plain_pieces(plain, packing, length_before), now = plain_pieces(plain, packing, length);
  const auto is_of = [](std::int64_t group) { return [group](const auto& piece) { return piece.second >= group; }; };
  const std::int64_t group = before.at(static_cast<std::size_t>(first)).second;
  const std::int64_t within = first - (std::find_if(before.begin(), before.end(), is_of(group)) - before.begin());
  const std::int64_t at = (std::find_if(now.begin(), now.end(), is_of(group)) - now.begin()) + within + further;
  return plainly_alone(now.at(static_cast<std::size_t>(at)).first, length);
}

// Blocks without documents: none, and groups at the beginning, in the middle, at the end, or all but one.
std::vector<std::vector<Range>> all_empty(std::int64_t blocks) {
  return {{}, {{0, 17}}, {{0, 40}, {50, 90}}, {{30, 64}, {96, blocks}}, {{0, 70}, {80, blocks}}, {{0, 33}, {34, blocks}}};
}

TEST(DocumentRows, AreThoseOfAPlainReadingWhereverTheyBeginAndWhateverIsEmpty) {
  constexpr std::int64_t kBlocks = 112, kRows = 12;
  for (const bool shuffles : {false, true}) {
    for (const std::vector<Range>& empty : all_empty(kBlocks)) {
      Packed of{kBlocks, 5, 30, 7, Packing::full, shuffles, 2, empty};
      const Plain plain = plain_of(of);
      for (const Packing packing : {Packing::full, Packing::cut, Packing::split}) {
        of.packing = packing;
        const auto expect = [&](TokenSource& source, std::int64_t row, std::int64_t length, const Example& expected) {
          EXPECT_EQ(source.example(row, length), expected)
              << "row " << row << " of " << length << ", packing " << static_cast<int>(packing) << ", shuffled " << shuffles;
        };
        const auto fresh = [&](std::int64_t row, std::int64_t length) { return plain_row(plain, packing, 0, length, row, length); };
        const auto straight = document_rows_of(of);
        std::vector<std::string> places;
        for (std::int64_t row = 0; row < kRows; ++row) {
          places.push_back(straight->place(row, 7));
          expect(*straight, row, 7, fresh(row, 7));
        }
        for (const std::int64_t length : {3, 20, 7}) expect(*straight, 5, length, fresh(5, length));
        expect(*document_rows_of(of), kRows, 7, fresh(kRows, 7));
        for (const std::int64_t row : {0, 1, 4, 11}) {
          for (const std::int64_t length : {7, 3, 20}) {
            const auto resumed = document_rows_of(of);
            EXPECT_TRUE(resumed->begin(row, places[static_cast<std::size_t>(row)]));
            for (const std::int64_t next : {0, 3, 1}) {
              expect(*resumed, row + next, length, plain_row(plain, packing, row, 7, next, length));
            }
            if (row > 0) expect(*resumed, row - 1, length, fresh(row - 1, length));
          }
          const auto other = document_rows_of(of);
          EXPECT_FALSE(other->begin(row, "of other data"));
          for (const std::int64_t next : {2, 0, 1}) expect(*other, row + next, 7, fresh(next, 7));
          if (row > 0) expect(*other, row - 1, 7, fresh(row - 1, 7));
          EXPECT_FALSE(other->begin(row, "of other data"));
          EXPECT_TRUE(other->begin(row, ""));
          expect(*other, row, 7, fresh(row, 7));
        }
      }
    }
  }
}

TEST(DocumentRows, OfOneGroupAmongManyGoOnForManyRounds) {
  for (const std::uint32_t first : {0u, 48u, 144u}) {
    const auto source = document_rows_of({160, 2, 5, 4, Packing::cut, true, 2, {{0, first}, {first + 8, 160}}});
    std::set<std::int32_t> documents;
    for (std::int64_t row = 0; row < 200; ++row) documents.insert(source->example(row, 4).inputs[0]);
    EXPECT_EQ(static_cast<std::int64_t>(documents.size()), source->rows(4)) << first;
  }
}

// Blocks come in another order in each round, so that documents that are together in one are not so in the next.
TEST(DocumentRows, ComeFromOtherBlocksAtTheBeginningOfEachRound) {
  const auto source = rows_of_documents(std::make_unique<Drawn>(200, 1, 2), {{true, 5}, {}, Packing::cut, 4, 2});
  const std::int64_t all = source->rows(4);
  const auto beginning = [&](std::int64_t round) {
    std::set<std::int32_t> documents;
    for (std::int64_t row = 0; row < kMixedBlocks / 3; ++row) documents.insert(source->example(round * all + row, 4).inputs[0]);
    return documents;
  };
  std::vector<std::int32_t> both;
  const std::set<std::int32_t> first = beginning(0), second = beginning(1);
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(both));
  EXPECT_LT(both.size(), first.size() / 2);
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
  EXPECT_EQ(message_of([] { document_rows_of({3, 0, 1, 8}); }), "drawn: no document at all");
  EXPECT_EQ(message_of([] { document_rows_of({100, 0, 1, 8}); }), "drawn: no document at all");
  EXPECT_EQ(message_of([] { document_rows_of({0, 0, 1, 8}); }), "drawn: no document at all") << "not even a block";
}

// A reader whose documents all fall to the other side of a split.
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

// A reader whose data can no longer be read after a while.
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

TEST(DocumentRows, ThatCouldNotBeCountedAreMadeAllTheSame) {
  const auto source = rows_of_documents(std::make_unique<Broken>(100, 3, 30), {{}, {}, Packing::split, 20, 3});
  const auto whole = document_rows_of({100, 3, 30, 3, Packing::split, false});
  source->example(5, 20);
  EXPECT_EQ(message_of([&] { source->rows(3); }), "drawn: the data can no longer be read: gone");
  for (const std::int64_t row : {0, 5, 40}) EXPECT_EQ(source->example(row, 3), whole->example(row, 3));
}

}  // namespace
}  // namespace moesh::data
