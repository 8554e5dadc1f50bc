// Whole commands on Hugging Face folders: verifying them, training from them, and converting them in both directions.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/hugging_face_weights.h"
#include "store/hugging_face_writer.h"
#include "store/parts.h"
#include "tests/cli/hugging_face_support.h"
#include "tests/cli/outcome.h"
#include "tests/paths.h"
#include "tests/python.h"
#include "tests/store/safetensors_support.h"

namespace moesh::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> models_in(const std::string& folder) {
  std::vector<std::string> models;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (fs::exists(entry.path() / "expect.safetensors")) models.push_back(entry.path().string());
  }
  return models;
}

const std::vector<std::string> kRecordedModels = models_in(test::source_folder() / "tests/golden/hf");

// Those, and the models in the folder MOESH_HF_MODELS if it is set.
std::vector<std::string> all_models() {
  std::vector<std::string> models = kRecordedModels;
  if (const char* more = std::getenv("MOESH_HF_MODELS")) {
    for (const std::string& model : models_in(more)) models.push_back(model);
  }
  return models;
}

// A copy of a model folder whose files a test may change.
class Copy {
 public:
  explicit Copy(const std::string& from) {
    fs::copy(from, path(), fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  }
  std::string path() const { return folder_.path(); }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  void change(const std::string& name, const std::string& from, const std::string& to) const {
    std::string text = test::read_text(file(name));
    const std::size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    folder_.write(name, text.replace(at, from.size(), to));
  }

 private:
  test::TemporaryFolder folder_;
};

std::string verified(const std::string& words) {
  const Outcome done = outcome("verify " + words);
  return done.code == 0 ? "" : words + "\n" + done.out + done.err;
}

TEST(HuggingFaceVerify, RecordedModelsAreFoundFromEitherConfig) {
  for (const std::string& model : kRecordedModels) {
    EXPECT_EQ(verified(model), "");
    EXPECT_EQ(verified(model + "/config.hub.json"), "");
  }
}

TEST(HuggingFaceVerify, RecordedModelsAreFoundOnMeshes) {
  for (const std::string& model : kRecordedModels) {
    EXPECT_EQ(verified(model + " ici_fsdp_parallelism=2"), "");
    EXPECT_EQ(verified(model + " ici_fsdp_parallelism=2 ici_expert_parallelism=4"), "");
    EXPECT_EQ(verified(model + " ici_tensor_parallelism=2 scan_layers=false"), "");
    EXPECT_EQ(verified(model + " ici_fsdp_parallelism=4 ici_expert_parallelism=2 custom_mesh_and_rule=ep-tp"), "");
  }
}

TEST(HuggingFaceVerify, ALayoutThatOnlyTrainsIsHeldToTheRest) {
  const Outcome done = outcome("verify " + kGptOss + " ici_context_parallelism=2");
  EXPECT_EQ(done.code, 0) << done.out << done.err;
  EXPECT_THAT(done.out, HasSubstr("not compared: tokens that prompts are gone on with (this layout does not decode: "));
}

// As in MaxText, the scale is folded into the query kernel, which is smaller, and the scores are not scaled.
TEST(HuggingFaceVerify, WeightsAreScaledForAModelThatDoesNotScaleItsQueries) {
  EXPECT_EQ(verified(kLlama + " attention_score_scale=-1 override_model_config=true"), "");
}

// A recorded text model, stored as the text part of a model that also sees images.
class Seeing {
 public:
  Seeing(const std::string& text, const std::string& type, const std::string& architecture, const std::string& beginning) {
    for (const char* name : {"expect.json", "expect.safetensors"}) fs::copy(text + "/" + name, path());
    for (const char* name : {"config.json", "config.hub.json"}) {
      folder_.write(name, "{\"model_type\": \"" + type + "\", \"architectures\": [\"" + architecture +
                              "\"], \"vision_config\": {\"hidden_size\": 4}, \"text_config\": " + test::read_text(text + "/" + name) + "}");
    }
    const store::HuggingFaceWeights weights(text);
    std::vector<store::WrittenTensor> written;
    for (const auto& [name, shape] : weights.shapes()) {
      const bool is_newer = beginning == "model.language_model.", is_head = name.starts_with("lm_head.");
      const std::string rest = is_head ? name : name.substr(std::string("model.").size());
      written.push_back({is_head ? (is_newer ? "" : "language_model.") + rest : beginning + rest, weights.type(name), shape});
    }
    const std::size_t of_text = written.size();
    written.push_back({"vision_tower.patch.weight", {DType::float32}, {4, 4}});
    written.push_back({"multi_modal_projector.linear.weight", {DType::bfloat16}, {4, 2}});
    const std::vector<std::byte> nothing(64);
    auto next = weights.shapes().begin();
    store::write_weights(path(), written, [&](std::size_t index) {
      return index < of_text ? static_cast<const std::byte*>(weights.read((next++)->first).data) : nothing.data();
    });
  }
  std::string path() const { return folder_.path(); }
  const test::TemporaryFolder& folder() const { return folder_; }

 private:
  test::TemporaryFolder folder_;
};

const std::string kLeftOut = "2 tensors of multi_modal_projector and vision_tower, 80 B";

TEST(HuggingFaceVerify, RecordedTextIsFoundInModelsThatSeeImages) {
  for (const char* beginning : {"language_model.model.", "model.language_model."}) {
    const Seeing gemma(kGemma, "gemma3", "Gemma3ForConditionalGeneration", beginning);
    const Seeing llama(kLlama4, "llama4", "Llama4ForConditionalGeneration", beginning);
    const Seeing gemma4(kGemma4, "gemma4", "Gemma4ForConditionalGeneration", beginning);
    for (const Seeing* model : {&gemma, &llama, &gemma4}) {
      EXPECT_EQ(verified(model->path()), "");
      EXPECT_EQ(verified(model->path() + "/config.hub.json"), "");
      EXPECT_EQ(verified(model->path() + " ici_fsdp_parallelism=2"), "");
      EXPECT_THAT(outcome("verify " + model->path()).out, HasSubstr("not compared: " + kLeftOut + " (only text is read)"));
    }
  }
}

TEST(HuggingFaceConvert, OfAModelThatSeesImagesTheTextIsWritten) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const Seeing gemma(kGemma, "gemma3", "Gemma3ForConditionalGeneration", "language_model.model.");
  const Outcome there = outcome("convert " + gemma.path() + " there");
  EXPECT_EQ(there.err, "");
  EXPECT_THAT(there.out, HasSubstr("left out: " + kLeftOut + "\n"));
  EXPECT_THAT(there.out, Not(HasSubstr("written as")));
  EXPECT_EQ(outcome("convert there back").err, "");
  EXPECT_EQ(tensors_of("back"), tensors_of(kGemma));
  EXPECT_THAT(test::read_text("back/config.json"), HasSubstr("Gemma3ForCausalLM"));
  const Outcome again = outcome("convert " + gemma.path() + " again --to hugging-face");
  EXPECT_THAT(again.out, HasSubstr("left out: " + kLeftOut + "\nwritten as a model of text alone: Gemma3ForCausalLM\n"));
  EXPECT_EQ(tensors_of("again"), tensors_of(kGemma));
  for (const char* name : {"expect.json", "expect.safetensors"}) fs::copy(kGemma + "/" + name, "again", fs::copy_options::overwrite_existing);
  EXPECT_EQ(verified("again"), "");
}

TEST(HuggingFaceTrain, SaysWhichTensorsAreOfImages) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const Seeing llama(kLlama4, "llama4", "Llama4ForConditionalGeneration", "language_model.model.");
  const Outcome done = outcome("train model_name=" + llama.path() + " load_parameters_path=" + llama.path() +
                               " steps=1 per_device_batch_size=1 max_target_length=16 compile_topology=cpu-1 dataset_type=synthetic");
  EXPECT_THAT(done.out, HasSubstr(" tensors (" + kLeftOut + " left out) read in "));
}

// The folders are written by transformers, which also computes the expected numbers.
TEST(HuggingFaceVerifySlow, ModelsThatSeeImagesAreFoundAsTheirLibraryHasThem) {
  const std::optional<std::string> python = test::python_with("torch, transformers");
  if (!python) GTEST_SKIP() << "no Python with torch, transformers: MOESH_PYTHON names one";
  for (const char* kind : {"llama4", "gemma3", "gemma4", "qwen3_5_moe"}) {
    for (const char* dtype : {"float32", "bfloat16", "float16"}) {
      const test::TemporaryFolder folder;
      const test::WorkingFolder here(folder.path());
      const std::string script = test::source_folder() / "tests/cli/seeing_model.py";
      ASSERT_EQ(std::system((*python + " " + script + " " + kind + " . " + dtype + " >said 2>errors").c_str()), 0) << test::read_text("errors");
      EXPECT_EQ(verified("."), "") << kind << " " << dtype;
      EXPECT_THAT(outcome("verify .").out, HasSubstr("(only text is read)"));
    }
  }
}

TEST(HuggingFaceVerifySlow, AllRecordedModelsAreFound) {
  for (const std::string& model : all_models()) {
    for (const char* config : {"", "/config.hub.json"}) EXPECT_EQ(verified(model + config), "");
    for (const char* mesh : {" ici_fsdp_parallelism=2", " ici_fsdp_parallelism=2 ici_expert_parallelism=4"}) EXPECT_EQ(verified(model + mesh), "");
  }
}

TEST(HuggingFaceVerify, LogitsMayDifferAsWaysThroughTheLibraryDo) {
  const Copy copy(kLlama);
  copy.change("expect.json", "\"noise\": {", "\"noise\": {\n  \"another way\": 0.25,");
  EXPECT_THAT(outcome("verify " + copy.path() + " --json").out, HasSubstr("\"tolerance\": 1.25"));
  EXPECT_THAT(outcome("verify " + kLlama + " --json").out, Not(HasSubstr("\"tolerance\": 1.25")));
}

TEST(HuggingFaceVerify, SaysWhatIsOff) {
  const Outcome off = outcome("verify --json " + kLlama + " rope_max_timescale=500 override_model_config=true");
  EXPECT_EQ(off.code, 1);
  EXPECT_THAT(off.out, HasSubstr("\"quantity\": \"tokens that differ\""));
  EXPECT_THAT(outcome("verify " + kGptOss).out,
              HasSubstr("not compared: routers' scores (a step does not hand them out)"));
}

TEST(HuggingFaceVerify, RefusesWhatWasNotRecordedOfThisModel) {
  const Copy copy(kGptOss);
  EXPECT_THAT(outcome("verify " + copy.path() + " per_device_batch_size=3").err,
              HasSubstr("3 rows of 2 that were recorded"));
  copy.change("expect.json", "grad_norms", "norms");
  EXPECT_THAT(outcome("verify " + copy.path()).err, HasSubstr("'grad_norms' is missing"));
  copy.change("expect.json", "norms", "grad_norms");
  copy.change("expect.json", "model.layers.0.self_attn.sinks", "model.layers.0.self_attn.drains");
  EXPECT_THAT(outcome("verify " + copy.path()).err,
              HasSubstr("a gradient of it was recorded, the model has no such weight"));
  fs::remove(copy.file("expect.safetensors"));
  EXPECT_THAT(outcome("verify " + copy.path()).err,
              HasSubstr("expect.safetensors: the safetensors file cannot be read: No such file or directory"));
}

// Edits the header in place. The length stays the same, so that the bytes of all tensors stay where they are.
void rename_recorded(const Copy& copy, const std::string& from, const std::string& to) {
  ASSERT_EQ(from.size(), to.size());
  copy.change("expect.safetensors", from, to);
}

TEST(HuggingFaceVerify, RefusesNumbersOfOtherShapes) {
  const Copy shapes(kGptOss);
  rename_recorded(shapes, "\"input_ids\":{\"dtype\":\"I64\",\"shape\":[2,24]",
                  "\"input_ids\":{\"dtype\":\"I64\",\"shape\":[1,48]");
  EXPECT_NE(outcome("verify " + shapes.path()).code, 0);
  const Copy flat(kGptOss);
  rename_recorded(flat, "\"input_ids\":{\"dtype\":\"I64\",\"shape\":[2,24]",
                  "\"input_ids\":{\"dtype\":\"I64\",\"shape\":[48]  ");
  EXPECT_THAT(outcome("verify " + flat.path()).err, HasSubstr("input_ids are [48], rows of tokens were expected"));
  const Copy gradients(kGptOss);
  rename_recorded(gradients, "\"grad.model.layers.1.mlp.router.weight\":{\"dtype\":\"F32\",\"shape\":[4,96]",
                  "\"grad.model.layers.1.mlp.router.weight\":{\"dtype\":\"F32\",\"shape\":[96,4]");
  EXPECT_THAT(outcome("verify " + gradients.path()).err, HasSubstr("its gradient was recorded in another shape"));
  const Copy routers(kGptOss);
  rename_recorded(routers, "router_experts.1", "router_exports.1");
  EXPECT_THAT(outcome("verify " + routers.path()).err, HasSubstr("choices of 1 router were recorded, the model has 2"));
}

std::string first_loss(const std::string& words) {
  const Outcome done =
      outcome("train " + words +
              " steps=1 dtype=float32 per_device_batch_size=1 max_target_length=16 compile_topology=cpu-1 "
              "dataset_type=synthetic");
  std::smatch found;
  return std::regex_search(done.out, found, std::regex(R"( loss: ([0-9.]+))")) ? std::string(found[1])
                                                                               : done.out + done.err;
}

TEST(HuggingFaceTrain, BeginsWithTheWeightsOfAFolderOrOfWhatItIsConvertedTo) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  const std::string loss = first_loss("model_name=" + kGptOss + " load_parameters_path=" + kGptOss);
  EXPECT_NE(loss, first_loss("model_name=" + kGptOss));
  EXPECT_EQ(outcome("convert " + kGptOss + " kept").code, 0);
  EXPECT_EQ(first_loss("model_name=" + kGptOss + " load_parameters_path=kept"), loss);
  EXPECT_EQ(first_loss("model_name=" + kGptOss + " load_parameters_path=kept scan_layers=false"), loss);
  EXPECT_THAT(outcome("checkpoint check kept").out, HasSubstr("whole"));
}

TEST(HuggingFaceTrain, RefusesWeightsOfAnotherModel) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  EXPECT_THAT(first_loss("model_name=" + kGptOss + " load_parameters_path=" + kLlama), HasSubstr("the weights lack "));
}

TEST(HuggingFaceConvert, ThereAndBackIsTheSameInEveryByte) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  for (const std::string& model : kRecordedModels) {
    for (const char* stacks : {"true", "false"}) {
      EXPECT_EQ(outcome("convert " + model + " there scan_layers=" + stacks).err, "");
      EXPECT_EQ(outcome("convert there back").err, "");
      EXPECT_EQ(tensors_of("back"), tensors_of(model));
      EXPECT_TRUE(fs::exists("back/config.json"));
      fs::remove_all("there");
      fs::remove_all("back");
    }
  }
}

TEST(HuggingFaceConvertSlow, TransformersLoadsWhatIsWrittenAndComputesTheSame) {
  const std::optional<std::string> python = test::python_with("torch, transformers");
  if (!python) GTEST_SKIP() << "no Python with torch, transformers: MOESH_PYTHON names one";
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  for (const std::string& model : kRecordedModels) {
    EXPECT_EQ(outcome("convert " + model + " there").err, "");
    EXPECT_EQ(outcome("convert there back").err, "");
    const std::string script = test::source_folder() / "tests/cli/same_logits.py";
    EXPECT_EQ(std::system((*python + " " + script + " " + model + " back >said 2>errors").c_str()), 0) << model << test::read_text("errors");
    EXPECT_THAT(test::read_text("said"), ::testing::StartsWith("0 of ")) << model;
    fs::remove_all("there");
    fs::remove_all("back");
  }
}

struct Family {
  std::string name, request;
};

const std::string kSmallDelta =
    " base_num_decoder_layers=4 num_experts=8 num_experts_per_tok=2 gdn_num_key_heads=2 gdn_num_value_heads=6 gdn_key_head_dim=8 "
    "gdn_value_head_dim=12 shared_expert_mlp_dim=24";
const std::vector<Family> kFamilies{
    {"llama2", "model_name=llama2-7b base_num_decoder_layers=2"},
    {"llama3.1", "model_name=llama3.1-8b base_num_decoder_layers=2"},
    {"mixtral", "model_name=mixtral-8x7b base_mlp_dim=32 base_num_decoder_layers=2 num_experts=4"},
    {"deepseek2",
     "model_name=deepseek2-16b base_num_decoder_layers=3 q_lora_rank=0 kv_lora_rank=16 qk_nope_head_dim=16 "
     "qk_rope_head_dim=8 v_head_dim=16 num_experts=8 num_experts_per_tok=2"},
    {"deepseek3",
     "model_name=deepseek3-tiny base_num_decoder_layers=3 first_num_dense_layers=1 q_lora_rank=32 kv_lora_rank=16 "
     "qk_nope_head_dim=16 qk_rope_head_dim=8 v_head_dim=16 num_experts=16 num_experts_per_tok=4 n_routing_groups=4 "
     "topk_routing_group=2"},
    {"qwen3_moe", "model_name=qwen3-30b-a3b base_num_decoder_layers=2 num_experts=8 num_experts_per_tok=3"},
    {"qwen3_next", "model_name=qwen3-next-80b-a3b" + kSmallDelta},
    {"qwen3_5", "model_name=qwen3.5-35b-a3b" + kSmallDelta},
    {"gpt_oss",
     "model_name=gpt-oss-20b base_num_decoder_layers=4 num_experts=8 num_experts_per_tok=2 sliding_window_size=8"},
};

const std::string kSmallOwn =
    " weight_dtype=float32 override_model_config=true base_emb_dim=64 base_num_query_heads=8 base_num_kv_heads=8 "
    "head_dim=16 "
    "base_mlp_dim=64 base_moe_mlp_dim=32 vocab_size=128 ";

// A model that was trained under MaxText's conventions and converted to a Hugging Face folder is the same
// model, so it has the same first loss.
TEST(HuggingFaceConvert, WhatIsTrainedHereIsTheSameModelThere) {
  for (const Family& family : kFamilies) {
    const test::TemporaryFolder folder;
    const test::WorkingFolder here(folder.path());
    const std::string small = family.request + kSmallOwn + (family.name == "mixtral" ? "base_mlp_dim=32 " : "");
    first_loss(small + " enable_checkpointing=true run_name=a learning_rate=0.01");
    const Outcome converted = outcome("convert moesh_output/a there");
    EXPECT_EQ(converted.err, "") << family.name;
    const std::string loss = first_loss(small + " load_parameters_path=moesh_output/a");
    EXPECT_THAT(loss, Not(HasSubstr("error"))) << family.name;
    EXPECT_EQ(first_loss("model_name=there load_parameters_path=there"), loss) << family.name;
    EXPECT_EQ(first_loss(small + " load_parameters_path=there"), loss) << family.name;
  }
}

TEST(HuggingFaceConvert, NumbersBecomeThoseThatAreAskedFor) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  EXPECT_EQ(outcome("convert " + kGptOss + " wide --to hugging-face --dtype float32").err, "");
  EXPECT_THAT(test::read_text("wide/config.json"), HasSubstr("\"dtype\": \"float32\""));
  EXPECT_EQ(store::HuggingFaceWeights("wide").type("model.norm.weight"), store::StoredType{DType::float32});
  EXPECT_EQ(outcome("convert wide there").err, "");
  EXPECT_EQ(outcome("convert there back --dtype bfloat16").err, "");
  EXPECT_EQ(tensors_of("back"), tensors_of(kGptOss));
}

// The recorded llama with a matrix [160, 64] of 8-bit ones, and one scale for its first 96 rows and one for the others. Blocks of the usual
// size would have scales of the same shape.
TEST(HuggingFaceConvert, EightBitNumbersAreScaledByTheBlocksThatTheConfigSays) {
  const std::string matrix = "model.layers.0.mlp.up_proj.weight";
  const Copy copy(kLlama);
  std::string header, data;
  const auto add = [&](const std::string& name, std::string_view type, const Shape& shape, const std::string& bytes) {
    header += fmt::format(R"({}"{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", header.empty() ? "" : ",", name, type,
                          to_string(shape), data.size(), data.size() + bytes.size());
    data += bytes;
  };
  const store::TensorFile recorded = store::read_safetensors(kLlama + "/model.safetensors");
  for (const auto& [name, stored] : recorded.tensors) {
    const std::string bytes(reinterpret_cast<const char*>(stored.data), static_cast<std::size_t>(stored.bytes));
    if (name != matrix) add(name, store::safetensors_name(stored.type), stored.shape, bytes);
  }
  add(matrix, "F8_E4M3", {160, 64}, std::string(160 * 64, static_cast<char>(0x38)));
  add(matrix + "_scale_inv", "F32", {2, 1}, test::bytes_of<float>({2, 3}));
  std::ofstream(copy.file("model.safetensors"), std::ios::binary) << test::safetensors("{" + header + "}", data);
  copy.change("config.json", "{", R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [96, 64]},)");
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  EXPECT_EQ(outcome("convert " + copy.path() + " there --to hugging-face --dtype float32").err, "");
  EXPECT_THAT(test::read_text("there/config.json"), Not(HasSubstr("quantization_config")));
  const store::HuggingFaceWeights written("there");
  const store::Numbers numbers = written.read(matrix);
  const auto* values = reinterpret_cast<const float*>(numbers.data);
  for (const int row : {0, 95, 96, 127, 128, 159}) EXPECT_EQ(values[row * 64 + 63], row < 96 ? 2 : 3) << row;
  copy.change("config.json", "[96, 64]", "[64, 64]");
  EXPECT_THAT(outcome("convert " + copy.path() + " again --to hugging-face").err,
              HasSubstr(matrix + ": 8-bit numbers [160, 64] without a scale for each 64 x 64 of them, but [2, 1]"));
}

TEST(HuggingFaceConvert, LeavesNothingHalfWritten) {
  const Copy copy(kLlama);
  std::string text = test::read_text(copy.file("model.safetensors"));
  text.replace(text.size() - 4, 4, std::string("\0\0\xC0\x7F", 4));
  std::ofstream(copy.file("model.safetensors"), std::ios::binary) << text;
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  EXPECT_THAT(outcome("convert " + copy.path() + " there").err, HasSubstr("it holds what is no number"));
  EXPECT_THAT(outcome("convert " + copy.path() + " there --to hugging-face").err,
              HasSubstr("it holds what is no number"));
  EXPECT_TRUE(fs::is_empty(folder.path()));
}

TEST(HuggingFaceConvert, RefusesWhatItCannotDo) {
  const test::TemporaryFolder folder;
  const test::WorkingFolder here(folder.path());
  EXPECT_THAT(outcome("convert " + kLlama).err, HasSubstr("1 path, FROM and TO were expected"));
  EXPECT_THAT(outcome("convert " + kLlama + " there --dtype int32").err,
              HasSubstr("--dtype int32, float32 or bfloat16 was expected"));
  EXPECT_THAT(outcome("convert " + kLlama + " there --to gguf").err,
              HasSubstr("--to gguf, checkpoint or hugging-face was expected"));
  EXPECT_EQ(outcome("convert " + kLlama + " there").code, 0);
  EXPECT_THAT(outcome("convert " + kLlama + " there").err, HasSubstr("there: it is there already"));
  EXPECT_THAT(outcome("convert there again --to checkpoint").err, HasSubstr("a checkpoint from a checkpoint"));
  EXPECT_THAT(outcome("convert there again scan_layers=false").err,
              HasSubstr("'scan_layers=false' changes nothing of what is written"));
  EXPECT_THAT(outcome("convert nowhere again").err, HasSubstr("no checkpoint is there"));
}

}  // namespace
}  // namespace moesh::cli
