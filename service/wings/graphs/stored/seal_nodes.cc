#include "service/wings/graphs/stored/seal_nodes.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/stored/external_sort.h"

namespace packhouse {
namespace {

using IdSort = ExternalSort<IdRecord, IdLess>;

class NodeSealer {
 public:
  NodeSealer(SealTask& task, size_t node_set)
      : task_(task),
        set_(node_set),
        spec_(task.definition->schema->node_sets()[node_set]),
        options_(task.definition->options.node_sets[node_set]),
        parts_(task.rows->nodes(node_set)),
        columns_(options_.integer_ids) {
    for (const StoredRows& part : parts_) columns_.Add(part.arrays[0], part.num_rows);
    const auto edge_sets = task.definition->schema->edge_sets();
    for (size_t e = 0; e < edge_sets.size(); ++e) {
      for (const StoredRows& part : task.rows->edges(e)) {
        if (edge_sets[e].source == node_set) AddEnds(e, part, 0);
        if (edge_sets[e].target == node_set) AddEnds(e, part, 1);
      }
    }
  }

  absl::StatusOr<uint64_t> Seal() {
    places_ = std::make_unique<PlaceList>(task_.folder, task_.space);
    {
      const std::unique_ptr<IdSort> sort = NewSort();
      PH_RETURN_IF_ERROR(AddDefined(*sort));
      PH_RETURN_IF_ERROR(WriteIds(*sort));
    }
    if (columns_.num_columns() > parts_.size()) PH_RETURN_IF_ERROR(AddFromEdges());
    for (size_t c = 0; c < spec_.columns.size(); ++c) {
      PH_RETURN_IF_ERROR(WriteColumn(task_, parts_, 1 + c, spec_.columns[c],
                                     NodeColumnArray(set_, c, ""), *places_));
    }
    PH_ASSIGN_OR_RETURN(const bool has_rows,
                        WriteRows(task_, parts_, NodeRowsArray(set_), *places_));
    if (has_rows) PH_RETURN_IF_ERROR(WriteByRow());
    places_.reset();
    PH_RETURN_IF_ERROR(CheckCount());
    task_.arrays.insert(task_.arrays.end(), ids_.begin(), ids_.end());
    return num_nodes_;
  }

 private:
  struct NumberOfRow {
    uint64_t row;
    uint64_t number;
  };
  struct RowLess {
    bool operator()(const NumberOfRow& a, const NumberOfRow& b) const { return a.row < b.row; }
  };

  // Where ids of the ends of edges come from.
  struct Ends {
    size_t edge_set;
    bool is_source;
  };

  std::unique_ptr<IdSort> NewSort() {
    return std::make_unique<IdSort>(task_.folder, task_.space, task_.memory_bytes / 2, task_.work,
                                    IdLess{&columns_});
  }
  void AddEnds(size_t edge_set, const StoredRows& part, size_t array) {
    columns_.Add(part.arrays[array], part.num_rows);
    ends_.push_back({edge_set, array == 0});
  }
  bool IsDefined(const IdRecord& id) const { return RowPlace::PartOf(id.place) < parts_.size(); }

  absl::Status CheckCount() const {
    if (num_nodes_ <= SourceGraph::kMaxNodes) return absl::OkStatus();
    return absl::OutOfRangeError(absl::StrCat("node set ", Quoted(spec_.name), " has ", num_nodes_,
                                              " nodes, beyond ", SourceGraph::kMaxNodes));
  }

  absl::Status AddDefined(IdSort& sort) {
    for (size_t column = 0; column < parts_.size(); ++column) {
      for (uint64_t row = 0; row < parts_[column].num_rows; ++row) {
        PH_RETURN_IF_ERROR(sort.Add(columns_.At(column, row)));
        PH_RETURN_IF_ERROR(task_.work->Advance(1));
      }
    }
    return absl::OkStatus();
  }

  // Nodes that only edges mention: the ids are sorted once more, with theirs.
  absl::Status AddFromEdges() {
    std::unique_ptr<IdSort> sort;
    {
      PH_ASSIGN_OR_RETURN(const SealedIds ids, SealedIds::Open(task_, set_, num_nodes_));
      const NodeLookup lookup = ids.Lookup(task_.memory_bytes / 4);
      // Neighbouring edges often mention the same nodes.
      std::vector<std::optional<IdRecord>> recent(kRecent);
      for (size_t column = parts_.size(); column < columns_.num_columns(); ++column) {
        for (uint64_t row = 0; row < columns_.num_rows(column); ++row) {
          PH_RETURN_IF_ERROR(task_.work->Advance(1));
          const IdRecord id = columns_.At(column, row);
          if (lookup.Find(columns_, id)) continue;
          if (!options_.nodes_from_edges) return NoSuchNode(column, row, id);
          std::optional<IdRecord>& last = recent[(id.key * kSpread) >> (64 - kRecentBits)];
          if (last && columns_.IsSame(*last, id)) continue;
          last = id;
          if (sort == nullptr) sort = NewSort();
          PH_RETURN_IF_ERROR(sort->Add(id));
        }
      }
    }
    if (sort == nullptr) return absl::OkStatus();
    task_.work->AddTotal(2 * LoggedRows::CountRows(parts_) + sort->num_records());
    PH_RETURN_IF_ERROR(AddDefined(*sort));
    places_ = std::make_unique<PlaceList>(task_.folder, task_.space);
    for (const ArrayInfo& info : ids_) task_.space->Give(info.bytes);
    return WriteIds(*sort);
  }

  absl::Status NoSuchNode(size_t column, uint64_t row, const IdRecord& id) const {
    const Ends& ends = ends_[column - parts_.size()];
    return absl::FailedPreconditionError(absl::StrCat(
        "edge set ", Quoted(task_.definition->schema->edge_sets()[ends.edge_set].name), ": the ",
        ends.is_source ? "source" : "target", " of the edge in row ", row, " of an append is node ",
        columns_.Name(id), ", which node set ", Quoted(spec_.name), " does not have"));
  }

  absl::Status WriteIds(IdSort& sort) {
    ids_.clear();
    num_nodes_ = 0;
    PH_ASSIGN_OR_RETURN(ArrayWriter ids, task_.NewArray(IdsArray(set_, "")));
    std::optional<ArrayWriter> offsets;
    if (!options_.integer_ids) {
      PH_ASSIGN_OR_RETURN(offsets, task_.NewArray(IdsArray(set_, kOffsetsPart)));
      PH_RETURN_IF_ERROR(offsets->AppendValue(uint64_t{0}));
    }
    std::optional<IdRecord> node;  // The place is that of the rows that are taken.
    const auto finish_node = [&]() -> absl::Status {
      if (!node) return absl::OkStatus();
      ++num_nodes_;
      PH_RETURN_IF_ERROR(places_->Add(IsDefined(*node) ? node->place : PlaceList::kNone));
      if (options_.integer_ids) {
        return ids.AppendValue(static_cast<int64_t>(node->key ^ (uint64_t{1} << 63)));
      }
      PH_RETURN_IF_ERROR(ids.Append(columns_.Text(node->place)));
      return offsets->AppendValue(ids.bytes());
    };
    const auto add = [&](const IdRecord& id) -> absl::Status {
      PH_RETURN_IF_ERROR(task_.work->Advance(1));
      if (!node || !columns_.IsSame(*node, id)) {
        PH_RETURN_IF_ERROR(finish_node());
        node = id;
        return absl::OkStatus();
      }
      // Rows of nodes come before ends of edges.
      return IsDefined(id) ? Choose(id, *node) : absl::OkStatus();
    };
    PH_RETURN_IF_ERROR(sort.Merge(add));
    PH_RETURN_IF_ERROR(finish_node());
    PH_ASSIGN_OR_RETURN(ArrayInfo info, ids.Finish());
    ids_.push_back(std::move(info));
    if (offsets) {
      PH_ASSIGN_OR_RETURN(info, offsets->Finish());
      ids_.push_back(std::move(info));
    }
    return absl::OkStatus();
  }

  // The node of each row; none for rows that were not taken.
  absl::Status WriteByRow() {
    ExternalSort<NumberOfRow, RowLess> sort(task_.folder, task_.space, task_.memory_bytes / 2,
                                            task_.work, RowLess());
    task_.work->AddTotal(2 * num_nodes_);
    const auto add = [&](uint64_t number, uint64_t row) -> absl::Status {
      PH_RETURN_IF_ERROR(sort.Add({row, number}));
      return task_.work->Advance(1);
    };
    PH_RETURN_IF_ERROR(ForEachRow(parts_, *places_, add));
    PH_ASSIGN_OR_RETURN(ArrayWriter numbers, task_.NewArray(NodesByRowArray(set_)));
    const auto write = [&](const NumberOfRow& entry) -> absl::Status {
      while (numbers.bytes() < entry.row * sizeof(uint32_t)) {
        PH_RETURN_IF_ERROR(numbers.AppendValue(NodesByRow::kNone));
      }
      PH_RETURN_IF_ERROR(numbers.AppendValue(static_cast<uint32_t>(entry.number)));
      return task_.work->Advance(1);
    };
    PH_RETURN_IF_ERROR(sort.Merge(write));
    return task_.Finish(numbers);
  }

  // `later` is another row of the node `chosen`.
  absl::Status Choose(const IdRecord& later, IdRecord& chosen) const {
    switch (task_.duplicates) {
      case DuplicateNodes::kFirst:
        return absl::OkStatus();
      case DuplicateNodes::kLast:
        chosen = later;
        return absl::OkStatus();
      case DuplicateNodes::kRefuse:
        break;
    }
    for (size_t c = 0; c < spec_.columns.size(); ++c) {
      if (Row(chosen.place, c) == Row(later.place, c)) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          "node ", columns_.Name(later), " of node set ", Quoted(spec_.name),
          " was appended twice, and column ", Quoted(spec_.columns[c].name), " differs"));
    }
    return absl::OkStatus();
  }
  absl::string_view Row(uint64_t place, size_t column) const {
    return RowBytes(parts_[RowPlace::PartOf(place)].arrays[1 + column],
                    SourceStepBytes(spec_.columns[column]), RowPlace::RowOf(place));
  }

  static constexpr int kRecentBits = 14;
  static constexpr size_t kRecent = size_t{1} << kRecentBits;
  static constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;

  SealTask& task_;
  const size_t set_;
  const SourceNodeSetSpec& spec_;
  const SourceNodeSetOptions& options_;
  const absl::Span<const StoredRows> parts_;
  // First those of `parts_`, then the ends of edges.
  IdColumns columns_;
  std::vector<Ends> ends_;
  uint64_t num_nodes_ = 0;
  std::vector<ArrayInfo> ids_;
  std::unique_ptr<PlaceList> places_;
};

}  // namespace

absl::StatusOr<SealedIds> SealedIds::Open(const SealTask& task, size_t node_set,
                                          uint64_t num_nodes) {
  SealedIds ids;
  ids.integers_ = task.definition->options.node_sets[node_set].integer_ids;
  ids.num_nodes_ = num_nodes;
  const std::string path = absl::StrCat(task.folder, "/", IdsArray(node_set, ""));
  PH_ASSIGN_OR_RETURN(ids.ids_, FileMap::Open(path));
  if (!ids.integers_) {
    PH_ASSIGN_OR_RETURN(ids.offsets_, FileMap::Open(absl::StrCat(path, kOffsetsPart)));
  }
  return ids;
}

NodeLookup SealedIds::Lookup(uint64_t table_bytes) const {
  return NodeLookup(integers_, num_nodes_, ids_.bytes().data(),
                    reinterpret_cast<const uint64_t*>(offsets_.bytes().data()), table_bytes);
}

absl::StatusOr<uint64_t> SealNodes(SealTask& task, size_t node_set) {
  return NodeSealer(task, node_set).Seal();
}

}  // namespace packhouse
