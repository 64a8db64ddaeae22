// Data sets: wire to domain and back. Errors as in wire_sizes.h, unless said otherwise.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_DATASETS_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_DATASETS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "packhouse/v1/dataset.pb.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/server/wire/example_format.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// The answer to a call about data sets on a server without a data folder: FAILED_PRECONDITION.
absl::Status NoDataFolder();

// The arguments of DatasetStore::Create().
struct NewDataset {
  std::string name;
  GraphSchema schema;
  DatasetOptions options;
};
absl::StatusOr<NewDataset> NewDatasetFromWire(
    const v1::CreateDatasetRequest& wire, const ExampleFormat& format = NoExampleFormat::Default());

// The group ids of an AppendRequest for a chunk of `num_graphs`: one for each graph, or none.
absl::StatusOr<std::vector<uint64_t>> GroupIdsFromWire(const v1::AppendRequest& wire,
                                                       size_t num_graphs);

// `request` is the one that is answered.
void AppendResultToWire(const AppendResult& result, const v1::AppendRequest& request,
                        v1::AppendResponse& wire);

// Into a new message. For a kDamaged data set only name and state are set, since nothing else is
// known.
void DatasetToWire(const DatasetInfo& info, v1::Dataset& wire);
void DatasetListToWire(const DatasetList& list, v1::ListDatasetsResponse& wire);

void VerifyProgressToWire(const VerifyProgress& progress, v1::VerifyDatasetResponse& wire);
// The last response; `progress` is the last progress.
void VerifyReportToWire(const VerifyReport& report, const VerifyProgress& progress,
                        v1::VerifyDatasetResponse& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_DATASETS_H_
