// Deals the items of two batches anew: a random split of all of them, repaired until both fit.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_PAIR_DEALING_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_PAIR_DEALING_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/seeded_random.h"
#include "service/engine/epochs/item_sizes.h"

namespace packhouse {

// Two batches that lie behind each other: `items` and the number of those that are the first's.
struct DealtPair {
  std::vector<uint32_t> items;
  size_t num_first = 0;
};

// Reuses its buffers from pair to pair. Depends on its arguments and the random numbers alone, and
// not on the machine: it never multiplies fractions. Thread-compatible.
class PairDealing {
 public:
  // `sizes` must outlive this.
  explicit PairDealing(const ItemSizes& sizes);

  // The largest items are dealt first. An item that fits both batches goes to either with a
  // probability in proportion to its room in the component that is scarcest; so the small items,
  // which come last, fill both alike. What then exceeds a limit is repaired by the one move of an
  // item, or exchange of two, that leaves the least excess, over and over.
  //
  // Returns false, and leaves `pair` as it was, if no attempt came to two batches that keep `first`
  // and `second`. Otherwise neither batch is empty. Requires that both batches fit now, and that
  // neither is empty. Items of equal sizes are exchangeable. For m items of l components
  // O(m log m + l * min(m, kMostOfSide)^2) for each attempt and repair, at most kAttempts *
  // kRepairs times; num_dealt() counts the items of each attempt.
  bool Deal(const Limits& first, const Limits& second, SeededRandom& random, DealtPair& pair);
  uint64_t num_dealt() const { return num_dealt_; }

 private:
  static constexpr int kAttempts = 6;
  static constexpr int kRepairs = 6;
  // Of a larger batch, as many items are tried, from a random one on.
  static constexpr size_t kMostOfSide = 96;

  // Items of a batch in columns.
  struct Side {
    std::vector<uint32_t> items;
    std::vector<std::vector<double>> sizes;  // [component][item], in units of a capacity.

    void Clear();
    void Take(size_t i, Side& from);
  };
  // What would leave the least excess: items of either side, or its size for none.
  struct Repair {
    double excess;
    size_t first;
    size_t second;
  };

  // Which components can be exceeded by a split, and what either batch must and may have of them.
  void Measure(const Limits& first, const Limits& second, const DealtPair& pair);
  uint64_t Rows(uint32_t item, size_t component) const;
  void Split(SeededRandom& random, absl::Span<const uint32_t> items);
  double Excess() const;
  Repair BestRepair(double excess, SeededRandom& random);
  void Apply(const Repair& repair);
  bool Keeps(const Limits& limits, const Side& side) const;

  const ItemSizes& sizes_;
  std::vector<size_t> components_;  // With a limit.
  // By limited component, in units of the first batch's capacity: what the first batch must have at
  // least, so that the second one does not have too much, and at most.
  std::vector<double> least_;
  std::vector<double> most_;
  std::vector<double> second_most_;
  std::vector<double> unit_;
  size_t scarcest_ = 0;
  uint64_t num_dealt_ = 0;

  struct Ranked {
    double size;  // The largest share of a capacity.
    uint32_t item;
  };
  std::vector<uint32_t> shuffled_;
  std::vector<Ranked> ranked_;
  Side first_;
  Side second_;
  std::vector<double> dealt_;   // To the first batch, by limited component.
  std::vector<double> room_;    // Of the first batch and then of the second, while items are dealt.
  std::vector<double> excess_;  // Of an exchange with each item of the second batch.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_PAIR_DEALING_H_
