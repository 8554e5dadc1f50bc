// Matrix products by libraries that may be installed, to compare this engine's with. They are opened here, and nothing else uses them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace moesh::measure {

// c = a b. Each matrix lies row by row in memory, or column by column if it is transposed.
struct Product {
  std::int64_t rows = 0, columns = 0, depth = 0;
  bool a_transposed = false, b_transposed = false;
  const float* a = nullptr;
  const float* b = nullptr;
  float* c = nullptr;
};

struct Library {
  std::string name;  // "OpenBLAS 0.3.21"
  std::function<void(const Product&)> multiply;
};

// OpenBLAS and oneDNN, those that are installed, each computing with so many threads.
std::vector<Library> installed_libraries(int threads);

}  // namespace moesh::measure
