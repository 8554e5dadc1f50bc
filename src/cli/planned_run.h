// What commands plan: a training step, or with --decode or --prefill a step of decoding.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "advice/planned_run.h"
#include "cli/command.h"

namespace moesh::cli {

inline constexpr Option kDecodeStep{option_of(session::DecodeStage::token), "",
                                    "decoding instead of training: one token of each row, with max_target_length slots of the KV cache"};
inline constexpr Option kPrefillStep{option_of(session::DecodeStage::prompt), "",
                                     "the same, with prompts of max_prefill_predict_length tokens"};

// The stage of decoding that the options ask for; nothing for training.
std::optional<session::DecodeStage> decode_stage(const Arguments& arguments);

// The request as training, or as the stage of decoding.
session::Session open_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage,
                          session::Evenness evenness = session::Evenness::demanded, const config::Engine& engine = {});

// A sentence on the memory that the session's step takes and that is available.
std::string fit_words(const session::Session& session);

using advice::PlannedRun;

// For decoding with the most rows that fit.
PlannedRun plan_run(const std::vector<std::string>& request, std::optional<session::DecodeStage> stage, const config::Engine& engine = {});

}  // namespace moesh::cli
