#include "client/bench/load_stream.h"

#include <algorithm>
#include <utility>

#include "client/cpp/batch_slices.h"
#include "client/cpp/status.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/client_callback.h"

namespace packhouse::client {

struct LoadStream::Acknowledgement {
  grpc::ClientContext context;
  v1::AcknowledgeRequest request;
  v1::AcknowledgeResponse response;
};

// One epoch.
class LoadStream::Call final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Call(LoadStream* stream)
      : stream_(stream),
        first_(ToByteBuffer(stream->request_)),
        acknowledge_at_(std::max(1U, stream->request_.max_in_flight() / 4)),
        start_(MonotonicNanos()) {}

  // The stream's mutex must be free, since callbacks may come at once.
  void Begin() {
    stream_->stub_.PrepareBidiStreamingCall(&context_, kLoadMethod, {}, this);
    StartRead(&response_);
    StartWriteLast(&first_, {});
    StartCall();
  }

  void Cancel() { context_.TryCancel(); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return;
    read_status_ = Take();
    if (!read_status_.ok()) {
      context_.TryCancel();
      return;
    }
    StartRead(&response_);
  }

  void OnDone(const grpc::Status& status) override {
    // This deletes the call.
    stream_->OnCallDone(read_status_.ok() ? ToAbslStatus(status) : read_status_);
  }

  absl::Status Take() {
    const absl::StatusOr<std::optional<BatchView>> batch = ViewLoadResponse(response_);
    if (!batch.ok()) return batch.status();
    if (!batch->has_value()) {
      v1::LoadResponse response;
      if (absl::Status status = ParseMessage(response_, response); !status.ok()) return status;
      if (response.has_opened()) {
        opened_ = std::move(*response.mutable_opened());
        num_left_ = opened_.num_steps() - opened_.num_steps_done();
      }
      return absl::OkStatus();
    }
    if (start_ != 0) stream_->RecordOpening(MonotonicNanos() - start_);
    start_ = 0;
    stream_->Record(response_.Length(), (*batch)->graph_ids().size() / sizeof(uint64_t));
    unacknowledged_.push_back((*batch)->id());
    --num_left_;
    if (unacknowledged_.size() < acknowledge_at_ && num_left_ > 0) return absl::OkStatus();
    auto acknowledgement = std::make_unique<Acknowledgement>();
    v1::AcknowledgeRequest& request = acknowledgement->request;
    request.set_job(stream_->request_.epoch().job());
    request.set_epoch(stream_->request_.epoch().epoch());
    request.set_generation(opened_.generation());
    request.set_session(opened_.session());
    request.mutable_batches()->Add(unacknowledged_.begin(), unacknowledged_.end());
    unacknowledged_.clear();
    stream_->Acknowledge(std::move(acknowledgement));
    return absl::OkStatus();
  }

  LoadStream* const stream_;
  const grpc::ByteBuffer first_;
  const std::size_t acknowledge_at_;
  grpc::ClientContext context_;
  grpc::ByteBuffer response_;
  absl::Status read_status_;
  // 0 after the first batch has come.
  int64_t start_;
  v1::LoadOpened opened_;
  uint64_t num_left_ = 0;
  std::vector<uint64_t> unacknowledged_;
};

LoadStream::LoadStream(std::shared_ptr<grpc::Channel> channel, v1::LoadRequest request)
    : stub_(channel),
      loader_(v1::LoaderService::NewStub(std::move(channel))),
      request_(std::move(request)) {}

LoadStream::~LoadStream() = default;

void LoadStream::Start() {
  Call* call = nullptr;
  {
    const absl::MutexLock lock(&mutex_);
    call_ = std::make_unique<Call>(this);
    call = call_.get();
  }
  call->Begin();
}

bool LoadStream::has_ended() {
  const absl::MutexLock lock(&mutex_);
  return status_.has_value();
}

void LoadStream::Cancel() {
  const absl::MutexLock lock(&mutex_);
  is_cancelled_ = true;
  if (call_ != nullptr) call_->Cancel();
}

absl::Status LoadStream::Wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](LoadStream* stream) { return stream->IsOver(); }, this));
  return *status_;
}

void LoadStream::OnCallDone(const absl::Status& status) {
  std::unique_ptr<Call> done;
  {
    const absl::MutexLock lock(&mutex_);
    done = std::move(call_);
    if (!acknowledge_status_.ok()) {
      status_ = acknowledge_status_;
    } else if (is_cancelled_ && (status.ok() || absl::IsCancelled(status))) {
      status_ = absl::OkStatus();
    } else if (!status.ok()) {
      status_ = status;
    }
    // Once the lock is free, this object may be gone.
    if (status_.has_value()) return;
    request_.mutable_epoch()->set_epoch(request_.epoch().epoch() + 1);
  }
  Start();
}

void LoadStream::Acknowledge(std::unique_ptr<Acknowledgement> acknowledgement) {
  {
    const absl::MutexLock lock(&mutex_);
    ++num_acknowledging_;
  }
  Acknowledgement* const call = acknowledgement.release();
  loader_->async()->Acknowledge(&call->context, &call->request, &call->response,
                                [this, call](const grpc::Status& status) {
                                  const std::unique_ptr<Acknowledgement> owned(call);
                                  const absl::MutexLock lock(&mutex_);
                                  if (!status.ok() && !is_cancelled_) {
                                    acknowledge_status_ = ToAbslStatus(status);
                                    if (call_ != nullptr) call_->Cancel();
                                  }
                                  --num_acknowledging_;
                                });
}

}  // namespace packhouse::client
