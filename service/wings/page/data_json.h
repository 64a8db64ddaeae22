// Data sets, source graphs, measured models and quotas, as the page shows them.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_DATA_JSON_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_DATA_JSON_H_

#include <functional>
#include <string>
#include <vector>

#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/feedback.pb.h"
#include "packhouse/v1/source_graph.pb.h"
#include "service/access/policy.h"
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

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_DATA_JSON_H_
