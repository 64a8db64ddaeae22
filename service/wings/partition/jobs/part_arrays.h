// The arrays that every part has in its files, whether it was cut out of a graph in memory or
// gathered from several ranks.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_ARRAYS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_ARRAYS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "service/wings/partition/files/dgl_writer.h"
#include "service/wings/partition/jobs/partition_report.h"
#include "service/wings/partition/jobs/rows_by_end.h"

namespace packhouse {

// Forms of the edges in graph.dgl.
struct GraphForms {
  bool coo = true;
  bool csr = false;
  bool csc = false;
};

// The row of a node or edge where its graph came from, within its type; its number within it, where
// types have no rows.
template <typename Type>
int64_t RowWithinType(const Type& type, uint64_t id) {
  const uint64_t number = id - type.start;
  if constexpr (requires { type.imported.row(number); }) {
    return static_cast<int64_t>(type.imported.row(number));
  } else {
    return static_cast<int64_t>(number);
  }
}

// Views of one part, which are gathered while they are written. MadePart, Ids and Types are Part,
// NewIds and HomogeneousGraph, or what stands for them where no rank has the whole graph. For Types
// there must be NodeTypesOf() and EdgeTypesOf(), which give their types. Thread-compatible.
template <typename MadePart, typename Ids, typename Types>
class PartArrays {
 public:
  PartArrays(const PartArrays&) = delete;
  PartArrays& operator=(const PartArrays&) = delete;

  // _ID, inner_node and inner_edge, part_id unless there is one part, orig_id, and _TYPE if there
  // are several types. orig_id is as RowWithinType().
  DglGraphSource Graph() const {
    const MadePart* const part = part_;
    const Ids* const ids = ids_;
    const Types* const types = types_;
    const uint64_t nodes = part->nodes.size();
    const uint64_t edges = part->edges.size();
    DglGraphSource source;
    source.num_nodes = nodes;
    if (forms_.coo) {
      source.coo = DglCooSource{Int64Array("sources", absl::MakeConstSpan(part->sources)),
                                Int64Array("targets", absl::MakeConstSpan(part->targets))};
    }
    if (forms_.csr) source.csr = by_source_.Source();
    if (forms_.csc) source.csc = by_target_.Source();
    source.node_data.push_back(Int64Array("_ID", absl::MakeConstSpan(part->nodes)));
    source.node_data.push_back(
        MadeArray<uint8_t>("inner_node", DType::kUint8, nodes,
                           [part](uint64_t i) { return i < part->num_inner_nodes ? 1 : 0; }));
    if (ids->num_parts() > 1) {
      source.node_data.push_back(
          MadeArray<int64_t>("part_id", DType::kInt64, nodes, [part, ids](uint64_t i) {
            return i < part->num_inner_nodes ? part->number : ids->OwnerOfNode(part->nodes[i]);
          }));
    }
    source.node_data.push_back(
        MadeArray<int64_t>("orig_id", DType::kInt64, nodes, [part, types](uint64_t i) {
          const auto node = part->original_nodes[i];
          return RowWithinType(NodeTypesOf(*types)[types->NodeTypeOf(node)], node);
        }));
    source.edge_data.push_back(Int64Array("_ID", absl::MakeConstSpan(part->edges)));
    source.edge_data.push_back(
        MadeArray<uint8_t>("inner_edge", DType::kUint8, edges,
                           [part](uint64_t i) { return i < part->num_inner_edges ? 1 : 0; }));
    source.edge_data.push_back(
        MadeArray<int64_t>("orig_id", DType::kInt64, edges, [part, types](uint64_t i) {
          const uint64_t edge = part->original_edges[i];
          return RowWithinType(EdgeTypesOf(*types)[types->EdgeTypeOf(edge)], edge);
        }));
    if (NodeTypesOf(*types).size() + EdgeTypesOf(*types).size() > 2) {
      source.node_data.push_back(MadeArray<int32_t>(
          "_TYPE", DType::kInt32, nodes,
          [part, types](uint64_t i) { return types->NodeTypeOf(part->original_nodes[i]); }));
      source.edge_data.push_back(MadeArray<int32_t>(
          "_TYPE", DType::kInt32, edges,
          [part, types](uint64_t i) { return types->EdgeTypeOf(part->original_edges[i]); }));
    }
    return source;
  }

  // By type, under its name: the orig_id of each inner node, or inner edge, in the order of new
  // ids.
  std::vector<ArraySource> OriginalNodes() const {
    return OriginalRows(NodeTypesOf(*types_), ids_->node_map(),
                        absl::MakeConstSpan(part_->original_nodes),
                        ids_->NodesOfPart(part_->number).begin);
  }
  std::vector<ArraySource> OriginalEdges() const {
    return OriginalRows(EdgeTypesOf(*types_), ids_->edge_map(),
                        absl::MakeConstSpan(part_->original_edges),
                        ids_->EdgesOfPart(part_->number).begin);
  }

  // Its bytes are left to the caller.
  ReportedPart Report() const {
    ReportedPart report;
    report.num_inner_nodes = part_->num_inner_nodes;
    report.num_halo_nodes = part_->nodes.size() - part_->num_inner_nodes;
    report.num_inner_edges = part_->num_inner_edges;
    report.num_halo_edges = part_->edges.size() - part_->num_inner_edges;
    for (uint64_t edge = 0; edge < part_->num_inner_edges; ++edge) {
      report.num_cut_edges += part_->sources[edge] >= part_->num_inner_nodes ? 1 : 0;
    }
    return report;
  }

 protected:
  // The arguments must outlive it and the sources that it gives.
  PartArrays(const Ids* ids, const Types* types, const MadePart* part, const GraphForms& forms)
      : ids_(ids), types_(types), part_(part), forms_(forms) {
    if (forms.csr) by_source_ = {part->nodes.size(), part->sources, part->targets};
    if (forms.csc) by_target_ = {part->nodes.size(), part->targets, part->sources};
  }
  ~PartArrays() = default;

  const Ids* const ids_;
  const Types* const types_;
  const MadePart* const part_;

 private:
  using Local = typename std::remove_reference_t<decltype(MadePart::sources)>::value_type;

  // `originals` are the part's, of which the first has the new id `first`.
  template <typename Type, typename Id>
  std::vector<ArraySource> OriginalRows(absl::Span<const Type> types,
                                        const std::vector<std::vector<IdRange>>& map,
                                        absl::Span<const Id> originals, uint64_t first) const {
    std::vector<ArraySource> arrays;
    for (size_t t = 0; t < types.size(); ++t) {
      const IdRange range = map[t][part_->number];
      arrays.push_back(MadeArray<int64_t>(
          types[t].name, DType::kInt64, range.size(),
          [of_type = originals.subspan(range.begin - first, range.size()),
           type = &types[t]](uint64_t row) { return RowWithinType(*type, of_type[row]); }));
    }
    return arrays;
  }

  const GraphForms forms_;
  // Empty unless the form is asked for.
  RowsByEnd<Local> by_source_;
  RowsByEnd<Local> by_target_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_ARRAYS_H_
