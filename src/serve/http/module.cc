// The HTTP module: cpp-httplib parses requests and writes answers; this file manages connections, their threads and their limits.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include <httplib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/http.h"
#include "serve/http/pool.h"
#include "serve/http/socket.h"

namespace moesh::serve {
namespace {

// A connection as the library reads and writes it. The library sees descriptor 0, since it does not accept descriptors above 1,023.
class Stream final : public httplib::Stream {
 public:
  explicit Stream(Socket& socket) : socket_(socket) {}

  bool is_readable() const override { return socket_.is_readable(); }
  bool is_writable() const override { return socket_.is_alive(); }
  ssize_t read(char* to, std::size_t most) override { return socket_.read(to, most); }
  ssize_t write(const char* from, std::size_t bytes) override { return socket_.write(from, bytes) ? static_cast<ssize_t>(bytes) : -1; }
  void get_remote_ip_and_port(std::string&, int&) const override {}
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return 0; }

 private:
  Socket& socket_;
};

// Names of the parameters in which `prepare` hands the path and content type of a request to its handler.
constexpr const char *kPath = "path", *kType = "type";
constexpr const char* kUnclear = "unclear";  // there if the head does not say where the body ends, or whose host is asked

constexpr int kLongLine = 414;
constexpr const char* kOldVersion = "HTTP/1.0";  // does not support chunked answers

void set(httplib::Headers& headers, const char* name, const char* value) {
  headers.erase(name);
  headers.emplace(name, value);
}

// The path of a request that names it as clients of a proxy do, "http://host:port/path".
std::string path_of(const std::string& target) {
  for (const std::string scheme : {"http://", "https://"}) {
    if (::strncasecmp(target.c_str(), scheme.c_str(), scheme.size()) != 0) continue;
    const std::size_t begin = target.find('/', scheme.size());
    return begin == std::string::npos ? "/" : target.substr(begin);
  }
  return target;
}

// Whether the head tells in one way where the body ends. Two that read it differently, such as a proxy and this server, would disagree on
// where the next request begins.
bool is_clear(const httplib::Request& request) {
  const auto [first, last] = request.headers.equal_range("Content-Length");
  for (auto length = first; length != last; ++length) {
    const bool is_number = !length->second.empty() && length->second.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || length->second != first->second) return false;
  }
  const std::string encoding = request.get_header_value("Transfer-Encoding");
  const std::size_t encodings = request.get_header_value_count("Transfer-Encoding");
  if (encodings > 1 || (encodings == 1 && (first != last || ::strcasecmp(encoding.c_str(), "chunked") != 0))) return false;
  return request.version == kOldVersion || request.get_header_value_count("Host") == 1;
}

// Whether the body is longer than `most` bytes by its declared length.
bool is_declared_longer(const httplib::Request& request, std::int64_t most) {
  return request.get_header_value<std::uint64_t>("Content-Length") > static_cast<std::uint64_t>(most);
}

// Whether the body is compressed or the like, so that it must be decoded before it can be read.
bool is_encoded(const httplib::Request& request) {
  const std::string encoding = request.get_header_value("Content-Encoding");
  return !encoding.empty() && ::strcasecmp(encoding.c_str(), "identity") != 0;
}

// Tells the library, as it reads and writes, whether the client is still there; handlers find the connection of a request by it.
struct ClientIsThere {
  Socket& socket;
  bool operator()(std::uint64_t, std::uint64_t) const { return socket.is_alive(); }
};
Socket& socket_of(const httplib::Request& request) { return request.progress.target<ClientIsThere>()->socket; }

// Whether the library has read the head of a request; if not, where the next request begins is not known.
bool is_understood(const httplib::Request& request) { return request.has_param(kPath); }

// Called after the head of a request is read. One handler answers all paths, so no path is matched against patterns. Bodies are not parsed
// by their content type, and answers are neither compressed nor cut to ranges.
void prepare(httplib::Request& request, Socket& socket, std::int64_t most_bytes) {
  socket.end_head();
  request.params = {{kPath, path_of(request.path)}, {kType, request.get_header_value("Content-Type")}};
  request.path = "/";
  request.ranges.clear();
  for (const char* name : {"Content-Type", "Accept-Encoding", "Range"}) request.headers.erase(name);
  if (!is_clear(request)) {
    request.params.emplace(kUnclear, "");
    for (const char* name : {"Content-Length", "Transfer-Encoding", "Expect"}) request.headers.erase(name);
    set(request.headers, "Connection", "close");
  }
  request.progress = ClientIsThere{socket};
  const bool has_length = request.has_header("Content-Length"), is_chunked = request.has_header("Transfer-Encoding");
  const bool takes_body = request.method == "POST" || request.method == "PUT" || request.method == "PATCH" || request.method == "DELETE";
  if (takes_body && !has_length && !is_chunked) request.headers.emplace("Content-Length", "0");
  const bool is_unread = is_declared_longer(request, most_bytes) || is_encoded(request);
  if (is_unread) request.headers.erase("Expect");  // so that the client is not told to send it
  // The connection closes after this request if the end of the body or of the answer is ambiguous, or if nothing reads the body.
  const bool is_uncertain = (!takes_body && (has_length || is_chunked)) || is_unread;
  if (is_uncertain || request.version == kOldVersion) set(request.headers, "Connection", "close");
}

class Http final : public HttpServer, private httplib::Server {
 public:
  Http(int descriptor, int port, const HttpLimits& limits, HttpHandler& handler)
      : limits_(limits), handler_(handler), descriptor_(descriptor), port_(port), pool_(limits.connections) {
    svr_sock_ = descriptor_;  // without it the library considers itself stopped
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      answer(request, response, {}, HttpRequest::Body::whole);
    };
    const auto with_body = [this](const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
      std::string body;
      const HttpRequest::Body came = read_body(request, reader, body);
      answer(request, response, std::move(body), came);
    };
    Get("/", without_body).Options("/", without_body);
    Post("/", with_body).Put("/", with_body).Patch("/", with_body).Delete("/", with_body);
    set_error_handler([this](const httplib::Request& request, httplib::Response& response) { refuse(request, response); });
    set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) { response.status = 500; });
    set_keep_alive_max_count(1'000'000);
    set_keep_alive_timeout(static_cast<time_t>(limits_.idle_seconds));
    acceptor_ = std::thread([this] { accept_all(); });
  }
  ~Http() override { stop(); }

  int port() const override { return port_; }
  std::int64_t connections() const override { return pool_.busy(); }

  void stop() override {
    if (!acceptor_.joinable()) return;
    is_ending_ = true;
    ::shutdown(descriptor_, SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      for (const Socket* socket : open_) socket->close_reading();
    }
    pool_.stop();
    acceptor_.join();
    ::close(descriptor_);
  }

 private:
  // Errors that may last, such as too many open files, do not stop the server: it waits a little and tries again.
  void accept_all() {
    while (!is_ending_) {
      const int connection = ::accept4(descriptor_, nullptr, nullptr, SOCK_CLOEXEC);
      if (connection >= 0) {
        if (!pool_.run([this, connection] { serve(connection); })) ::close(connection);
      } else if (errno != EINTR && errno != ECONNABORTED && !is_ending_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
  }

  void serve(int connection) {
    Socket socket(connection, limits_, is_ending_);
    const Registered registered(*this, socket);
    try {
      Stream stream(socket);
      bool closes = false;
      while (!closes && !socket.is_given_up() && socket.begin_request()) {
        closes = true;  // unless the head of the request is understood
        if (process_request(stream, false, closes, [&](httplib::Request& request) { prepare(request, closes, socket); })) continue;
        if (socket.is_head_too_long()) refuse_first_line(socket);
        break;
      }
    } catch (...) {  // out of memory, or an answer that was cut off: the connection ends
    }
  }

  void prepare(httplib::Request& request, bool& closes, Socket& socket) const {
    serve::prepare(request, socket, limits_.body_bytes);
    closes = request.get_header_value("Connection") == "close";
  }

  // The library says nothing to a first line that does not end within the head's limit.
  void refuse_first_line(Socket& socket) {
    const HttpAnswer answer = handler_.refusal(kLongLine);
    std::string text = "HTTP/1.1 " + std::to_string(answer.status) + " URI Too Long\r\nConnection: close\r\nContent-Type: ";
    text += answer.content_type + "\r\nContent-Length: " + std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
    socket.write(text.data(), text.size());
  }

  // A body that is declared as too long is not waited for. One that turns out to be too long is read to its end and discarded; otherwise
  // the client would not receive the answer.
  HttpRequest::Body read_body(const httplib::Request& request, const httplib::ContentReader& reader, std::string& body) const {
    if (is_declared_longer(request, limits_.body_bytes)) return HttpRequest::Body::too_long;
    if (is_encoded(request)) return HttpRequest::Body::encoded;
    const auto most = static_cast<std::size_t>(limits_.body_bytes);
    bool is_too_long = false;
    const bool is_whole = reader([&](const char* bytes, std::size_t count) {
      is_too_long = is_too_long || body.size() + count > most;
      if (!is_too_long) body.append(bytes, count);
      return true;
    });
    Socket& socket = socket_of(request);
    const bool is_cut_short = !is_whole && socket.is_given_up();
    if (!is_whole) socket.give_up();  // where the next request begins is not known
    if (is_too_long) return HttpRequest::Body::too_long;
    return is_whole ? HttpRequest::Body::whole : is_cut_short ? HttpRequest::Body::cut_short : HttpRequest::Body::broken;
  }

  void answer(const httplib::Request& request, httplib::Response& response, std::string body, HttpRequest::Body came) {
    if (request.has_param(kUnclear)) return give(handler_.refusal(400), response, true);
    const auto param = [&](const char* name) { return request.params.find(name)->second; };
    const auto is_alive = [&request] { return request.progress(0, 0); };
    if (came == HttpRequest::Body::broken) response.set_header("Connection", "close");
    give(handler_.answer({request.method, param(kPath), param(kType), std::move(body), came, is_alive}), response,
         request.version == kOldVersion);
  }

  void refuse(const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty() || response.content_provider_) return;
    give(handler_.refusal(response.status), response, true);
    if (!is_understood(request)) response.set_header("Connection", "close");
  }

  static void give(HttpAnswer answer, httplib::Response& response, bool until_it_closes) {
    response.status = answer.status;
    for (const auto& [name, value] : answer.headers) response.set_header(name, value);
    if (!answer.next) {
      response.set_content(answer.body, answer.content_type);
      return;
    }
    auto pieces = [next = std::move(answer.next)](std::size_t, httplib::DataSink& sink) {
      const std::optional<std::string> piece = next();
      if (!piece) sink.done();
      return !piece || piece->empty() || sink.write(piece->data(), piece->size());
    };
    if (until_it_closes) response.set_content_provider(answer.content_type, std::move(pieces));
    else response.set_chunked_content_provider(answer.content_type, std::move(pieces));
  }

  // Keeps a socket in `open_` during its lifetime.
  struct Registered {
    Registered(Http& of, const Socket& socket_) : http(of), socket(socket_) {
      const std::lock_guard lock(http.mutex_);
      http.open_.insert(&socket);
    }
    ~Registered() {
      const std::lock_guard lock(http.mutex_);
      http.open_.erase(&socket);
    }
    Http& http;
    const Socket& socket;
  };

  const HttpLimits limits_;
  HttpHandler& handler_;
  const int descriptor_, port_;
  std::atomic<bool> is_ending_{false};
  std::mutex mutex_;
  std::set<const Socket*> open_;
  Pool pool_;
  std::thread acceptor_;
};

}  // namespace

extern "C" bool moesh_can_listen(const std::string& host, int port, NotHeard& why) {
  int tried = port;
  const int descriptor = listening_socket(host, tried, why);
  if (descriptor >= 0) ::close(descriptor);
  return descriptor >= 0;
}

extern "C" HttpServer* moesh_listen(const std::string& host, int port, const HttpLimits& limits, HttpHandler& handler, NotHeard& why) {
  const int descriptor = listening_socket(host, port, why);
  return descriptor < 0 ? nullptr : new Http(descriptor, port, limits, handler);
}

}  // namespace moesh::serve
