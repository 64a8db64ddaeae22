#include "service/wings/partition_mpi/shares/part_gatherer.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace packhouse {

// A part on its way.
struct PartGatherer::Assembly {
  std::optional<uint32_t> number;
  IdRange inner;
  GatheredPart part;
  // By rank: the part's nodes there.
  std::vector<std::vector<WireNode>> nodes;
  std::vector<HaloNode> halo;   // Ascending, each once, up to the last cleaning.
  std::vector<HaloNode> level;  // Halo nodes whose in-edges may be asked for.
  std::vector<WireEdge> edges;  // Of the halo; some may be there twice.

  bool IsInner(uint64_t node) const { return node - inner.begin < inner.size(); }
};

PartGatherer::PartGatherer(Ranks* ranks, const SharedIds* ids, absl::Span<const uint32_t> part,
                           absl::Span<const uint32_t> trainers, uint32_t num_hops, HaloKind halo)
    : ranks_(ranks),
      ids_(ids),
      trainers_(trainers),
      num_hops_(num_hops),
      halo_(halo),
      first_own_(ids->num_parts() + size_t{1}),
      own_by_part_(part.size()),
      first_cut_(ids->num_parts() + size_t{1}) {
  const auto sum = [](std::vector<uint64_t>& counts) {
    for (size_t p = 1; p < counts.size(); ++p) counts[p] += counts[p - 1];
  };
  for (const uint32_t p : part) ++first_own_[p + 1];
  sum(first_own_);
  std::vector<uint64_t> next(first_own_.begin(), first_own_.end() - 1);
  for (uint64_t own = 0; own < part.size(); ++own) own_by_part_[next[part[own]]++] = own;
  if (halo != HaloKind::kPartitionGraph || ids->num_parts() == 1) return;
  // Twice: to count, and to put.
  const GraphShare& graph = ids->graph();
  const auto visit_cut = [&](const auto& take) {
    graph.ForEachEdge([&](uint64_t target, uint64_t place) {
      const uint32_t of_source = ids->OwnerOfNode(ids->new_node(graph.sources()[place]));
      if (of_source != part[target - graph.first_node()]) take(of_source, place);
    });
  };
  visit_cut([this](uint32_t p, uint64_t) { ++first_cut_[p + 1]; });
  sum(first_cut_);
  cut_by_part_.resize(first_cut_.back());
  next.assign(first_cut_.begin(), first_cut_.end() - 1);
  visit_cut([&](uint32_t p, uint64_t place) { cut_by_part_[next[p]++] = place; });
}

PartGatherer::Wave PartGatherer::AgreeOnWave(std::optional<uint32_t> wanted) const {
  // 0: none.
  const std::vector<uint64_t> told(ranks_->size(), wanted ? uint64_t{*wanted} + 1 : 0);
  Wave wave;
  for (const uint64_t part : ranks_->ExchangeCounts(told)) {
    wave.part_of_rank.push_back(part == 0 ? std::nullopt
                                          : std::optional(static_cast<uint32_t>(part - 1)));
  }
  return wave;
}

PartGatherer::WireEdge PartGatherer::EdgeAt(size_t type, uint64_t row, uint64_t place) const {
  const GraphShare& graph = ids_->graph();
  const uint64_t target = graph.rows()[type].first_node + row;
  const uint64_t source = graph.sources()[place];
  return {ids_->NewEdge(type, row, place),
          graph.edges()[place],
          ids_->new_node(source),
          ids_->ghosts().IdOf(source),
          ids_->new_node(target - graph.first_node()),
          target};
}

void PartGatherer::SendNodes(const Wave& wave, Assembly& assembly) {
  uint32_t rank = 0;
  size_t at = 0;
  const auto fill = [&](MessagesToRanks<WireNode>& outbox) {
    for (; rank < wave.part_of_rank.size(); ++rank, at = 0) {
      if (!wave.part_of_rank[rank]) continue;
      const absl::Span<const uint64_t> own = OwnNodes(*wave.part_of_rank[rank]);
      for (; at < own.size(); ++at) {
        if (outbox.full()) return true;
        outbox.Add(rank, {ids_->graph().first_node() + own[at],
                          trainers_.empty() ? 0 : trainers_[own[at]]});
      }
    }
    return false;
  };
  assembly.nodes.resize(ranks_->size());
  ExchangeInRounds<WireNode>(*ranks_, fill, [&](uint32_t from, absl::Span<const WireNode> items) {
    assembly.nodes[from].insert(assembly.nodes[from].end(), items.begin(), items.end());
  });
  // Blocks ascend with the ranks, and new ids of a part with the original ones.
  for (std::vector<WireNode>& nodes : assembly.nodes) {
    for (const WireNode& node : nodes) {
      assembly.part.original_nodes.push_back(node.original);
      if (!trainers_.empty()) {
        assembly.part.trainers.push_back(static_cast<uint32_t>(node.trainer));
      }
    }
    nodes = {};
  }
}

void PartGatherer::SendInnerEdges(const Wave& wave, Assembly& assembly) {
  const GraphShare& graph = ids_->graph();
  uint32_t rank = 0;
  size_t at = 0;
  size_t type = 0;
  uint64_t place = 0;
  const auto fill = [&](MessagesToRanks<WireEdge>& outbox) {
    for (; rank < wave.part_of_rank.size(); ++rank, at = 0) {
      if (!wave.part_of_rank[rank]) continue;
      const absl::Span<const uint64_t> own = OwnNodes(*wave.part_of_rank[rank]);
      for (; at < own.size(); ++at, type = 0) {
        const uint64_t node = graph.first_node() + own[at];
        for (; type < graph.rows().size(); ++type, place = 0) {
          const GraphShare::TypeRows& rows = graph.rows()[type];
          const uint64_t row = node - rows.first_node;
          if (row >= rows.num_rows()) continue;
          place = std::max(place, rows.offsets[row]);
          for (; place < rows.offsets[row + 1]; ++place) {
            if (outbox.full()) return true;
            outbox.Add(rank, EdgeAt(type, row, place));
          }
        }
      }
    }
    return false;
  };
  GatheredPart& part = assembly.part;
  const uint64_t first = assembly.number ? ids_->EdgesOfPart(*assembly.number).begin : 0;
  std::vector<HaloNode>& halo = assembly.halo;
  size_t next_cleaning = 1 << 16;
  const auto clean = [&] {
    std::sort(halo.begin(), halo.end());
    halo.erase(std::unique(halo.begin(), halo.end()), halo.end());
    next_cleaning = std::max(next_cleaning, 2 * halo.size());
  };
  ExchangeInRounds<WireEdge>(*ranks_, fill, [&](uint32_t, absl::Span<const WireEdge> items) {
    for (const WireEdge& edge : items) {
      const uint64_t local = edge.id - first;
      part.original_edges[local] = edge.original;
      part.sources[local] = edge.source;
      part.targets[local] = edge.target - assembly.inner.begin;
      if (!assembly.IsInner(edge.source)) halo.push_back({edge.source, edge.original_source});
    }
    if (halo.size() >= next_cleaning) clean();
  });
  clean();
  assembly.level = halo;
}

void PartGatherer::SendOutEdges(const Wave& wave, Assembly& assembly) {
  const GraphShare& graph = ids_->graph();
  uint32_t rank = 0;
  size_t at = 0;
  const auto edge_at = [&](uint64_t place) {
    size_t type = 0;
    while (place >= graph.rows()[type].offsets.back()) ++type;
    const std::vector<uint64_t>& offsets = graph.rows()[type].offsets;
    const auto after = std::upper_bound(offsets.begin(), offsets.end(), place);
    return EdgeAt(type, static_cast<uint64_t>(after - offsets.begin()) - 1, place);
  };
  const auto fill = [&](MessagesToRanks<WireEdge>& outbox) {
    for (; rank < wave.part_of_rank.size(); ++rank, at = 0) {
      if (!wave.part_of_rank[rank]) continue;
      const uint32_t p = *wave.part_of_rank[rank];
      for (; first_cut_[p] + at < first_cut_[p + 1]; ++at) {
        if (outbox.full()) return true;
        outbox.Add(rank, edge_at(cut_by_part_[first_cut_[p] + at]));
      }
    }
    return false;
  };
  ExchangeInRounds<WireEdge>(*ranks_, fill, [&](uint32_t, absl::Span<const WireEdge> items) {
    for (const WireEdge& edge : items) {
      assembly.edges.push_back(edge);
      assembly.halo.push_back({edge.target, edge.original_target});
    }
  });
}

void PartGatherer::Expand(Assembly& assembly) {
  const GraphShare& graph = ids_->graph();
  // Who asks for which nodes.
  std::vector<std::vector<uint64_t>> asked(ranks_->size());
  size_t next = 0;
  ExchangeInRounds<uint64_t>(
      *ranks_,
      [&](MessagesToRanks<uint64_t>& outbox) {
        for (; next < assembly.level.size(); ++next) {
          if (outbox.full()) return true;
          const uint64_t original = assembly.level[next].original;
          outbox.Add(graph.blocks().owner(original), original);
        }
        return false;
      },
      [&](uint32_t from, absl::Span<const uint64_t> items) {
        asked[from].insert(asked[from].end(), items.begin(), items.end());
      });
  uint32_t rank = 0;
  size_t at = 0;
  size_t type = 0;
  uint64_t place = 0;
  const auto fill = [&](MessagesToRanks<WireEdge>& outbox) {
    for (; rank < asked.size(); ++rank, at = 0) {
      for (; at < asked[rank].size(); ++at, type = 0) {
        for (; type < graph.rows().size(); ++type, place = 0) {
          const GraphShare::TypeRows& rows = graph.rows()[type];
          const uint64_t row = asked[rank][at] - rows.first_node;
          if (row >= rows.num_rows()) continue;
          place = std::max(place, rows.offsets[row]);
          for (; place < rows.offsets[row + 1]; ++place) {
            if (outbox.full()) return true;
            outbox.Add(rank, EdgeAt(type, row, place));
          }
        }
      }
    }
    return false;
  };
  std::vector<HaloNode> sources;
  ExchangeInRounds<WireEdge>(*ranks_, fill, [&](uint32_t, absl::Span<const WireEdge> items) {
    for (const WireEdge& edge : items) {
      assembly.edges.push_back(edge);
      if (!assembly.IsInner(edge.source)) sources.push_back({edge.source, edge.original_source});
    }
  });
  std::sort(sources.begin(), sources.end());
  sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
  std::vector<HaloNode>& halo = assembly.halo;
  assembly.level.clear();
  std::set_difference(sources.begin(), sources.end(), halo.begin(), halo.end(),
                      std::back_inserter(assembly.level));
  std::vector<HaloNode> both;
  std::merge(halo.begin(), halo.end(), assembly.level.begin(), assembly.level.end(),
             std::back_inserter(both));
  halo = std::move(both);
}

GatheredPart PartGatherer::Finish(Assembly assembly) const {
  GatheredPart part = std::move(assembly.part);
  const IdRange inner = assembly.inner;
  std::vector<HaloNode>& halo = assembly.halo;
  std::sort(halo.begin(), halo.end());
  halo.erase(std::unique(halo.begin(), halo.end()), halo.end());
  part.nodes.reserve(inner.size() + halo.size());
  for (uint64_t node = inner.begin; node < inner.end; ++node) part.nodes.push_back(node);
  for (const HaloNode& node : halo) {
    part.nodes.push_back(node.id);
    part.original_nodes.push_back(node.original);
  }
  const auto local = [&](uint64_t node) {
    if (node - inner.begin < inner.size()) return node - inner.begin;
    const auto found = std::lower_bound(halo.begin(), halo.end(), HaloNode{node, 0});
    return inner.size() + static_cast<uint64_t>(found - halo.begin());
  };
  for (uint64_t& source : part.sources) source = local(source);
  std::vector<WireEdge>& edges = assembly.edges;
  std::sort(edges.begin(), edges.end(),
            [](const WireEdge& a, const WireEdge& b) { return a.id < b.id; });
  edges.erase(std::unique(edges.begin(), edges.end(),
                          [](const WireEdge& a, const WireEdge& b) { return a.id == b.id; }),
              edges.end());
  for (const WireEdge& edge : edges) {
    part.edges.push_back(edge.id);
    part.original_edges.push_back(edge.original);
    part.sources.push_back(local(edge.source));
    part.targets.push_back(local(edge.target));
  }
  return part;
}

std::optional<GatheredPart> PartGatherer::Gather(std::optional<uint32_t> wanted) {
  const Wave wave = AgreeOnWave(wanted);
  Assembly assembly;
  assembly.number = wanted;
  if (wanted) {
    GatheredPart& part = assembly.part;
    part.number = *wanted;
    assembly.inner = ids_->NodesOfPart(*wanted);
    const IdRange edges = ids_->EdgesOfPart(*wanted);
    part.num_inner_nodes = assembly.inner.size();
    part.num_inner_edges = edges.size();
    part.edges.resize(edges.size());
    for (uint64_t i = 0; i < edges.size(); ++i) part.edges[i] = edges.begin + i;
    part.original_edges.resize(edges.size());
    part.sources.resize(edges.size());
    part.targets.resize(edges.size());
  }
  SendNodes(wave, assembly);
  SendInnerEdges(wave, assembly);
  if (ids_->num_parts() > 1) {
    for (uint32_t hop = 1; hop < num_hops_; ++hop) Expand(assembly);
    if (halo_ == HaloKind::kPartitionGraph) SendOutEdges(wave, assembly);
  }
  if (!wanted) return std::nullopt;
  return Finish(std::move(assembly));
}

}  // namespace packhouse
