// Compares computed numbers with expected ones; verdicts are made of these comparisons.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "run/array.h"
#include "train/trainer.h"

namespace moesh::train {

struct Verdict {
  std::string quantity;  // "loss", "logits", "gradients", "parameters after 10 steps"
  double error = 0;      // the largest one found
  double tolerance = 0;
  std::string worst;  // where the largest error is: a step, a tensor

  bool passes() const { return error <= tolerance; }  // false for NaN
};

// Keeps the largest error that it is shown; a NaN counts as larger than anything.
class Worst {
 public:
  explicit Worst(std::string quantity, double tolerance) : verdict_{std::move(quantity), 0, tolerance, ""} {}

  void see(double error, const std::string& where) {
    if (std::isnan(verdict_.error) || (!std::isnan(error) && error <= verdict_.error && !verdict_.worst.empty()))
      return;
    verdict_.error = error;
    verdict_.worst = where;
  }
  Verdict verdict() const { return verdict_; }

 private:
  Verdict verdict_;
};

std::vector<double> values_of(const run::Array& array);

double relative(double made, double recorded);
// |a - b| / |b|, by the Euclidean norm; NaN stays NaN.
double relative_distance(const std::vector<double>& a, const std::vector<double>& b);
// The same of a tensor's gradient, where `whole` is the norm of the gradient of all parameters. A gradient far smaller than that may be
// rounding errors only, so it is compared relative to a share of the whole.
double gradient_distance(const std::vector<double>& a, const std::vector<double>& b, double whole);
double gradient_floor(double whole);
double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

// The gradient of a parameter with respect to the loss of the whole batch, gathered from all devices.
run::Array gradient_of(const Trainer& trainer, const StepResults& made, std::size_t index, run::Pool& pool);

}  // namespace moesh::train
