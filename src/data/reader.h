// Documents of a data set, in blocks that can be read without what precedes them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "data/source.h"

namespace moesh::data {

// The tokens of documents one after the other, and where each document begins.
struct Documents {
  Tokens tokens;
  std::vector<std::int64_t> begins;
  std::int64_t seen = 0;  // documents read, including those on the other side of a split

  // A document without tokens is not added.
  void add(std::span<const std::int32_t> document) {
    if (document.empty()) return;
    begins.push_back(size());
    tokens.insert(tokens.end(), document.begin(), document.end());
  }
  std::int64_t size() const { return static_cast<std::int64_t>(tokens.size()); }
  std::int64_t end_of(std::size_t document) const { return document + 1 < begins.size() ? begins[document + 1] : size(); }
  std::span<const std::int32_t> of(std::size_t document) const {
    const std::int64_t begin = begins[document];
    return std::span(tokens).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end_of(document) - begin));
  }
};

class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  virtual std::string describe() const = 0;  // "the texts of FILE"
  virtual std::int64_t bytes() const = 0;
  // Equal if the documents are equal, as far as that can be known without reading them.
  virtual std::string identity() const = 0;
  virtual std::int64_t blocks() const = 0;
  // Adds the documents of a block, in the order of the data. Called by several threads at once.
  virtual void read(std::int64_t block, Documents& documents) const = 0;
  // How many documents could not be read so far and were left out.
  virtual std::int64_t left_out() const { return 0; }
  // For data that turned out to have no document.
  [[noreturn]] virtual void refuse_none() const = 0;
};

}  // namespace moesh::data
