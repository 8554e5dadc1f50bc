#include "serve/http.h"

#include <algorithm>

#include <fmt/core.h>
#include <sys/resource.h>

#include "base/error.h"
#include "base/module.h"

namespace moesh::serve {
namespace {

using CanListen = bool (*)(const std::string& host, int port, NotHeard& why);
using Listen = HttpServer* (*)(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler, NotHeard& why);

constexpr rlim_t kOtherFiles = 64;  // open files other than connections

template <typename Function>
Function from_module(const char* name) {
  const std::filesystem::path place = module_place(kHttpModule);
  const ModuleEntry entry = open_module(place, name, false);
  if (entry.address == nullptr) fail("the module that speaks HTTP cannot be opened: " + entry.error, place.string(), "build again");
  return reinterpret_cast<Function>(entry.address);
}

[[noreturn]] void refuse_place(const std::string& host, int port, const NotHeard& why) {
  fail(fmt::format("cannot listen: {}", why.words), fmt::format("{}:{}", host, port),
       why.is_for_host ? "--host takes an address or a name of this machine, such as 127.0.0.1, or 0.0.0.0 for all; the port is --port"
                       : "another --port, or --port 0 for any");
}

rlimit files_of_process() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return files;
}

// Raises the limit of open files if needed, since each connection is one.
void make_room_for(std::int64_t connections) {
  rlimit files = files_of_process();
  const rlim_t wanted = static_cast<rlim_t>(connections) + kOtherFiles;
  if (files.rlim_cur >= wanted) return;
  if (files.rlim_max < wanted) {
    refuse(fmt::format("{} connections, and this process may have {} files open", connections, files.rlim_max), "--connections",
           "fewer, or a larger `ulimit -Hn`");
  }
  files.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

}  // namespace

std::int64_t most_connections() {
  const rlim_t most = files_of_process().rlim_max;
  const auto usual = static_cast<rlim_t>(HttpLimits{}.connections);
  return static_cast<std::int64_t>(most > usual + kOtherFiles ? usual : std::max(most, kOtherFiles + 1) - kOtherFiles);
}

void check_place(const std::string& host, int port) {
  NotHeard why;
  if (!from_module<CanListen>("moesh_can_listen")(host, port, why)) refuse_place(host, port, why);
}

std::unique_ptr<HttpServer> listen(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler) {
  make_room_for(limits.connections);
  NotHeard why;
  HttpServer* server = from_module<Listen>("moesh_listen")(host, port, limits, handler, why);
  if (server == nullptr) refuse_place(host, port, why);
  return std::unique_ptr<HttpServer>(server);
}

}  // namespace moesh::serve
