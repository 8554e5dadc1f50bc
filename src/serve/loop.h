// The one thread that makes all texts: it takes those of requests that come, and goes on with all of them by a token at a time.
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
  // At most so many texts go on or wait.
  Loop(decode::Generator& generator, std::int64_t most_texts);
  ~Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  enum class Taken { yes, is_full, is_ending };
  // A prompt for each of the texts. All of them are taken, or none. They end where nobody holds the texts any more.
  Taken take(const std::shared_ptr<Texts>& texts, std::vector<decode::Prompt> prompts);

  // Takes no more texts, goes on with those that are there for so long at most, and fails what is left then.
  void end(std::chrono::milliseconds grace);

  struct Counts {
    std::int64_t texts = 0;   // that go on or wait
    std::int64_t tokens = 0;  // made so far
  };
  Counts counts() const;

 private:
  struct Going {
    std::weak_ptr<Texts> texts;
    std::size_t at = 0;  // among them
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

  // Of the thread alone.
  std::map<std::int64_t, Going> going_;  // by the numbers of their prompts
  std::int64_t next_ = 0;
  std::thread thread_;
};

}  // namespace moesh::serve
