// Texts that are generated several at a time equal those that are generated alone.
#include "decode/generation.h"

#include <map>

#include <gmock/gmock.h>

#include "tests/decode/decode_support.h"

namespace moesh::decode {
namespace {

using test::kSmallWidths;
using ::testing::HasSubstr;

using Texts = std::map<std::int64_t, std::vector<std::int32_t>>;

constexpr std::int64_t kSlots = 60;

// A generator for a small model, with its parameters set.
class Generating {
 public:
  Generating(const std::string& request, std::int64_t rows, std::int64_t slots = kSlots)
      : session_(test::session(kSmallWidths + request)),
        workers_(2),
        generator_(session::model_request(session_, rows), session_.target, slots, workers_) {
    for (const graph::Node& node : generator_.graph().nodes) {
      if (node.op != graph::Op::parameter) continue;
      Decoder& decoder = generator_.decoder();
      decoder.set_parameter(node.path, test::parameter_value(generator_.graph(), node, decoder.pool(), workers_));
    }
  }
  Generator& operator*() { return generator_; }
  Generator* operator->() { return &generator_; }

  Texts run(const std::vector<Prompt>& prompts) {
    for (const Prompt& prompt : prompts) generator_.add(prompt);
    Texts texts;
    while (!generator_.is_idle()) {
      generator_.step([&](const Continued& of) {
        texts[of.text].push_back(of.token);
        return true;
      });
    }
    return texts;
  }

 private:
  session::Session session_;
  backend::Workers workers_;
  Generator generator_;
};

// The lengths of the prompts use every prefill program, also at its limits.
std::vector<Prompt> some_prompts(const Sampling& sampling = {}) {
  std::vector<Prompt> prompts;
  for (const std::int64_t length : {5, 1, 2, 9, 33, 8, 50, 17}) {
    const auto number = static_cast<std::int64_t>(prompts.size());
    Prompt prompt{.ids = {}, .sampling = sampling, .most_tokens = 4 + length % 5, .stop_ids = {}, .text = number, .number = number};
    for (std::int64_t i = 0; i < length; ++i) prompt.ids.push_back(static_cast<std::int32_t>((length * 31 + i * 17) % 128));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

Texts one_by_one(const std::string& request, const std::vector<Prompt>& prompts) {
  Texts texts;
  Generating alone(request, 1);
  for (const Prompt& prompt : prompts) texts.merge(alone.run({prompt}));
  return texts;
}

TEST(GenerationSlow, OfManyTextsIsThatOfEachAlone) {
  for (const test::SmallModel& model : test::small_models()) {
    for (const Sampling& sampling : {Sampling{}, Sampling{.temperature = 1, .top_k = 20, .seed = 3}}) {
      const std::string request = model.request + "compile_topology=cpu-1 ";
      const Texts expected = one_by_one(request, some_prompts(sampling));
      ASSERT_EQ(expected.size(), 8u);
      EXPECT_EQ(Generating(request, 3).run(some_prompts(sampling)), expected) << model.family;
      EXPECT_EQ(Generating(request, 8).run(some_prompts(sampling)), expected) << model.family;
    }
  }
}

TEST(GenerationSlow, IsTheSameOnAnyMesh) {
  const std::string model = test::small_model("mixtral").request;
  const Texts expected = one_by_one(model + "compile_topology=cpu-1 ", some_prompts());
  for (const std::string mesh : {"ici_fsdp_parallelism=4 ici_expert_parallelism=2 ", "ici_expert_parallelism=8 use_ring_of_experts=true custom_mesh_and_rule=ep-tp ",
                                  "ici_fsdp_parallelism=1 ici_tensor_parallelism=8 ", "ici_expert_parallelism=8 custom_mesh_and_rule=ep-as-dp "}) {
    EXPECT_EQ(Generating(model + "compile_topology=cpu-8 " + mesh, 8).run(some_prompts()), expected) << mesh;
  }
}

// A prompt comes while another text goes on. Its prefill is as long as the cache, and leaves the other text's slots alone.
TEST(Generation, PrefillsBesideATextThatGoesOn) {
  constexpr std::int64_t kFew = 12;
  const std::string request = test::small_model("llama2").request + "compile_topology=cpu-1 ";
  const Prompt first{.ids = {1, 2}, .sampling = {}, .most_tokens = 10, .stop_ids = {}, .text = 0};
  const Prompt second{.ids = {9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 11}, .sampling = {}, .most_tokens = 1, .stop_ids = {}, .text = 1};
  Generating alone(request, 1, kFew), both(request, 2, kFew);
  Texts expected = alone.run({first});
  expected.merge(alone.run({second}));
  Texts texts;
  both->add(first);
  for (int step = 0; !both->is_idle(); ++step) {
    if (step == 4) both->add(second);
    both->step([&](const Continued& of) {
      texts[of.text].push_back(of.token);
      return true;
    });
  }
  EXPECT_EQ(texts, expected);
}

TEST(Generation, GoesOnWithTheOthersWhenATextIsDropped) {
  const std::string request = test::small_model("llama2").request + "compile_topology=cpu-1 ";
  const auto prompt = [](std::int32_t id, std::int64_t text) {
    return Prompt{.ids = {id}, .sampling = {}, .most_tokens = 6, .stop_ids = {}, .text = text};
  };
  const Texts expected = one_by_one(request, {prompt(5, 1), prompt(6, 2)});
  Generating of(request, 2);
  for (const std::int64_t text : {0, 1, 2}) of->add(prompt(static_cast<std::int32_t>(4 + text), text));
  Texts texts;
  for (int step = 0; !of->is_idle(); ++step) {
    if (step == 3) of->drop(0);
    of->step([&](const Continued& next) {
      texts[next.text].push_back(next.token);
      return true;
    });
  }
  EXPECT_EQ(texts.at(0).size(), 3u);
  texts.erase(0);
  EXPECT_EQ(texts, expected);
}

TEST(Generation, EndsTextsWhereTheyAreToEnd) {
  const std::string request = test::small_model("llama2").request + "compile_topology=cpu-1 ";
  Prompt prompt{.ids = {1, 2, 3}, .sampling = {}, .most_tokens = 1000, .stop_ids = {}, .text = 7};
  Generating of(request, 2);
  const std::vector<std::int32_t> whole = of.run({prompt}).at(7);
  EXPECT_EQ(whole.size(), static_cast<std::size_t>(kSlots) - 3) << "as long as there is room";
  prompt.most_tokens = 5;
  EXPECT_EQ(of.run({prompt}).at(7), std::vector(whole.begin(), whole.begin() + 5));
  prompt.most_tokens = 1000;
  prompt.stop_ids = {whole[2]};
  const auto first = std::find(whole.begin(), whole.end(), whole[2]);
  EXPECT_EQ(of.run({prompt}).at(7), std::vector(whole.begin(), first + 1));
  of->add(prompt);
  of->add({.ids = {4}, .sampling = {}, .most_tokens = 3, .stop_ids = {}, .text = 8});
  std::vector<Ended> ends;
  of->drop(7);
  while (!of->is_idle()) {
    of->step([&](const Continued& next) {
      EXPECT_EQ(next.text, 8);
      ends.push_back(next.ended);
      return true;
    });
  }
  EXPECT_THAT(ends, ::testing::ElementsAre(Ended::not_yet, Ended::not_yet, Ended::by_length));
  of->add(prompt);
  int seen = 0;
  while (!of->is_idle()) {
    of->step([&](const Continued&) {
      ++seen;
      return false;
    });
  }
  EXPECT_EQ(seen, 1);
}

TEST(Generation, NeedsAllParameters) {
  const session::Session session = test::session(kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-1 ");
  backend::Workers workers(1);
  Generator generator(session::model_request(session, 1), session.target, 8, workers);
  generator.add({.ids = {1}, .sampling = {}, .most_tokens = 1, .stop_ids = {}, .text = 0});
  const auto refusal = [&] { return test::message_of([&] { generator.step([](const Continued&) { return true; }); }); };
  EXPECT_THAT(refusal(), HasSubstr("the parameter has no value"));
  EXPECT_FALSE(generator.decoder().parameter_parts("token_embedder/embedding").empty());
  EXPECT_THAT(refusal(), HasSubstr("the parameter has no value")) << "all but that one";
  for (const graph::Node& node : generator.graph().nodes) {
    if (node.op != graph::Op::parameter || node.path == "decoder/logits_dense/kernel") continue;
    generator.decoder().set_parameter(node.path, test::parameter_value(generator.graph(), node, generator.decoder().pool(), workers));
  }
  EXPECT_THAT(refusal(), HasSubstr("decoder/logits_dense/kernel: the parameter has no value"));
}

TEST(Generation, NeedsAPromptWithRoomForMore) {
  Generating of(test::small_model("llama2").request + "compile_topology=cpu-1 ", 1);
  EXPECT_THAT(test::message_of([&] { of->add({.ids = {}, .sampling = {}, .most_tokens = 1, .stop_ids = {}, .text = 3}); }),
              HasSubstr("prompt 3: a prompt without any token"));
  EXPECT_THAT(test::message_of([&] { of->add({.ids = std::vector<std::int32_t>(60), .sampling = {}, .most_tokens = 1, .stop_ids = {}, .text = 3}); }),
              HasSubstr("60 tokens, and 60 at most make a text with what follows"));
}

}  // namespace
}  // namespace moesh::decode
