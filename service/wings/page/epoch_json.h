// Epochs, as the page shows them.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_EPOCH_JSON_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_EPOCH_JSON_H_

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "packhouse/v1/loader.pb.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/wings/page/json.h"

namespace packhouse::page {

// A job without its workers, with at most `most` epochs: {"job", "num_epochs", "num_sessions",
// "last_used" (milliseconds, or null), "owner" (HOST:PORT of the server that has it; "" if there is
// one server, or none has it), "epochs": [{"epoch", "generation", "done", "batches", "dataset",
// "sessions"}]}.
Json JobJson(const v1::Job& job, size_t most);

// Which workers hold others up, by their number in `epoch.workers`. Ranked: those behind the median
// of the ranks by more than a tenth of their steps, or three steps if that is more. Others: those
// with batches in flight that have acknowledged nothing for half a minute, while another has.
std::vector<bool> Stragglers(const EpochWatch& epoch, absl::Time now);

// An epoch that somebody loads: progress, "lanes", "workers", "redelivered", and "seconds_left" at
// `batches_per_second`, or null.
Json EpochWatchJson(const EpochWatch& epoch, std::optional<double> batches_per_second,
                    absl::Time now);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_EPOCH_JSON_H_
