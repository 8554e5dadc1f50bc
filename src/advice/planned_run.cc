#include "advice/planned_run.h"

#include <utility>

#include "advice/planned.h"
#include "decode/planned.h"

namespace moesh::advice {

PlannedRun plan_run(session::Session session) {
  if (session.decodes) {
    decode::PlannedStep step = decode::plan_step(session);
    return {std::move(session), std::move(step.plan), std::move(step.program.choices), std::move(step.forecast)};
  }
  PlannedStep step = plan_step(session);
  return {std::move(session), std::move(step.program.plan), std::move(step.program.choices), std::move(step.forecast)};
}

}  // namespace moesh::advice
