#include "client/cli/source_graphs/negative_links.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "service/base/seeded_random.h"

namespace packhouse::client {
namespace {

constexpr int kMostDraws = 100;

}  // namespace

absl::StatusOr<std::vector<NegativeLink>> DrawNegativeLinks(const std::vector<Link>& links,
                                                            const NegativeLinkOptions& options) {
  // Not the other way round: NaN is refused, too.
  if (!(options.amount >= 0 && options.amount <= kMostNegatives)) {
    return absl::InvalidArgumentError(absl::StrCat("negative links for each link: ", options.amount,
                                                   ", from 0 to ", kMostNegatives, " is possible"));
  }
  if (options.keep_sources && options.amount != std::floor(options.amount)) {
    return absl::InvalidArgumentError(
        absl::StrCat("negative links for each link: ", options.amount,
                     ", a whole number is needed where each has the source of a link"));
  }
  const auto count =
      static_cast<uint64_t>(std::ceil(static_cast<double>(links.size()) * options.amount));
  if (count > 0 && (options.num_sources == 0 || options.num_targets == 0)) {
    return absl::InvalidArgumentError("there are no nodes to draw negative links from");
  }
  std::vector<Link> known = options.avoid;
  std::sort(known.begin(), known.end());
  SeededRandom random(options.seed);
  std::vector<NegativeLink> negatives;
  negatives.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t beside =
        options.keep_sources ? i / static_cast<uint64_t>(options.amount) : i % links.size();
    Link link;
    int draws = 0;
    do {
      if (++draws > kMostDraws) {
        return absl::InvalidArgumentError(
            absl::StrCat("after ", kMostDraws, " draws a negative link is still among those to ",
                         "avoid, ", link.first, " to ", link.second, " by their numbers"));
      }
      link.first = options.keep_sources ? links[beside].first : random.Below(options.num_sources);
      link.second = random.Below(options.num_targets);
    } while (std::binary_search(known.begin(), known.end(), link));
    negatives.push_back({link, beside});
  }
  return negatives;
}

}  // namespace packhouse::client
