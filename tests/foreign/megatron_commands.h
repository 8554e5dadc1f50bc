// Small models as commands of Megatron-LM, and what they translate to.
#pragma once

#include <string>
#include <vector>

#include "foreign/import.h"
#include "tests/foreign/given.h"

namespace moesh::foreign {

inline const std::string kDense =
    "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --micro-batch-size 2 --bf16 --swiglu --normalization RMSNorm "
    "--position-embedding-type rope --disable-bias-linear --attention-dropout 0 --hidden-dropout 0 --untie-embeddings-and-output-weights "
    "--vocab-size 256 ";
inline const std::string kSparse = kDense + "--num-experts 8 --moe-token-dispatcher-type alltoall ";

inline Imported imported(const std::string& command, const std::vector<std::string>& own = {}) {
  return from_program("megatron", command, own);
}

inline std::string given(const std::string& command, const std::string& key) { return given(imported(command), key); }

inline std::string notes(const std::string& command, const std::vector<std::string>& own = {}) {
  return told(imported(command, own).notes);
}

}  // namespace moesh::foreign
