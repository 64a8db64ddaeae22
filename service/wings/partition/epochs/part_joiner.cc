#include "service/wings/partition/epochs/part_joiner.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

class Joining {
 public:
  Joining(const PartsSchema& schema, const PartLinks& links, const DatasetReader& reader)
      : schema_(schema), links_(links), reader_(reader) {}

  absl::StatusOr<GraphChunk> Join(absl::Span<const uint32_t> parts);

 private:
  // Of one graph and edge set.
  struct Restored {
    std::vector<uint32_t> rows;    // Of the cut edges.
    std::vector<int32_t> sources;  // As the joined column has them.
  };

  absl::string_view Rows(size_t g, size_t tensor) const {
    return graphs_[g].chunk->rows(graphs_[g].index, tensor);
  }
  uint64_t Count(size_t g, size_t component) const {
    return graphs_[g].chunk->count(graphs_[g].index, component);
  }
  absl::StatusOr<Restored> Restore(size_t g, const PartsSchema::EdgeSet& edges) const;
  void AppendRows(size_t g, const PartsSchema::JoinedTensor& tensor, std::string& column) const;

  const PartsSchema& schema_;
  const PartLinks& links_;
  const DatasetReader& reader_;
  std::vector<StoredGraph> graphs_;
  absl::flat_hash_map<uint32_t, size_t> place_of_part_;
  std::vector<std::vector<uint64_t>> first_row_;  // By node set and graph.
  std::vector<std::vector<Restored>> restored_;   // By edge set and graph.
};

absl::StatusOr<Joining::Restored> Joining::Restore(size_t g,
                                                   const PartsSchema::EdgeSet& edges) const {
  Restored restored;
  const absl::string_view rows = Rows(g, edges.cut_source);
  const PartsSchema::NodeSet& nodes = schema_.node_sets()[edges.source_set];
  const std::vector<uint64_t>& first = first_row_[edges.source_set];
  for (size_t i = 0; i < rows.size() / sizeof(uint32_t); ++i) {
    const uint32_t number = SourceAt(rows, i);
    const auto other = place_of_part_.find(links_.PartOf(edges.source_set, number));
    if (other == place_of_part_.end() || other->second == g) continue;
    const absl::string_view numbers = Rows(other->second, nodes.number);
    size_t low = 0;
    size_t high = numbers.size() / sizeof(int64_t);
    while (low < high) {
      const size_t middle = (low + high) / 2;
      if (NumberAt(numbers, middle) < static_cast<int64_t>(number)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    if (low == numbers.size() / sizeof(int64_t) ||
        NumberAt(numbers, low) != static_cast<int64_t>(number)) {
      return absl::DataLossError(absl::StrCat("data set '", reader_.info().name, "': part ",
                                              other->first, " has lost node ", number));
    }
    restored.rows.push_back(static_cast<uint32_t>(i));
    // Collating adds the first row of this graph, modulo 2^32.
    restored.sources.push_back(
        static_cast<int32_t>(static_cast<uint32_t>(first[other->second] + low - first[g])));
  }
  return restored;
}

void Joining::AppendRows(size_t g, const PartsSchema::JoinedTensor& tensor,
                         std::string& column) const {
  const absl::string_view own = Rows(g, tensor.stored);
  column.append(own.data(), own.size());
  if (tensor.edge_set == PartsSchema::JoinedTensor::kNone) return;
  const Restored& restored = restored_[tensor.edge_set][g];
  if (restored.rows.empty()) return;
  if (tensor.is_source) {
    column.append(reinterpret_cast<const char*>(restored.sources.data()),
                  restored.sources.size() * sizeof(int32_t));
    return;
  }
  const absl::string_view cut = Rows(g, tensor.stored_cut);
  const size_t bytes = graphs_[g].chunk->schema().row_bytes(tensor.stored_cut);
  for (const uint32_t row : restored.rows) column.append(cut.data() + row * bytes, bytes);
}

absl::StatusOr<GraphChunk> Joining::Join(absl::Span<const uint32_t> parts) {
  std::vector<uint64_t> ids;
  for (size_t g = 0; g < parts.size(); ++g) {
    PH_ASSIGN_OR_RETURN(const StoredGraph graph, reader_.Graph(parts[g]));
    graphs_.push_back(graph);
    place_of_part_[parts[g]] = g;
    ids.push_back(reader_.graph_ids()[parts[g]]);
  }
  for (const PartsSchema::NodeSet& set : schema_.node_sets()) {
    std::vector<uint64_t>& first = first_row_.emplace_back();
    uint64_t rows = 0;
    for (size_t g = 0; g < graphs_.size(); ++g) {
      first.push_back(rows);
      rows += Count(g, set.component);
    }
  }
  for (const PartsSchema::EdgeSet& edges : schema_.edge_sets()) {
    std::vector<Restored>& of_set = restored_.emplace_back();
    for (size_t g = 0; g < graphs_.size(); ++g) {
      PH_ASSIGN_OR_RETURN(Restored restored, Restore(g, edges));
      of_set.push_back(std::move(restored));
    }
  }
  const size_t l = schema_.joined().num_components();
  std::vector<uint32_t> counts;
  for (size_t g = 0; g < graphs_.size(); ++g) {
    for (size_t k = 0; k < l; ++k) {
      uint64_t count = Count(g, schema_.stored_components()[k]);
      const size_t e = schema_.edge_set_of()[k];
      if (e != PartsSchema::JoinedTensor::kNone) count += restored_[e][g].rows.size();
      counts.push_back(static_cast<uint32_t>(count));
    }
  }
  auto columns = std::make_shared<std::vector<std::string>>(schema_.tensors().size());
  std::vector<absl::string_view> views;
  for (size_t t = 0; t < schema_.tensors().size(); ++t) {
    std::string& column = (*columns)[t];
    const size_t component = schema_.joined().tensors()[t].component;
    uint64_t rows = component == l ? graphs_.size() : 0;
    for (size_t g = 0; component < l && g < graphs_.size(); ++g) rows += counts[g * l + component];
    column.reserve(rows * schema_.joined().row_bytes(t));
    for (size_t g = 0; g < graphs_.size(); ++g) AppendRows(g, schema_.tensors()[t], column);
    views.emplace_back(column);
  }
  PH_ASSIGN_OR_RETURN(SizeTable sizes,
                      SizeTable::WithAnyIds(graphs_.size(), l, std::move(counts), std::move(ids)));
  return GraphChunk::CreateTrusted(&schema_.joined(), std::move(sizes), std::move(views),
                                   std::move(columns));
}

}  // namespace

absl::StatusOr<GraphChunk> JoinParts(const PartsSchema& schema, const PartLinks& links,
                                     const DatasetReader& reader,
                                     absl::Span<const uint32_t> parts) {
  return Joining(schema, links, reader).Join(parts);
}

}  // namespace packhouse
