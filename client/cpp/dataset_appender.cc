#include "client/cpp/dataset_appender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/message_size.h"
#include "client/cpp/producer.h"

namespace packhouse::client {

DatasetAppender::DatasetAppender(std::shared_ptr<grpc::Channel> channel,
                                 DatasetAppenderOptions options)
    : options_(std::move(options)),
      stub_(v1::DatasetService::NewStub(channel)),
      stream_(
          std::move(channel),
          {"chunk", absl::StrCat("Append to '", options_.dataset, "'"), options_.max_unanswered,
           options_.max_unanswered_bytes, options_.stream_time, options_.retry},
          [this](grpc::ClientContext* context) { return stub_->Append(context); },
          [this](const v1::AppendRequest& request, std::size_t /*bytes*/,
                 const v1::AppendResponse& response) { return Take(request, response); }) {}

absl::Status DatasetAppender::Append(uint64_t sequence, v1::GraphChunk graphs,
                                     std::string group_ids) {
  if (absl::Status fits = CheckMessageSize(graphs, nullptr); !fits.ok()) return fits;
  v1::AppendRequest request;
  *request.mutable_graphs() = std::move(graphs);
  return Send(sequence, std::move(request), std::move(group_ids));
}

absl::Status DatasetAppender::AppendExamples(uint64_t sequence, v1::Examples examples,
                                             std::string group_ids) {
  if (absl::Status fits = CheckMessageSize(examples); !fits.ok()) return fits;
  v1::AppendRequest request;
  *request.mutable_examples() = std::move(examples);
  return Send(sequence, std::move(request), std::move(group_ids));
}

absl::Status DatasetAppender::Send(uint64_t sequence, v1::AppendRequest request,
                                   std::string group_ids) {
  if (!stream_.status().ok()) return stream_.status();
  if (sequence <= last_sequence_) {
    return absl::InvalidArgumentError(absl::StrCat("chunk ", sequence, " comes after chunk ",
                                                   last_sequence_, ": numbers must ascend from 1"));
  }
  if (absl::Status asked = Ask(); !asked.ok()) return asked;
  last_sequence_ = sequence;
  request.set_dataset(options_.dataset);
  request.set_dataset_id(options_.dataset_id);
  SetProducer(options_.producer, sequence, options_.forget_after,
              *request.mutable_producer_sequence());
  request.set_group_ids(std::move(group_ids));
  if (sequence < asked_->producer_state().first_remembered_sequence()) {
    has_unsent_ = true;
    v1::AppendResponse repetition;
    repetition.set_is_repetition(true);
    repetition.set_num_graphs(asked_->num_graphs());
    Tell(request, repetition);
    return absl::OkStatus();
  }
  return stream_.Send(std::move(request));
}

absl::Status DatasetAppender::Ask() {
  if (asked_) return absl::OkStatus();
  v1::AppendRequest request;
  request.set_dataset(options_.dataset);
  request.set_dataset_id(options_.dataset_id);
  request.mutable_producer_sequence()->set_producer(options_.producer);
  if (absl::Status sent = stream_.Send(std::move(request)); !sent.ok()) return sent;
  if (absl::Status flushed = stream_.Flush(); !flushed.ok()) return flushed;
  return asked_ ? absl::OkStatus() : absl::InternalError("the server said nothing of the producer");
}

absl::Status DatasetAppender::Finish() {
  if (absl::Status finished = stream_.Finish(); !finished.ok()) return finished;
  if (!has_unsent_) return absl::OkStatus();
  return CheckSomeWereSent(options_.producer, last_sequence_, asked_->producer_state());
}

absl::Status DatasetAppender::Take(const v1::AppendRequest& request,
                                   const v1::AppendResponse& response) {
  if (request.producer_sequence().sequence() == 0) {
    asked_ = response;
    return absl::OkStatus();
  }
  const uint64_t num_graphs = request.graphs().sizes().num_graphs() +
                              static_cast<uint64_t>(request.examples().examples_size());
  const uint64_t num_kept = num_graphs - std::min<uint64_t>(response.num_skipped(), num_graphs);
  if (!response.is_repetition() && response.num_appended() < num_kept) {
    return absl::InternalError(absl::StrCat("the server stored ", response.num_appended(), " of ",
                                            num_kept, " graphs of chunk ",
                                            request.producer_sequence().sequence()));
  }
  Tell(request, response);
  return absl::OkStatus();
}

void DatasetAppender::Tell(const v1::AppendRequest& request,
                           const v1::AppendResponse& response) const {
  AppendAnswer answer;
  answer.sequence = request.producer_sequence().sequence();
  const uint64_t num_sent = request.graphs().sizes().num_graphs() +
                            static_cast<uint64_t>(request.examples().examples_size());
  answer.num_skipped = response.num_skipped();
  answer.num_graphs = num_sent - std::min(answer.num_skipped, num_sent);
  answer.skipped.assign(response.skipped().begin(), response.skipped().end());
  answer.is_repetition = response.is_repetition();
  answer.num_graphs_of_dataset = response.num_graphs();
  answer.num_stored = response.num_appended();
  if (options_.on_answer) options_.on_answer(answer);
}

}  // namespace packhouse::client
