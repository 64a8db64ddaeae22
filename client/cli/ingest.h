// Brings the graphs of a source into a data set. Each graph is stored once, even if an ingest is
// repeated.
#ifndef PACKHOUSE_CLIENT_CLI_INGEST_H_
#define PACKHOUSE_CLIENT_CLI_INGEST_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/files/graph_source.h"
#include "client/cpp/dataset_retry.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/dataset.pb.h"

namespace packhouse::client {

// Progress of an ingest. Only durable graphs count.
struct IngestTotals {
  // Stored by this run.
  uint64_t graphs_stored = 0;
  // Stored by an earlier run.
  uint64_t graphs_present = 0;
  // Graphs that graphs_stored became: more, if some were cut into pieces.
  uint64_t pieces_stored = 0;
  // Bytes of the graphs of both runs.
  uint64_t bytes = 0;
  // Malformed examples that the server left out, and the first kMostSkipped of them.
  static constexpr std::size_t kMostSkipped = 10;
  uint64_t num_skipped = 0;
  std::vector<v1::SkippedExample> skipped = {};
};

struct IngestOptions {
  std::string dataset;
  // Empty: DefaultProducer. One ingest at a time may use a name.
  std::string producer;
  // A chunk has as many graphs as fit into this, at least one. Another value cuts the source into
  // other chunks, so that an ingest that was broken off cannot go on.
  uint64_t chunk_bytes = uint64_t{1} << 20;
  // As CreateDatasetRequest.max_bytes.
  uint64_t max_bytes = 0;
  // As CreateDatasetRequest.max_rows and oversize_policy.
  std::vector<v1::Capacity> max_rows = {};
  bool cuts_oversize = false;
  bool seal = false;
  RetryOptions retry;
  // Called whenever the totals grow. May be null.
  std::function<void(const IngestTotals&)> on_progress;
};

struct IngestResult {
  IngestTotals totals;
  // Graphs that were in the data set before, from any source.
  uint64_t graphs_before = 0;
  // As it is now.
  v1::Dataset dataset;
};

// Names the source and its chunks: the same graphs have the same producer, wherever the file lies.
std::string DefaultProducer(const GraphSource& source, uint64_t chunk_bytes);

// Creates the data set if it is missing, appends all graphs of `source` in chunks, and seals the
// data set if asked to. The chunks' numbers depend on the source alone: chunks that an earlier run
// has stored are sent again, but not stored again. Goes on by itself after a broken connection or a
// restart of the server.
//
// Errors: FAILED_PRECONDITION naming what differs if there is a data set of this name with another
// schema or bound; errors of the source; errors of the server (see DatasetService). Stored graphs
// stay.
absl::StatusOr<IngestResult> Ingest(const IngestOptions& options,
                                    const std::shared_ptr<grpc::Channel>& channel,
                                    GraphSource& source);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_INGEST_H_
