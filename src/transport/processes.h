// The processes that a run is spread over, as one of them sees the others.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "transport/endpoint.h"

namespace moesh::transport {

class Processes {
 public:
  virtual ~Processes() = default;

  virtual int count() const = 0;
  virtual int self() const = 0;
  bool is_first() const { return self() == 0; }
  virtual Endpoint& wire() = 0;  // to the owners of the same numbers

  // What each of them says, by process. All call it, `what` being said of them that do not.
  virtual std::vector<std::string> all_say(const std::string& words, const std::string& what) = 0;
  bool any(bool is_so, const std::string& what);
  // Each number summed over all processes.
  std::vector<std::int64_t> sums(const std::vector<std::int64_t>& numbers, const std::string& what);

  // Ends all of them with this code. What went wrong is told once, by the first process.
  virtual void end_all(int code, const std::string& what) = 0;
  virtual void set_timeout(double seconds) = 0;  // after which one that does not answer is given up
  // All have come to their end.
  virtual void leave() = 0;
};

// Another process ends the run: it has told why, or will.
struct EndedByOther : std::runtime_error {
  EndedByOther(int exit_code, const std::string& what) : std::runtime_error(what), code(exit_code) {}
  int code;
};

// Those that a launcher (mpirun, or Slurm) started together with this one, joined through MPI; null where it stands alone. `timeout`:
// seconds after which one that does not answer is given up.
std::unique_ptr<Processes> join_launched(double timeout);
// Where two processes that should be at the same place are.
[[noreturn]] void fail_apart(int process, const std::string& place, int other, const std::string& its_place);

// How many a launcher says that there are, and which this one is.
struct Launched {
  int count = 1;
  int self = 0;
};
Launched launched();

}  // namespace moesh::transport
