// Links that are not there, beside those that are: for training on links.
#ifndef PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_NEGATIVE_LINKS_H_
#define PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_NEGATIVE_LINKS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace packhouse::client {

// Numbers of the source and of the target.
using Link = std::pair<uint64_t, uint64_t>;

struct NegativeLinkOptions {
  // Negative links for each link, from 0 to kMostNegatives. With `keep_sources` a whole number.
  double amount = 1;
  // Whether a negative link has the source of the link that it is drawn for (PyG's "triplet").
  // Otherwise both of its ends are drawn ("binary"), and there are ceil(links * amount).
  bool keep_sources = false;
  uint64_t seed = 0;
  // The nodes that ends are drawn from, all alike: [0, num_sources) and [0, num_targets).
  uint64_t num_sources = 0;
  uint64_t num_targets = 0;
  // Links that a negative one must not be. Otherwise it may be there by chance, as with PyG.
  std::vector<Link> avoid;
};

inline constexpr double kMostNegatives = 1e6;

struct NegativeLink {
  Link link;
  // The place in `links` of the one whose time it has: with `keep_sources` the one that it was
  // drawn for, otherwise one after the other, again and again.
  uint64_t beside = 0;
};

// Decided by the arguments alone, on every machine; not the links that Python's `negative_links`
// draws with the same seed.
//
// Errors: INVALID_ARGUMENT for an amount out of its range, naming it; without nodes to draw from;
// or if after 100 draws some are still among those to avoid, naming one. Cost: O((links * amount +
// avoid) * log avoid) time; thread-safe.
absl::StatusOr<std::vector<NegativeLink>> DrawNegativeLinks(const std::vector<Link>& links,
                                                            const NegativeLinkOptions& options);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_SOURCE_GRAPHS_NEGATIVE_LINKS_H_
