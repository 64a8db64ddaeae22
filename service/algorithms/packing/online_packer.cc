#include "service/algorithms/packing/online_packer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace packhouse {
namespace {

// The score of a pack that is full to the last row. A graph's score is at most this plus one, so
// that the scores of two graphs sum to at most 2^31 - 1, even with rounding.
constexpr double kFullScore = (1 << 30) - 16;
// The first graph of a pair is searched among this many of the oldest slots, also in an exchange.
constexpr size_t kPairCandidates = 64;
constexpr size_t kExchangeCandidates = 32;
// Bounds on time, rarely reached: after this many choices a pack is finished with any graph that
// fits; the most exchanges; and how many of the pack's latest graphs they consider.
constexpr int kMaxChoices = 8;
constexpr int kMaxExchanges = 8;
constexpr size_t kMaxRetractable = 16;
// A pack that wastes at most 1 / this of itself needs no better choice. If 1 / (4 * look_ahead) is
// less, that is the bound, since a larger choice allows less waste. A pack that wastes at most this
// many times as much is not worth an exchange.
constexpr uint64_t kEnoughInverse = 1024;
constexpr double kExchangeThreshold = 3;
// A pack is finished when room for fewer than this many mean graphs is left.
constexpr uint64_t kFinishGraphs = 2;
// Beyond this look-ahead the graphs that are left at the end of a stream are a good part of it.
constexpr size_t kLargeLookAhead = 1024;
// Packs start with lopsided graphs this many times as often as the pool has them; and as often as
// they can, when there are this many times as many as usual.
constexpr double kLopsidedPace = 2;
constexpr double kUnusual = 1.25;
// Weights are renewed after this many graphs, or a quarter of the look-ahead: often enough to
// follow the pool, and rarely enough that rescoring it costs little.
constexpr uint64_t kLessonPeriod = 32;
// Totals are halved at this many graphs, so that old graphs fade and sums stay small.
constexpr uint64_t kFadePeriod = uint64_t{1} << 20;
// Weights are loads to the power of 2^this: large for the heaviest component, and much smaller for
// lighter ones.
constexpr int kPriceSquarings = 4;
constexpr int kWasteSquarings = 6;
// The mean waste above which lighter components count for more, and the number of packs of that
// mean.
constexpr double kHighWaste = 1.0 / 1024;
constexpr double kWastePeriod = 64;

double PowerOfTwoPower(double base, int squarings) {
  for (int i = 0; i < squarings; ++i) base *= base;
  return base;
}

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
  if (options.vector_level > BestVectorLevel()) {
    return absl::InvalidArgumentError(
        absl::StrCat("vector_level: ", VectorLevelName(options.vector_level), ", this machine has ",
                     VectorLevelName(BestVectorLevel())));
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
    : options_(options),
      scan_(&PoolScanOf(options.vector_level, limits.num_components())),
      enough_(kFullScore / std::max<uint64_t>(kEnoughInverse, 4 * options.look_ahead)),
      // Twice the pool, so that Compact() is called at most once in that many pushes.
      stride_(2 * options.look_ahead + 256),
      companions_(limits) {
  if (options_.max_age == 0) options_.max_age = 4 * options_.look_ahead;
  for (const uint64_t capacity : limits.capacities()) {
    capacity_.push_back(static_cast<int32_t>(std::min(capacity, kMaxCapacity)));
  }
  const size_t l = limits.num_components();
  waiting_.resize(stride_);
  columns_.resize((l + 1) * stride_ + PoolColumns::kOverrun);
  pool_totals_.resize(l + 1);
  room_ = capacity_;
  trial_.resize(l + 1);
  rest_.resize(l + 1);
  totals_.resize(l + 1);
  ample_room_.resize(l + 1);
  prices_.resize(l + 1);
  waste_prices_.resize(l + 1);
  spare_.resize(l + 1);
}

void OnlinePacker::Learn() {
  const size_t n = capacity_.size();
  // Loads, relative to the heaviest of the stream and of the pool. Neither is 0, since a graph was
  // just pushed.
  double stream_load = 0;
  double pool_load = 0;
  for (size_t k = 0; k < n; ++k) {
    const double load = static_cast<double>(totals_[k]) / capacity_[k];
    if (load > stream_load) heaviest_ = k;
    stream_load = std::max(stream_load, load);
    pool_load = std::max(pool_load, static_cast<double>(pool_totals_[k]) / capacity_[k]);
  }
  // What binds has a high price: a component's load beside the heaviest, in the stream and in what
  // waits now, raised to a power, so that the others hardly count. What a pack must leave empty in
  // components that bind less is spare, and no waste.
  double highest = 0;
  for (size_t k = 0; k < n; ++k) {
    const double in_stream = static_cast<double>(totals_[k]) / capacity_[k] / stream_load;
    const double in_pool = static_cast<double>(pool_totals_[k]) / capacity_[k] / pool_load;
    prices_[k] = in_stream + in_pool;
    highest = std::max(highest, prices_[k]);
    spare_[k] = (1 - in_stream) * capacity_[k];
    waste_prices_[k] =
        PowerOfTwoPower(in_stream, mean_waste_ > kHighWaste ? kPriceSquarings : kWasteSquarings);
  }
  // Prices of rows, such that a pack that is full in all components has kFullScore.
  double sum = 0;
  double waste_sum = 0;
  for (size_t k = 0; k < n; ++k) {
    prices_[k] = PowerOfTwoPower(prices_[k] / highest, kPriceSquarings);
    sum += prices_[k];
    waste_sum += waste_prices_[k];
  }
  for (size_t k = 0; k < n; ++k) {
    prices_[k] = prices_[k] / sum * (kFullScore / capacity_[k]);
    waste_prices_[k] = waste_prices_[k] / waste_sum * (kFullScore / capacity_[k]);
    // Of two mean graphs.
    const uint64_t ample = kFinishGraphs * totals_[k] / totals_.back();
    ample_room_[k] = static_cast<int32_t>(std::min(ample, kMaxCapacity));
  }
  companions_.Learn();
  // Graphs that wait are scored anew; holes (score 0) stay holes.
  num_lopsided_ = 0;
  for (size_t slot = head_; slot < tail_; ++slot) {
    if (scores()[slot] == 0) continue;
    scores()[slot] = ScoreOf(slot);
    if (!waiting_[slot].is_large) continue;
    waiting_[slot].is_lopsided = companions_.IsLopsided(pool(), slot) ? 1 : 0;
    num_lopsided_ += waiting_[slot].is_lopsided;
  }
}

int32_t OnlinePacker::ScoreOf(size_t slot) const {
  // Never 0: any graph that fits is better than no graph.
  double score = prices_.back() + 1;
  for (size_t k = 0; k < num_components(); ++k) score += prices_[k] * sizes(k)[slot];
  return static_cast<int32_t>(score);
}

double OnlinePacker::WasteOf(const std::vector<int32_t>& room) const {
  double waste = 0;
  for (size_t k = 0; k < room.size(); ++k) {
    waste += waste_prices_[k] * std::max(0.0, room[k] - spare_[k]);
  }
  return waste;
}

absl::StatusOr<bool> OnlinePacker::Push(absl::Span<const uint32_t> tuple, uint64_t handle,
                                        absl::Time now) {
  const size_t l = num_components();
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
  Append(tuple, handle, now);
  // An aged graph does not wait until the pool is full again.
  while (num_waiting_ >= options_.look_ahead || OldestIsAged()) {
    if (Step()) return true;
  }
  return false;
}

void OnlinePacker::Append(absl::Span<const uint32_t> tuple, uint64_t handle, absl::Time now) {
  if (tail_ == stride_) Compact();
  const size_t l = num_components();
  const size_t slot = tail_++;
  for (size_t k = 0; k < l; ++k) {
    sizes(k)[slot] = static_cast<int32_t>(tuple[k]);
    totals_[k] += tuple[k];
    pool_totals_[k] += tuple[k];
  }
  ++totals_[l];
  ++pool_totals_[l];
  scores()[slot] = ScoreOf(slot);
  const bool is_large = companions_.Add(tuple);
  waiting_[slot].handle = handle;
  waiting_[slot].number = num_pushed_++;
  waiting_[slot].is_large = is_large ? 1 : 0;
  waiting_[slot].is_lopsided = is_large && companions_.IsLopsided(pool(), slot) ? 1 : 0;
  waiting_[slot].since = now;
  ++num_waiting_;
  num_lopsided_ += waiting_[slot].is_lopsided;
  if (num_pushed_ % kFadePeriod == 0) {
    for (uint64_t& total : totals_) total /= 2;
    companions_.Fade();
  }
  if (num_pushed_ == next_lesson_) {
    // In a new stream, weights are renewed at the first, second, fourth graph and so on.
    next_lesson_ +=
        std::min(num_pushed_, std::max<uint64_t>(kLessonPeriod, options_.look_ahead / 4));
    Learn();
  }
}

bool OnlinePacker::Fits(size_t slot) const {
  for (size_t k = 0; k < num_components(); ++k) {
    if (sizes(k)[slot] > room_[k]) return false;
  }
  return room_.back() > 0;
}

bool OnlinePacker::NearlyFull() const {
  if (is_directed_) return companions_.NearlyFull(room_, kFinishGraphs);
  for (size_t k = 0; k < room_.size(); ++k) {
    if (room_[k] < ample_room_[k]) return true;
  }
  return false;
}

void OnlinePacker::Take(size_t slot) {
  const size_t l = num_components();
  for (size_t k = 0; k < l; ++k) {
    room_[k] -= sizes(k)[slot];
    pool_totals_[k] -= static_cast<uint64_t>(sizes(k)[slot]);
  }
  --room_[l];
  --pool_totals_[l];
  scores()[slot] = 0;
  --num_waiting_;
  num_lopsided_ -= waiting_[slot].is_lopsided;
  open_since_ = std::min(open_since_, waiting_[slot].since);
  open_.push_back(waiting_[slot].handle);
  retractable_.push_back(slot);
  while (head_ < tail_ && scores()[head_] == 0) ++head_;
}

void OnlinePacker::Take(const Choice& choice) {
  Take(choice.first);
  if (choice.second != PoolScan::kNone) Take(choice.second);
}

void OnlinePacker::TakeSeed(bool by_age) {
  size_t slot = head_;
  // Without a choice, a look-ahead of 1, it is next-fit.
  const bool has_choice = options_.look_ahead > 1 && !by_age && !OldestIsAged();
  if (has_choice && is_ending_ && options_.look_ahead > kLargeLookAhead) {
    slot = LargestWaiting();
  } else if (has_choice && LopsidedIsDue()) {
    while (scores()[slot] == 0 || !waiting_[slot].is_lopsided) ++slot;
  }
  Take(slot);
  is_directed_ = waiting_[slot].is_lopsided != 0;
  if (is_directed_) companions_.Start(room_);
}

bool OnlinePacker::LopsidedIsDue() {
  const auto lopsided = static_cast<double>(num_lopsided_);
  if (usual_lopsided_ < 0) usual_lopsided_ = lopsided;
  if (num_lopsided_ == 0 && usual_lopsided_ == 0) return false;
  // Packs that the pool would make.
  const double packs = std::max(
      1.0, static_cast<double>(num_waiting_) * static_cast<double>(totals_[heaviest_]) /
               static_cast<double>(totals_.back()) / static_cast<double>(capacity_[heaviest_]));
  usual_lopsided_ += (lopsided - usual_lopsided_) / packs;
  // With more than usual the stream has changed; none should wait for more.
  const bool is_due = lopsided > kUnusual * usual_lopsided_ + 1;
  lopsided_due_ = std::min(1.0, lopsided_due_ + kLopsidedPace * lopsided / packs);
  if (num_lopsided_ == 0 || (!is_due && lopsided_due_ < 1)) return false;
  if (!is_due) lopsided_due_ = 0;
  return true;
}

size_t OnlinePacker::LargestWaiting() const {
  size_t largest = head_;
  for (size_t slot = head_; slot < tail_; ++slot) {
    if (scores()[slot] != 0 && sizes(heaviest_)[slot] > sizes(heaviest_)[largest]) largest = slot;
  }
  return largest;
}

void OnlinePacker::TakeAllThatFit() {
  size_t slot = head_;
  while (room_.back() > 0) {
    slot = scan_->first(pool(), room_.data(), slot, tail_);
    if (slot == PoolScan::kNone) return;
    Take(slot);
  }
}

void OnlinePacker::PutBack(size_t place) {
  const size_t l = num_components();
  const size_t slot = retractable_[place];
  for (size_t k = 0; k < l; ++k) {
    room_[k] += sizes(k)[slot];
    pool_totals_[k] += static_cast<uint64_t>(sizes(k)[slot]);
  }
  ++room_[l];
  ++pool_totals_[l];
  scores()[slot] = ScoreOf(slot);
  ++num_waiting_;
  num_lopsided_ += waiting_[slot].is_lopsided;
  open_.erase(open_.end() - static_cast<ptrdiff_t>(retractable_.size() - place));
  retractable_.erase(retractable_.begin() + static_cast<ptrdiff_t>(place));
  head_ = std::min(head_, slot);
}

void OnlinePacker::Close() {
  complete_ = std::move(open_);
  open_ = Pack();
  // The next pack is likely to be much like this one.
  open_.reserve(std::min<size_t>(complete_.size() + complete_.size() / 4, 64));
  open_since_ = absl::InfiniteFuture();
  is_directed_ = false;
  retractable_.clear();
  room_ = capacity_;
  // Compacts now rather than while a pack is half full: then its graphs could not be put back any
  // more.
  if (stride_ - tail_ < 64 + options_.look_ahead / 2) Compact();
}

void OnlinePacker::Compact() {
  size_t kept = 0;
  for (size_t slot = head_; slot < tail_; ++slot) {
    if (scores()[slot] == 0) continue;
    for (size_t k = 0; k <= num_components(); ++k) sizes(k)[kept] = sizes(k)[slot];
    waiting_[kept] = waiting_[slot];
    ++kept;
  }
  std::fill(scores() + kept, scores() + tail_, 0);
  head_ = 0;
  tail_ = kept;
  retractable_.clear();
}

void OnlinePacker::Subtract(const Choice& choice, std::vector<int32_t>& room) const {
  for (const size_t slot : {choice.first, choice.second}) {
    if (slot == PoolScan::kNone) continue;
    for (size_t k = 0; k < num_components(); ++k) room[k] -= sizes(k)[slot];
    --room.back();
  }
}

OnlinePacker::Choice OnlinePacker::FindBest(const std::vector<int32_t>& room, size_t candidates,
                                            int32_t floor) {
  Choice best = {.score = floor};
  if (room.back() >= 2) {
    const size_t limit = std::min(tail_, head_ + candidates);
    for (size_t begin = head_; begin < limit;) {
      const PoolPair pair =
          scan_->pair(pool(), room.data(), begin, limit, tail_, best.score, rest_.data());
      if (pair.first == PoolScan::kNone) break;
      best = {scores()[pair.first] + scores()[pair.second], pair.first, pair.second};
      rest_ = room;
      Subtract(best, rest_);
      if (WasteOf(rest_) <= enough_) return best;
      begin = pair.first + 1;
    }
  }
  if (room.back() >= 1) {
    const size_t slot = scan_->best(pool(), room.data(), head_, tail_, best.score);
    if (slot != PoolScan::kNone) best = {scores()[slot], slot, PoolScan::kNone};
  }
  return best;
}

bool OnlinePacker::Exchange() {
  Choice best;
  int32_t best_gain = 0;
  size_t best_place = 0;
  size_t begin = retractable_.size() - std::min(retractable_.size(), kMaxRetractable);
  // The first graph of a pack stays: its turn has come.
  if (begin == 0 && retractable_.size() == open_.size()) begin = 1;
  for (const bool pairs : {false, true}) {
    for (size_t place = begin; place < retractable_.size(); ++place) {
      const size_t slot = retractable_[place];
      if (IsAged(slot)) continue;
      for (size_t k = 0; k < num_components(); ++k) trial_[k] = room_[k] + sizes(k)[slot];
      trial_.back() = room_.back() + 1;
      const int32_t own_score = ScoreOf(slot);
      const Choice choice =
          FindBest(trial_, pairs ? kExchangeCandidates : 0, own_score + best_gain);
      if (choice.first == PoolScan::kNone) continue;
      best = choice;
      best_gain = choice.score - own_score;
      best_place = place;
      Subtract(choice, trial_);
      if (WasteOf(trial_) > enough_) continue;
      PutBack(place);
      Take(choice);
      return true;
    }
  }
  if (best_gain == 0) return false;
  PutBack(best_place);
  Take(best);
  return true;
}

bool OnlinePacker::Finish() {
  for (int i = 0; i < kMaxChoices; ++i) {
    const Choice choice = FindBest(room_, kPairCandidates, 0);
    if (choice.first == PoolScan::kNone) break;
    Take(choice);
    if (WasteOf(room_) <= kExchangeThreshold * enough_) break;
  }
  // Without a choice nothing can be better: a look-ahead of 1 is next-fit.
  if (options_.look_ahead > 1) {
    for (int i = 0; i < kMaxExchanges && WasteOf(room_) > kExchangeThreshold * enough_; ++i) {
      if (!Exchange()) break;
    }
  }
  TakeAllThatFit();
  // The whole pool fitted, so the next graph may fit too.
  if (num_waiting_ == 0) return false;
  const double waste = static_cast<double>(room_[heaviest_]) / capacity_[heaviest_];
  mean_waste_ += (waste - mean_waste_) / kWastePeriod;
  Close();
  return true;
}

bool OnlinePacker::Step(bool by_age) {
  if (open_.empty()) {
    TakeSeed(by_age);
    return false;
  }
  const bool nearly_full = NearlyFull();
  if ((OldestIsAged() || (!nearly_full && !is_directed_)) && Fits(head_)) {
    Take(head_);
    return false;
  }
  if (!nearly_full) {
    const size_t slot = is_directed_ ? companions_.Find(pool(), room_, head_, tail_)
                                     : scan_->first(pool(), room_.data(), head_, tail_);
    if (slot != PoolScan::kNone && room_.back() > 0) {
      Take(slot);
      return false;
    }
  }
  return Finish();
}

bool OnlinePacker::CompletePending(bool by_age) {
  if (num_pending() == 0) return false;
  while (num_waiting_ != 0) {
    if (Step(by_age)) return true;
  }
  Close();
  return true;
}

bool OnlinePacker::PackPending(bool is_end) {
  is_ending_ = is_end;
  const bool has_packed = CompletePending(false);
  is_ending_ = false;
  return has_packed;
}

bool OnlinePacker::PackOverdue(absl::Time now) {
  if (NextDeadline() > now) return false;
  return CompletePending(true);
}

absl::Time OnlinePacker::NextDeadline() const {
  const absl::Time oldest = num_waiting_ == 0 ? absl::InfiniteFuture() : waiting_[head_].since;
  return std::min(open_since_, oldest) + options_.max_delay;
}

}  // namespace packhouse
