// Orders batches so that those that share a step have like costs.
//
// Ranks that compute a step together wait for the dearest of its batches. So batches are sorted by
// cost and cut into runs of as many as there are ranks: a run is a step. Steps come in random
// order, and the batches of a step are dealt to its ranks at random.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_STEP_ORDER_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_STEP_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/base/seeded_random.h"

namespace packhouse {

// Batches that some of the ranks share, the first `num_ranks` of them in step 0, the next ones in
// step 1, and so on.
template <typename Cost>
struct BatchesOfRanks {
  absl::Span<const Cost> costs;
  // At least 1.
  size_t num_ranks = 1;
  // As many of them come before step 0: those that fill a step which other batches have begun, and
  // then whole steps.
  size_t num_first = 0;
};

// By group, the numbers of its batches (below 2^32) in a new order.
//
// Each group alone: in the steps in which all of its ranks have a batch, these are neighbours when
// the batches are sorted by cost. A batch is equally likely in each step and at each rank, as in a
// shuffle. Batches that fill a begun step come first, those that fill none last; all are equally
// likely to be among them.
// Several groups: a step has batches of the same places among the costs of their groups; a group
// whose batches are for more steps than another's has those that are too many last, in steps of
// like cost as well.
//
// The result depends on the arguments alone; batches of one cost stay in random order only if they
// were. O(n log n); 12 bytes a batch.
std::vector<std::vector<uint32_t>> OrderByCost(absl::Span<const BatchesOfRanks<uint64_t>> groups,
                                               SeededRandom& random);

// How alike the costs of batches are that share a step.
struct StepFigures {
  // As StepEfficiency(). If there are several groups, costs are shares of the mean of their group:
  // ranks of larger batches are taken to be faster in proportion.
  double efficiency = 1;
  // The same of the same batches in random order.
  double of_shuffle = 1;
  // By group.
  std::vector<uint32_t> num_ranks;
};

// The mean over steps of the mean cost over ranks as a share of the largest one: the part of their
// time that devices compute. Of the steps in which all ranks have a batch; of the first step if
// there are none, in which ranks without a batch cost 0; 1 without batches, and for steps that
// cost nothing. O(n).
double StepEfficiency(absl::Span<const BatchesOfRanks<double>> groups);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_PLANNING_STEP_ORDER_H_
