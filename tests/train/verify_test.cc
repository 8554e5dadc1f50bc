// The engine is compared with every recorded run, and a change of any recorded number is noticed.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>

#include "config/schema.h"
#include "tests/train/train_support.h"

namespace moesh::train {
namespace {

using nlohmann::json;
using test::Outcome;
using test::outcome_of;
using test::RunCopy;
using test::SafetensorsParts;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class Verify : public ::testing::TestWithParam<std::string> {};

TEST_P(Verify, GivesWhatWasRecorded) {
  const Outcome outcome = outcome_of({"verify", (test::kRecordedRuns / GetParam()).string()});
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;
  EXPECT_THAT(outcome.out, AnyOf(EndsWith("\nall as recorded.\n"), EndsWith("\nall that was compared is as recorded.\n")));
}

INSTANTIATE_TEST_SUITE_P(Run, Verify, ::testing::ValuesIn(test::cases_in(test::kRecordedRuns)), test::test_name);

// Runs without expect.safetensors only have losses to compare, so runs with it must exist.
TEST(VerifyRuns, HoldGradientsLogitsAndParameters) {
  std::set<std::string> quantities;
  for (const char* name : {"llama", "llama-tied"}) {
    const Outcome outcome = outcome_of({"verify", (test::kRecordedRuns / name).string(), "--json"});
    for (const json& verdict : json::parse(outcome.out)) {
      if (!verdict["passes"].is_null()) quantities.insert(verdict["quantity"]);
    }
  }
  EXPECT_EQ(quantities, (std::set<std::string>{"balance loss", "gradient norms", "gradients", "logits", "loss", "parameter norms",
                                               "parameters after 10 steps"}));
  EXPECT_GE(test::cases_in(test::kRecordedRuns).size(), 23u);
}

// A family whose layers are like another's may still differ in a factor, so each has a run. MaxText has no qwen2_moe, and
// qwen3_5 has the layers of qwen3_next.
TEST(VerifyRuns, AreOfEveryFamily) {
  std::set<std::string> recorded{"qwen2_moe", "qwen3_5"};
  for (const std::string& name : test::cases_in(test::kRecordedRuns)) {
    recorded.insert(json::parse(test::read_text(test::kRecordedRuns / name / "config.json"))["decoder_block"].get<std::string>());
  }
  for (const config::Choice& family : config::choices(*config::find_key("decoder_block"))) {
    EXPECT_TRUE(family.refused || recorded.contains(std::string(family.word))) << family.word;
  }
}

TEST(VerifyRuns, SayWhatTheyWereNotHeldTo) {
  const std::string llama = (test::kRecordedRuns / "llama").string(), bf16 = (test::kRecordedRuns / "mixtral-bf16").string();
  const std::string said = outcome_of({"verify", llama, bf16, (test::kRecordedRuns / "mixtral-packed").string()}).out;
  EXPECT_THAT(said, EndsWith("not compared: logits, gradients, parameters (not recorded): mixtral-bf16, mixtral-packed\n"
                             "not compared: parameters (not recorded): llama\n"
                             "all that was compared is as recorded.\n"));
  const json unheld = json::parse(outcome_of({"verify", bf16, "--json"}).out).back();
  EXPECT_EQ(unheld["quantity"], "logits, gradients, parameters");
  EXPECT_TRUE(unheld["passes"].is_null());
  EXPECT_THAT(outcome_of({"verify", llama, "per_device_batch_size=0.5", "compile_topology=cpu-8", "ici_fsdp_parallelism=8"}).out,
              HasSubstr("not compared: logits ([8, 32, 256] were recorded, [4, 32, 256] are made): llama\n"));
  const RunCopy shorter("mixtral-sparse");
  shorter.change_json("curve.json", [](json& curve) { curve.erase(curve.begin() + 2, curve.end()); });
  EXPECT_THAT(outcome_of({"verify", shorter.path()}).out, HasSubstr("not compared: steps 2 to 19 (not recorded): mixtral-sparse\n"));
}

TEST(VerifyRuns, AreFollowedForTheFirstStepsOnly) {
  const std::string tied = (test::kRecordedRuns / "llama-tied").string();
  const Outcome outcome = outcome_of({"verify", tied, "--first", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("not compared: parameters after 10 steps (it is not followed so far): llama-tied\n"));
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("gradients"), HasSubstr("all that was compared is as recorded.\n")));
  EXPECT_EQ(outcome_of({"verify", tied, "--first", "20"}).out, outcome_of({"verify", tied}).out);
  const RunCopy copy("llama-tied");
  copy.change_json("curve.json", [](json& curve) { curve[3]["loss"] = 0.5; });
  EXPECT_EQ(outcome_of({"verify", copy.path(), "--first", "3"}).code, 0);
  EXPECT_EQ(outcome_of({"verify", copy.path(), "--first", "4"}).code, 1);
  EXPECT_THAT(outcome_of({"verify", tied, "--first", "21"}).err,
              HasSubstr("--first 21: not a number from 1 to 20\n  fix: at most the 20 steps that there are"));
  EXPECT_THAT(outcome_of({"verify", "--against-one-device", (test::source_folder() / "configs/first.yml").string(), "steps=2", "--first=3"}).err,
              HasSubstr("--first 3: not a number from 1 to 2"));
}

// What differs: the quantity and the place.
using Found = std::vector<std::pair<std::string, std::string>>;

Found found_off(const RunCopy& copy) {
  const Outcome outcome = outcome_of({"verify", copy.path(), "--json"});
  EXPECT_EQ(outcome.code, 1) << outcome.out << outcome.err;
  Found off;
  for (const json& verdict : json::parse(outcome.out)) {
    if (verdict["passes"] == false) off.emplace_back(verdict["quantity"], verdict["worst"]);
  }
  return off;
}

// Changes one element by this fraction of the tensor's norm.
auto moved_by(const std::string& tensor, double part) {
  return [=](SafetensorsParts& parts) {
    float* values = parts.floats(tensor);
    double squares = 0;
    for (std::size_t i = 0; i < parts.count(tensor); ++i)
      squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    values[parts.count(tensor) / 2] += static_cast<float>(part * std::sqrt(squares));
  };
}

TEST(VerifyNotices, AGradientThatIsOff) {
  for (const char* path : {"decoder/layers/mlp/wo/kernel", "token_embedder/embedding", "decoder/decoder_norm/scale"}) {
    std::string dotted = path;
    std::replace(dotted.begin(), dotted.end(), '/', '.');
    const RunCopy copy("llama");
    copy.change_tensors("expect.safetensors", moved_by("grad." + dotted, 2e-4));
    EXPECT_EQ(found_off(copy), (Found{{"gradients", path}}));
  }
}

TEST(VerifyNotices, LogitsThatAreOff) {
  const RunCopy copy("llama");
  copy.change_tensors("expect.safetensors", moved_by("logits", 2e-4));
  EXPECT_EQ(found_off(copy), (Found{{"logits", "step 0, row 4, position 0"}}));
}

TEST(VerifyNotices, AParameterThatEndsElsewhere) {
  const RunCopy copy("llama-muon-rms");
  copy.change_tensors("expect.safetensors", moved_by("step10.decoder.layers.self_attention.key.kernel", 2e-4));
  EXPECT_EQ(found_off(copy), (Found{{"parameters after 10 steps", "decoder/layers/self_attention/key/kernel"}}));
}

TEST(VerifyNotices, AParameterThatStartsElsewhere) {
  const RunCopy copy("llama-muon-rms");
  copy.change_tensors("params.safetensors", moved_by("decoder.layers.mlp.wo.kernel", 0.1));
  const Found off = found_off(copy);
  ASSERT_GE(off.size(), 3u);
  EXPECT_EQ(off[0].first, "loss");
  EXPECT_EQ(off[1].first, "gradient norms");
  EXPECT_EQ(off.back(), (std::pair<std::string, std::string>("parameters after 10 steps", "decoder/layers/mlp/wo/kernel")));
}

TEST(VerifyNotices, ALossThatIsOff) {
  const RunCopy copy("mixtral-sparse");
  copy.change_json("curve.json", [](json& curve) { curve[7]["loss"] = curve[7]["loss"].get<double>() * (1 + 2e-5); });
  EXPECT_EQ(found_off(copy), (Found{{"loss", "step 7"}}));
}

// The gradient of a key's bias is rounding errors only, as the softmax cancels it; those of values are not.
TEST(VerifyNotices, AnUpdateThatIsOffButNotOneOfRoundingErrors) {
  const RunCopy of_key("gpt3"), of_value("gpt3");
  const auto move = [](const RunCopy& copy, std::size_t element) {
    copy.change_tensors("expect.safetensors", [&](SafetensorsParts& parts) {
      parts.floats("step10.decoder.layers.self_attention.qkv_proj.bias")[element] += 0.01f;
    });
  };
  move(of_key, 64);  // of [3, 2, 4, 8]
  move(of_value, 128);
  EXPECT_EQ(outcome_of({"verify", of_key.path()}).code, 0);
  EXPECT_EQ(found_off(of_value), (Found{{"parameters after 10 steps", "decoder/layers/self_attention/qkv_proj/bias"}}));
}

// Positions behind the rows have no gradient. Parameters of which Adam moves nothing may not be anything.
TEST(VerifyNotices, AParameterWithoutGradientThatIsOff) {
  const RunCopy copy("gpt3");
  copy.change_tensors("expect.safetensors", [](SafetensorsParts& parts) {
    parts.floats("step10.decoder.position_embedder.embedding")[1279] += 1000;
  });
  EXPECT_EQ(found_off(copy), (Found{{"parameters after 10 steps", "decoder/position_embedder/embedding"}}));
}

TEST(VerifyNotices, AnotherBatch) {
  const RunCopy copy("mixtral-sparse");
  copy.change_tensors("batch.safetensors", [](SafetensorsParts& parts) {
    const std::int32_t token = 17;
    std::memcpy(parts.floats("inputs") + 40, &token, sizeof token);
  });
  const Found off = found_off(copy);
  ASSERT_GE(off.size(), 2u);
  EXPECT_EQ(off[0].first, "loss");
  EXPECT_EQ(off[1].first, "gradient norms");
}

TEST(VerifyNotices, NumbersThatAreNone) {
  const RunCopy copy("llama");
  copy.change_tensors("expect.safetensors", [](SafetensorsParts& parts) {
    parts.floats("grad.decoder.layers.mlp.wi_0.kernel")[3] = std::numeric_limits<float>::quiet_NaN();
  });
  EXPECT_EQ(found_off(copy), (Found{{"gradients", "decoder/layers/mlp/wi_0/kernel"}}));
  EXPECT_THAT(outcome_of({"verify", copy.path()}).out, HasSubstr("not a number"));
}

// A changed request makes another run.
TEST(VerifyNotices, AnotherRequest) {
  const std::string path = (test::kRecordedRuns / "mixtral-sparse").string();
  EXPECT_EQ(outcome_of({"verify", path, "learning_rate=0.002"}).code, 1);
  EXPECT_EQ(outcome_of({"verify", path, "norm_topk_prob=true"}).code, 0) << "weights that sum to one stay as they are";
  EXPECT_EQ(outcome_of({"verify", path, "num_experts_per_tok=1"}).code, 1);
}

TEST(VerifyNotices, TheOneRunOfSeveralThatIsOff) {
  const RunCopy copy("mixtral-sparse");
  copy.change_json("curve.json", [](json& curve) { curve[0]["loss"] = 1.0; });
  const Outcome outcome = outcome_of({"verify", (test::kRecordedRuns / "mixtral-bf16").string(), copy.path()});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.out, HasSubstr("OFF  step 0"));
  EXPECT_THAT(outcome.out, HasSubstr("not all is as recorded."));
}

std::string refusal(const RunCopy& copy) {
  const Outcome outcome = outcome_of({"verify", copy.path()});
  EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
  return outcome.err;
}

TEST(VerifyRefuses, ARunThatLacksATensorOrHasItInAnotherShape) {
  const RunCopy lacking("llama");
  lacking.change_tensors("expect.safetensors",
                         [](SafetensorsParts& parts) { parts.header.erase("grad.decoder.layers.mlp.wo.kernel"); });
  EXPECT_THAT(refusal(lacking), HasSubstr("no tensor 'grad.decoder.layers.mlp.wo.kernel'"));
  const RunCopy reshaped("llama");
  reshaped.change_tensors("expect.safetensors", [](SafetensorsParts& parts) {
    std::swap(parts.header["grad.token_embedder.embedding"]["shape"][0],
              parts.header["grad.token_embedder.embedding"]["shape"][1]);
  });
  EXPECT_THAT(refusal(reshaped), HasSubstr("token_embedder/embedding: shape [256, 64], the run recorded [64, 256]"));
}

TEST(VerifyRefuses, AModelThatIsNotTheRecordedOne) {
  const RunCopy copy("llama");
  copy.change_json("config.json", [](json& config) { config["set"]["base_mlp_dim"] = 32; });
  EXPECT_THAT(refusal(copy), HasSubstr(" was expected"));
  const RunCopy deeper("llama-tied");
  deeper.change_json("config.json", [](json& config) { config["set"]["logits_via_embedding"] = false; });
  EXPECT_THAT(refusal(deeper), HasSubstr("no tensor 'decoder.logits_dense.kernel'"));
}

// A batch of another shape would be read beyond its end.
TEST(VerifyRefuses, SizesThatAreNotTheRecordedOnes) {
  const std::string path = (test::kRecordedRuns / "llama").string();
  const auto refused = [&](const std::string& change) {
    const Outcome outcome = outcome_of({"verify", path, change});
    EXPECT_EQ(outcome.code, 2) << change;
    return outcome.err;
  };
  EXPECT_THAT(refused("per_device_batch_size=16"),
              HasSubstr("inputs: int32 [8, 32] in a batch, the step takes int32 [16, 32]"));
  EXPECT_THAT(refused("per_device_batch_size=4"), HasSubstr(" in a batch, the step takes "));
  EXPECT_THAT(refused("max_target_length=64"), HasSubstr(" in a batch, the step takes "));
  EXPECT_THAT(refused("gradient_accumulation_steps=2"), HasSubstr(" in a batch, the step takes "));
}

TEST(VerifyRefuses, ABatchOfAnotherType) {
  const RunCopy copy("llama");
  copy.change_tensors("batch.safetensors", [](SafetensorsParts& parts) { parts.header["inputs"]["dtype"] = "F32"; });
  EXPECT_THAT(refusal(copy), HasSubstr("inputs: float32 [8, 32] in a batch, the step takes int32 [8, 32]"));
}

TEST(VerifyRefuses, ARequestWithoutARun) {
  const Outcome outcome = outcome_of({"verify"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("no run is named"));
}

// A folder that lost recorded files is not mistaken for one with fewer recordings.
TEST(VerifyRefuses, ARunThatLostWhatItPromises) {
  const RunCopy without("llama");
  std::filesystem::remove(without.path() + "/expect.safetensors");
  EXPECT_THAT(refusal(without), HasSubstr("/expect.safetensors: config.json says that 'grad' was recorded, it is not there"));
  const RunCopy empty("llama");
  empty.change_tensors("expect.safetensors", [](SafetensorsParts& parts) {
    parts.header = json::object();
    parts.data.clear();
  });
  EXPECT_THAT(refusal(empty), HasSubstr("/expect.safetensors: no tensor is in it"));
  const RunCopy half("llama");
  half.change_tensors("expect.safetensors", [](SafetensorsParts& parts) {
    for (auto at = parts.header.begin(); at != parts.header.end();) at = at.key() == "logits" ? std::next(at) : parts.header.erase(at);
  });
  EXPECT_THAT(refusal(half), HasSubstr("'grad' was recorded, it is not there"));
  const RunCopy first("llama");
  first.change_tensors("expect.safetensors",
                       [](SafetensorsParts& parts) { parts.header.erase("grad." + parts.header.begin().key().substr(5)); });
  EXPECT_THAT(refusal(first), HasSubstr("no tensor 'grad."));
}

// As the reference records them: numbers of the first step and the outputs of routers are stored as tensors.
TEST(VerifyRuns, HoldNumbersThatStandAmongTheTensors) {
  const auto add = [](SafetensorsParts& parts, const std::string& name, float value) {
    const std::size_t begin = parts.data.size();
    parts.data.append(reinterpret_cast<const char*>(&value), sizeof value);
    parts.header[name] = {{"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {begin, begin + sizeof value}}};
  };
  const json curve = json::parse(test::read_text((test::kRecordedRuns / "llama/curve.json").string()));
  const auto first = [&](const char* name) { return static_cast<float>(curve[0][name].get<double>()); };
  for (const float off : {0.0f, 0.01f}) {
    const RunCopy copy("llama");
    copy.change_tensors("expect.safetensors", [&](SafetensorsParts& parts) {
      add(parts, "loss", first("loss") + off);
      add(parts, "raw_grad_norm", first("raw_grad_norm"));
      add(parts, "router.0.scores", 1);
    });
    const Outcome made = outcome_of({"verify", copy.path()});
    EXPECT_EQ(made.code, off == 0 ? 0 : 1) << made.err;
    EXPECT_THAT(made.out, HasSubstr("not compared: routers' scores and choices (a step does not hand them out): "));
    if (off != 0) {
      EXPECT_THAT(made.out, HasSubstr("step 0, as a tensor"));
    }
  }
}

TEST(VerifyRefuses, TensorsThatNobodyCompares) {
  for (const char* name : {"logit", "grads.embedding", "step0.embedding", "step21.embedding", "grad", "stepX.embedding"}) {
    const RunCopy copy("llama");
    copy.change_tensors("expect.safetensors", [&](SafetensorsParts& parts) {
      parts.header[name] = parts.header["logits"];
      parts.header.erase("logits");
    });
    EXPECT_THAT(refusal(copy), HasSubstr(fmt::format("'{}' is nothing that is compared", name)));
  }
}

TEST(VerifyRefuses, ACurveThatIsTooLongOrOutOfOrder) {
  const RunCopy longer("mixtral-sparse");
  longer.change_json("config.json", [](json& config) { config["set"]["steps"] = 19; });
  EXPECT_THAT(refusal(longer), HasSubstr("/curve.json: 20 steps, config.json says that 19 were run"));
  const RunCopy numbered("mixtral-sparse");
  numbered.change_json("curve.json", [](json& curve) { curve[1]["step"] = 5; });
  EXPECT_THAT(refusal(numbered), HasSubstr("/curve.json: step 5 stands where step 1 was expected"));
  const RunCopy holed("mixtral-sparse");
  holed.change_json("curve.json", [](json& curve) { curve.erase(curve.begin() + 3); });
  EXPECT_THAT(refusal(holed), HasSubstr("step 4 stands where step 3 was expected"));
}

}  // namespace
}  // namespace moesh::train
