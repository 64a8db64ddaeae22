#include "service/wings/partition/epochs/part_links.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kPartLinks = "the edges between parts";

// Sorts from `begin` on, and adds up links of the same parts and edge sets.
void AddUp(std::vector<PartLink>& links, size_t begin) {
  std::sort(links.begin() + static_cast<ptrdiff_t>(begin), links.end(),
            [](const PartLink& a, const PartLink& b) {
              return std::tie(a.other, a.edge_set) < std::tie(b.other, b.edge_set);
            });
  size_t end = begin;
  for (size_t i = begin; i < links.size(); ++i) {
    if (end > begin && links[end - 1].other == links[i].other &&
        links[end - 1].edge_set == links[i].edge_set) {
      links[end - 1].edges += links[i].edges;
    } else {
      links[end++] = links[i];
    }
  }
  links.resize(end);
}

}  // namespace

uint64_t PartLinks::bytes() const {
  uint64_t bytes = sizeof(uint64_t) * starts_.capacity() + sizeof(PartLink) * links_.capacity();
  for (const auto& parts : part_of_) bytes += sizeof(uint32_t) * parts.capacity();
  return bytes;
}

absl::Status PartLinks::ReadNodes(const DatasetReader& reader, const PartsSchema& schema,
                                  const Making& making) {
  const size_t l = reader.info().schema->num_components();
  for (const PartsSchema::NodeSet& set : schema.node_sets()) {
    uint64_t num_nodes = 0;
    for (size_t p = 0; p < reader.num_graphs(); ++p) {
      num_nodes += reader.counts()[p * l + set.component];
    }
    PH_RETURN_IF_ERROR(making.Grow(kPartLinks, sizeof(uint32_t) * num_nodes, memory_));
    std::vector<uint32_t>& parts = part_of_.emplace_back(num_nodes, kNone);
    for (size_t p = 0; p < reader.num_graphs(); ++p) {
      PH_RETURN_IF_ERROR(making.StillWantedAt(p));
      PH_ASSIGN_OR_RETURN(const StoredGraph graph, reader.Graph(p));
      const absl::string_view rows = graph.chunk->rows(graph.index, set.number);
      int64_t before = -1;
      for (size_t i = 0; i < rows.size() / sizeof(int64_t); ++i) {
        const int64_t number = NumberAt(rows, i);
        if (number <= before || static_cast<uint64_t>(number) >= num_nodes ||
            parts[static_cast<size_t>(number)] != kNone) {
          return absl::FailedPreconditionError(
              absl::StrCat("join_parts: not a data set of parts: graph ", p, " has ",
                           Quoted(reader.info().schema->tensors()[set.number].name), " ", number));
        }
        parts[static_cast<size_t>(number)] = static_cast<uint32_t>(p);
        before = number;
      }
    }
  }
  return absl::OkStatus();
}

absl::Status PartLinks::ReadCutEdges(const DatasetReader& reader, const PartsSchema& schema,
                                     const Making& making) {
  // By the part where they end.
  std::vector<PartLink> into;
  std::vector<uint64_t> into_starts = {0};
  const size_t n = reader.num_graphs();
  PH_RETURN_IF_ERROR(making.Grow(kPartLinks, 2 * sizeof(uint64_t) * (n + 1), memory_));
  for (size_t p = 0; p < n; ++p) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(p));
    PH_ASSIGN_OR_RETURN(const StoredGraph graph, reader.Graph(p));
    const size_t begin = into.size();
    for (size_t e = 0; e < schema.edge_sets().size(); ++e) {
      const PartsSchema::EdgeSet& edges = schema.edge_sets()[e];
      const absl::string_view rows = graph.chunk->rows(graph.index, edges.cut_source);
      const size_t count = rows.size() / sizeof(uint32_t);
      // Each is there once more for its other end, and vectors may have twice the room.
      PH_RETURN_IF_ERROR(making.Grow(kPartLinks, 3 * sizeof(PartLink) * count, memory_));
      for (size_t i = 0; i < count; ++i) {
        const uint32_t other = PartOf(edges.source_set, SourceAt(rows, i));
        if (other == kNone || other == p) continue;
        into.push_back({other, static_cast<uint32_t>(e), 1});
      }
    }
    AddUp(into, begin);
    into_starts.push_back(into.size());
  }
  // Both directions: how many each part gets, and then each at its place.
  starts_.assign(n + 1, 0);
  for (size_t p = 0; p < n; ++p) {
    starts_[p + 1] += into_starts[p + 1] - into_starts[p];
    for (uint64_t i = into_starts[p]; i < into_starts[p + 1]; ++i) ++starts_[into[i].other + 1];
  }
  for (size_t p = 0; p < n; ++p) starts_[p + 1] += starts_[p];
  links_.resize(starts_[n]);
  std::vector<uint64_t> next(starts_.begin(), starts_.end() - 1);
  for (size_t p = 0; p < n; ++p) {
    for (uint64_t i = into_starts[p]; i < into_starts[p + 1]; ++i) {
      links_[next[p]++] = into[i];
      links_[next[into[i].other]++] = {static_cast<uint32_t>(p), into[i].edge_set, into[i].edges};
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<PartLinks> PartLinks::Read(const DatasetReader& reader, const PartsSchema& schema,
                                          const Making& making) {
  PartLinks links;
  PH_ASSIGN_OR_RETURN(links.memory_, making.Hold(kPartLinks, 4096));
  PH_RETURN_IF_ERROR(links.ReadNodes(reader, schema, making));
  PH_RETURN_IF_ERROR(links.ReadCutEdges(reader, schema, making));
  // The room of what was read meanwhile.
  links.memory_.ShrinkTo(std::min(links.memory_.bytes(), links.bytes()));
  return links;
}

}  // namespace packhouse
