#include "service/engine/epochs/pair_dealing.h"

#include <algorithm>
#include <utility>

namespace packhouse {
namespace {

// Sums of shares are exact to some 10^-15; a row of the largest capacity is 5 * 10^-10.
constexpr double kNoExcess = 1e-11;

double Above(double value, double bound) { return std::max(0.0, value - bound); }

}  // namespace

PairDealing::PairDealing(const ItemSizes& sizes) : sizes_(sizes) {
  const size_t most_components = sizes.num_components() + 1;
  first_.sizes.resize(most_components);
  second_.sizes.resize(most_components);
}

void PairDealing::Side::Clear() {
  items.clear();
  for (std::vector<double>& column : sizes) column.clear();
}

void PairDealing::Side::Take(size_t i, Side& from) {
  items.push_back(from.items[i]);
  from.items[i] = from.items.back();
  from.items.pop_back();
  for (size_t k = 0; k < sizes.size(); ++k) {
    if (from.sizes[k].empty()) continue;
    sizes[k].push_back(from.sizes[k][i]);
    from.sizes[k][i] = from.sizes[k].back();
    from.sizes[k].pop_back();
  }
}

uint64_t PairDealing::Rows(uint32_t item, size_t component) const {
  const absl::Span<const uint32_t> tuple = sizes_.tuple(item);
  // Graphs are the last component; a group's tuple tells its own.
  return component < tuple.size() ? tuple[component] : 1;
}

void PairDealing::Measure(const Limits& first, const Limits& second, const DealtPair& pair) {
  components_.clear();
  least_.clear();
  most_.clear();
  second_most_.clear();
  unit_.clear();
  const size_t num_components = first.capacities().size();
  for (size_t k = 0; k < num_components; ++k) {
    if (!first.has_limit(k) && !second.has_limit(k)) continue;
    uint64_t sum = 0;
    for (const uint32_t item : pair.items) sum += Rows(item, k);
    // Where all fits one batch, there is nothing to keep.
    if (sum <= first.capacity(k) && sum <= second.capacity(k)) continue;
    const double unit = static_cast<double>(std::min(first.capacity(k), second.capacity(k)));
    const uint64_t most = std::min(sum, first.capacity(k));
    const uint64_t second_most = std::min(sum, second.capacity(k));
    components_.push_back(k);
    unit_.push_back(unit);
    most_.push_back(static_cast<double>(most) / unit);
    second_most_.push_back(static_cast<double>(second_most) / unit);
    least_.push_back(static_cast<double>(sum - second_most) / unit);
  }
  // The scarcest is the one in which the two batches have the least room together.
  scarcest_ = 0;
  for (size_t k = 1; k < components_.size(); ++k) {
    const double room = most_[k] - least_[k];
    const double least_room = most_[scarcest_] - least_[scarcest_];
    if (room < least_room) scarcest_ = k;
  }
}

// `items` are in random order, which decides between equal sizes.
void PairDealing::Split(SeededRandom& random, absl::Span<const uint32_t> items) {
  const size_t l = components_.size();
  ranked_.clear();
  for (const uint32_t item : items) {
    double largest = 0;
    for (size_t k = 0; k < l; ++k) {
      largest = std::max(largest, static_cast<double>(Rows(item, components_[k])) / unit_[k]);
    }
    ranked_.push_back({largest, item});
  }
  std::stable_sort(ranked_.begin(), ranked_.end(),
                   [](const Ranked& a, const Ranked& b) { return a.size > b.size; });

  first_.Clear();
  second_.Clear();
  room_.assign(most_.begin(), most_.end());
  room_.insert(room_.end(), second_most_.begin(), second_most_.end());
  for (const Ranked& next : ranked_) {
    bool fits_first = true;
    bool fits_second = true;
    for (size_t k = 0; k < l; ++k) {
      const double size = static_cast<double>(Rows(next.item, components_[k])) / unit_[k];
      fits_first = fits_first && size <= room_[k];
      fits_second = fits_second && size <= room_[l + k];
    }
    // A number in [0, 1) of 53 bits, so that it is exact.
    const double chance = static_cast<double>(random.Next() >> 11) * 0x1p-53;
    bool to_first = fits_first;
    if (fits_first == fits_second) {
      const double room = l == 0 ? 1 : std::max(room_[scarcest_], 0.0);
      const double other = l == 0 ? 1 : std::max(room_[l + scarcest_], 0.0);
      const double both = room + other;
      to_first = both > 0 ? chance < room / both : chance < 0.5;
    }
    Side& side = to_first ? first_ : second_;
    side.items.push_back(next.item);
    for (size_t k = 0; k < l; ++k) {
      const double size = static_cast<double>(Rows(next.item, components_[k])) / unit_[k];
      side.sizes[k].push_back(size);
      room_[to_first ? k : l + k] -= size;
    }
  }
  dealt_.assign(l, 0);
  for (size_t k = 0; k < l; ++k) {
    for (const double size : first_.sizes[k]) dealt_[k] += size;
  }
}

double PairDealing::Excess() const {
  double sum = 0;
  for (size_t k = 0; k < dealt_.size(); ++k) {
    sum += Above(least_[k], dealt_[k]) + Above(dealt_[k], most_[k]);
  }
  return sum;
}

PairDealing::Repair PairDealing::BestRepair(double excess, SeededRandom& random) {
  const size_t l = components_.size();
  const size_t num_first = first_.items.size();
  const size_t num_second = second_.items.size();
  Repair best = {excess, num_first, num_second};
  // Windows of either side; one past the end stands for no item.
  const size_t window = std::min(num_second, kMostOfSide);
  const size_t begin = num_second == window ? 0 : random.Below(num_second - window + 1);
  const size_t tried = std::min(num_first, kMostOfSide);
  const size_t first_begin = num_first == tried ? 0 : random.Below(num_first - tried + 1);
  excess_.resize(window + 1);
  for (size_t i = 0; i <= tried; ++i) {
    const bool is_move = i == tried;
    const size_t own = is_move ? num_first : first_begin + i;
    std::fill(excess_.begin(), excess_.end(), 0.0);
    for (size_t k = 0; k < l; ++k) {
      const double rest = is_move ? dealt_[k] : dealt_[k] - first_.sizes[k][own];
      const double least = least_[k] - rest;
      const double most = most_[k] - rest;
      const double* const sizes = second_.sizes[k].data() + begin;
      for (size_t j = 0; j < window; ++j) {
        excess_[j] += std::max(0.0, std::max(least - sizes[j], sizes[j] - most));
      }
      excess_[window] += std::max(0.0, std::max(least, -most));
    }
    for (size_t j = 0; j <= window; ++j) {
      if (excess_[j] >= best.excess) continue;
      const size_t other = j == window ? num_second : begin + j;
      // Neither batch may become empty, and something must change.
      if (other == num_second && (is_move || num_first == 1)) continue;
      if (is_move && num_second == 1) continue;
      best = {excess_[j], own, other};
    }
    if (best.excess <= kNoExcess) break;
  }
  return best;
}

void PairDealing::Apply(const Repair& repair) {
  const size_t l = components_.size();
  const bool gives = repair.first < first_.items.size();
  const bool takes = repair.second < second_.items.size();
  for (size_t k = 0; k < l; ++k) {
    if (gives) dealt_[k] -= first_.sizes[k][repair.first];
    if (takes) dealt_[k] += second_.sizes[k][repair.second];
  }
  if (gives && takes) {
    std::swap(first_.items[repair.first], second_.items[repair.second]);
    for (size_t k = 0; k < l; ++k) {
      std::swap(first_.sizes[k][repair.first], second_.sizes[k][repair.second]);
    }
  } else if (gives) {
    second_.Take(repair.first, first_);
  } else {
    first_.Take(repair.second, second_);
  }
}

bool PairDealing::Keeps(const Limits& limits, const Side& side) const {
  for (const size_t k : components_) {
    uint64_t sum = 0;
    for (const uint32_t item : side.items) sum += Rows(item, k);
    if (sum > limits.capacity(k)) return false;
  }
  return true;
}

bool PairDealing::Deal(const Limits& first, const Limits& second, SeededRandom& random,
                       DealtPair& pair) {
  Measure(first, second, pair);
  std::vector<uint32_t>& items = shuffled_;
  items.assign(pair.items.begin(), pair.items.end());
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    num_dealt_ += items.size();
    for (size_t i = 0; i + 1 < items.size(); ++i) {
      std::swap(items[i], items[i + random.Below(items.size() - i)]);
    }
    Split(random, items);
    if (first_.items.empty() || second_.items.empty()) continue;
    double excess = Excess();
    for (int repairs = 0; excess > kNoExcess && repairs < kRepairs; ++repairs) {
      const Repair repair = BestRepair(excess, random);
      if (repair.excess >= excess) break;
      Apply(repair);
      excess = repair.excess;
    }
    if (excess > kNoExcess || !Keeps(first, first_) || !Keeps(second, second_)) continue;
    std::copy(second_.items.begin(), second_.items.end(),
              std::copy(first_.items.begin(), first_.items.end(), pair.items.begin()));
    pair.num_first = first_.items.size();
    return true;
  }
  return false;
}

}  // namespace packhouse
