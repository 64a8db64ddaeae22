// What the packs of a stream will be like: its packer, on graphs drawn from a histogram.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_PACK_REHEARSAL_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_PACK_REHEARSAL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/packing/online_packer.h"
#include "service/algorithms/planning/device_profile.h"
#include "service/engine/streams/shape_routes.h"

namespace packhouse {

// The packs of a rehearsal that were full.
class RehearsedPacks {
 public:
  explicit RehearsedPacks(size_t num_components) : width_(num_components + 1) {}

  size_t size() const { return rows_.size() / width_; }
  // Real rows of a pack per component, `graphs` last.
  absl::Span<const uint64_t> rows(size_t pack) const {
    return absl::MakeConstSpan(rows_).subspan(pack * width_, width_);
  }
  void Add(absl::Span<const uint64_t> rows) { rows_.insert(rows_.end(), rows.begin(), rows.end()); }

  // The most rows of component k in a pack; 0 without packs.
  uint64_t MostRows(size_t k) const;
  // The number of rows of component k that this share of the packs does not exceed. Requires a
  // pack.
  uint64_t Quantile(size_t k, double share) const;

 private:
  const size_t width_;
  std::vector<uint64_t> rows_;
};

// Draws graphs until there are some dozens of packs, or so many graphs that it would take long.
// Each goes to the packer of its route. Sizes that exceed all routes are not drawn. The draw has a
// seed of its own: same arguments, same packs.
//
// CANCELLED if `is_cancelled`, which may be empty, says so; INVALID_ARGUMENT as OnlinePacker. Some
// ten milliseconds; O(d) memory for d distinct sizes.
absl::StatusOr<RehearsedPacks> RehearsePacking(const SizeHistogram& histogram,
                                               const ShapeRoutes& usable,
                                               const OnlinePackerOptions& packing,
                                               const std::function<bool()>& is_cancelled);

// Capacities without what padding keeps free.
using UsableCapacities = std::vector<uint64_t>;

// Smaller shapes that the profile allows, at most `most`, that cost noticeably less for some of the
// packs than `largest` does. Each pack has the cheapest shape that takes it. Depends on the
// arguments alone.
std::vector<UsableCapacities> SmallerShapes(const RehearsedPacks& packs,
                                            const UsableCapacities& largest,
                                            const DeviceProfile& profile, size_t most);

// The half of `largest`, its quarter and so on, for batches that are not full: at most `most`,
// without those that `besides` has.
std::vector<UsableCapacities> PartialShapes(const UsableCapacities& largest,
                                            const std::vector<UsableCapacities>& besides,
                                            const DeviceProfile& profile, size_t most);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_PACK_REHEARSAL_H_
