// A text on its way to tokens: cut into splits, some of which are tokens already.
#pragma once

#include <utility>
#include <vector>

#include "tokenizer/string_table.h"
#include "tokenizer/traced_text.h"

namespace moesh::tokenizer {

struct Split {
  Bytes part;
  std::int32_t token = kNone;  // the id of an added token
};

struct Cut {
  TracedText text;
  std::vector<Split> splits;  // in order
};

// Rewrites the splits that are not tokens: edit(text, part, revision) is called for each, and what it adds to the revision is the split's
// new part.
template <typename Edit>
void rewrite(Cut& cut, Edit edit) {
  Revision revision(cut.text);
  for (Split& split : cut.splits) {
    const std::uint32_t begin = revision.size();
    if (split.token != kNone)
      revision.keep(split.part);
    else
      edit(cut.text, split.part, revision);
    split.part = {begin, revision.size()};
  }
  cut.text = revision.take();
}

// Cuts the splits that are not tokens further: divide(part, add) calls add(split) for the pieces of a split. Pieces without text are left
// out.
template <typename Divide>
void cut_further(Cut& cut, Divide divide) {
  std::vector<Split> pieces;
  pieces.reserve(cut.splits.size());
  const auto add = [&](const Split& piece) {
    if (piece.part.begin < piece.part.end) pieces.push_back(piece);
  };
  for (const Split& split : cut.splits) {
    if (split.token != kNone)
      pieces.push_back(split);
    else
      divide(split.part, add);
  }
  cut.splits = std::move(pieces);
}

}  // namespace moesh::tokenizer
