#include "client/bench/bench_stream.h"

#include <chrono>
#include <utility>

#include "client/cpp/status.h"

namespace packhouse::client {

int64_t MonotonicNanos() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void BenchStream::Record(uint64_t bytes, uint64_t graphs) {
  arrivals_.push_back(
      {MonotonicNanos(), static_cast<uint32_t>(bytes), static_cast<uint32_t>(graphs)});
  if (arrivals_.size() == 1) has_begun_.store(true, std::memory_order_release);
}

void BlockingStream::Start() {
  thread_ = std::thread([this] { Run(); });
}

bool BlockingStream::has_ended() {
  const absl::MutexLock lock(&mutex_);
  return status_.has_value();
}

void BlockingStream::Cancel() {
  {
    const absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
  }
  CancelReading();
}

absl::Status BlockingStream::Wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](std::optional<absl::Status>* status) { return status->has_value(); }, &status_));
  return *status_;
}

void BlockingStream::Run() {
  const absl::Status status = Read();
  const absl::MutexLock lock(&mutex_);
  status_ = is_cancelled_ && absl::IsCancelled(status) ? absl::OkStatus() : status;
}

void BlockingStream::Leave() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

absl::StatusOr<std::optional<uint64_t>> CountNothing(const grpc::ByteBuffer&) { return 0; }

CycleStream::CycleStream(std::shared_ptr<grpc::Channel> channel, std::string method,
                         const grpc::ByteBuffer& first, const std::vector<grpc::ByteBuffer>* cycle,
                         std::size_t first_of_cycle, MessageReader reader)
    : stub_(std::move(channel)),
      method_(std::move(method)),
      first_(first),
      cycle_(cycle),
      reader_(std::move(reader)),
      next_(cycle == nullptr ? 0 : first_of_cycle % cycle->size()) {}

void CycleStream::Start() {
  stub_.PrepareBidiStreamingCall(&context_, method_, {}, this);
  StartRead(&response_);
  if (cycle_ == nullptr) {
    StartWriteLast(&first_, {});
  } else {
    StartWrite(&first_);
  }
  StartCall();
}

bool CycleStream::has_ended() {
  const absl::MutexLock lock(&mutex_);
  return status_.has_value();
}

void CycleStream::Cancel() {
  {
    const absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
  }
  context_.TryCancel();
}

absl::Status CycleStream::Wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](std::optional<absl::Status>* status) { return status->has_value(); }, &status_));
  return *status_;
}

void CycleStream::OnReadDone(bool ok) {
  if (!ok) return;
  const absl::StatusOr<std::optional<uint64_t>> graphs = reader_(response_);
  if (!graphs.ok()) {
    read_status_ = graphs.status();
    context_.TryCancel();
    return;
  }
  if (graphs->has_value()) Record(response_.Length(), **graphs);
  StartRead(&response_);
}

void CycleStream::OnWriteDone(bool ok) {
  if (!ok || cycle_ == nullptr) return;
  const grpc::ByteBuffer& request = (*cycle_)[next_];
  next_ = (next_ + 1) % cycle_->size();
  StartWrite(&request);
}

void CycleStream::OnDone(const grpc::Status& status) {
  const absl::MutexLock lock(&mutex_);
  if (!read_status_.ok()) {
    status_ = read_status_;
  } else if (is_cancelled_ && status.error_code() == grpc::StatusCode::CANCELLED) {
    status_ = absl::OkStatus();
  } else if (status.ok()) {
    status_ = absl::UnavailableError("the stream ended by itself");
  } else {
    status_ = ToAbslStatus(status);
  }
}

}  // namespace packhouse::client
