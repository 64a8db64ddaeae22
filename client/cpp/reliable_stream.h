// Requests of one producer, in order, on streams that may break: each is stored once.
#ifndef PACKHOUSE_CLIENT_CPP_RELIABLE_STREAM_H_
#define PACKHOUSE_CLIENT_CPP_RELIABLE_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/status.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/sync_stream.h"

namespace packhouse::client {

struct ReliableStreamOptions {
  // What a request is called in errors.
  std::string request_name;
  // What is called, for people: "Append to 'd'".
  std::string call_name;
  // The most requests that have been sent and not answered, and their bytes (one may be larger).
  std::size_t max_unanswered = 0;
  std::size_t max_unanswered_bytes = 0;
  // A stream is ended and opened anew after this time.
  absl::Duration stream_time;
  RetryOptions retry;
};

// Request and Response have a ProducerSequence, by which the server knows what it has stored. What
// was not answered when a stream broke is sent again on the next one.
//
// Not thread-safe. After an error every call returns it.
template <typename Request, typename Response>
class ReliableStream {
 public:
  using Stream = grpc::ClientReaderWriter<Request, Response>;
  using Open = std::function<std::unique_ptr<Stream>(grpc::ClientContext*)>;
  // Called for each request with its bytes and its answer, in order, from within Send and Finish.
  using Take = std::function<absl::Status(const Request&, std::size_t bytes, const Response&)>;

  ReliableStream(std::shared_ptr<grpc::Channel> channel, ReliableStreamOptions options, Open open,
                 Take take)
      : options_(std::move(options)),
        open_(std::move(open)),
        take_(std::move(take)),
        retrier_(std::move(channel), options_.retry, options_.call_name) {}
  ReliableStream(const ReliableStream&) = delete;
  ReliableStream& operator=(const ReliableStream&) = delete;
  // Ends the stream. Unanswered requests may be stored or not.
  ~ReliableStream() {
    if (call_ == nullptr) return;
    call_->context.TryCancel();
    Response ignored;
    while (call_->stream->Read(&ignored)) {
    }
    (void)call_->stream->Finish();
  }

  const absl::Status& status() const { return status_; }

  // Waits for answers first if too many are missing. Errors: the server's, and those of `take`.
  // Errors that may pass are returned once RetryOptions.patience is used up.
  absl::Status Send(Request request) {
    if (!status_.ok()) return status_;
    const std::size_t bytes = request.ByteSizeLong();
    unanswered_bytes_ += bytes;
    unanswered_.push_back({std::move(request), bytes});
    do {
      if (absl::Status status = SendAll(); !status.ok()) return Keep(std::move(status));
      if (!IsFull()) break;
      if (absl::Status status = AwaitAnswer(); !status.ok()) return Keep(std::move(status));
    } while (true);
    return absl::OkStatus();
  }

  // Waits for all answers. Errors: as Send.
  absl::Status Flush() {
    if (!status_.ok()) return status_;
    while (!unanswered_.empty()) {
      if (absl::Status status = SendAll(); !status.ok()) return Keep(std::move(status));
      if (absl::Status status = AwaitAnswer(); !status.ok()) return Keep(std::move(status));
    }
    return absl::OkStatus();
  }

  // Waits for all answers, and ends the stream. Errors: as Send.
  absl::Status Finish() {
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

 private:
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<Stream> stream;
    bool half_closed = false;
    uint64_t num_answers = 0;
  };
  struct Sent {
    Request request;
    std::size_t bytes;
  };

  bool IsFull() const {
    return unanswered_.size() >= options_.max_unanswered ||
           (unanswered_bytes_ >= options_.max_unanswered_bytes && !unanswered_.empty());
  }

  void OpenStream() {
    call_ = std::make_unique<Call>();
    call_->context.set_deadline(absl::ToChronoTime(absl::Now() + options_.stream_time));
    call_->stream = open_(&call_->context);
    num_sent_ = 0;
  }

  // Sends the requests that have not been sent on this stream.
  absl::Status SendAll() {
    while (true) {
      if (call_ == nullptr) OpenStream();
      while (num_sent_ < unanswered_.size() &&
             call_->stream->Write(unanswered_[num_sent_].request)) {
        ++num_sent_;
      }
      if (num_sent_ == unanswered_.size()) return absl::OkStatus();
      if (absl::Status status = EndStream(); !status.ok()) return status;
    }
  }

  // Waits for one answer, or for the end of a broken stream.
  absl::Status AwaitAnswer() {
    Response response;
    if (call_->stream->Read(&response)) return TakeAnswer(response);
    return EndStream();
  }

  absl::Status TakeAnswer(const Response& response) {
    if (num_sent_ == 0) {
      return absl::InternalError(
          absl::StrCat("the server answered a ", options_.request_name, " that was not sent"));
    }
    const Sent sent = std::move(unanswered_.front());
    unanswered_.pop_front();
    unanswered_bytes_ -= sent.bytes;
    --num_sent_;
    const uint64_t awaited = sent.request.producer_sequence().sequence();
    if (const uint64_t answered = response.producer_sequence().sequence(); answered != awaited) {
      return absl::InternalError(absl::StrCat("the server answered ", options_.request_name, " ",
                                              answered, ", awaited was ", awaited));
    }
    ++call_->num_answers;
    retrier_.Reset();
    return take_(sent.request, sent.bytes, response);
  }

  // Takes the remaining answers, then the stream's status; OK if a new stream should follow.
  absl::Status EndStream() {
    Response response;
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
      return absl::InternalError(absl::StrCat("the server ended the stream with ",
                                              unanswered_.size(), " ", options_.request_name,
                                              "s unanswered"));
    }
    if (absl::IsDeadlineExceeded(status) && had_answers) return absl::OkStatus();
    return retrier_.WaitAfter(status) ? absl::OkStatus() : status;
  }

  absl::Status Keep(absl::Status status) {
    status_ = status;
    return status;
  }

  const ReliableStreamOptions options_;
  const Open open_;
  const Take take_;
  Retrier retrier_;
  // Null between streams.
  std::unique_ptr<Call> call_;
  // In order; the first num_sent_ have been sent on this stream.
  std::deque<Sent> unanswered_;
  std::size_t num_sent_ = 0;
  std::size_t unanswered_bytes_ = 0;
  absl::Status status_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_RELIABLE_STREAM_H_
