// What commands plan: a training step, or with --decode or --prefill a step of decoding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "forecast/forecast.h"
#include "partition/partition.h"
#include "plan/plan.h"
#include "session/session.h"

namespace moesh::cli {

inline constexpr Option kDecodeStep{"--decode", "",
                                    "decoding instead of training: one token of each row, with max_target_length slots of the KV cache"};
inline constexpr Option kPrefillStep{"--prefill", "", "the same, with prompts of max_prefill_predict_length tokens"};

// The stage of decoding that the options ask for; nothing for training.
std::optional<session::DecodeStage> decode_stage(const Arguments& arguments);

// The request as training, or as the stage of decoding.
session::Session open_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage);

// A sentence on the memory that the session's step takes and that is available.
std::string fit_words(const session::Session& session);

struct PlannedRun {
  session::Session session;
  plan::Plan plan;
  std::vector<partition::Choice> choices;
  forecast::Forecast forecast;
};

PlannedRun plan_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage);

}  // namespace moesh::cli
