// Which graphs go well beside one that takes most of a component and little of the others.
//
// Such a graph, for example a near-clique of few nodes among sparse graphs, leaves a room of
// another shape than the stream's: what comes next by age fills the short component and wastes the
// others. The graphs for it are those whose shape is that of the room. Taken so, they leave the
// others to packs without such a graph.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PACKING_COMPANIONS_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PACKING_COMPANIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/packing/pool_scan.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

// Thread-compatible.
class Companions {
 public:
  explicit Companions(const Limits& limits);

  // Counts a graph of the stream. Whether it is large: it takes at least half of a component. O(l).
  bool Add(absl::Span<const uint32_t> tuple);
  // Halves what was counted.
  void Fade();
  // Renews what IsLopsided() goes by. O(l).
  void Learn();

  // For a large graph: whether mean graphs of less than half a pack would be short of another
  // component beside it than in a pack of their own. O(l).
  bool IsLopsided(const PoolColumns& pool, size_t slot) const;

  // For a pack that starts with a lopsided graph, with this room beside it.
  void Start(absl::Span<const int32_t> room);
  // Whether there is room for fewer than `graphs` mean ones.
  bool NearlyFull(absl::Span<const int32_t> room, uint64_t graphs) const;
  // The graph in [begin, end) that fits whose shape is the most like that of the room; of nearly
  // equal ones the first. kNone if none fits. O((end - begin) * l).
  size_t Find(const PoolColumns& pool, absl::Span<const int32_t> room, size_t begin,
              size_t end) const;

 private:
  std::vector<double> capacity_;  // Without `graphs`.
  std::vector<uint32_t> half_;    // Rows of a large graph.
  // Of graphs that take less than half of each component.
  std::vector<uint64_t> totals_;
  uint64_t num_graphs_ = 0;
  std::vector<double> mean_;  // 0 until the first lesson.
  size_t heaviest_ = 0;       // The component that fills packs of them alone.
  size_t short_ = 0;          // Of the present pack.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PACKING_COMPANIONS_H_
