#include "service/wings/partition_mpi/shares/graph_share.h"

#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// The edges that are for each rank.
absl::StatusOr<std::vector<uint64_t>> CountByOwner(const Blocks& blocks, EdgeReader& reader) {
  std::vector<uint64_t> counts(blocks.ranks());
  std::vector<SharedEdge> edges;
  reader.Rewind();
  while (true) {
    PH_ASSIGN_OR_RETURN(const bool more, reader.Next(edges));
    if (!more) return counts;
    for (const SharedEdge& edge : edges) ++counts[blocks.owner(edge.target)];
  }
}

}  // namespace

absl::StatusOr<GraphShare> GraphShare::Create(Ranks& ranks, const SharedTypes* types,
                                              EdgeReader& reader) {
  GraphShare share(types, ranks);
  absl::StatusOr<std::vector<uint64_t>> counts = CountByOwner(share.blocks_, reader);
  PH_RETURN_IF_ERROR(Agree(ranks, counts.status()));
  uint64_t expected = 0;
  for (const uint64_t count : ranks.ExchangeCounts(*counts)) expected += count;
  std::vector<SharedEdge> received;
  received.reserve(expected);

  reader.Rewind();
  absl::Status status;
  std::vector<SharedEdge> read;
  size_t at = 0;
  const auto fill = [&](MessagesToRanks<SharedEdge>& outbox) {
    while (true) {
      for (; at < read.size(); ++at) {
        if (outbox.full()) return true;
        outbox.Add(share.blocks_.owner(read[at].target), read[at]);
      }
      const absl::StatusOr<bool> more = reader.Next(read);
      at = 0;
      if (more.ok() && *more) continue;
      status = more.status();
      return false;
    }
  };
  ExchangeInRounds<SharedEdge>(ranks, fill,
                               [&received](uint32_t, absl::Span<const SharedEdge> edges) {
                                 received.insert(received.end(), edges.begin(), edges.end());
                               });
  // First: what a rank could not read is missing at others.
  PH_RETURN_IF_ERROR(Agree(ranks, status));
  if (received.size() != expected) {
    status = absl::AbortedError("the files of edges have changed while they were read");
  }
  PH_RETURN_IF_ERROR(Agree(ranks, status));
  share.Keep(std::move(received));
  return share;
}

void GraphShare::Keep(std::vector<SharedEdge> edges) {
  // By type first: edges of a type have consecutive numbers.
  const auto type_of = [this](uint64_t edge) { return types_->EdgeTypeOf(edge); };
  const bool one_type = types_->edge_types.size() <= 1;
  std::sort(edges.begin(), edges.end(), [&](const SharedEdge& a, const SharedEdge& b) {
    if (!one_type) {
      const size_t type_of_a = type_of(a.edge);
      const size_t type_of_b = type_of(b.edge);
      if (type_of_a != type_of_b) return type_of_a < type_of_b;
    }
    return a.target != b.target ? a.target < b.target : a.edge < b.edge;
  });
  sources_.reserve(edges.size());
  edges_.reserve(edges.size());
  size_t at = 0;
  for (const SharedEdgeType& type : types_->edge_types) {
    const SharedNodeType& target = types_->node_types[type.target];
    const uint64_t begin = std::clamp(first_node(), target.start, target.end());
    const uint64_t end = std::clamp(first_node() + num_own(), target.start, target.end());
    TypeRows rows;
    rows.first_node = begin;
    rows.offsets.reserve(end - begin + 1);
    rows.offsets.push_back(at);
    for (uint64_t node = begin; node < end; ++node) {
      for (; at < edges.size() && edges[at].target == node && edges[at].edge < type.end(); ++at) {
        sources_.push_back(edges[at].source);
        edges_.push_back(edges[at].edge);
      }
      rows.offsets.push_back(at);
    }
    rows_.push_back(std::move(rows));
  }
}

std::vector<uint64_t> GraphShare::InDegrees() const {
  std::vector<uint64_t> degrees(num_own());
  for (const TypeRows& rows : rows_) {
    for (uint64_t row = 0; row < rows.num_rows(); ++row) {
      degrees[rows.first_node + row - first_node()] += rows.offsets[row + 1] - rows.offsets[row];
    }
  }
  return degrees;
}

}  // namespace packhouse
