#include "data/document_rows.h"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/rounding.h"
#include "base/text.h"
#include "data/ahead.h"
#include "store/hash.h"

namespace moesh::data {
namespace {

constexpr std::size_t kMostPlaces = 1 << 16;  // rows whose places are remembered
constexpr std::int64_t kFar = 1 << 12;        // rows to pass over that take a while
constexpr std::int64_t kRounds = 1LL << 32;   // rounds that have an order of their own
constexpr std::int64_t kSought = 64;          // groups at the beginning of the data, at least one of which must have a document

// Where a row begins: a group of blocks, counted through all rounds, and in it the index of a token, or of a piece if each piece is a row.
struct Place {
  std::int64_t group = 0, offset = 0;
};

// A part of a document that is a row of its own.
struct Piece {
  std::int64_t begin, count;
};

// A group, as it is kept while rows are made from it.
struct Held {
  std::shared_ptr<const Documents> documents;
  std::vector<Piece> pieces;  // if each is a row
  std::int64_t size = 0;      // in tokens or pieces
};

// Groups of blocks, with their documents in the order in which they are taken.
class Groups {
 public:
  Groups(std::unique_ptr<DocumentReader> reader, Order order)
      : reader_(std::move(reader)), order_(order), blocks_(reader_->blocks()), in_round_(divide_up(blocks_, kMixedBlocks)) {}

  const DocumentReader& reader() const { return *reader_; }
  std::int64_t in_round() const { return in_round_; }

  Documents read(std::int64_t group) const {
    const std::int64_t round = group / in_round_, within = group % in_round_;
    const std::int64_t begin = within * kMixedBlocks, end = std::min(begin + kMixedBlocks, blocks_);
    Documents documents;
    for (std::int64_t i = begin; i < end; ++i) reader_->read(order_.at(round * blocks_ + i, blocks_) - round * blocks_, documents);
    return order_.is_random ? mixed(documents, round, within) : documents;
  }

 private:
  Documents mixed(const Documents& documents, std::int64_t round, std::int64_t within) const {
    const RandomKey of_round = fold_in(random_key(order_.seed), static_cast<std::uint32_t>(round));
    const RandomKey key = fold_in(of_round, static_cast<std::uint32_t>(within));
    Documents made;
    made.seen = documents.seen;
    made.tokens.reserve(documents.tokens.size());
    for (std::size_t i = 0; i < documents.begins.size(); ++i) {
      const std::size_t from = permuted(key, i, documents.begins.size());
      made.add(documents.of(from));
    }
    return made;
  }

  std::unique_ptr<DocumentReader> reader_;
  Order order_;
  std::int64_t blocks_, in_round_;
};

class DocumentRows : public TokenSource {
 public:
  DocumentRows(std::unique_ptr<DocumentReader> reader, const DocumentOrder& order)
      : groups_(std::move(reader), order.blocks),
        order_(order),
        length_(order.length),
        ahead_([this](std::int64_t group) { return groups_.read(group); }, order.threads, 2 * order.threads + 1) {
    if (groups_.in_round() == 0) groups_.reader().refuse_none();
    settled({}, order.split.side == Split::Side::both ? std::min(groups_.in_round(), kSought) : groups_.in_round());
    note_repetition();
  }

  std::string describe() const override {
    const DocumentReader& reader = groups_.reader();
    if (!in_all_) return fmt::format("{}, {}", reader.describe(), human_bytes(reader.bytes()));
    return fmt::format("{}, {}", reader.describe(), counted(*in_all_, packs() ? "token" : "row"));
  }

  std::int64_t rows(std::int64_t length) override {
    take_length(length);
    std::int64_t size = 0;
    Progress progress("part of the data counted", groups_.in_round());
    for (std::int64_t group = 0; group < groups_.in_round(); ++group) {
      size += size_of(*ahead_.at(group));
      progress.advance(group);
    }
    return packs() ? std::max<std::int64_t>(1, size / length) : size;
  }

  Example example(std::int64_t row, std::int64_t length) override {
    const Place place = place_of(row, length);
    forget_before(place.group);
    return packs() ? packed(place) : alone(place);
  }

  std::string place(std::int64_t row, std::int64_t length) override {
    const Place place = place_of(row, length);
    return fmt::format("{} {} {}", identity(length), place.group, place.offset);
  }

  bool begin(std::int64_t row, const std::string& place) override {
    if (place.empty()) {
      start_over(0, {});
      return true;
    }
    const std::optional<Place> there = parse(place);
    start_over(row, there.value_or(Place{}));
    return there.has_value();
  }

  std::int64_t left_out() const override { return groups_.reader().left_out(); }

 private:
  bool packs() const { return order_.packing == Packing::full; }

  // What the two numbers of a place mean: tokens, documents, or pieces of documents cut by the length of a row.
  std::string identity(std::int64_t length) const {
    const Order& order = order_.blocks;
    const Split& split = order_.split;
    const std::string counts = order_.packing == Packing::split ? fmt::format("pieces of {}", length) : fmt::format("{}", packs());
    return store::hash_text(store::hash_of(fmt::format("{} {} {} {} {} {}", groups_.reader().identity(), order.is_random, order.seed,
                                                       static_cast<int>(split.side), split.fraction, counts)));
  }

  std::optional<Place> parse(const std::string& words) const {
    const std::vector<std::string> parts = split(words, ' ');
    if (parts.size() != 3 || parts[0] != identity(length_)) return std::nullopt;
    const auto group = parse_integer(parts[1]), offset = parse_integer(parts[2]);
    if (!group || !offset || *group < 0 || *offset < 0 || *group / groups_.in_round() >= kRounds) return std::nullopt;
    return Place{*group, *offset};
  }

  void start_over(std::int64_t row, Place place) {
    first_row_ = row;
    places_.assign(1, place);
    held_.clear();
  }

  void take_length(std::int64_t length) {
    if (length == length_) return;
    length_ = length;
    start_over(first_row_, places_.front());
  }

  // The row's place, in the group that holds it. Rows are passed over one by one from the last one whose place is known.
  Place place_of(std::int64_t row, std::int64_t length) {
    take_length(length);
    if (row < first_row_) start_over(0, {});
    std::optional<Progress> progress;
    const auto known = [&] { return first_row_ + static_cast<std::int64_t>(places_.size()); };
    const std::int64_t from = known();
    if (row - from > kFar) progress.emplace("row of the data passed over", row - from);
    while (row >= known()) {
      forget_before(places_.back().group);
      places_.push_back(settled({places_.back().group, places_.back().offset + (packs() ? length_ : 1)}));
      if (places_.size() > kMostPlaces) {
        places_.pop_front();
        ++first_row_;
      }
      if (progress) progress->advance(known() - from);
    }
    Place& place = places_[static_cast<std::size_t>(row - first_row_)];
    return place = settled(place);
  }

  // Twice a round, as the only group with documents may come first in one round and last in the next.
  Place settled(Place place) { return settled(place, 2 * groups_.in_round()); }

  // The search ends after `most_empty` groups in succession without a document.
  Place settled(Place place, std::int64_t most_empty) {
    std::int64_t empty = 0, seen = 0;
    while (true) {
      const Held& held = group(place.group);
      if (place.offset < held.size) return place;
      place.offset -= held.size;
      ++place.group;
      empty = held.size == 0 ? empty + 1 : 0;
      seen += held.documents->seen;
      if (empty < most_empty) continue;
      if (seen > 0 && order_.split.side == Split::Side::both) {
        refuse(fmt::format("{} and not one token", counted(seen, "document")), groups_.reader().describe(), "name data with texts in it");
      }
      if (seen > 0) order_.split.check(0, seen, "document");
      groups_.reader().refuse_none();
    }
  }

  const Held& group(std::int64_t number) {
    const auto found = held_.find(number);
    if (found != held_.end()) return found->second;
    Held made{ahead_.at(number), {}, 0};
    if (!packs()) made.pieces = pieces_of(*made.documents);
    made.size = size_of(*made.documents);
    return held_.emplace(number, std::move(made)).first->second;
  }
  void forget_before(std::int64_t group) { held_.erase(held_.begin(), held_.lower_bound(group)); }

  std::int64_t size_of(const Documents& documents) const {
    if (packs()) return documents.size();
    std::int64_t pieces = 0;
    for (std::size_t i = 0; i < documents.begins.size(); ++i) pieces += pieces_in(documents.end_of(i) - documents.begins[i]);
    return pieces;
  }
  std::int64_t pieces_in(std::int64_t tokens) const { return order_.packing == Packing::cut ? 1 : divide_up(tokens, length_); }

  std::vector<Piece> pieces_of(const Documents& documents) const {
    std::vector<Piece> pieces;
    for (std::size_t i = 0; i < documents.begins.size(); ++i) {
      const std::int64_t begin = documents.begins[i], tokens = documents.end_of(i) - begin;
      for (std::int64_t piece = 0; piece < pieces_in(tokens); ++piece) {
        pieces.push_back({begin + piece * length_, std::min(length_, tokens - piece * length_)});
      }
    }
    return pieces;
  }

  Example packed(Place place) {
    Tokens tokens;
    std::vector<std::int64_t> begins;  // where documents begin in the row
    const std::int64_t size = length_ + 1;
    for (; std::cmp_less(tokens.size(), size); ++place.group, place.offset = 0) {
      const Documents& from = *group(place.group).documents;
      const auto before = static_cast<std::int64_t>(tokens.size());
      const std::int64_t end = std::min(from.size(), place.offset + size - before);
      tokens.insert(tokens.end(), from.tokens.begin() + place.offset, from.tokens.begin() + end);
      const auto first = std::lower_bound(from.begins.begin(), from.begins.end(), place.offset);
      const auto last = std::lower_bound(first, from.begins.end(), end);
      std::transform(first, last, std::back_inserter(begins), [&](std::int64_t begin) { return begin - place.offset + before; });
    }
    return in_segments(one_segment(tokens), begins);
  }

  // Numbers segments and positions by the documents that begin in the row. The row itself begins within a document, or with one.
  static Example in_segments(Example made, const std::vector<std::int64_t>& begins) {
    const auto length = static_cast<std::int64_t>(made.inputs.size());
    auto next = begins.begin();
    std::int32_t segment = 1, position = 0;
    for (std::int64_t i = 0; i <= length; ++i, ++position) {
      const bool begins_here = next != begins.end() && *next == i;
      if (begins_here) ++next;
      if (begins_here && i > 0) ++segment, position = 0;
      const auto at = static_cast<std::size_t>(i);
      if (i < length) made.segments[at] = segment;
      if (i < length) made.positions[at] = position;
      if (i > 0) made.target_segments[at - 1] = segment;
    }
    return made;
  }

  Example alone(Place place) {
    const Held& from = group(place.group);
    const Piece piece = from.pieces[static_cast<std::size_t>(place.offset)];
    const auto begin = from.documents->tokens.begin() + piece.begin;
    Tokens tokens(begin, begin + piece.count);
    tokens.resize(static_cast<std::size_t>(length_ + 1), 0);
    Example made = one_segment(tokens);
    std::fill(made.segments.begin() + piece.count, made.segments.end(), 0);
    std::fill(made.target_segments.begin() + piece.count - 1, made.target_segments.end(), 0);
    return made;
  }

  // Data of a single group is known by now. If it does not fill a row, rows hold it again and again.
  void note_repetition() {
    if (groups_.in_round() > 1) return;
    in_all_ = group(0).size;
    const std::int64_t takes = length_ + 1;
    if (!packs() || *in_all_ >= takes) return;
    log_notice(repetition_words(groups_.reader().describe(), *in_all_, takes));
  }

  Groups groups_;
  DocumentOrder order_;
  std::int64_t length_;
  std::int64_t first_row_ = 0;
  std::deque<Place> places_{Place{}};  // of the rows from first_row_ on; the first may lie beyond the end of its group
  std::optional<std::int64_t> in_all_;
  std::map<std::int64_t, Held> held_;  // by number
  Ahead<Documents> ahead_;  // declared last, as its threads use the other members
};

}  // namespace

std::unique_ptr<TokenSource> rows_of_documents(std::unique_ptr<DocumentReader> reader, const DocumentOrder& order) {
  return std::make_unique<DocumentRows>(std::move(reader), order);
}

}  // namespace moesh::data
