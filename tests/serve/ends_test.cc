// Where the texts of a request end, asked of the service itself.
#include <algorithm>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/service.h"
#include "tests/process.h"
#include "tests/serve/metrics.h"
#include "tests/serve/serving.h"

namespace moesh::serve {
namespace {

// A service of a model of bytes in which every token ends a text.
class EndedByAll {
 public:
  EndedByAll() : model_(1, 32, 1) {
    model_.read_weights();
    const std::int64_t words = model_.session.shape.vocab_size;
    decode::Bounds bounds;
    for (std::int32_t id = 0; id < words; ++id) bounds.ends.push_back(id);
    service_.emplace(model_.generator, Served{"llama", *model_.tokenizer, bounds, {}, {}, 32, words, 32, 4}, ServiceOptions{1, 4, false});
  }

  nlohmann::json ask(const std::string& body) {
    return nlohmann::json::parse(service_->answer({"POST", "/v1/completions", "application/json", body, {}, [] { return true; }}).body);
  }
  // The number of tokens of all texts, once none goes on.
  std::int64_t tokens() {
    const auto metric = [&](const std::string& name) {
      return test::metric_of(service_->answer({"GET", "/metrics", "", "", {}, [] { return true; }}).body, name);
    };
    EXPECT_TRUE(test::wait_until([&] { return metric("moesh_texts_running") == 0; }));
    return metric("moesh_tokens_total");
  }

 private:
  ByteModel model_;
  std::optional<Service> service_;
};

TEST(ServedEnds, AreThoseOfTheModelUnlessTheyAreIgnored) {
  EndedByAll served;
  nlohmann::json answer = served.ask(R"({"prompt": "ab", "max_tokens": 5})");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 1);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "stop");
  answer = served.ask(R"({"prompt": "ab", "max_tokens": 5, "ignore_eos": true})");
  EXPECT_EQ(answer["usage"]["completion_tokens"], 5);
  EXPECT_EQ(answer["choices"][0]["finish_reason"], "length");
}

// A text that has its stop takes no further step.
TEST(ServedEnds, OfAStopEndTheText) {
  EndedByAll served;
  const std::string request = R"({"prompt": "ab", "temperature": 0, "max_tokens": 20, "ignore_eos": true)";
  const std::string text = served.ask(request + "}")["choices"][0]["text"];
  EXPECT_EQ(served.tokens(), 20);
  const auto letter = std::find_if(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
  ASSERT_NE(letter, text.end()) << text;
  const nlohmann::json stopped = served.ask(request + R"(, "stop": )" + nlohmann::json(std::string(1, *letter)).dump() + "}");
  EXPECT_EQ(stopped["choices"][0]["text"], std::string(text.begin(), letter));
  const std::int64_t taken = stopped["usage"]["completion_tokens"];
  EXPECT_LT(taken, 20);
  EXPECT_EQ(served.tokens(), 20 + taken);
}

}  // namespace
}  // namespace moesh::serve
