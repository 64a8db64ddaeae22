#include "service/wings/partition/epochs/part_graphs.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/sampling/sampled_chunk.h"

namespace packhouse {
namespace {

constexpr uint64_t kPartsToJudgeBy = 16;

absl::Status CheckNoRaggedEdges(const SourceGraph& graph) {
  for (const SourceEdgeSetSpec& set : graph.schema().edge_sets()) {
    for (const SourceColumnSpec& column : set.columns) {
      if (!column.ragged) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("edge set ", Quoted(set.name), ": column ", Quoted(column.name),
                       " has rows of different lengths, which only parts with a halo, or without "
                       "features, take"));
    }
  }
  return absl::OkStatus();
}

class PartMaker final : public GraphMaker {
 public:
  PartMaker(PartGraphs* parts, const Making* making) : parts_(parts), making_(making) {}

  absl::Status Begin() {
    uint64_t bytes = 0;
    const uint64_t judged = std::min(num_graphs(), kPartsToJudgeBy);
    for (uint64_t p = 0; p < judged; ++p) {
      PH_ASSIGN_OR_RETURN(const Gathered gathered, Gather(static_cast<uint32_t>(p)));
      bytes += parts_->sampled_schema().Bytes(tuple_);
    }
    per_append_ = GraphsPerAppend(judged, bytes);
    return absl::OkStatus();
  }

  const GraphSchema& schema() const override { return parts_->sampled_schema().schema(); }
  uint64_t num_graphs() const override { return parts_->num_parts(); }
  uint64_t graphs_per_append() const override { return per_append_; }

  absl::StatusOr<GraphChunk> Make(uint64_t begin, uint64_t end) override {
    memory_ = MemoryHold();
    SampledChunk chunk(&parts_->sampled_schema());
    for (uint64_t p = begin; p < end; ++p) {
      PH_RETURN_IF_ERROR(making_->StillWanted());
      PH_ASSIGN_OR_RETURN(const Gathered gathered, Gather(static_cast<uint32_t>(p)));
      // Columns may grow to twice their bytes.
      PH_RETURN_IF_ERROR(Hold(2 * parts_->sampled_schema().Bytes(tuple_)));
      PH_RETURN_IF_ERROR(chunk.Append(gathered.graph));
    }
    return chunk.Finish(begin);
  }

 private:
  static constexpr absl::string_view kWhat = "parts of a graph";

  struct Gathered {
    MemoryHold memory;
    SampledGraph graph;
  };

  // With its sizes in tuple_.
  absl::StatusOr<Gathered> Gather(uint32_t part) {
    Gathered gathered;
    PH_ASSIGN_OR_RETURN(gathered.memory, making_->Hold(kWhat, parts_->GatherBytes(part)));
    parts_->Gather(part, gathered.graph);
    PH_RETURN_IF_ERROR(parts_->sampled_schema().Sizes(gathered.graph, tuple_));
    return gathered;
  }

  absl::Status Hold(uint64_t bytes) {
    if (memory_.bytes() != 0) return making_->Grow(kWhat, bytes, memory_);
    PH_ASSIGN_OR_RETURN(memory_, making_->Hold(kWhat, bytes));
    return absl::OkStatus();
  }

  PartGraphs* const parts_;
  const Making* const making_;
  std::vector<uint32_t> tuple_;
  MemoryHold memory_;
  uint64_t per_append_ = 1;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PartGraphs>> PartGraphs::Create(
    std::shared_ptr<const SourceGraph> graph, absl::Span<const uint32_t> part, uint32_t num_parts,
    const PartGraphsOptions& options, const Making& making) {
  if (!options.halo && options.features) PH_RETURN_IF_ERROR(CheckNoRaggedEdges(*graph));
  PH_ASSIGN_OR_RETURN(HomogeneousGraph homogeneous, HomogeneousGraph::Create(graph.get()));
  if (part.size() != homogeneous.num_nodes()) {
    return absl::InvalidArgumentError(
        absl::StrCat("parts of ", part.size(), " nodes, there are ", homogeneous.num_nodes()));
  }
  auto parts =
      std::unique_ptr<PartGraphs>(new PartGraphs(std::move(graph), std::move(homogeneous)));
  const HomogeneousGraph& of_parts = parts->graph_;
  parts->halo_ = options.halo;
  SampledPayload payload;
  payload.features = options.features;
  payload.numbers = true;
  payload.rows = true;
  payload.ids = options.ids;
  PH_ASSIGN_OR_RETURN(
      SampledSchema schema,
      SampledSchema::CreateForParts(parts->Sets(options.halo), *parts->source_, payload));
  parts->schema_ = std::make_unique<const SampledSchema>(std::move(schema));
  uint64_t first_edges = 0;
  for (const HomogeneousEdgeType& type : of_parts.edge_types()) {
    first_edges += of_parts.node_types()[type.target].size;
  }
  PH_ASSIGN_OR_RETURN(
      parts->memory_,
      making.Hold("the nodes of parts", uint64_t{12} * of_parts.num_nodes() + 8 * first_edges));
  PartitionWatch watch;
  watch.cancelled = making.is_cancelled();
  PH_ASSIGN_OR_RETURN(NewIds ids, NewIds::Create(&of_parts, part, num_parts, watch));
  parts->ids_ = std::make_unique<const NewIds>(std::move(ids));
  parts->local_.assign(of_parts.num_nodes(), kAbsent);
  return parts;
}

PartSets PartGraphs::Sets(bool inner_marks) const {
  PartSets sets;
  sets.inner_marks = inner_marks;
  for (const HomogeneousNodeType& type : graph_.node_types()) {
    sets.node_sets.push_back(type.node_set);
  }
  for (const bool cut : {false, true}) {
    if (cut && inner_marks) break;
    for (const HomogeneousEdgeType& type : graph_.edge_types()) {
      sets.edge_sets.push_back({type.edge_set, type.source, type.target, cut});
    }
  }
  return sets;
}

void PartGraphs::GatherNodes(uint32_t part, SampledGraph& result) {
  for (size_t t = 0; t < graph_.node_types().size(); ++t) {
    const uint32_t start = graph_.node_types()[t].start;
    SampledNodes& nodes = result.node_sets[t];
    nodes.numbers.clear();
    const IdRange range = ids_->node_map()[t][part];
    for (uint64_t node = range.begin; node < range.end; ++node) {
      const uint32_t original = ids_->original_of_node()[node];
      local_[original] = static_cast<uint32_t>(nodes.numbers.size());
      nodes.numbers.push_back(original - start);
    }
    nodes.num_inner = static_cast<uint32_t>(nodes.numbers.size());
  }
}

void PartGraphs::GatherHalo(SampledGraph& result) {
  for (const HomogeneousEdgeType& type : graph_.edge_types()) {
    const uint32_t source_start = graph_.node_types()[type.source].start;
    const SampledNodes& targets = result.node_sets[type.target];
    std::vector<uint32_t>& sources = result.node_sets[type.source].numbers;
    for (uint32_t i = 0; i < targets.num_inner; ++i) {
      const uint32_t row = targets.numbers[i];
      const uint64_t end = type.by_target.offsets[row + 1];
      for (uint64_t at = type.by_target.offsets[row]; at < end; ++at) {
        const uint32_t source = type.by_target.neighbours[at];
        if (local_[source_start + source] != kAbsent) continue;
        local_[source_start + source] = 0;  // Its place is known once the halo is sorted.
        sources.push_back(source);
      }
    }
  }
  for (size_t t = 0; t < graph_.node_types().size(); ++t) {
    SampledNodes& nodes = result.node_sets[t];
    std::sort(nodes.numbers.begin() + nodes.num_inner, nodes.numbers.end());
    for (size_t i = nodes.num_inner; i < nodes.numbers.size(); ++i) {
      local_[graph_.node_types()[t].start + nodes.numbers[i]] = static_cast<uint32_t>(i);
    }
  }
}

void PartGraphs::GatherEdges(size_t edge_type, SampledGraph& result) {
  const HomogeneousEdgeType& type = graph_.edge_types()[edge_type];
  const uint32_t source_start = graph_.node_types()[type.source].start;
  const SampledNodes& targets = result.node_sets[type.target];
  SampledEdges& edges = result.edge_sets[edge_type];
  // With a halo no edge is cut.
  SampledEdges& cut = halo_ ? edges : result.edge_sets[graph_.edge_types().size() + edge_type];
  for (uint32_t i = 0; i < targets.num_inner; ++i) {
    const uint32_t row = targets.numbers[i];
    const uint64_t end = type.by_target.offsets[row + 1];
    for (uint64_t at = type.by_target.offsets[row]; at < end; ++at) {
      const uint32_t source = type.by_target.neighbours[at];
      const uint32_t place = local_[source_start + source];
      SampledEdges& to = place == kAbsent ? cut : edges;
      to.sources.push_back(place == kAbsent ? source : place);
      to.targets.push_back(i);
      to.numbers.push_back(type.by_target.edge(at));
    }
  }
}

void PartGraphs::Gather(uint32_t part, SampledGraph& result) {
  result.node_sets.resize(graph_.node_types().size());
  result.edge_sets.resize(graph_.edge_types().size() * (halo_ ? 1 : 2));
  for (SampledEdges& edges : result.edge_sets) {
    edges.sources.clear();
    edges.targets.clear();
    edges.numbers.clear();
  }
  GatherNodes(part, result);
  if (halo_) GatherHalo(result);
  for (size_t e = 0; e < graph_.edge_types().size(); ++e) GatherEdges(e, result);
  for (size_t t = 0; t < graph_.node_types().size(); ++t) {
    for (const uint32_t number : result.node_sets[t].numbers) {
      local_[graph_.node_types()[t].start + number] = kAbsent;
    }
  }
}

uint64_t PartGraphs::GatherBytes(uint32_t part) const {
  uint64_t nodes = 0;
  for (const auto& ranges : ids_->node_map()) nodes += ranges[part].size();
  uint64_t edges = 0;
  for (const HomogeneousEdgeType& type : graph_.edge_types()) {
    const uint32_t start = graph_.node_types()[type.target].start;
    const IdRange range = ids_->node_map()[type.target][part];
    for (uint64_t node = range.begin; node < range.end; ++node) {
      const uint32_t row = ids_->original_of_node()[node] - start;
      edges += type.by_target.offsets[row + 1] - type.by_target.offsets[row];
    }
  }
  // Each edge may bring a node of the halo. Vectors may have twice the room.
  constexpr uint64_t kBytesOfEdge = 2 * sizeof(uint32_t) + sizeof(uint64_t);
  const uint64_t halo = halo_ ? edges : 0;
  return 2 * (sizeof(uint32_t) * (nodes + halo) + kBytesOfEdge * edges);
}

absl::StatusOr<DatasetInfo> MakePartDataset(PartGraphs& parts, const MadeDatasetRequest& request,
                                            DatasetStore& store, const Making& making,
                                            absl::FunctionRef<void(uint64_t num_graphs)> progress) {
  PartMaker maker(&parts, &making);
  PH_RETURN_IF_ERROR(maker.Begin());
  return MakeDataset(maker, request, store, making, progress);
}

}  // namespace packhouse
