// Observes what a request leads to, in stages from cheap to expensive: the layout and graph, the data and learning rates,
// the numbers of two steps, and what a whole run prints and writes. Two requests differ if any of the stages does.
#pragma once

#include <string>
#include <vector>

namespace moesh::test {

// The layout of all tensors, the model's graph, and the program of a step.
std::string observed_plan(const std::string& request);
// The batches of two steps, in the order in which they are computed, and the learning rates.
std::string observed_data(const std::string& request);
// The bits of all parameters after two steps, and of the first step's logits.
std::string observed_numbers(const std::string& request);
// The exit code, the output without times, and the names of the files that are written.
std::string observed_run(const std::string& request);

// Whether the plans of two requests differ, or the numbers of two steps.
bool differ_as_models(const std::string& before, const std::string& after);
// Whether any of the stages differs.
bool differ(const std::string& before, const std::string& after);

}  // namespace moesh::test
