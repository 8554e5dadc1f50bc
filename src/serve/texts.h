// The texts of one request: the generating thread extends them, and the client's thread reads them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "decode/generation.h"
#include "decode/text_stream.h"
#include "serve/completion.h"
#include "tokenizer/tokenizer.h"

namespace moesh::serve {

// What was added to a text since the last call of Texts::wait.
struct Growth {
  std::size_t text = 0;  // its index among the request's texts
  std::string more;
  decode::Ended ended = decode::Ended::not_yet;
};

// The news of a request's texts.
struct Heard {
  std::vector<Growth> growth;  // at most one per text
  bool are_whole = false;      // whether all texts are complete
  std::string failure;         // why the texts failed; empty if they did not
  std::int64_t tokens = 0;     // generated so far
};

class Texts {
 public:
  // The waiting thread is woken at every growth if the completion streams, else only at the end.
  Texts(const Completion& completion, const tokenizer::Tokenizer& tokenizer);

  // For the client's thread.
  // Waits at most this long for something new or for the end.
  Heard wait(std::chrono::milliseconds most);

  // For the generating thread.
  // Appends a token; returns whether the text is to be continued.
  bool add(std::size_t text, const decode::Continued& next);
  void fail(const std::string& why);

 private:
  struct Text {
    decode::TextStream stream;  // used by the generating thread only
    std::string unread = {};
    decode::Ended ended = decode::Ended::not_yet;
    bool is_told = false;  // whether the client was told that the text ended
  };
  bool is_over() const { return ended_ == texts_.size() || !failure_.empty(); }

  const bool tells_growth_;
  std::mutex mutex_;
  std::condition_variable grown_;
  std::vector<Text> texts_;
  bool is_new_ = false;  // whether there is growth that was not read
  std::size_t ended_ = 0;
  std::int64_t tokens_ = 0;
  std::string failure_;
};

}  // namespace moesh::serve
