// One worker that loads epoch after epoch, with as little client code as possible. This shows what
// the service can do. loader_stream.h does the same through the library.
#ifndef PACKHOUSE_CLIENT_BENCH_LOAD_STREAM_H_
#define PACKHOUSE_CLIENT_BENCH_LOAD_STREAM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "client/bench/bench_stream.h"
#include "grpcpp/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// Loads its share of each epoch, starting with the epoch of `request`. Acknowledges many batches at
// once.
class LoadStream final : public BenchStream {
 public:
  LoadStream(std::shared_ptr<grpc::Channel> channel, v1::LoadRequest request);
  ~LoadStream() override;

  void Start() override;
  bool has_ended() override;
  void Cancel() override;
  absl::Status Wait() override;

 private:
  class Call;
  struct Acknowledgement;

  void OnCallDone(const absl::Status& status);
  void Acknowledge(std::unique_ptr<Acknowledgement> acknowledgement);
  bool IsOver() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return status_.has_value() && num_acknowledging_ == 0;
  }

  grpc::GenericStub stub_;
  const std::unique_ptr<v1::LoaderService::Stub> loader_;
  // Only the thread of the current call uses it.
  v1::LoadRequest request_;

  absl::Mutex mutex_;
  std::unique_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int num_acknowledging_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status acknowledge_status_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_LOAD_STREAM_H_
