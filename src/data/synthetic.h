// Random tokens, and sources that change the order of another source's rows.
#pragma once

#include <cstdint>
#include <memory>

#include "config/settings.h"
#include "data/source.h"

namespace moesh::data {

// The same `rows` rows at every step, as in the reference's synthetic data.
std::unique_ptr<TokenSource> synthetic(const config::Settings& settings, std::int64_t rows);

// The first `rows` rows again and again.
std::unique_ptr<TokenSource> reused(std::unique_ptr<TokenSource> source, std::int64_t rows);

// One round, and padding after it.
std::unique_ptr<TokenSource> once(std::unique_ptr<TokenSource> source);

}  // namespace moesh::data
