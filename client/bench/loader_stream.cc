#include "client/bench/loader_stream.h"

#include <utility>

#include "absl/status/statusor.h"

namespace packhouse::client {

LoaderStream::LoaderStream(std::shared_ptr<grpc::Channel> channel, LoaderOptions options)
    : loader_(std::move(channel), std::move(options)) {}

LoaderStream::~LoaderStream() {
  Cancel();
  if (thread_.joinable()) thread_.join();
}

void LoaderStream::Start() {
  thread_ = std::thread([this] { Run(); });
}

bool LoaderStream::has_ended() {
  const absl::MutexLock lock(&mutex_);
  return status_.has_value();
}

void LoaderStream::Cancel() {
  {
    const absl::MutexLock lock(&mutex_);
    is_cancelled_ = true;
  }
  loader_.Cancel();
}

absl::Status LoaderStream::Wait() {
  const absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](std::optional<absl::Status>* status) { return status->has_value(); }, &status_));
  return *status_;
}

void LoaderStream::Run() {
  absl::Status status;
  while (status.ok()) status = LoadEpoch();
  const absl::MutexLock lock(&mutex_);
  status_ = is_cancelled_ && absl::IsCancelled(status) ? absl::OkStatus() : status;
}

absl::Status LoaderStream::LoadEpoch() {
  const int64_t start = MonotonicNanos();
  bool has_opened = false;
  while (true) {
    const absl::StatusOr<std::shared_ptr<const LoadedBatch>> batch = loader_.Next();
    if (!batch.ok()) return batch.status();
    if (*batch == nullptr) return loader_.SetEpoch(loader_.epoch() + 1);
    if (!has_opened) RecordOpening(MonotonicNanos() - start);
    has_opened = true;
    Record((*batch)->view.response_bytes(), (*batch)->view.num_graphs());
  }
}

}  // namespace packhouse::client
