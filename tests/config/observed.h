// What a request comes to, in stages from cheap to dear: the layout and graph, the data and rates, the numbers of two
// steps, and what a whole run prints and leaves behind. Two requests differ when one of the stages does.
#pragma once

#include <string>
#include <vector>

namespace moesh::test {

// Where everything lies, the model's graph, and the programs of a step.
std::string observed_plan(const std::string& request);
// Batches of two steps, in the order that they are computed in; learning rates.
std::string observed_data(const std::string& request);
// The bits of all parameters after two steps, and of the first step's logits.
std::string observed_numbers(const std::string& request);
// The exit code, what is printed but for times, and the files that are written.
std::string observed_run(const std::string& request);

// Whether a command that plans, or the numbers of two steps, tell the two requests apart.
bool differ_as_models(const std::string& before, const std::string& after);
// Whether anything does.
bool differ(const std::string& before, const std::string& after);

}  // namespace moesh::test
