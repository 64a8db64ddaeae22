// One worker that loads epoch after epoch.
#ifndef PACKHOUSE_CLIENT_BENCH_BENCH_LOAD_H_
#define PACKHOUSE_CLIENT_BENCH_BENCH_LOAD_H_

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

// Loads its lane of each epoch, from `request`'s on, and acknowledges many batches at once.
class LoadStream final : public BenchStream {
 public:
  LoadStream(std::shared_ptr<grpc::Channel> channel, v1::LoadRequest request);
  ~LoadStream() override;

  void Start() override;
  bool has_ended() override;
  void Cancel() override;
  absl::Status Wait() override;

  // From the call of each epoch to its first batch. When the stream has ended.
  const std::vector<int64_t>& opening_nanos() const { return opening_nanos_; }

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
  // The current call's thread's.
  v1::LoadRequest request_;
  std::vector<int64_t> opening_nanos_;

  absl::Mutex mutex_;
  std::unique_ptr<Call> call_ ABSL_GUARDED_BY(mutex_);
  bool is_cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  int num_acknowledging_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status acknowledge_status_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Status> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_BENCH_LOAD_H_
