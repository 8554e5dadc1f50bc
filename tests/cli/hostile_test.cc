// Absurd values: each soon ends in an error that says what is wrong.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support.h"

namespace moesh::cli {
namespace {

using test::message_of;
using ::testing::HasSubstr;
using ::testing::Not;

std::string refusal(const std::string& request) {
  return message_of([&] { test::session(request); });
}

TEST(Hostile, NumbersBeyondTheirRangeAreRefused) {
  for (const char* value : {"9223372036854775808", "9223372036854775807", "-9223372036854775808", "1e18", "1e400",
                            "nan", "inf", "-1", "0"}) {
    EXPECT_THAT(refusal(std::string("base_num_decoder_layers=") + value), HasSubstr("base_num_decoder_layers is '"))
        << value;
  }
  for (const char* key :
       {"base_emb_dim", "base_mlp_dim", "vocab_size", "head_dim", "num_experts", "max_target_length"}) {
    EXPECT_THAT(refusal(std::string(key) + "=9223372036854775807"),
                HasSubstr(std::string(key) + " is '9223372036854775807'"))
        << key;
    EXPECT_THAT(refusal(std::string(key) + "=0"), HasSubstr(std::string(key) + " is '0'")) << key;
  }
  EXPECT_THAT(refusal("per_device_batch_size=nan"), HasSubstr("a finite number was expected"));
  EXPECT_THAT(refusal("per_device_batch_size=-1"), HasSubstr("a number from"));
}

TEST(Hostile, EmptyListsAreRefusedWhereSomethingIsNeeded) {
  EXPECT_THAT(refusal("mesh_axes=[]"), HasSubstr("mesh_axes is empty, at least one axis was expected"));
  EXPECT_THAT(refusal("mlp_activations=[]"), HasSubstr("mlp_activations is empty"));
  EXPECT_EQ(refusal("logical_axis_rules=[]"), "no error");
  EXPECT_EQ(refusal("override_logical_axis_rules=true logical_axis_rules=[]"), "no error")
      << "everything is replicated";
}

TEST(Hostile, InputLabelsMustFitTheInput) {
  for (const char* labels : {"[]", "[a]", "[a,b,c]"}) {
    EXPECT_THAT(refusal(std::string("input_data_sharding_logical_axes=") + labels),
                HasSubstr(" labels, the input has a batch and a length"))
        << labels;
  }
}

TEST(Hostile, InputLabelsMustDiffer) {
  EXPECT_EQ(refusal("input_data_sharding_logical_axes=[a,a]"),
            "inputs: label 'a' stands on dims 0 and 1, a label names one dim");
}

// Written out one by one, a million layers would fill the memory.
TEST(Hostile, AMillionUnscannedLayersAreRefused) {
  EXPECT_THAT(
      refusal("base_num_decoder_layers=1000000 scan_layers=false"),
      HasSubstr(
          "1,000,000 layers one by one (scan_layers=false), at most 4096 are written out\n  fix: scan_layers=true"));
}

TEST(Hostile, AMillionScannedLayersAreNoWork) { EXPECT_EQ(refusal("base_num_decoder_layers=1000000"), "no error"); }

// Counts of bytes and elements must not overflow.
TEST(Hostile, AModelOfMoreThan63BitsIsRefused) {
  EXPECT_THAT(refusal("base_emb_dim=1000000000 base_mlp_dim=1000000000 base_num_decoder_layers=1000000"),
              HasSubstr(" has more than 1e15 elements"));
}

TEST(Hostile, MeshesBeyondMeasureAreRefused) {
  EXPECT_THAT(refusal("ici_fsdp_parallelism=1048577"),
              HasSubstr("ici_fsdp_parallelism is '1048577', an integer from -1 to 1048576"));
  EXPECT_THAT(refusal("ici_fsdp_parallelism=1048576"), HasSubstr("hardware 'cpu' has no size '1048576'"));
  EXPECT_THAT(refusal("num_slices=1048576"), HasSubstr("1048576 slices of cpu-1, 1 to 65536 were expected"));
  EXPECT_THAT(refusal("dcn_fsdp_parallelism=1048576"), HasSubstr("1048576 slices of cpu-"));
}

TEST(Hostile, ArgumentsThatAreNoneAreRefused) {
  EXPECT_THAT(message_of([] { session::open({""}); }), HasSubstr("no such file"));
  EXPECT_THAT(message_of([] { session::open({"="}); }), HasSubstr("unknown key ''"));
  EXPECT_THAT(message_of([] { session::open({"\xff=1"}); }), HasSubstr("unknown key"));
  EXPECT_THAT(message_of([] { session::open({"run_name=\xff"}); }), HasSubstr("not valid UTF-8"));
}

TEST(Hostile, RuleSetsThatAreNoneAreRefused) {
  const test::TemporaryFolder folder;
  EXPECT_THAT(refusal("custom_mesh_and_rule=" + folder.path()), HasSubstr("not a regular file"));
  const std::string many = folder.write(
      "many.yml", "mesh_axes: [" + [] {
        std::string axes = "a0";
        for (int i = 1; i < 1000; ++i) axes += ", a" + std::to_string(i);
        return axes;
      }() + "]\n");
  EXPECT_THAT(refusal("custom_mesh_and_rule=" + many), HasSubstr("1000 mesh axes, at most 31 are held"));
  const std::string empty = folder.write("empty.yml", "mesh_axes: []\nlogical_axis_rules: []\n");
  EXPECT_THAT(refusal("custom_mesh_and_rule=" + empty), HasSubstr("mesh_axes is empty"));
}

TEST(Hostile, ThousandsOfRulesAreNoWork) {
  std::string rules = "[embed,[fsdp]]";
  for (int i = 0; i < 5000; ++i) rules += ",[label" + std::to_string(i) + ",[data]]";
  EXPECT_EQ(refusal("logical_axis_rules=[" + rules + "]"), "no error");
}

}  // namespace
}  // namespace moesh::cli
