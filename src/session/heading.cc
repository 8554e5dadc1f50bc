#include "session/heading.h"

#include "config/batch_words.h"

namespace moesh::session {
namespace {

std::int64_t length_of(const Session& session) { return session.loaded.settings.integer("max_target_length"); }

}  // namespace

std::string heading(const Session& session) {
  return headline(session) + "\n" + config::batch_words(session.batch, length_of(session), session.mesh.devices());
}

std::string batch_json(const Session& session) {
  return config::batch_json(session.batch, length_of(session), session.mesh.devices());
}

}  // namespace moesh::session
