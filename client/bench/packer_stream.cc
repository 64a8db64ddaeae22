#include "client/bench/packer_stream.h"

#include <cstdint>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace packhouse::client {

PackerStream::PackerStream(const std::shared_ptr<grpc::Channel>& channel, v1::PackOpen open,
                           const std::vector<grpc::ByteBuffer>& cycle, std::size_t first_of_cycle)
    : stub_(v1::PackingService::NewStub(channel)), open_(std::move(open)) {
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    grpc::ByteBuffer bytes = cycle[(first_of_cycle + i) % cycle.size()];
    v1::PackRequest request;
    if (!grpc::SerializationTraits<v1::PackRequest>::Deserialize(&bytes, &request).ok()) continue;
    chunks_.push_back(std::move(*request.mutable_graphs()));
  }
}

absl::Status PackerStream::Read() {
  absl::StatusOr<std::unique_ptr<PackStream>> opened =
      PackStream::Open(*stub_, open_, {.lane = LaneUse::kRequired});
  if (!opened.ok()) return opened.status();
  PackStream* stream = opened->get();
  {
    const absl::MutexLock lock(&mutex_);
    stream_ = *std::move(opened);
    if (is_cancelled_) stream->Cancel();
  }
  std::thread writer([this, stream] {
    for (std::size_t i = 0; stream->Send(chunks_[i % chunks_.size()]).ok(); ++i) {
    }
  });
  absl::StatusOr<std::optional<v1::PackResponse>> response = std::nullopt;
  while ((response = stream->Next()).ok() && response->has_value()) {
    if (!(*response)->has_batch()) continue;
    Record((*response)->ByteSizeLong(), (*response)->batch().graph_ids().size() / sizeof(uint64_t));
  }
  stream->Cancel();
  writer.join();
  return response.ok() ? absl::UnavailableError("the stream ended by itself") : response.status();
}

void PackerStream::CancelReading() {
  const absl::MutexLock lock(&mutex_);
  is_cancelled_ = true;
  if (stream_ != nullptr) stream_->Cancel();
}

}  // namespace packhouse::client
