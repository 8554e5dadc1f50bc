// A sequence of token ids, in memory or in files.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "config/settings.h"
#include "data/files.h"
#include "data/source.h"

namespace moesh::data {

class TokenSequence {
 public:
  virtual ~TokenSequence() = default;
  virtual std::int64_t size() const = 0;
  virtual std::string identity() const = 0;  // equal if the tokens are equal, as far as that can be known without reading whole files
  virtual void read(std::int64_t first, std::span<std::int32_t> tokens) const = 0;
};

class HeldTokens : public TokenSequence {
 public:
  explicit HeldTokens(Tokens tokens) : tokens_(std::move(tokens)) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(tokens_.size()); }
  std::string identity() const override;
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override;

 private:
  Tokens tokens_;
};

// Ids of one, two or four bytes, the lowest byte first. All of them are checked once, so that an id that the vocabulary does not have is
// refused before anything is trained.
class FileTokens : public TokenSequence {
 public:
  FileTokens(DataFiles files, int width, std::int64_t vocab_size);
  std::int64_t size() const override { return files_.size() / width_; }
  std::string identity() const override;
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override;

 private:
  void check_sizes() const;
  void check_vocabulary(std::int64_t vocab_size) const;

  DataFiles files_;
  int width_;
};

// The width of a token id in bytes: what token_bytes says, or what the files look like.
int width_of(const DataFiles& files, const config::Settings& settings);

}  // namespace moesh::data
