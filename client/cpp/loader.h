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
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/acknowledger.h"
#include "client/cpp/batch_view.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/job_servers.h"
#include "client/cpp/lane_use.h"
#include "client/cpp/own_process.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

struct LoaderOptions {
  // The same for all workers of the job. The loader begins with its `epoch`.
  v1::EpochSpec spec;
  // How workers share an epoch: by rank, all with the same number of steps; or, if `dynamic` is
  // set, first come, first served.
  v1::Ranked ranked = OneRank();
  std::optional<v1::Dynamic> dynamic;
  // One pass of which the server keeps nothing, for example for validation. `spec` names no job,
  // nothing is acknowledged, and there is no state. SetEpoch after the end goes back to the
  // beginning. Not with `dynamic`.
  bool is_evaluation = false;
  // The most batches that are sent and not acknowledged; 0: 16. It also bounds the speed, since an
  // acknowledgement waits for the server's disk: take 64 for thousands of batches a second.
  uint32_t max_in_flight = 0;
  // Names one start of the trainer: the same for all of its workers, new after each restart. Needed
  // if several workers load states.
  std::string attempt;
  // True: a batch is acknowledged when the next one is asked for. False: only by Acknowledge().
  bool acknowledges_itself = true;
  // The time of each try of a unary call.
  absl::Duration call_timeout = absl::Minutes(1);
  // How to wait for a server that is away.
  RetryOptions retry;
  // Makes a channel to the owner of the job (HOST:PORT), where several servers share the jobs, and
  // the one that was asked has named it. It should have the options of the loader's own channel.
  JobServers::Connect connect = &JobServers::ConnectToOwner;
  // Further servers that share the jobs (HOST:PORT; AddressesOf() takes a list apart), to be asked
  // in turn while the one of the loader's own channel is away, by channels that `connect` makes.
  // With them, a server that is stopped or cut off is noticed within four seconds: after nothing
  // came for `quiet` it is asked whether it lives, and left if it has not answered in `silence`.
  std::vector<std::string> other_servers = {};
  absl::Duration quiet = absl::Seconds(1);
  absl::Duration silence = absl::Seconds(2);
  // Whether batches come through memory that the server shares (docs/lane.md). kIfPossible: if the
  // server offers it and is on this host. kRequired: otherwise Next() fails with
  // FAILED_PRECONDITION, which says why. The first batches of a stream, and those that find no
  // place there, come by gRPC in any case. Batches that are kept keep their place; when too many
  // are, further ones are copies.
  LaneUse lane = LaneUse::kIfPossible;

  static v1::Ranked OneRank() {
    v1::Ranked ranked;
    ranked.set_num_ranks(1);
    return ranked;
  }
};

// A batch as it was received. Views are valid while it lives.
struct LoadedBatch {
  BatchView view;
  BatchLease lease;
};

// What a checkpoint keeps of a loader.
struct LoaderState {
  uint64_t epoch = 0;
  std::string cursor;
};

// Batches that are not acknowledged come again when this worker has gone, to it or to another.
// Batches that come again because the connection broke or the server restarted are not given out
// twice. After an error Next() may be called again; it then tries anew.
//
// Threads: Acknowledge, Flush and Cancel from any thread; all other functions from one at a time.
// No other call may run during the destructor, which tries to send the acknowledgements.
//
// A process that was forked has its parent's batches and may read them. The loader stays the
// parent's: each call fails with FAILED_PRECONDITION, and Cancel() and the destructor do nothing.
class Loader {
 public:
  // Connects when it is first used. Several loaders may share a channel, but each is fastest with
  // one of its own. The channel may lead to any of several servers that share jobs
  // (ChannelOptions::load_balancing_policy).
  Loader(std::shared_ptr<grpc::Channel> channel, LoaderOptions options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  // The next batch; null at the end of the epoch, when all acknowledgements are durable. Blocks.
  //
  // Errors: the server's (see LoaderService.Load), once retries are used up; those of
  // Acknowledge(); CANCELLED after Cancel().
  absl::StatusOr<std::shared_ptr<const LoadedBatch>> Next();

  // Marks the batch as done; this is sent soon. Errors: those of earlier acknowledgements, such as
  // FAILED_PRECONDITION if the trainer was started anew elsewhere, or rolled back.
  absl::Status Acknowledge(const LoadedBatch& batch);
  // Waits until all acknowledgements are durable. Errors: as Acknowledge.
  absl::Status Flush();

  // From now on Next() gives that epoch, from where the job's workers are. Does nothing if it is
  // the present epoch and has not ended. Otherwise first makes all acknowledgements durable.
  absl::Status SetEpoch(uint64_t epoch);
  uint64_t epoch() const;

  // The server's `opened` for this worker: steps, generation, schema. Loads first if necessary.
  absl::StatusOr<v1::LoadOpened> Opened();
  // How the present stream's batches come; kGrpc before the first stream is open. Thread-safe.
  LoadTransport transport() const;
  // The figures of the epoch and its progress; loads nothing.
  absl::StatusOr<v1::Epoch> Describe();

  // The progress of the epoch, for a checkpoint. Call it after a step has been done: the batch that
  // was given out last counts as done if the loader acknowledges by itself. With ranks, the state
  // is that after the steps that this rank has done. All ranks must have done as many steps; then
  // the state of any one rank is valid for all. Without ranks, it is what all workers have done by
  // now. FAILED_PRECONDITION if ranked steps were acknowledged out of order, and for an evaluation.
  absl::StatusOr<LoaderState> State();
  // Goes on exactly where the state was taken, even if the service went further since. From now on
  // calls of earlier workers are refused. `attempt` replaces the one in the options; empty: keeps
  // it. INVALID_ARGUMENT if `attempt` is empty and a new one is needed: for dynamic workers without
  // one, and if the present attempt has loaded already.
  absl::Status LoadState(const LoaderState& state, const std::string& attempt = "");

  // Makes a waiting Next(), and every later one, end with CANCELLED.
  void Cancel();

 private:
  class Impl;

  const std::unique_ptr<Impl, OwnProcess> impl_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LOADER_H_
