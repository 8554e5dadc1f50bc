// Saves a checkpoint in the background: a thread reads the tensors and writes them, while other threads may read them too.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "store/index.h"
#include "store/parts.h"

namespace moesh::store {

// A tensor in memory that goes into a checkpoint.
struct Held {
  std::string name;
  Tensor tensor;             // without pieces
  std::vector<Part> parts;   // where it lies
  std::vector<Block> pieces; // what this process writes of it; `parts` contain all of that
  // Brings a piece into memory when it is about to be written, for a tensor that is not in memory; valid until the next call.
  std::function<Part(const Block& piece)> bring = {};
};

// Which of several processes this is; each of them writes its own pieces.
struct Share {
  int self = 0, count = 1;
  double timeout = 600;  // seconds after which the first process gives up one that does not finish
};

// Makes the folder that all processes write into. If there are several, the first one does so before the others begin.
void make_part_folder(const std::string& folder);

class Saving {
 public:
  // Writes into FOLDER.part and renames it to FOLDER once all of it is on the disk; an earlier FOLDER is then removed. If `made` is given,
  // writes into that folder instead, which the caller has created and renames or removes in the end.
  Saving(std::string folder, About about, std::vector<Held> tensors, const Share& share = {}, std::string made = {});
  ~Saving();  // waits for the end
  Saving(const Saving&) = delete;
  Saving& operator=(const Saving&) = delete;

  // Waits until the thread has read the tensor or has failed: after that the tensor may be changed.
  void wait_for(std::string_view tensor);
  void wait();
  bool is_done() const;

  // Valid once it is done.
  const std::string& error() const { return error_; }  // empty: the checkpoint is complete
  std::int64_t bytes() const { return bytes_; }
  double seconds() const { return seconds_; }
  const std::string& folder() const { return folder_; }
  std::int64_t step() const { return index_.about.step; }

 private:
  void run();
  std::string clean_up(const std::string& error);
  bool is_late();
  void write_all();
  void write_tensor(Held& held, int file, std::int64_t& offset);
  std::uint64_t write_chunk(const Held& held, const Block& chunk, int file, std::int64_t offset);
  const std::byte* gathered(const Held& held, const Block& block);
  std::string lay_out();
  void join_others();
  void give_name() const;
  void mark_read(const std::string& tensor);

  std::string folder_;  // the final path
  bool gives_name_;
  std::string part_;  // the folder that is written to
  Share share_;
  Index index_;
  std::vector<Held> tensors_;
  std::vector<std::byte> room_;  // buffer for one block
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, bool, std::less<>> is_read_;
  bool is_done_ = false;
  std::string error_;
  std::int64_t bytes_ = 0;
  double seconds_ = 0;
  std::optional<Clock::time_point> waits_since_;  // when the first process began to wait for the others
  bool have_others_ended_ = false;                // whether all others have written their parts
  std::thread thread_;  // the last member: the thread starts when all others exist
};

}  // namespace moesh::store
