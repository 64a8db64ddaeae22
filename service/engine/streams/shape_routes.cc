#include "service/engine/streams/shape_routes.h"

#include <algorithm>

namespace packhouse {
namespace {

double LargestShare(absl::Span<const uint32_t> tuple, const Limits& limits) {
  double share = 1 / static_cast<double>(limits.graphs());
  for (size_t k = 0; k < tuple.size(); ++k) {
    share =
        std::max(share, static_cast<double>(tuple[k]) / static_cast<double>(limits.capacity(k)));
  }
  return share;
}

}  // namespace

std::optional<size_t> ShapeRoutes::RouteOf(absl::Span<const uint32_t> tuple) const {
  if (routes_.size() == 1) {
    return routes_[0].limits.FirstExceeded(tuple) ? std::nullopt : std::optional<size_t>(0);
  }
  std::optional<size_t> best;
  double least = 0;
  for (size_t i = 0; i < routes_.size(); ++i) {
    if (routes_[i].limits.FirstExceeded(tuple)) continue;
    const double cost = routes_[i].cost * LargestShare(tuple, routes_[i].limits);
    if (best && cost >= least) continue;
    best = i;
    least = cost;
  }
  return best;
}

}  // namespace packhouse
