#include "service/wings/partition_mpi/shares/symmetric_share.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace packhouse {
namespace {

struct OutEdge {
  uint64_t source;
  uint64_t target;
};

// Each in-edge that is no self loop goes to the rank of its source.
template <typename Item, typename Make, typename Take>
void TellSources(Ranks& ranks, const GraphShare& graph, const Make& make, const Take& take) {
  size_t type = 0;
  uint64_t row = 0;
  uint64_t at = 0;
  const auto fill = [&](MessagesToRanks<Item>& outbox) {
    for (; type < graph.rows().size(); ++type, row = 0) {
      const GraphShare::TypeRows& rows = graph.rows()[type];
      for (; row < rows.num_rows(); ++row) {
        at = std::max(at, rows.offsets[row]);
        for (; at < rows.offsets[row + 1]; ++at) {
          if (outbox.full()) return true;
          const uint64_t source = graph.sources()[at];
          const uint64_t target = rows.first_node + row;
          if (source != target) outbox.Add(graph.blocks().owner(source), make(source, target));
        }
      }
    }
    return false;
  };
  ExchangeInRounds<Item>(ranks, fill, [&take](uint32_t, absl::Span<const Item> items) {
    for (const Item& item : items) take(item);
  });
}

// Sorts each row and joins equal neighbours; whether any were joined.
bool SortRows(SymmetricShare& share, std::vector<uint64_t>& unique_of_row) {
  bool joined = false;
  for (uint64_t row = 0; row < share.num_own(); ++row) {
    const auto begin = share.neighbours.begin() + share.offsets[row];
    const auto end = share.neighbours.begin() + share.offsets[row + 1];
    std::sort(begin, end);
    uint64_t unique = 0;
    for (auto at = begin; at != end; ++at) unique += at == begin || *at != *(at - 1) ? 1 : 0;
    unique_of_row[row] = unique;
    joined = joined || unique != static_cast<uint64_t>(end - begin);
  }
  return joined;
}

void JoinEqual(SymmetricShare& share, const std::vector<uint64_t>& unique_of_row) {
  uint64_t total = 0;
  for (const uint64_t unique : unique_of_row) total += unique;
  share.weights.resize(total);
  int64_t to = 0;
  int64_t from = 0;
  for (uint64_t row = 0; row < share.num_own(); ++row) {
    const int64_t begin = to;
    for (; from < share.offsets[row + 1]; ++from) {
      const int64_t neighbour = share.neighbours[static_cast<size_t>(from)];
      if (to > begin && share.neighbours[static_cast<size_t>(to - 1)] == neighbour) {
        ++share.weights[static_cast<size_t>(to - 1)];
        continue;
      }
      share.neighbours[static_cast<size_t>(to)] = neighbour;
      share.weights[static_cast<size_t>(to++)] = 1;
    }
    share.offsets[row] = begin;
  }
  share.offsets.back() = to;
  share.neighbours.resize(total);
}

}  // namespace

SymmetricShare Symmetrize(Ranks& ranks, const GraphShare& graph) {
  SymmetricShare share;
  share.offsets.assign(graph.num_own() + 1, 0);
  const uint64_t first = graph.first_node();
  graph.ForEachEdge([&](uint64_t target, uint64_t at) {
    if (graph.sources()[at] != target) ++share.offsets[target - first + 1];
  });
  TellSources<uint64_t>(
      ranks, graph, [](uint64_t source, uint64_t) { return source; },
      [&](uint64_t source) { ++share.offsets[source - first + 1]; });
  for (size_t row = 1; row < share.offsets.size(); ++row) {
    share.offsets[row] += share.offsets[row - 1];
  }
  share.neighbours.resize(static_cast<size_t>(share.offsets.back()));
  std::vector<int64_t> next(share.offsets.begin(), share.offsets.end() - 1);
  const auto put = [&](uint64_t own, uint64_t other) {
    share.neighbours[static_cast<size_t>(next[own - first]++)] = static_cast<int64_t>(other);
  };
  graph.ForEachEdge([&](uint64_t target, uint64_t at) {
    if (graph.sources()[at] != target) put(target, graph.sources()[at]);
  });
  TellSources<OutEdge>(
      ranks, graph,
      [](uint64_t source, uint64_t target) {
        return OutEdge{source, target};
      },
      [&put](const OutEdge& edge) { put(edge.source, edge.target); });
  next = {};
  std::vector<uint64_t> unique_of_row(share.num_own());
  if (AnyRank(ranks, SortRows(share, unique_of_row))) JoinEqual(share, unique_of_row);
  share.total_entries = SumOfRanks(ranks, share.neighbours.size());
  return share;
}

}  // namespace packhouse
