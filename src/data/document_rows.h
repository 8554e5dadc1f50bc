// Rows of documents that are read, and tokenized, as they are needed.
#pragma once

#include <memory>

#include "data/reader.h"
#include "data/rows.h"

namespace moesh::data {

enum class Packing {
  full,   // documents one after the other, each a segment with positions of its own; what a row has no room for goes on in the next
  cut,    // a document a row, padded, and cut off at the row's end
  split,  // the same, but a longer document goes on in rows of its own
};

struct DocumentOrder {
  Order blocks;
  Split split;  // that the reader goes by, for words
  Packing packing = Packing::full;
  std::int64_t length = 0;  // of the rows that will be asked for
  int threads = 1;          // that read ahead; without any, who asks for a row reads
};

// In an order of its own in each round: blocks are put in order first, and then the documents of kMixedBlocks that have come to stand
// side by side. Both follow from a place's number alone, so nothing of the data is kept but what is read at the time, and a row's place
// is two numbers. Refuses data without documents, or without any on the side of the split.
std::unique_ptr<TokenSource> rows_of_documents(std::unique_ptr<DocumentReader> reader, const DocumentOrder& order);

inline constexpr std::int64_t kMixedBlocks = 16;

}  // namespace moesh::data
