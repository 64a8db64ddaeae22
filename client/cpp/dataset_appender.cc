#include "client/cpp/dataset_appender.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

struct DatasetAppender::Call {
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AppendRequest, v1::AppendResponse>> stream;
  bool half_closed = false;
  uint64_t num_answers = 0;
};

DatasetAppender::DatasetAppender(std::shared_ptr<grpc::Channel> channel,
                                 DatasetAppenderOptions options)
    : options_(std::move(options)),
      stub_(v1::DatasetService::NewStub(channel)),
      retrier_(std::move(channel), options_.retry) {}

DatasetAppender::~DatasetAppender() {
  if (call_ == nullptr) return;
  call_->context.TryCancel();
  v1::AppendResponse ignored;
  while (call_->stream->Read(&ignored)) {
  }
  (void)call_->stream->Finish();
}

absl::Status DatasetAppender::Append(uint64_t sequence, v1::GraphChunk graphs,
                                     std::string group_ids) {
  v1::AppendRequest request;
  *request.mutable_graphs() = std::move(graphs);
  return Send(sequence, std::move(request), std::move(group_ids));
}

absl::Status DatasetAppender::AppendExamples(uint64_t sequence, v1::Examples examples,
                                             std::string group_ids) {
  v1::AppendRequest request;
  *request.mutable_examples() = std::move(examples);
  return Send(sequence, std::move(request), std::move(group_ids));
}

absl::Status DatasetAppender::Send(uint64_t sequence, v1::AppendRequest request,
                                   std::string group_ids) {
  if (!status_.ok()) return status_;
  if (sequence <= last_sequence_) {
    return absl::InvalidArgumentError(absl::StrCat("chunk ", sequence, " comes after chunk ",
                                                   last_sequence_, ": numbers must ascend from 1"));
  }
  last_sequence_ = sequence;
  Chunk chunk;
  chunk.request = std::move(request);
  chunk.request.set_dataset(options_.dataset);
  chunk.request.set_dataset_id(options_.dataset_id);
  chunk.request.mutable_producer_sequence()->set_producer(options_.producer);
  chunk.request.mutable_producer_sequence()->set_sequence(sequence);
  chunk.request.set_group_ids(std::move(group_ids));
  chunk.bytes = chunk.request.ByteSizeLong();
  unanswered_bytes_ += chunk.bytes;
  unanswered_.push_back(std::move(chunk));
  do {
    if (absl::Status status = SendAll(); !status.ok()) return Keep(std::move(status));
    if (!IsFull()) break;
    if (absl::Status status = AwaitAnswer(); !status.ok()) return Keep(std::move(status));
  } while (true);
  return absl::OkStatus();
}

absl::Status DatasetAppender::Finish() {
  if (!status_.ok()) return status_;
  while (!unanswered_.empty() || call_ != nullptr) {
    if (absl::Status status = SendAll(); !status.ok()) return Keep(std::move(status));
    if (!call_->half_closed) {
      call_->half_closed = true;
      // If it fails, so does the read, and the stream's status has the reason.
      (void)call_->stream->WritesDone();
    }
    if (absl::Status status = AwaitAnswer(); !status.ok()) return Keep(std::move(status));
  }
  return absl::OkStatus();
}

bool DatasetAppender::IsFull() const {
  return unanswered_.size() >= options_.max_unanswered ||
         (unanswered_bytes_ >= options_.max_unanswered_bytes && !unanswered_.empty());
}

void DatasetAppender::OpenStream() {
  call_ = std::make_unique<Call>();
  call_->context.set_deadline(absl::ToChronoTime(absl::Now() + options_.stream_time));
  call_->stream = stub_->Append(&call_->context);
  num_sent_ = 0;
}

absl::Status DatasetAppender::SendAll() {
  while (true) {
    if (call_ == nullptr) OpenStream();
    while (num_sent_ < unanswered_.size() && call_->stream->Write(unanswered_[num_sent_].request)) {
      ++num_sent_;
    }
    if (num_sent_ == unanswered_.size()) return absl::OkStatus();
    if (absl::Status status = EndStream(); !status.ok()) return status;
  }
}

absl::Status DatasetAppender::AwaitAnswer() {
  v1::AppendResponse response;
  if (call_->stream->Read(&response)) return TakeAnswer(response);
  return EndStream();
}

absl::Status DatasetAppender::TakeAnswer(const v1::AppendResponse& response) {
  if (num_sent_ == 0) return absl::InternalError("the server answered a chunk that was not sent");
  const v1::AppendRequest& request = unanswered_.front().request;
  AppendAnswer answer;
  answer.sequence = request.producer_sequence().sequence();
  const uint64_t num_sent = request.graphs().sizes().num_graphs() +
                            static_cast<uint64_t>(request.examples().examples_size());
  answer.num_skipped = response.num_skipped();
  answer.num_graphs = num_sent - std::min(answer.num_skipped, num_sent);
  answer.skipped.assign(response.skipped().begin(), response.skipped().end());
  answer.is_repetition = response.is_repetition();
  answer.num_graphs_of_dataset = response.num_graphs();
  if (response.producer_sequence().sequence() != answer.sequence) {
    return absl::InternalError(absl::StrCat("the server answered chunk ",
                                            response.producer_sequence().sequence(),
                                            ", awaited was ", answer.sequence));
  }
  if (!answer.is_repetition && response.num_appended() != answer.num_graphs) {
    return absl::InternalError(absl::StrCat("the server stored ", response.num_appended(), " of ",
                                            answer.num_graphs, " graphs of chunk ",
                                            answer.sequence));
  }
  unanswered_bytes_ -= unanswered_.front().bytes;
  unanswered_.pop_front();
  --num_sent_;
  ++call_->num_answers;
  retrier_.Reset();
  if (options_.on_answer) options_.on_answer(answer);
  return absl::OkStatus();
}

absl::Status DatasetAppender::EndStream() {
  v1::AppendResponse response;
  absl::Status taken;
  while (call_->stream->Read(&response)) {
    if (taken.ok()) taken = TakeAnswer(response);
  }
  absl::Status status = ToAbslStatus(call_->stream->Finish());
  const bool was_asked_to_end = call_->half_closed;
  const bool had_answers = call_->num_answers > 0;
  call_.reset();
  num_sent_ = 0;
  if (!taken.ok()) return taken;
  if (status.ok()) {
    if (was_asked_to_end && unanswered_.empty()) return status;
    return absl::InternalError(absl::StrCat("the server ended the stream with ", unanswered_.size(),
                                            " chunks unanswered"));
  }
  if (absl::IsDeadlineExceeded(status) && had_answers) return absl::OkStatus();
  return retrier_.WaitAfter(status) ? absl::OkStatus() : status;
}

absl::Status DatasetAppender::Keep(absl::Status status) {
  status_ = status;
  return status;
}

}  // namespace packhouse::client
