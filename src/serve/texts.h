// The texts of one request: they grow in the thread that makes them, and are read in that of the client.
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

// What came to a text since it was last asked.
struct Growth {
  std::size_t text = 0;  // its place among those of the request
  std::string more;
  decode::Ended ended = decode::Ended::not_yet;
};

// What became of the texts of a request.
struct Heard {
  std::vector<Growth> growth;  // at most one of each text
  bool are_whole = false;      // all of them
  std::string failure;         // why they end before that; empty where they do not
  std::int64_t tokens = 0;     // made so far
};

class Texts {
 public:
  // `tells_growth`: whoever waits is told of each token, not of the end alone.
  Texts(const Completion& completion, const tokenizer::Tokenizer& tokenizer);

  // By the client's thread.
  // Waits for something new, or the end, for so long at most.
  Heard wait(std::chrono::milliseconds most);

  // By the thread that makes them.
  // Whether the text is to go on.
  bool add(std::size_t text, const decode::Continued& next);
  void fail(const std::string& why);

 private:
  struct Text {
    decode::TextStream stream;  // of the thread that makes texts alone
    std::string unread = {};
    decode::Ended ended = decode::Ended::not_yet;
    bool is_told = false;  // that it ended
  };
  bool is_over() const { return ended_ == texts_.size() || !failure_.empty(); }

  const bool tells_growth_;
  std::mutex mutex_;
  std::condition_variable grown_;
  std::vector<Text> texts_;
  bool is_new_ = false;  // something that was not read
  std::size_t ended_ = 0;
  std::int64_t tokens_ = 0;
  std::string failure_;
};

}  // namespace moesh::serve
