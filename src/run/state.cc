#include "run/state.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/pages.h"
#include "plan/arena.h"

namespace moesh::run {

void State::check(const Slot& slot, const plan::Port& port, const plan::View& view) const {
  if (slot.shape == view.shape && slot.dtype == view.dtype && slot.spec == view.spec && slot.first == port.first) return;
  refuse(fmt::format("{}{} as it is kept, this program takes {}{}", name_of(slot.dtype), to_string(slot.shape), name_of(view.dtype),
                     to_string(view.shape)),
         port.name, "make all programs for the same rows and cache slots, on one mesh");
}

void State::take(const plan::Plan& plan, const mesh::Owners& owners, const std::vector<int>& here) {
  if (!owners_) owners_ = owners;
  here_ = here;
  blocks_.resize(static_cast<std::size_t>(owners.count()));
  std::vector<const plan::Port*> fresh;
  for (const plan::Port& port : plan.ports) {
    if (port.kind != plan::Port::Kind::state) continue;
    const auto found = slots_.find(port.name);
    found == slots_.end() ? fresh.push_back(&port) : check(found->second, port, plan.view(port.view));
  }
  if (fresh.empty()) return;
  std::vector<std::vector<Place>> places(fresh.size(),
                                         std::vector<Place>(static_cast<std::size_t>(owners.count()), Place{Memory(0), 0, 0}));
  for (const int owner : here) {
    std::vector<std::int64_t> offsets, bytes;
    std::int64_t end = 0;
    for (const plan::Port* port : fresh) {
      const plan::Buffer& buffer = plan.buffer_of(port->view);
      const sharding::OwnedShards shards(buffer.distinct, plan.mesh, owners.devices(owner));
      offsets.push_back(end);
      bytes.push_back(buffer.bytes * static_cast<std::int64_t>(shards.count()));
      end += plan::aligned(bytes.back());
    }
    const Memory block(end);
    ask_for_huge_pages(block.at(0), end);
    blocks_[static_cast<std::size_t>(owner)].push_back(block);
    for (std::size_t i = 0; i < fresh.size(); ++i) places[i][static_cast<std::size_t>(owner)] = {block, offsets[i], bytes[i]};
  }
  for (std::size_t i = 0; i < fresh.size(); ++i) {
    const plan::View& view = plan.view(fresh[i]->view);
    slots_[fresh[i]->name] = {view.shape, view.dtype, view.spec, fresh[i]->first, plan.buffer(view.buffer).bytes, std::move(places[i])};
  }
}

void State::close(int owner, bool is_closed) const {
  for (const Memory& block : blocks_[static_cast<std::size_t>(owner)]) block.close(is_closed);
}

// The owner's shards, in the order of OwnedShards.
Placed State::of_owner(const Slot& slot, int owner) const {
  const mesh::Mesh& mesh = owners_->mesh();
  const Place& place = slot.places[static_cast<std::size_t>(owner)];
  const sharding::OwnedShards shards(sharding::distinct_axes(slot.spec), mesh, owners_->devices(owner));
  Placed value{slot.shape, slot.spec, {}, slot.first};
  for (std::size_t i = 0; i < shards.count(); ++i) {
    const Shape shape = sharding::shape_of(sharding::block_of(slot.shape, slot.spec, mesh, shards.device(i)));
    value.shards.push_back({place.block.owner(), {place.begin() + static_cast<std::int64_t>(i) * slot.pitch, slot.dtype, shape}});
  }
  return value;
}

Placed State::value(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found == slots_.end()) return {};
  const Slot& slot = found->second;
  std::vector<Placed> parts;
  for (const int owner : here_) parts.push_back(of_owner(slot, owner));
  return merged(parts, *owners_, here_);
}

std::vector<store::Part> State::parts(const std::string& name) const {
  const Slot& slot = slots_.at(name);
  std::vector<store::Part> parts;
  for (const int owner : here_) {
    const sharding::OwnedShards shards(sharding::distinct_axes(slot.spec), owners_->mesh(), owners_->devices(owner));
    std::byte* at = slot.places[static_cast<std::size_t>(owner)].begin();
    for (std::size_t i = 0; i < shards.count(); ++i, at += slot.pitch) {
      store::Part part = store::dense_part(sharding::block_of(slot.shape, slot.spec, owners_->mesh(), shards.device(i)), slot.dtype, at);
      part.block = in_seen_order(std::move(part.block), slot.first);
      part.strides = in_seen_order(std::move(part.strides), slot.first);
      parts.push_back(std::move(part));
    }
  }
  return parts;
}

std::vector<store::Block> State::share(const std::string& name) const {
  const Slot& slot = slots_.at(name);
  if (static_cast<int>(here_.size()) == owners_->count()) return {store::whole_block(in_seen_order(slot.shape, slot.first))};
  const sharding::ShardAxes axes(sharding::distinct_axes(slot.spec), owners_->mesh());
  std::vector<sharding::OwnedShards> owned;
  for (int owner = 0; owner < owners_->count(); ++owner) owned.emplace_back(axes.axes(), owners_->mesh(), owners_->devices(owner));
  std::vector<store::Block> blocks;
  for (std::size_t shard = 0; shard < axes.count(); ++shard) {
    const Coordinates at = axes.coordinates(shard);
    std::vector<int> holders;
    for (int owner = 0; owner < owners_->count(); ++owner) {
      if (owned[static_cast<std::size_t>(owner)].find(at)) holders.push_back(owner);
    }
    const auto self = std::find(holders.begin(), holders.end(), here_.front());
    if (self == holders.end()) continue;
    store::Block block = in_seen_order(sharding::block_of(slot.shape, slot.spec, owners_->mesh(), at), slot.first);
    blocks.push_back(store::share_of(std::move(block), self - holders.begin(), static_cast<std::int64_t>(holders.size())));
    if (store::elements_of(blocks.back()) == 0) blocks.pop_back();
  }
  return blocks;
}

void State::put(const std::string& name, const Array& whole) const {
  const Slot& slot = slots_.at(name);
  for (const int owner : here_) place_into(whole, of_owner(slot, owner), *owners_, owner);
}

void State::clear(const std::string& name) const {
  for (const Place& place : slots_.at(name).places) zero_bytes(place.begin(), place.bytes);
}

std::int64_t State::bytes() const {
  std::int64_t sum = 0;
  for (const auto& [name, slot] : slots_) {
    for (const Place& place : slot.places) sum += place.bytes;
  }
  return sum;
}

}  // namespace moesh::run
