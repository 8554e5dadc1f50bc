// Recorded Hugging Face folders, and what is in such folders.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "store/safetensors.h"
#include "tests/paths.h"

namespace moesh::cli {

inline const std::string kLlama = test::source_folder() / "tests/golden/hf/llama";
inline const std::string kGemma = test::source_folder() / "tests/golden/hf/gemma3";
inline const std::string kGptOss = test::source_folder() / "tests/golden/hf/gpt-oss-bf16";
inline const std::string kLlama4 = test::source_folder() / "tests/golden/hf/llama4";
inline const std::string kGemma4 = test::source_folder() / "tests/golden/hf/gemma4-moe";

// The bytes of every tensor.
inline std::map<std::string, std::string> tensors_of(const std::string& folder) {
  std::map<std::string, std::string> all;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with("model") || !name.ends_with(".safetensors")) continue;
    for (const auto& [tensor, stored] : store::read_safetensors(entry.path().string()).tensors)
      all[tensor] = std::string(store::safetensors_name(stored.type)) +
                    std::string(reinterpret_cast<const char*>(stored.data), static_cast<std::size_t>(stored.bytes));
  }
  return all;
}

}  // namespace moesh::cli
