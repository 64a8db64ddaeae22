#include "service/packing/online_packer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace packhouse {
namespace {

// The scores of two graphs, each at most this and one, add up to no more than 2^31 - 1.
constexpr uint64_t kFullScore = (uint64_t{1} << 30) - 2;
// Pairs are tried among so many of the oldest graphs with each graph of the pool.
constexpr size_t kPairCandidates = 64;
// After so many pairs, and as many single graphs, a pack is finished with whatever fits.
constexpr int kMaxBestChoices = 8;
// Weights are renewed after so many graphs: often enough to follow the stream.
constexpr uint64_t kWeightPeriod = 64;
// Totals are halved at this many graphs, so that old graphs fade and sums stay small.
constexpr uint64_t kFadePeriod = uint64_t{1} << 20;
// A pack is finished when room for fewer than this many halves of a mean graph is left.
constexpr uint64_t kFinishHalves = 5;

}  // namespace

absl::StatusOr<OnlinePacker> OnlinePacker::Create(const Limits& limits,
                                                  const OnlinePackerOptions& options) {
  if (options.look_ahead < 1 || options.look_ahead > OnlinePackerOptions::kMaxLookAhead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "look_ahead: ", options.look_ahead, ", must be 1 to ", OnlinePackerOptions::kMaxLookAhead));
  }
  if (options.max_age != 0 && options.max_age < options.look_ahead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_age: ", options.max_age, ", must be at least look_ahead, ", options.look_ahead));
  }
  if (options.max_delay <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_delay: ", absl::FormatDuration(options.max_delay), ", must be positive"));
  }
  for (size_t k = 0; k <= limits.num_components(); ++k) {
    if (limits.has_limit(k) && limits.capacity(k) > kMaxCapacity) {
      return absl::InvalidArgumentError(absl::StrCat("limits: capacity ", limits.capacity(k),
                                                     " of component number ", k,
                                                     " exceeds 2^31 - 1"));
    }
  }
  return OnlinePacker(limits, options);
}

OnlinePacker::OnlinePacker(const Limits& limits, const OnlinePackerOptions& options)
    : options_(options) {
  if (options_.max_age == 0) options_.max_age = 4 * options_.look_ahead;
  for (const uint64_t capacity : limits.capacities()) {
    capacity_.push_back(static_cast<int32_t>(std::min(capacity, kMaxCapacity)));
  }
  const size_t l = limits.num_components();
  sizes_.resize(l);
  for (auto& column : sizes_) column.reserve(options_.look_ahead + 1);
  pool_.reserve(options_.look_ahead + 1);
  scores_.reserve(options_.look_ahead + 1);
  // A pack that closes without taking from the full pool leaves it one over for a moment.
  scratch_.resize(options_.look_ahead + 1);
  room_ = capacity_;
  totals_.assign(l + 1, 0);
  weights_.assign(l + 1, kFullScore / (l + 1));
}

void OnlinePacker::UpdateWeights() {
  // Load of a component: total / capacity, in 1/2^32 capacities a graph. The most loaded one
  // decides how many packs there must be; its weight dominates by the fourth power of the load.
  std::vector<double> loads;
  double sum = 0;
  for (size_t k = 0; k < totals_.size(); ++k) {
    const double load = static_cast<double>(totals_[k]) / capacity_[k];
    loads.push_back(load * load * load * load);
    sum += loads.back();
  }
  if (sum <= 0) return;
  for (size_t k = 0; k < totals_.size(); ++k) {
    weights_[k] = static_cast<uint64_t>(loads[k] / sum * static_cast<double>(kFullScore));
  }
}

absl::StatusOr<bool> OnlinePacker::Push(absl::Span<const uint32_t> tuple, uint64_t handle,
                                        absl::Time now) {
  const size_t l = sizes_.size();
  if (tuple.size() != l) {
    return absl::InvalidArgumentError(
        absl::StrCat("graph of ", tuple.size(), " components, expected ", l));
  }
  for (size_t k = 0; k < l; ++k) {
    if (tuple[k] > static_cast<uint32_t>(capacity_[k])) {
      return absl::OutOfRangeError(absl::StrCat("graph of size (", absl::StrJoin(tuple, ", "),
                                                ") exceeds capacity ", capacity_[k],
                                                " of component number ", k));
    }
  }
  uint64_t score = weights_[l] / capacity_[l];
  for (size_t k = 0; k < l; ++k) {
    sizes_[k].push_back(static_cast<int32_t>(tuple[k]));
    totals_[k] += tuple[k];
    score += tuple[k] * weights_[k] / capacity_[k];
  }
  ++totals_[l];
  // Never 0: a graph that fits is better than none.
  scores_.push_back(static_cast<int32_t>(score + 1));
  pool_.push_back({handle, num_pushed_++, now});
  if (num_pushed_ % kWeightPeriod == 0) UpdateWeights();
  if (num_pushed_ % kFadePeriod == 0) {
    for (uint64_t& total : totals_) total /= 2;
  }
  // An aged graph does not wait until the pool is full again.
  while (pool_.size() >= options_.look_ahead || OldestIsAged()) {
    if (Step()) return true;
  }
  return false;
}

bool OnlinePacker::OldestIsAged() const {
  return !pool_.empty() && num_pushed_ - pool_.front().number >= options_.max_age;
}

bool OnlinePacker::Fits(size_t slot) const {
  for (size_t k = 0; k < sizes_.size(); ++k) {
    if (sizes_[k][slot] > room_[k]) return false;
  }
  return room_.back() > 0;
}

void OnlinePacker::Take(size_t slot) {
  for (size_t k = 0; k < sizes_.size(); ++k) {
    room_[k] -= sizes_[k][slot];
    sizes_[k].erase(sizes_[k].begin() + slot);
  }
  --room_.back();
  open_since_ = std::min(open_since_, pool_[slot].since);
  open_.push_back(pool_[slot].handle);
  pool_.erase(pool_.begin() + slot);
  scores_.erase(scores_.begin() + slot);
}

void OnlinePacker::Close() {
  complete_ = std::move(open_);
  open_.clear();
  open_since_ = absl::InfiniteFuture();
  room_ = capacity_;
}

bool OnlinePacker::NearlyFull() const {
  const uint64_t graphs = totals_.back();
  for (size_t k = 0; k < room_.size(); ++k) {
    // room < kFinishHalves / 2 * mean
    if (2 * static_cast<uint64_t>(room_[k]) * graphs < kFinishHalves * totals_[k]) return true;
  }
  return false;
}

bool OnlinePacker::TakeBestSingle() {
  size_t best = pool_.size();
  for (size_t slot = 0; slot < pool_.size(); ++slot) {
    if (Fits(slot) && (best == pool_.size() || scores_[slot] > scores_[best])) best = slot;
  }
  if (best == pool_.size()) return false;
  Take(best);
  return true;
}

void OnlinePacker::TakeAllThatFit() {
  // Keeps what does not fit, in order.
  size_t kept = 0;
  for (size_t slot = 0; slot < pool_.size(); ++slot) {
    if (Fits(slot)) {
      for (size_t k = 0; k < sizes_.size(); ++k) room_[k] -= sizes_[k][slot];
      --room_.back();
      open_since_ = std::min(open_since_, pool_[slot].since);
      open_.push_back(pool_[slot].handle);
      continue;
    }
    for (auto& column : sizes_) column[kept] = column[slot];
    pool_[kept] = pool_[slot];
    scores_[kept] = scores_[slot];
    ++kept;
  }
  for (auto& column : sizes_) column.resize(kept);
  pool_.erase(pool_.begin() + kept, pool_.end());
  scores_.resize(kept);
}

bool OnlinePacker::TakeBestPair() {
  if (room_.back() < 2) return false;
  const size_t l = sizes_.size();
  const size_t n = pool_.size();
  int32_t best = 0;
  size_t best_first = 0;
  size_t best_second = 0;
  for (size_t first = 0; first < std::min(n, kPairCandidates); ++first) {
    if (!Fits(first)) continue;
    int32_t* const joint = scratch_.data();
    // Scores of all partners that fit beside `first`, 0 for the others; written so that the
    // compiler can use vector instructions.
    const int32_t own_score = scores_[first];
    for (size_t slot = first + 1; slot < n; ++slot) joint[slot] = own_score + scores_[slot];
    for (size_t k = 0; k < l; ++k) {
      const int32_t room = room_[k] - sizes_[k][first];
      const int32_t* const column = sizes_[k].data();
      for (size_t slot = first + 1; slot < n; ++slot) {
        joint[slot] = column[slot] <= room ? joint[slot] : 0;
      }
    }
    int32_t highest = 0;
    for (size_t slot = first + 1; slot < n; ++slot) highest = std::max(highest, joint[slot]);
    if (highest > best) {
      best = highest;
      best_first = first;
      best_second = std::find(joint + first + 1, joint + n, highest) - joint;
    }
  }
  if (best == 0) return false;
  // One graph that fills better than any two?
  for (size_t slot = 0; slot < n; ++slot) {
    if (scores_[slot] >= best && Fits(slot)) {
      Take(slot);
      return true;
    }
  }
  Take(best_second);  // The later slot first: taking shifts what is behind it.
  Take(best_first);
  return true;
}

bool OnlinePacker::Finish() {
  for (int i = 0; i < kMaxBestChoices && TakeBestPair(); ++i) {
  }
  bool more = true;
  for (int i = 0; i < kMaxBestChoices && more; ++i) more = TakeBestSingle();
  if (more) TakeAllThatFit();
  // The whole pool fitted: so may the next graph.
  if (pool_.empty()) return false;
  Close();
  return true;
}

bool OnlinePacker::Step() {
  // Slot 0 is the oldest.
  const bool aged = OldestIsAged();
  if (open_.empty() || (aged && Fits(0))) {
    Take(0);
    return false;
  }
  if (!NearlyFull()) {
    for (size_t slot = 0; slot < pool_.size(); ++slot) {
      if (Fits(slot)) {
        Take(slot);
        return false;
      }
    }
  }
  return Finish();
}

bool OnlinePacker::PackPending() {
  if (num_pending() == 0) return false;
  while (!pool_.empty()) {
    if (Step()) return true;
  }
  Close();
  return true;
}

bool OnlinePacker::PackOverdue(absl::Time now) {
  if (NextDeadline() > now) return false;
  return PackPending();
}

absl::Time OnlinePacker::NextDeadline() const {
  absl::Time oldest = open_since_;
  // The pool is in order of arrival.
  if (!pool_.empty()) oldest = std::min(oldest, pool_.front().since);
  return oldest == absl::InfiniteFuture() ? oldest : oldest + options_.max_delay;
}

}  // namespace packhouse
