#include "foreign/launcher.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "tests/support.h"

namespace moesh::foreign {
namespace {

// The number of devices and the remaining words, such as "64: --a 1"; "?" if the command does not tell the devices.
std::string launched(const std::string& command) {
  const Launched made = take_launcher(shell_words(command, "a test"), "a test");
  return (made.devices ? std::to_string(*made.devices) : "?") + ": " + join(made.words, " ");
}

TEST(Launcher, KnowsTheDevicesThatTorchrunStarts) {
  EXPECT_EQ(launched("torchrun --nproc_per_node 8 --nnodes 4 --node_rank 0 pretrain_gpt.py --a 1"), "32: --a 1");
  EXPECT_EQ(launched("torchrun --nproc-per-node=8 pretrain_gpt.py --a 1"), "8: --a 1");
  EXPECT_EQ(launched("python -m torch.distributed.run --nproc-per-node 4 --nnodes=2 x/train.py --b"), "8: --b");
  EXPECT_EQ(launched("srun --nodes 16 --ntasks-per-node 8 python -u pretrain_gpt.py --a 1"), "128: --a 1");
  EXPECT_EQ(launched("srun --ntasks=24 python pretrain_gpt.py"), "24: ");
  EXPECT_EQ(launched("NGPU=4 ./run_train.sh --x.y 1"), "4: --x.y 1");
}

TEST(Launcher, LeavesOpenWhatIsNoNumber) {
  EXPECT_EQ(launched("torchrun --nproc_per_node gpu pretrain_gpt.py --a 1"), "?: --a 1");
  EXPECT_EQ(launched("torchrun --nproc_per_node 8 --nnodes $N pretrain_gpt.py --a 1"), "?: --a 1");
  EXPECT_EQ(launched("torchrun --nproc_per_node 8 --nnodes 1:4 pretrain_gpt.py"), "?: ");
  EXPECT_EQ(launched("torchrun --nproc_per_node 0 pretrain_gpt.py"), "?: ");
  EXPECT_EQ(launched("NGPU=$N ./run_train.sh"), "?: ");
}

TEST(Launcher, FlagsAloneMaySayTheDevicesToo) {
  EXPECT_EQ(launched("--a 1 --world-size 64 --b"), "64: --a 1 --b");
  EXPECT_EQ(launched("--a 1 --nnodes 2 --nproc-per-node 8"), "16: --a 1");
  EXPECT_EQ(launched("torchrun --nproc_per_node=8 --role rank --tee 3 -m torchtitan.train --config x"), "8: --config x");
}

TEST(Launcher, EndsWhereTheShellGoesOn) {
  EXPECT_EQ(launched("torchrun --nproc_per_node 8 pretrain_gpt.py --a 1 2>&1 | tee --b"), "8: --a 1");
  EXPECT_EQ(launched("python pretrain_gpt.py --a 1; rm --b"), "?: --a 1");
}

TEST(Launcher, RefusesFlagsThatStandElsewhere) {
  EXPECT_EQ(test::message_of([] { launched("torchrun pretrain_gpt.py ${MODEL_ARGS[@]}"); }),
            "a test: '${MODEL_ARGS[@]}', whose flags stand elsewhere\n"
            "  fix: give the command with its arrays written out, as `bash -x SCRIPT` prints it");
}

}  // namespace
}  // namespace moesh::foreign
