#include "service/wings/graphs/source_graphs/memory_source_graph.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

struct Rows {
  std::vector<uint64_t> offsets;
  std::vector<uint32_t> neighbours;
  std::vector<uint64_t> edges;

  Adjacency view() const { return {offsets, neighbours, edges}; }
};

// A counting sort by `ends`, which keeps table order within a row.
Rows SortBy(absl::Span<const uint32_t> ends, absl::Span<const uint32_t> others, uint64_t num_rows) {
  Rows rows;
  rows.offsets.assign(num_rows + 1, 0);
  for (const uint32_t end : ends) ++rows.offsets[end + uint64_t{1}];
  std::partial_sum(rows.offsets.begin(), rows.offsets.end(), rows.offsets.begin());
  std::vector<uint64_t> next(rows.offsets.begin(), rows.offsets.end() - 1);
  rows.neighbours.resize(ends.size());
  rows.edges.resize(ends.size());
  for (uint64_t e = 0; e < ends.size(); ++e) {
    const uint64_t place = next[ends[e]]++;
    rows.neighbours[place] = others[e];
    rows.edges[place] = e;
  }
  return rows;
}

absl::Status CheckMemoryColumn(absl::string_view set, const SourceColumnSpec& spec,
                               const MemoryColumn& column, uint64_t num_rows) {
  const std::string where = absl::StrCat("column \"", spec.name, "\" of \"", set, "\"");
  uint64_t steps = num_rows;
  if (spec.ragged) {
    if (column.offsets.size() != num_rows + 1 || column.offsets.front() != 0) {
      return absl::InvalidArgumentError(absl::StrCat(where, " has ", column.offsets.size(),
                                                     " offsets for ", num_rows,
                                                     " rows, or does not begin with 0"));
    }
    for (uint64_t r = 0; r < num_rows; ++r) {
      if (column.offsets[r] > column.offsets[r + 1]) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, ": the offsets descend after row ", r));
      }
    }
    steps = column.offsets.back();
  }
  const uint64_t row_bytes = SourceStepBytes(spec);
  if (column.bytes.size() / row_bytes != steps || column.bytes.size() % row_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(where, " has ", column.bytes.size(),
                                                   " bytes for ", steps, " rows of ", row_bytes));
  }
  return absl::OkStatus();
}

absl::Status CheckMemoryColumns(absl::string_view set, const std::vector<SourceColumnSpec>& specs,
                                const std::vector<MemoryColumn>& columns, uint64_t num_rows) {
  if (specs.size() != columns.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", set, "\" has ", columns.size(), " columns, its schema ", specs.size()));
  }
  for (size_t c = 0; c < specs.size(); ++c) {
    PH_RETURN_IF_ERROR(CheckMemoryColumn(set, specs[c], columns[c], num_rows));
  }
  return absl::OkStatus();
}

SourceColumn View(const SourceColumnSpec& spec, const MemoryColumn& column) {
  return {column.bytes.data(), SourceStepBytes(spec), column.offsets};
}

class MemorySourceGraph final : public SourceGraph {
 public:
  MemorySourceGraph(SourceGraphSchema schema, uint64_t version,
                    std::vector<MemoryNodeSet> node_sets, std::vector<MemoryEdgeSet> edge_sets)
      : schema_(std::move(schema)),
        version_(version),
        node_sets_(std::move(node_sets)),
        edge_sets_(std::move(edge_sets)) {
    for (const MemoryNodeSet& set : node_sets_) ids_.push_back(IdsOf(set));
    by_source_.resize(edge_sets_.size());
    by_target_.resize(edge_sets_.size());
    for (size_t e = 0; e < edge_sets_.size(); ++e) {
      const SourceEdgeSetSpec& spec = schema_.edge_sets()[e];
      if (spec.reverse_of.has_value()) continue;
      const MemoryEdgeSet& set = edge_sets_[e];
      by_source_[e] = SortBy(set.sources, set.targets, num_nodes(spec.source));
      by_target_[e] = SortBy(set.targets, set.sources, num_nodes(spec.target));
    }
  }

  const SourceGraphSchema& schema() const override { return schema_; }
  uint64_t version() const override { return version_; }
  uint64_t num_nodes(size_t node_set) const override { return node_sets_[node_set].num_nodes; }
  uint64_t num_edges(size_t edge_set) const override {
    return edge_sets_[Stored(edge_set)].sources.size();
  }
  absl::StatusOr<Adjacency> BySource(size_t edge_set) const override {
    const size_t stored = Stored(edge_set);
    return (stored == edge_set ? by_source_ : by_target_)[stored].view();
  }
  absl::StatusOr<Adjacency> ByTarget(size_t edge_set) const override {
    const size_t stored = Stored(edge_set);
    return (stored == edge_set ? by_target_ : by_source_)[stored].view();
  }
  SourceColumn NodeColumn(size_t node_set, size_t column) const override {
    return View(schema_.node_sets()[node_set].columns[column],
                node_sets_[node_set].columns[column]);
  }
  SourceColumn EdgeColumn(size_t edge_set, size_t column) const override {
    const size_t stored = Stored(edge_set);
    return View(schema_.edge_sets()[stored].columns[column], edge_sets_[stored].columns[column]);
  }
  SourceColumn NodeIds(size_t node_set) const override {
    const bool integer = integer_ids(node_set);
    return {ids_[node_set].bytes.data(), integer ? sizeof(int64_t) : 1, ids_[node_set].offsets};
  }
  bool integer_ids(size_t node_set) const override { return node_sets_[node_set].text_ids.empty(); }

 private:
  static MemoryColumn IdsOf(const MemoryNodeSet& set) {
    MemoryColumn ids;
    if (!set.text_ids.empty()) {
      ids.offsets.push_back(0);
      for (const std::string& id : set.text_ids) {
        ids.bytes += id;
        ids.offsets.push_back(ids.bytes.size());
      }
      return ids;
    }
    std::vector<int64_t> numbers = set.integer_ids;
    if (numbers.empty()) {
      numbers.resize(set.num_nodes);
      std::iota(numbers.begin(), numbers.end(), int64_t{0});
    }
    ids.bytes.resize(numbers.size() * sizeof(int64_t));
    if (!numbers.empty()) std::memcpy(ids.bytes.data(), numbers.data(), ids.bytes.size());
    return ids;
  }
  size_t Stored(size_t edge_set) const {
    return schema_.edge_sets()[edge_set].reverse_of.value_or(edge_set);
  }

  const SourceGraphSchema schema_;
  const uint64_t version_;
  const std::vector<MemoryNodeSet> node_sets_;
  const std::vector<MemoryEdgeSet> edge_sets_;
  std::vector<MemoryColumn> ids_;
  std::vector<Rows> by_source_;
  std::vector<Rows> by_target_;
};

absl::Status CheckNodeSet(const SourceNodeSetSpec& spec, const MemoryNodeSet& set) {
  if (set.num_nodes > SourceGraph::kMaxNodes) {
    return absl::InvalidArgumentError(absl::StrCat("node set \"", spec.name, "\" has ",
                                                   set.num_nodes, " nodes, beyond ",
                                                   SourceGraph::kMaxNodes));
  }
  const size_t ids = set.integer_ids.size() + set.text_ids.size();
  if ((!set.integer_ids.empty() && !set.text_ids.empty()) || (ids != 0 && ids != set.num_nodes)) {
    return absl::InvalidArgumentError(absl::StrCat("node set \"", spec.name, "\" has ", ids,
                                                   " ids for ", set.num_nodes, " nodes"));
  }
  return CheckMemoryColumns(spec.name, spec.columns, set.columns, set.num_nodes);
}

absl::Status CheckEnds(absl::string_view edge_set, absl::Span<const uint32_t> ends,
                       const SourceNodeSetSpec& node_set, uint64_t num_nodes) {
  for (uint64_t e = 0; e < ends.size(); ++e) {
    if (ends[e] >= num_nodes) {
      return absl::InvalidArgumentError(absl::StrCat("edge ", e, " of \"", edge_set,
                                                     "\" ends at node ", ends[e], ", but \"",
                                                     node_set.name, "\" has ", num_nodes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<const SourceGraph>> MakeMemorySourceGraph(
    SourceGraphSchema schema, uint64_t version, std::vector<MemoryNodeSet> node_sets,
    std::vector<MemoryEdgeSet> edge_sets) {
  if (node_sets.size() != schema.node_sets().size() ||
      edge_sets.size() != schema.edge_sets().size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        node_sets.size(), " node sets and ", edge_sets.size(), " edge sets, but the schema has ",
        schema.node_sets().size(), " and ", schema.edge_sets().size()));
  }
  for (size_t n = 0; n < node_sets.size(); ++n) {
    PH_RETURN_IF_ERROR(CheckNodeSet(schema.node_sets()[n], node_sets[n]));
  }
  for (size_t e = 0; e < edge_sets.size(); ++e) {
    const SourceEdgeSetSpec& spec = schema.edge_sets()[e];
    const MemoryEdgeSet& set = edge_sets[e];
    if (set.sources.size() != set.targets.size()) {
      return absl::InvalidArgumentError(absl::StrCat("edge set \"", spec.name, "\" has ",
                                                     set.sources.size(), " sources and ",
                                                     set.targets.size(), " targets"));
    }
    if (spec.reverse_of.has_value() && !set.sources.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("edge set \"", spec.name, "\" is reversed, and has edges of its own"));
    }
    const SourceNodeSetSpec& source = schema.node_sets()[spec.source];
    const SourceNodeSetSpec& target = schema.node_sets()[spec.target];
    PH_RETURN_IF_ERROR(CheckEnds(spec.name, set.sources, source, node_sets[spec.source].num_nodes));
    PH_RETURN_IF_ERROR(CheckEnds(spec.name, set.targets, target, node_sets[spec.target].num_nodes));
    PH_RETURN_IF_ERROR(
        CheckMemoryColumns(spec.name, spec.columns, set.columns, set.sources.size()));
  }
  return std::unique_ptr<const SourceGraph>(std::make_unique<MemorySourceGraph>(
      std::move(schema), version, std::move(node_sets), std::move(edge_sets)));
}

}  // namespace packhouse
