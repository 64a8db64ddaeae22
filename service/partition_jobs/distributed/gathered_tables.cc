#include "service/partition_jobs/distributed/gathered_tables.h"

#include "absl/strings/str_cat.h"

namespace packhouse {
namespace {

ArraySource SharedInt64(const char* name, const std::vector<uint64_t>& values) {
  return Int64Array(name, absl::MakeConstSpan(values));
}

}  // namespace

GatheredTables::GatheredTables(const SharedIds* ids, const GatheredPart* part,
                               const GraphForms& forms)
    : ids_(ids), part_(part), forms_(forms) {
  if (forms.csr) by_source_ = {part->nodes.size(), part->sources, part->targets};
  if (forms.csc) by_target_ = {part->nodes.size(), part->targets, part->sources};
}

DglGraphSource GatheredTables::Graph() const {
  const GatheredPart* const part = part_;
  const SharedIds* const ids = ids_;
  const SharedTypes* const types = &ids_->graph().types();
  const uint64_t nodes = part->nodes.size();
  const uint64_t edges = part->edges.size();
  DglGraphSource source;
  source.num_nodes = nodes;
  if (forms_.coo) {
    source.coo =
        DglCooSource{SharedInt64("sources", part->sources), SharedInt64("targets", part->targets)};
  }
  if (forms_.csr) source.csr = by_source_.Source();
  if (forms_.csc) source.csc = by_target_.Source();
  source.node_data.push_back(SharedInt64("_ID", part->nodes));
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
        const uint64_t node = part->original_nodes[i];
        return node - types->node_types[types->NodeTypeOf(node)].start;
      }));
  source.edge_data.push_back(SharedInt64("_ID", part->edges));
  source.edge_data.push_back(
      MadeArray<uint8_t>("inner_edge", DType::kUint8, edges,
                         [part](uint64_t i) { return i < part->num_inner_edges ? 1 : 0; }));
  source.edge_data.push_back(
      MadeArray<int64_t>("orig_id", DType::kInt64, edges, [part, types](uint64_t i) {
        const uint64_t edge = part->original_edges[i];
        return edge - types->edge_types[types->EdgeTypeOf(edge)].start;
      }));
  if (types->node_types.size() + types->edge_types.size() > 2) {
    source.node_data.push_back(MadeArray<int32_t>(
        "_TYPE", DType::kInt32, nodes,
        [part, types](uint64_t i) { return types->NodeTypeOf(part->original_nodes[i]); }));
    source.edge_data.push_back(MadeArray<int32_t>(
        "_TYPE", DType::kInt32, edges,
        [part, types](uint64_t i) { return types->EdgeTypeOf(part->original_edges[i]); }));
  }
  return source;
}

ArraySource GatheredTables::NodeTrainers(size_t type) const {
  const IdRange range = ids_->node_map()[type][part_->number];
  const uint64_t first = range.begin - ids_->NodesOfPart(part_->number).begin;
  const GatheredPart* const part = part_;
  return MadeArray<int64_t>(
      absl::StrCat(ids_->graph().types().node_types[type].name, "/trainer_id"), DType::kInt64,
      range.size(), [part, first](uint64_t row) { return part->trainers[first + row]; });
}

ArraySource GatheredTables::EdgeTrainers(size_t type) const {
  const IdRange range = ids_->edge_map()[type][part_->number];
  const uint64_t first = range.begin - ids_->EdgesOfPart(part_->number).begin;
  const GatheredPart* const part = part_;
  return MadeArray<int64_t>(
      absl::StrCat(ids_->graph().types().edge_types[type].name, "/trainer_id"), DType::kInt64,
      range.size(),
      [part, first](uint64_t row) { return part->trainers[part->targets[first + row]]; });
}

std::vector<ArraySource> GatheredTables::OriginalNodes() const {
  const uint64_t first = ids_->NodesOfPart(part_->number).begin;
  std::vector<ArraySource> arrays;
  const auto& types = ids_->graph().types().node_types;
  for (size_t t = 0; t < types.size(); ++t) {
    const IdRange range = ids_->node_map()[t][part_->number];
    arrays.push_back(MadeArray<int64_t>(
        types[t].name, DType::kInt64, range.size(),
        [originals = part_->original_nodes.data() + (range.begin - first),
         start = types[t].start](uint64_t row) { return originals[row] - start; }));
  }
  return arrays;
}

std::vector<ArraySource> GatheredTables::OriginalEdges() const {
  const uint64_t first = ids_->EdgesOfPart(part_->number).begin;
  std::vector<ArraySource> arrays;
  const auto& types = ids_->graph().types().edge_types;
  for (size_t t = 0; t < types.size(); ++t) {
    const IdRange range = ids_->edge_map()[t][part_->number];
    arrays.push_back(MadeArray<int64_t>(
        types[t].name, DType::kInt64, range.size(),
        [originals = part_->original_edges.data() + (range.begin - first),
         start = types[t].start](uint64_t row) { return originals[row] - start; }));
  }
  return arrays;
}

ReportedPart GatheredTables::Report() const {
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

}  // namespace packhouse
