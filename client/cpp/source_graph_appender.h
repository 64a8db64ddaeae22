// Appends nodes and edges to a source graph. If the connection breaks, no row is lost and none is
// stored twice.
#ifndef PACKHOUSE_CLIENT_CPP_SOURCE_GRAPH_APPENDER_H_
#define PACKHOUSE_CLIENT_CPP_SOURCE_GRAPH_APPENDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/reliable_stream.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/source_graph.grpc.pb.h"
#include "packhouse/v1/source_graph.pb.h"

namespace packhouse::client {

// Rows that are durable.
struct SourceGraphAnswer {
  uint64_t sequence = 0;
  // Of the request, and its bytes.
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
  uint64_t bytes = 0;
  // The rows had been stored before: by an earlier run, or by this one if the answer was lost.
  bool is_repetition = false;
};

struct SourceGraphAppenderOptions {
  std::string graph;
  // Its SourceGraph.id, so that nothing gets into another graph of the same name; 0: the graph that
  // has the name.
  uint64_t graph_id = 0;
  // At most 128 bytes. One appender at a time may use the name.
  std::string producer;
  // As DatasetAppenderOptions::forget_after.
  absl::Duration forget_after = absl::InfiniteDuration();
  // The most requests that have been sent and not answered, and their bytes (one may be larger).
  // They are kept for a retry.
  std::size_t max_unanswered = 16;
  std::size_t max_unanswered_bytes = std::size_t{32} << 20;
  // A stream is ended and opened anew after this time, so that a hanging server is noticed: if it
  // answered nothing in all that time, the error is DEADLINE_EXCEEDED.
  absl::Duration stream_time = absl::Minutes(10);
  RetryOptions retry;
  // Called for each request, in order, from within Append and Finish. May be null.
  std::function<void(const SourceGraphAnswer&)> on_answer;
};

// Use: Append rows, then Finish. Rows are appended when on_answer is called for them; all are when
// Finish returns OK. A program that was killed starts again with the first rows, the same producer,
// and the same rows in each request: what is stored already is not stored again. The server
// compares requests with those that it has under their numbers, as far back as it remembers these
// (ProducerState); older ones are not sent, and count as repetitions.
//
// Not thread-safe. After an error every call returns it; rows that were answered stay.
class SourceGraphAppender {
 public:
  SourceGraphAppender(std::shared_ptr<grpc::Channel> channel, SourceGraphAppenderOptions options);
  SourceGraphAppender(const SourceGraphAppender&) = delete;
  SourceGraphAppender& operator=(const SourceGraphAppender&) = delete;
  // Ends the stream. Unanswered rows may be stored or not.
  ~SourceGraphAppender() = default;

  // Sends rows: `request` has nodes and edges, and nothing else. Requests are numbered from 1.
  // Waits for answers first if too many are missing.
  //
  // Errors: ALREADY_EXISTS if the number was that of other rows; the server's (see
  // SourceGraphService.AppendSourceGraph). Errors that may pass are
  // returned once RetryOptions.patience is used up.
  absl::Status Append(v1::AppendSourceGraphRequest request);

  // Waits for all answers, and ends the stream. Errors: as Append; ALREADY_EXISTS if all requests
  // were older than what the server remembers: they may be those that it has, or others.
  absl::Status Finish();

 private:
  // Asks once what the server remembers of the producer.
  absl::Status Ask();
  absl::Status Take(const v1::AppendSourceGraphRequest& request, std::size_t bytes,
                    const v1::AppendSourceGraphResponse& response);

  const SourceGraphAppenderOptions options_;
  const std::unique_ptr<v1::SourceGraphService::Stub> stub_;
  ReliableStream<v1::AppendSourceGraphRequest, v1::AppendSourceGraphResponse> stream_;
  uint64_t last_sequence_ = 0;
  // The answer to Ask().
  std::optional<v1::AppendSourceGraphResponse> asked_;
  bool has_unsent_ = false;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_SOURCE_GRAPH_APPENDER_H_
