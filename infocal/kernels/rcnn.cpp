// The RCNN layer of infocal.encoders, forward and backward, for float32 on CPU. Plain C++17 without headers of
// torch: build.py compiles it with `c++ -shared` in seconds and layer_cpp.py calls it through ctypes.
#include "layer.hpp"

namespace {

// States c1, c2, h; the product is that of lambda, which is saved; biases: b_l of lambda, b of the output.
struct Rcnn {
  static constexpr int kStates = 3, kInputs = 3, kGates = 1, kBiases = 2;
  using Now = States<kStates>;

  template <bool kOpen>  // whether the gate is 1
  static inline void forward(const float* R product, const float* R in, const float* R bias, float gate, Now now,
                             Now next, float* R forget, float* R output, int64_t n) {
    const float *R in1 = in + n, *R in2 = in + 2 * n, *R output_bias = bias + n;
    const float *R a1 = now.at[0], *R a2 = now.at[1], *R ah = now.at[2];
    float *R b1 = next.at[0], *R b2 = next.at[1], *R bh = next.at[2];
    SIMD for (int64_t j = 0; j < n; ++j) {
      const float l = sigmoid_(product[j] + bias[j] + in[j]), m = 1.0f - l;
      const float n1 = l * a1[j] + m * in1[j], n2 = l * a2[j] + m * (a1[j] + in2[j]);
      const float nh = tanh_(n2 + output_bias[j]);
      forget[j] = l;
      output[j] = kOpen ? nh : gate * nh;
      b1[j] = kOpen ? n1 : a1[j] + gate * (n1 - a1[j]);
      b2[j] = kOpen ? n2 : a2[j] + gate * (n2 - a2[j]);
      bh[j] = kOpen ? nh : ah[j] + gate * (nh - ah[j]);
    }
  }

  template <bool kOpen, bool kByGate>
  static inline float backward(const float* R in, const float* R bias, float gate, Now now, const float* R forget,
                               const float* R output, const float* R grad, Now carried, float* R grad_product,
                               float* R grad_in, float* R sums, int64_t n) {
    const float *R in1 = in + n, *R in2 = in + 2 * n, *R output_bias = bias + n;
    const float *R a1 = now.at[0], *R a2 = now.at[1], *R ah = now.at[2];
    float *R d1 = carried.at[0], *R d2 = carried.at[1], *R dh = carried.at[2];
    float *R g1 = grad_in + n, *R g2 = grad_in + 2 * n, *R sum_output = sums + n;
    float by_gate = 0.0f;
#pragma omp simd reduction(+ : by_gate)
    for (int64_t j = 0; j < n; ++j) {
      const float l = forget[j], m = 1.0f - l;
      const float v1 = in1[j], v2 = a1[j] + in2[j];
      const float n2 = l * a2[j] + m * v2, nh = kOpen ? output[j] : tanh_(n2 + output_bias[j]);
      const float c1 = d1[j], c2 = d2[j], ch = dh[j];
      const float keep = kOpen ? 1.0f : gate, pass = 1.0f - keep;
      const float eo = keep * (ch + grad[j]) * (1.0f - nh * nh), e1 = keep * c1, e2 = keep * c2 + eo;
      const float z = (e1 * (a1[j] - v1) + e2 * (a2[j] - v2)) * (l * m), u2 = e2 * m;
      sums[j] += z;
      sum_output[j] += eo;
      grad_product[j] = z;
      grad_in[j] += z;
      g1[j] += e1 * m;
      g2[j] += u2;
      d1[j] = e1 * l + u2 + (kOpen ? 0.0f : pass * c1);
      d2[j] = e2 * l + (kOpen ? 0.0f : pass * c2);
      dh[j] = kOpen ? 0.0f : pass * ch;
      if (kByGate) {
        const float n1 = l * a1[j] + m * v1;
        by_gate += grad[j] * nh + c1 * (n1 - a1[j]) + c2 * (n2 - a2[j]) + ch * (nh - ah[j]);
      }
    }
    return by_gate;
  }

  static inline float closed_gate(const float* R in, const float* R bias, const float* R closed, Now now,
                                  const float* R grad, Now carried, int64_t n) {
    const float *R in1 = in + n, *R in2 = in + 2 * n, *R output_bias = bias + n;
    const float *R a1 = now.at[0], *R a2 = now.at[1], *R ah = now.at[2];
    const float *R d1 = carried.at[0], *R d2 = carried.at[1], *R dh = carried.at[2];
    float by_gate = 0.0f;
#pragma omp simd reduction(+ : by_gate)
    for (int64_t j = 0; j < n; ++j) {
      const float l = sigmoid_(closed[j] + in[j]), m = 1.0f - l;
      const float n1 = l * a1[j] + m * in1[j], n2 = l * a2[j] + m * (a1[j] + in2[j]);
      const float nh = tanh_(n2 + output_bias[j]);
      by_gate += grad[j] * nh + d1[j] * (n1 - a1[j]) + d2[j] * (n2 - a2[j]) + dh[j] * (nh - ah[j]);
    }
    return by_gate;
  }
};

}  // namespace

LAYER(rcnn, Rcnn)
