// One worker that loads epoch after epoch, as a trainer does: through the client's Loader.
#ifndef PACKHOUSE_CLIENT_BENCH_LOADER_STREAM_H_
#define PACKHOUSE_CLIENT_BENCH_LOADER_STREAM_H_

#include <memory>

#include "absl/status/status.h"
#include "client/bench/bench_stream.h"
#include "client/cpp/loader.h"
#include "grpcpp/channel.h"

namespace packhouse::client {

// Loads its share of each epoch, starting with the epoch of `options`. A batch counts when the
// Loader gives it, and is acknowledged when the next one is asked for.
class LoaderStream final : public BlockingStream {
 public:
  LoaderStream(std::shared_ptr<grpc::Channel> channel, LoaderOptions options);
  LoaderStream(const LoaderStream&) = delete;
  LoaderStream& operator=(const LoaderStream&) = delete;
  ~LoaderStream() override { Leave(); }

 private:
  absl::Status Read() override;
  void CancelReading() override { loader_.Cancel(); }
  // Loads until the end of the epoch.
  absl::Status LoadEpoch();

  Loader loader_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_LOADER_STREAM_H_
