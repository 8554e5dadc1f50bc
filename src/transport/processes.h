// The processes that a run is spread over, as one of them sees the others.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/endpoint.h"

namespace moesh::transport {

// What is true of every run that ended without saving a checkpoint.
inline constexpr const char* kWhatIsLeft = "the run can go on from its newest whole checkpoint, if it has one";

class Processes {
 public:
  virtual ~Processes() = default;

  virtual int count() const = 0;
  virtual int self() const = 0;
  bool is_first() const { return self() == 0; }
  virtual Endpoint& wire() = 0;  // to the other owners; owner i is process i

  // Gathers a message from each process; all must call it. `what`: where the callers are, to report a process that does not answer.
  virtual std::vector<std::string> all_say(const std::string& words, const std::string& what) = 0;
  bool any(bool is_so, const std::string& what);
  // Each number summed over all processes.
  std::vector<std::int64_t> sums(const std::vector<std::int64_t>& numbers, const std::string& what);

  // Ends all processes with this exit code. The first process reports what went wrong; another one does only if the first has not
  // ended it in time.
  virtual void end_all(int code, const std::string& what) = 0;
  virtual void set_timeout(double seconds) = 0;  // seconds after which a process that does not answer is given up
  // Ends the communication, when all processes have come to their end.
  virtual void leave() = 0;
};

// Another process ends the run, and has reported why or will do so.
struct EndedByOther : std::runtime_error {
  EndedByOther(int exit_code, const std::string& what) : std::runtime_error(what), code(exit_code) {}
  int code;
};

// Refuses a run of several processes if the library that joins them is not there.
void check_can_join();
// Joins, through MPI, the processes that a launcher (mpirun, or Slurm) started together with this one; null if this one is alone.
// `timeout`: seconds after which a process that does not answer is given up.
std::unique_ptr<Processes> join_launched(double timeout);
// Fails with a message that says where two processes are which should be at the same place.
[[noreturn]] void fail_apart(int process, const std::string& place, int other, const std::string& its_place);

// How many processes a launcher says there are, and which one this is.
struct Launched {
  int count = 1;
  int self = 0;
};
Launched launched();

}  // namespace moesh::transport
