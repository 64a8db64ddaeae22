#include "service/algorithms/packing/companions.h"

#include <algorithm>
#include <cmath>

namespace packhouse {
namespace {

// How much shorter the short component must be than the one that mean graphs would fill.
constexpr double kShort = 1.1;
// Shapes that differ by this share are nearly equal.
constexpr double kNearlyEqual = 0.05;

// How many times a room holds something.
double Times(double room, double rows) { return room / std::max(rows, 1e-9); }

}  // namespace

Companions::Companions(const Limits& limits)
    : totals_(limits.num_components()), mean_(limits.num_components()) {
  for (size_t k = 0; k < limits.num_components(); ++k) {
    const uint64_t capacity = std::min(limits.capacity(k), kMaxCapacity);
    capacity_.push_back(static_cast<double>(capacity));
    half_.push_back(static_cast<uint32_t>((capacity + 1) / 2));
  }
}

bool Companions::Add(absl::Span<const uint32_t> tuple) {
  for (size_t k = 0; k < tuple.size(); ++k) {
    if (tuple[k] >= half_[k]) return true;
  }
  for (size_t k = 0; k < tuple.size(); ++k) totals_[k] += tuple[k];
  ++num_graphs_;
  return false;
}

void Companions::Fade() {
  for (uint64_t& total : totals_) total /= 2;
  num_graphs_ = (num_graphs_ + 1) / 2;
}

void Companions::Learn() {
  if (num_graphs_ == 0) return;
  for (size_t k = 0; k < mean_.size(); ++k) {
    mean_[k] = static_cast<double>(totals_[k]) / static_cast<double>(num_graphs_);
  }
  heaviest_ = 0;
  for (size_t k = 1; k < mean_.size(); ++k) {
    if (mean_[k] * capacity_[heaviest_] > mean_[heaviest_] * capacity_[k]) heaviest_ = k;
  }
}

bool Companions::IsLopsided(const PoolColumns& pool, size_t slot) const {
  if (mean_.empty() || mean_[heaviest_] == 0) return false;
  const auto size = [&](size_t k) { return pool.sizes[k * pool.stride + slot]; };
  const double times = Times(capacity_[heaviest_] - size(heaviest_), mean_[heaviest_]);
  for (size_t k = 0; k < mean_.size(); ++k) {
    if (Times(capacity_[k] - size(k), mean_[k]) * kShort < times) return true;
  }
  return false;
}

void Companions::Start(absl::Span<const int32_t> room) {
  short_ = heaviest_;
  for (size_t k = 0; k < mean_.size(); ++k) {
    if (Times(room[k], mean_[k]) < Times(room[short_], mean_[short_])) short_ = k;
  }
}

bool Companions::NearlyFull(absl::Span<const int32_t> room, uint64_t graphs) const {
  return room.back() < static_cast<int32_t>(graphs) ||
         room[heaviest_] < static_cast<double>(graphs) * mean_[heaviest_];
}

size_t Companions::Find(const PoolColumns& pool, absl::Span<const int32_t> room, size_t begin,
                        size_t end) const {
  const double wanted = Times(room[short_], room[heaviest_]);
  size_t best = PoolScan::kNone;
  double least = 0;
  for (size_t slot = begin; slot < end; ++slot) {
    if (pool.scores[slot] == 0) continue;
    bool fits = true;
    for (size_t k = 0; k < mean_.size() && fits; ++k) {
      fits = pool.sizes[k * pool.stride + slot] <= room[k];
    }
    if (!fits) continue;
    // Both shares of the room; equal if the shapes are.
    const double of_short = pool.sizes[short_ * pool.stride + slot];
    const double of_heaviest = pool.sizes[heaviest_ * pool.stride + slot] * wanted;
    const double misfit =
        std::abs(of_short - of_heaviest) / std::max({of_short, of_heaviest, 1e-9});
    if (misfit <= kNearlyEqual) return slot;
    if (best == PoolScan::kNone || misfit < least) {
      best = slot;
      least = misfit;
    }
  }
  return best;
}

}  // namespace packhouse
