// Processes that MPI has started, and an endpoint that sends through MPI.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <string_view>
#include <thread>

#include <fmt/core.h>
#include <mpi.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/rounding.h"
#include "base/text.h"
#include "transport/processes.h"

namespace moesh::transport {
namespace {

// Messages are sent in units of kUnit bytes, so that the number of units fits into MPI's int.
constexpr std::int64_t kUnit = 64;
enum Tag : int { kData = 1, kWords = 2, kEnd = 3 };
constexpr double kLongestPause = 1;  // seconds between two looks; if it takes longer, this process itself was stopped
constexpr double kToldBy = 10;  // seconds that the first process has to report why the run ends

struct Header {
  Place place;
  std::int64_t bytes;
};
static_assert(sizeof(Header) <= kUnit);

struct Outgoing {
  int to = 0;
  std::vector<std::byte> message = {};
  MPI_Request request = MPI_REQUEST_NULL;
};

// Calls return their errors, so that the run can say what went wrong.
void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char words[MPI_MAX_ERROR_STRING];
  int size = 0;
  if (MPI_Error_string(code, words, &size) != MPI_SUCCESS) size = 0;
  fail(fmt::format("{} fails: {}", what, std::string_view(words, static_cast<std::size_t>(size))), "the processes of the run",
       fmt::format("look after their machines and the network between them; {}", kWhatIsLeft));
}

class Mpi final : public Processes, public Endpoint {
 public:
  explicit Mpi(double timeout) : timeout_(timeout) {
    int provided = 0;
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
    if (provided < MPI_THREAD_FUNNELED) {
      fail("MPI allows no threads in a process", "the processes of the run", "use an MPI library that has MPI_THREAD_FUNNELED");
    }
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_dup(MPI_COMM_WORLD, &world_), "MPI_Comm_dup");  // with its handler of errors
    check(MPI_Comm_rank(world_, &self_), "MPI_Comm_rank");
    check(MPI_Comm_size(world_, &count_), "MPI_Comm_size");
    check(MPI_Type_contiguous(static_cast<int>(kUnit), MPI_BYTE, &unit_), "MPI_Type_contiguous");
    check(MPI_Type_commit(&unit_), "MPI_Type_commit");
    outgoing_.resize(static_cast<std::size_t>(count_));
    incoming_.resize(static_cast<std::size_t>(count_));
  }

  int count() const override { return count_; }
  int self() const override { return self_; }
  Endpoint& wire() override { return *this; }

  std::span<std::byte> room(int to, std::int64_t bytes) override {
    std::deque<Outgoing>& all = outgoing_[static_cast<std::size_t>(to)];
    if (!all.empty() && is_done(all.front().request)) {
      all.push_back(std::move(all.front()));
      all.pop_front();
    } else {
      all.push_back({to});
    }
    std::vector<std::byte>& message = all.back().message;
    message.resize(static_cast<std::size_t>(units(bytes) * kUnit));
    const Header header{place_, bytes};
    std::memcpy(message.data(), &header, sizeof header);
    return {message.data() + kUnit, static_cast<std::size_t>(bytes)};
  }

  void send(int to) override {
    Outgoing& of = outgoing_[static_cast<std::size_t>(to)].back();
    const auto units = static_cast<int>(static_cast<std::int64_t>(of.message.size()) / kUnit);
    check(MPI_Isend(of.message.data(), units, unit_, to, kData, world_, &of.request), "MPI_Isend");
  }

  std::span<const std::byte> receive(int from) override {
    std::vector<std::byte>& message = incoming_[static_cast<std::size_t>(from)];
    take(from, kData, message, [&] { return "at " + words(place_); });
    Header header{};
    std::memcpy(&header, message.data(), sizeof header);
    if (header.place != place_) {
      fail_apart(from, words(header.place), self_, words(place_));
    }
    return {message.data() + kUnit, static_cast<std::size_t>(header.bytes)};
  }

  void set_place(const Place& place) override { place_ = place; }
  void set_words(std::function<std::string(const Place&)> words) override { words_ = std::move(words); }

  std::vector<std::string> all_say(const std::string& said, const std::string& what) override {
    std::vector<std::string> all(static_cast<std::size_t>(count_));
    all[static_cast<std::size_t>(self_)] = said;
    const auto waits = [&] { return what; };
    if (self_ != 0) {
      say(0, said);
      std::string joined = hear(0, waits);
      for (std::string& words : all) words = cut_first(joined);
      return all;
    }
    for (int from = 1; from < count_; ++from) all[static_cast<std::size_t>(from)] = hear(from, waits);
    std::string joined;
    for (const std::string& words : all) joined += fmt::format("{}:{}", words.size(), words);
    for (int to = 1; to < count_; ++to) say(to, joined);
    return all;
  }

  // Errors do not matter here, where the run ends anyway.
  void end_all(int code, const std::string& what) override {
    const std::string words = fmt::format("{}:{}", code, what);
    std::vector<MPI_Request> requests(static_cast<std::size_t>(count_), MPI_REQUEST_NULL);
    for (int to = 0; to < count_; ++to) {
      if (to != self_)
        MPI_Isend(words.data(), static_cast<int>(words.size()), MPI_BYTE, to, kEnd, world_, &requests[static_cast<std::size_t>(to)]);
    }
    // The first process ends the run; the others give it time to report why, and then, one after the other, do it themselves.
    const auto begin = Clock::now();
    const double patience = self_ == 0 ? 0.5 : kToldBy + 0.5 * (self_ - 1);
    int is_sent = 0;
    while (seconds_since(begin) < patience) {
      MPI_Testall(count_, requests.data(), &is_sent, MPI_STATUSES_IGNORE);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      if (self_ == 0 && is_sent != 0) break;
    }
    if (self_ != 0 && !what.empty()) log_error(what);
    std::fflush(nullptr);
    MPI_Abort(world_, code);
    std::_Exit(code);
  }

  void set_timeout(double seconds) override { timeout_ = seconds; }

  void leave() override {
    for (std::deque<Outgoing>& all : outgoing_) complete(all);
    complete(said_);
    check(MPI_Type_free(&unit_), "MPI_Type_free");
    check(MPI_Comm_free(&world_), "MPI_Comm_free");
    check(MPI_Finalize(), "MPI_Finalize");
  }

 private:
  static std::int64_t units(std::int64_t bytes) { return 1 + divide_up(bytes, kUnit); }
  static bool is_done(MPI_Request& request) {
    int is_so = 0;
    check(MPI_Test(&request, &is_so, MPI_STATUS_IGNORE), "MPI_Test");
    return is_so != 0;
  }
  void complete(std::deque<Outgoing>& all) {
    for (Outgoing& of : all) {
      const auto is_so = [&] { return is_done(of.request); };
      wait_until(of.to, is_so, [] { return "at the end"; });
    }
  }
  std::string words(const Place& place) const {
    return words_ ? words_(place) : fmt::format("run {}, instruction {}", place.run, place.instruction);
  }

  // Another process that ends the run is noticed wherever this one waits.
  void look_for_end() {
    int is_there = 0;
    MPI_Status status;
    check(MPI_Iprobe(MPI_ANY_SOURCE, kEnd, world_, &is_there, &status), "MPI_Iprobe");
    if (is_there == 0) return;
    int bytes = 0;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    std::string text(static_cast<std::size_t>(bytes), '\0');
    check(MPI_Recv(text.data(), bytes, MPI_BYTE, status.MPI_SOURCE, kEnd, world_, MPI_STATUS_IGNORE), "MPI_Recv");
    const std::size_t colon = text.find(':');
    const auto code = parse_integer(text.substr(0, colon));
    throw EndedByOther(static_cast<int>(code.value_or(1)), text.substr(colon + 1));
  }

  // Waits until `is_so`, unless another process ends the run or `other` does not answer in time. While a whole job is stopped nobody can
  // answer, so such a pause counts as a short one.
  template <typename Waits>
  void wait_until(int other, const auto& is_so, const Waits& waits) {
    auto last = Clock::now();
    double waited = 0;
    for (std::int64_t tries = 1; !is_so(); ++tries) {
      if (tries % 64 != 0) continue;
      look_for_end();
      const auto now = Clock::now();
      waited += std::min(kLongestPause, std::chrono::duration<double>(now - last).count());
      last = now;
      if (waited > timeout_) {
        fail(fmt::format("process {} has sent nothing for {:.0f} s, process {} waits {}", other, waited, self_, waits()),
             "the processes of the run",
             fmt::format("look after that process and its machine, or raise collective_timeout; {}", kWhatIsLeft));
      }
      if (waited > 1e-3) std::this_thread::sleep_for(std::chrono::microseconds(waited > 0.1 ? 500 : 20));
    }
  }

  // Receives a message. Every wait has an end, since a process may also stop in the middle of a message.
  template <typename Waits>
  void take(int from, Tag tag, std::vector<std::byte>& message, const Waits& waits) {
    MPI_Message handle;
    MPI_Status status;
    const auto is_there = [&] {
      int is_so = 0;
      check(MPI_Improbe(from, tag, world_, &is_so, &handle, &status), "MPI_Improbe");
      return is_so != 0;
    };
    wait_until(from, is_there, waits);
    int units = 0;
    check(MPI_Get_count(&status, unit_, &units), "MPI_Get_count");
    message.resize(static_cast<std::size_t>(units * kUnit));
    MPI_Request request;
    check(MPI_Imrecv(message.data(), units, unit_, &handle, &request), "MPI_Imrecv");
    wait_until(from, [&] { return is_done(request); }, waits);
  }

  void say(int to, const std::string& text) {
    said_.push_back({to});
    Outgoing& of = said_.back();
    const auto bytes = static_cast<std::int64_t>(text.size());
    of.message.resize(static_cast<std::size_t>(units(bytes) * kUnit));
    std::memcpy(of.message.data(), &bytes, sizeof bytes);
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(of.message.data() + kUnit));
    check(MPI_Isend(of.message.data(), static_cast<int>(units(bytes)), unit_, to, kWords, world_, &of.request), "MPI_Isend");
    while (said_.size() > 1 && is_done(said_.front().request)) said_.pop_front();
  }
  template <typename Waits>
  std::string hear(int from, const Waits& waits) {
    std::vector<std::byte> message;
    take(from, kWords, message, waits);
    std::int64_t bytes = 0;
    std::memcpy(&bytes, message.data(), sizeof bytes);
    return {reinterpret_cast<const char*>(message.data() + kUnit), static_cast<std::size_t>(bytes)};
  }
  // Removes the first text of "3:abc4:..." and returns it.
  static std::string cut_first(std::string& joined) {
    const std::size_t colon = joined.find(':');
    const auto size = static_cast<std::size_t>(parse_integer(joined.substr(0, colon)).value_or(0));
    const std::string first = joined.substr(colon + 1, size);
    joined.erase(0, colon + 1 + size);
    return first;
  }

  double timeout_;
  MPI_Comm world_ = MPI_COMM_NULL;
  MPI_Datatype unit_ = MPI_DATATYPE_NULL;
  int self_ = 0, count_ = 1;
  Place place_;
  std::function<std::string(const Place&)> words_;
  std::vector<std::deque<Outgoing>> outgoing_;     // to each process
  std::vector<std::vector<std::byte>> incoming_;   // from each process
  std::deque<Outgoing> said_;
};

}  // namespace
}  // namespace moesh::transport

extern "C" moesh::transport::Processes* moesh_join_processes(double timeout) { return new moesh::transport::Mpi(timeout); }
