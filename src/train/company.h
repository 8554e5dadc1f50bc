// The processes that train together, as one of them sees them; a process that trains alone is a company of one.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "transport/processes.h"

namespace moesh::train {

struct Company {
  transport::Processes* processes = nullptr;  // null: alone
  bool checks_collectives = false;

  int count() const { return processes == nullptr ? 1 : processes->count(); }
  int self() const { return processes == nullptr ? 0 : processes->self(); }
  bool is_first() const { return self() == 0; }

  // Gathers a message from each process; all must call it. `what`: where the callers are, to report a process that does not answer.
  std::vector<std::string> all_say(const std::string& words, const std::string& what) const {
    return processes == nullptr ? std::vector{words} : processes->all_say(words, what);
  }
  std::string first_says(const std::string& words, const std::string& what) const { return all_say(words, what).front(); }
  bool any(bool is_so, const std::string& what) const { return processes == nullptr ? is_so : processes->any(is_so, what); }
};

// Checks that facts, each a name and a value, are the same in all processes before they begin. Refuses the first one that differs,
// naming the process.
void check_same(const Company& company, const std::vector<std::pair<std::string, std::string>>& facts);

}  // namespace moesh::train
