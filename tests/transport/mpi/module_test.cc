// Errors that MPI returns end the run with MPI's words, and no process leaves while a message is under way.
#include <filesystem>
#include <regex>
#include <set>

#include <gmock/gmock.h>

#include "tests/process.h"
#include "tests/train/trainer_support.h"

namespace moesh::transport {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

// Calls whose errors do not matter: when the run ends because of one, and the call that words an error.
const std::set<std::string> kUnchecked{"MPI_Error_string", "MPI_Testall", "MPI_Abort"};

TEST(MpiModule, ChecksEveryCall) {
  const std::string code = test::read_text(test::source_folder() / "src/transport/mpi/module.cc");
  const std::regex call(R"((\bcheck\()?\b(MPI_[A-Z][a-z_]+)\()");
  std::vector<std::string> unchecked;
  for (std::sregex_iterator at(code.begin(), code.end(), call), end; at != end; ++at) {
    const std::string name = (*at)[2];
    const auto begin = static_cast<std::size_t>(at->position());
    if ((*at)[1].matched) {
      EXPECT_THAT(code.substr(begin, code.find(';', begin) - begin), EndsWith(", \"" + name + "\")"));
    } else if (!kUnchecked.contains(name)) {
      unchecked.push_back(name);
    }
  }
  EXPECT_THAT(unchecked, ::testing::ElementsAre("MPI_Isend")) << "only that of end_all";
}

struct Ended {
  int code = 0;
  std::string err;
};

Ended spread_run(const std::string& failing = "") {
  const test::TemporaryFolder folder;
  const test::Variable before("LD_PRELOAD", (std::filesystem::path(test::binary()).parent_path() / "libmoesh_odd_mpi.so").string());
  const test::Variable call("MOESH_FAILING_CALL", failing);
  test::Process process(
      "train base_output_directory=" + folder.path() + " " + test::kTinyMixtral +
          "compile_topology=cpu-4 ici_fsdp_parallelism=2 ici_expert_parallelism=2 num_experts=4 per_device_batch_size=1 steps=1 "
          "log_config=false run_name=r --processes 2",
      folder.path());
  const int code = process.wait();
  return {code, process.err()};
}

class MpiModuleProcessesSlow : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(test::has_mpi()) << test::kNeedsMpi; }
};

TEST_F(MpiModuleProcessesSlow, SayWhichCallFails) {
  for (const std::string call : {"MPI_Comm_dup", "MPI_Type_commit", "MPI_Isend", "MPI_Improbe", "MPI_Imrecv", "MPI_Test"}) {
    const Ended ended = spread_run(call);
    EXPECT_NE(ended.code, 0) << call;
    EXPECT_THAT(ended.err, HasSubstr("the processes of the run: " + call + " fails: MPI_ERR_OTHER")) << call;
  }
}

TEST_F(MpiModuleProcessesSlow, NeedALibraryThatAllowsThreads) {
  const Ended ended = spread_run("MPI_Init_thread");
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.err, HasSubstr("the processes of the run: MPI allows no threads in a process\n"
                                   "  fix: use an MPI library that has MPI_THREAD_FUNNELED"));
}

TEST_F(MpiModuleProcessesSlow, LeaveNoMessageUnderWay) {
  const Ended ended = spread_run();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("requests are active at MPI_Finalize")));
}

}  // namespace
}  // namespace moesh::transport
