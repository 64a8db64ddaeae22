#include "client/cpp/source_graph_appender.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {
namespace {

uint64_t CountOf(const v1::NodeIds& ids) {
  return ids.has_text() ? ids.text().lengths().size() / sizeof(uint32_t)
                        : ids.integers().size() / sizeof(int64_t);
}

}  // namespace

struct SourceGraphAppender::Call {
  grpc::ClientContext context;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::AppendSourceGraphRequest, v1::AppendSourceGraphResponse>>
      stream;
  bool half_closed = false;
  uint64_t num_answers = 0;
};

SourceGraphAppender::SourceGraphAppender(std::shared_ptr<grpc::Channel> channel,
                                         SourceGraphAppenderOptions options)
    : options_(std::move(options)),
      stub_(v1::SourceGraphService::NewStub(channel)),
      retrier_(std::move(channel), options_.retry) {}

SourceGraphAppender::~SourceGraphAppender() {
  if (call_ == nullptr) return;
  call_->context.TryCancel();
  v1::AppendSourceGraphResponse ignored;
  while (call_->stream->Read(&ignored)) {
  }
  (void)call_->stream->Finish();
}

absl::Status SourceGraphAppender::Append(v1::AppendSourceGraphRequest request) {
  if (!status_.ok()) return status_;
  Sent sent;
  sent.answer.sequence = ++last_sequence_;
  sent.answer.bytes = request.ByteSizeLong();
  for (const v1::SourceNodeRows& rows : request.nodes())
    sent.answer.num_nodes += CountOf(rows.ids());
  for (const v1::SourceEdgeRows& rows : request.edges()) {
    sent.answer.num_edges += CountOf(rows.sources());
  }
  request.set_graph(options_.graph);
  request.set_graph_id(options_.graph_id);
  request.mutable_producer_sequence()->set_producer(options_.producer);
  request.mutable_producer_sequence()->set_sequence(last_sequence_);
  sent.request = std::move(request);
  unanswered_bytes_ += sent.answer.bytes;
  unanswered_.push_back(std::move(sent));
  do {
    if (absl::Status status = SendAll(); !status.ok()) return Keep(std::move(status));
    if (!IsFull()) break;
    if (absl::Status status = AwaitAnswer(); !status.ok()) return Keep(std::move(status));
  } while (true);
  return absl::OkStatus();
}

absl::Status SourceGraphAppender::Finish() {
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

bool SourceGraphAppender::IsFull() const {
  return unanswered_.size() >= options_.max_unanswered ||
         (unanswered_bytes_ >= options_.max_unanswered_bytes && !unanswered_.empty());
}

void SourceGraphAppender::OpenStream() {
  call_ = std::make_unique<Call>();
  call_->context.set_deadline(absl::ToChronoTime(absl::Now() + options_.stream_time));
  call_->stream = stub_->AppendSourceGraph(&call_->context);
  num_sent_ = 0;
}

absl::Status SourceGraphAppender::SendAll() {
  while (true) {
    if (call_ == nullptr) OpenStream();
    while (num_sent_ < unanswered_.size() && call_->stream->Write(unanswered_[num_sent_].request)) {
      ++num_sent_;
    }
    if (num_sent_ == unanswered_.size()) return absl::OkStatus();
    if (absl::Status status = EndStream(); !status.ok()) return status;
  }
}

absl::Status SourceGraphAppender::AwaitAnswer() {
  v1::AppendSourceGraphResponse response;
  if (call_->stream->Read(&response)) return TakeAnswer(response);
  return EndStream();
}

absl::Status SourceGraphAppender::TakeAnswer(const v1::AppendSourceGraphResponse& response) {
  if (num_sent_ == 0) return absl::InternalError("the server answered rows that were not sent");
  SourceGraphAnswer answer = unanswered_.front().answer;
  answer.is_repetition = response.is_repetition();
  if (response.producer_sequence().sequence() != answer.sequence) {
    return absl::InternalError(absl::StrCat("the server answered request ",
                                            response.producer_sequence().sequence(),
                                            ", awaited was ", answer.sequence));
  }
  if (!answer.is_repetition &&
      (response.num_nodes() != answer.num_nodes || response.num_edges() != answer.num_edges)) {
    return absl::InternalError(absl::StrCat("the server stored ", response.num_nodes(),
                                            " nodes and ", response.num_edges(),
                                            " edges of request ", answer.sequence, ", which has ",
                                            answer.num_nodes, " and ", answer.num_edges));
  }
  unanswered_bytes_ -= answer.bytes;
  unanswered_.pop_front();
  --num_sent_;
  ++call_->num_answers;
  retrier_.Reset();
  if (options_.on_answer) options_.on_answer(answer);
  return absl::OkStatus();
}

absl::Status SourceGraphAppender::EndStream() {
  v1::AppendSourceGraphResponse response;
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
                                            " requests unanswered"));
  }
  if (absl::IsDeadlineExceeded(status) && had_answers) return absl::OkStatus();
  return retrier_.WaitAfter(status) ? absl::OkStatus() : status;
}

absl::Status SourceGraphAppender::Keep(absl::Status status) {
  status_ = status;
  return status;
}

}  // namespace packhouse::client
