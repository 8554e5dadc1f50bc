#include "train/comparison.h"

#include <algorithm>

#include "base/bfloat16.h"

namespace moesh::train {

using run::Array;

std::vector<double> values_of(const Array& array) {
  std::vector<double> all(static_cast<std::size_t>(array.view.count()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i] = array.view.dtype == DType::bfloat16 ? static_cast<double>(static_cast<float>(array.as<bfloat16>()[i]))
                                                 : static_cast<double>(array.as<float>()[i]);
  }
  return all;
}

double relative(double made, double recorded) {
  return made == recorded ? 0 : std::abs(made - recorded) / std::max(std::abs(recorded), 1e-30);
}

double relative_distance(const std::vector<double>& a, const std::vector<double>& b) { return gradient_distance(a, b, 0); }

double gradient_floor(double whole) { return 1e-4 * whole; }

double gradient_distance(const std::vector<double>& a, const std::vector<double>& b, double whole) {
  double distance = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    distance += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  if (distance == 0) return 0;
  return std::sqrt(distance) / std::max({std::sqrt(norm), gradient_floor(whole), 1e-15});
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

Array gradient_of(const Trainer& trainer, const StepResults& made, std::size_t index, run::Pool& pool) {
  const Array scaled = copy_of(trainer.whole(made.gradients[index]), pool);
  for (std::int64_t i = 0; i < scaled.view.count(); ++i)
    scaled.as<float>()[i] *= static_cast<float>(made.gradient_factor);
  return scaled;
}

}  // namespace moesh::train
