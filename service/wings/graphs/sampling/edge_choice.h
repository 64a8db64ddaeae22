// Which of the edges that leave a node are drawn.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_EDGE_CHOICE_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_EDGE_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"
#include "service/wings/graphs/sampling/column_numbers.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/tfgnn/sampling_spec.h"

namespace packhouse {

// The edges that an op draws from, and how.
struct OpEdges {
  Adjacency by_source;
  uint64_t num_targets = 0;  // Nodes at the other ends.
  tfgnn::SamplingStrategy strategy = tfgnn::SamplingStrategy::kRandomUniform;
  NumberColumn weights;  // By edges. Exists for TOP_K and RANDOM_WEIGHTED.
  // Of the nodes at the other end, or of the edges; at most one exists.
  NumberColumn node_times;
  NumberColumn edge_times;
  bool latest = false;

  bool is_temporal() const { return node_times.exists() || edge_times.exists(); }
  int64_t Time(uint64_t place) const {
    return node_times.exists() ? node_times.Integer(by_source.neighbours[place])
                               : edge_times.Integer(by_source.edge(place));
  }
};

// Both ends are in it.
struct TimeRange {
  int64_t begin = std::numeric_limits<int64_t>::min();
  int64_t end = std::numeric_limits<int64_t>::max();

  bool Has(int64_t time) const { return begin <= time && time <= end; }
};

// Numbers of nodes.
using EdgeEnds = std::pair<uint32_t, uint32_t>;

// Memory that choices use again. Thread-compatible.
class EdgeChoice {
 public:
  // Appends the places of the chosen edges of a row to `places`, each once, at most sample_size >=
  // 1 of them. If all are chosen, they are in table order. `times`: those that an edge may have.
  // `excluded`: edges of the row, by their ends and in that order, that are not there.
  // O(sample_size) for RANDOM_UNIFORM without times and exclusions, otherwise O(degree *
  // log(sample_size)). Takes memory for sample_size edges, not for the degree.
  void Choose(const OpEdges& edges, uint32_t row, uint32_t sample_size, TimeRange times,
              absl::Span<const EdgeEnds> excluded, SeededRandom random,
              std::vector<uint64_t>& places);

  // `sample_size` of the numbers below `degree`, sample_size < degree, each set of them equally
  // likely, plus `first`.
  void ChooseUniform(uint64_t first, uint64_t degree, uint32_t sample_size, SeededRandom& random,
                     std::vector<uint64_t>& places);

  uint64_t num_bytes() const;

 private:
  // Of the places in [begin, end) for which `may` holds, the `sample_size` with the smallest keys,
  // smallest first; of equal keys the first. All, in table order, if there are no more.
  template <typename Key, typename May, typename KeyOf>
  void ChooseSmallest(uint64_t begin, uint64_t end, uint32_t sample_size, const May& may,
                      const KeyOf& key_of, std::vector<std::pair<Key, uint64_t>>& heap,
                      std::vector<uint64_t>& places);

  std::vector<std::pair<double, uint64_t>> by_clock_;
  std::vector<std::pair<uint64_t, uint64_t>> by_rank_;
  std::vector<uint64_t> chosen_;  // A hash set of places + 1; 0: free.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_EDGE_CHOICE_H_
