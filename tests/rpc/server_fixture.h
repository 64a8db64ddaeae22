// A server to test against, in-process or over TCP, whose time and observers the test holds.
#ifndef PACKHOUSE_TESTS_RPC_SERVER_FIXTURE_H_
#define PACKHOUSE_TESTS_RPC_SERVER_FIXTURE_H_

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "packhouse/v1/histogram.grpc.pb.h"
#include "packhouse/v1/packing.grpc.pb.h"
#include "packhouse/v1/planning.grpc.pb.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/listen/server.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "service/wings/graphs/services/graph_server.h"
#include "service/wings/partition/services/partition_server.h"
#include "service/wings/tfgnn/tfgnn_server.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::rpc {

// Counts everything it is told and lets tests wait for it. Thread-safe.
class CountingObserver final : public RpcObserver, public PackObserverFactory {
 public:
  std::unique_ptr<PackObserver> ForStream(const SizeSchema&, const PackedFor&) override {
    return std::make_unique<Stream>(this);
  }
  void OnStarted(Method method) override {
    absl::MutexLock lock(&mutex_);
    ++open_[method];
  }
  void OnFinished(Method method, absl::StatusCode code, absl::Duration) override {
    absl::MutexLock lock(&mutex_);
    --open_[method];
    ++finished_[{method, code}];
  }
  void OnPlanned(absl::Duration, double) override {}
  void OnUnsent(Method, int64_t responses, int64_t) override {
    absl::MutexLock lock(&mutex_);
    unsent_ += responses;
  }

  uint64_t batches() {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  uint64_t most_pending_bytes() {
    absl::MutexLock lock(&mutex_);
    return most_pending_bytes_;
  }
  int finished(Method method, absl::StatusCode code) {
    absl::MutexLock lock(&mutex_);
    return finished_[{method, code}];
  }
  bool HasSeen(Method method) {
    absl::MutexLock lock(&mutex_);
    return open_.contains(method);
  }
  void AwaitStarted(Method method) {
    const auto started = [this, method] { return open_[method] > 0; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&started));
  }
  // Until the server knows of all responses that they have gone.
  void AwaitAllSent() {
    const auto all_sent = [this] { return unsent_ == 0; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&all_sent));
  }
  void AwaitBatches(uint64_t n) {
    const auto enough = [this, n] { return batches_ >= n; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
  }
  void AwaitFinished(Method method, absl::StatusCode code) { AwaitFinished(method, code, code); }
  // With either.
  void AwaitFinished(Method method, absl::StatusCode code, absl::StatusCode other) {
    const auto done = [this, method, code, other] {
      return finished_[{method, code}] + finished_[{method, other}] > 0;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&done));
  }

 private:
  class Stream final : public PackObserver {
   public:
    explicit Stream(CountingObserver* all) : all_(all) {}
    void OnBatch(const Batch&, absl::Span<const uint64_t>) override {
      absl::MutexLock lock(&all_->mutex_);
      ++all_->batches_;
    }
    void OnRejectedTooLarge(uint64_t) override {}
    void OnPending(uint64_t, uint64_t bytes) override {
      absl::MutexLock lock(&all_->mutex_);
      all_->most_pending_bytes_ = std::max(all_->most_pending_bytes_, bytes);
    }

   private:
    CountingObserver* const all_;
  };

  absl::Mutex mutex_;
  uint64_t batches_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t unsent_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t most_pending_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<Method, int> open_ ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<Method, absl::StatusCode>, int> finished_ ABSL_GUARDED_BY(mutex_);
};

// A Pack stream with all it needs.
struct PackCall {
  grpc::ClientContext context;
  std::unique_ptr<v1::PackingService::Stub> stub;
  std::unique_ptr<grpc::ClientReaderWriter<v1::PackRequest, v1::PackResponse>> stream;
};

enum class Transport { kInProcess, kTcp };

class ServerTest : public ::testing::TestWithParam<Transport> {
 protected:
  // A server that is started afterwards has a folder for data.
  void OpenDatasets(uint64_t max_bytes = uint64_t{1} << 30) {
    LmdbDatasetStore::Options options;
    options.max_bytes = max_bytes;
    options.folder = folder_.path() + "/datasets";
    PH_ASSERT_OK_AND_ASSIGN(datasets_, LmdbDatasetStore::Open(options));
    LmdbJobLogs::Options log;
    log.first_revision = ++num_openings_ << 20;
    log.folder = folder_.path() + "/delivery";
    PH_ASSERT_OK_AND_ASSIGN(ledger_, LmdbJobLogs::Open(log));
  }

  void StartServer(ServerOptions options = {}) {
    options.address = GetParam() == Transport::kTcp ? "127.0.0.1:0" : "";
    options.job_logs = ledger_.get();
    options.wings.push_back(ServeTfgnn());
    options.wings.push_back(ServeGraphs(source_graphs_));
    options.wings.push_back(ServePartitions(source_graphs_, /*engine=*/nullptr));
    PH_ASSERT_OK_AND_ASSIGN(
        server_, Server::Start(options, &clock_, &observer_, &observer_, datasets_.get()));
    channel_ = NewChannel();
  }

  std::shared_ptr<grpc::Channel> NewChannel() {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    // Each test has a server of its own, even on a port that was used before.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (GetParam() == Transport::kInProcess) return server_->InProcessChannel(arguments);
    return grpc::CreateCustomChannel(server_->address(), grpc::InsecureChannelCredentials(),
                                     arguments);
  }

  std::unique_ptr<PackCall> StartPack() {
    auto call = std::make_unique<PackCall>();
    call->stub = v1::PackingService::NewStub(channel_);
    call->stream = call->stub->Pack(&call->context);
    return call;
  }

  SimulatedClock clock_;
  CountingObserver observer_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<DatasetStore> datasets_;  // Null: no folder for data.
  uint64_t num_openings_ = 0;
  std::unique_ptr<JobLogs> ledger_;            // Likewise.
  SourceGraphStore* source_graphs_ = nullptr;  // A test may set it.
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

inline std::string TransportName(const ::testing::TestParamInfo<Transport>& info) {
  return info.param == Transport::kTcp ? "Tcp" : "InProcess";
}

// Opens a stream of sizes of nodes and edges with one limit, on nodes.
inline v1::PackRequest OpenSizes(uint64_t nodes) {
  v1::PackRequest request;
  v1::Capacity& capacity = *request.mutable_open()->mutable_limits()->add_capacities();
  capacity.set_component("nodes");
  capacity.set_rows(nodes);
  return request;
}

// Graphs of (nodes, 0), numbered from `first_id`.
inline v1::PackRequest SizesOf(const std::vector<uint32_t>& nodes, uint64_t first_id) {
  std::vector<uint32_t> counts;
  for (const uint32_t n : nodes) counts.insert(counts.end(), {n, 0});
  v1::PackRequest request;
  request.mutable_sizes()->set_num_graphs(nodes.size());
  request.mutable_sizes()->set_counts(Uint32sToWire(counts));
  request.mutable_sizes()->set_first_id(first_id);
  return request;
}

inline absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Reads what is left of a stream, which must be half-closed or failing, and returns how it ended.
template <typename Stream>
absl::Status Finish(Stream& stream) {
  v1::PackResponse response;
  while (stream.Read(&response)) {
  }
  return ToAbsl(stream.Finish());
}

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_TESTS_RPC_SERVER_FIXTURE_H_
