#include "store/event_file.h"

#include <array>
#include <chrono>

#include <fmt/core.h>
#include <unistd.h>

#include "base/system.h"
#include "store/disk.h"

namespace moesh::store {
namespace {

constexpr int kTime = 1, kVersion = 3;  // fields of an event

constexpr std::array<std::uint32_t, 256> kRemainders = [] {
  std::array<std::uint32_t, 256> all{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest >> 1 ^ (rest & 1 ? 0x82F63B78u : 0u);
    all[byte] = rest;
  }
  return all;
}();

double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFF);
  return text;
}

// The checksum is masked, because the bytes may hold checksums themselves.
std::string masked_checksum(std::string_view bytes) {
  const std::uint32_t sum = crc32c(bytes);
  return little_endian((sum >> 15 | sum << 17) + 0xA282EAD8u, 4);
}

std::string name_in(const std::string& folder) {
  return fmt::format("{}/events.out.tfevents.{:.6f}.{}.{}", folder, now(), host_name(), ::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t sum = ~0u;
  for (const char byte : bytes) sum = sum >> 8 ^ kRemainders[(sum ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~sum;
}

EventFile::EventFile(const std::string& folder)
    : path_(name_in(folder)),
      file_((make_folder(folder, "choose base_output_directory, or enable_tensorboard=false"), create_file(path_))) {
  add(ProtobufWriter().bytes(kVersion, "brain.Event:2"));
}

void EventFile::add(ProtobufWriter event) {
  const std::string& body = event.real(kTime, now()).text();
  const std::string length = little_endian(body.size(), 8);
  const std::string record = length + masked_checksum(length) + body + masked_checksum(body);
  write_at(file_.number(), record.data(), static_cast<std::int64_t>(record.size()), end_, path_);
  end_ += static_cast<std::int64_t>(record.size());
}

}  // namespace moesh::store
