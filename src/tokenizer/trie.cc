#include "tokenizer/trie.h"

#include <algorithm>

namespace moesh::tokenizer {
namespace {

// A range of entries that share their first `depth` bytes.
struct Group {
  std::size_t begin, end, depth;
  std::uint32_t node;
};

}  // namespace

Trie::Trie(std::vector<Entry> entries) : nodes_(1), roots_(256, 0) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.key < b.key; });
  std::vector<Group> groups{{0, entries.size(), 0, 0}};
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Group group = groups[g];
    // Entries that end here come first.
    while (group.begin < group.end && entries[group.begin].key.size() == group.depth) {
      if (group.depth > 0) nodes_[group.node].value = entries[group.begin].value;
      ++group.begin;
    }
    nodes_[group.node].first_child = static_cast<std::uint32_t>(nodes_.size());
    for (std::size_t at = group.begin; at < group.end;) {
      const auto byte = static_cast<unsigned char>(entries[at].key[group.depth]);
      std::size_t end = at;
      while (end < group.end && static_cast<unsigned char>(entries[end].key[group.depth]) == byte) ++end;
      const auto node = static_cast<std::uint32_t>(nodes_.size());
      nodes_.push_back({0, 0, byte, kNone});
      ++nodes_[group.node].children;
      if (group.depth == 0) roots_[byte] = node;
      groups.push_back({at, end, group.depth + 1, node});
      at = end;
    }
  }
}

}  // namespace moesh::tokenizer
