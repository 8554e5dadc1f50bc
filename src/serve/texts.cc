#include "serve/texts.h"

#include <utility>

namespace moesh::serve {

using decode::Ended;

Texts::Texts(const Completion& completion, const tokenizer::Tokenizer& tokenizer) : tells_growth_(completion.streams) {
  for (const AskedPrompt& prompt : completion.prompts) {
    for (std::int64_t i = 0; i < completion.texts_each; ++i) {
      texts_.push_back({decode::TextStream(tokenizer, prompt.ids, completion.stops), completion.echoes ? prompt.text : ""});
    }
  }
}

Heard Texts::wait(std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  grown_.wait_for(lock, most, [&] { return is_over() || (tells_growth_ && is_new_); });
  is_new_ = false;
  Heard heard{{}, ended_ == texts_.size(), failure_, tokens_};
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    Text& text = texts_[i];
    const bool ends = text.ended != Ended::not_yet && !text.is_told;
    if (text.unread.empty() && !ends) continue;
    heard.growth.push_back({i, std::exchange(text.unread, {}), text.ended});
    text.is_told = ends;
  }
  return heard;
}

bool Texts::add(std::size_t at, const decode::Continued& next) {
  Text& text = texts_[at];
  const decode::Grown grown = decode::grown(text.stream, next);
  const bool goes_on = grown.ended == Ended::not_yet;
  {
    const std::lock_guard lock(mutex_);
    ++tokens_;
    is_new_ = is_new_ || !grown.more.empty() || !goes_on;
    text.unread += grown.more;
    text.ended = grown.ended;
    if (!goes_on) ++ended_;
    if (!is_over() && !(tells_growth_ && is_new_)) return goes_on;
  }
  grown_.notify_one();
  return goes_on;
}

void Texts::fail(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = why;
  }
  grown_.notify_one();
}

}  // namespace moesh::serve
