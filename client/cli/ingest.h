// Brings the graphs of a source into a data set, once, however often it is begun.
#ifndef PACKHOUSE_CLIENT_CLI_INGEST_H_
#define PACKHOUSE_CLIENT_CLI_INGEST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/files/graph_source.h"
#include "client/cpp/dataset_retry.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/dataset.pb.h"

namespace packhouse::client {

// How far an ingest is. What counts is durable.
struct IngestTotals {
  // By this run.
  uint64_t graphs_stored = 0;
  // By an earlier one.
  uint64_t graphs_present = 0;
  // Of both.
  uint64_t bytes = 0;
};

struct IngestOptions {
  std::string dataset;
  // Empty: DefaultProducer. One ingest at a time may use a name.
  std::string producer;
  // A chunk has as many graphs as fit into this, at least one. With another value the same source
  // is cut otherwise, so that an ingest which was broken off cannot go on.
  uint64_t chunk_bytes = uint64_t{1} << 20;
  // As CreateDatasetRequest.max_bytes.
  uint64_t max_bytes = 0;
  bool seal = false;
  RetryOptions retry;
  // Called whenever there is more. May be null.
  std::function<void(const IngestTotals&)> on_progress;
};

struct IngestResult {
  IngestTotals totals;
  // In the data set before, from whatever source.
  uint64_t graphs_before = 0;
  // As it is now.
  v1::Dataset dataset;
};

// Names source and cut: the same graphs have the same producer wherever they lie.
std::string DefaultProducer(const GraphSource& source, uint64_t chunk_bytes);

// Creates the data set if need be, appends all graphs of `source` in chunks whose numbers depend on
// the source alone, and seals the data set if asked to. What an earlier run has stored is sent
// again, but not stored again. Goes on by itself after a broken connection or a restart of the
// server.
//
// Errors: FAILED_PRECONDITION naming what differs if there is a data set of this name with another
// schema or bound; the source's; the server's (see DatasetService). What was stored stays.
absl::StatusOr<IngestResult> Ingest(const IngestOptions& options,
                                    const std::shared_ptr<grpc::Channel>& channel,
                                    GraphSource& source);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_INGEST_H_
