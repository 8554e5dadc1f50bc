#include "cost/collective.h"

#include <algorithm>
#include <cmath>

namespace moesh::cost {
namespace {

using Kind = graph::ReshardOf::Kind;

// The ports of a device that are used: one along a line, two in a ring. Two neighbours have only one link, even if the ends are joined.
double ports(const Line& line) { return line.is_ring && (line.devices > 2 || line.stride > 1) ? 2 : 1; }

double hops(const Level& level) {
  switch (level.kind) {
    case Level::Kind::switched: return std::ceil(std::log2(static_cast<double>(level.devices)));
    case Level::Kind::direct: return 1;
    case Level::Kind::torus: break;
  }
  double sum = 0;
  for (const Line& line : level.lines) {
    const auto devices = static_cast<double>(line.devices), stride = static_cast<double>(line.stride);
    sum += stride * (line.is_ring ? std::floor(devices / 2) : devices - 1);
  }
  return sum;
}

// Bytes per second that a device can send, or receive, while all devices do.
double rate(const Level& level) {
  switch (level.kind) {
    case Level::Kind::switched: return level.bytes_per_second;
    case Level::Kind::direct: return level.bytes_per_second * static_cast<double>(level.devices - 1);
    case Level::Kind::torus: break;
  }
  double sum = 0;
  for (const Line& line : level.lines) sum += ports(line) / static_cast<double>(line.stride);
  return level.bytes_per_second * sum;
}

// All-gather: each device has one shard and ends with all of them. A reduce-scatter is the same, backward.
double gather_seconds(double shard_bytes, const Group& group) {
  double seconds = 0, bytes = shard_bytes;
  for (auto level = group.rbegin(); level != group.rend(); ++level) {
    const auto devices = static_cast<double>(level->devices);
    seconds += hops(*level) * level->latency_seconds + (devices - 1) * bytes / rate(*level);
    bytes *= devices;
  }
  return seconds;
}

// Half of the devices along a dim have pieces for the other half, and only the links between the halves to send them over.
double crossing_seconds(const Level& level, double operand_bytes) {
  double seconds = 0;
  for (const Line& line : level.lines) {
    const auto devices = static_cast<double>(line.devices);
    const double one_side = std::floor(devices / 2);
    const double crossing = operand_bytes * one_side * (devices - one_side) / devices;  // per line of devices
    const double links = ports(line) / static_cast<double>(line.stride);
    seconds = std::max(seconds, crossing / (level.bytes_per_second * links));
  }
  return seconds;
}

// What the half of the devices that contains the busiest one receives, relative to what a half receives on average.
double of_its_half(double busiest, double devices) {
  const double half = std::floor(devices / 2);
  return devices < 2 ? 1 : (busiest + (half - 1) * (devices - busiest) / (devices - 1)) / half;
}

// A piece travels over the links of the farthest level in which its two devices differ; levels work in parallel.
double all_to_all_seconds(double operand_bytes, const Group& group, double busiest) {
  const auto all = static_cast<double>(devices_of(group));
  const double crossing = of_its_half(busiest, all);
  double seconds = 0, latency = 0, nearer = 1;
  for (const Level& level : group) {
    const auto devices = static_cast<double>(level.devices);
    const double leaving = operand_bytes * (devices - 1) * nearer / all;
    const double among_level = operand_bytes * devices * nearer / all;
    seconds = std::max({seconds, busiest * leaving / rate(level), crossing * crossing_seconds(level, among_level)});
    latency = std::max(latency, hops(level) * level.latency_seconds);
    nearer *= devices;
  }
  return latency + seconds;
}

// Each device sends its whole shard to another one, over the farthest level.
double permute_seconds(double operand_bytes, const Group& group) {
  const Level& level = group.back();
  return hops(level) * level.latency_seconds + operand_bytes / (level.bytes_per_second);
}

}  // namespace

double wire_bytes(Kind kind, double operand_bytes, std::int64_t group) {
  const auto n = static_cast<double>(group);
  switch (kind) {
    case Kind::slice: return 0;
    case Kind::all_gather: return operand_bytes * (n - 1);
    case Kind::reduce_scatter:
    case Kind::all_to_all: return operand_bytes * (n - 1) / n;
    case Kind::all_reduce: return operand_bytes * 2 * (n - 1) / n;
    case Kind::permute: return operand_bytes;
  }
  return 0;
}

// Nearer levels have added up before the farthest one does: it handles only their share of a sum.
double far_wire_bytes(Kind kind, double operand_bytes, const Group& group) {
  if (group.empty()) return 0;
  const std::int64_t far = group.back().devices;
  const bool is_sum = kind == Kind::reduce_scatter || kind == Kind::all_reduce;
  const double nearer = is_sum ? static_cast<double>(devices_of(group)) / static_cast<double>(far) : 1;
  return wire_bytes(kind, operand_bytes / nearer, far);
}

double collective_seconds(Kind kind, double operand_bytes, const Group& group, double busiest) {
  if (group.empty()) return 0;
  const double shard = operand_bytes / static_cast<double>(devices_of(group));
  switch (kind) {
    case Kind::slice: return 0;
    case Kind::all_gather: return gather_seconds(operand_bytes, group);
    case Kind::reduce_scatter: return gather_seconds(shard, group);
    case Kind::all_reduce: return std::min(2 * gather_seconds(shard, group), gather_seconds(operand_bytes, group));
    case Kind::all_to_all: return all_to_all_seconds(operand_bytes, group, busiest);
    case Kind::permute: return permute_seconds(operand_bytes, group);
  }
  return 0;
}

}  // namespace moesh::cost
