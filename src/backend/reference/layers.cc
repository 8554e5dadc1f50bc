// Softmax, RMS norm and rotary embedding, with their gradients. A row is the last dim.
#include <cmath>
#include <vector>

#include "backend/element.h"
#include "backend/reference/kernels.h"
#include "backend/rope_frequencies.h"

namespace moesh::backend::reference {
namespace {


std::int64_t width_of(const View& view) { return view.shape.back(); }
std::int64_t rows_of(const View& view) { return view.count() / view.shape.back(); }

void softmax(const KernelCall& call) {
  const std::int64_t width = width_of(call.results[0]);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t row = 0; row < rows_of(call.results[0]); ++row) {
      const T* x = call.operands[0].as<T>() + row * width;
      Wide<T> largest = load(x[0]);
      for (std::int64_t i = 1; i < width; ++i) largest = std::max(largest, load(x[i]));
      Wide<T> sum = 0;
      for (std::int64_t i = 0; i < width; ++i) sum += std::exp(load(x[i]) - largest);
      for (std::int64_t i = 0; i < width; ++i) {
        call.results[0].as<T>()[row * width + i] = store<T>(std::exp(load(x[i]) - largest) / sum);
      }
    }
  });
}

void softmax_grad(const KernelCall& call) {
  const std::int64_t width = width_of(call.results[0]);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    for (std::int64_t row = 0; row < rows_of(call.results[0]); ++row) {
      const T* y = call.operands[0].as<T>() + row * width;
      const T* dy = call.operands[1].as<T>() + row * width;
      Wide<T> dot = 0;
      for (std::int64_t i = 0; i < width; ++i) dot += load(y[i]) * load(dy[i]);
      for (std::int64_t i = 0; i < width; ++i) {
        call.results[0].as<T>()[row * width + i] = store<T>(load(y[i]) * (load(dy[i]) - dot));
      }
    }
  });
}

template <typename T>
Wide<T> squares_of(const T* x, std::int64_t width) {
  Wide<T> sum = 0;
  for (std::int64_t i = 0; i < width; ++i) sum += load(x[i]) * load(x[i]);
  return sum;
}

// The width of whole rows, of which only `width` elements may be in this shard.
template <typename W>
W whole_width(const graph::RmsNormOf& of, std::int64_t width) {
  return static_cast<W>(of.width > 0 ? of.width : width);
}
template <typename W>
W inverse_rms(W squares, const graph::RmsNormOf& of, std::int64_t width) {
  return 1 / std::sqrt(squares / whole_width<W>(of, width) + static_cast<W>(of.epsilon));
}

void row_dot(const KernelCall& call) {
  const std::int64_t width = width_of(call.operands[0]);
  for_floating(call.operands[0].dtype, [&]<typename T>() {
    for (std::int64_t row = 0; row < rows_of(call.operands[0]); ++row) {
      Wide<T> sum = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        const Wide<T> scale = call.operands.size() > 2 ? load(call.operands[2].as<T>()[i]) : Wide<T>(1);
        sum += load(call.operands[0].as<T>()[row * width + i]) * (load(call.operands[1].as<T>()[row * width + i]) * scale);
      }
      call.results[0].as<Wide<T>>()[row] = sum;
    }
  });
}

// The normalised value is rounded to the element type before the scale is applied.
void rms_norm(const KernelCall& call) {
  const auto& of = std::get<graph::RmsNormOf>(call.attributes);
  const std::int64_t width = width_of(call.results[0]);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    const T* scale = call.operands[1].as<T>();
    for (std::int64_t row = 0; row < rows_of(call.results[0]); ++row) {
      const T* x = call.operands[0].as<T>() + row * width;
      const Wide<T> squares = call.operands.size() > 2 ? call.operands[2].as<Wide<T>>()[row] : squares_of(x, width);
      const Wide<T> inverse = inverse_rms(squares, of, width);
      for (std::int64_t i = 0; i < width; ++i) {
        const Wide<T> normed = load(store<T>(load(x[i]) * inverse));
        call.results[0].as<T>()[row * width + i] = store<T>(normed * load(scale[i]));
      }
    }
  });
}

void rms_norm_grad_of(const KernelCall& call, bool of_dots) {
  const auto& of = std::get<graph::RmsNormOf>(call.attributes);
  const std::size_t usual = of_dots ? 5 : 3;
  const std::int64_t width = width_of(call.results[0]);
  for_floating(call.results[0].dtype, [&]<typename T>() {
    const T* scale = call.operands[1].as<T>();
    const T* sum = call.operands.size() > usual ? call.operands[usual].as<T>() : nullptr;
    std::vector<double> dscale(static_cast<std::size_t>(width), 0);
    for (std::int64_t row = 0; row < rows_of(call.results[0]); ++row) {
      const T* x = call.operands[0].as<T>() + row * width;
      const T* dy = call.operands[2].as<T>() + row * width;
      const Wide<T> inverse = inverse_rms(of_dots ? call.operands[3].as<Wide<T>>()[row] : squares_of(x, width), of, width);
      Wide<T> dot = 0;
      for (std::int64_t i = 0; i < width; ++i) {
        dot += load(dy[i]) * load(scale[i]) * load(x[i]);
        dscale[static_cast<std::size_t>(i)] += static_cast<double>(load(dy[i]) * load(x[i]) * inverse);
      }
      if (of_dots) dot = call.operands[4].as<Wide<T>>()[row];
      const Wide<T> pull = dot * inverse * inverse * inverse / whole_width<Wide<T>>(of, width);
      for (std::int64_t i = 0; i < width; ++i) {
        const Wide<T> before = sum != nullptr ? load(sum[row * width + i]) : Wide<T>(0);
        call.results[0].as<T>()[row * width + i] = store<T>(before + (load(dy[i]) * load(scale[i]) * inverse - load(x[i]) * pull));
      }
    }
    for (std::int64_t i = 0; i < width; ++i) call.results[1].as<T>()[i] = store<T>(dscale[static_cast<std::size_t>(i)]);
  });
}

void rms_norm_grad(const KernelCall& call) { rms_norm_grad_of(call, false); }
void rms_norm_grad_of_dots(const KernelCall& call) { rms_norm_grad_of(call, true); }

// Pairs are read as neighbours or as halves and written as halves; the inverse reads halves and restores the original arrangement.
void rope(const KernelCall& call) {
  const auto& of = std::get<graph::RopeOf>(call.attributes);
  const View& x = call.operands[0];
  const std::int64_t dim = x.shape[3];
  const std::int64_t heads = x.shape[2];
  const std::int64_t half = dim / 2;
  const ScratchList<double> frequencies = rope_frequencies(of, dim);
  const double scale = rope_scale(of);
  for_floating(x.dtype, [&]<typename T>() {
    for (std::int64_t row = 0; row < x.count() / dim; ++row) {
      const double position = call.operands[1].as<std::int32_t>()[row / heads];
      const T* in = x.as<T>() + row * dim;
      T* out = call.results[0].as<T>() + row * dim;
      for (std::int64_t pair = 0; pair < half; ++pair) {
        // The angle is a float32 product, as in the reference implementation.
        const double angle = std::is_same_v<T, double>
                                 ? position * frequencies[static_cast<std::size_t>(pair)]
                                 : static_cast<double>(static_cast<float>(position) *
                                                       static_cast<float>(frequencies[static_cast<std::size_t>(pair)]));
        const auto c = static_cast<Wide<T>>(std::cos(angle) * scale);
        const auto s = static_cast<Wide<T>>(std::sin(angle) * scale);
        const std::int64_t first = of.interleave ? 2 * pair : pair;
        const std::int64_t second = of.interleave ? 2 * pair + 1 : pair + half;
        if (of.inverse) {
          const Wide<T> a = load(in[pair]);
          const Wide<T> b = load(in[pair + half]);
          out[first] = store<T>(a * c + b * s);
          out[second] = store<T>(b * c - a * s);
        } else {
          const Wide<T> a = load(in[first]);
          const Wide<T> b = load(in[second]);
          out[pair] = store<T>(a * c - b * s);
          out[pair + half] = store<T>(b * c + a * s);
        }
      }
    }
  });
}

void temper(const KernelCall& call) {
  const auto& of = std::get<graph::TemperOf>(call.attributes);
  for (std::int64_t i = 0; i < call.results[0].count(); ++i) {
    const double place = call.operands[0].as<std::int32_t>()[i];
    call.results[0].as<float>()[i] = static_cast<float>(1 + of.scale * std::log1p(std::floor((place + 1) / of.floor)));
  }
}

}  // namespace

Kernel find_layers(graph::Op op) {
  switch (op) {
    case graph::Op::softmax: return softmax;
    case graph::Op::softmax_grad: return softmax_grad;
    case graph::Op::rms_norm:
    case graph::Op::rms_norm_of_dots: return rms_norm;
    case graph::Op::rms_norm_grad: return rms_norm_grad;
    case graph::Op::row_dot: return row_dot;
    case graph::Op::rms_norm_grad_of_dots: return rms_norm_grad_of_dots;
    case graph::Op::rope: return rope;
    case graph::Op::temper: return temper;
    default: return nullptr;
  }
}

}  // namespace moesh::backend::reference
