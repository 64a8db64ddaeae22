#include "service/wings/graphs/sampling/edge_choice.h"

#include <algorithm>

#include "service/wings/graphs/sampling/draw_random.h"

namespace packhouse {
namespace {

using tfgnn::SamplingStrategy;

// Up to here it is faster to look at all that was chosen than into a hash set.
constexpr uint32_t kScanned = 32;

}  // namespace

// Floyd's way (Bentley and Floyd 1987): one random number for each that is chosen.
void EdgeChoice::ChooseUniform(uint64_t first, uint64_t degree, uint32_t sample_size,
                               SeededRandom& random, std::vector<uint64_t>& places) {
  const size_t begin = places.size();
  places.resize(begin + sample_size);
  uint64_t* const chosen = places.data() + begin;
  if (sample_size <= kScanned) {
    for (uint32_t i = 0; i < sample_size; ++i) {
      const uint64_t last = degree - sample_size + i;
      const uint64_t candidate = first + random.Below(last + 1);
      bool is_chosen = false;
      for (uint32_t j = 0; j < i; ++j) is_chosen |= chosen[j] == candidate;
      chosen[i] = is_chosen ? first + last : candidate;
    }
    return;
  }
  size_t slots = 64;
  while (slots < size_t{sample_size} * 2) slots *= 2;
  chosen_.assign(slots, 0);
  // Whether it was free.
  const auto take = [&](uint64_t number) {
    for (size_t slot = (number * 0x9e3779b97f4a7c15) >> 32 & (slots - 1);;
         slot = (slot + 1) & (slots - 1)) {
      if (chosen_[slot] == number + 1) return false;
      if (chosen_[slot] != 0) continue;
      chosen_[slot] = number + 1;
      return true;
    }
  };
  for (uint32_t i = 0; i < sample_size; ++i) {
    const uint64_t last = degree - sample_size + i;
    uint64_t number = random.Below(last + 1);
    if (!take(number)) {
      number = last;
      take(number);
    }
    chosen[i] = first + number;
  }
}

template <typename Key, typename May, typename KeyOf>
void EdgeChoice::ChooseSmallest(uint64_t begin, uint64_t end, uint32_t sample_size, const May& may,
                                const KeyOf& key_of, std::vector<std::pair<Key, uint64_t>>& heap,
                                std::vector<uint64_t>& places) {
  // From the moment that one is too many, the largest of those that are kept is on top. Places
  // rise, so that of equal keys the first stay.
  heap.clear();
  bool is_heap = false;
  for (uint64_t place = begin; place < end; ++place) {
    if (!may(place)) continue;
    const std::pair<Key, uint64_t> entry(key_of(place), place);
    if (heap.size() < sample_size) {
      heap.push_back(entry);
      continue;
    }
    if (!is_heap) std::make_heap(heap.begin(), heap.end());
    is_heap = true;
    if (!(entry < heap.front())) continue;
    std::pop_heap(heap.begin(), heap.end());
    heap.back() = entry;
    std::push_heap(heap.begin(), heap.end());
  }
  if (is_heap) std::sort_heap(heap.begin(), heap.end());
  for (const auto& [key, place] : heap) places.push_back(place);
}

void EdgeChoice::Choose(const OpEdges& edges, uint32_t row, uint32_t sample_size, TimeRange times,
                        absl::Span<const EdgeEnds> excluded, SeededRandom random,
                        std::vector<uint64_t>& places) {
  const uint64_t begin = edges.by_source.offsets[row];
  const uint64_t end = edges.by_source.offsets[row + size_t{1}];
  const bool is_temporal = edges.is_temporal();
  const bool has_excluded = !excluded.empty();
  // Whether the edge is there.
  const auto is_there = [&](uint64_t place) {
    if (is_temporal && !times.Has(edges.Time(place))) return false;
    return !has_excluded || !std::binary_search(excluded.begin(), excluded.end(),
                                                EdgeEnds(row, edges.by_source.neighbours[place]));
  };
  const auto weight = [&](uint64_t place) {
    return edges.weights.Double(edges.by_source.edge(place));
  };
  if (edges.strategy == SamplingStrategy::kTopK) {
    const auto key = [&](uint64_t place) {
      return ~edges.weights.Rank(edges.by_source.edge(place));
    };
    ChooseSmallest(begin, end, sample_size, is_there, key, by_rank_, places);
  } else if (edges.strategy == SamplingStrategy::kRandomWeighted) {
    // Efraimidis and Spirakis 2006: of exponential clocks with these rates, the one that rings next
    // is the one that would be drawn next. NaN is not above 0.
    const auto may = [&](uint64_t place) { return is_there(place) && weight(place) > 0; };
    const auto key = [&](uint64_t place) { return Exponential(random) / weight(place); };
    ChooseSmallest(begin, end, sample_size, may, key, by_clock_, places);
  } else if (is_temporal && edges.latest) {
    const auto key = [&](uint64_t place) {
      return ~(static_cast<uint64_t>(edges.Time(place)) ^ uint64_t{1} << 63);
    };
    ChooseSmallest(begin, end, sample_size, is_there, key, by_rank_, places);
  } else if (is_temporal || has_excluded) {
    // A reservoir (Waterman's, in Knuth 1981): each of the n so far is kept with k/n.
    const size_t first = places.size();
    uint64_t num_there = 0;
    for (uint64_t place = begin; place < end; ++place) {
      if (!is_there(place)) continue;
      if (num_there++ < sample_size) {
        places.push_back(place);
      } else if (const uint64_t at = random.Below(num_there); at < sample_size) {
        places[first + at] = place;
      }
    }
  } else if (end - begin > sample_size) {
    ChooseUniform(begin, end - begin, sample_size, random, places);
  } else {
    for (uint64_t place = begin; place < end; ++place) places.push_back(place);
  }
}

uint64_t EdgeChoice::num_bytes() const {
  return chosen_.capacity() * sizeof(uint64_t) +
         (by_clock_.capacity() + by_rank_.capacity()) * 2 * sizeof(uint64_t);
}

}  // namespace packhouse
