// Random tokens, and sources that change the order of another one's rows.
#pragma once

#include <cstdint>
#include <memory>

#include "config/settings.h"
#include "data/source.h"

namespace moesh::data {

// The same `rows` at every step, as the reference's synthetic data has them.
std::unique_ptr<TokenSource> synthetic(const config::Settings& settings, std::int64_t rows);

// The first `rows` again and again.
std::unique_ptr<TokenSource> reused(std::unique_ptr<TokenSource> source, std::int64_t rows);

// One round, and padding behind it.
std::unique_ptr<TokenSource> once(std::unique_ptr<TokenSource> source);

}  // namespace moesh::data
