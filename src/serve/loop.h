// The single thread that generates all texts: it takes on the texts of new requests and advances all texts by one token at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "decode/generation.h"
#include "serve/texts.h"

namespace moesh::serve {

class Loop {
 public:
  // At most `most_texts` texts are being generated or waiting.
  Loop(decode::Generator& generator, std::int64_t most_texts);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  enum class Taken { yes, is_full, is_ending };
  // Queues one prompt per text: all of them or none. Generation stops once the caller no longer holds `texts`.
  Taken take(const std::shared_ptr<Texts>& texts, std::vector<decode::Prompt> prompts);

  // Takes no more texts, continues the present ones for at most `grace`, and then fails those that are left.
  void end(std::chrono::milliseconds grace);

  struct Counts {
    std::int64_t texts = 0;   // being generated or waiting
    std::int64_t tokens = 0;  // generated so far
  };
  Counts counts() const;

 private:
  struct Going {
    std::weak_ptr<Texts> texts;
    std::size_t at = 0;  // the text's index in `texts`
  };
  struct Coming {
    decode::Prompt prompt;
    Going going;
  };
  void run();
  bool wait();
  void begin(Coming coming);
  void drop_unread();
  void step();
  void fail_all(const std::string& why);

  decode::Generator& generator_;
  const std::int64_t most_texts_;

  mutable std::mutex mutex_;
  std::condition_variable changed_, emptied_;
  std::deque<Coming> coming_;
  Counts counts_;
  bool takes_more_ = true, goes_on_ = true;

  // Used by the thread only.
  std::map<std::int64_t, Going> going_;  // by Prompt::text
  std::int64_t next_ = 0;
  std::thread thread_;
};

}  // namespace moesh::serve
