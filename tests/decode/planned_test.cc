// What is planned for decoding is what a decoder allocates and runs here.
#include <array>
#include <map>

#include <gmock/gmock.h>

#include "decode/planned.h"
#include "plan/compare.h"
#include "tests/decode/decode_support.h"

namespace moesh::decode {
namespace {

using test::kSmallWidths;
using ::testing::HasSubstr;

struct Laid {
  std::string name, family, request;
};

void PrintTo(const Laid& laid, std::ostream* out) { *out << laid.name; }

session::Session session_of(const std::string& request, session::DecodeStage stage = session::DecodeStage::token) {
  return session::open_to_decode(test::words_of(request), stage);
}

std::string request_of(const Laid& laid) {
  return test::with_whole_key_head(kSmallWidths + test::small_model(laid.family).request + laid.request);
}

std::int64_t held(const PlannedStep& step, forecast::Component component) {
  return step.forecast.memory.of(component);
}

// A decoder with the session's program, made as `moesh decode` makes it.
struct Here {
  explicit Here(const session::Session& session)
      : workers(2),
        decoder(workers),
        program(make_program(session::model_request(session, session.batch.micro_rows), *session.decodes, session.target)),
        ready(decoder.prepare(program)) {}

  // The bytes that a device holds, of parameters or of caches.
  std::int64_t bytes(bool of_parameters) {
    std::int64_t bytes = 0;
    for (const plan::Port& port : ready.run.plan().ports) {
      if (port.kind != plan::Port::Kind::state) continue;
      const bool is_cache = port.name.find("cache/") != std::string::npos;
      const run::Array shard = ready.run.value(port.view).any_shard();
      if (is_cache != of_parameters) bytes += shard.view.count() * size_of(shard.view.dtype);
    }
    return bytes;
  }

  backend::Workers workers;
  Decoder decoder;
  Program program;
  Ready ready;
};

class PlannedDecoding : public ::testing::TestWithParam<Laid> {};

TEST_P(PlannedDecoding, HoldsTheBytesThatADecoderAllocates) {
  for (const session::DecodeStage stage : {session::DecodeStage::token, session::DecodeStage::prompt}) {
    const session::Session session = session_of(request_of(GetParam()) + " max_prefill_predict_length=5", stage);
    const PlannedStep planned = plan_step(session);
    Here here(session);
    EXPECT_EQ(held(planned, forecast::Component::parameters), here.bytes(true));
    EXPECT_EQ(held(planned, forecast::Component::kv_cache), here.bytes(false));
    EXPECT_EQ(planned.forecast.decoding->cache_bytes(), here.bytes(false));
    EXPECT_EQ(held(planned, forecast::Component::other_state), 0);
    EXPECT_EQ(plan::first_difference(planned.plan, here.ready.run.plan()), "");
  }
}

TEST_P(PlannedDecoding, SendsWhatADecoderSends) {
  const session::Session session = session_of(request_of(GetParam()));
  const PlannedStep planned = plan_step(session);
  std::map<std::string, std::int64_t> sent, expected;
  for (const forecast::Sent& one : planned.forecast.collectives)
    expected[planned.plan.instructions[static_cast<std::size_t>(one.instruction)].path + " " + one.kind] += one.what.runs;
  Here here(session);
  train::put_initial_values(here.program.graph, 1, here.decoder.pool(), here.workers,
                            [&](const std::string& path, const run::Array& value) { here.decoder.set_parameter(path, value); });
  const std::int64_t rows = session.batch.micro_rows;
  const std::vector<std::int32_t> zeros(static_cast<std::size_t>(rows), 0), ones(static_cast<std::size_t>(rows), 1);
  here.decoder.keep(here.ready, {zeros, zeros, ones}, {.watch = [&](const plan::Instruction& instruction, const std::vector<run::Placed>&) {
                      for (const forecast::Sent& one : planned.forecast.collectives) {
                        const plan::Instruction& known = planned.plan.instructions[static_cast<std::size_t>(one.instruction)];
                        if (known.path == instruction.path && known.op == instruction.op && known.results == instruction.results)
                          ++sent[instruction.path + " " + one.kind];
                      }
                    }});
  EXPECT_EQ(sent, expected);
  EXPECT_EQ(expected.empty(), session.mesh.devices() == 1);
}

std::vector<Laid> all_laid() {
  std::vector<Laid> all;
  for (const std::string family : {"mixtral", "deepseek3", "deepseek4", "deepseek4_pools"}) {
    const auto add = [&](const std::string& name, const std::string& request) { all.push_back({family + "_" + name, family, request}); };
    add("one", "compile_topology=cpu-1");
    for (const std::string n : {"2", "8"}) {
      const std::string on = "compile_topology=cpu-" + n + " ici_fsdp_parallelism=1 ";
      add("eptp" + n, on + "custom_mesh_and_rule=ep-tp use_ring_of_experts=true ici_expert_parallelism=" + n);
      add("tensor" + n, on + "ici_tensor_parallelism=" + n);
      add("expert" + n, on + "ici_expert_parallelism=" + n);
      add("fsdp" + n, "compile_topology=cpu-" + n + " ici_fsdp_parallelism=" + n);
    }
    add("mixed", "compile_topology=cpu-8 ici_fsdp_parallelism=2 ici_expert_parallelism=2 ici_tensor_parallelism=2 scan_layers=false");
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, PlannedDecoding, ::testing::ValuesIn(all_laid()), [](const auto& test) { return test.param.name; });

std::int64_t copies_of(const std::string& request, const std::string& path) {
  const PlannedStep step = plan_step(session_of(kSmallWidths + request));
  for (const forecast::CacheTensor& tensor : step.forecast.decoding->cache) {
    if (tensor.path == path) return tensor.copies;
  }
  return -1;
}

TEST(PlannedCopies, AreThoseOfHeadsThatDevicesShare) {
  const std::string key = "decoder/layers/self_attention/cache/key";
  const std::string grouped = test::small_model("mixtral").request + "base_num_kv_heads=2 compile_topology=cpu-8 ici_fsdp_parallelism=1 ";
  EXPECT_EQ(copies_of(grouped + "ici_tensor_parallelism=2 ici_expert_parallelism=4", key), 4);
  EXPECT_EQ(copies_of(grouped + "ici_tensor_parallelism=2 ici_autoregressive_parallelism=4 "
                                "logical_axis_rules=[[cache_heads,[tensor]],[kv_heads,[tensor]]]",
                      key),
            4);
  EXPECT_EQ(copies_of(grouped + "ici_tensor_parallelism=8 logical_axis_rules=[[cache_heads,[]],[kv_heads,[]]]", key), 8);
  EXPECT_THAT(test::message_of([&] { copies_of(grouped + "ici_tensor_parallelism=8", key); }),
              HasSubstr("dim 3 ('cache_heads', size 2) does not divide over tensor=8 = 8 shards (rule at configs/base.yml:69)\n"
                        "  fix: choose axis sizes that divide it (ici_tensor_parallelism), or a rule that lays the dim elsewhere "
                        "(logical_axis_rules=[[cache_heads,[]]]: whole)"));
  const std::string latent = test::small_model("deepseek3").request + "compile_topology=cpu-8 ici_fsdp_parallelism=1 ";
  EXPECT_EQ(copies_of(latent + "ici_tensor_parallelism=8", "decoder/moe_layers/self_attention/cache/latent"), 8);
}

// The cache of a row may have room for many more tokens than it has, so whatever else goes over it would take most of a step's time. An
// indexer scores all keys, and attention reads those that it has chosen.
void expect_slots_in_attention_alone(const std::string& family, const std::string& request, session::DecodeStage stage) {
  constexpr std::int64_t kOddSlots = 211;  // no other dim has this size
  const plan::Plan plan = plan_step(session_of(request + fmt::format(" max_target_length={}", kOddSlots), stage)).plan;
  int readers = 0;
  for (const plan::Instruction& instruction : plan.instructions) {
    const auto has_slots = [&](plan::ViewId id) {
      const Shape& shape = plan.view(id).shape;
      return std::any_of(shape.begin(), shape.end(), [](std::int64_t size) {
        const bool is_of_pools = size == kOddSlots / 4 || size == kOddSlots / 5 || size == kOddSlots / 8;
        return is_of_pools || size == kOddSlots || size == kOddSlots + kOddSlots / 4 || size == kOddSlots + kOddSlots / 5 ||
               size == kOddSlots + kOddSlots / 8;
      });
    };
    // Places and segments of pools are found once for all layers, and are of a few bytes each.
    const bool is_of_places = std::all_of(instruction.results.begin(), instruction.results.end(), [&](plan::ViewId id) {
      return plan.view(id).shape.size() == 2 && plan.view(id).dtype == DType::int32 && instruction.path.find('/') == std::string::npos;
    });
    if (instruction.op == graph::Op::windows || (instruction.op == graph::Op::concat && is_of_places)) continue;
    const bool reads = std::any_of(instruction.operands.begin(), instruction.operands.end(), has_slots);
    const bool writes = std::any_of(instruction.results.begin(), instruction.results.end(), has_slots);
    if (instruction.op == graph::Op::attention || instruction.op == graph::Op::chosen_rows) readers += reads ? 1 : 0;
    constexpr std::array kMayGoOverSlots{graph::Op::attention, graph::Op::cache_write, graph::Op::index_scores, graph::Op::choose_keys,
                                         graph::Op::chosen_rows};
    if (std::find(kMayGoOverSlots.begin(), kMayGoOverSlots.end(), instruction.op) != kMayGoOverSlots.end()) continue;
    EXPECT_FALSE(reads || writes) << family << ": " << instruction.path;
  }
  EXPECT_GT(readers, 0) << family;
}

TEST(PlannedSlots, AreReadByAttentionAlone) {
  for (const test::SmallModel& model : test::small_models()) {
    const std::string request = kSmallWidths + model.request + "compile_topology=cpu-1 max_prefill_predict_length=5";
    for (const session::DecodeStage stage : {session::DecodeStage::token, session::DecodeStage::prompt})
      expect_slots_in_attention_alone(model.family, request, stage);
  }
}

// Latent attention projects the queries of few new tokens to the latent space, and those of many leave it to each slot's latent to come to
// the heads.
TEST(PlannedPrompts, ProjectQueriesOrSlotsWhicheverTakesLess) {
  const auto projects_queries = [](std::int64_t tokens, std::int64_t slots) {
    const std::string lengths = fmt::format("max_prefill_predict_length={} max_target_length={}", tokens, slots);
    const std::string model = "model_name=deepseek3-671b override_model_config=true base_num_decoder_layers=1 first_num_dense_layers=1 ";
    const plan::Plan plan = plan_step(session_of(model + "compile_topology=h100-1 " + lengths, session::DecodeStage::prompt)).plan;
    return std::any_of(plan.instructions.begin(), plan.instructions.end(),
                       [](const plan::Instruction& instruction) { return instruction.path.ends_with("wkv_b/to_latent"); });
  };
  EXPECT_TRUE(projects_queries(64, 128));
  EXPECT_TRUE(projects_queries(512, 16384));
  EXPECT_FALSE(projects_queries(64, 64));
  EXPECT_FALSE(projects_queries(1024, 2048));
}

TEST(PlannedPrompts, CountAllTheirTokens) {
  const std::string request = kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-2 max_prefill_predict_length=8 ";
  for (const auto& [stage, tokens] : {std::pair(session::DecodeStage::token, 1.0), std::pair(session::DecodeStage::prompt, 8.0)}) {
    const forecast::Forecast made = plan_step(session_of(request, stage)).forecast;
    EXPECT_NEAR(made.tokens_per_second_per_device * made.seconds, tokens, 1e-9) << "a row on each of two devices";
  }
}

TEST(PlannedWeights, AreInTheTypeOfTheArithmetic) {
  const auto bytes = [](const std::string& types) {
    return held(plan_step(session_of(kSmallWidths + test::small_model("llama2").request + "compile_topology=cpu-1 " + types)),
                forecast::Component::parameters);
  };
  EXPECT_EQ(2 * bytes("dtype=bfloat16 weight_dtype=float32"), bytes("dtype=float32 weight_dtype=float32"));
}

// A model whose weights take 21.7 GiB of a device's 74.4, for which the peak is planned at both sides of the limit.
// `together`: the rows lie on so many devices.
void expect_flip(const std::string& request, std::int64_t together) {
  const std::string model = "model_name=mixtral-8x7b compile_topology=h100-4 ici_fsdp_parallelism=1 " + request;
  const session::Session session = session_of(model + " per_device_batch_size=1");
  const forecast::MostRows most = most_rows(session, plan_step(session).forecast);
  ASSERT_GT(most.rows, 0);
  const auto fits = [&](std::int64_t rows) {
    return plan_step(session_of(fmt::format("{} per_device_batch_size={}", model, static_cast<double>(rows) / 4))).forecast.fits();
  };
  EXPECT_EQ(static_cast<double>(most.rows), 4 * most.per_device_batch_size);
  EXPECT_EQ(most.rows % together, 0);
  EXPECT_TRUE(fits(most.rows)) << request << " " << most.rows;
  EXPECT_FALSE(fits(most.rows + together)) << request << " " << most.rows;
}

TEST(MostRows, AreTheLastThatFit) {
  expect_flip("ici_tensor_parallelism=4 max_target_length=4096", 1);
  expect_flip("ici_expert_parallelism=4 max_target_length=4096", 4);
  expect_flip("ici_tensor_parallelism=2 ici_expert_parallelism=2 max_target_length=4096", 2);
  expect_flip("ici_tensor_parallelism=4 max_target_length=250000", 1);
  expect_flip("ici_tensor_parallelism=4 max_target_length=700000", 1);
}

TEST(MostRows, AreNoneIfTheWeightsAloneAreTooLarge) {
  const session::Session session = session_of("model_name=mixtral-8x7b compile_topology=h100-1 per_device_batch_size=1");
  EXPECT_EQ(most_rows(session, plan_step(session).forecast).rows, 0);
}

}  // namespace
}  // namespace moesh::decode
