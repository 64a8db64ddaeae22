// Moves of single nodes between parts, by all ranks at once: to keep every constraint, to lower the
// cut, and to fill empty parts.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARE_REFINER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARE_REFINER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition_mpi/shares/ghost_nodes.h"
#include "service/wings/partition_mpi/shares/node_needs.h"
#include "service/wings/partition_mpi/shares/symmetric_share.h"

namespace packhouse {

// What parts cut, and what each holds; the same on all ranks.
struct PartFigures {
  uint64_t cut_edges = 0;  // Self loops are none; edges that join a pair again count again.
  uint64_t volume = 0;     // The sum over nodes of the number of other parts among neighbours.
  std::vector<uint64_t> nodes_of_part;
  std::vector<uint64_t> edges_of_part;  // By their target's part.
};

// Works in rounds. In a round each rank moves own nodes by what it knew at its start, and within
// its share of the room that each part has left, so that no limit is exceeded by moves of several
// ranks. Afterwards the ranks tell each other. The result depends on the graph, the parts and the
// number of ranks only.
class ShareRefiner {
 public:
  // `graph` becomes the refiner's: its neighbours are replaced by their places. Constraints with a
  // reason in `dropped` are not looked at; if none is left, numbers of nodes are kept even. `part`
  // is that of own nodes. Everything else must outlive it. 12 bytes a node and ghost, and 8 for
  // each part and constraint.
  ShareRefiner(Ranks* ranks, const Blocks& blocks, SymmetricShare graph, const NodeNeeds* needs,
               absl::Span<const std::string> dropped, uint32_t num_parts, double imbalance,
               std::vector<uint32_t> part);

  // Until every limit is kept, or nothing helps. Whether they are. A heuristic: it may fail where a
  // solution exists.
  bool RepairBalance();
  // Lowers the cut; limits that are kept stay so.
  void LowerCut();
  // Gives each part without nodes one, if there are as many nodes as parts.
  void FillEmptyParts();

  // Of own nodes.
  std::vector<uint32_t> Parts() const {
    return {part_.begin(), part_.begin() + static_cast<ptrdiff_t>(ghosts_.num_own())};
  }
  uint64_t Cut() const;
  // `in_degrees` of own nodes. Parts are joined first, `group` to one: trainers to machines.
  PartFigures Measure(absl::Span<const uint64_t> in_degrees, uint32_t group) const;

 private:
  struct Limit {
    size_t constraint;  // Of needs; kNodes counts nodes.
    uint64_t most;
  };
  static constexpr size_t kNodes = SIZE_MAX;

  // What a node weighs under a limit, more than 0.
  struct Burden {
    size_t limit;
    uint64_t weight;
  };
  struct Burdens {
    std::array<Burden, 2> items;
    size_t count = 0;

    const Burden* begin() const { return items.data(); }
    const Burden* end() const { return items.data() + count; }
  };
  Burdens BurdensOf(uint64_t own) const;
  uint64_t& Load(size_t limit, uint32_t part) { return load_[limit * num_parts_ + part]; }
  uint64_t Load(size_t limit, uint32_t part) const { return load_[limit * num_parts_ + part]; }
  uint64_t& Room(size_t limit, uint32_t part) { return room_[limit * num_parts_ + part]; }

  void CountLoads();
  // This rank's share of the room of each part, for one round. In some rounds one rank has all of
  // it, so that a node that is heavier than a share can move.
  void DealRoom(uint32_t round);
  bool HasRoom(const Burdens& burdens, uint32_t part) const;
  void Move(uint64_t own, uint32_t to);
  // The weight of own node's edges to each part, in connection_, for the parts in touched_.
  void Connect(uint64_t own);
  // The connected part with room that has most of the node's edges; by how much the cut would fall.
  std::optional<uint32_t> BestTarget(uint64_t own, const Burdens& burdens, int64_t& gain);
  // How far all limits are exceeded together, each as a share of itself.
  double Excess() const;
  // By single nodes, where their target has room for them in every respect.
  void MoveOutOfFullParts(std::vector<uint64_t>& wanted);
  // Where numbers of nodes are too large and no part has room for their edges too: those with
  // fewest edges go all the same, and pairs mend the rest.
  void MoveLightNodesOut(std::vector<uint64_t>& wanted);
  // By pairs of nodes of one class, whose numbers stay so: one with many edges leaves, one with
  // fewer comes.
  void SwapOutOfFullParts(std::vector<uint64_t>& wanted);
  void SwapOfClass(size_t limit, std::vector<uint64_t>& wanted);
  // What this rank has to move out of each part, by limit: its share of what is too much.
  std::vector<uint64_t> WantedOut() const;
  void LowerCutOnce(bool upwards);
  // Tells the other ranks what was moved.
  void EndRound();
  // Parts that are least used by what a node bears, fullest last.
  std::vector<std::vector<uint32_t>> EmptiestParts() const;

  Ranks* const ranks_;
  SymmetricShare graph_;
  const NodeNeeds* const needs_;
  const uint32_t num_parts_;
  const GhostNodes ghosts_;
  std::vector<uint32_t> part_;  // By place.
  std::vector<Limit> limits_;
  std::vector<size_t> limit_of_constraint_;  // kNodes if it is not looked at.
  std::vector<uint64_t> load_;               // Of all ranks, by limit and part.
  std::vector<uint64_t> delta_;  // What this rank has changed in this round; wraps around.
  std::vector<uint64_t> room_;   // Of this rank, in this round.
  std::vector<uint64_t> connection_;
  std::vector<uint32_t> touched_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_SHARE_REFINER_H_
