// The schedule of a recurrent layer whose state is carried through closed gates.
//
// A *step* of a row is a position whose gate is open, together with the run of closed positions just before it
// (the state does not move there, so they share its product with the recurrent weight). Rows are sorted by their
// number of steps: the rows that still run are a prefix, and neither padding nor closed positions cost a product.
// Row i of step s owns line base[s] + i of the saved buffers, whatever its position in the text.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

using std::int32_t;
using std::int64_t;

constexpr int kMaxStates = 3;

// A call of a layer. All arrays are dense and row-major. D = 2 directions, N lines; a cell has S states, G products
// (of the hidden state with the recurrent weight) and K biases, each H wide, and takes I projections of a word.
// Mirrored by layer_cpp.Call.
struct Call {
  int64_t length, batch, size, threads;
  int64_t by_gate;             // the gradient by the gate is wanted
  int64_t training;            // the saved buffers are kept
  const float* projected;      // U D I H
  const int64_t* index;        // B T
  const float* gate;           // B T
  const float* weight;         // D H G H
  const float* bias;           // D K H
  float* output;               // B T D H
  float* saved;                // N G H: what the cell keeps of its products for the backward pass
  float* states[kMaxStates];   // N H each: the states before each step, the hidden one last; saved for backward
  float* closed;               // N G H: product and bias at the closed positions before a step; where by_gate
  const float* grad;           // B T D H
  float* grad_projected;       // U D I H, zeros
  float* grad_gate;            // D B T, zeros
  float* grad_product;         // N G H: by product, bias and the word's part together
  float* grad_bias;            // D K H, zeros
};

namespace {

constexpr int64_t kRowBlock = 72;  // rows that run through the whole text together: their states stay in cache

struct Step {
  int32_t row, time;   // time -1: no open position any more, only closed ones
  int32_t begin, end;  // the closed positions before it, in reading order
};

// Rows of one direction that run together.
struct Lane {
  int direction;
  std::vector<int64_t> base;  // first line of each step, and the end
  std::vector<Step> steps;    // by line, from base[0] on
  int64_t count(int64_t s) const { return base[s + 1] - base[s]; }
  int64_t length() const { return (int64_t)base.size() - 1; }
  const Step& at(int64_t s, int64_t i) const { return steps[base[s] - base[0] + i]; }
};

// Position in the text of a place in reading order.
inline int64_t position(const Call& c, int direction, int64_t place) {
  return direction ? c.length - 1 - place : place;
}

inline std::vector<Step> row_steps(const Call& c, int direction, int64_t row) {
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

inline std::vector<Lane> schedule(const Call& c) {
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

// Lines of the saved buffers: those of each direction, one direction after the other.
inline void count_lines(const Call& c, int64_t* lines) {
  lines[0] = lines[1] = 0;
  for (const Lane& lane : schedule(c)) lines[lane.direction] += (int64_t)lane.steps.size();
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

}  // namespace
