#include "service/wings/tfgnn/readout.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/index_values.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/tfgnn/graph_schema_file.h"

namespace packhouse::tfgnn {
namespace {

const RowSet& SourceOf(const GraphSets& sets, const ReadoutSource& source) {
  if (source.is_edge_set) return sets.edge_sets()[source.rows_of];
  return sets.node_sets()[source.rows_of];
}

// End number `at` of graph i's edges in tensor t.
uint64_t EndAt(const GraphChunk& chunk, size_t i, size_t t, bool is_target, size_t at) {
  const TensorSpec& tensor = chunk.schema().tensors()[t];
  if (tensor.row_shape.empty()) {
    return static_cast<uint64_t>(IndexValueAt(tensor.dtype, chunk.rows(i, t), at));
  }
  const bool has_planes = chunk.schema().num_planes(t) == 2;
  const size_t element = is_target ? 1 : 0;
  return static_cast<uint64_t>(
      has_planes ? IndexValueAt(tensor.dtype, chunk.rows(i, t, element), at)
                 : IndexValueAt(tensor.dtype, chunk.rows(i, t), 2 * at + element));
}

absl::StatusOr<const Feature*> DenseFeature(const RowSet& set, absl::string_view name) {
  for (const Feature& feature : set.features) {
    if (feature.name != name) continue;
    if (feature.is_text || !feature.ragged.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("set ", Quoted(set.name), ": feature ",
                                                     Quoted(name),
                                                     " is ragged or of strings: it cannot be read "
                                                     "out"));
    }
    return &feature;
  }
  return absl::NotFoundError(
      absl::StrCat("set ", Quoted(set.name), " has no feature ", Quoted(name)));
}

}  // namespace

SetNames NamesOf(const GraphSets& sets) {
  SetNames names;
  for (const RowSet& set : sets.node_sets()) names.node_sets.push_back(set.name);
  for (const EdgeSet& set : sets.edge_sets()) {
    names.edge_sets.push_back(
        {set.name, sets.node_sets()[set.source_set].name, sets.node_sets()[set.target_set].name});
  }
  return names;
}

absl::StatusOr<std::vector<ReadoutRow>> ReadoutRows(const GraphSets& sets,
                                                    const ReadoutStructure& structure, size_t key,
                                                    const GraphChunk& chunk, size_t i) {
  const uint64_t num_predictions = chunk.count(i, sets.node_sets()[structure.node_set].component);
  const std::vector<ReadoutSource>& sources = structure.keys[key].second;
  std::vector<std::optional<ReadoutRow>> found(num_predictions);
  for (size_t s = 0; s < sources.size(); ++s) {
    const EdgeSet& edges = sets.edge_sets()[sources[s].edge_set];
    const auto invalid = [&](const auto&... parts) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graph ", chunk.sizes().graph_id(i), ": edge set ", Quoted(edges.name), ": ", parts...));
    };
    if (sources[s].is_edge_set) {
      const uint64_t shadow = chunk.count(i, sets.node_sets()[edges.source_set].component);
      const uint64_t real = chunk.count(i, SourceOf(sets, sources[s]).component);
      if (shadow != real) {
        return invalid("its source has ", shadow, " rows, the edge set that it stands for ", real);
      }
    }
    const uint64_t num_edges = chunk.count(i, edges.component);
    uint64_t before = 0;
    for (uint64_t at = 0; at < num_edges; ++at) {
      const uint64_t target = EndAt(chunk, i, edges.target, true, at);
      if (at > 0 && target <= before) {
        return invalid("target ", target, " at position ", at, " is not above ", before,
                       ", the one before: targets rise strictly");
      }
      before = target;
      if (found[target]) {
        return invalid("target ", target, " at position ", at,
                       " has an edge in another edge set of its key");
      }
      found[target] = ReadoutRow{s, EndAt(chunk, i, edges.source, false, at)};
    }
  }
  std::vector<ReadoutRow> rows;
  rows.reserve(found.size());
  for (size_t p = 0; p < found.size(); ++p) {
    if (!found[p]) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graph ", chunk.sizes().graph_id(i), ": key ", Quoted(structure.keys[key].first),
          ": prediction ", p, " of ", found.size(), " has no edge"));
    }
    rows.push_back(*found[p]);
  }
  return rows;
}

absl::StatusOr<ReadoutValues> StructuredReadout(const GraphSets& sets, const GraphChunk& chunk,
                                                size_t i, absl::string_view key,
                                                absl::string_view feature,
                                                absl::string_view readout_set) {
  PH_ASSIGN_OR_RETURN(const ReadoutStructure structure, FindReadout(NamesOf(sets), readout_set));
  const auto at = std::find_if(structure.keys.begin(), structure.keys.end(),
                               [key](const auto& each) { return each.first == key; });
  if (at == structure.keys.end()) {
    return absl::NotFoundError(
        absl::StrCat("read-out ", Quoted(readout_set), " has no key ", Quoted(key)));
  }
  ReadoutValues values;
  std::vector<size_t> tensors;
  for (const ReadoutSource& source : at->second) {
    const RowSet& set = SourceOf(sets, source);
    PH_ASSIGN_OR_RETURN(const Feature* const found, DenseFeature(set, feature));
    const TensorSpec& tensor = sets.schema().tensors()[found->values];
    if (tensors.empty()) {
      values.dtype = tensor.dtype;
      values.row_shape = tensor.row_shape;
    } else if (tensor.dtype != values.dtype || tensor.row_shape != values.row_shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "read-out ", Quoted(readout_set), ": feature ", Quoted(feature), " of set ",
          Quoted(set.name), " has another type or shape than in the other sources of its key"));
    }
    tensors.push_back(found->values);
  }
  PH_ASSIGN_OR_RETURN(const std::vector<ReadoutRow> rows,
                      ReadoutRows(sets, structure, at - structure.keys.begin(), chunk, i));
  for (const ReadoutRow& row : rows) {
    const size_t t = tensors[row.source];
    const size_t bytes = chunk.schema().plane_row_bytes(t);
    for (size_t plane = 0; plane < chunk.schema().num_planes(t); ++plane) {
      absl::StrAppend(&values.rows, chunk.rows(i, t, plane).substr(row.row * bytes, bytes));
    }
  }
  return values;
}

absl::StatusOr<FirstNodeReadout> FirstNodeReadout::Create(const GraphSets& sets,
                                                          absl::string_view key,
                                                          absl::string_view node_set) {
  tensorflow_gnn::GraphSchema schema = sets.ToTfgnn();
  const std::string edge_set = absl::StrCat(kReadout, "/", key);
  if (!schema.node_sets().contains(std::string(node_set))) {
    return absl::NotFoundError(absl::StrCat("there is no node set ", Quoted(node_set)));
  }
  if (schema.node_sets().contains(std::string(kReadout))) {
    return absl::AlreadyExistsError("there is a node set '_readout'");
  }
  (*schema.mutable_node_sets())[std::string(kReadout)];
  tensorflow_gnn::EdgeSet& edges = (*schema.mutable_edge_sets())[edge_set];
  edges.set_source(std::string(node_set));
  edges.set_target(std::string(kReadout));
  PH_ASSIGN_OR_RETURN(GraphSets with, GraphSets::FromTfgnn(schema));
  FirstNodeReadout readout(std::move(with));
  readout.seeds_ = *sets.schema().sizes().IndexOf(node_set);
  for (const std::string& name : readout.sets_.schema().sizes().components()) {
    readout.components_.push_back(sets.schema().sizes().IndexOf(name));
  }
  for (const TensorSpec& tensor : readout.sets_.schema().tensors()) {
    readout.tensors_.push_back(sets.schema().TensorIndex(tensor.name));
  }
  return readout;
}

absl::StatusOr<GraphChunk> FirstNodeReadout::Add(GraphChunk chunk) const {
  struct Kept {
    GraphChunk chunk;
    std::shared_ptr<const GraphSchema> schema;
    // The ends of the new edges: one edge a graph, from 0 to 0.
    std::string zeros;
  };
  const size_t n = chunk.num_graphs();
  std::vector<uint32_t> counts;
  std::vector<uint64_t> ids;
  counts.reserve(n * components_.size());
  for (size_t i = 0; i < n; ++i) {
    if (chunk.count(i, seeds_) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "graph ", chunk.sizes().graph_id(i), ": there is no node in ",
          Quoted(chunk.schema().sizes().name(seeds_)), ", whose first one is read out"));
    }
    for (const std::optional<size_t>& k : components_) {
      counts.push_back(k ? static_cast<uint32_t>(chunk.count(i, *k)) : 1);
    }
    ids.push_back(chunk.sizes().graph_id(i));
  }
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTable::WithIds(n, components_.size(), std::move(counts), std::move(ids)));
  auto kept = std::make_shared<Kept>(Kept{std::move(chunk), sets_.shared_schema(), {}});
  kept->zeros.assign(n * sizeof(int32_t), '\0');
  std::vector<absl::string_view> columns;
  for (const std::optional<size_t>& t : tensors_) {
    columns.push_back(t ? kept->chunk.column(*t) : absl::string_view(kept->zeros));
  }
  const GraphSchema* const schema = kept->schema.get();
  return GraphChunk::CreateTrusted(schema, std::move(sizes), std::move(columns), std::move(kept));
}

}  // namespace packhouse::tfgnn
