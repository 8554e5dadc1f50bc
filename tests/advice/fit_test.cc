// Checks whether a training step fits in memory, and that each change offered for a step that does not fit was planned and does fit.
#include "advice/fit.h"
#include "advice/remedies.h"

#include <algorithm>

#include <fmt/core.h>
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

// Offers that keep devices, tokens and numbers come before offers that reduce tokens, these before other numbers, and these before offers
// that add devices; narrow ones come after all of them. None is beaten by one before it.
void expect_order(const std::string& request, const Remedies& found) {
  const Offer before = offer_of({}, plan_step(test::words_of(request)));
  const auto price = [&](const Offer& offer) {
    return offer.devices > before.devices ? 3 : offer.rounds ? 2 : offer.tokens < before.tokens ? 1 : 0;
  };
  const auto rank = [&](const Offer& offer) { return std::make_pair(offer.is_narrow, price(offer)); };
  EXPECT_TRUE(std::is_sorted(found.offers.begin(), found.offers.end(), [&](const Offer& a, const Offer& b) { return rank(a) < rank(b); }));
  EXPECT_EQ(found.fits_here, std::any_of(found.offers.begin(), found.offers.end(), [&](const Offer& offer) { return price(offer) < 3; }));
  for (std::size_t b = 1; b < found.offers.size(); ++b) {
    for (std::size_t a = 0; a < b; ++a) {
      const Offer &first = found.offers[a], &second = found.offers[b];
      EXPECT_TRUE(price(first) > price(second) || first.peak > second.peak ||
                  first.tokens_per_second_per_device < second.tokens_per_second_per_device || first.tokens < second.tokens)
          << ::testing::PrintToString(second.keys);
    }
  }
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

// A request and a change of it that makes it fit on as many devices, with as many tokens a step.
TEST(Fit, FindsWhatKeepsDevicesAndTokens) {
  for (const auto& [request, keys] : std::vector<std::pair<std::string, Keys>>{
           {"model_name=llama2-70b compile_topology=h100-8 compile_topology_num_slices=4 per_device_batch_size=1 max_target_length=4096",
            {"dcn_data_parallelism=1", "dcn_fsdp_parallelism=4"}},
           {"model_name=mixtral-8x22b compile_topology=h100-8 compile_topology_num_slices=16 per_device_batch_size=1",
            {"dcn_data_parallelism=1", "dcn_fsdp_parallelism=16"}}}) {
    SCOPED_TRACE(request);
    const Offer before = offer_of({}, plan_step(test::words_of(request))),
                known = offer_of(keys, plan_step(joined(test::words_of(request), keys)));
    ASSERT_FALSE(before.fits());
    ASSERT_TRUE(known.fits_well());
    const Remedies found = remedies(request);
    ASSERT_FALSE(found.offers.empty());
    const Offer& best = found.offers.front();
    EXPECT_TRUE(best.fits_well() && best.devices == before.devices && best.tokens == before.tokens);
    EXPECT_GE(best.tokens_per_second_per_device, 0.99 * known.tokens_per_second_per_device) << ::testing::PrintToString(best.keys);
  }
}

// XLA's step would hold a pass's gradients besides their sum.
TEST(Fit, GivesRoomByFewerPasses) {
  const std::vector<std::string> request =
      test::words_of("model_name=llama2-7b compile_topology=v5e-8 per_device_batch_size=1 gradient_accumulation_steps=2 max_target_length=1024");
  const Planned planned = plan_step(request);
  ASSERT_TRUE(planned.step.forecast.fits_narrowly());
  const Remedies found = remedies_of(request, planned.session, planned.step.forecast);
  const Offer* offer = find(found, {"per_device_batch_size=2", "gradient_accumulation_steps=1"});
  ASSERT_NE(offer, nullptr);
  EXPECT_TRUE(offer->fits_well());
}

// If a larger machine is needed, the step keeps its rows, or a device does; it never gets more than both.
TEST(Fit, NamesAMachineForTheSameBatch) {
  const std::string request =
      "model_name=llama3.1-405b compile_topology=v4-256 ici_tensor_parallelism=8 per_device_batch_size=1 max_target_length=4096";
  const Remedies found = remedies(request);
  ASSERT_FALSE(found.offers.empty());
  EXPECT_EQ(found.offers.front().devices, 512);
  EXPECT_EQ(found.offers.front().tokens, 128 * 4096);
}

// Narrower types are the last resort on the same devices, and it is said that the numbers differ.
TEST(Fit, RoundsOnlyWhereNothingElseFits) {
  const Remedies found =
      remedies("model_name=llama3-70b compile_topology=a100-8 ici_fsdp_parallelism=8 per_device_batch_size=1 max_target_length=2048");
  ASSERT_FALSE(found.offers.empty());
  EXPECT_TRUE(found.offers.front().rounds && found.offers.front().fits_well());
  EXPECT_FALSE(found.offers.back().rounds) << "a larger machine keeps the numbers";
  for (const Offer& offer : remedies("model_name=llama2-7b compile_topology=v6e-8 ici_data_parallelism=8 ici_fsdp_parallelism=1").offers)
    EXPECT_FALSE(offer.rounds);
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
  EXPECT_EQ(found.nearest->devices, 4);
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

// Changes that are refused cost no plans, and what is planned is what helps with scanned layers.
TEST(FitSlow, OffersForLayersApartWhatHelpsThoseThatAreScanned) {
  for (const std::string& request :
       {kTooLarge[0], kTooLarge[1], kTooLarge[2], kTooLarge[5], kTooLarge[7],
        std::string("model_name=deepseek3-671b compile_topology=v5p-128 ici_fsdp_parallelism=8 ici_expert_parallelism=8 per_device_batch_size=1")}) {
    SCOPED_TRACE(request);
    const Remedies scanned = remedies(request), apart = remedies(request + " scan_layers=false");
    expect_offers_hold(request + " scan_layers=false", apart);
    EXPECT_NE(find(apart, scanned.offers.front().keys), nullptr);
    EXPECT_EQ(apart.tried, scanned.tried);
  }
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

// Moments that wait in the host's memory take nothing of a device's. Virtual devices have no other memory.
TEST(Factorings, LeaveOutMomentsOnTheHost) {
  const auto state = [](const std::string& more) {
    const session::Session session = test::session("model_name=llama2-7b " + more);
    return *state_on(session, session.mesh);
  };
  const std::string host = " optimizer_memory_host_offload=true";
  EXPECT_EQ(3 * state("compile_topology=a100-40gb-2" + host), state("compile_topology=a100-40gb-2"));
  EXPECT_EQ(state("compile_topology=cpu-2" + host), state("compile_topology=cpu-2"));
}

// The larger machines of an alias are those of what it stands for.
TEST(Fit, NamesALargerMachineThanAnAlias) {
  const auto machines = [](const std::string& name) {
    std::vector<std::string> keys;
    for (const Offer& offer : remedies("model_name=llama3-70b per_device_batch_size=1 compile_topology=" + name).offers) {
      for (const std::string& key : offer.keys) {
        if (key.starts_with("compile_topology=")) keys.push_back(key);
      }
    }
    return keys;
  };
  EXPECT_FALSE(machines("a3").empty());
  EXPECT_EQ(machines("a3"), machines("h100-8"));
}

// Narrower weights are also gathered and read in less time, which may count for more than that moments would do.
TEST(Fit, OffersTheFasterOfNarrowerTypes) {
  const std::string request =
      "model_name=mixtral-8x7b compile_topology=h100-8 ici_expert_parallelism=8 ici_fsdp_parallelism=1 per_device_batch_size=8";
  const Remedies found = remedies(request);
  const auto rounds = std::find_if(found.offers.begin(), found.offers.end(), [](const Offer& offer) { return offer.rounds; });
  ASSERT_NE(rounds, found.offers.end());
  const std::optional<Planned> weights = try_keys(test::words_of(request), {"weight_dtype=bfloat16"});
  ASSERT_TRUE(weights && offer_of({}, *weights).fits_well());
  EXPECT_GE(rounds->tokens_per_second_per_device, offer_of({}, *weights).tokens_per_second_per_device);
}

// Where neither is enough, narrower weights and a smaller batch are offered together.
TEST(Fit, OffersNarrowerWeightsWithASmallerBatch) {
  const Remedies found = remedies("model_name=llama2-7b compile_topology=v5e-4");
  EXPECT_NE(find(found, {"weight_dtype=bfloat16", "per_device_batch_size=1"}), nullptr);
}

TEST(Fit, RoundsTheSpeedOfAnOffer) {
  Offer offer;
  offer.tokens_per_second_per_device = 3294.6;
  EXPECT_EQ(speed_words(offer), "3,295");
}

// Only on one device: several devices must add up all gradients before any of them is applied.
TEST(Fit, OffersToMakeGradientsAgainWhereAllOfThemAreKept) {
  const std::string request =
      "model_name=qwen3-0.6b dtype=bfloat16 per_device_batch_size=1 max_target_length=256 remat_policy=everything remat_gradients=false ";
  EXPECT_NE(find(remedies(request + "compile_topology=cpu-1"), {"remat_gradients=true"}), nullptr);
  const Remedies of_several = remedies(request + "compile_topology=cpu-2 ici_data_parallelism=2 ici_fsdp_parallelism=1");
  EXPECT_EQ(find(of_several, {"remat_gradients=true"}), nullptr);
}

// A stack of gradients that is cast to grad_dtype before the update is a stack of gradients.
TEST(Fit, CountsGradientsAsSuchWhateverTheirType) {
  for (const char* model : {"llama2-7b base_num_decoder_layers=4", "mixtral-8x7b base_num_decoder_layers=2", "gemma3-4b base_num_decoder_layers=12"}) {
    const auto memory = [&](const std::string& type) {
      const std::string request = fmt::format("override_model_config=true compile_topology=h100-8 per_device_batch_size=1 model_name={} {}", model, type);
      return plan_step(test::words_of(request)).step.forecast.memory;
    };
    const forecast::Memory own = memory("grad_dtype=float32"), narrow = memory("grad_dtype=bfloat16");
    EXPECT_GT(narrow.of(forecast::Component::gradients), own.of(forecast::Component::gradients) * 2 / 5) << model;
    EXPECT_LT(narrow.of(forecast::Component::working_values), own.of(forecast::Component::working_values) * 3 / 2) << model;
  }
}

// Plans hold neither scores nor logits: a step that MaxText could not run is told to be narrow, with the key that spares what it lacks.
TEST(Fit, TellsWhatXlaWouldHold) {
  const std::string request =
      "base_emb_dim=2048 base_num_query_heads=32 base_num_kv_heads=8 base_mlp_dim=8192 base_num_decoder_layers=16 head_dim=64 "
      "vocab_size=128256 decoder_block=llama2 compile_topology=v4-32 per_device_batch_size=1 ";
  const auto forecast = [&](const std::string& more) { return plan_step(test::words_of(request + more)).step.forecast; };
  const forecast::Forecast whole = forecast("max_target_length=32768 attention=dot_product"), flash = forecast("max_target_length=32768");
  EXPECT_EQ(whole.unheld.scores, 4LL * 32 * 32768 * 32768) << "of all heads of a row";
  EXPECT_EQ(flash.unheld.scores, 0);
  EXPECT_TRUE(whole.fits_narrowly());
  EXPECT_FALSE(flash.fits_narrowly());
  EXPECT_EQ(whole.memory.peak, flash.memory.peak);
  const std::vector<std::string> narrow = test::words_of(request + "max_target_length=32768 attention=dot_product");
  const Planned planned = plan_step(narrow);
  EXPECT_NE(find(remedies_of(narrow, planned.session, planned.step.forecast), {"attention=flash"}), nullptr);
  EXPECT_EQ(flash.unheld.logits, 4LL * 32768 * 128256);
  EXPECT_EQ(forecast("max_target_length=32768 num_vocab_tiling=8").unheld.logits, 4LL * 32768 * 128256 / 8);
  EXPECT_EQ(forecast("max_target_length=32768 gradient_accumulation_steps=2").unheld.logits, 4LL * 32768 * 128256) << "a pass at a time";
  EXPECT_EQ(forecast("max_target_length=2048").unheld.gradients, 0);
  const forecast::Forecast passes = forecast("max_target_length=2048 gradient_accumulation_steps=2");
  EXPECT_GT(passes.unheld.gradients, passes.memory.of(forecast::Component::parameters) * 99 / 100);
  EXPECT_GT(forecast::peak_of_xla(passes.memory.peak, passes.unheld), passes.memory.peak + passes.unheld.gradients);
  EXPECT_EQ(forecast("max_target_length=2048 use_iota_embed=true").unheld.one_hot, 2LL * 2048 * 128256);
  EXPECT_EQ(forecast("max_target_length=2048 ici_tensor_parallelism=4").unheld.logits, 0)
      << "held by the plan too, where words are sharded";
}

}  // namespace
}  // namespace moesh::advice
