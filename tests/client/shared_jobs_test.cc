// The C++ loader where several servers share the jobs: real servers, over a store in memory.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/channel.h"
#include "client/cpp/job_client.h"
#include "client/cpp/loader.h"
#include "client/cpp/receipt_client.h"
#include "gmock/gmock.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "service/server/listen/server.h"
#include "service/stores/keys/replica_lease.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

constexpr uint64_t kNumSharedGraphs = 60;
constexpr absl::Duration kReplicaLease = absl::Seconds(10);

struct Replica {
  Replica(FakeKeyValueServers& servers, SimulatedClock& clock, const std::string& name,
          std::string at)
      : address(std::move(at)),
        connection(&servers),
        lease(&connection, {name, address, kReplicaLease, absl::Seconds(1)},
              [&clock] { return clock.Now(); }),
        logs(&connection, &lease, name, uint64_t{1} << 20) {}

  const std::string address;
  FakeConnection connection;
  ReplicaLease lease;
  EtcdJobLogs logs;
  std::unique_ptr<rpc::Server> server;
};

// A server that takes calls and says nothing. If it is healthy, it answers those that ask whether
// it is, and ends all others with NOT_FOUND once it was asked twice.
class QuietServer : public grpc::CallbackGenericService {
 public:
  QuietServer(const std::string& address, bool is_healthy) : is_healthy_(is_healthy) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterCallbackGenericService(this);
    server_ = builder.BuildAndStart();
  }
  ~QuietServer() override { server_->Shutdown(std::chrono::system_clock::now()); }

  bool has_calls() const {
    absl::MutexLock lock(&mutex_);
    return num_calls_ != 0;
  }

 private:
  struct Call final : grpc::ServerGenericBidiReactor {
    void OnDone() override { delete this; }
    void OnCancel() override { FinishOnce(grpc::Status::CANCELLED); }
    void FinishOnce(const grpc::Status& status) {
      if (!is_finished.exchange(true)) Finish(status);
    }
    std::atomic<bool> is_finished = false;
  };
  struct HealthyCall final : grpc::ServerGenericBidiReactor {
    HealthyCall() { StartWriteAndFinish(&serving, grpc::WriteOptions(), grpc::Status::OK); }
    void OnDone() override { delete this; }
    // HealthCheckResponse with SERVING.
    grpc::Slice bytes{"\x08\x01", 2};
    grpc::ByteBuffer serving{&bytes, 1};
  };

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override {
    absl::MutexLock lock(&mutex_);
    if (context->method() != "/grpc.health.v1.Health/Check") {
      ++num_calls_;
      auto* const call = new Call;
      waiting_.push_back(call);
      return call;
    }
    if (!is_healthy_) return new Call;
    if (++num_checks_ == 2) {
      for (Call* const call : waiting_) {
        call->FinishOnce(grpc::Status(grpc::StatusCode::NOT_FOUND, "the quiet server has spoken"));
      }
    }
    return new HealthyCall;
  }

  const bool is_healthy_;
  mutable absl::Mutex mutex_;
  int num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  int num_checks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<Call*> waiting_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<grpc::Server> server_;
};

class SharedJobsTest : public testing::Test {
 protected:
  void SetUp() override {
    LmdbDatasetStore::Options store;
    store.folder = absl::StrCat(folder_.path(), "/datasets");
    store.max_bytes = uint64_t{1} << 30;
    PH_ASSERT_OK_AND_ASSIGN(datasets_, LmdbDatasetStore::Open(store));
    const GraphSchema schema =
        GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kFloat32, {3}, 0, {}, {}}})
            .value();
    Random random(5);
    ASSERT_THAT(datasets_->Create("graphs", schema, DatasetOptions()), IsOk());
    const GraphChunk chunk = RandomChunk(random, &schema, kNumSharedGraphs, 9, 1000);
    ASSERT_THAT(datasets_->Append("graphs", chunk, {}, std::nullopt), IsOk());
    ASSERT_THAT(datasets_->Seal("graphs"), IsOk());
    for (const char* name : {"a", "b"}) {
      replicas_.push_back(std::make_unique<Replica>(
          servers_, clock_, name, absl::StrCat("unix:", folder_.path(), "/socket-", name)));
      Replica& replica = *replicas_.back();
      ASSERT_THAT(replica.lease.Tick(), IsOk());
      rpc::ServerOptions options;
      options.address = replica.address;
      options.job_logs = &replica.logs;
      PH_ASSERT_OK_AND_ASSIGN(replica.server, rpc::Server::Start(options, &clock_, &observer_,
                                                                 &observer_, datasets_.get()));
    }
  }
  ~SharedJobsTest() override { replicas_.clear(); }

  Replica& first() { return *replicas_[0]; }
  Replica& second() { return *replicas_[1]; }

  // A loader that knows the first server only. While it waits, time goes on.
  std::unique_ptr<Loader> MakeLoader(const std::string& job) {
    return MakeLoader(job, first().address, {});
  }
  std::unique_ptr<Loader> MakeLoader(const std::string& job, const std::string& address,
                                     std::vector<std::string> others,
                                     absl::Duration quiet = absl::Seconds(1),
                                     absl::Duration silence = absl::Seconds(2)) {
    LoaderOptions options;
    options.spec.set_dataset("graphs");
    options.spec.set_job(job);
    options.spec.set_seed(7);
    v1::Limits& limits = *options.spec.add_rank_groups()->add_shapes();
    for (const auto& [component, rows] :
         std::map<std::string, uint64_t>{{"nodes", 24}, {"edges", 60}, {"graphs", 6}}) {
      v1::Capacity& capacity = *limits.add_capacities();
      capacity.set_component(component);
      capacity.set_rows(rows);
    }
    options.max_in_flight = 2;
    // Acknowledgements wait in earnest.
    options.retry.first_wait = options.retry.longest_wait = absl::Milliseconds(10);
    options.retry.sleep = [this](absl::Duration) {
      absl::MutexLock lock(&waiting_);
      clock_.Advance(absl::Seconds(1));
      EXPECT_THAT(first().lease.Tick(), IsOk());
      second().lease.Tick().IgnoreError();
      for (const auto& replica : replicas_) {
        if (replica->server != nullptr) replica->server->SweepJobs().IgnoreError();
      }
    };
    ChannelOptions channel;
    channel.retries = false;
    options.other_servers = std::move(others);
    options.quiet = quiet;
    options.silence = silence;
    return std::make_unique<Loader>(MakeChannel(address, channel), options);
  }

  // How often each graph came, in at most so many batches.
  static void ReadSome(Loader& loader, size_t batches, std::map<uint64_t, int>& counts) {
    for (size_t i = 0; i < batches; ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader.Next());
      if (batch == nullptr) return;
      const absl::string_view ids = batch->view.graph_ids();
      for (size_t k = 0; k < ids.size(); k += sizeof(uint64_t)) {
        uint64_t id = 0;
        std::memcpy(&id, ids.data() + k, sizeof id);
        ++counts[id];
      }
    }
  }
  static void ExpectAllOnce(const std::map<uint64_t, int>& counts) {
    EXPECT_THAT(counts, testing::SizeIs(kNumSharedGraphs));
    EXPECT_THAT(counts, testing::Each(testing::Pair(testing::_, 1)));
  }

  // A job that the second server has, once it is loaded.
  std::string JobOfSecond() {
    for (int i = 0;; ++i) {
      std::string job = absl::StrCat("job", i);
      if (RendezvousOwner(job, first().lease.ReadMembers().value())->address == second().address) {
        return job;
      }
    }
  }

  // A call may be about to end.
  void SweepUntilReleased(const std::string& job) {
    while (first().logs.OwnerOf(job).ok()) second().server->SweepJobs().IgnoreError();
    EXPECT_THAT(first().logs.OwnerOf(job), StatusIs(absl::StatusCode::kNotFound, testing::_));
  }

  SimulatedClock clock_;
  absl::Mutex waiting_;
  FakeKeyValueServers servers_{&clock_};
  rpc::CountingObserver observer_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  std::unique_ptr<DatasetStore> datasets_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

TEST_F(SharedJobsTest, ALoaderGoesWhereItsJobIs) {
  const std::string job = JobOfSecond();
  const auto loader = MakeLoader(job);
  std::map<uint64_t, int> counts;
  ReadSome(*loader, kNumSharedGraphs, counts);
  ExpectAllOnce(counts);
  PH_ASSERT_OK_AND_ASSIGN(const JobOwner owner, first().logs.OwnerOf(job));
  EXPECT_EQ(owner.address, second().address);
  // Unary calls go there too.
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, loader->Describe());
  EXPECT_EQ(epoch.num_done(), epoch.num_batches());
}

// One that is stopped, or cut off, still has its connection.
TEST_F(SharedJobsTest, ASilentServerIsLeftForAnother) {
  const std::string address = absl::StrCat("unix:", folder_.path(), "/socket-silent");
  const QuietServer silent(address, /*is_healthy=*/false);
  const auto loader = MakeLoader("job", address, {first().address});
  std::map<uint64_t, int> counts;
  ReadSome(*loader, kNumSharedGraphs, counts);
  ExpectAllOnce(counts);
  EXPECT_TRUE(silent.has_calls());
}

// As one that plans for long.
TEST_F(SharedJobsTest, AQuietServerThatAnswersIsNotLeft) {
  const std::string address = absl::StrCat("unix:", folder_.path(), "/socket-quiet");
  const QuietServer quiet(address, /*is_healthy=*/true);
  const auto loader =
      MakeLoader("job", address, {first().address}, absl::Milliseconds(10), absl::Hours(1));
  EXPECT_THAT(loader->Next(), StatusIs(absl::StatusCode::kNotFound,
                                       testing::HasSubstr("the quiet server has spoken")));
}

// The unary call is the first that it makes: the refusal says where to go.
TEST_F(SharedJobsTest, ACallToAnotherServerIsToldWhereTheJobIs) {
  const auto loader = MakeLoader(JobOfSecond());
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, loader->Describe());
  EXPECT_GT(epoch.num_batches(), 0U);
}

// Whichever server they ask, and though it has not the job.
TEST_F(SharedJobsTest, ClientsOfJobsAndReceiptsGoWhereTheJobIs) {
  const std::string job = JobOfSecond();
  const auto loader = MakeLoader(job);
  std::map<uint64_t, int> counts;
  ReadSome(*loader, kNumSharedGraphs, counts);
  const JobClient jobs(MakeChannel(first().address));
  PH_ASSERT_OK_AND_ASSIGN(const v1::Job shown, jobs.Get(job));
  EXPECT_EQ(shown.num_epochs(), 1U);
  v1::RebuildBatchesRequest request;
  request.set_job(job);
  request.add_numbers(0);
  int num_batches = 0;
  EXPECT_THAT(ReceiptClient(MakeChannel(first().address))
                  .RebuildBatches(request,
                                  [&](const v1::RebuildBatchesResponse& response) {
                                    num_batches += response.has_batch();
                                    return absl::OkStatus();
                                  }),
              IsOk());
  EXPECT_EQ(num_batches, 1);
  EXPECT_THAT(jobs.Delete(job), IsOk());
  EXPECT_THAT(jobs.Get(job), StatusIs(absl::StatusCode::kNotFound, testing::_));
}

TEST_F(SharedJobsTest, AnotherServerTakesTheJobsOfOneThatIsGone) {
  const std::string job = JobOfSecond();
  const auto loader = MakeLoader(job);
  std::map<uint64_t, int> counts;
  ReadSome(*loader, 3, counts);
  PH_ASSERT_OK_AND_ASSIGN(const v1::LoadOpened before, loader->Opened());
  PH_ASSERT_OK_AND_ASSIGN(const JobOwner lost, first().logs.OwnerOf(job));
  // Its lease goes on for a while.
  second().connection.SetFaults([] { return StoreFault::kUnreachable; });
  second().server = nullptr;
  ReadSome(*loader, kNumSharedGraphs, counts);
  ExpectAllOnce(counts);
  PH_ASSERT_OK_AND_ASSIGN(const JobOwner owner, first().logs.OwnerOf(job));
  EXPECT_EQ(owner.address, first().address);
  EXPECT_GT(owner.revision, lost.revision);
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, loader->Describe());
  EXPECT_EQ(epoch.num_done(), epoch.num_batches());
  EXPECT_EQ(epoch.generation(), before.generation());
  // What it has said is good for a loader that begins anew.
  PH_ASSERT_OK_AND_ASSIGN(const LoaderState state, loader->State());
  const auto again = MakeLoader(job);
  EXPECT_THAT(again->LoadState(state), IsOk());
  counts.clear();
  ReadSome(*again, kNumSharedGraphs, counts);
  EXPECT_THAT(counts, testing::IsEmpty());
}

// Its workers are sent away once another server may have the job, even those that only wait.
TEST_F(SharedJobsTest, AServerThatIsCutOffFromTheStoreGivesItsWorkersUp) {
  const std::string job = JobOfSecond();
  const auto loader = MakeLoader(job);
  std::map<uint64_t, int> counts;
  ReadSome(*loader, 3, counts);
  second().connection.SetFaults([] { return StoreFault::kUnreachable; });
  clock_.Advance(kReplicaLease);
  EXPECT_THAT(first().lease.Tick(), IsOk());
  EXPECT_THAT(second().lease.Tick(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  second().server->SweepJobs().IgnoreError();
  ReadSome(*loader, kNumSharedGraphs, counts);
  ExpectAllOnce(counts);
  PH_ASSERT_OK_AND_ASSIGN(const JobOwner owner, first().logs.OwnerOf(job));
  EXPECT_EQ(owner.address, first().address);
}

// A name that somebody asked for, and a job that was deleted, stay with nobody.
TEST_F(SharedJobsTest, JobsOfWhichNothingIsKeptAreGivenBack) {
  const std::string job = JobOfSecond();
  v1::GetJobRequest request;
  request.set_job(job);
  const auto stub = v1::LoaderService::NewStub(MakeChannel(second().address));
  v1::Job answer;
  grpc::ClientContext context;
  EXPECT_EQ(stub->GetJob(&context, request, &answer).error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(first().logs.OwnerOf(job), IsOk());
  SweepUntilReleased(job);
  // One that has an epoch stays for a while, and is found again afterwards.
  const auto loader = MakeLoader(job);
  std::map<uint64_t, int> counts;
  ReadSome(*loader, kNumSharedGraphs, counts);
  for (int i = 0; i + 1 < Jobs::kIdleTurns; ++i) {
    EXPECT_THAT(second().server->SweepJobs(), IsOk());
  }
  EXPECT_THAT(first().logs.OwnerOf(job), IsOk());
  SweepUntilReleased(job);
  PH_ASSERT_OK_AND_ASSIGN(const v1::Epoch epoch, loader->Describe());
  EXPECT_EQ(epoch.num_done(), epoch.num_batches());
}

}  // namespace
}  // namespace packhouse::client
