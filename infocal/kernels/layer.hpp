// A recurrent layer of any cell, forward and backward. A cell is a struct of constants and static functions on the
// H units of one row at one step:
//
//   kStates, kInputs, kGates, kBiases   S, I, G and K of Call; the first G biases belong to the products, and the
//                                       word adds its first G projections to them
//   forward       from the states `now` to those `next`, and the output
//   backward      turns `carried`, the gradients by the states after a step, into those by the states before it, but
//                 for what comes through the product; adds to the gradients by the word and to `sums`, those by the
//                 biases; returns the gradient by the gate (if kByGate)
//   closed_gate   the gradient by a gate that is closed: what an open one would have shown and changed
#pragma once
#include "lanes.hpp"
#include "products.hpp"

namespace {

template <int kStates>
struct States {
  float* at[kStates];
  float* hidden() const { return at[kStates - 1]; }
};

template <class Cell>
struct Pass {
  const Call& c;
  int64_t n = c.size;

  using Now = States<Cell::kStates>;

  Now line(int64_t k) const {
    Now now;
    for (int s = 0; s < Cell::kStates; ++s) now.at[s] = c.states[s] + k * n;
    return now;
  }
  int64_t word(int64_t at, int direction) const { return (c.index[at] * 2 + direction) * Cell::kInputs * n; }
  int64_t shown(int64_t at, int direction) const { return (at * 2 + direction) * n; }
  const float* bias(int direction) const { return c.bias + direction * Cell::kBiases * n; }
};

template <class Cell>
struct Forward : Pass<Cell> {
  using Base = Pass<Cell>;
  using typename Base::Now;
  using Base::c, Base::n;
  static constexpr int kStates = Cell::kStates, kGates = Cell::kGates;

  static Packed pack(const float* weight, int64_t n) { return Packed(weight, n, kGates * n, false); }

  void run(const Lane& lane, const Packed& weight) const {
    const int64_t rows = lane.length() ? lane.count(0) : 0, stride = padded(kGates * n);
    // without training two sets of states take turns; otherwise each step has its own, saved for the backward pass
    std::vector<float> turns(c.training ? 0 : 2 * kStates * rows * n), product(rows * stride);
    std::vector<float> unused((kStates + kGates) * n);
    auto apart = [&](float* p) -> Now {
      Now now;
      for (int s = 0; s < kStates; ++s) now.at[s] = p + s * n;
      return now;
    };
    auto state = [&](int64_t s, int64_t i) -> Now {
      return c.training ? this->line(lane.base[s] + i) : apart(turns.data() + ((s % 2) * rows + i) * kStates * n);
    };
    for (int64_t i = 0; i < rows; ++i)
      for (float* p : state(0, i).at) std::fill_n(p, n, 0.0f);
    for (int64_t s = 0; s < lane.length(); ++s) {
      const int64_t going_on = s + 1 < lane.length() ? lane.count(s + 1) : 0;
      if (s)
        multiply<false>(state(s, 0).hidden(), c.training ? n : kStates * n, lane.count(s), weight, product.data(),
                        stride);
      for (int64_t i = 0; i < lane.count(s); ++i) {
        const Now next = i < going_on ? state(s + 1, i) : apart(unused.data());
        step(lane, lane.at(s, i), product.data() + i * stride, state(s, i), next, lane.base[s] + i,
             &unused[kStates * n]);
      }
    }
  }

  void step(const Lane& lane, const Step& step, const float* product, Now now, Now next, int64_t k,
            float* unused) const {
    const int d = lane.direction;
    const float* bias = this->bias(d);
    if (c.by_gate && step.begin < step.end) {
      float* R closed = c.closed + k * kGates * n;
      SIMD for (int64_t j = 0; j < kGates * n; ++j) closed[j] = product[j] + bias[j];
    }
    if (step.time < 0) return;
    const int64_t at = step.row * c.length + step.time;
    const float gate = c.gate[at];
    auto go = gate == 1.0f ? Cell::template forward<true> : Cell::template forward<false>;
    go(product, c.projected + this->word(at, d), bias, gate, now, next,
       c.training ? c.saved + k * kGates * n : unused, c.output + this->shown(at, d), n);
  }
};

template <class Cell>
struct Backward : Pass<Cell> {
  using Base = Pass<Cell>;
  using typename Base::Now;
  using Base::c, Base::n;
  static constexpr int kStates = Cell::kStates, kGates = Cell::kGates, kBiases = Cell::kBiases;

  static Packed pack(const float* weight, int64_t n) { return Packed(weight, kGates * n, n, true); }

  void run(const Lane& lane, const Packed& transposed) const {
    const int64_t rows = lane.length() ? lane.count(0) : 0, stride = padded(n);
    std::vector<float> carried(kStates * rows * stride), sums(kBiases * n);
    float* grad_bias = c.grad_bias + lane.direction * kBiases * n;
    auto at = [&](int64_t i) -> Now {
      Now now;
      for (int s = 0; s < kStates; ++s) now.at[s] = carried.data() + (s * rows + i) * stride;
      return now;
    };
    for (int64_t s = lane.length() - 1; s >= 0; --s) {
      std::fill(sums.begin(), sums.end(), 0.0f);  // step by step: a sum of sums loses fewer digits
      for (int64_t i = 0; i < lane.count(s); ++i) open(lane, lane.at(s, i), lane.base[s] + i, at(i), sums.data());
      for (int64_t j = 0; j < kBiases * n; ++j) grad_bias[j] += sums[j];
      if (s || c.by_gate)
        multiply<true>(c.grad_product + lane.base[s] * kGates * n, kGates * n, lane.count(s), transposed,
                       at(0).hidden(), stride);
      if (!c.by_gate) continue;
      for (int64_t i = 0; i < lane.count(s); ++i)
        if (lane.at(s, i).begin < lane.at(s, i).end) closed(lane, lane.at(s, i), lane.base[s] + i, at(i));
    }
  }

  void open(const Lane& lane, const Step& step, int64_t k, Now carried, float* sums) const {
    const int d = lane.direction;
    float* grad_product = c.grad_product + k * kGates * n;
    if (step.time < 0) {
      std::fill_n(grad_product, kGates * n, 0.0f);
      return;
    }
    const int64_t at = step.row * c.length + step.time, word = this->word(at, d), shown = this->shown(at, d);
    const float gate = c.gate[at];
    auto go = gate == 1.0f
                  ? (c.by_gate ? Cell::template backward<true, true> : Cell::template backward<true, false>)
                  : (c.by_gate ? Cell::template backward<false, true> : Cell::template backward<false, false>);
    const float by_gate =
        go(c.projected + word, this->bias(d), gate, this->line(k), c.saved + k * kGates * n, c.output + shown,
           c.grad + shown, carried, grad_product, c.grad_projected + word, sums, n);
    if (c.by_gate) c.grad_gate[d * c.batch * c.length + at] = by_gate;
  }

  // Gradients by the gates of a run of closed positions. Nothing else at a closed position has a gradient, and the
  // state is that before the run at each of them.
  void closed(const Lane& lane, const Step& step, int64_t k, Now carried) const {
    const int d = lane.direction;
    for (int64_t place = step.begin; place < step.end; ++place) {
      const int64_t at = step.row * c.length + position(c, d, place);
      c.grad_gate[d * c.batch * c.length + at] =
          Cell::closed_gate(c.projected + this->word(at, d), this->bias(d), c.closed + k * kGates * n,
                            this->line(k), c.grad + this->shown(at, d), carried, n);
    }
  }
};

template <class Pass>
void run(const Call& c) {
  const std::vector<Lane> lanes = schedule(c);
  for_directions(c, [&](int d) {
    const Packed weight = Pass::pack(c.weight + d * c.size * Pass::kGates * c.size, c.size);
    const Pass pass{{c}};
    for (const Lane& lane : lanes)
      if (lane.direction == d) pass.run(lane, weight);
  });
}

template <class Cell>
void run_forward(const Call& c) {
  const int64_t width = 2 * c.size;
  for (int64_t at = 0; at < c.batch * c.length; ++at)
    if (c.gate[at] == 0.0f) std::fill_n(c.output + at * width, width, 0.0f);
  run<Forward<Cell>>(c);
}

template <class Cell>
void run_backward(const Call& c) {
  run<Backward<Cell>>(c);
}

}  // namespace

// The functions of a cell that layer_cpp.py calls.
#define LAYER(name, Cell)                                                                                      \
  extern "C" {                                                                                                 \
  void infocal_##name##_lines(const Call* call, int64_t* lines) { count_lines(*call, lines); }                 \
  void infocal_##name##_forward(const Call* call) { run_forward<Cell>(*call); }                                \
  void infocal_##name##_backward(const Call* call) { run_backward<Cell>(*call); }                              \
  }
