// The batches of one worker, epoch by epoch; each graph of an epoch reaches one worker once.
//
//   LoaderOptions options;
//   options.spec = ...;                     // data set, job, seed, limits, padding
//   Loader loader(channel, options);
//   for (uint64_t epoch = 0; epoch < 10; ++epoch) {
//     RETURN_IF_ERROR(loader.SetEpoch(epoch));
//     while (true) {
//       absl::StatusOr<std::shared_ptr<const LoadedBatch>> batch = loader.Next();
//       if (!batch.ok()) return batch.status();
//       if (*batch == nullptr) break;       // The end of the epoch.
//       Train((*batch)->view.tensors());
//     }
//     Save(loader.State());
//   }
#ifndef PACKHOUSE_CLIENT_CPP_LOADER_H_
#define PACKHOUSE_CLIENT_CPP_LOADER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/acknowledger.h"
#include "client/cpp/batch_view.h"
#include "client/cpp/dataset_retry.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

struct LoaderOptions {
  // The same for all workers of the job. Its `epoch` is where the loader begins.
  v1::EpochSpec spec;
  // How workers share an epoch: by rank, all with the same number of steps; or, if `dynamic` is
  // set, first come, first served.
  v1::Ranked ranked = OneRank();
  std::optional<v1::Dynamic> dynamic;
  // One pass of which the server keeps nothing, as for validation: `spec` names no job, nothing is
  // acknowledged, there is no state. SetEpoch after the end goes back to the beginning. Not with
  // `dynamic`.
  bool is_evaluation = false;
  // Batches sent and not acknowledged, at most; 0: 16. It also bounds speed, as an acknowledgement
  // waits for the server's disk: take 64 for thousands of batches a second.
  uint32_t max_in_flight = 0;
  // Names one start of the trainer, for all of its workers the same, new after each restart. Needed
  // if several workers load states.
  std::string attempt;
  // A batch is acknowledged when the next one is asked for. Else only by Acknowledge().
  bool acknowledges_itself = true;
  // Of each try of a unary call.
  absl::Duration call_timeout = absl::Minutes(1);
  // A server that is away is waited for.
  RetryOptions retry;

  static v1::Ranked OneRank() {
    v1::Ranked ranked;
    ranked.set_num_ranks(1);
    return ranked;
  }
};

// As it was received; views are valid while it lives.
struct LoadedBatch {
  BatchView view;
  BatchLease lease;
};

// What a checkpoint keeps of a loader.
struct LoaderState {
  uint64_t epoch = 0;
  std::string cursor;
};

// What is not acknowledged comes again, to this worker or another, when this one has gone. Batches
// that come again because the connection broke or the server restarted are not given out twice.
// After an error Next() may be called again: it tries anew.
//
// Threads: Acknowledge, Flush and Cancel from any thread; all other functions from one at a time.
// The destructor needs the loader to itself, and tries to send what is acknowledged.
class Loader {
 public:
  // Connects when it is first asked for something. Several loaders may share a channel, but each
  // gets most from one of its own.
  Loader(std::shared_ptr<grpc::Channel> channel, LoaderOptions options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  // The next batch; null at the end of the epoch, when all acknowledgements are durable. Blocks.
  //
  // Errors: the server's (see LoaderService.Load), those of the retries used up; of
  // acknowledgements, see Acknowledge(); CANCELLED after Cancel().
  absl::StatusOr<std::shared_ptr<const LoadedBatch>> Next();

  // This batch is done: will be sent soon. Errors: those with which an earlier acknowledgement has
  // failed: FAILED_PRECONDITION if the trainer was started anew elsewhere, or rolled back.
  absl::Status Acknowledge(const LoadedBatch& batch);
  // Waits until all acknowledgements are durable. Errors: as Acknowledge.
  absl::Status Flush();

  // Next() gives that epoch from now on, from where the job's workers have come to. Nothing happens
  // if it is the present one and has not ended; else makes all acknowledgements durable first.
  absl::Status SetEpoch(uint64_t epoch);
  uint64_t epoch() const { return options_.spec.epoch(); }

  // What the server said when this worker came: steps, generation, schema. Loads if need be.
  absl::StatusOr<v1::LoadOpened> Opened();
  // What the epoch is like, and how far it is now; loads nothing.
  absl::StatusOr<v1::Epoch> Describe();

  // Where the epoch is; to be called after a step has been done. The batch given out last counts as
  // done, if the loader acknowledges by itself. With ranks the state is that after as many steps as
  // this rank has done, which all ranks must have done: any one rank's state serves all. Else it is
  // what all workers have done by now. FAILED_PRECONDITION if ranked steps were acknowledged out of
  // order, and for an evaluation.
  absl::StatusOr<LoaderState> State();
  // Goes on exactly where the state was taken, even if the service went further since; what earlier
  // workers do from now on is refused. `attempt` takes the place of the one in the options; empty:
  // keeps it. INVALID_ARGUMENT if an attempt is needed: for dynamic workers, and if the present one
  // has loaded already.
  absl::Status LoadState(const LoaderState& state, const std::string& attempt = "");

  // Lets a Next() that waits, and every later one, end with CANCELLED.
  void Cancel();

 private:
  class Stream;
  using BatchPointer = std::shared_ptr<const LoadedBatch>;

  v1::LoadRequest MakeRequest();
  // A batch, or null if it was `opened` or the end, `is_last_given_` then.
  absl::StatusOr<BatchPointer> Receive();
  absl::StatusOr<BatchPointer> ReceiveOnce();
  // Waits for `opened`, if it has not come.
  absl::Status Open();
  void Leave();
  void Forget();
  // Whether the batch has not been given out yet; it is from now on.
  bool TakeUp(const BatchView& view);
  // Whether waiting for the end would be waiting for the caller.
  bool HasAll();
  absl::Status AcknowledgeCurrent();
  absl::Status AcknowledgeLease(const BatchLease& lease);
  absl::StatusOr<uint64_t> StepsDone();
  // A unary call that is safe to retry.
  absl::Status Call(absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call);
  grpc::Status CallOnce(absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call) const;

  LoaderOptions options_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<v1::LoaderService::Stub> stub_;

  // Of the thread that calls Next().
  std::string start_cursor_;
  bool attempt_is_used_ = false;
  bool is_last_given_ = false;            // The server said so.
  bool ended_ = false;                    // And all is durable.
  std::optional<v1::LoadOpened> opened_;  // Of the first stream in this generation.
  uint64_t session_ = 0;
  std::optional<BatchLease> current_;  // Given out last, not acknowledged yet.

  absl::Mutex mutex_;
  std::shared_ptr<Stream> stream_ ABSL_GUARDED_BY(mutex_);
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_set<uint64_t> given_ ABSL_GUARDED_BY(mutex_);
  // Steps of batches that were given out and are not acknowledged, by number.
  absl::btree_map<uint64_t, uint64_t> held_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_left_ ABSL_GUARDED_BY(mutex_) = 0;  // When this worker came.
  uint64_t next_given_step_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<uint64_t> last_acknowledged_step_ ABSL_GUARDED_BY(mutex_);

  // Ends first: its thread looks at the stream.
  Acknowledger acknowledger_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LOADER_H_
