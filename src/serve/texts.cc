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
    const bool ends = text.finish_reason != nullptr && !text.is_told;
    if (text.unread.empty() && !ends) continue;
    heard.growth.push_back({i, std::exchange(text.unread, {}), text.finish_reason});
    text.is_told = ends;
  }
  return heard;
}

bool Texts::add(std::size_t at, std::int32_t token, Ended ended) {
  Text& text = texts_[at];
  std::string more = ended == Ended::by_stop ? "" : text.stream.add(token);
  if (text.stream.is_stopped()) ended = Ended::by_stop;
  if (ended != Ended::not_yet) more += text.stream.finish();
  {
    const std::lock_guard lock(mutex_);
    ++tokens_;
    is_new_ = is_new_ || !more.empty() || ended != Ended::not_yet;
    text.unread += more;
    if (ended != Ended::not_yet) {
      text.finish_reason = ended == Ended::by_stop ? "stop" : "length";
      ++ended_;
    }
    if (!is_over() && !(tells_growth_ && is_new_)) return ended == Ended::not_yet;
  }
  grown_.notify_one();
  return ended == Ended::not_yet;
}

void Texts::fail(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = why;
  }
  grown_.notify_one();
}

}  // namespace moesh::serve
