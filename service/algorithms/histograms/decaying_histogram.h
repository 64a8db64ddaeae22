// A size histogram that forgets: with each half-life, an observation counts half as much.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_DECAYING_HISTOGRAM_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_DECAYING_HISTOGRAM_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/histograms/tuple_index.h"
#include "service/algorithms/sizes/size_table.h"

namespace packhouse {

// Exponentially decaying counts by forward decay (Cormode et al. 2009): An observation is added
// with a weight that grows with the time since a landmark. Nothing has to be touched as time
// passes; reading divides by the growth up to now. Time comes from the caller; a time before the
// latest time seen counts as the latest. Thread-compatible. Memory O(d * l). Tuples whose weight
// fell below 1/1024 are dropped whenever the landmark moves, at the latest after 32 half-lives.
class DecayingHistogram {
 public:
  // `half_life` must be positive and finite.
  DecayingHistogram(size_t num_components, absl::Duration half_life, absl::Time start);

  // INVALID_ARGUMENT unless every tuple has l counts; then nothing is counted. Expected O(l) for
  // each tuple.
  absl::Status Add(absl::Span<const uint32_t> tuple, uint64_t count, absl::Time now);
  absl::Status AddTable(const SizesView& table, absl::Time now);
  absl::Status Merge(const SizeHistogram& other, absl::Time now);

  // Moves the landmark to `now` if it is 32 half-lives behind, and then drops forgotten tuples.
  // Every change does so first. O(d) when the landmark moves, else O(1).
  void Advance(absl::Time now);

  // Counts decayed to `now`, rounded to the nearest integer; tuples that round to 0 are absent.
  // RESOURCE_EXHAUSTED if a sum exceeds 2^64 - 1.
  absl::StatusOr<SizeHistogram> Snapshot(absl::Time now) const;

  size_t num_components() const { return index_.num_components(); }
  size_t num_distinct() const { return weights_.size(); }
  // Its memory; and the most memory that a histogram takes while it grows to this many distinct
  // tuples.
  uint64_t bytes() const { return index_.bytes() + sizeof(double) * weights_.capacity(); }
  static uint64_t BytesFor(uint64_t num_distinct, size_t num_components) {
    return TupleIndex::BytesFor(num_distinct, num_components) + 3 * sizeof(double) * num_distinct;
  }
  bool Contains(absl::Span<const uint32_t> tuple) const { return index_.Find(tuple).has_value(); }
  // The same after Advance(now). O(d) when the landmark would move, else O(1).
  size_t NumDistinctAt(absl::Time now) const;
  bool ContainsAt(absl::Span<const uint32_t> tuple, absl::Time now) const;
  absl::Duration half_life() const { return half_life_; }
  // Decayed number of graphs, rounded.
  uint64_t num_graphs(absl::Time now) const;

  // As of SizeHistogram.
  void Expect(size_t num_distinct) {
    index_.Expect(num_distinct);
    weights_.reserve(num_distinct);
  }
  static uint64_t BytesWhenExpected(uint64_t num_distinct, size_t num_components) {
    return TupleIndex::BytesWhenExpected(num_distinct, num_components) +
           sizeof(double) * num_distinct;
  }
  static uint64_t BytesToAdd(uint64_t /*num_tuples*/, size_t /*num_components*/) { return 0; }

  // What is stored of it: with these values, rows in the same order, it goes on as it would have.
  absl::Time landmark() const { return landmark_; }
  absl::Time latest() const { return latest_; }
  double total_weight() const { return total_weight_; }
  absl::Span<const uint32_t> tuple(size_t row) const { return index_.tuple(row); }
  double weight(size_t row) const { return weights_[row]; }
  // Of one that was made with the landmark as its start. INVALID_ARGUMENT if the tuple is there
  // already, or has other than l counts, or the weight is not positive and finite.
  absl::Status RestoreRow(absl::Span<const uint32_t> tuple, double weight);
  // After the rows. INVALID_ARGUMENT unless the total is finite and not negative.
  absl::Status RestoreTotal(absl::Time latest, double total_weight);

 private:
  // Half-lives from the landmark to `now`, which is never before latest_.
  double Age(absl::Time now) const;
  // What Advance(now) multiplies weights by; nullopt if it moves nothing.
  std::optional<double> FactorAt(absl::Time now) const;
  // INVALID_ARGUMENT unless there are as many components here.
  absl::Status CheckComponents(size_t num_components) const;

  absl::Duration half_life_;
  absl::Time landmark_;
  absl::Time latest_;
  double total_weight_ = 0;
  TupleIndex index_;
  std::vector<double> weights_;  // Of each row of the index.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_HISTOGRAMS_DECAYING_HISTOGRAM_H_
