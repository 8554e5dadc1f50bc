#include "tests/backend/cpu/tile_emulator.h"

#include "backend/cpu/isa.h"

#if defined(__x86_64__)
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12: of what its own header leaves open on purpose (its bug 105593)
#endif
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <immintrin.h>
#include <ucontext.h>
#include <unistd.h>

#define MOESH_TARGET [[gnu::target("avx512f,avx512bw")]]

namespace moesh::backend::test {
namespace {

constexpr int kTiles = 8, kRows = 16, kRowBytes = 64;

struct Tile {
  int rows, row_bytes;
  alignas(64) std::byte bytes[kRows][kRowBytes];
};

struct Tiles {
  bool are_shaped;
  Tile all[kTiles];
};
thread_local Tiles tiles;

[[noreturn]] void give_up(std::string_view why) {
  constexpr std::string_view kBegin = "tile emulator: ";
  for (const std::string_view text : {kBegin, why, std::string_view("\n")}) {
    if (::write(STDERR_FILENO, text.data(), text.size()) < 0) break;
  }
  std::abort();
}

void check(bool is_so, std::string_view otherwise) {
  if (!is_so) give_up(otherwise);
}

// A decoded instruction: it has a VEX prefix of three bytes, is from the 0F38 map, and is 128 bits wide.
struct Instruction {
  enum class Prefix : std::uint8_t { none, x66, xF3, xF2 };
  Prefix prefix = Prefix::none;
  std::uint8_t opcode = 0;
  int reg = 0, second = 0, rm = 0;  // tile numbers; rm only if there is no address
  bool has_address = false;
  std::byte* address = nullptr;
  std::int64_t row_step = 0;  // the index register, scaled
  const std::uint8_t* end = nullptr;
};

std::int64_t value_of(const ucontext_t& at, int name) {
  constexpr int kGeneral[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                              REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return at.uc_mcontext.gregs[kGeneral[name]];
}

// Decodes the bytes after the opcode.
void read_operands(const ucontext_t& at, const std::uint8_t* byte, bool index_is_high, bool base_is_high, Instruction& of) {
  const std::uint8_t form = *byte++;
  const int mode = form >> 6;
  of.reg = form >> 3 & 7;
  of.rm = form & 7;
  of.has_address = mode != 3;
  std::int64_t address = 0;
  if (of.has_address) {
    constexpr int kScaled = 4, kNone = 5;
    bool is_far = mode == 2;  // an offset of four bytes
    bool is_relative = false;
    int base = of.rm;
    if (of.rm == kScaled) {
      const std::uint8_t scaled = *byte++;
      const int index = (scaled >> 3 & 7) + (index_is_high ? 8 : 0);
      base = scaled & 7;
      if (index != kScaled) of.row_step = value_of(at, index) << (scaled >> 6);
    }
    if (base == kNone && mode == 0) {
      is_far = true;
      is_relative = of.rm == kNone;
    } else {
      address = value_of(at, base + (base_is_high ? 8 : 0));
    }
    if (is_far) {
      std::int32_t offset = 0;
      std::memcpy(&offset, byte, sizeof(offset));
      byte += sizeof(offset);
      address += offset;
    } else if (mode == 1) {
      address += static_cast<std::int8_t>(*byte++);
    }
    if (is_relative) address += reinterpret_cast<std::int64_t>(byte);
  }
  of.address = reinterpret_cast<std::byte*>(address);
  of.end = byte;
}

// Decodes the instruction at the instruction pointer. False if it is not a tile instruction.
bool decode(const ucontext_t& at, Instruction& of) {
  const auto* const byte = reinterpret_cast<const std::uint8_t*>(at.uc_mcontext.gregs[REG_RIP]);
  constexpr std::uint8_t kVex = 0xC4, kMap = 2, kWide = 0x84;  // the bits W and L
  if (byte[0] != kVex || (byte[1] & 0x1F) != kMap || (byte[2] & kWide) != 0) return false;
  of.prefix = static_cast<Instruction::Prefix>(byte[2] & 3);
  of.opcode = byte[3];
  of.second = ~byte[2] >> 3 & 15;
  if (of.opcode != 0x49 && of.opcode != 0x4B && of.opcode != 0x5C) return false;
  read_operands(at, byte + 4, (byte[1] & 0x40) == 0, (byte[1] & 0x20) == 0, of);
  return true;
}

void shape_all(const std::byte* from) {
  check(from[0] == std::byte{1}, "ldtilecfg of a palette other than 1");
  tiles = {};
  for (int i = 0; i < kTiles; ++i) {
    std::uint16_t row_bytes = 0;
    std::memcpy(&row_bytes, from + 16 + 2 * i, sizeof(row_bytes));
    tiles.all[i].row_bytes = row_bytes;
    tiles.all[i].rows = static_cast<int>(from[48 + i]);
    check(row_bytes <= kRowBytes && tiles.all[i].rows <= kRows, "ldtilecfg of a tile of more than 16 rows of 64 bytes");
  }
  tiles.are_shaped = true;
}

Tile& tile_of(int name) {
  check(tiles.are_shaped, "tiles have no shapes: ldtilecfg comes first");
  check(name < kTiles && tiles.all[name].rows > 0 && tiles.all[name].row_bytes > 0, "an instruction for a tile without a shape");
  return tiles.all[name];
}

void zero(Tile& tile) { std::memset(tile.bytes, 0, sizeof(tile.bytes)); }

void read(Tile& tile, const std::byte* from, std::int64_t row_step) {
  zero(tile);
  for (int row = 0; row < tile.rows; ++row) std::memcpy(tile.bytes[row], from + row * row_step, static_cast<std::size_t>(tile.row_bytes));
}

void write(const Tile& tile, std::byte* to, std::int64_t row_step) {
  for (int row = 0; row < tile.rows; ++row) std::memcpy(to + row * row_step, tile.bytes[row], static_cast<std::size_t>(tile.row_bytes));
}

// tdpbf16ps: along the depth, the products of the first elements of all pairs are accumulated with fused multiply-adds, starting from 0,
// and so are those of the second elements; both sums are then added to the tile. Subnormal numbers count as zeros.
MOESH_TARGET void add_product(Tile& sums, const Tile& a, const Tile& b) {
  check(&sums != &a && &sums != &b && &a != &b, "tdpbf16ps of one tile twice");
  check(a.rows == sums.rows && b.row_bytes == sums.row_bytes && a.row_bytes == 4 * b.rows, "tdpbf16ps of tiles that do not fit");
  _mm_setcsr(_mm_getcsr() | 0x8040);  // subnormal numbers become zeros; returning from the handler restores the register
  const __m512i second = _mm512_set1_epi32(static_cast<int>(0xFFFF0000));
  const auto lanes = static_cast<__mmask16>((1u << (sums.row_bytes / 4)) - 1);
  for (int row = 0; row < sums.rows; ++row) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (int pair = 0; pair < b.rows; ++pair) {
      std::int32_t of_a = 0;
      std::memcpy(&of_a, a.bytes[row] + 4 * pair, sizeof(of_a));
      const __m512i all_a = _mm512_set1_epi32(of_a), of_b = _mm512_load_si512(b.bytes[pair]);
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(all_a, 16)), _mm512_castsi512_ps(_mm512_slli_epi32(of_b, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(all_a, second)), _mm512_castsi512_ps(_mm512_and_si512(of_b, second)), odd);
    }
    auto* const to = reinterpret_cast<float*>(sums.bytes[row]);
    _mm512_mask_store_ps(to, lanes, _mm512_add_ps(_mm512_load_ps(to), _mm512_add_ps(even, odd)));
  }
}

bool carry_out(const Instruction& of) {
  using Prefix = Instruction::Prefix;
  if (of.opcode == 0x49 && of.prefix == Prefix::none) {
    if (of.has_address) shape_all(of.address);
    else tiles.are_shaped = false;
  } else if (of.opcode == 0x49 && of.prefix == Prefix::xF2 && !of.has_address) {
    zero(tile_of(of.reg));
  } else if (of.opcode == 0x4B && (of.prefix == Prefix::xF2 || of.prefix == Prefix::x66) && of.has_address) {
    read(tile_of(of.reg), of.address, of.row_step);
  } else if (of.opcode == 0x4B && of.prefix == Prefix::xF3 && of.has_address) {
    write(tile_of(of.reg), of.address, of.row_step);
  } else if (of.opcode == 0x5C && of.prefix == Prefix::xF3 && !of.has_address) {
    add_product(tile_of(of.reg), tile_of(of.rm), tile_of(of.second));
  } else {
    return false;
  }
  return true;
}

// Executes all tile instructions that follow one another, because a signal takes longer than they do.
void handle(int, siginfo_t*, void* context) {
  auto& at = *static_cast<ucontext_t*>(context);
  bool is_first = true;
  for (Instruction next; decode(at, next) && carry_out(next); next = {}, is_first = false) {
    at.uc_mcontext.gregs[REG_RIP] = reinterpret_cast<std::int64_t>(next.end);
  }
  if (is_first) std::signal(SIGILL, SIG_DFL);  // the instruction raises it again, which ends the program
}

bool begin() {
  if (cpu::machine_has(cpu::Isa::amx_bf16) || !cpu::machine_has(cpu::Isa::avx512_bf16)) return false;
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  check(::sigaction(SIGILL, &action, nullptr) == 0, "SIGILL cannot be handled");
  cpu::allow(cpu::Isa::amx_bf16);
  return true;
}

}  // namespace

void emulate_tiles() { [[maybe_unused]] static const bool began = begin(); }

}  // namespace moesh::backend::test
#else
namespace moesh::backend::test {

void emulate_tiles() {}

}  // namespace moesh::backend::test
#endif
