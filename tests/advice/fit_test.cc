// Checks whether a training step fits in memory, and that each change offered for a step that does not fit was planned and does fit.
#include "advice/fit.h"

#include <gmock/gmock.h>

#include "advice/factorings.h"
#include "tests/support.h"

namespace moesh::advice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Remedies remedies(const std::string& request) {
  const std::vector<std::string> words = test::words_of(request);
  const Planned planned = plan_step(words);
  EXPECT_FALSE(planned.step.forecast.fits()) << request;
  return remedies_of(words, planned.session, planned.step.forecast);
}

const Offer* find(const Remedies& remedies, const Keys& keys) {
  for (const Offer& offer : remedies.offers) {
    if (offer.keys == keys) return &offer;
  }
  return nullptr;
}

// Ten layouts that do not fit: dense models and mixtures of experts, on chips with little and with much memory.
const std::vector<std::string> kTooLarge{
    "model_name=llama2-7b compile_topology=v5e-8",
    "model_name=llama3-8b compile_topology=v5e-4",
    "model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1",
    "model_name=llama2-70b compile_topology=v6e-64 remat_policy=minimal",
    "model_name=llama3-70b compile_topology=h100-64 per_device_batch_size=4 max_target_length=8192 remat_policy=minimal",
    "model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 ici_fsdp_parallelism=2",
    "model_name=mixtral-8x7b compile_topology=v5p-16 ici_fsdp_parallelism=2 ici_expert_parallelism=4 per_device_batch_size=4",
    "model_name=mixtral-8x7b compile_topology=h100-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1 per_device_batch_size=1",
    "model_name=deepseek2-16b compile_topology=h100-8 per_device_batch_size=8 max_target_length=4096 remat_policy=minimal",
    "model_name=deepseek3-671b compile_topology=v5p-512 ici_fsdp_parallelism=32 ici_expert_parallelism=8",
};

void expect_offers_hold(const std::string& request, const Remedies& found) {
  EXPECT_FALSE(found.offers.empty());
  for (const Offer& offer : found.offers) {
    const std::optional<Planned> pasted = try_keys(test::words_of(request), offer.keys);
    ASSERT_TRUE(pasted) << ::testing::PrintToString(offer.keys);
    EXPECT_TRUE(pasted->step.forecast.fits()) << ::testing::PrintToString(offer.keys);
    EXPECT_EQ(pasted->step.forecast.memory.peak, offer.peak);
    EXPECT_EQ(pasted->step.forecast.seconds, offer.seconds);
  }
}

// Offers that keep devices and tokens come before offers that reduce tokens, and these before offers that add devices.
void expect_order(const std::string& request, const Remedies& found) {
  const Offer before = offer_of({}, plan_step(test::words_of(request)));
  const auto price = [&](const Offer& offer) { return offer.devices > before.devices ? 2 : offer.tokens < before.tokens ? 1 : 0; };
  EXPECT_TRUE(std::is_sorted(found.offers.begin(), found.offers.end(),
                             [&](const Offer& a, const Offer& b) { return price(a) < price(b); }));
  EXPECT_EQ(found.fits_here, !found.offers.empty() && price(found.offers.front()) < 2);
  if (!found.nearest) return;
  EXPECT_FALSE(found.fits_here);
  EXPECT_LT(found.nearest->peak, before.peak);
  EXPECT_GT(found.nearest->peak, found.nearest->usable);
}

TEST(FitSlow, OffersWhatThePlannerSaysFitsForEachOfTenLayouts) {
  for (const std::string& request : kTooLarge) {
    SCOPED_TRACE(request);
    const Remedies found = remedies(request);
    expect_offers_hold(request, found);
    expect_order(request, found);
  }
}

TEST(Fit, OffersToShardAReplicatedModel) {
  const Remedies found = remedies("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1");
  EXPECT_NE(find(found, {"ici_data_parallelism=1", "ici_fsdp_parallelism=8"}), nullptr);
}

// Layers that are not scanned keep more memory alive at a time than layers in a loop.
TEST(Fit, NamesTheNearestWhereNothingFits) {
  const Remedies found = remedies("model_name=deepseek3-671b compile_topology=v5e-4 per_device_batch_size=1 max_target_length=512");
  EXPECT_TRUE(found.offers.empty());
  ASSERT_TRUE(found.nearest);
  EXPECT_THAT(to_text(found, 0), HasSubstr("changes makes it fit on as many devices; the nearest comes "));
}

TEST(Fit, SaysOfWhatThePeakIsMade) {
  const session::Session tight = test::session("model_name=mixtral-8x7b compile_topology=v6e-8 ici_expert_parallelism=4 ici_fsdp_parallelism=2");
  const std::string words = fit_words(tight);
  EXPECT_THAT(words, HasSubstr("It does not fit: a training step takes "));
  EXPECT_THAT(words, HasSubstr("state 65.2 GiB, gradients 21.7 GiB, saved activations "));
  EXPECT_THAT(words, HasSubstr("; 31.2 GiB are there, "));
  EXPECT_THAT(fit_words(test::session("model_name=llama2-7b compile_topology=v6e-8")), HasSubstr("it fits, "));
}

// Without compile_topology the devices are emulated by one machine and share its memory, so the memory of a generic core decides nothing.
TEST(Fit, JudgesNoMachineThatNobodyAskedFor) {
  const std::string words = fit_words(test::session("model_name=llama2-7b"));
  EXPECT_THAT(words, HasSubstr("compile_topology= tells whether a machine has it."));
  EXPECT_THAT(words, Not(HasSubstr("fit:")));
}

TEST(Fit, SaysWhyNoStepIsPlanned) {
  EXPECT_THAT(fit_words(test::session("model_name=llama2-7b compile_topology=v6e-8 ici_pipeline_parallelism=2")),
              HasSubstr("No training step is planned: "));
}

// A large model with unscanned layers takes long to plan: `fit` does not plan it unasked, and the search for changes tries fewer of them.
TEST(Fit, PlansNoLargeModelAlongTheWay) {
  const std::string large = "model_name=deepseek3-671b compile_topology=v5p-512 ici_fsdp_parallelism=32 ici_expert_parallelism=8 scan_layers=";
  const session::Session apart = test::session(large + "false");
  EXPECT_THAT(fit_words(apart), HasSubstr("With so many layers apart planning takes a while: `moesh compile` tells"));
  EXPECT_LT(most_trials(apart), 20);
  EXPECT_GT(most_trials(test::session(large + "true")), 80);
  for (const char* model : {"gemma3-4b", "gpt-oss-20b", "llama4-17b-16e"})
    EXPECT_TRUE(plans_at_once(test::session(std::string("model_name=") + model))) << model;
}

TEST(Factorings, DivideTheSliceEvenlyAndOrderByState) {
  const session::Session session = test::session("model_name=mixtral-8x7b compile_topology=v6e-64 ici_expert_parallelism=4");
  const std::vector<Factoring> found = factorings(session);
  ASSERT_GT(found.size(), 10u);
  for (const Factoring& one : found) {
    EXPECT_EQ(one.mesh.devices(), 64);
    EXPECT_EQ(8 % one.mesh.size_of("expert"), 0) << "eight experts";
    EXPECT_FALSE(mesh::keys_between(session.mesh, one.mesh).empty()) << "another mesh than the request's";
  }
  EXPECT_LE(found.front().state_bytes, found.back().state_bytes);
}

// The state bytes listed for a factoring equal those of the layout that its keys produce.
TEST(Factorings, KnowTheStateOfTheLayoutThatTheyMake) {
  const std::string request = "model_name=llama2-7b compile_topology=v6e-16";
  const session::Session session = test::session(request);
  for (const Factoring& one : factorings(session)) {
    const session::Session made = test::session(request + " " + join(mesh::keys_between(session.mesh, one.mesh), " "));
    std::int64_t state = 0;
    for (const auto* tensors : {&made.layout.parameters, &made.layout.moments}) {
      for (const sharding::LaidTensor& tensor : *tensors) state += bytes_per_device(tensor, made.mesh);
    }
    EXPECT_EQ(state, one.state_bytes) << session::headline(made);
  }
}

// Only on one device: several devices must add up all gradients before any of them is applied.
TEST(Fit, OffersToMakeGradientsAgainWhereAllOfThemAreKept) {
  const std::string request =
      "model_name=qwen3-0.6b dtype=bfloat16 per_device_batch_size=1 max_target_length=256 remat_policy= remat_gradients=false ";
  EXPECT_NE(find(remedies(request + "compile_topology=cpu-1"), {"remat_gradients=true"}), nullptr);
  const Remedies of_several = remedies(request + "compile_topology=cpu-2 ici_data_parallelism=2 ici_fsdp_parallelism=1");
  EXPECT_EQ(find(of_several, {"remat_gradients=true"}), nullptr);
}

}  // namespace
}  // namespace moesh::advice
