// Nodes of other ranks about which a rank must know something.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_GHOST_NODES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_GHOST_NODES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition_mpi/shares/ranks.h"

namespace packhouse {

// Own nodes have the places 0, 1, ...; then come the ghosts, ascending by id. 8 bytes a ghost here,
// and 8 where it is owned.
class GhostNodes {
 public:
  // `ids` names nodes of other ranks, ascending, each once.
  GhostNodes(Ranks& ranks, const Blocks& blocks, std::vector<uint64_t> ids);

  uint64_t num_own() const { return num_own_; }
  uint64_t num_places() const { return num_own_ + ids_.size(); }
  // Of an own node or a ghost. O(log ghosts).
  uint64_t PlaceOf(uint64_t id) const {
    if (id - first_own_ < num_own_) return id - first_own_;
    return num_own_ +
           static_cast<uint64_t>(std::lower_bound(ids_.begin(), ids_.end(), id) - ids_.begin());
  }
  uint64_t IdOf(uint64_t place) const {
    return place < num_own_ ? first_own_ + place : ids_[place - num_own_];
  }
  bool IsOwn(uint64_t place) const { return place < num_own_; }

  // values[place]: gives the ghosts what their owners have.
  template <typename Value>
  void Refresh(Ranks& ranks, absl::Span<Value> values) const {
    std::vector<Value> told(told_.size());
    for (size_t i = 0; i < told_.size(); ++i) told[i] = values[told_[i]];
    std::vector<absl::string_view> out;
    std::vector<uint64_t> in_bytes;
    size_t at = 0;
    for (uint32_t r = 0; r < ranks.size(); ++r) {
      out.emplace_back(reinterpret_cast<const char*>(told.data() + at),
                       num_told_[r] * sizeof(Value));
      at += num_told_[r];
      in_bytes.push_back(num_ghosts_[r] * sizeof(Value));
    }
    ranks.ExchangeBytes(out, reinterpret_cast<char*>(values.data() + num_own_), in_bytes);
  }

 private:
  uint64_t first_own_;
  uint64_t num_own_;
  std::vector<uint64_t> ids_;
  std::vector<uint64_t> num_ghosts_;  // By owner.
  std::vector<uint64_t> told_;        // Places of own nodes, for each rank in order.
  std::vector<uint64_t> num_told_;    // By rank.
};

// Ascending, each once, without the own ones.
std::vector<uint64_t> RemoteOnes(const Blocks& blocks, uint32_t rank,
                                 absl::Span<const uint64_t> ids);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_SHARES_GHOST_NODES_H_
