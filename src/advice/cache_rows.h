// Rows of the KV cache along axes of which every device holds them all.
#pragma once

#include <optional>

#include "advice/remedies.h"

namespace moesh::advice {

// The setting that lays the rows of the KV cache over the axes of the mesh that carry the batch of activations, where these do not shard
// the cache yet: none if there are no such axes, if the request has a rule for the rows itself, or uses a rule set, whose rules stay.
Keys with_rows_of_cache(const session::Session& session, const mesh::Mesh& mesh);

// The same for a request that decodes, planned; nothing if that is refused or no faster.
std::optional<Offer> spread_cache(const Request& request, const session::Session& session, const forecast::Forecast& forecast,
                                  session::DecodeStage stage);

// "'logical_axis_rules=[[cache_batch,[expert]]]' spreads its rows over expert: ..."
std::string spread_words(const Offer& offer, const forecast::Forecast& before);

}  // namespace moesh::advice
