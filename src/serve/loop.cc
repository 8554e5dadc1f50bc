#include "serve/loop.h"

#include <exception>
#include <utility>

#include "base/log.h"

namespace moesh::serve {

Loop::Loop(decode::Generator& generator, std::int64_t most_texts)
    : generator_(generator), most_texts_(most_texts), thread_([this] { run(); }) {}

Loop::~Loop() {
  end({});
  thread_.join();
}

Loop::Taken Loop::take(const std::shared_ptr<Texts>& texts, std::vector<decode::Prompt> prompts) {
  {
    const std::lock_guard lock(mutex_);
    if (!takes_more_) return Taken::is_ending;
    if (counts_.texts + static_cast<std::int64_t>(prompts.size()) > most_texts_) return Taken::is_full;
    counts_.texts += static_cast<std::int64_t>(prompts.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) coming_.push_back({std::move(prompts[i]), {texts, i}});
  }
  changed_.notify_one();
  return Taken::yes;
}

void Loop::end(std::chrono::milliseconds grace) {
  {
    std::unique_lock lock(mutex_);
    takes_more_ = false;
    emptied_.wait_for(lock, grace, [&] { return counts_.texts == 0; });
    goes_on_ = false;
  }
  changed_.notify_one();
}

Loop::Counts Loop::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

// Waits until there are texts to continue, and begins those that came. Returns false if the loop is to end.
bool Loop::wait() {
  std::deque<Coming> coming;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !goes_on_ || !coming_.empty() || !going_.empty(); });
    if (!goes_on_) return false;
    coming = std::exchange(coming_, {});
  }
  for (Coming& one : coming) begin(std::move(one));
  return true;
}

void Loop::begin(Coming coming) {
  coming.prompt.text = next_++;
  going_.emplace(coming.prompt.text, std::move(coming.going));
  generator_.add(std::move(coming.prompt));
}

void Loop::drop_unread() {
  std::erase_if(going_, [&](const auto& of) {
    const bool is_unread = of.second.texts.expired();
    if (is_unread) generator_.drop(of.first);
    return is_unread;
  });
}

// If a text's tokens cannot be decoded, only the texts of its request fail.
void Loop::step() {
  generator_.step([&](const decode::Continued& next) {
    const auto found = going_.find(next.text);
    const std::shared_ptr<Texts> texts = found->second.texts.lock();
    bool goes_on = false;
    try {
      goes_on = texts != nullptr && texts->add(found->second.at, next);
    } catch (const std::exception& error) {
      texts->fail(error.what());
    }
    if (!goes_on) going_.erase(found);
    const std::lock_guard lock(mutex_);
    ++counts_.tokens;
    return goes_on;
  });
}

void Loop::fail_all(const std::string& why) {
  for (const auto& [number, of] : going_) {
    if (const auto texts = of.texts.lock()) texts->fail(why);
    generator_.drop(number);
  }
  going_.clear();
}

void Loop::run() {
  while (true) {
    try {
      if (!wait()) break;
      drop_unread();
      if (!going_.empty()) step();
    } catch (const std::exception& error) {
      log_error(error.what());
      fail_all(error.what());
      generator_.decoder().forget();
    }
    const std::lock_guard lock(mutex_);
    counts_.texts = static_cast<std::int64_t>(going_.size() + coming_.size());
    if (counts_.texts == 0) emptied_.notify_all();
  }
  const std::lock_guard lock(mutex_);
  for (Coming& coming : coming_) going_.emplace(next_++, std::move(coming.going));
  coming_.clear();
  fail_all("the server ends");
  counts_.texts = 0;
}

}  // namespace moesh::serve
