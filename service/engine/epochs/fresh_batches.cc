#include "service/engine/epochs/fresh_batches.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/pair_counter.h"
#include "service/engine/epochs/pair_dealing.h"

namespace packhouse {
namespace {

// At most so many rounds, whatever they deal.
constexpr int kMostRounds = 128;
// Whether somebody still waits is asked each time that so many items were dealt: about every
// millisecond.
constexpr uint64_t kDealtBetweenAsking = uint64_t{1} << 12;

// Exact to 10^-16, and the same on every machine.
double Number(uint64_t count) { return static_cast<double>(count); }

// The largest item number and one more; 0 without items.
absl::StatusOr<size_t> EndOfItems(const EpochBatches& epoch, const Making& making) {
  size_t end = 0;
  for (size_t b = 0; b < epoch.num_batches(); ++b) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(b));
    for (const uint32_t item : epoch.batch(b)) end = std::max(end, size_t{item} + 1);
  }
  return end;
}

// In which batch an item is, by its number, which is below `end`.
absl::StatusOr<std::vector<uint32_t>> BatchOfItem(const EpochBatches& epoch, size_t end,
                                                  const Making& making) {
  std::vector<uint32_t> batch_of(end, kNowhere);
  for (size_t b = 0; b < epoch.num_batches(); ++b) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(b));
    for (const uint32_t item : epoch.batch(b)) batch_of[item] = static_cast<uint32_t>(b);
  }
  return batch_of;
}

// The batches of an epoch while they change.
class ChangingBatches {
 public:
  // Bytes for this many items and batches, while room is made.
  static uint64_t BytesFor(uint64_t items, uint64_t batches) {
    return sizeof(uint32_t) * 2 * Capacity(items) + 2 * sizeof(uint32_t) * batches;
  }

  explicit ChangingBatches(const EpochBatches& drawn) {
    room_.reserve(Capacity(drawn.num_items()));
    begins_.reserve(drawn.num_batches());
    sizes_.reserve(drawn.num_batches());
    for (size_t b = 0; b < drawn.num_batches(); ++b) {
      const absl::Span<const uint32_t> items = drawn.batch(b);
      begins_.push_back(static_cast<uint32_t>(room_.size()));
      sizes_.push_back(static_cast<uint32_t>(items.size()));
      room_.insert(room_.end(), items.begin(), items.end());
    }
  }

  size_t size() const { return begins_.size(); }
  absl::Span<const uint32_t> operator[](size_t batch) const {
    return absl::MakeConstSpan(room_).subspan(begins_[batch], sizes_[batch]);
  }

  // `pair` has as many items as both have now.
  void Set(size_t first, size_t second, const DealtPair& pair) {
    if (room_.capacity() - room_.size() < pair.items.size()) MakeRoom();
    const auto begin = static_cast<uint32_t>(room_.size());
    room_.insert(room_.end(), pair.items.begin(), pair.items.end());
    begins_[first] = begin;
    sizes_[first] = static_cast<uint32_t>(pair.num_first);
    begins_[second] = begin + sizes_[first];
    sizes_[second] = static_cast<uint32_t>(pair.items.size() - pair.num_first);
  }

 private:
  // A pair is appended, and leaves a hole; so a quarter more, or one pair of all items.
  static size_t Capacity(uint64_t items) { return items + std::max<uint64_t>(items / 4, 1024); }

  void MakeRoom() {
    std::vector<uint32_t> packed;
    packed.reserve(room_.capacity());
    for (size_t b = 0; b < size(); ++b) {
      const absl::Span<const uint32_t> items = (*this)[b];
      begins_[b] = static_cast<uint32_t>(packed.size());
      packed.insert(packed.end(), items.begin(), items.end());
    }
    room_ = std::move(packed);
  }

  std::vector<uint32_t> room_;
  std::vector<uint32_t> begins_;
  std::vector<uint32_t> sizes_;
};

// What a round knows of one epoch beside another draw of its plan.
struct Staleness {
  uint64_t together = 0;
  // Pairs that are together in batches that `stale` lists.
  uint64_t together_in_stale = 0;
  std::vector<uint32_t> stale;
};

class Exchange {
 public:
  Exchange(const ItemSizes& sizes, const ShapeLimits& limits,
           absl::Span<const uint64_t> first_batches, std::vector<uint32_t> batch_of,
           ChangingBatches& batches, SeededRandom random, const FreshBatchesOptions& options,
           const Making& making)
      : sizes_(sizes),
        limits_(limits),
        first_batches_(first_batches),
        batch_of_(std::move(batch_of)),
        counter_(batch_of_, batches.size()),
        batches_(batches),
        dealing_(sizes),
        random_(random),
        options_(options),
        making_(making) {
    for (size_t b = 0; b < batches_.size(); ++b) {
      num_items_ += batches_[b].size();
      num_pairs_ += PairsOf(batches_[b].size());
    }
  }

  absl::Status Run() {
    if (batches_.size() < 2 || num_pairs_ == 0) return absl::OkStatus();
    const double pairs = Number(num_pairs_);
    const double of_shuffle = pairs / Number(PairsOf(num_items_));
    PH_ASSIGN_OR_RETURN(Staleness now, Measure(0, 0));
    // What chance makes of so many pairs is within its deviation.
    const double expected = pairs * of_shuffle;
    if (Number(now.together) - 2 * std::sqrt(expected) <= options_.most_company * expected) {
      return absl::OkStatus();
    }
    // An exchange halves what two draws have together beyond chance. This epoch and the next are
    // both exchanged, and this one is measured beside a draw that is not; so the company of the two
    // is about the square of what is left here, over what it was. Half of it is aimed at, since
    // some pairs are harder to part than others.
    const double before = Number(now.together) / pairs - of_shuffle;
    const double enough = std::sqrt((options_.most_company - 1) / 2 * of_shuffle * before);
    const double most_deals = Number(options_.most_deals) * Number(num_items_);
    for (int round = 0; round < kMostRounds && Number(dealing_.num_dealt()) < most_deals; ++round) {
      const double excess = Number(now.together) / pairs - of_shuffle;
      if (round > 0 && excess <= enough) break;
      // Where few batches are left that keep their company, only these are dealt.
      if (2 * Number(now.together_in_stale) >= excess * pairs &&
          4 * now.stale.size() <= batches_.size()) {
        PH_RETURN_IF_ERROR(DealStale(now.stale, round));
      } else {
        PH_RETURN_IF_ERROR(DealAll());
      }
      PH_ASSIGN_OR_RETURN(now, Measure(of_shuffle, enough));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<Staleness> Measure(double of_shuffle, double enough) {
    Staleness found;
    for (size_t b = 0; b < batches_.size(); ++b) {
      PH_RETURN_IF_ERROR(making_.StillWantedAt(b));
      const absl::Span<const uint32_t> items = batches_[b];
      const uint64_t together = counter_.Together(items);
      found.together += together;
      const double usual = Number(PairsOf(items.size())) * (of_shuffle + enough);
      if (Number(together) - 1 > 2 * usual) {
        found.together_in_stale += together;
        found.stale.push_back(static_cast<uint32_t>(b));
      }
    }
    return found;
  }

  absl::Status DealAll() {
    order_.resize(batches_.size());
    for (size_t b = 0; b < order_.size(); ++b) order_[b] = static_cast<uint32_t>(b);
    PH_RETURN_IF_ERROR(Shuffle(absl::MakeSpan(order_), random_, making_));
    for (size_t i = 0; i + 1 < order_.size(); i += 2) {
      PH_RETURN_IF_ERROR(Deal(order_[i], order_[i + 1]));
    }
    return absl::OkStatus();
  }

  // In turns with any other batch, and with each other: what is left over beside a giant fits only
  // beside another giant, and among all batches two of these meet seldom.
  absl::Status DealStale(std::vector<uint32_t>& stale, int round) {
    PH_RETURN_IF_ERROR(Shuffle(absl::MakeSpan(stale), random_, making_));
    if (round % 2 == 0) {
      for (const uint32_t batch : stale) {
        const uint64_t other = random_.Below(batches_.size() - 1);
        PH_RETURN_IF_ERROR(Deal(batch, static_cast<uint32_t>(other + (other >= batch ? 1 : 0))));
      }
      return absl::OkStatus();
    }
    SortByRest(stale);
    for (size_t i = 0; i + 1 < stale.size(); i += 2) {
      PH_RETURN_IF_ERROR(Deal(stale[i], stale[i + 1]));
    }
    return absl::OkStatus();
  }

  // So that neighbours have items of like sizes beside their largest one. The component that sizes
  // are compared in is drawn.
  void SortByRest(std::vector<uint32_t>& batches) {
    const size_t component = random_.Below(sizes_.num_components());
    rests_.clear();
    for (const uint32_t batch : batches) {
      uint64_t sum = 0;
      uint64_t largest = 0;
      for (const uint32_t item : batches_[batch]) {
        sum += sizes_.tuple(item)[component];
        largest = std::max<uint64_t>(largest, sizes_.tuple(item)[component]);
      }
      rests_.emplace_back((sum - largest) / std::max<uint64_t>(1, batches_[batch].size() - 1),
                          batch);
    }
    std::stable_sort(rests_.begin(), rests_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < batches.size(); ++i) batches[i] = rests_[i].second;
  }

  absl::Status Deal(uint32_t first, uint32_t second) {
    if (dealing_.num_dealt() >= asked_at_) {
      PH_RETURN_IF_ERROR(making_.StillWanted());
      asked_at_ = dealing_.num_dealt() + kDealtBetweenAsking;
    }
    const size_t first_group = RankGroupOf(first);
    const size_t second_group = RankGroupOf(second);
    const std::vector<Limits>& first_shapes = limits_[first_group];
    const std::vector<Limits>& second_shapes = limits_[second_group];
    const size_t first_shape = ShapeOf(first_shapes, batches_[first]);
    const size_t second_shape = ShapeOf(second_shapes, batches_[second]);
    pair_.items.assign(batches_[first].begin(), batches_[first].end());
    pair_.num_first = pair_.items.size();
    pair_.items.insert(pair_.items.end(), batches_[second].begin(), batches_[second].end());
    if (!dealing_.Deal(first_shapes[first_shape], second_shapes[second_shape], random_, pair_)) {
      return absl::OkStatus();
    }
    const auto items = absl::MakeConstSpan(pair_.items);
    if (Keeps(first_group, first_shape, items.first(pair_.num_first)) &&
        Keeps(second_group, second_shape, items.subspan(pair_.num_first))) {
      batches_.Set(first, second, pair_);
    }
    return absl::OkStatus();
  }

  size_t RankGroupOf(uint32_t batch) const {
    size_t rank_group = 0;
    while (batch >= first_batches_[rank_group + 1]) ++rank_group;
    return rank_group;
  }

  // Whether a batch of the shape may have these items, which fit its limits.
  bool Keeps(size_t rank_group, size_t shape, absl::Span<const uint32_t> items) {
    if (ShapeOf(limits_[rank_group], items) != shape) return false;
    if (!options_.takes) return true;
    AddUp(items);
    return options_.takes(rank_group, shape, rows_);
  }

  // The last shape that takes the items.
  size_t ShapeOf(const std::vector<Limits>& shapes, absl::Span<const uint32_t> items) {
    if (shapes.size() == 1) return 0;
    AddUp(items);
    size_t shape = shapes.size() - 1;
    while (shape > 0 && !Takes(shapes[shape])) --shape;
    return shape;
  }

  void AddUp(absl::Span<const uint32_t> items) {
    rows_.assign(limits_[0][0].capacities().size(), 0);
    for (const uint32_t item : items) AddRows(sizes_.tuple(item), 1, absl::MakeSpan(rows_));
  }

  bool Takes(const Limits& limits) const {
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (rows_[k] > limits.capacity(k)) return false;
    }
    return true;
  }

  const ItemSizes& sizes_;
  const ShapeLimits& limits_;
  const absl::Span<const uint64_t> first_batches_;
  const std::vector<uint32_t> batch_of_;
  PairCounter counter_;
  ChangingBatches& batches_;
  PairDealing dealing_;
  SeededRandom random_;
  const FreshBatchesOptions& options_;
  const Making& making_;
  uint64_t num_items_ = 0;
  uint64_t num_pairs_ = 0;
  uint64_t asked_at_ = 0;
  DealtPair pair_;
  std::vector<uint64_t> rows_;
  std::vector<uint32_t> order_;
  std::vector<std::pair<uint64_t, uint32_t>> rests_;
};

}  // namespace

absl::StatusOr<Company> MeasureCompany(const EpochBatches& one, const EpochBatches& other,
                                       const Making& making) {
  PH_ASSIGN_OR_RETURN(const size_t end, EndOfItems(other, making));
  PH_ASSIGN_OR_RETURN(const MemoryHold memory,
                      making.Hold(absl::StrCat("company of ", one.num_items(), " graphs"),
                                  sizeof(uint32_t) * (end + other.num_batches())));
  PH_ASSIGN_OR_RETURN(const std::vector<uint32_t> batch_of, BatchOfItem(other, end, making));
  PairCounter counter(batch_of, other.num_batches());
  uint64_t together = 0;
  uint64_t pairs = 0;
  for (size_t b = 0; b < one.num_batches(); ++b) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(b));
    together += counter.Together(one.batch(b));
    pairs += PairsOf(one.batch(b).size());
  }
  if (pairs == 0) return Company();
  return Company{Number(together) / Number(pairs),
                 Number(pairs) / Number(PairsOf(one.num_items()))};
}

Company CompanyOf(const EpochBatches& one, const EpochBatches& other) {
  return MeasureCompany(one, other, Making()).value();
}

absl::StatusOr<EpochBatches> DrawFreshEpoch(
    const SizeClasses& classes, absl::Span<const std::vector<Pattern>> patterns_by_rank_group,
    const ItemSizes& sizes, const ShapeLimits& limits, const EpochSeed& seed,
    std::optional<absl::Span<const uint64_t>> group_ids, const Making& making,
    const FreshBatchesOptions& options) {
  PH_ASSIGN_OR_RETURN(EpochBatches drawn,
                      DrawEpoch(classes, patterns_by_rank_group, seed, group_ids, making));
  if (options.most_deals == 0 || drawn.num_batches() < 2) return drawn;
  const std::string what = absl::StrCat("fresh batches of ", drawn.num_items(), " graphs");
  PH_ASSIGN_OR_RETURN(MemoryHold memory,
                      making.Hold(what, sizeof(uint32_t) * (sizes.num_items() + 1)));
  std::vector<uint32_t> batch_of;
  {
    const EpochSeed other = {SequenceStart(seed, DrawPurpose::kOtherDraw), seed.epoch};
    PH_ASSIGN_OR_RETURN(const EpochBatches beside,
                        DrawEpoch(classes, patterns_by_rank_group, other, group_ids, making));
    PH_ASSIGN_OR_RETURN(const size_t end, EndOfItems(beside, making));
    PH_ASSIGN_OR_RETURN(batch_of, BatchOfItem(beside, end, making));
  }
  PH_RETURN_IF_ERROR(making.Grow(what,
                                 ChangingBatches::BytesFor(drawn.num_items(), drawn.num_batches()) +
                                     4 * sizeof(uint32_t) * drawn.num_batches(),
                                 memory));
  ChangingBatches batches(drawn);
  Exchange exchange(sizes, limits, drawn.first_batches(), std::move(batch_of), batches,
                    SeededRandom(SequenceStart(seed, DrawPurpose::kExchanges)), options, making);
  PH_RETURN_IF_ERROR(exchange.Run());
  drawn.SetItems([&](size_t b) { return batches[b]; });
  return drawn;
}

}  // namespace packhouse
