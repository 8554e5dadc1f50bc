// Strings by their prefixes: finds which of them a text begins with.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/string_table.h"

namespace moesh::tokenizer {

class Trie {
 public:
  struct Entry {
    std::string key;  // not empty; the last of equal ones counts
    std::int32_t value;
  };
  explicit Trie(std::vector<Entry> entries);

  // Calls see(length, value) for each string that `text` begins with, the shortest first.
  template <typename See>
  void each_prefix(std::string_view text, See see) const {
    std::uint32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node == 0) return;
      if (nodes_[node].value != kNone) see(i + 1, nodes_[node].value);
    }
  }
  bool has_any_from(unsigned char first) const { return roots_[first] != 0; }

 private:
  struct Node {
    std::uint32_t first_child = 0;
    std::uint16_t children = 0;
    unsigned char byte = 0;  // the byte that leads here
    std::int32_t value = kNone;
  };
  std::uint32_t child(std::uint32_t node, unsigned char byte) const {
    if (node == 0) return roots_[byte];
    const Node& parent = nodes_[node];
    for (std::uint32_t i = parent.first_child; i < parent.first_child + parent.children; ++i) {
      if (nodes_[i].byte >= byte) return nodes_[i].byte == byte ? i : 0;
    }
    return 0;
  }

  std::vector<Node> nodes_;           // the root, then level by level; children of one parent are sorted by byte
  std::vector<std::uint32_t> roots_;  // the children of the root, by byte; 0: none
};

}  // namespace moesh::tokenizer
