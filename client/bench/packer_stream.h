// One stream of Pack through the client's PackStream, by a lane both ways.
#ifndef PACKHOUSE_CLIENT_BENCH_PACKER_STREAM_H_
#define PACKHOUSE_CLIENT_BENCH_PACKER_STREAM_H_

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/bench/bench_stream.h"
#include "client/cpp/pack_stream.h"
#include "grpcpp/channel.h"
#include "grpcpp/support/byte_buffer.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/packing.pb.h"

namespace packhouse::client {

// Sends the chunks of a cycle of requests over and over.
class PackerStream final : public BlockingStream {
 public:
  // `cycle` begins at `first_of_cycle`.
  PackerStream(const std::shared_ptr<grpc::Channel>& channel, v1::PackOpen open,
               const std::vector<grpc::ByteBuffer>& cycle, std::size_t first_of_cycle);
  PackerStream(const PackerStream&) = delete;
  PackerStream& operator=(const PackerStream&) = delete;
  ~PackerStream() override { Leave(); }

 private:
  absl::Status Read() override;
  void CancelReading() override;

  const std::unique_ptr<v1::PackingService::Stub> stub_;
  const v1::PackOpen open_;
  std::vector<v1::GraphChunk> chunks_;
  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unique_ptr<PackStream> stream_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_PACKER_STREAM_H_
