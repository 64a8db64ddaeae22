// Draws sub-graphs around seeds.
//
// For each op of the plan, in order: the nodes that its inputs gave, each once, and of the edges
// that leave each of them up to sample_size:
// - RANDOM_UNIFORM: without replacement; every subset of that size is equally likely.
// - TOP_K: the largest weights; of equal ones the first in table order. NaN is below all numbers.
// - RANDOM_WEIGHTED: one after the other without replacement, each with a probability in proportion
//   to its weight among those that are left. Only weights above 0 are drawn.
// Each edge is there once, though several ops draw it. Parallel edges (same source, same target)
// are edges of their own; with SamplingOptions::merge_parallel those that were drawn, in one op or
// in several, become one.
//
// One sub-graph can have several seeds, which then share one frontier: a node that several of them
// reach is drawn for once. A loader that draws one sub-graph for all seeds of a batch does as PyG's
// and DGL's loaders do.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/sampling/sampling_plan.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

// What decides a draw, besides the graph and the plan. The same request on a graph with the same
// tables gives the same sub-graph, on every machine, thread and start, and in every release.
struct DrawRequest {
  static constexpr uint64_t kMostRows = uint64_t{1} << 27;

  // The number that the user chose.
  uint64_t seed_number = 0;
  uint64_t epoch = 0;
  // Nodes of the seeds' set. Empty: an empty sub-graph. Link seeds: source, target, source, ...
  absl::Span<const uint32_t> seeds;
  // For each seed (or link) which time it comes in the list, from 0: each time is a draw of its
  // own. Empty: all for the first time, which is the same as zeros.
  absl::Span<const uint32_t> occurrences;
  // The sub-graph's time, for temporal sampling. Not given: with node_time_column, the earliest
  // time of the seeds; otherwise an error.
  std::optional<int64_t> time;
  // The sub-graph is drawn at this level of SamplingPlan, and, if it exceeds `limits` or max_rows,
  // at the first level after it that does not. Of the edges that an op draws from one node,
  // parallel ones count before they are merged, if they are.
  uint32_t level = 0;
  // By set. Empty, both of them: no limits.
  SampledCounts limits;
  // The most nodes and edges, of all sets together. At most kMostRows.
  uint64_t max_rows = kMostRows;
  // Whether the numbers of edges are wanted (SampledEdges::numbers). Otherwise: structure only.
  bool edge_numbers = true;
};

struct DrawRooms;
struct PlannedEdges;

// Memory that draws use again. One thread at a time. Its size is that of the largest draw.
class SamplerScratch {
 public:
  SamplerScratch();
  ~SamplerScratch();
  SamplerScratch(SamplerScratch&&) noexcept;
  SamplerScratch& operator=(SamplerScratch&&) noexcept;

  uint64_t num_bytes() const;

 private:
  friend class Sampler;

  std::unique_ptr<DrawRooms> rooms_;
};

// A plan and a graph. Immutable; thread-safe: each thread has a scratch of its own.
class Sampler {
 public:
  // `graph` must outlive the sampler; its schema is the one that `plan` was made for.
  // FAILED_PRECONDITION naming the edge set, if the graph was sealed without a direction that the
  // plan needs (by source; for induced edges either).
  static absl::StatusOr<Sampler> Create(std::shared_ptr<const SamplingPlan> plan,
                                        const SourceGraph* graph);

  const SamplingPlan& plan() const { return *plan_; }
  const SourceGraph& graph() const { return *graph_; }

  // Replaces `result`, whose memory is used again.
  // OUT_OF_RANGE naming a seed that is no node of the set; if `limits` do not hold the seeds alone,
  // naming the set, the count and the limit. INVALID_ARGUMENT for an odd number of link seeds,
  // another number of occurrences than seeds, a missing time, limits of another number of sets, a
  // level or max_rows out of range. DATA_LOSS naming the graph, if an edge leads to no node.
  // RESOURCE_EXHAUSTED naming the first seed and the bound, if there are no limits and the
  // sub-graph would exceed max_rows. `result` is then undefined. O(edges that are drawn) expected;
  // strategies by weight or time, and RANDOM_UNIFORM with a time, O(sum of the degrees of the nodes
  // that are drawn for); induced edges O(sum of the degrees of all nodes). With limits: that, times
  // the number of levels tried, each of which ends as soon as a limit is exceeded.
  absl::Status Draw(const DrawRequest& request, SamplerScratch& scratch,
                    SampledGraph& result) const;

  // What no sub-graph of `num_seeds` seeds exceeds, by set: the fan-outs' product, the sets' sizes,
  // and max_rows of the request. A bound, mostly far away. O(ops).
  SampledCounts UpperBound(uint64_t num_seeds) const;
  // Bytes that `scratch` and `result` together have at most while sub-graphs of at most these
  // counts are drawn.
  uint64_t DrawBytes(const SampledCounts& counts) const;

 private:
  Sampler() = default;

  absl::Status CheckRequest(const DrawRequest& request) const;
  // The last level's first set that was beyond its limit, and how far.
  absl::Status SeedsDoNotFit(const DrawRequest& request, const SampledGraph& last) const;

  std::shared_ptr<const SamplingPlan> plan_;
  const SourceGraph* graph_ = nullptr;
  std::shared_ptr<const PlannedEdges> edges_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLER_H_
