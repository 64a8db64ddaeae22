// A SamplingSpec that was checked against the schema of a source graph.
//
// Start here: SamplingPlan::Create checks, Sampler (sampler.h) draws, SampledSchema
// (sampled_schema.h) makes graphs of a GraphSchema from what was drawn.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLING_PLAN_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLING_PLAN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"
#include "service/wings/tfgnn/sampling_spec.h"

namespace packhouse {

// Which edges of the sub-graph's own links are left out, as DGL's `exclude` of edge prediction.
enum class ExcludeLinks {
  kNone,
  kSelf,          // Those of link_edge_set from a link's source to its target.
  kReverseTypes,  // Also those from its target to its source in the sets that are the reverse.
};

// What may be said besides a spec.
struct SamplingOptions {
  // The column of weights of TOP_K and RANDOM_WEIGHTED, a number an edge. Empty: `#weight`, and
  // `weight` where the edge set has no column `#weight`.
  std::string weight_column;

  // All edges between sampled nodes, whether an op drew them or not, as PyG's subgraph_type
  // "induced". Costs the degrees of all sampled nodes.
  bool induced = false;
  // For `induced`: the edge sets. Empty: those of the ops.
  std::vector<std::string> induced_edge_sets;

  // Of parallel edges (same source, same target) that were drawn, only the first in table order is
  // there, as TF-GNN's sampler has it. Otherwise each of them is, as in PyG and DGL.
  bool merge_parallel = false;

  // Temporal sampling, as PyG's `time_attr`: no edge is taken that is later than the sub-graph's
  // time. At most one of the two; both name a column of integers (not uint64). With
  // node_time_column an edge is as late as the node that it leads to; with edge_time_column it has
  // its own time. The seeds themselves are always there.
  std::string node_time_column;
  std::string edge_time_column;
  // The sets (node sets with node_time_column, edge sets with edge_time_column) that have no times,
  // and whose edges are never late. Every other set that edges are drawn from, or lead to, must
  // have the column: by silence it would let in what is later.
  std::vector<std::string> untimed_sets;
  // No edge is taken that is more than this earlier than the sub-graph's time. 0: however early.
  uint64_t time_window = 0;
  // For temporal sampling with RANDOM_UNIFORM: the latest edges instead of random ones, of equally
  // late ones the first in table order; PyG's temporal_strategy "last". Edge sets whose edges are
  // never late are drawn at random.
  bool latest = false;

  // For link seeds, at most one of the two: the node set of both ends, or an edge set whose source
  // and target sets are those of the links' ends. Neither: the sources of the edge sets
  // `_readout/source` and `_readout/target`, which the schema must then have.
  std::string link_node_set;
  std::string link_edge_set;
  // For link seeds with link_edge_set. Edges that are left out are not there for the draw: of the
  // others every choice is as likely as on a graph without them. Also induced ones are.
  ExcludeLinks exclude = ExcludeLinks::kNone;
  // For kReverseTypes, beside those that the schema says: edge sets from the links' targets to
  // their sources. Parallel edges are left out together.
  std::vector<std::string> reverse_edge_sets;

  // Whether sub-graphs have a node set `_readout`, with a row and an edge in the edge set
  // `_readout/seed` for each seed that was given. Link seeds always have `_readout`, with a row and
  // an edge each in `_readout/source` and `_readout/target` for each link.
  bool readout = false;
  // The features of `_readout`, which come with the seeds. Not ragged. Link seeds: empty means
  // those of the schema's node set `_readout`, if it has one.
  std::vector<SourceColumnSpec> readout_columns;
};

// An edge set of sub-graphs.
struct PlannedEdgeSet {
  // Its number in the source graph's schema.
  size_t edge_set = 0;
  // Positions in SamplingPlan::node_sets().
  size_t source = 0;
  size_t target = 0;
  // Whether all edges between sampled nodes are taken.
  bool induced = false;
  // How many ops draw from it.
  size_t num_ops = 0;
};

// An op, resolved.
struct PlannedOp {
  // Ops before this one as the spec lists them, each once; kSeeds stands for the seeds.
  static constexpr size_t kSeeds = ~size_t{0};
  std::vector<size_t> inputs;
  // Position in SamplingPlan::edge_sets().
  size_t edge_set = 0;
  uint32_t sample_size = 0;
  tfgnn::SamplingStrategy strategy = tfgnn::SamplingStrategy::kRandomUniform;
  // Column of the edge set that has the columns: the edge set itself, or the one that it reverses.
  std::optional<size_t> weight_column;
};

// Immutable; thread-safe.
class SamplingPlan {
 public:
  static constexpr size_t kMaxOps = 1024;

  // INVALID_ARGUMENT naming the op, the field and the value: an op without a name, inputs or edge
  // set; a name twice; an input that is not defined before; an edge set or node set that the schema
  // does not have; an input whose nodes are of another set than the edges' source; sample_size <=
  // 0; LATEST_K; a weight column that the edge set does not have, or that is not one number an
  // edge; more than kMaxOps. Naming the option, for options that do not go with the spec or the
  // schema.
  static absl::StatusOr<SamplingPlan> Create(const SourceGraphSchema& schema,
                                             const tfgnn::SamplingSpec& spec,
                                             const SamplingOptions& options);

  const tfgnn::SamplingSpec& spec() const { return spec_; }
  const SamplingOptions& options() const { return options_; }
  // Numbers in the source graph's schema of the node sets of sub-graphs, in the order of their
  // names: the seeds' set and those that an op's edges touch. Without `_readout`.
  absl::Span<const size_t> node_sets() const { return node_sets_; }
  // In the order of their names. Without those of `_readout`.
  absl::Span<const PlannedEdgeSet> edge_sets() const { return edge_sets_; }
  absl::Span<const PlannedOp> ops() const { return ops_; }
  // Position in node_sets(): of seeds, or of the sources (end 0) or targets (1) of links.
  size_t seed_set(size_t end = 0) const { return seed_sets_[end]; }
  // Edges that are left out because the sub-graph's links are they.
  struct Excluded {
    size_t edge_set = 0;    // Position in edge_sets().
    bool reversed = false;  // From a link's target to its source.
  };
  absl::Span<const Excluded> excluded() const { return excluded_; }
  // How many seeds a sub-graph has for each row of `_readout`: 2 for link seeds, otherwise 1.
  size_t seeds_per_row() const { return spec_.link_seeds ? 2 : 1; }
  bool has_readout() const { return spec_.link_seeds || options_.readout; }
  bool is_temporal() const {
    return !options_.node_time_column.empty() || !options_.edge_time_column.empty();
  }
  // Not ragged.
  absl::Span<const SourceColumnSpec> readout_columns() const { return options_.readout_columns; }

  // Levels of drawing smaller: 0 is the spec. Each further one makes all sample sizes smaller:
  // those above 4,096 by half, others by a quarter, to 1 at the least. When all are 1, each further
  // level leaves out one op more, from the last. At the last level there are the seeds alone.
  uint32_t num_levels() const;
  // The sample size of an op at a level; 0: the op is left out.
  uint32_t SampleSize(size_t op, uint32_t level) const;

 private:
  SamplingPlan() = default;

  tfgnn::SamplingSpec spec_;
  SamplingOptions options_;
  std::vector<size_t> node_sets_;
  std::vector<PlannedEdgeSet> edge_sets_;
  std::vector<PlannedOp> ops_;
  std::array<size_t, 2> seed_sets_ = {};
  std::vector<Excluded> excluded_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_SAMPLING_PLAN_H_
