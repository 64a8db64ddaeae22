// Brings each part together on one rank: several parts at a time, one a rank.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_PART_GATHERER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_PART_GATHERER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/cutting/partition_options.h"
#include "service/wings/partition_mpi/shares/shared_ids.h"

namespace packhouse {

// As Part, with ids of 64 bits.
struct GatheredPart {
  uint32_t number = 0;
  uint64_t num_inner_nodes = 0;
  uint64_t num_inner_edges = 0;
  // Of local nodes: new and original homogeneous ids.
  std::vector<uint64_t> nodes;
  std::vector<uint64_t> original_nodes;
  // Of inner nodes; empty unless the gatherer has trainers.
  std::vector<uint32_t> trainers;
  // Of local edges: new and original homogeneous ids, and local ids of their ends.
  std::vector<uint64_t> edges;
  std::vector<uint64_t> original_edges;
  std::vector<uint64_t> sources;
  std::vector<uint64_t> targets;
};

// Thread-compatible.
class PartGatherer {
 public:
  // `part` is of own nodes; `trainers` too, or is empty. All must outlive it. 8 bytes a node and
  // for each edge from another part. `num_hops` is 1 with HaloKind::kInEdges.
  PartGatherer(Ranks* ranks, const SharedIds* ids, absl::Span<const uint32_t> part,
               absl::Span<const uint32_t> trainers, uint32_t num_hops, HaloKind halo);

  // All ranks call it together, each with a part of its own or none; the part that was asked for.
  // It is what PartCutter cuts, for the same graph and parts. Memory: 40 bytes for each edge and 16
  // for each node of the part, and as much for its halo again meanwhile.
  std::optional<GatheredPart> Gather(std::optional<uint32_t> wanted);

  // Own nodes of a part, ascending.
  absl::Span<const uint64_t> OwnNodes(uint32_t part) const {
    return absl::MakeConstSpan(own_by_part_)
        .subspan(first_own_[part], first_own_[part + 1] - first_own_[part]);
  }
  // The rank that gathers each part in the wave that is under way, and the part of each rank.
  struct Wave {
    std::vector<std::optional<uint32_t>> part_of_rank;
  };
  Wave AgreeOnWave(std::optional<uint32_t> wanted) const;

 private:
  struct WireNode {
    uint64_t original;
    uint64_t trainer;
  };
  struct WireEdge {
    uint64_t id;  // New, as those of the ends.
    uint64_t original;
    uint64_t source;
    uint64_t original_source;
    uint64_t target;
    uint64_t original_target;
  };
  struct HaloNode {
    uint64_t id;
    uint64_t original;

    friend bool operator<(const HaloNode& a, const HaloNode& b) { return a.id < b.id; }
    friend bool operator==(const HaloNode& a, const HaloNode& b) { return a.id == b.id; }
  };
  struct Assembly;

  WireEdge EdgeAt(size_t type, uint64_t row, uint64_t place) const;
  void SendNodes(const Wave& wave, Assembly& assembly);
  void SendInnerEdges(const Wave& wave, Assembly& assembly);
  void SendOutEdges(const Wave& wave, Assembly& assembly);
  // The in-edges of the halo nodes that were met last; then those are the new ones.
  void Expand(Assembly& assembly);
  GatheredPart Finish(Assembly assembly) const;

  Ranks* const ranks_;
  const SharedIds* const ids_;
  const absl::Span<const uint32_t> trainers_;
  const uint32_t num_hops_;
  const HaloKind halo_;
  std::vector<uint64_t> first_own_;  // By part + 1; in own_by_part_.
  std::vector<uint64_t> own_by_part_;
  // Places of own edges whose source is in another part, by the source's part.
  std::vector<uint64_t> first_cut_;
  std::vector<uint64_t> cut_by_part_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_PART_GATHERER_H_
