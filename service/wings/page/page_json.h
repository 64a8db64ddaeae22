// Data sets, epochs, plans and what else the server has, as the page shows them.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_JSON_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_JSON_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/feedback.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "packhouse/v1/planning.pb.h"
#include "packhouse/v1/source_graph.pb.h"
#include "service/access/policy.h"
#include "service/engine/jobs/epoch_watch.h"
#include "service/wings/page/json.h"

namespace packhouse::page {

// Bytes of one row of each component in all its tensors: {component: bytes}. Without what batches
// have besides, such as masks.
Json BytesPerRowJson(const v1::GraphSchema& schema);

Json DatasetJson(const v1::Dataset& dataset);

// The latest change of a data set's sizes: {"first_graph", "found_graph", "changes", "components":
// [{"component", "before", "after"}]}, with mean rows of a graph.
Json DriftJson(const v1::DatasetDrift& drift);

Json SourceGraphJson(const v1::SourceGraph& graph);

// What batches of a model cost on a device, without the shapes that were seen: {"model", "device",
// "reports", "out_of_memory", "fixed_seconds", "least_seconds", "spread", "fixed_bytes",
// "most_bytes", "components": [{"component", "seconds", "bytes"}]}, the last two for each row.
// "most_bytes" is null if all batches have fitted.
Json MeasuredModelJson(const v1::DeviceModel& model);

// What namespaces may have, and what they have: [{"namespace", "quotas": [{"quota", "used",
// "most"}]}], of those that `may_see` lets through. "planning" is a share of threads; the rest are
// numbers.
Json QuotasJson(const std::vector<QuotaReading>& readings,
                const std::function<bool(const std::string& where)>& may_see);

// A job without its workers, with at most `most` epochs: {"job", "num_epochs", "num_sessions",
// "last_used" (milliseconds, or null), "owner" (HOST:PORT of the server that has it; "" if there is
// one server, or none has it), "epochs": [{"epoch", "generation", "done", "batches", "dataset",
// "sessions"}]}.
Json JobJson(const v1::Job& job, size_t most);

// Which workers hold others up, by their number in `epoch.workers`. Ranked: those behind the median
// of the ranks by more than a tenth of their steps, or three steps if that is more. Others: those
// with batches in flight that have acknowledged nothing for half a minute, while another has.
std::vector<bool> Stragglers(const EpochWatch& epoch, absl::Time now);

// An epoch that somebody loads: progress, "queues", "workers", "redelivered", and "seconds_left" at
// `batches_per_second`, or null.
Json EpochWatchJson(const EpochWatch& epoch, std::optional<double> batches_per_second,
                    absl::Time now);

// The figures of one way to plan; an unfinished one has "name" and "unfinished" alone. Ratios are
// in [0, 1]; capacity null: no limit.
Json PlanSummaryJson(const v1::PlanSummary& summary);

inline constexpr size_t kMostPatterns = 500;
inline constexpr size_t kMostEntries = 32;

// What is in the packs. "patterns": those with the most packs first, at most `most`, each with
// "repeats", "rows" and "fill" by component (fill null: no limit), "binds" (the fullest component)
// and "graphs": [{"size", "copies"}] of at most kMostEntries sizes. "num_patterns"; "binds": packs
// by the component that binds; "fill": packs by twentieths of each limited component's capacity,
// the last with the packs that are exactly full. The components are those of `best`. O(patterns and
// their entries).
Json PatternsJson(const v1::PlanResponse& response, size_t most);

// {"capacities": {component: rows}, "packs", "lower_bound", "epoch_cost", "harmonic_mean",
// "components", "batch_bytes"}.
Json TunedShapeJson(const v1::TunedShape& shape);

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_PAGE_JSON_H_
