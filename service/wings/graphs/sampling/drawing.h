// One attempt to draw a sub-graph: at one level, within limits or not at all.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_DRAWING_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_DRAWING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/graphs/sampling/edge_choice.h"
#include "service/wings/graphs/sampling/node_table.h"
#include "service/wings/graphs/sampling/sampled_graph.h"
#include "service/wings/graphs/sampling/sampling_plan.h"
#include "service/wings/graphs/source_graphs/source_graph.h"

namespace packhouse {

// What a plan reads of a graph. Immutable; thread-safe.
struct PlannedEdges {
  // As SamplingPlan::ops().
  std::vector<OpEdges> ops;
  // As SamplingPlan::edge_sets(), for induced ones. At least one of the two directions.
  struct Induced {
    std::optional<Adjacency> by_source;
    std::optional<Adjacency> by_target;
    NumberColumn node_times;  // Of the targets.
    NumberColumn edge_times;
  };
  std::vector<Induced> induced;
  // Whether another op takes what this op gives.
  std::vector<bool> is_input;
  // The times of the seeds' set, or of the sets at both ends of links.
  std::array<NumberColumn, 2> seed_times;
};

// What draws use again.
struct DrawRooms {
  struct NodeState {
    // The last op, plus 1, that the node was drawn for.
    uint32_t op = 0;
    // The last row, by its stamp, that has an edge to this node, and which of the set's edges it
    // is.
    uint32_t row = 0;
    uint32_t edge = 0;
  };
  struct NodeSet {
    NodeTable table;
    std::vector<NodeState> states;  // By position.
  };
  // Edges of one source that one op drew: they are next to each other.
  struct Run {
    uint32_t begin = 0;
    uint32_t count = 0;
    uint32_t next = 0;  // Number of the run plus 1; 0: none.
  };
  // Of a set from which several ops draw.
  struct EdgeSet {
    std::vector<Run> runs;
    std::vector<uint32_t> last_run;  // By position of the source, as Run::next.
    // Unless parallel edges become one, of each edge: its place in the source graph, and the edge
    // before it with the same ends, plus 1; 0: none.
    std::vector<uint64_t> places;
    std::vector<uint32_t> previous;
  };
  struct InducedEdge {
    uint32_t source;
    uint32_t target;
    uint64_t number;
  };

  std::vector<NodeSet> node_sets;
  std::vector<EdgeSet> edge_sets;
  std::vector<std::vector<uint32_t>> outputs;  // By op: positions of targets, also repeated.
  std::vector<uint32_t> frontier;
  std::vector<uint64_t> places;
  std::vector<uint32_t> row_ends;
  std::vector<uint32_t> targets;
  std::vector<InducedEdge> induced;
  // By edge set: what is left out, ascending, each once.
  std::vector<std::vector<EdgeEnds>> excluded;
  EdgeChoice choice;
  // Of the last row. Stamps are never used again until the states are cleared.
  uint32_t stamp = 0;

  uint64_t num_bytes() const;
};

class Drawing {
 public:
  struct Bounds {
    const SampledCounts* limits = nullptr;  // Null: none.
    uint64_t max_rows = 0;
  };

  // All must outlive this. `result` is emptied.
  Drawing(const SamplingPlan& plan, const PlannedEdges& edges, Bounds bounds, DrawRooms& rooms,
          SampledGraph& result);

  // `seeds` are nodes of the seeds' set. False if a bound is exceeded, or if is_damaged(): result
  // then has the part up to there.
  bool Draw(absl::Span<const uint32_t> seeds, uint64_t draw_key, uint32_t level, TimeRange times,
            bool edge_numbers);
  // An edge leads to no node, or a row has no end: what was sealed would not have that.
  bool is_damaged() const { return is_damaged_; }

 private:
  bool IsRow(const Adjacency& rows, uint32_t row) {
    const bool is_row = row + size_t{1} < rows.offsets.size() &&
                        rows.offsets[row] <= rows.offsets[row + size_t{1}] &&
                        rows.offsets[row + size_t{1}] <= rows.neighbours.size();
    is_damaged_ |= !is_row;
    return is_row;
  }
  bool DrawOp(size_t op, uint32_t sample_size, uint64_t op_key, TimeRange times, bool edge_numbers);
  // The nodes that the inputs of an op give, each once, into frontier.
  void TakeInputs(size_t op);
  // Draws for rows from `next` on until there are some hundred edges; returns the first row that is
  // left. Stops at a row that exceeds `most` edges by itself, and sets `is_beyond`.
  size_t ChooseEdges(size_t op, absl::Span<const uint32_t> nodes, size_t next, uint32_t sample_size,
                     uint64_t most, uint64_t op_key, TimeRange times, bool& is_beyond);
  // Of an edge set, what is left out of the edges that leave a node.
  absl::Span<const EdgeEnds> ExcludedFrom(size_t edge_set, uint32_t node) const;
  bool IsExcluded(size_t edge_set, uint32_t source, uint32_t target) const;
  void TakeExcluded(absl::Span<const uint32_t> seeds);
  // False if it is damaged.
  bool AddEdges(size_t op, size_t first_row, bool edge_numbers);
  // What was drawn of one source: all of it; without what other ops drew; or of parallel edges the
  // first.
  void AddRow(size_t op, uint32_t source, size_t begin, size_t end, bool edge_numbers);
  void AddNewEdges(size_t op, uint32_t source, size_t begin, size_t end, bool edge_numbers);
  void MergeRow(size_t op, uint32_t source, size_t begin, size_t end, bool edge_numbers);
  void AddRun(DrawRooms::EdgeSet& drawn, uint32_t source, size_t first, size_t count);
  bool TakeInduced(size_t edge_set, TimeRange times);
  // Into rooms_.induced, of parallel edges that become one the first; stop once there are more than
  // `most`.
  void FindBySource(size_t edge_set, TimeRange times, uint64_t most);
  void FindByTarget(size_t edge_set, TimeRange times, uint64_t most);
  uint32_t NextStamp();
  bool IsWithin(size_t edge_set) const;
  uint64_t MostEdges(size_t edge_set) const;

  const SamplingPlan& plan_;
  const PlannedEdges& edges_;
  const Bounds bounds_;
  DrawRooms& rooms_;
  SampledGraph& result_;
  bool is_damaged_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SAMPLING_DRAWING_H_
