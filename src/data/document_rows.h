// Rows of documents, which are read and tokenized as they are needed.
#pragma once

#include <memory>

#include "data/reader.h"
#include "data/rows.h"

namespace moesh::data {

enum class Packing {
  full,   // documents one after the other, each a segment with its own positions; what does not fit in a row goes on in the next
  cut,    // one document per row, padded, or cut off at the row's end
  split,  // the same, but a longer document goes on in rows of its own
};

struct DocumentOrder {
  Order blocks;
  Split split;  // the split that the reader applies, also needed here for messages
  Packing packing = Packing::full;
  std::int64_t length = 0;  // of the rows that will be asked for
  int threads = 1;          // threads that read ahead; without any, the caller who asks for a row reads
};

// Each round has an order of its own: first the blocks are shuffled, then the documents of each kMixedBlocks blocks that have come to lie
// side by side. Both orders follow from a place's number alone, so nothing of the data is kept but what is being read, and a row's place is
// two numbers. Refuses data without documents, or without any on its side of the split.
std::unique_ptr<TokenSource> rows_of_documents(std::unique_ptr<DocumentReader> reader, const DocumentOrder& order);

inline constexpr std::int64_t kMixedBlocks = 16;

}  // namespace moesh::data
