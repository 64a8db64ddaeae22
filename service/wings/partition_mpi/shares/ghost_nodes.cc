#include "service/wings/partition_mpi/shares/ghost_nodes.h"

#include <utility>

namespace packhouse {

GhostNodes::GhostNodes(Ranks& ranks, const Blocks& blocks, std::vector<uint64_t> ids)
    : first_own_(blocks.begin(ranks.rank())),
      num_own_(blocks.size(ranks.rank())),
      ids_(std::move(ids)),
      num_ghosts_(ranks.size()) {
  for (const uint64_t id : ids_) ++num_ghosts_[blocks.owner(id)];
  num_told_ = ranks.ExchangeCounts(num_ghosts_);
  uint64_t total = 0;
  std::vector<uint64_t> in_bytes;
  for (const uint64_t count : num_told_) {
    total += count;
    in_bytes.push_back(count * sizeof(uint64_t));
  }
  // Owners have ascending blocks, so that the ids for each rank lie together.
  std::vector<absl::string_view> out;
  size_t at = 0;
  for (const uint64_t count : num_ghosts_) {
    out.emplace_back(reinterpret_cast<const char*>(ids_.data() + at), count * sizeof(uint64_t));
    at += count;
  }
  told_.resize(total);
  ranks.ExchangeBytes(out, reinterpret_cast<char*>(told_.data()), in_bytes);
  for (uint64_t& id : told_) id -= first_own_;
}

std::vector<uint64_t> RemoteOnes(const Blocks& blocks, uint32_t rank,
                                 absl::Span<const uint64_t> ids) {
  // Made unique whenever it has doubled, so that many mentions of few nodes need little memory.
  constexpr size_t kFirstCleaning = 1 << 16;
  std::vector<uint64_t> remote;
  size_t next_cleaning = kFirstCleaning;
  const auto clean = [&] {
    std::sort(remote.begin(), remote.end());
    remote.erase(std::unique(remote.begin(), remote.end()), remote.end());
    next_cleaning = std::max(kFirstCleaning, 2 * remote.size());
  };
  for (const uint64_t id : ids) {
    if (id - blocks.begin(rank) < blocks.size(rank)) continue;
    remote.push_back(id);
    if (remote.size() >= next_cleaning) clean();
  }
  clean();
  remote.shrink_to_fit();
  return remote;
}

}  // namespace packhouse
