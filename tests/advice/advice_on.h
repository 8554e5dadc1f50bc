// The advice on a request, as lint gives it.
#pragma once

#include <string>
#include <vector>

#include "advice/advise.h"
#include "session/reopen.h"
#include "tests/support.h"

namespace moesh::advice {

inline Advice advice_on(const std::vector<std::string>& request) {
  return advise(request, session::reopen(request, session::Evenness::reported));
}

inline Advice advice_on(const std::string& request) { return advice_on(test::words_of(request)); }

inline std::string told(const Advice& advice) { return sharding::to_text(advice.findings); }

}  // namespace moesh::advice
