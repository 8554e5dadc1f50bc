#include "train/scalars.h"

#include <cmath>

namespace moesh::train {

Scalars scalars_of(const StepMetrics& m, const StepSpeed& speed) {
  Scalars all{{"learning/loss", m.loss},
              {"learning/lm_loss", m.lm_loss},
              {"learning/perplexity", std::exp(m.lm_loss)},
              {"learning/z_loss", m.z_loss},
              {"learning/moe_lb_loss", m.balance_loss},
              {"learning/total_weights", m.total_weights}};
  if (m.mtp_loss) all.emplace_back("learning/mtp_loss", *m.mtp_loss);
  if (m.index_loss) all.emplace_back("learning/indexer_loss", *m.index_loss);
  if (m.max_logits) all.emplace_back("learning/max_logits", *m.max_logits);
  all.emplace_back("learning/raw_grad_norm", m.raw_grad_norm);
  all.emplace_back("learning/grad_norm", m.grad_norm);
  all.emplace_back("learning/param_norm", m.param_norm);
  all.emplace_back("learning/current_learning_rate", m.learning_rate);
  all.emplace_back("perf/step_time_seconds", speed.seconds);
  all.emplace_back("perf/per_device_tflops", speed.flops * 1e-12);
  all.emplace_back("perf/per_device_tflops_per_sec", speed.flops * 1e-12 / speed.seconds);
  all.emplace_back("perf/per_device_tokens", speed.tokens);
  all.emplace_back("perf/per_device_tokens_per_sec", speed.tokens / speed.seconds);
  if (m.limits) all.emplace_back("optim/step_skipped", m.is_left_out ? 1 : 0);
  return all;
}

Scalars scalars_of(const EvalMetrics& m) {
  Scalars all{{"eval/avg_loss", m.loss},
              {"eval/avg_perplexity", std::exp(m.loss)},
              {"eval/total_weights", m.total_weights},
              {"eval/avg_z_loss", m.z_loss},
              {"eval/avg_moe_lb_loss", m.balance_loss}};
  if (m.mtp_loss) all.emplace_back("eval/avg_mtp_loss", *m.mtp_loss);
  if (m.mtp_acceptance) all.emplace_back("eval/avg_mtp_acceptance_rate_percent", *m.mtp_acceptance);
  if (m.index_loss) all.emplace_back("eval/avg_indexer_loss", *m.index_loss);
  return all;
}

}  // namespace moesh::train
