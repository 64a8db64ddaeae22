// Lowers the cut of a partition by moves of single nodes.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_KWAY_REFINER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_KWAY_REFINER_H_

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition/cutting/refinement.h"

namespace packhouse {

// Local searches in the manner of Fiduccia and Mattheyses (1982), each from one node of the
// boundary (Sanders and Schulz 2011): nodes move to the part of the largest gain, also at a loss,
// and the moves after the best state are taken back. No move breaks a limit that was kept, and the
// cut never grows. Thread-compatible.
class KWayRefiner {
 public:
  // `part` is changed in place. 4 bytes for each node and part if they are at most `most_table`
  // bytes in all, otherwise connections are counted again for each look at a node.
  KWayRefiner(const WeightedGraph* graph, const PartLimits* limits, absl::Span<uint32_t> part,
              uint64_t most_table, SeededRandom* random);

  // One search from each node of the boundary, in a random order; each node moves once at most.
  // By how much the cut is lower now.
  uint64_t Pass(const PartitionWatch& watch);

  // The same, but parts may get over their limits: a node pays what it would cost to move as much
  // weight out of the part again, estimated before the pass. Where parts are full, this finds what
  // single moves cannot. Limits must be repaired afterwards, and the cut may have grown by then.
  void PassOverLimits(const PartitionWatch& watch);

 private:
  struct Entry {
    int64_t gain;
    uint32_t tie;
    uint32_t node;

    friend bool operator<(const Entry& a, const Entry& b) {
      return a.gain != b.gain ? a.gain < b.gain : a.tie < b.tie;
    }
  };
  struct Step {
    uint32_t node;
    uint32_t from;
  };
  struct Best {
    int64_t gain;
    uint32_t target;  // The node's own part if there is none.
  };

  // Of one part and constraint: what weight can leave at what price.
  struct Prices {
    static constexpr size_t kSteps = 24;
    static double Price(size_t step) { return step == 0 ? 0 : 0.25 * std::pow(1.5, step); }
    std::array<uint64_t, kSteps> weight = {};
    double Of(uint64_t excess) const {
      uint64_t sum = 0;
      for (size_t step = 0; step < kSteps; ++step) {
        sum += weight[step];
        if (sum >= excess) return Price(step);
      }
      return 2 * Price(kSteps);
    }
  };

  void SetPrices();
  int64_t Penalty(uint32_t p, uint32_t node, int sign) const;
  bool IsBoundary(uint32_t node) const;
  Best BestMove(uint32_t node);
  void Offer(uint32_t node);
  void Move(uint32_t node, uint32_t to);
  uint64_t SearchFrom(uint32_t start);

  const WeightedGraph& graph_;
  const PartLimits& limits_;
  absl::Span<uint32_t> part_;
  SeededRandom& random_;
  PartLoads loads_;
  std::vector<uint32_t> table_;       // By node and part; empty if it would be too large.
  std::vector<uint32_t> connection_;  // By part, of one node.
  std::vector<uint32_t> touched_;
  std::vector<Prices> prices_;    // By part and constraint; empty while limits are kept.
  std::vector<char> moved_;       // In this pass.
  std::vector<int64_t> offered_;  // The gain of the node's entry that counts.
  std::vector<Entry> heap_;
  std::vector<uint32_t> in_heap_;
  std::vector<Step> steps_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_KWAY_REFINER_H_
