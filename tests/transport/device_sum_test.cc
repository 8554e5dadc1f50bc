// Sums over devices have one order, which shows in their bits, both in collectives between layouts and in the collectives of regions.
#include "transport/device_sum.h"

#include <cmath>
#include <cstring>

#include <gtest/gtest.h>

#include "graph/region.h"
#include "mesh/sum_order.h"
#include "run/program.h"
#include "tests/support.h"

namespace moesh::run {
namespace {

using sharding::AxisList;
using sharding::Spec;

AxisList all_axes(const mesh::Mesh& mesh) {
  AxisList axes;
  for (std::size_t i = 0; i < mesh.axes().size(); ++i) axes.push_back(static_cast<sharding::AxisIndex>(i));
  return axes;
}

void set(const Array& array, std::int64_t i, double value) {
  backend::for_floating(array.view.dtype, [&]<typename T>() { array.as<T>()[i] = backend::store<T>(value); });
}

double get(const Array& array, std::int64_t i) {
  double value = 0;
  backend::for_floating(array.view.dtype, [&]<typename T>() { value = static_cast<double>(backend::load(array.as<T>()[i])); });
  return value;
}

// A vector that is a partial sum over a mesh: each device has one term of it.
class Parts {
 public:
  Parts(mesh::Mesh mesh, DType dtype, std::int64_t size, int threads = 2) : mesh_(std::move(mesh)), workers_(threads) {
    value_ = {{size}, {{{}}, all_axes(mesh_)}, {}};
    for (std::int64_t device = 0; device < mesh_.devices(); ++device) value_.shards.push_back(pool_->allocate({size}, dtype));
  }

  // The devices in the order of their coordinates, the last axis fastest.
  const Array& of(std::size_t device) const { return value_.shards[device]; }

  Array reduced(const Spec& by_way_of) {
    return gathered(reshard(value_, by_way_of, mesh_, *pool_, workers_), mesh_, *pool_, workers_);
  }
  Array all_reduced() { return reduced(sharding::whole_spec(1)); }

  // The sum that the collective of a region's body makes.
  Array all_summed() {
    graph::Builder builder = graph::Builder::of_region("body");
    const graph::Tensor x = builder.shard_input("x", value_.shape, of(0).view.dtype, all_axes(mesh_));
    builder.mark_result(graph::all_sum(x, mesh_, all_axes(mesh_)));
    const graph::Graph body = builder.take();
    Placed own = value_;
    own.spec = {{{}}, {}, all_axes(mesh_)};
    return evaluate(body, {own}, mesh_, workers_).front().shards.front();
  }

 private:
  mesh::Mesh mesh_;
  Workers workers_;
  std::shared_ptr<Pool> pool_ = Pool::create();
  Placed value_;
};

// The sum of one number per device.
double sum_of(const mesh::Mesh& mesh, DType dtype, const std::vector<double>& numbers) {
  Parts parts(mesh, dtype, 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) set(parts.of(i), 0, numbers[i]);
  const double sum = get(parts.all_reduced(), 0);
  EXPECT_EQ(get(parts.all_summed(), 0), sum);
  return sum;
}

constexpr double kLarge = 0x1p24;  // in float32, adding 1 to it changes nothing, and adding 2 is exact

TEST(SumsOverDevices, GoAlongAnAxisInTheOrderOfCoordinates) {
  const mesh::Mesh mesh({{"x", 4, 1}});
  EXPECT_EQ(sum_of(mesh, DType::float32, {kLarge, 1, 1, 0}), kLarge);
  EXPECT_EQ(sum_of(mesh, DType::float32, {1, 1, kLarge, 0}), kLarge + 2);
  EXPECT_EQ(sum_of(mesh, DType::float64, {kLarge, 1, 1, 0}), kLarge + 2);
}

TEST(SumsOverDevices, GoAxisByAxisTheLastOneFirst) {
  const mesh::Mesh two({{"x", 2, 1}, {"y", 2, 1}});
  EXPECT_EQ(sum_of(two, DType::float32, {kLarge, 0, 1, 1}), kLarge + 2) << "of the second x, 1 and 1 make 2";
  EXPECT_EQ(sum_of(two, DType::float32, {kLarge, 1, 0, 1}), kLarge);
  const mesh::Mesh three({{"x", 2, 1}, {"y", 2, 1}, {"z", 2, 1}});
  EXPECT_EQ(sum_of(three, DType::float32, {kLarge, 0, 0, 0, 1, 0, 1, 0}), kLarge + 2) << "of the second x, along y";
  EXPECT_EQ(sum_of(three, DType::float32, {kLarge, 0, 1, 0, 1, 0, 0, 0}), kLarge);
}

TEST(SumsOverDevices, GoWithinSlicesFirst) {
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 2, 2}}), DType::float32, {kLarge, 0, 1, 1}), kLarge + 2);
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 4, 1}}), DType::float32, {kLarge, 0, 1, 1}), kLarge);
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 1, 4}}), DType::float32, {kLarge, 0, 1, 1}), kLarge);
}

// 1 + 2^-8 rounds to 1 in bfloat16, and 1 + 2^-7 is exact.
TEST(SumsOverDevices, AreWideBetweenAxesAndRoundedOnce) {
  const double small = 0x1p-8;
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 4, 1}}), DType::bfloat16, {1, small, small, 0}), 1 + 2 * small);
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 2, 1}, {"y", 2, 1}}), DType::bfloat16, {1, small, small, 0}), 1 + 2 * small);
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 2, 2}}), DType::bfloat16, {1, small, small, 0}), 1 + 2 * small);
  EXPECT_EQ(sum_of(mesh::Mesh({{"x", 2, 1}, {"y", 2, 1}}), DType::bfloat16, {kLarge, 0, 1, 1}), kLarge)
      << "the sum is float32's, and then rounded";
}

// The sum by definition, for one element of all devices.
template <typename W>
W by_definition(const std::vector<std::int64_t>& steps, std::size_t step, const std::vector<W>& values, std::size_t begin,
                std::size_t end) {
  if (step == steps.size()) return values[begin];
  const std::size_t each = (end - begin) / static_cast<std::size_t>(steps[step]);
  W sum = by_definition(steps, step + 1, values, begin, begin + each);
  for (std::size_t at = begin + each; at < end; at += each) sum += by_definition(steps, step + 1, values, at, at + each);
  return sum;
}

// Fills the terms with numbers of very different magnitudes.
void fill(Parts& parts, std::size_t devices, std::int64_t size) {
  std::uint64_t state = 1;
  for (std::size_t device = 0; device < devices; ++device) {
    for (std::int64_t i = 0; i < size; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      const double mantissa = static_cast<double>(state >> 11) / 0x1p52 - 1;
      set(parts.of(device), i, std::ldexp(mantissa, static_cast<int>(state >> 33 & 15)));
    }
  }
}

// The bits do not depend on how the bytes are sent: the whole sum to every device, or to each device its block, along any axis first; by
// one thread or by three. There are enough elements for several pieces and tasks.
TEST(SumsOverDevices, HaveTheSameBitsWhateverWayTheyTake) {
  constexpr std::int64_t kSize = 75'000;
  const mesh::Mesh mesh({{"x", 2, 2}, {"y", 3, 1}, {"z", 2, 1}});
  const std::vector<std::int64_t> steps = mesh::sum_steps(mesh, all_axes(mesh));
  const std::vector<AxisList> ways{{0}, {1}, {2, 0}, {0, 1, 2}, {1, 2, 0}};
  for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
    for (const int threads : {1, 3}) {
      Parts parts(mesh, dtype, kSize, threads);
      fill(parts, 24, kSize);
      const Array sum = parts.all_reduced();
      backend::for_floating(dtype, [&]<typename T>() {
        std::vector<backend::Wide<T>> values(24);
        bool order_matters = false;
        for (std::int64_t i = 0; i < kSize; ++i) {
          backend::Wide<T> flat = 0;
          for (std::size_t device = 0; device < 24; ++device) flat += values[device] = backend::load(parts.of(device).as<T>()[i]);
          const T expected = backend::store<T>(by_definition(steps, 0, values, 0, 24));
          ASSERT_EQ(backend::load(sum.as<T>()[i]), backend::load(expected)) << i;
          order_matters = order_matters || backend::load(backend::store<T>(flat)) != backend::load(expected);
        }
        EXPECT_TRUE(order_matters || dtype == DType::bfloat16) << "the case tests nothing";
      });
      const auto same = [&](const Array& other) {
        return std::memcmp(sum.raw(), other.raw(), static_cast<std::size_t>(sum.bytes())) == 0;
      };
      EXPECT_TRUE(same(parts.all_summed()));
      for (const AxisList& way : ways) EXPECT_TRUE(same(parts.reduced({{way}, {}})));
    }
  }
}

TEST(SumsOverDevices, GoAlongAnAxisOfAnySize) {
  constexpr std::int64_t kSize = 1300;
  for (std::int64_t devices = 2; devices <= 19; ++devices) {
    const mesh::Mesh mesh({{"x", devices, 1}});
    for (const DType dtype : {DType::bfloat16, DType::float32, DType::float64}) {
      Parts parts(mesh, dtype, kSize);
      fill(parts, static_cast<std::size_t>(devices), kSize);
      const Array sum = parts.all_reduced();
      for (std::int64_t i = 0; i < kSize; ++i) {
        backend::for_floating(dtype, [&]<typename T>() {
          std::vector<backend::Wide<T>> values;
          for (std::size_t device = 0; device < static_cast<std::size_t>(devices); ++device) values.push_back(backend::load(parts.of(device).as<T>()[i]));
          const T expected = backend::store<T>(by_definition({devices}, 0, values, 0, values.size()));
          ASSERT_EQ(backend::load(sum.as<T>()[i]), backend::load(expected)) << devices << " devices, " << i;
        });
      }
    }
  }
}

}  // namespace
}  // namespace moesh::run
