// Recorded runs on drawn layouts: each gives the recorded numbers, or is refused as a wrong request.
//
//   MOESH_SWEEP_DRAWS=3000     number of draws, over all tests of the suite
//   MOESH_SWEEP_SEED=1         another seed draws other layouts
//   MOESH_SWEEP_FIRST=0        number of the first draw
//   MOESH_SWEEP_VERBOSE=1      prints each draw and its outcome to the error stream, and the count of each refusal
#include <algorithm>
#include <cstdio>
#include <map>

#include <gmock/gmock.h>

#include "plan/verify.h"
#include "tests/layout_draws.h"
#include "tests/paths.h"
#include "tests/train/train_support.h"
#include "train/program.h"
#include "train/reference_run.h"
#include "train/verify.h"

namespace moesh::train {
namespace {

using ::testing::HasSubstr;
using test::LayoutDraw;
using test::RunTraits;
using test::sweep_setting;

constexpr std::uint64_t kShares = 10;
constexpr std::uint64_t kEnough = 20;  // with fewer draws per share, the number of refusals is not checked

struct KnownRun {
  ReferenceRun run;
  RunTraits traits;
};

// The first update leaves the parameters unchanged; the second one shows in the third loss.
constexpr std::size_t kSteps = 3;

const KnownRun& known_run(const std::string& name) {
  static std::map<std::string, KnownRun> known;
  const auto found = known.find(name);
  if (found != known.end()) return found->second;
  KnownRun made{read_reference_run((test::kRecordedRuns / name).string()), {}};
  made.run.curve.resize(kSteps);
  std::vector<std::string> request = made.run.request;
  request.emplace_back("compile_topology=cpu-1");
  made.traits = test::traits_of(session::open(request));
  return known.emplace(name, std::move(made)).first->second;
}

struct End {
  enum class Kind { equal, refused, wrong } kind = Kind::equal;
  std::string what;
};

std::string words_of(const Verdict& v) {
  return fmt::format("{}: {:.2e}, at most {:.2e} was expected ({})", v.quantity, v.error, v.tolerance, v.worst);
}

End end_of(const KnownRun& known, const std::vector<std::string>& changes) {
  ::testing::internal::CaptureStderr();
  End end;
  try {
    std::vector<std::string> request = known.run.request;
    request.insert(request.end(), changes.begin(), changes.end());
    const session::Session session = session::open_to_run(request, config::Run::steps);
    if (const std::string path = test::path_of_two(session.layout); !path.empty()) return {End::Kind::wrong, "two tensors at " + path};
    backend::Workers workers(1);
    const StepProgram program = step_program(session.graph, session.loaded.settings, {session.layout, session.target});
    if (const std::string rule = plan::broken_rule(program.plan); !rule.empty()) return {End::Kind::wrong, rule};
    const Subject subject{session.graph, session.loaded.settings, session.batch, {session.layout, session.target}};
    for (const Verdict& verdict : verify(known.run, subject, workers).verdicts) {
      if (!verdict.passes() && end.what.empty()) end = {End::Kind::wrong, words_of(verdict)};
    }
  } catch (const Error& error) {
    end = {error.exit_code() == 2 ? End::Kind::refused : End::Kind::wrong, error.what()};
  } catch (const std::exception& error) {
    end = {End::Kind::wrong, error.what()};
  }
  ::testing::internal::GetCapturedStderr();
  return end;
}

// Reduces a message to its kind by dropping the place and replacing numbers by '#'.
std::string kind_of(const std::string& message) {
  std::string kind;
  const std::string first = message.substr(0, message.find('\n'));
  const std::string what = first.substr(first.find(": ") == std::string::npos ? 0 : first.find(": ") + 2);
  for (const char c : what) {
    const bool is_digit = c >= '0' && c <= '9';
    if (!is_digit || kind.empty() || kind.back() != '#') kind += is_digit ? '#' : c;
  }
  return kind;
}

struct Counts {
  int equal = 0, refused = 0, wrong = 0;
  std::map<std::string, int> refusals;
};

void print(const Counts& counts) {
  fmt::print(stderr, "sweep: {} equal, {} refused, {} wrong\n", counts.equal, counts.refused, counts.wrong);
  std::vector<std::pair<int, std::string>> kinds;
  for (const auto& [kind, count] : counts.refusals) kinds.emplace_back(count, kind);
  std::sort(kinds.rbegin(), kinds.rend());
  for (const auto& [count, kind] : kinds) fmt::print(stderr, "sweep refusal: {:5} {}\n", count, kind);
}

class LayoutSweepSlow : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(LayoutSweepSlow, IsAsRecordedOrRefused) {
  const std::uint64_t draws = test::sweep_draws(600), seed = sweep_setting("MOESH_SWEEP_SEED", 1);
  const std::uint64_t first = sweep_setting("MOESH_SWEEP_FIRST", 0);
  const bool is_verbose = sweep_setting("MOESH_SWEEP_VERBOSE", 0) != 0;
  const std::vector<std::string> names = test::cases_in(test::kRecordedRuns);
  Counts counts;
  for (std::uint64_t i = draws * GetParam() / kShares; i < draws * (GetParam() + 1) / kShares; ++i) {
    LayoutDraw draw(seed, first + i);
    const std::string name = draw.one_of(names);
    const std::vector<std::string> changes = draw.changes(known_run(name).traits);
    const std::string line = fmt::format("draw {}: moesh verify tests/golden/models/{} {}", first + i, name, join(changes, " "));
    if (is_verbose) fmt::print(stderr, "{}\n", line);
    const End end = end_of(known_run(name), changes);
    if (is_verbose && end.kind != End::Kind::equal) fmt::print(stderr, "  {}\n", end.what);
    counts.equal += end.kind == End::Kind::equal;
    counts.wrong += end.kind == End::Kind::wrong;
    counts.refused += end.kind == End::Kind::refused;
    if (end.kind == End::Kind::refused) ++counts.refusals[kind_of(end.what)];
    EXPECT_TRUE(end.kind != End::Kind::wrong) << line << "\n" << end.what;
  }
  if (is_verbose) print(counts);
  if (draws / kShares >= kEnough) {
    EXPECT_GE(counts.equal, counts.refused) << "draws that are refused show little";
  }
}

INSTANTIATE_TEST_SUITE_P(Share, LayoutSweepSlow, ::testing::Range<std::uint64_t>(0, kShares));

TEST(LayoutSweep, TellsWhatIsEqualRefusedAndWrong) {
  const KnownRun& run = known_run("mixtral");
  EXPECT_EQ(end_of(run, {"compile_topology=cpu-1"}).kind, End::Kind::equal);
  EXPECT_EQ(end_of(run, {"compile_topology=cpu-1", "no_such_key=1"}).kind, End::Kind::refused);
  const End wrong = end_of(run, {"compile_topology=cpu-1", "learning_rate=0.1"});
  EXPECT_EQ(wrong.kind, End::Kind::wrong);
  EXPECT_THAT(wrong.what, HasSubstr("(step 2)"));
}

TEST(LayoutSweep, DrawsEveryKindOften) {
  std::map<std::string, int> counts;
  const RunTraits traits{8, 1, 8, false, false, false, {"embed"}};
  for (std::uint64_t i = 0; i < 400; ++i) {
    for (const std::string& word : LayoutDraw(1, i).changes(traits)) {
      const std::string key = word.substr(0, word.find('='));
      const bool is_mesh = key.starts_with("ici_");
      if (!is_mesh || !word.ends_with("=1")) ++counts[is_mesh ? key : word.starts_with("logical") ? key : word];
    }
  }
  for (const char* axis : {"data", "fsdp", "fsdp_transpose", "context", "tensor", "tensor_sequence", "expert", "autoregressive"}) {
    EXPECT_GT(counts[mesh::key_for(mesh::Level::ici, axis)], 15) << axis;
  }
  for (const char* word : {"custom_mesh_and_rule=ep-tp", "custom_mesh_and_rule=2d-fsdp", "sparse_matmul=true", "sparse_matmul=false",
                           "use_ring_of_experts=true", "capacity_factor=8", "moe_dispatch_no_expert_sharding=true",
                           "num_moe_token_chunks=2", "num_moe_emb_chunks=4", "remat_policy=minimal", "remat_policy=custom",
                           "shard_mode=explicit", "gradient_accumulation_steps=2", "compile_topology_num_slices=2", "logical_axis_rules"}) {
    EXPECT_GT(counts[word], 5) << word;
  }
}

}  // namespace
}  // namespace moesh::train
