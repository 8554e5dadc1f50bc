// An ordered list of mesh axes.
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "base/error.h"

namespace moesh::mesh {

using AxisIndex = std::uint8_t;

inline constexpr std::size_t kMostAxes = 31;  // axes of one mesh

// Like a vector, but stored in place, since layouts are copied far more often than they are made.
class AxisList {
 public:
  using value_type = AxisIndex;
  using iterator = AxisIndex*;
  using const_iterator = const AxisIndex*;

  AxisList() = default;
  AxisList(std::initializer_list<AxisIndex> axes) { insert(end(), axes.begin(), axes.end()); }
  template <typename Iterator>
  AxisList(Iterator first, Iterator last) {
    insert(end(), first, last);
  }

  iterator begin() { return axes_.data(); }
  iterator end() { return axes_.data() + size_; }
  const_iterator begin() const { return axes_.data(); }
  const_iterator end() const { return axes_.data() + size_; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  AxisIndex operator[](std::size_t i) const { return axes_[i]; }
  AxisIndex front() const { return axes_[0]; }
  AxisIndex back() const { return axes_[size_ - 1u]; }

  void push_back(AxisIndex axis) { insert(end(), &axis, &axis + 1); }
  void pop_back() { --size_; }
  void clear() { size_ = 0; }

  iterator insert(const_iterator place, AxisIndex axis) { return insert(place, &axis, &axis + 1); }
  template <typename Iterator>
  iterator insert(const_iterator place, Iterator first, Iterator last) {
    const iterator at = begin() + (place - begin());
    const auto count = static_cast<std::size_t>(std::distance(first, last));
    if (size_ + count > kMostAxes) fail("a list of more axes than a mesh has", "layouts");
    std::copy_backward(at, end(), end() + count);
    std::copy(first, last, at);
    size_ = static_cast<std::uint8_t>(size_ + count);
    return at;
  }
  iterator erase(const_iterator place) { return erase(place, place + 1); }
  iterator erase(const_iterator first, const_iterator last) {
    const iterator at = begin() + (first - begin());
    std::copy(last, const_iterator(end()), at);
    size_ = static_cast<std::uint8_t>(size_ - (last - first));
    return at;
  }

  friend bool operator==(const AxisList& a, const AxisList& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }
  friend auto operator<=>(const AxisList& a, const AxisList& b) {
    return std::lexicographical_compare_three_way(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  std::array<AxisIndex, kMostAxes> axes_{};
  std::uint8_t size_ = 0;
};

template <typename Predicate>
std::size_t erase_if(AxisList& axes, const Predicate& predicate) {
  const auto kept = std::remove_if(axes.begin(), axes.end(), predicate);
  const auto erased = static_cast<std::size_t>(axes.end() - kept);
  axes.erase(kept, axes.end());
  return erased;
}

inline std::size_t erase(AxisList& axes, AxisIndex axis) {
  return erase_if(axes, [axis](AxisIndex other) { return other == axis; });
}

}  // namespace moesh::mesh
