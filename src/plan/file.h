// Plan files: text with one line per buffer, view, instruction and port, so that any tool can compare two of them.
//
//   moesh plan 1 hash 29fe1c0a5d3e7b64      the version of the format, and a hash of all lines below
//   by 0.1.0                                moesh's version
//   for v5p-16 slices 1 mesh {fsdp=2 expert=4}
//   setting model_name=mixtral-8x7b         one line per setting that is not at its default
//   buffer lasts=state bytes=4096 distinct=(fsdp) name=decoder/...
//   view buffer=0 dtype=float32 shape=[32, 64] spec=[(fsdp), -]
//   kernel cast operands=[0] results=[4] path=decoder/...
//   port kind=state view=0 name=decoder/...
//   results [4, 7]
//
// Buffers, views and instructions are numbered in order, from 0.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace moesh::plan {

// The request that a plan was made for.
struct Origin {
  std::string target;  // "v5p-16"
  std::int64_t slices = 1;
  std::vector<std::pair<std::string, std::string>> settings;  // key and value

  bool operator==(const Origin&) const = default;
};

struct SavedPlan {
  Origin origin;
  Plan plan;
};

// Written as a whole or not at all.
void save(const Plan& plan, const Origin& origin, const std::string& path);

// Refuses a file that is no plan, is damaged, or is of another format or version of moesh, and a plan that breaks a rule of verify.h.
SavedPlan load(const std::string& path);

// The same in memory. `where` names the file in error messages.
std::string file_text(const Plan& plan, const Origin& origin);
SavedPlan parse_file(const std::string& text, const std::string& where);

// The text of a file: its first line, with the hash of `content`, and then `content`.
std::string with_hash(const std::string& content);

}  // namespace moesh::plan
