// The RCNN layer of infocal.encoders, forward and backward, for float32 on CPU. Plain C++17 without headers of
// torch: rcnn_cpp.py compiles it with `c++ -shared` in seconds and calls it through ctypes.
//
// A *step* of a row is a position whose gate is open, together with the run of closed positions just before it
// (the state does not move there, so they share its product with the recurrent weight). Rows are sorted by their
// number of steps: the rows that still run are a prefix, and neither padding nor closed positions cost a product.
// Row i of step s owns line base[s] + i of the saved buffers, whatever its position in the text.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#define R __restrict
#define SIMD _Pragma("omp simd")

namespace {

using std::int32_t;
using std::int64_t;

constexpr int64_t kRowBlock = 72;  // rows that run through the whole text together: their states stay in cache

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

// A square matrix cut into panels of kPanel columns (the last one of kWide, if that is enough), zero-padded.
struct Packed {
  int64_t n;
  std::vector<float> panels;
  Packed(const float* matrix, int64_t n, bool transposed) : n(n), panels(padded(n) * n) {
    float* to = panels.data();
    for (int64_t left = 0; left < n; left += kPanel) {
      const int64_t width = std::min(kPanel, padded(n) - left);
      for (int64_t k = 0; k < n; ++k)
        for (int64_t j = left; j < left + width; ++j)
          *to++ = j >= n ? 0.0f : transposed ? matrix[j * n + k] : matrix[k * n + j];
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
inline void tile(const float* a, int64_t lda, const float* panel, int64_t n, float* c, int64_t ldc,
                 std::index_sequence<I...>) {
  Vector left[sizeof...(I)] = {}, right[sizeof...(I)] = {};
  for (int64_t k = 0; k < n; ++k, panel += kWhole ? kPanel : kWide) {
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
    if (whole) tile<kAdd, true>(a, lda, panel, b.n, c + left, ldc, rows);
    else tile<kAdd, false>(a, lda, panel, b.n, c + left, ldc, rows);
    panel += b.n * (whole ? kPanel : kWide);
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

// ---------------------------------------------------------------------------------------------- interface

// All arrays are dense and row-major. D = 2 directions, N lines. Mirrored by rcnn_cpp.Call.
struct Call {
  int64_t length, batch, size, threads;
  int64_t by_gate;        // the gradient by the gate is wanted
  int64_t training;       // the saved buffers are kept
  const float* projected; // U D 3 H
  const int64_t* index;   // B T
  const float* gate;      // B T
  const float* weight;    // D H H
  const float* gate_bias; // D H
  const float* output_bias;
  float* output;          // B T D H
  float *forget, *first, *second, *hidden;  // N H: lambda, and the states before each step; saved for backward
  float* closed;          // N H: the input of lambda's sigmoid at the closed positions before a step, but for what
                          // their words add; where by_gate
  const float* grad;      // B T D H
  float* grad_projected;  // U D 3 H, zeros
  float* grad_gate;       // D B T, zeros
  float* grad_forget;     // N H: by the input of lambda's sigmoid
  float *grad_gate_bias, *grad_output_bias;  // D H, zeros
};

namespace {

// ------------------------------------------------------------------------------------------------ schedule

struct Step {
  int32_t row, time;      // time -1: no open position any more, only closed ones
  int32_t begin, end;     // the closed positions before it, in reading order
};

// Rows of one direction that run together.
struct Lane {
  int direction;
  std::vector<int64_t> base;             // first line of each step, and the end
  std::vector<Step> steps;               // by line, from base[0] on
  int64_t count(int64_t s) const { return base[s + 1] - base[s]; }
  int64_t length() const { return (int64_t)base.size() - 1; }
  const Step& at(int64_t s, int64_t i) const { return steps[base[s] - base[0] + i]; }
};

// Position in the text of a place in reading order.
inline int64_t position(const Call& c, int direction, int64_t place) {
  return direction ? c.length - 1 - place : place;
}

std::vector<Step> row_steps(const Call& c, int direction, int64_t row) {
  std::vector<Step> steps;
  int32_t begin = 0;
  for (int64_t place = 0; place < c.length; ++place) {
    const int64_t t = position(c, direction, place);
    if (c.gate[row * c.length + t] == 0.0f) continue;
    steps.push_back({(int32_t)row, (int32_t)t, begin, (int32_t)place});
    begin = (int32_t)place + 1;
  }
  if (c.by_gate && begin < c.length) steps.push_back({(int32_t)row, -1, begin, (int32_t)c.length});
  return steps;
}

std::vector<Lane> schedule(const Call& c) {
  std::vector<Lane> lanes;
  int64_t line = 0;
  for (int direction = 0; direction < 2; ++direction) {
    std::vector<std::vector<Step>> rows;
    for (int64_t row = 0; row < c.batch; ++row) rows.push_back(row_steps(c, direction, row));
    std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
    for (int64_t from = 0; from < c.batch; from += kRowBlock) {
      const int64_t to = std::min(c.batch, from + kRowBlock);
      Lane lane{direction, {line}, {}};
      for (size_t s = 0; s < rows[from].size(); ++s) {
        for (int64_t i = from; i < to && rows[i].size() > s; ++i) lane.steps.push_back(rows[i][s]);
        lane.base.push_back(line + (int64_t)lane.steps.size());
      }
      line = lane.base.back();
      lanes.push_back(std::move(lane));
    }
  }
  return lanes;
}

// Runs `work` for the lanes of both directions, on two threads where two are allowed. The directions never write
// to the same place.
template <class Work>
void for_directions(const Call& c, Work work) {
  if (c.threads < 2) {
    work(0);
    work(1);
    return;
  }
  std::thread other(work, 1);
  work(0);
  other.join();
}

// ------------------------------------------------------------------------------------------------- forward

struct State {
  float *R first, *R second, *R hidden;
};

template <bool kOpen>  // whether the gate is 1
inline void step_forward(const float* R product, const float* R in, const float* R gate_bias,
                         const float* R output_bias, float gate, State now, State next,
                         float* R forget, float* R output, int64_t n) {
  const float *R in1 = in + n, *R in2 = in + 2 * n;
  const float *R a1 = now.first, *R a2 = now.second, *R ah = now.hidden;
  float *R b1 = next.first, *R b2 = next.second, *R bh = next.hidden;
  SIMD for (int64_t j = 0; j < n; ++j) {
    const float l = sigmoid_(product[j] + gate_bias[j] + in[j]), m = 1.0f - l;
    const float n1 = l * a1[j] + m * in1[j], n2 = l * a2[j] + m * (a1[j] + in2[j]);
    const float nh = tanh_(n2 + output_bias[j]);
    forget[j] = l;
    output[j] = kOpen ? nh : gate * nh;
    b1[j] = kOpen ? n1 : a1[j] + gate * (n1 - a1[j]);
    b2[j] = kOpen ? n2 : a2[j] + gate * (n2 - a2[j]);
    bh[j] = kOpen ? nh : ah[j] + gate * (nh - ah[j]);
  }
}

struct Forward {
  const Call& c;
  int64_t n, stride;

  State line(int64_t k) const { return {c.first + k * n, c.second + k * n, c.hidden + k * n}; }

  void run(const Lane& lane, const Packed& weight) const {
    const int64_t rows = lane.length() ? lane.count(0) : 0;
    // without training two sets of states take turns; otherwise each step has its own, saved for the backward pass
    std::vector<float> turns(c.training ? 0 : 6 * rows * n), product(rows * stride), spare(4 * n);
    auto state = [&](int64_t s, int64_t i) -> State {
      if (c.training) return line(lane.base[s] + i);
      float* p = turns.data() + ((s % 2) * rows + i) * 3 * n;
      return {p, p + n, p + 2 * n};
    };
    for (int64_t i = 0; i < rows; ++i) {
      const State zero = state(0, i);
      for (float* p : {zero.first, zero.second, zero.hidden}) std::fill_n(p, n, 0.0f);
    }
    for (int64_t s = 0; s < lane.length(); ++s) {
      const int64_t going_on = s + 1 < lane.length() ? lane.count(s + 1) : 0;
      if (s) multiply<false>(state(s, 0).hidden, c.training ? n : 3 * n, lane.count(s), weight, product.data(), stride);
      for (int64_t i = 0; i < lane.count(s); ++i) {
        const State next = i < going_on ? state(s + 1, i) : State{&spare[0], &spare[n], &spare[2 * n]};
        const int64_t k = lane.base[s] + i;
        step(lane, lane.at(s, i), product.data() + i * stride, state(s, i), next, k, &spare[3 * n]);
      }
    }
  }

  void step(const Lane& lane, const Step& step, const float* product, State now, State next, int64_t k,
            float* spare) const {
    const int64_t d = lane.direction;
    const float *gate_bias = c.gate_bias + d * n, *output_bias = c.output_bias + d * n;
    if (c.by_gate && step.begin < step.end) {
      float* R closed = c.closed + k * n;
      SIMD for (int64_t j = 0; j < n; ++j) closed[j] = product[j] + gate_bias[j];
    }
    if (step.time < 0) return;
    const int64_t at = step.row * c.length + step.time;
    const float gate = c.gate[at];
    const float* in = c.projected + (c.index[at] * 2 + d) * 3 * n;
    float *forget = c.training ? c.forget + k * n : spare, *output = c.output + (at * 2 + d) * n;
    auto go = gate == 1.0f ? step_forward<true> : step_forward<false>;
    go(product, in, gate_bias, output_bias, gate, now, next, forget, output, n);
  }
};

// ------------------------------------------------------------------------------------------------ backward

// Gradients by the states after a step, turned into those by the states before it, but for the recurrent product.
struct Carried {
  float *R first, *R second, *R hidden;
};

struct Sums {
  float *R gate_bias, *R output_bias;
};

// Returns the gradient by the gate (if kByGate).
template <bool kOpen, bool kByGate>
inline float step_backward(const float* R in, const float* R output_bias, float gate, State now,
                           const float* R forget, const float* R output, const float* R grad, Carried carried,
                           float* R grad_forget, float* R grad_in, Sums sums, int64_t n) {
  const float *R in1 = in + n, *R in2 = in + 2 * n;
  const float *R a1 = now.first, *R a2 = now.second, *R ah = now.hidden;
  float *R d1 = carried.first, *R d2 = carried.second, *R dh = carried.hidden;
  float *R g1 = grad_in + n, *R g2 = grad_in + 2 * n, *R sum_gate = sums.gate_bias, *R sum_output = sums.output_bias;
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
    sum_gate[j] += z;
    sum_output[j] += eo;
    grad_forget[j] = z;
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

inline float by_closed_gate(const float* R in, const float* R closed, const float* R output_bias, State now,
                            const float* R grad, Carried carried, int64_t n) {
  const float *R in1 = in + n, *R in2 = in + 2 * n;
  const float *R a1 = now.first, *R a2 = now.second, *R ah = now.hidden;
  const float *R d1 = carried.first, *R d2 = carried.second, *R dh = carried.hidden;
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

struct Backward {
  const Call& c;
  int64_t n, stride;

  State line(int64_t k) const { return {c.first + k * n, c.second + k * n, c.hidden + k * n}; }

  void run(const Lane& lane, const Packed& transposed) const {
    const int64_t d = lane.direction, rows = lane.length() ? lane.count(0) : 0;
    std::vector<float> carried(rows * 3 * stride), sums(2 * n);
    auto at = [&](int64_t i) -> Carried {
      float* p = carried.data() + i * stride;
      return {p, p + rows * stride, p + 2 * rows * stride};
    };
    for (int64_t s = lane.length() - 1; s >= 0; --s) {
      std::fill(sums.begin(), sums.end(), 0.0f);  // step by step: a sum of sums loses fewer digits
      for (int64_t i = 0; i < lane.count(s); ++i)
        open(lane, lane.at(s, i), lane.base[s] + i, at(i), {&sums[0], &sums[n]});
      for (int64_t j = 0; j < n; ++j) {
        c.grad_gate_bias[d * n + j] += sums[j];
        c.grad_output_bias[d * n + j] += sums[n + j];
      }
      if (s || c.by_gate)
        multiply<true>(c.grad_forget + lane.base[s] * n, n, lane.count(s), transposed, at(0).hidden, stride);
      if (!c.by_gate) continue;
      for (int64_t i = 0; i < lane.count(s); ++i)
        if (lane.at(s, i).begin < lane.at(s, i).end) closed(lane, lane.at(s, i), lane.base[s] + i, at(i));
    }
  }

  void open(const Lane& lane, const Step& step, int64_t k, Carried carried, Sums sums) const {
    const int64_t d = lane.direction;
    float* grad_forget = c.grad_forget + k * n;
    if (step.time < 0) {
      std::fill_n(grad_forget, n, 0.0f);
      return;
    }
    const int64_t at = step.row * c.length + step.time, word = (c.index[at] * 2 + d) * 3 * n, out = (at * 2 + d) * n;
    const float gate = c.gate[at];
    auto go = gate == 1.0f ? (c.by_gate ? step_backward<true, true> : step_backward<true, false>)
                           : (c.by_gate ? step_backward<false, true> : step_backward<false, false>);
    const float by_gate =
        go(c.projected + word, c.output_bias + d * n, gate, line(k), c.forget + k * n, c.output + out,
           c.grad + out, carried, grad_forget, c.grad_projected + word, sums, n);
    if (c.by_gate) c.grad_gate[d * c.batch * c.length + at] = by_gate;
  }

  // Gradients by the gates of a run of closed positions: what an open one would have shown and changed. Nothing
  // else at a closed position has a gradient, and the state is that before the run at each of them.
  void closed(const Lane& lane, const Step& step, int64_t k, Carried carried) const {
    const int64_t d = lane.direction;
    for (int64_t place = step.begin; place < step.end; ++place) {
      const int64_t at = step.row * c.length + position(c, (int)d, place);
      c.grad_gate[d * c.batch * c.length + at] =
          by_closed_gate(c.projected + (c.index[at] * 2 + d) * 3 * n, c.closed + k * n, c.output_bias + d * n, line(k),
                         c.grad + (at * 2 + d) * n, carried, n);
    }
  }
};

template <class Pass>
void run(const Call& c, bool transposed) {
  const std::vector<Lane> lanes = schedule(c);
  for_directions(c, [&](int d) {
    const Packed weight(c.weight + d * c.size * c.size, c.size, transposed);
    const Pass pass{c, c.size, padded(c.size)};
    for (const Lane& lane : lanes)
      if (lane.direction == d) pass.run(lane, weight);
  });
}

}  // namespace

extern "C" {

// Lines of the saved buffers: those of each direction, one direction after the other.
void infocal_rcnn_lines(const Call* call, int64_t* lines) {
  lines[0] = lines[1] = 0;
  for (const Lane& lane : schedule(*call)) lines[lane.direction] += (int64_t)lane.steps.size();
}

void infocal_rcnn_forward(const Call* call) {
  const Call& c = *call;
  const int64_t width = 2 * c.size;
  for (int64_t at = 0; at < c.batch * c.length; ++at)
    if (c.gate[at] == 0.0f) std::fill_n(c.output + at * width, width, 0.0f);
  run<Forward>(c, false);
}

void infocal_rcnn_backward(const Call* call) { run<Backward>(*call, true); }

}  // extern "C"
