// Functions and matrix products of the recurrent layers, for float32, without a library.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#define R __restrict
#define SIMD _Pragma("omp simd")

using std::int32_t;
using std::int64_t;

namespace {

// ------------------------------------------------------------------------------------------- functions

// exp with an error of 2 ulp; the magic number rounds x log2(e) to the nearest integer. NaN stays NaN.
inline float exp_(float x) {
  x = x > 87.0f ? 87.0f : x;
  x = x < -87.0f ? -87.0f : x;
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * (r * r) + r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, 4);
  bits = (int32_t)(((uint32_t)bits << 23) + 0x3f800000u);
  float scale;
  std::memcpy(&scale, &bits, 4);
  return p * scale;
}

inline float sigmoid_(float x) { return 1.0f / (1.0f + exp_(-x)); }
inline float tanh_(float x) { return 1.0f - 2.0f / (1.0f + exp_(2.0f * x)); }

// -------------------------------------------------------------------------------------------- products

#ifdef __AVX512F__
constexpr int kWide = 16, kTile = 12;
#else
constexpr int kWide = 8, kTile = 6;
#endif
typedef float Vector __attribute__((vector_size(kWide * 4)));
constexpr int64_t kPanel = 2 * kWide;

inline int64_t padded(int64_t n) { return (n + kWide - 1) / kWide * kWide; }

// A matrix of `depth` rows and `n` columns, cut into panels of kPanel columns (the last one of kWide, if that is
// enough), zero-padded. `transposed`: it is given with rows and columns exchanged.
struct Packed {
  int64_t depth, n;
  std::vector<float> panels;
  Packed(const float* matrix, int64_t depth, int64_t n, bool transposed)
      : depth(depth), n(n), panels(padded(n) * depth) {
    float* to = panels.data();
    for (int64_t left = 0; left < n; left += kPanel) {
      const int64_t width = std::min(kPanel, padded(n) - left);
      for (int64_t k = 0; k < depth; ++k)
        for (int64_t j = left; j < left + width; ++j)
          *to++ = j >= n ? 0.0f : transposed ? matrix[j * depth + k] : matrix[k * n + j];
    }
  }
};

inline Vector load(const float* from) {
  Vector v;
  std::memcpy(&v, from, sizeof v);
  return v;
}

// Rows I... times a panel. The fold expressions have constant indices, which keeps the sums in registers.
template <bool kAdd, bool kWhole, size_t... I>
inline void tile(const float* a, int64_t lda, const float* panel, int64_t depth, float* c, int64_t ldc,
                 std::index_sequence<I...>) {
  Vector left[sizeof...(I)] = {}, right[sizeof...(I)] = {};
  for (int64_t k = 0; k < depth; ++k, panel += kWhole ? kPanel : kWide) {
    const Vector b = load(panel), d = kWhole ? load(panel + kWide) : Vector{};
    auto row = [&](float x, Vector& to_left, Vector& to_right) {  // row by row: each factor is needed once
      to_left += x * b;
      if (kWhole) to_right += x * d;
    };
    (row(a[I * lda + k], left[I], right[I]), ...);
  }
  auto store = [](Vector sum, float* to) {
    if (kAdd) sum += load(to);
    std::memcpy(to, &sum, sizeof sum);
  };
  (store(left[I], c + I * ldc), ...);
  if constexpr (kWhole) (store(right[I], c + I * ldc + kWide), ...);
}

template <int kRows, bool kAdd>
void rows_times(const float* a, int64_t lda, const Packed& b, float* c, int64_t ldc) {
  const float* panel = b.panels.data();
  for (int64_t left = 0; left < b.n; left += kPanel) {
    const bool whole = padded(b.n) - left >= kPanel;
    const auto rows = std::make_index_sequence<kRows>();
    if (whole) tile<kAdd, true>(a, lda, panel, b.depth, c + left, ldc, rows);
    else tile<kAdd, false>(a, lda, panel, b.depth, c + left, ldc, rows);
    panel += b.depth * (whole ? kPanel : kWide);
  }
}

// c (+)= a b, for `rows` rows; the rows of c are padded(n) apart at least.
template <bool kAdd>
void multiply(const float* a, int64_t lda, int64_t rows, const Packed& b, float* c, int64_t ldc) {
  for (; rows >= kTile; rows -= kTile, a += kTile * lda, c += kTile * ldc) rows_times<kTile, kAdd>(a, lda, b, c, ldc);
  for (; rows >= 4; rows -= 4, a += 4 * lda, c += 4 * ldc) rows_times<4, kAdd>(a, lda, b, c, ldc);
  for (; rows >= 2; rows -= 2, a += 2 * lda, c += 2 * ldc) rows_times<2, kAdd>(a, lda, b, c, ldc);
  if (rows) rows_times<1, kAdd>(a, lda, b, c, ldc);
}

}  // namespace
