// A request, and what it is with changes.
#pragma once

#include <functional>
#include <utility>

#include "config/engine.h"
#include "config/keys.h"

namespace moesh::config {

class Request {
 public:
  using With = std::function<Keys(const Keys&)>;  // the words with keys added

  Request(Keys words) : words_(std::move(words)) {}  // NOLINT: most requests are nothing but their words
  Request(Keys words, With with, Engine engine) : words_(std::move(words)), with_(std::move(with)), engine_(std::move(engine)) {}

  const Keys& words() const { return words_; }
  // Fails if the added keys contradict the request of another program.
  Keys with(const Keys& more) const { return with_ ? with_(more) : joined(words_, more); }
  // Whether the words are the translation of another program's request, whose axes follow from the size of the machine.
  bool is_translated() const { return with_ != nullptr; }
  const Engine& engine() const { return engine_; }

 private:
  Keys words_;
  With with_;
  Engine engine_;
};

}  // namespace moesh::config
