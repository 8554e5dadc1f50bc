// The parts of the table of keys: one function per file of rows, and the ranges that rows share.
#pragma once

#include <span>
#include <string_view>

#include "config/schema.h"

namespace moesh::config {

inline constexpr std::string_view kCount = "1..1000000";  // layers, heads, experts
inline constexpr std::string_view kCountOrZero = "0..1000000";
inline constexpr std::string_view kCountOrAuto = "-1..1000000";
inline constexpr std::string_view kSize = "1..1000000000";  // widths and lengths
inline constexpr std::string_view kSizeOrZero = "0..1000000000";
inline constexpr std::string_view kSizeOrAuto = "-1..1000000000";
inline constexpr std::string_view kAxisSize = "-1..1048576";  // devices along an axis; -1: derived
inline constexpr std::string_view kFraction = "0..1";
inline constexpr std::string_view kDecay = "0..<1";  // of a running mean, which would never start at 1

std::span<const Topic> run_topics();
std::span<const Topic> model_topics();
std::span<const Topic> attention_topics();
std::span<const Topic> moe_topics();
std::span<const Topic> mesh_topics();
std::span<const Topic> sharding_topics();
std::span<const Topic> memory_topics();
std::span<const Topic> training_topics();
std::span<const Topic> data_topics();
std::span<const Topic> checkpoints_topics();
std::span<const Topic> decode_topics();
std::span<const Topic> kernels_topics();
std::span<const Topic> quantization_topics();
std::span<const Topic> monitoring_topics();
std::span<const Topic> multimodal_topics();
std::span<const Topic> other_models_topics();
std::span<const Topic> trainers_topics();
std::span<const Topic> earlier_topics();

}  // namespace moesh::config
