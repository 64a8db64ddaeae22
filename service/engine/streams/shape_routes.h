// Which of a stream's shapes a graph is packed for, where no one shape takes all.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_SHAPE_ROUTES_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_SHAPE_ROUTES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {

// A shape that no earlier shape takes. Its packs are packed apart from those of the others.
struct Route {
  Limits limits;
  // Of a batch.
  double cost = 1;
};

// Immutable; thread-safe.
class ShapeRoutes {
 public:
  // Requires at least one.
  explicit ShapeRoutes(std::vector<Route> routes) : routes_(std::move(routes)) {}

  size_t size() const { return routes_.size(); }
  const Limits& limits(size_t route) const { return routes_[route].limits; }

  // Where a graph of this size costs least: its largest share of a capacity, as the share of a
  // batch and of what a batch costs. Of equal ones the first; nullopt if none takes it. O(size() *
  // l).
  std::optional<size_t> RouteOf(absl::Span<const uint32_t> tuple) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_SHAPE_ROUTES_H_
