// Appends graphs to a data set. If the connection breaks, no graph is lost and none is stored
// twice.
#ifndef PACKHOUSE_CLIENT_CPP_DATASET_APPENDER_H_
#define PACKHOUSE_CLIENT_CPP_DATASET_APPENDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/reliable_stream.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/dataset.grpc.pb.h"
#include "packhouse/v1/dataset.pb.h"

namespace packhouse::client {

// A chunk that is durable.
struct AppendAnswer {
  uint64_t sequence = 0;
  // Graphs of the chunk, without examples that were left out.
  uint64_t num_graphs = 0;
  // Graphs that were stored for them: more, if the data set has OVERSIZE_POLICY_PARTITION and some
  // were cut into pieces; 0 for a repetition.
  uint64_t num_stored = 0;
  // Malformed examples that were left out, and the first of them (AppendResponse.skipped).
  uint64_t num_skipped = 0;
  std::vector<v1::SkippedExample> skipped;
  // The chunk had been stored before: by an earlier run, or by this one if the answer was lost.
  bool is_repetition = false;
  // Graphs in the data set now.
  uint64_t num_graphs_of_dataset = 0;
};

struct DatasetAppenderOptions {
  std::string dataset;
  // Its Dataset.id, so that nothing gets into another data set of the same name; 0: the data set
  // that has the name.
  uint64_t dataset_id = 0;
  // At most 128 bytes. One appender at a time may use the name.
  std::string producer;
  // If the name was made up: the server may forget it so long after the last chunk, and then takes
  // the same chunks as new ones. Infinite: it remembers it as long as the data set, which has a
  // bound on such names (ProducerSequence.forget_after).
  absl::Duration forget_after = absl::InfiniteDuration();
  // The most chunks that have been sent and not answered, and their bytes (one chunk may be
  // larger). They are kept for a retry. With several chunks under way the server can write them
  // together.
  std::size_t max_unanswered = 16;
  std::size_t max_unanswered_bytes = std::size_t{64} << 20;
  // A stream is ended and opened anew after this time, so that a hanging server is noticed: if it
  // answered nothing in all that time, the error is DEADLINE_EXCEEDED.
  absl::Duration stream_time = absl::Minutes(10);
  RetryOptions retry;
  // Called for each chunk, in order, from within Append and Finish. May be null.
  std::function<void(const AppendAnswer&)> on_answer;
};

// Use: Append each chunk, then Finish. A chunk is appended when on_answer is called for it; all
// chunks are when Finish returns OK. A program that was killed starts again with the first chunk,
// or with any that was not answered yet, with the same producer, the same numbers and the same
// chunks. The server compares chunks with those that it has under their numbers, as far back as it
// remembers these (ProducerState); older ones are not sent, and count as repetitions.
//
// Not thread-safe. After an error every call returns it; chunks that were answered stay.
class DatasetAppender {
 public:
  DatasetAppender(std::shared_ptr<grpc::Channel> channel, DatasetAppenderOptions options);
  DatasetAppender(const DatasetAppender&) = delete;
  DatasetAppender& operator=(const DatasetAppender&) = delete;
  // Ends the stream. Unanswered chunks may be stored or not.
  ~DatasetAppender() = default;

  // Sends a chunk. Waits for answers first if too many are missing. `sequence` is at least 1 and
  // larger than before; `group_ids` as in AppendRequest.
  //
  // Errors: INVALID_ARGUMENT for a sequence that is not larger; ALREADY_EXISTS if it was that of
  // another chunk; the server's (see
  // DatasetService.Append). Errors that may pass are returned once RetryOptions.patience is used
  // up.
  absl::Status Append(uint64_t sequence, v1::GraphChunk graphs, std::string group_ids = "");
  // The same for graphs as TF-GNN writes them.
  absl::Status AppendExamples(uint64_t sequence, v1::Examples examples, std::string group_ids = "");

  // Waits for all answers, and ends the stream. Errors: as Append; ALREADY_EXISTS if all chunks
  // were older than what the server remembers: they may be those that it has, or others.
  absl::Status Finish();

 private:
  // Asks once what the server remembers of the producer.
  absl::Status Ask();
  // Sends a request with graphs or examples, and nothing else.
  absl::Status Send(uint64_t sequence, v1::AppendRequest request, std::string group_ids);
  absl::Status Take(const v1::AppendRequest& request, const v1::AppendResponse& response);
  void Tell(const v1::AppendRequest& request, const v1::AppendResponse& response) const;

  const DatasetAppenderOptions options_;
  const std::unique_ptr<v1::DatasetService::Stub> stub_;
  ReliableStream<v1::AppendRequest, v1::AppendResponse> stream_;
  uint64_t last_sequence_ = 0;
  // The answer to Ask().
  std::optional<v1::AppendResponse> asked_;
  bool has_unsent_ = false;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_DATASET_APPENDER_H_
