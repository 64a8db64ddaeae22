// One worker that loads epoch after epoch, as a trainer does: through the client's Loader.
#ifndef PACKHOUSE_CLIENT_BENCH_LOADER_STREAM_H_
#define PACKHOUSE_CLIENT_BENCH_LOADER_STREAM_H_

#include <memory>
#include <optional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/bench/bench_stream.h"
#include "client/cpp/loader.h"
#include "grpcpp/channel.h"

namespace packhouse::client {

// Loads its share of each epoch, starting with the epoch of `options`. A batch counts when the
// Loader gives it, and is acknowledged when the next one is asked for. Has a thread of its own.
class LoaderStream final : public BenchStream {
 public:
  LoaderStream(std::shared_ptr<grpc::Channel> channel, LoaderOptions options);
  LoaderStream(const LoaderStream&) = delete;
  LoaderStream& operator=(const LoaderStream&) = delete;
  ~LoaderStream() override;

  void Start() override;
  bool has_ended() override;
  void Cancel() override;
  absl::Status Wait() override;

 private:
  void Run();
  // Loads until the end of the epoch.
  absl::Status LoadEpoch();

  Loader loader_;
  std::thread thread_;

  absl::Mutex mutex_;
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_LOADER_STREAM_H_
