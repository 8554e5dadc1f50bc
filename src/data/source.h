// Rows of tokens, of any length that is asked for, from which batches are made.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace moesh::data {

using Tokens = std::vector<std::int32_t>;

// The contents of a row of a batch, S numbers each. Segment 0 is padding, which the loss leaves out.
struct Example {
  Tokens inputs, targets, positions, segments, target_segments;
};

// S + 1 tokens as a row of one segment: inputs are all but the last, targets all but the first.
Example one_segment(const Tokens& tokens);

// An endless sequence of rows. A row is the same whenever it is asked for. To be used by one thread at a time.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual std::string describe() const = 0;

  // Row `row`, with `length` inputs.
  virtual Example example(std::int64_t row, std::int64_t length) = 0;
  // The rows of one round through the data; the sequence goes on with the next round. If documents are read as they are needed, all are
  // read.
  virtual std::int64_t rows(std::int64_t length) = 0;

  // Where in the data a row begins, for a checkpoint; empty if it follows from the row's number.
  virtual std::string place(std::int64_t row, std::int64_t length);
  // Lets row `row` begin at a place that was given before. Returns false if the place is one of other data; this data then begins at its
  // beginning. One that several others make up returns true if any of them goes on, and says itself which of them are other data.
  virtual bool begin(std::int64_t row, const std::string& place);

  // How many lines could not be read so far and were left out. May be asked while another thread makes rows.
  virtual std::int64_t left_out() const { return 0; }
};

}  // namespace moesh::data
