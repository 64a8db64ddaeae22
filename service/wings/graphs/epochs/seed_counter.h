// Which time it is that a seed, or a link, comes in a list: each time is a draw of its own.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SEED_COUNTER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SEED_COUNTER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"

namespace packhouse {

// Counts over all its calls. Thread-compatible.
class SeedCounter {
 public:
  // Seeds are `per_row` numbers of nodes each: 1, or 2 for links. Nodes are below `num_nodes`.
  SeedCounter(uint64_t num_nodes, size_t per_row);

  // Of each seed how often it came before; empty if none of them did. O(seeds) expected.
  std::vector<uint32_t> Count(absl::Span<const uint32_t> nodes);

  // A bit a node, and some 20 bytes for each different seed that came twice; for links, for each
  // different one.
  uint64_t num_bytes() const;

 private:
  // How often `row` came before.
  uint32_t CountRow(absl::Span<const uint32_t> row);

  const size_t per_row_;
  std::vector<uint64_t> seen_;  // Bits, by node; not for links.
  // How often a seed came. Nodes that came once are in seen_ alone.
  absl::flat_hash_map<uint64_t, uint32_t> counts_;
};

// The same of one list, for which most lists need no more than a bit a node or 8 bytes a link.
std::vector<uint32_t> SeedOccurrences(absl::Span<const uint32_t> nodes, uint64_t num_nodes,
                                      size_t per_row);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SEED_COUNTER_H_
