// One worker that loads epoch after epoch through the client's Loader, as a trainer does.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_LOAD_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_LOAD_H_

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
class LoadStream final : public BenchStream {
 public:
  LoadStream(std::shared_ptr<grpc::Channel> channel, LoaderOptions options);
  LoadStream(const LoadStream&) = delete;
  LoadStream& operator=(const LoadStream&) = delete;
  ~LoadStream() override;

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

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_LOAD_H_
