// The LSTM layer of infocal.encoders, forward and backward, for float32 on CPU. Plain C++17, as rcnn.cpp.
#include "layer.hpp"

namespace {

// States c, h; products and biases of the gates i, f, g, o in this order, whose values are saved.
struct Lstm {
  static constexpr int kStates = 2, kInputs = 4, kGates = 4, kBiases = 4;
  using Now = States<kStates>;

  template <bool kOpen>  // whether the gate is 1
  static inline void forward(const float* R product, const float* R in, const float* R bias, float gate, Now now,
                             Now next, float* R saved, float* R output, int64_t n) {
    const float *R ac = now.at[0], *R ah = now.at[1];
    float *R bc = next.at[0], *R bh = next.at[1];
    // parts of one array that is read through them after it was written as a whole: not restrict
    float *enter = saved, *forget = saved + n, *candidate = saved + 2 * n, *leave = saved + 3 * n;
    SIMD for (int64_t j = 0; j < 2 * n; ++j) saved[j] = sigmoid_(product[j] + bias[j] + in[j]);
    SIMD for (int64_t j = 0; j < n; ++j) {
      const float g = tanh_(product[2 * n + j] + bias[2 * n + j] + in[2 * n + j]);
      const float o = sigmoid_(product[3 * n + j] + bias[3 * n + j] + in[3 * n + j]);
      const float nc = forget[j] * ac[j] + enter[j] * g, nh = o * tanh_(nc);
      candidate[j] = g;
      leave[j] = o;
      output[j] = kOpen ? nh : gate * nh;
      bc[j] = kOpen ? nc : ac[j] + gate * (nc - ac[j]);
      bh[j] = kOpen ? nh : ah[j] + gate * (nh - ah[j]);
    }
  }

  template <bool kOpen, bool kByGate>
  static inline float backward(const float* R, const float* R, float gate, Now now, const float* R saved,
                               const float* R, const float* R grad, Now carried, float* R grad_product,
                               float* R grad_in, float* R sums, int64_t n) {
    const float *R ac = now.at[0], *R ah = now.at[1];
    const float *enter = saved, *forget = saved + n, *candidate = saved + 2 * n, *leave = saved + 3 * n;
    float *R dc = carried.at[0], *R dh = carried.at[1];
    float *zi = grad_product, *zf = zi + n, *zg = zi + 2 * n, *zo = zi + 3 * n;
    float by_gate = 0.0f;
#pragma omp simd reduction(+ : by_gate)
    for (int64_t j = 0; j < n; ++j) {
      const float i = enter[j], f = forget[j], g = candidate[j], o = leave[j];
      const float nc = f * ac[j] + i * g, t = tanh_(nc);
      const float cc = dc[j], ch = dh[j];
      const float keep = kOpen ? 1.0f : gate, pass = 1.0f - keep;
      const float eh = keep * (ch + grad[j]), ec = keep * cc + eh * o * (1.0f - t * t);
      zi[j] = ec * g * i * (1.0f - i);
      zf[j] = ec * ac[j] * f * (1.0f - f);
      zg[j] = ec * i * (1.0f - g * g);
      zo[j] = eh * t * o * (1.0f - o);
      dc[j] = ec * f + (kOpen ? 0.0f : pass * cc);
      dh[j] = kOpen ? 0.0f : pass * ch;
      if (kByGate) by_gate += grad[j] * o * t + cc * (nc - ac[j]) + ch * (o * t - ah[j]);
    }
    SIMD for (int64_t j = 0; j < 4 * n; ++j) {
      sums[j] += grad_product[j];
      grad_in[j] += grad_product[j];
    }
    return by_gate;
  }

  static inline float closed_gate(const float* R in, const float* R, const float* R closed, Now now,
                                  const float* R grad, Now carried, int64_t n) {
    const float *R ac = now.at[0], *R ah = now.at[1], *R dc = carried.at[0], *R dh = carried.at[1];
    float by_gate = 0.0f;
#pragma omp simd reduction(+ : by_gate)
    for (int64_t j = 0; j < n; ++j) {
      const float i = sigmoid_(closed[j] + in[j]), f = sigmoid_(closed[n + j] + in[n + j]);
      const float g = tanh_(closed[2 * n + j] + in[2 * n + j]), o = sigmoid_(closed[3 * n + j] + in[3 * n + j]);
      const float nc = f * ac[j] + i * g, nh = o * tanh_(nc);
      by_gate += grad[j] * nh + dc[j] * (nc - ac[j]) + dh[j] * (nh - ah[j]);
    }
    return by_gate;
  }
};

}  // namespace

LAYER(lstm, Lstm)
