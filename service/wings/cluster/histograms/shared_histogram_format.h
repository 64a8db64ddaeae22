// Keys and values of histograms that servers share, in the store of a cluster
// (docs/storage-format.md).
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_SHARED_HISTOGRAM_FORMAT_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_SHARED_HISTOGRAM_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/internal/shared_histogram.pb.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/engine/histograms/histogram_store.h"
#include "service/stores/logs/shared_log.h"

namespace packhouse::shared_histogram {

// All heads begin with it; entries of one histogram with this, its name in a key, and '/'.
inline constexpr absl::string_view kHeads = "hist/h/";
inline constexpr absl::string_view kEntries = "hist/l/";

// Whether it may have keys: others would have the keys of some.
bool IsName(absl::string_view name);
// The name in a key, without what is around it.
std::string FromKey(absl::string_view key);
// A run is one entry. `keys` must outlive the log.
SharedLog LogOf(KeyStore* keys, absl::string_view name);

absl::Status NoHistogram(absl::string_view name);
absl::Status Damaged(absl::string_view name, absl::string_view what);

// Not less than what a run of these takes, but for its producers.
uint64_t RunBytes(const SizeHistogram& sizes);

void DescribeTo(const HistogramKey& key, internal::SharedHistogramHead& head);
absl::StatusOr<HistogramKey> KeyOf(absl::string_view name,
                                   const internal::SharedHistogramHead& head);

}  // namespace packhouse::shared_histogram

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_HISTOGRAMS_SHARED_HISTOGRAM_FORMAT_H_
