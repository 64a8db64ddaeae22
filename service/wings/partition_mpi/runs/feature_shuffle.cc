#include "service/wings/partition_mpi/runs/feature_shuffle.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// The rows of a node type that are of this rank's block.
struct OwnRows {
  uint64_t begin;
  uint64_t end;
};

OwnRows OwnRowsOf(const GraphShare& graph, const SharedNodeType& type) {
  const uint64_t first = graph.first_node();
  return {std::clamp(first, type.start, type.end()) - type.start,
          std::clamp(first + graph.num_own(), type.start, type.end()) - type.start};
}

// What a rank that reads rows of edges must know of them.
struct NewEdge {
  uint64_t row;
  uint64_t id;
};

}  // namespace

bool FeatureShuffle::Features::Has(size_t type) const {
  return std::any_of(columns.begin(), columns.end(),
                     [type](const Column& column) { return column.type == type; });
}

absl::StatusOr<FeatureShuffle> FeatureShuffle::Open(Ranks& ranks, const ChunkedInput& input,
                                                    const SharedIds* ids) {
  FeatureShuffle shuffle(ids);
  absl::Status status;
  for (size_t t = 0; t < input.node_types.size() && status.ok(); ++t) {
    const OwnRows own = OwnRowsOf(ids->graph(), input.types.node_types[t]);
    status = shuffle.OpenColumns(input.folder, input.types.node_types[t].name, t,
                                 input.node_types[t].features, input.types.node_types[t].size,
                                 own.begin, own.end, shuffle.nodes_);
  }
  // Rows of edges are dealt evenly, whoever has read their ends.
  for (size_t e = 0; e < input.edge_types.size() && status.ok(); ++e) {
    const Blocks rows(input.types.edge_types[e].size, ranks.size());
    status = shuffle.OpenColumns(input.folder, input.types.edge_types[e].name, e,
                                 input.edge_types[e].features, rows.total(),
                                 rows.begin(ranks.rank()), rows.end(ranks.rank()), shuffle.edges_);
  }
  PH_RETURN_IF_ERROR(Agree(ranks, status));
  shuffle.PlanNodeRows();
  for (size_t e = 0; e < input.edge_types.size(); ++e) {
    if (shuffle.edges_.Has(e)) {
      shuffle.PlanEdgeRows(ranks, e, Blocks(input.types.edge_types[e].size, ranks.size()));
    }
  }
  return shuffle;
}

absl::Status FeatureShuffle::OpenColumns(const std::string& folder, const std::string& type_name,
                                         size_t type, const std::vector<ChunkedTable>& tables,
                                         uint64_t num_rows, uint64_t begin, uint64_t end,
                                         Features& features) {
  for (const ChunkedTable& table : tables) {
    if (absl::StrContains(table.name, '/')) {
      notes_.push_back(absl::StrCat("column ", Quoted(table.name), " of ", Quoted(type_name),
                                    " is left out: its name has a slash"));
      continue;
    }
    PH_ASSIGN_OR_RETURN(FeatureRows rows, FeatureRows::Open(folder, table, num_rows, begin, end));
    features.columns.push_back({type, absl::StrCat(type_name, "/", table.name), std::move(rows)});
  }
  return absl::OkStatus();
}

void FeatureShuffle::PlanNodeRows() {
  const GraphShare& graph = ids_->graph();
  for (size_t t = 0; t < graph.types().node_types.size(); ++t) {
    if (!nodes_.Has(t)) continue;
    const SharedNodeType& type = graph.types().node_types[t];
    const OwnRows own = OwnRowsOf(graph, type);
    std::vector<uint64_t> new_ids;
    for (uint64_t row = own.begin; row < own.end; ++row) {
      new_ids.push_back(ids_->new_node(type.start + row - graph.first_node()));
    }
    nodes_.plans.try_emplace(t, own.begin, std::move(new_ids), ids_->num_parts(),
                             [this](uint64_t id) { return ids_->OwnerOfNode(id); });
  }
}

void FeatureShuffle::PlanEdgeRows(Ranks& ranks, size_t type, const Blocks& blocks) {
  const GraphShare& graph = ids_->graph();
  const GraphShare::TypeRows& rows = graph.rows()[type];
  const uint64_t first = blocks.begin(ranks.rank());
  std::vector<uint64_t> new_ids(blocks.size(ranks.rank()));
  uint64_t row = 0;
  uint64_t place = rows.offsets.front();
  ExchangeInRounds<NewEdge>(
      ranks,
      [&](MessagesToRanks<NewEdge>& outbox) {
        for (; row < rows.num_rows(); ++row) {
          for (; place < rows.offsets[row + 1]; ++place) {
            if (outbox.full()) return true;
            const uint64_t of_type = graph.edges()[place] - graph.types().edge_types[type].start;
            outbox.Add(blocks.owner(of_type), {of_type, ids_->NewEdge(type, row, place)});
          }
        }
        return false;
      },
      [&](uint32_t, absl::Span<const NewEdge> items) {
        for (const NewEdge& item : items) new_ids[item.row - first] = item.id;
      });
  edges_.plans.try_emplace(type, first, std::move(new_ids), ids_->num_parts(),
                           [this](uint64_t id) { return ids_->OwnerOfEdge(id); });
}

absl::Status FeatureShuffle::GatherRows(Ranks& ranks, const PartGatherer::Wave& wave,
                                        const Features& features, const Ranges& map,
                                        const std::string& path, std::vector<SpoolFile>& spools) {
  const std::optional<uint32_t> own = wave.part_of_rank[ranks.rank()];
  absl::Status status;
  for (size_t c = 0; c < features.columns.size() && own && status.ok(); ++c) {
    const Column& column = features.columns[c];
    absl::StatusOr<SpoolFile> spool = SpoolFile::Create(
        absl::StrCat(path, c), map[column.type][*own].size() * column.rows.row_bytes());
    status = spool.status();
    if (spool.ok()) spools.push_back(*std::move(spool));
  }
  PH_RETURN_IF_ERROR(Agree(ranks, status));
  for (size_t c = 0; c < features.columns.size(); ++c) {
    const Column& column = features.columns[c];
    SendRows(ranks, wave, features.plans.at(column.type), column.rows, map[column.type],
             own ? spools[c].data() : nullptr);
  }
  return absl::OkStatus();
}

absl::StatusOr<FeatureShuffle::OfPart> FeatureShuffle::Gather(Ranks& ranks,
                                                              const PartGatherer::Wave& wave,
                                                              const std::string& folder) const {
  OfPart of_part;
  PH_RETURN_IF_ERROR(
      GatherRows(ranks, wave, nodes_, ids_->node_map(), folder + "/nodes", of_part.nodes));
  PH_RETURN_IF_ERROR(
      GatherRows(ranks, wave, edges_, ids_->edge_map(), folder + "/edges", of_part.edges));
  return of_part;
}

std::vector<ArraySource> FeatureShuffle::Arrays(const Features& features, const Ranges& map,
                                                const std::vector<SpoolFile>& spools, uint32_t part,
                                                const Add& add) {
  std::vector<ArraySource> arrays;
  size_t c = 0;
  for (size_t type = 0; type < map.size(); ++type) {
    for (; c < features.columns.size() && features.columns[c].type == type; ++c) {
      const Column& column = features.columns[c];
      ArraySource array;
      array.header = {column.name, column.rows.dtype(), {map[type][part].size()}};
      array.header.shape.insert(array.header.shape.end(), column.rows.row_shape().begin(),
                                column.rows.row_shape().end());
      array.write = [bytes = spools[c].bytes()](ByteSink& sink) { return sink.Write(bytes); };
      arrays.push_back(std::move(array));
    }
    add(type, arrays);
  }
  return arrays;
}

}  // namespace packhouse
