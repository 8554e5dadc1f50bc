// Runs that stop and resume: they continue to the same bits, on any layout, whatever went wrong before.
#include "train/checkpoints.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <sys/mount.h>

#include "decode/generation.h"
#include "decode/weights.h"
#include "store/checkpoint.h"
#include "tests/process.h"
#include "tests/train/kept_run.h"
#include "tests/train/trainer_support.h"
#include "train/restore.h"

namespace moesh::train {
namespace {

using test::Kept;
using test::kTinyMixtral;
using test::kTinyModel;
using test::losses_in;
using test::metrics_in;
using test::Outcome;
using test::TemporaryFolder;
using test::train_with;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// All numbers of a checkpoint, by tensor.
std::map<std::string, std::vector<float>> numbers_in(const std::string& path) {
  store::Checkpoint checkpoint(path);
  backend::Workers workers(1);
  std::map<std::string, std::vector<float>> all;
  for (const auto& [name, tensor] : checkpoint.index().tensors) {
    std::vector<float>& numbers = all[name];
    numbers.resize(static_cast<std::size_t>(elements(tensor.shape)));
    checkpoint.read(
        name, {store::dense_part(store::whole_block(tensor.shape), DType::float32, reinterpret_cast<std::byte*>(numbers.data()))}, workers);
  }
  return all;
}

TEST(KeptRuns, SaveTheStepsThatArePeriodDividesAndTheLast) {
  const Kept kept(kTinyModel);
  const Outcome outcome = kept.run("steps=6");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 2, 4, 5));
  EXPECT_THAT(outcome.out, HasSubstr("saved checkpoint: " + kept.at(4)));
  EXPECT_EQ(outcome.err, "");
  const Kept fewer(kTinyModel);
  EXPECT_EQ(fewer.run("steps=6 save_checkpoint_on_start=false save_checkpoint_on_completion=false async_checkpointing=false").code, 0);
  EXPECT_THAT(store::steps_in(fewer.folder()), ElementsAre(2, 4));
  const Kept newest(kTinyModel);
  EXPECT_EQ(newest.run("steps=6 max_num_checkpoints_to_keep=2").code, 0);
  EXPECT_THAT(store::steps_in(newest.folder()), ElementsAre(4, 5));
}

TEST(KeptRuns, MoveOldCheckpointsAsideIfTheyAreToldTo) {
  const std::string aside = "max_num_checkpoints_to_keep=2 checkpoint_todelete_subdir=.todelete ";
  const Kept kept(kTinyModel);
  EXPECT_EQ(kept.run("steps=6 " + aside).code, 0);
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(4, 5));
  EXPECT_THAT(store::steps_in(kept.folder() + "/.todelete"), ElementsAre(0, 2));
  EXPECT_THAT(kept.run("steps=8 " + aside).out, HasSubstr("Goes on after step 5, from"));
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(6, 7));
  EXPECT_THAT(store::steps_in(kept.folder() + "/.todelete"), ElementsAre(0, 2, 4, 5));
  EXPECT_EQ(kept.run("steps=8 load_parameters_path=" + kept.folder() + "/.todelete/2").code, 0);
  EXPECT_THAT(kept.run("steps=8 checkpoint_todelete_full_path=gs://a/b").err,
              HasSubstr("checkpoint_todelete_full_path=gs://a/b asks for what moesh does not do (folder of a cloud's storage that old "));
}

// Covers each kind of optimizer, of layer stack and of step.
TEST(KeptRuns, GoOnToTheSameBits) {
  for (const std::string& request :
       {kTinyModel,
        kTinyMixtral + "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 num_experts=4 per_device_batch_size=1 ",
        kTinyModel + "scan_layers=false gradient_accumulation_steps=2 ", kTinyModel + "opt_type=muon ", kTinyModel + "opt_type=sgd ",
        kTinyModel + "skip_step_on_spikes=true skip_step_interval=3 skip_step_scaling_factor=0 learning_rate=0.05 ",
        kTinyModel + "weight_dtype=bfloat16 mu_dtype=bfloat16 dtype=bfloat16 ",
        kTinyModel + "compile_topology=cpu-2 ici_fsdp_parallelism=2 owners=2 ",
        kTinyMixtral + "router_skew=1.0 dataset_type=text dataset_path=" + (test::source_folder() / "README.md").string() +
            " vocab_size=256 "}) {
    const Kept whole(request), stopped(request);
    ASSERT_EQ(whole.run("steps=6").code, 0) << request;
    ASSERT_EQ(stopped.run("steps=3").code, 0) << request;
    const Outcome outcome = stopped.run("steps=6");
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.out, HasSubstr("Goes on after step 2, from " + stopped.at(2))) << request;
    EXPECT_EQ(losses_in(whole.metrics()), losses_in(stopped.metrics())) << request;
    EXPECT_EQ(numbers_in(whole.at(5)), numbers_in(stopped.at(5))) << request;
    EXPECT_EQ(metrics_in(stopped.metrics()).size(), 6u);
  }
}

std::string lines_of_text(const TemporaryFolder& folder) {
  std::string lines;
  for (int i = 0; i < 200; ++i) lines += "{\"text\": \"" + std::string(static_cast<std::size_t>(1 + i % 17), static_cast<char>('a' + i % 26)) + "\"}\n";
  return folder.write("a.jsonl", lines);
}

// Resumed on one device, the run ends with the same bits. On other devices the samples are the same, so
// losses differ only by the rounding of the mesh.
TEST(KeptRuns, GoOnInTheMiddleOfTheirDocuments) {
  const TemporaryFolder folder;
  const std::string lines = lines_of_text(folder);
  const std::string request = kTinyMixtral + "num_experts=4 vocab_size=256 dataset_type=jsonl dataset_path=" + lines + ",1;" + lines + ",2 ";
  const std::string one = request + "per_device_batch_size=4 ";
  const Kept whole(one), same(one), other(request);
  ASSERT_EQ(whole.run("steps=6").code, 0);
  same.run("steps=3");
  same.run("steps=6");
  EXPECT_EQ(losses_in(whole.metrics()), losses_in(same.metrics()));
  EXPECT_EQ(numbers_in(whole.at(5)), numbers_in(same.at(5)));
  other.run("per_device_batch_size=4 steps=3");
  EXPECT_EQ(other.run("compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 per_device_batch_size=1 steps=6").code, 0);
  const std::vector<double> a = losses_in(whole.metrics()), b = losses_in(other.metrics());
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-5 * a[i]) << i;
  EXPECT_THAT(same.run("steps=7 data_shuffle_seed=4").err, HasSubstr("the data are other than when the checkpoint was saved, or are read otherwise: they begin at their beginning"));
}

// By the kind, the size, the beginning and the order of the data, whatever their names.
TEST(KeptRuns, SayThatTheirDataBeginAnew) {
  const TemporaryFolder folder;
  std::string letters;
  for (int i = 0; i < 3000; ++i) letters += static_cast<char>('a' + i * i % 17);
  const std::string lines = "vocab_size=256 dataset_type=jsonl dataset_path=" + lines_of_text(folder);
  const std::string text = "vocab_size=256 dataset_type=text dataset_path=" + folder.write("a.txt", letters);
  const std::string words = "the data are other than when the checkpoint was saved, or are read otherwise: they begin at their beginning";
  const Kept kept(kTinyModel);
  int steps = 0;
  const auto is_said = [&](const std::string& data) {
    steps += 2;
    const Outcome outcome = kept.run(fmt::format("steps={} ", steps) + data);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err.find(words) != std::string::npos;
  };
  EXPECT_FALSE(is_said(text));
  EXPECT_FALSE(is_said(text));
  EXPECT_FALSE(is_said(text + " per_device_batch_size=3")) << "they go on at their place";
  for (const std::string more : {"data_shuffle_seed=3", "enable_data_shuffling=false", "eval_fraction=0.2 eval_interval=9 eval_steps=1", "max_target_length=5"})
    EXPECT_TRUE(is_said(text + " " + more)) << more;
  EXPECT_TRUE(is_said(lines));
  EXPECT_TRUE(is_said(text));
  folder.write("a.txt", letters + "and more");
  EXPECT_TRUE(is_said(text));
  EXPECT_FALSE(is_said(text));
  EXPECT_TRUE(is_said("vocab_size=256")) << "synthetic";
  EXPECT_TRUE(Kept(kTinyModel).run("steps=40 load_full_state_path=" + kept.at(steps - 3) + " " + lines).err.find(words) != std::string::npos);
}

// The steps that were done before are kept in a checkpoint.
TEST(KeptRuns, EndWithACheckpointWhereTheirDataVanish) {
  const TemporaryFolder folder;
  const std::string path = folder.write("a.bin", std::string(1 << 20, '\1'));
  const Kept kept(kTinyModel + "vocab_size=300 token_bytes=2 dataset_type=tokens dataset_path=" + path + " ");
  std::thread cut([&] {
    while (!std::filesystem::exists(kept.at(0))) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::filesystem::resize_file(path, 100);
  });
  const Outcome outcome = kept.run("steps=100000 checkpoint_period=100000");
  cut.join();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr(path + ": the file was cut short or replaced while the run read it"));
  const std::vector<std::int64_t> steps = store::steps_in(kept.folder());
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(metrics_in(kept.metrics()).back()["step"], steps.back());
}

TEST(KeptRuns, HaveNothingToDoWhereTheyAreAtTheirEnd) {
  const Kept kept(kTinyModel);
  kept.run("steps=3");
  const Outcome again = kept.run("steps=3");
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.out, AllOf(HasSubstr("Nothing is left to do: steps=3"), Not(HasSubstr("completed step"))));
}

TEST(KeptRuns, SayWhatIsSetOtherwiseThanBefore) {
  const Kept kept(kTinyModel);
  kept.run("steps=3");
  EXPECT_THAT(kept.run("steps=4 learning_rate=0.5").err, HasSubstr("other than when the checkpoint was saved: steps, learning_rate"));
}

std::int64_t bytes_in(const std::string& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) bytes += entry.is_regular_file() ? static_cast<std::int64_t>(entry.file_size()) : 0;
  return bytes;
}

// A disk of a few bytes in place of a folder; is_there() is false if this process may not make one.
class SmallDisk {
 public:
  SmallDisk(std::string folder, std::int64_t bytes) : folder_(std::move(folder)) {
    std::filesystem::create_directories(folder_);
    is_there_ = ::mount("none", folder_.c_str(), "tmpfs", 0, fmt::format("size={}", bytes).c_str()) == 0;
  }
  ~SmallDisk() {
    if (is_there_) ::umount2(folder_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_there() const { return is_there_; }

 private:
  std::string folder_;
  bool is_there_ = false;
};

// Of those that are too many after a save, older ones go before it if the disk is full, but never the only one.
TEST(KeptRuns, MakeRoomOnAFullDisk) {
  const std::string large = kTinyModel + "vocab_size=8000 ";
  const Kept measured(large), kept(large), alone(large);
  ASSERT_EQ(measured.run("steps=1").code, 0);
  const std::int64_t bytes = bytes_in(measured.at(0));
  const SmallDisk disk(kept.folder(), 7 * bytes / 2), smaller(alone.folder(), 3 * bytes / 2);
  if (!disk.is_there()) GTEST_SKIP() << "no right to mount a disk";
  ASSERT_EQ(kept.run("steps=3 checkpoint_period=1").code, 0);
  ASSERT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 1, 2));
  EXPECT_THAT(kept.run("steps=4 checkpoint_period=1").err, HasSubstr("the checkpoint of step 3 is not saved")) << "all are to be kept";
  const Outcome outcome = kept.run("steps=4 checkpoint_period=1 max_num_checkpoints_to_keep=2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(2, 3));
  ASSERT_EQ(alone.run("steps=1").code, 0);
  EXPECT_EQ(alone.run("steps=2 max_num_checkpoints_to_keep=1").code, 1);
  EXPECT_THAT(store::steps_in(alone.folder()), ElementsAre(0));
}

// What is moved aside stays on the disk.
TEST(KeptRuns, MoveNoneAsideToMakeRoom) {
  const std::string large = kTinyModel + "vocab_size=8000 ";
  const Kept measured(large), kept(large);
  ASSERT_EQ(measured.run("steps=1").code, 0);
  const SmallDisk disk(kept.folder(), 7 * bytes_in(measured.at(0)) / 2);
  if (!disk.is_there()) GTEST_SKIP() << "no right to mount a disk";
  const std::string aside = "checkpoint_period=1 max_num_checkpoints_to_keep=2 checkpoint_todelete_subdir=.todelete ";
  ASSERT_EQ(kept.run("steps=3 " + aside).code, 0);
  ASSERT_THAT(store::steps_in(kept.folder()), ElementsAre(1, 2));
  const Outcome full = kept.run("steps=4 " + aside);
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, AllOf(HasSubstr(": remove what lies in " + kept.folder() + "/.todelete to make room"),
                              HasSubstr("the checkpoint of step 3 is not saved")));
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(1, 2));
  EXPECT_THAT(store::steps_in(kept.folder() + "/.todelete"), ElementsAre(0));
}

TEST(KeptRuns, GoOnFromAnEarlierStepAndSetTheLaterOnesAside) {
  const Kept kept(kTinyModel);
  kept.run("steps=6");
  const auto last = numbers_in(kept.at(5));
  const Outcome outcome = kept.run("steps=6 --from 2");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("Goes on after step 2, from "));
  EXPECT_THAT(outcome.err, HasSubstr(kept.at(4) + " is of a later step than this run goes on from: it is "));
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 2, 4, 5));
  EXPECT_EQ(numbers_in(kept.at(5)), last);
  EXPECT_THAT(kept.run("--from 3").err, AllOf(HasSubstr("no checkpoint of step 3 is there"), HasSubstr("--from 0 or 2 or 4 or 5")));
  EXPECT_THAT(kept.run("--from x").err, HasSubstr("--from x: not a step"));
  EXPECT_THAT(kept.run("--from 2 enable_checkpointing=false").err, HasSubstr("--from 2, with enable_checkpointing=false"));
}

TEST(KeptRuns, BeginWithThoseOfAnother) {
  const Kept first(kTinyModel);
  first.run("steps=4");
  EXPECT_EQ(first.run("steps=5 load_full_state_path=a load_parameters_path=b").code, 2) << "nor may both be given where neither is read";
  const Kept whole(kTinyModel), parameters(kTinyModel);
  EXPECT_THAT(whole.run("steps=6 load_full_state_path=" + first.at(2)).out, HasSubstr("Goes on after step 2, from " + first.at(2)));
  EXPECT_THAT(store::steps_in(whole.folder()), ElementsAre(4, 5));
  EXPECT_THAT(Kept(kTinyModel).run("load_full_state_path=" + first.at(2) + " load_parameters_path=" + first.folder()).err,
              HasSubstr("load_full_state_path and load_parameters_path are both given\n  fix: give one of them"));
  const Outcome outcome = parameters.run("steps=1 learning_rate=0 load_parameters_path=" + first.folder());
  EXPECT_THAT(outcome.out, HasSubstr("Starts with the parameters of " + first.at(3)));
  const auto theirs = numbers_in(first.at(3)), ours = numbers_in(parameters.at(0));
  for (const auto& [name, numbers] : theirs) {
    if (!name.starts_with("mu/") && !name.starts_with("nu/")) EXPECT_EQ(ours.at(name), numbers) << name;
    else EXPECT_NE(ours.at(name), numbers) << name;
  }
  EXPECT_THAT(parameters.run("run_name=other steps=1 load_parameters_path=/nowhere").err, HasSubstr("no checkpoint is there"));
}

TEST(KeptRuns, TakeTheParametersAloneUnderAnotherOptimizer) {
  const Kept kept(kTinyModel);
  kept.run("steps=3");
  const Outcome outcome = kept.run("steps=4 opt_type=sgd");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("the checkpoint's optimizer is adamw, this run's sgd: the parameters are taken, moments begin at zero"));
  EXPECT_THAT(outcome.out, HasSubstr("completed step: 3"));
}

// Moments that were read from a checkpoint before its damage was found are not left behind.
TEST(KeptRuns, TakeNoMomentsOfADamagedCheckpoint) {
  const Kept kept(kTinyModel);
  ASSERT_EQ(kept.run("steps=3 opt_type=sgd").code, 0);
  ASSERT_EQ(kept.run("steps=4").code, 0);
  const auto undamaged = numbers_in(kept.at(3));
  const std::string path = kept.at(3) + "/data-00000.safetensors";
  std::string bytes = test::read_text(path);
  bytes[bytes.size() - 10] = static_cast<char>(bytes[bytes.size() - 10] ^ 4);
  test::write_file(path, bytes);
  const Outcome outcome = kept.run("steps=4");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the checkpoint before it is taken"), HasSubstr("moments begin at zero")));
  EXPECT_EQ(numbers_in(kept.at(3)), undamaged);
}

TEST(KeptRuns, AreRefusedTheCheckpointsOfAnotherModel) {
  const Kept kept(kTinyModel);
  kept.run("steps=1");
  EXPECT_THAT(kept.run("steps=2 base_mlp_dim=24").err,
              AllOf(HasSubstr("the checkpoint is of another model: "), HasSubstr("is [12, 2, 20] there and [12, 2, 24] here")));
  EXPECT_THAT(kept.run("steps=2 base_num_decoder_layers=3").err, HasSubstr("the checkpoint lacks "));
  EXPECT_THAT(kept.run("steps=2 base_num_decoder_layers=1").err, HasSubstr("the checkpoint has parameters that this model has not: "));
}

TEST(KeptRuns, SayWhatParametersTheyWereTrainedWith) {
  const Kept kept(kTinyModel);
  EXPECT_EQ(kept.run("steps=1 trainable_parameters_mask=[norm]").code, 0);
  EXPECT_THAT(kept.run("steps=2").err,
              AllOf(HasSubstr("the checkpoint lacks mu/"), HasSubstr("fix: train what it was saved with (opt_type, trainable_parameters_mask), "
                                                                     "or begin a run with its parameters: load_parameters_path")));
}

// Modules that predict further tokens are of use in training only, so a run does not drop them without a word, and decoding does.
TEST(KeptRuns, WithPredictionModulesAreDecodedWithoutThem) {
  const Kept kept(kTinyModel);
  EXPECT_EQ(kept.run("steps=2 mtp_num_layers=1").code, 0);
  EXPECT_TRUE(metrics_in(kept.metrics()).back().contains("mtp_loss"));
  EXPECT_THAT(kept.run("steps=3").err, HasSubstr("the checkpoint has parameters that this model has not: mtp_block/mtp_layer_1/"));
  EXPECT_EQ(kept.run("steps=3 mtp_num_layers=1").code, 0);
  const session::Session session = test::session(kTinyModel);
  const models::ModelRequest request = session::model_request(session, 1);
  backend::Workers workers(1);
  decode::Generator generator(request, session.target, 7, workers);
  EXPECT_THAT(decode::read_weights(generator.decoder(), generator.graph(), request, kept.at(2), workers),
              HasSubstr("the parameters of step 2 from "));
}

// The newest undamaged checkpoint is found without being named.
TEST(KeptRuns, GoOnFromTheOneBeforeWhereTheNewestIsDamaged) {
  const Kept kept(kTinyModel);
  kept.run("steps=6");
  const auto last = numbers_in(kept.at(5));
  for (const char* file : {"/data-00000.safetensors", "/index.json"}) {
    const std::string path = kept.at(5) + file;
    std::string bytes = test::read_text(path);
    bytes[bytes.size() - 10] = static_cast<char>(bytes[bytes.size() - 10] ^ 4);
    test::write_file(path, bytes);
    const Outcome outcome = kept.run("steps=6");
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("damaged"), HasSubstr("the checkpoint before it is taken")));
    EXPECT_THAT(outcome.out, HasSubstr("Goes on after step 4, from "));
    EXPECT_EQ(numbers_in(kept.at(5)), last);
  }
  for (const std::int64_t step : store::steps_in(kept.folder())) test::write_file(kept.at(step) + "/index.json", "{}");
  const Outcome none = kept.run("steps=6");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("cut short, damaged, or no index of a checkpoint"));
}

// A numbered folder without an index counts as a damaged checkpoint, not as no checkpoint.
TEST(KeptRuns, SetThoseAsideThatLackTheirIndex) {
  const Kept kept(kTinyModel);
  kept.run("steps=6");
  const auto last = numbers_in(kept.at(5));
  for (const std::int64_t step : {2, 5}) std::filesystem::remove(kept.at(step) + "/index.json");
  const Outcome check = test::outcome_of({"checkpoint", "check", kept.folder()});
  EXPECT_EQ(check.code, 1);
  for (const std::int64_t step : {2, 5}) EXPECT_THAT(check.out, HasSubstr(kept.at(step) + ": DAMAGED"));
  EXPECT_THAT(check.out, HasSubstr(kept.at(4) + ": whole"));
  EXPECT_THAT(test::outcome_of({"checkpoint", "ls", kept.folder()}).out, HasSubstr("the index of a checkpoint cannot be read"));
  const Outcome outcome = kept.run("steps=6");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("5/index.json: the index of a checkpoint cannot be read: No such file or directory"),
                                 HasSubstr("the checkpoint before it is taken"), HasSubstr(kept.at(5) + " is of a later step than "),
                                 HasSubstr(kept.at(2) + " is damaged, it has no index.json: it is " + kept.at(2) + ".aside-")));
  EXPECT_THAT(outcome.out, HasSubstr("Goes on after step 4, from "));
  EXPECT_EQ(numbers_in(kept.at(5)), last);
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 4, 5));
  for (const std::int64_t step : {0, 4, 5}) std::filesystem::remove(kept.at(step) + "/index.json");
  const Outcome none = kept.run("steps=6");
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("a run of which none is whole can begin anew under another run_name"));
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 4, 5));
}

// If the system denies access to the newest checkpoint, the run neither takes an older one nor starts anew.
TEST(KeptRuns, EndWhereTheirCheckpointsCannotBeSeen) {
  const Kept kept(kTinyModel);
  kept.run("steps=4");
  const std::string data = kept.at(3) + "/data-00000.safetensors";
  const auto as_another = [&] {
    const test::AnotherUser other;
    return kept.run("steps=6");
  };
  std::filesystem::permissions(std::filesystem::path(kept.folder()).parent_path(), std::filesystem::perms::all);
  std::filesystem::permissions(kept.metrics(), std::filesystem::perms::all);
  std::filesystem::permissions(kept.folder(), std::filesystem::perms::all);
  std::filesystem::permissions(data, std::filesystem::perms::none);
  EXPECT_THAT(as_another().err, HasSubstr(data + ": the system does not let it be read: Permission denied\n  fix: see to its permissions"));
  {
    const test::AnotherUser other;
    const Outcome check = test::outcome_of({"checkpoint", "check", kept.folder()});
    EXPECT_EQ(check.code, 1);
    EXPECT_THAT(check.out, HasSubstr(kept.at(3) + ": NOT READ\n  " + data + ": the system does not let it be read"));
  }
  std::filesystem::permissions(kept.folder(), std::filesystem::perms(0333));
  EXPECT_THAT(as_another().err, HasSubstr(kept.folder() + ": its checkpoints cannot be listed: Permission denied"));
  std::filesystem::permissions(kept.folder(), std::filesystem::perms(0555));
  const Outcome closed = as_another();
  EXPECT_EQ(closed.code, 1);
  EXPECT_THAT(closed.err, HasSubstr(kept.folder() + ": no file can be made there: Permission denied"));
  EXPECT_THAT(closed.out, Not(HasSubstr("completed step")));
  std::filesystem::permissions(kept.folder(), std::filesystem::perms(0755));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(kept.folder()), {}), 3) << "nothing is written or renamed";
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 2, 3));
}

TEST(KeptRuns, RemoveWhatThoseThatWereKilledLeft) {
  const Kept kept(kTinyModel);
  kept.run("steps=4");
  const std::string left = kept.at(40) + ".part";
  std::filesystem::copy(kept.at(3), left);
  EXPECT_EQ(kept.run("steps=4").code, 0);
  EXPECT_FALSE(std::filesystem::exists(left));
  std::filesystem::copy(kept.at(3), left);
  EXPECT_EQ(test::outcome_of({"checkpoint", "rm", kept.folder(), "--keep", "2"}).out, "1 checkpoint removed, 2 left\n");
  EXPECT_FALSE(std::filesystem::exists(left));
}

// If a checkpoint cannot be saved, as on a full disk, the run goes on, says so, and ends with an error if its last checkpoint is missing.
TEST(KeptRuns, GoOnWhereACheckpointCannotBeSaved) {
  const Kept kept(kTinyModel);
  ASSERT_EQ(kept.run("steps=2").code, 0);
  // Files may not grow to the size of a checkpoint, as on a full disk.
  const std::string out = kept.folder() + "/out", err = kept.folder() + "/err";
  EXPECT_EQ(test::shell(fmt::format("ulimit -f 32; '{}' train {} >{} 2>{}", test::binary(), kept.words("steps=4"), out, err)), 1);
  EXPECT_THAT(test::read_text(err),
              AllOf(HasSubstr("the checkpoint of step 3 is not saved: "), HasSubstr("there is no room for "),
                    HasSubstr("the one of step 1 is there"), HasSubstr("the last checkpoint of the run is not saved")));
  EXPECT_THAT(test::read_text(out), HasSubstr("completed step: 3"));
  EXPECT_THAT(store::steps_in(kept.folder()), ElementsAre(0, 1));
  EXPECT_FALSE(std::filesystem::exists(kept.at(3) + ".part"));
}

TEST(KeptRuns, HaveTheirFolderToThemselves) {
  const Kept kept(kTinyModel);
  const store::FolderLock lock(kept.folder());
  const Outcome outcome = kept.run("steps=1");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("another run writes its checkpoints there"));
}

// A checkpoint has the state of its own step, however far the next step has come while it is saved.
TEST(KeptRuns, SaveOneStepWhileTheNextIsMade) {
  const std::string request =
      kTinyMixtral + "compile_topology=cpu-2 ici_fsdp_parallelism=2 base_emb_dim=64 base_mlp_dim=512 base_moe_mlp_dim=512 ";
  const Kept beside(request), alone(request);
  beside.run("steps=5 checkpoint_period=1");
  alone.run("steps=5 checkpoint_period=1 async_checkpointing=false");
  for (std::int64_t step = 0; step < 5; ++step) EXPECT_EQ(numbers_in(beside.at(step)), numbers_in(alone.at(step))) << step;
}

// A step's line is written before its checkpoint, so what that takes is in the line of the next step.
TEST(KeptRuns, CountWhatSavingCostsAStep) {
  const Kept kept(kTinyModel);
  kept.run("steps=3 async_checkpointing=false");
  EXPECT_FALSE(metrics_in(kept.metrics())[0].contains("checkpoint_seconds"));
  EXPECT_GT(metrics_in(kept.metrics())[1].value("checkpoint_seconds", 0.0), 0);
  EXPECT_FALSE(metrics_in(kept.metrics())[2].contains("checkpoint_seconds"));
}

}  // namespace
}  // namespace moesh::train
