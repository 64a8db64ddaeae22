#include "client/bench/loader_stream.h"

#include <utility>

#include "absl/status/statusor.h"

namespace packhouse::client {

LoaderStream::LoaderStream(std::shared_ptr<grpc::Channel> channel, LoaderOptions options)
    : loader_(std::move(channel), std::move(options)) {}

absl::Status LoaderStream::Read() {
  absl::Status status;
  while (status.ok()) status = LoadEpoch();
  return status;
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
