// Reads the rotary positions of a config.json: newer files nest them in rope_parameters, older ones have rope_theta and rope_scaling.
#include <cmath>

#include <fmt/core.h>

#include "base/error.h"
#include "config/hugging_face_families.h"
#include "config/yarn.h"

namespace moesh::config {
namespace {

struct Yarn {
  double factor = 1, rotation = 1, score = 1;  // rotated values are multiplied by `rotation`, scores twice by `score`
};

Yarn read_yarn_scales(HuggingFaceReader& rope) {
  Yarn yarn;
  yarn.factor = rope.real("factor");
  const double strength = rope.real("mscale", 0), of_all = rope.real("mscale_all_dim", 0);
  const auto scale = [&](double by) { return yarn_scale_if_longer(yarn.factor, by); };
  yarn.rotation = strength != 0 && of_all != 0 ? scale(strength) / scale(of_all) : scale(1);
  yarn.rotation = rope.real("attention_factor", yarn.rotation);
  if (of_all != 0) yarn.score = scale(of_all);
  return yarn;
}

// Transformers takes the usual number for 0 too.
double read_beta(HuggingFaceReader& rope, const char* key, double usual) {
  const double beta = rope.real(key, usual);
  return beta == 0 ? usual : beta;
}

// Whether YaRN's bounds are whole dims. Null is false in transformers' eyes.
bool read_truncate(HuggingFaceReader& reader, const Json& object) { return reader.boolean("truncate", !object.contains("truncate")); }

// The length before it was stretched; if the file does not say it, the length that it does say.
void give_original_positions(HuggingFaceReader& reader, HuggingFaceReader& rope, const char* setting) {
  rope.give(setting, rope.integer("original_max_position_embeddings", reader.integer("max_position_embeddings")));
}

double read_yarn(HuggingFaceReader& reader, HuggingFaceReader& rope, bool pairs) {
  const Yarn yarn = read_yarn_scales(rope);
  rope.give("rope_type", "yarn");
  rope.give("rope_factor", yarn.factor);
  rope.give("rope_attention_factor", yarn.rotation);
  rope.give("rope_interleave", pairs);
  rope.give("beta_fast", read_beta(rope, "beta_fast", 32));
  rope.give("beta_slow", read_beta(rope, "beta_slow", 1));
  give_original_positions(reader, rope, "original_max_position_embeddings");
  return yarn.score;
}

void read_llama3(HuggingFaceReader& reader, HuggingFaceReader& rope) {
  rope.give("rope_type", "llama3.1");
  rope.give("llama3_rope_factor", rope.real("factor"));
  rope.give("llama3_low_freq_factor", rope.real("low_freq_factor"));
  rope.give("llama3_high_freq_factor", rope.real("high_freq_factor"));
  give_original_positions(reader, rope, "llama3_original_positions");
}

// "rope_type", or "type" in older files.
std::string type_of(HuggingFaceReader& rope) {
  const std::string older = rope.text("type", "default");
  return rope.text("rope_type", older);
}

// Unscaled frequencies, or all divided by one factor, and neighbours rotated: as Llama 3.1 does, unless it scales. With bounds that
// high its rule takes all frequencies for low, and so divides all of them.
void read_plain_pairs(HuggingFaceReader& rope, bool is_linear) {
  rope.give("rope_type", "llama3.1");
  if (!is_linear) return rope.give("rope_use_scale", false);
  rope.give("llama3_rope_factor", rope.real("factor"));
  for (const char* key : {"llama3_low_freq_factor", "llama3_high_freq_factor"}) rope.give(key, std::int64_t{1'000'000'000});
}

// MaxText's settings of theta are whole numbers.
void give_theta(HuggingFaceReader& reader, const char* key, const char* setting, double theta) {
  if (std::floor(theta) != theta) refuse(fmt::format("{}, a whole number was expected, as {} is one", theta, setting), reader.place(key));
  reader.give(setting, theta);
}

// A kind's own theta, or else what the key of all says.
void read_theta(HuggingFaceReader& reader, HuggingFaceReader& rope, const char* setting, const char* of_all, double usual) {
  const double outer = reader.real(of_all, usual);
  if (rope.find("rope_theta") == nullptr) return give_theta(reader, of_all, setting, outer);
  give_theta(rope, "rope_theta", setting, rope.real("rope_theta"));
}

constexpr const char* kShare = "partial_rotary_factor";

// The share of a head that is rotated. Families that always rotate whole heads pay no heed to it.
double read_share(HuggingFaceReader& reader, HuggingFaceReader& rope, std::optional<double> usual) {
  const double outer = reader.real(kShare, usual.value_or(1)), share = rope.real(kShare, outer);
  if (!usual && share != 1) (outer != 1 ? reader : rope).refuse_key(kShare, "1, as the family rotates whole heads,");
  rope.give(kShare, share);
  return share;
}

void check_share(HuggingFaceReader& reader, HuggingFaceReader& rope, const RopeUsual& usual, double share) {
  if (usual.latent_dims) return check_rotated(*usual.latent_dims, share, reader.place("qk_rope_head_dim"));
  const HuggingFaceReader& says = rope.find(kShare) != nullptr ? rope : reader;
  check_rotated(head_dim_of(reader), share, share == 1 ? reader.place("head_dim") : says.place(kShare));
}

double read_scaling(HuggingFaceReader& reader, HuggingFaceReader& rope, bool pairs) {
  const std::string type = type_of(rope);
  if (type == "yarn") return read_yarn(reader, rope, pairs);
  if (type == "llama3") {
    read_llama3(reader, rope);
    return 1;
  }
  if (type != "linear" && type != "default") {
    refuse(fmt::format("rope_type '{}', one of default, linear, llama3, yarn was expected", type),
           rope.place("rope_type"), "moesh stretches positions in no other way");
  }
  if (pairs) {
    read_plain_pairs(rope, type == "linear");
    return 1;
  }
  rope.give("rope_type", "default");
  if (type == "linear") rope.give("rope_linear_scaling_factor", rope.real("factor"));
  return 1;
}

// Weights are rearranged for rotated neighbours in all layers or none, and layers with a window rotate halves. `truncates`: as is said
// beside the kinds of layers, as transformers ignores what is said of one kind.
void read_scaling_beside_windows(HuggingFaceReader& reader, HuggingFaceReader& rope, bool truncates) {
  const char* key = rope.find("rope_type") != nullptr ? "rope_type" : "type";
  if (type_of(rope) == "llama3") rope.refuse_key(key, "default, linear or yarn, as layers with a window rotate halves,");
  read_scaling(reader, rope, false);
  if (type_of(rope) != "yarn") return;
  rope.give("rope_truncate", truncates);
  rope.ignore({"truncate"});
}

// Theta of layers with a window. Only some families heed what is said beside the kinds of layers.
void read_theta_of_windows(HuggingFaceReader& reader, HuggingFaceReader& rope, double theta, std::optional<double> local_theta) {
  constexpr const char *kSetting = "local_rope_max_timescale", *kBeside = "rope_local_base_freq";
  if (local_theta) return read_theta(reader, rope, kSetting, kBeside, *local_theta);
  const double own = rope.real("rope_theta", theta);
  if (reader.real(kBeside, own) != own)
    reader.refuse_key(kBeside, fmt::format("{}, or rope_theta of sliding_attention in rope_parameters,", own));
  give_theta(rope, "rope_theta", kSetting, own);
}

// Theta of all layers is heeded by transformers in layers without a window only.
void read_older_kinds(HuggingFaceReader& reader, double theta, std::optional<double> local_theta) {
  const Json *older = reader.find("rope_scaling"), none = Json::object();
  HuggingFaceReader rope(older == nullptr ? none : *older, reader.where(), "rope_scaling.", reader.settings());
  read_theta(reader, rope, "rope_max_timescale", "rope_theta", theta);
  read_share(reader, rope, std::nullopt);
  read_scaling_beside_windows(reader, rope, true);
  if (type_of(rope) == "default") rope.ignore({"factor"});
  rope.finish();
  if (!local_theta && reader.real("rope_theta", theta) != theta)
    reader.refuse_key("rope_theta", fmt::format("{}, or one for each kind of layer in rope_parameters", theta));
  reader.give("local_rope_type", "default");
  HuggingFaceReader of_windows(none, reader.where(), "", reader.settings());
  read_theta_of_windows(reader, of_windows, theta, local_theta);
}

}  // namespace

void check_rotated(std::int64_t dims, double share, const std::string& where) {
  const double rotated = std::floor(static_cast<double>(dims) * share);
  if (std::fmod(rotated, 2) == 0) return;
  refuse(fmt::format("{:.0f} of {} dims of a head are rotated, an even number was expected", rotated, dims), where,
         "dims are rotated in pairs: give heads of another size, or rotate another share of them");
}

double read_rope(HuggingFaceReader& reader, const RopeUsual& usual, bool pairs) {
  const Json *newer = reader.find("rope_parameters"), *older = reader.find("rope_scaling");
  const bool is_older = older != nullptr && !older->empty();  // goes before the other, as transformers has it
  const Json otherwise = Json::parse(usual.otherwise);
  const Json* nested = is_older ? older : newer;
  HuggingFaceReader rope(nested == nullptr ? otherwise : *nested, reader.where(), is_older ? "rope_scaling." : "rope_parameters.",
                         reader.settings());
  read_theta(reader, rope, "rope_max_timescale", "rope_theta", usual.theta);
  check_share(reader, rope, usual, read_share(reader, rope, usual.partial));
  const double score = read_scaling(reader, rope, pairs);
  if (type_of(rope) == "yarn") rope.give("rope_truncate", read_truncate(rope, nested == nullptr ? otherwise : *nested));
  rope.ignore({"mrope_section", "mrope_interleaved"});  // of images: a token of text has one position
  if (type_of(rope) == "default") rope.ignore({"factor"});
  rope.finish();
  return score;
}

void read_rope_of_gemma4(HuggingFaceReader& reader) {
  check_rotated(head_dim_of(reader), 1, reader.place("head_dim"));
  const Json none = Json::object();
  const Json* found = reader.find("rope_parameters");
  HuggingFaceReader kinds(found == nullptr ? none : *found, reader.where(), "rope_parameters.", reader.settings());
  const Json *full = kinds.find("full_attention"), *sliding = kinds.find("sliding_attention");
  HuggingFaceReader of_full(full == nullptr ? none : *full, reader.where(), "rope_parameters.full_attention.", reader.settings());
  const std::string type = of_full.text("rope_type", full == nullptr ? "proportional" : "default");
  if (type != "proportional" && type != "default") of_full.refuse_key("rope_type", "proportional, or default");
  give_theta(of_full, "rope_theta", "rope_max_timescale", of_full.real("rope_theta", 1e6));
  const bool is_usual = full == nullptr, is_whole = type == "default";
  const double share = of_full.real("partial_rotary_factor", is_usual ? 0.25 : 1);
  of_full.give("global_rope_proportion", is_whole ? 1.0 : share);
  if (of_full.real("factor", 1) != 1) of_full.refuse_key("factor", "1");
  of_full.finish();
  HuggingFaceReader of_sliding(sliding == nullptr ? none : *sliding, reader.where(), "rope_parameters.sliding_attention.",
                               reader.settings());
  of_sliding.expect_text("rope_type", "default");
  give_theta(of_sliding, "rope_theta", "local_rope_max_timescale", of_sliding.real("rope_theta", 10000));
  of_sliding.finish();
  kinds.finish();
}

void read_rope_by_kind(HuggingFaceReader& reader, double theta, std::optional<double> local_theta) {
  check_rotated(head_dim_of(reader), 1, reader.place("head_dim"));
  const Json* newer = reader.find("rope_parameters");
  if (newer == nullptr || newer->empty()) return read_older_kinds(reader, theta, local_theta);
  if (!newer->contains("full_attention") && !newer->contains("sliding_attention"))
    reader.refuse_key("rope_parameters", "full_attention and sliding_attention in it");
  reader.expect_off("rope_scaling");
  HuggingFaceReader kinds(*newer, reader.where(), "rope_parameters.", reader.settings());
  const Json none = Json::object();
  const auto kind = [&](const char* name) {
    const Json* found = kinds.find(name);
    return HuggingFaceReader(found == nullptr ? none : *found, reader.where(), fmt::format("rope_parameters.{}.", name), reader.settings());
  };
  HuggingFaceReader of_full = kind("full_attention"), of_sliding = kind("sliding_attention");
  read_theta(reader, of_full, "rope_max_timescale", "rope_theta", theta);
  read_scaling_beside_windows(reader, of_full, read_truncate(kinds, *newer));
  of_full.finish();
  of_sliding.expect_text("rope_type", "default");
  of_sliding.give("local_rope_type", "default");
  read_theta_of_windows(reader, of_sliding, theta, local_theta);
  of_sliding.finish();
  // Files that were written from a plain rope_parameters repeat it beside the kinds, where nothing reads it.
  kinds.ignore({"rope_type", "rope_theta", "factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor", "beta_fast",
                "beta_slow", "attention_factor", "mscale", "mscale_all_dim"});
  kinds.finish();
}

}  // namespace moesh::config
