#include "transport/processes.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include <fmt/core.h>

#include "base/error.h"
#include "base/module.h"
#include "base/text.h"

namespace moesh::transport {
namespace {

using Join = Processes* (*)(double timeout);

int number_in(std::initializer_list<const char*> variables, int otherwise) {
  for (const char* variable : variables) {
    const char* text = std::getenv(variable);
    const auto number = text == nullptr ? std::nullopt : parse_integer(text);
    if (number && *number >= 0 && *number < 1'000'000) return static_cast<int>(*number);
  }
  return otherwise;
}

// MPI lies in a library of its own, which is loaded only for runs of several processes.
Join load_module() {
  check_can_join();
  const std::filesystem::path place = module_place(kMpiModule);
  const ModuleEntry join = open_module(place, "moesh_join_processes", true);
  if (join.address == nullptr) {
    fail("the library that joins other processes cannot be used: " + join.error, "several processes",
         "install the library that is missing, or build moesh again on this machine");
  }
  return reinterpret_cast<Join>(join.address);
}

}  // namespace

void check_can_join() {
  const std::filesystem::path place = module_place(kMpiModule);
  if (std::filesystem::exists(place)) return;
  refuse(fmt::format("this moesh cannot join other processes: no {} beside the program", kMpiModule), place.parent_path().string(),
         "install libopenmpi-dev and openmpi-bin, and build again: rm -r build/release; or copy the library with the program");
}

bool Processes::any(bool is_so, const std::string& what) {
  const std::vector<std::string> all = all_say(is_so ? "1" : "0", what);
  return std::find(all.begin(), all.end(), "1") != all.end();
}

std::vector<std::int64_t> Processes::sums(const std::vector<std::int64_t>& numbers, const std::string& what) {
  std::string said;
  for (const std::int64_t number : numbers) said += fmt::format("{} ", number);
  std::vector<std::int64_t> sums(numbers.size());
  for (const std::string& words : all_say(said, what)) {
    const std::vector<std::string> of_one = split(words, ' ');
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += parse_integer(of_one[i]).value_or(0);
  }
  return sums;
}

void fail_apart(int process, const std::string& place, int other, const std::string& its_place) {
  fail(fmt::format("process {} is at {}, process {} at {}", process, place, other, its_place), "the collectives of the run",
       "all processes must run the same program: start them anew");
}

Launched launched() {
  Launched of{number_in({"OMPI_COMM_WORLD_SIZE"}, 0), number_in({"OMPI_COMM_WORLD_RANK"}, 0)};
  // Under Slurm, only a step of several tasks counts: a batch script itself is one process, whatever the job has.
  if (of.count == 0 && std::getenv("SLURM_STEP_ID") != nullptr && std::getenv("PMIX_RANK") != nullptr) {
    of = {number_in({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}, 1), number_in({"PMIX_RANK", "SLURM_PROCID"}, 0)};
  }
  return {std::max(1, of.count), of.self};
}

std::unique_ptr<Processes> join_launched(double timeout) {
  if (launched().count == 1) return nullptr;
  return std::unique_ptr<Processes>(load_module()(timeout));
}

}  // namespace moesh::transport
