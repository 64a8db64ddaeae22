// Jobs of servers that share them, and of one that is alone: where a job is, and for how long.
#include "service/engine/jobs/jobs.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/access/job_pool.h"
#include "service/base/caller.h"
#include "service/base/memory_budget.h"
#include "service/engine/jobs/job_census.h"
#include "service/engine/jobs/lease_timer.h"
#include "service/engine/jobs/retention_timer.h"
#include "service/stores/keys/replica_lease.h"
#include "service/stores/logs/job_directory.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "service/wings/cluster/jobs/etcd_job_directory.h"
#include "service/wings/cluster/jobs/etcd_job_logs.h"
#include "service/wings/cluster/jobs/job_keys.h"
#include "tests/delivery/all_jobs.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kServerLease = absl::Seconds(10);

struct SharingServer {
  SharingServer(FakeKeyValueServers& servers, SimulatedClock& clock, DatasetWorld& dataset,
                const std::string& name)
      : connection(&servers),
        lease(&connection, {name, absl::StrCat(name, ":1"), kServerLease, absl::Seconds(1)},
              [&clock] { return clock.Now(); }),
        logs(&connection, &lease, name, uint64_t{1} << 20, [&clock] { return clock.Now(); }),
        catalog(&dataset.store(), EpochBounds()),
        loader(&catalog),
        own_jobs(Jobs::Create(&loader, &logs, JobsOptions(), /*memory=*/nullptr).value()),
        jobs(*own_jobs) {}

  FakeConnection connection;
  ReplicaLease lease;
  EtcdJobLogs logs;
  EpochCatalog catalog;
  Loader loader;
  const std::unique_ptr<Jobs> own_jobs;
  Jobs& jobs;
};

class JobsTest : public ::testing::Test {
 protected:
  JobsTest() {
    dataset_.Seal();
    for (const char* name : {"a", "b"}) {
      auto server = std::make_unique<SharingServer>(servers_, clock_, dataset_, name);
      EXPECT_THAT(server->lease.Tick(), IsOk());
      server_[name] = std::move(server);
    }
    const auto members = server_["a"]->lease.ReadMembers().value();
    owner_ = server_[RendezvousOwner(job_, members)->replica].get();
    other_ = server_[owner_->lease.address() == "a:1" ? "b" : "a"].get();
  }

  std::unique_ptr<LoadSession> Load(const std::shared_ptr<Job>& job) {
    JoinRequest join;
    join.queue = 0;
    join.sharing = Sharing::Ranked(1);
    auto session = owner_->loader.Load(job, DatasetWorld::Request(), std::move(join), 4, [] {});
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  }
  absl::StatusOr<AcknowledgeResult> Acknowledge(Job& job, const LoadSession& session,
                                                uint64_t batch) {
    return job.Acknowledge(session.epoch().identity().key.epoch, session.start().session,
                           session.start().join.generation, std::vector<uint64_t>{batch},
                           clock_.Now());
  }

  const std::string job_ = DatasetWorld::Request().key.job;
  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  DatasetWorld dataset_{60};
  std::map<std::string, std::unique_ptr<SharingServer>> server_;
  SharingServer* owner_ = nullptr;
  SharingServer* other_ = nullptr;
};

// Whoever asks at once, there is one job of a name; other servers say where.
TEST_F(JobsTest, AJobIsHereOnce) {
  std::set<Job*> found;
  absl::Mutex mutex;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      const auto place = owner_->jobs.Open(job_);
      absl::MutexLock lock(&mutex);
      ASSERT_THAT(place, IsOk());
      found.insert(place->job.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found.size(), 1U);
  EXPECT_EQ(owner_->jobs.counts().num_opened, 1U);
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place elsewhere, other_->jobs.Open(job_));
  EXPECT_EQ(elsewhere.job, nullptr);
  EXPECT_EQ(elsewhere.owner.address, owner_->lease.address());
}

// Joins of many jobs that wait for others of their job leave threads to those who acknowledge.
TEST_F(JobsTest, JobsShareThePlacesWhereJoinsWait) {
  JobsOptions options;
  options.gather_joins = absl::Hours(1);
  options.gathering_places = 1;
  // As appends' threads: work of each job on a thread of its own.
  std::vector<std::thread> threads;
  Loader loader(&owner_->catalog);
  loader.RunInBackground(
      [&threads](std::function<void()> work) { threads.emplace_back(std::move(work)); });
  PH_ASSERT_OK_AND_ASSIGN(const auto jobs,
                          Jobs::Create(&loader, &owner_->logs, options, /*memory=*/nullptr));
  std::vector<std::string> names;
  for (int i = 0; names.size() < 2; ++i) {
    const std::string name = absl::StrCat("job", i);
    const auto members = owner_->lease.ReadMembers().value();
    if (RendezvousOwner(name, members)->address == owner_->lease.address()) names.push_back(name);
  }
  const auto start = [&](const std::shared_ptr<Job>& job, uint32_t rank) {
    EpochRequest request = DatasetWorld::Request();
    request.key.job = job->name();
    JoinRequest join;
    join.queue = rank;
    join.sharing = Sharing::Ranked(4);
    join.now = clock_.Now();
    auto session = loader.StartLoad(job, request, std::move(join), 4, [] {});
    EXPECT_THAT(session, IsOk());
    return *std::move(session);
  };
  const auto await = [](LoadSession& session) {
    while (!session.HasJoined().value()) std::this_thread::yield();
  };
  std::vector<Jobs::Place> places;
  std::vector<std::unique_ptr<LoadSession>> sessions;
  for (const std::string& name : names) {
    PH_ASSERT_OK_AND_ASSIGN(Jobs::Place place, jobs->Open(name));
    ASSERT_NE(place.job, nullptr);
    sessions.push_back(start(place.job, 0));
    await(*sessions.back());
    places.push_back(std::move(place));
  }
  // The second of the first job waits for the others, an hour long.
  sessions.push_back(start(places[0].job, 1));
  while (jobs->gathering().Take()) {
    jobs->gathering().GiveBack();
    std::this_thread::yield();
  }
  // There is no place for another job's, which go on at once.
  sessions.push_back(start(places[1].job, 1));
  await(*sessions.back());
  for (uint32_t rank = 2; rank < 4; ++rank) {
    sessions.push_back(start(places[0].job, rank));
  }
  for (const auto& session : sessions) await(*session);
  for (std::thread& thread : threads) thread.join();
  threads.clear();
  sessions.clear();
  for (std::thread& thread : threads) thread.join();
}

// A server with a census, of which a test chooses the options.
struct CountedServer {
  CountedServer(SharingServer& server, JobsOptions options)
      : census(server.logs.directory(), options.epoch_retention),
        loader(server.loader),
        own_jobs(Jobs::Create(&loader, &server.logs, WithCensus(std::move(options)),
                              /*memory=*/nullptr)
                     .value()),
        jobs(*own_jobs) {}

  JobsOptions WithCensus(JobsOptions options) const {
    options.epochs_elsewhere = [this](absl::string_view where,
                                      const std::vector<std::string>& but_jobs) {
      return census.EpochsElsewhere(where, but_jobs);
    };
    return options;
  }

  JobCensus census;
  Loader& loader;
  const std::unique_ptr<Jobs> own_jobs;
  Jobs& jobs;
};

// Gives two jobs at a time, as it may.
class ShortPages final : public JobDirectory {
 public:
  explicit ShortPages(JobDirectory* directory) : directory_(*directory) {}
  // The page with this number, from 0 on, cannot be read.
  void FailAt(int page) { failing_ = num_pages_ + page; }

  absl::Status Put(const ListedJob& job) override {
    ++num_puts;
    return directory_.Put(job);
  }
  absl::Status Remove(const std::string& job) override {
    return of_removals.ok() ? directory_.Remove(job) : of_removals;
  }
  absl::StatusOr<bool> RemoveUnowned(const std::string& job) override {
    return directory_.RemoveUnowned(job);
  }
  absl::StatusOr<JobPage> List(const std::string& after, size_t limit) override {
    if (num_pages_++ == failing_) return absl::UnavailableError("page");
    return directory_.List(after, std::min<size_t>(limit, 2));
  }
  absl::StatusOr<std::vector<std::string>> Owners(absl::Span<const std::string> jobs) override {
    return directory_.Owners(jobs);
  }

  int num_puts = 0;
  absl::Status of_removals;

 private:
  JobDirectory& directory_;
  int num_pages_ = 0;
  int failing_ = -1;
};

class JobCensusTest : public JobsTest {
 protected:
  // Names of jobs in a namespace that this server should have.
  std::string JobOf(SharingServer& server, const std::string& where) {
    const auto members = server.lease.ReadMembers().value();
    for (;;) {
      const std::string name = absl::StrCat(where, "/job", ++num_names_);
      if (RendezvousOwner(name, members)->address == server.lease.address()) return name;
    }
  }
  absl::Status LoadOne(Jobs& jobs, const std::string& name) {
    auto place = jobs.Open(name);
    if (!place.ok()) return place.status();
    if (place->job == nullptr) return absl::UnavailableError(place->owner.address);
    EpochRequest request = DatasetWorld::Request();
    request.key.job = name;
    JoinRequest join;
    join.queue = 0;
    join.sharing = Sharing::Ranked(1);
    join.now = clock_.Now();
    return owner_->loader.Load(place->job, request, std::move(join), 4, [] {}).status();
  }
  absl::Status Delete(CountedServer& server, const std::string& name) {
    auto place = server.jobs.Open(name);
    return place.ok() ? place->job->Forget() : place.status();
  }
  // As a server does each second.
  absl::Status SweepOnce(CountedServer& server) {
    server.census.AddEmptied(server.jobs.Sweep());
    return server.census.Turn(server.jobs, clock_.Now());
  }
  std::vector<std::string> NamesListed() {
    std::vector<std::string> names;
    FakeConnection connection(&servers_);  // Without the servers' faults.
    auto listed = EtcdJobDirectory(&connection).List("", 1000);
    EXPECT_THAT(listed, IsOk());
    for (const ListedJob& job : listed->jobs) names.push_back(job.name);
    return names;
  }
  void TurnAll(CountedServer& server) {
    for (int i = 0; i < JobCensus::kReadTurns; ++i) {
      EXPECT_THAT(server.census.Turn(server.jobs, clock_.Now()), IsOk());
    }
  }

  int num_names_ = 0;
};

// A namespace has its quota of epochs once, not at each server or job.
TEST_F(JobCensusTest, QuotasOfEpochsAreOverAllServers) {
  JobsOptions options;
  options.quotas_of = [](absl::string_view) {
    Quotas quotas;
    quotas.epochs = 2;
    return quotas;
  };
  CountedServer first(*owner_, options);
  CountedServer second(*other_, options);
  const std::string job = JobOf(*owner_, "team");
  EXPECT_THAT(LoadOne(first.jobs, job), IsOk());
  EXPECT_THAT(LoadOne(second.jobs, JobOf(*other_, "team")), IsOk());
  TurnAll(first);
  TurnAll(second);
  TurnAll(first);
  EXPECT_EQ(first.census.EpochsByNamespace(), (std::map<std::string, uint64_t>{{"team", 2}}));
  for (CountedServer* const server : {&first, &second}) {
    SharingServer& at = server == &first ? *owner_ : *other_;
    EXPECT_THAT(LoadOne(server->jobs, JobOf(at, "team")),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("epochs")));
    EXPECT_THAT(LoadOne(server->jobs, JobOf(at, "others")), IsOk());
  }
  // An epoch that is there is loaded on; one that is deleted makes room.
  EXPECT_THAT(LoadOne(first.jobs, job), IsOk());
  EXPECT_THAT(first.jobs.Open(job).value().job->Forget(), IsOk());
  TurnAll(first);
  TurnAll(second);
  EXPECT_THAT(LoadOne(second.jobs, JobOf(*other_, "team")), IsOk());
}

// One server alone is never behind what it has said itself.
TEST_F(JobCensusTest, WhatAServerSaysCountsAtOnce) {
  JobsOptions options;
  options.quotas_of = [](absl::string_view) {
    Quotas quotas;
    quotas.epochs = 1;
    return quotas;
  };
  CountedServer server(*owner_, options);
  EXPECT_THAT(SweepOnce(server), IsOk());  // It reads.
  const std::string job = JobOf(*owner_, "team");
  const std::string next = JobOf(*owner_, "team");
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(LoadOne(server.jobs, job), IsOk());
    EXPECT_THAT(SweepOnce(server), IsOk());
    EXPECT_THAT(LoadOne(server.jobs, next),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("epochs")));
    EXPECT_THAT(Delete(server, job), IsOk());
    EXPECT_THAT(SweepOnce(server), IsOk());
    EXPECT_TRUE(server.census.EpochsByNamespace().empty());
    EXPECT_THAT(LoadOne(server.jobs, next), IsOk());
    EXPECT_THAT(Delete(server, next), IsOk());
    EXPECT_THAT(SweepOnce(server), IsOk());
  }
}

// Without waiting for anything to be said or read.
TEST_F(JobCensusTest, JobsOfOneServerCountEachOtherAtOnce) {
  JobsOptions options;
  options.quotas_of = [](absl::string_view) {
    Quotas quotas;
    quotas.epochs = 2;
    return quotas;
  };
  CountedServer server(*owner_, options);
  const std::string job = JobOf(*owner_, "team");
  EXPECT_THAT(LoadOne(server.jobs, job), IsOk());
  EXPECT_THAT(LoadOne(server.jobs, JobOf(*owner_, "team")), IsOk());
  const std::string third = JobOf(*owner_, "team");
  EXPECT_THAT(LoadOne(server.jobs, third),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("epochs")));
  EXPECT_THAT(LoadOne(server.jobs, JobOf(*owner_, "others")), IsOk());
  EXPECT_THAT(Delete(server, job), IsOk());
  EXPECT_THAT(LoadOne(server.jobs, third), IsOk());
}

// Whoever is asked: what each job's owner has said of it last, and who that is.
TEST_F(JobCensusTest, EveryServerListsAllJobs) {
  CountedServer first(*owner_, JobsOptions());
  CountedServer second(*other_, JobsOptions());
  const std::string a = JobOf(*owner_, "a");
  const std::string b = JobOf(*other_, "b");
  EXPECT_THAT(LoadOne(first.jobs, a), IsOk());
  EXPECT_THAT(LoadOne(second.jobs, b), IsOk());
  EXPECT_THAT(SweepOnce(first), IsOk());
  EXPECT_THAT(SweepOnce(second), IsOk());
  const auto list = [&](size_t page_size, const std::string& after, const std::string& hidden) {
    return first.jobs.List(page_size, after,
                           [&](const std::string& name) { return name != hidden; });
  };
  PH_ASSERT_OK_AND_ASSIGN(const JobList all, list(0, "", ""));
  EXPECT_EQ(all.next_page_token, "");
  ASSERT_EQ(all.jobs.size(), 2U);
  for (const JobSummary& job : all.jobs) {
    EXPECT_EQ(job.num_epochs, 1U);
    EXPECT_EQ(job.used_seconds, absl::ToUnixSeconds(clock_.Now()));
  }
  EXPECT_EQ(all.jobs[0].name, a);
  EXPECT_EQ(all.jobs[0].owner, owner_->lease.address());
  EXPECT_EQ(all.jobs[1].name, b);
  EXPECT_EQ(all.jobs[1].owner, other_->lease.address());
  PH_ASSERT_OK_AND_ASSIGN(const JobList page, list(1, "", ""));
  EXPECT_EQ(page.jobs.size(), 1U);
  EXPECT_EQ(page.next_page_token, a);
  PH_ASSERT_OK_AND_ASSIGN(const JobList seen, list(9, "", a));
  ASSERT_EQ(seen.jobs.size(), 1U);
  EXPECT_EQ(seen.jobs[0].name, b);
  EXPECT_EQ(seen.jobs[0].owner, other_->lease.address());
  owner_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(list(0, "", ""), StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

// Any server finds the plan of a receipt, whoever has the job, and whether anybody has it.
TEST_F(JobCensusTest, AReceiptIsFoundAtAnyServer) {
  CountedServer first(*owner_, JobsOptions());
  CountedServer second(*other_, JobsOptions());
  const std::string job = JobOf(*owner_, "team");
  EXPECT_THAT(LoadOne(first.jobs, job), IsOk());
  const auto opened = first.jobs.Open(job).value().job->OpenedNear(0);
  ASSERT_THAT(opened, IsOk());
  ASSERT_NE(opened->plan, nullptr);
  const std::string receipt = opened->plan->receipt;
  bool may_see = true;
  bool may_show = true;
  const auto find = [&](CountedServer& server) {
    return server.jobs.FindPlan(
        receipt, [&](const std::string& name) { return may_see && name == job; },
        [&](const EpochIdentity& /*identity*/) { return may_show; }, [] { return false; });
  };
  // Its owner has not said yet that there is the job.
  EXPECT_THAT(find(first), IsOk());
  EXPECT_THAT(find(second), StatusIs(absl::StatusCode::kNotFound, HasSubstr(receipt)));
  EXPECT_THAT(SweepOnce(first), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Planned found, find(second));
  EXPECT_EQ(found.opened.identity.key.job, job);
  EXPECT_EQ(found.plan->receipt, receipt);
  EXPECT_EQ(found.plan->patterns, find(first)->plan->patterns);
  for (bool* const allowed : {&may_see, &may_show}) {
    *allowed = false;
    EXPECT_THAT(find(second), StatusIs(absl::StatusCode::kNotFound, HasSubstr(receipt)));
    *allowed = true;
  }
  // Reading it has changed nothing: the owner writes on.
  EXPECT_EQ(second.jobs.counts().num_opened, 0U);
  const auto all = [](const auto& /*any*/) { return true; };
  EXPECT_EQ(second.jobs.FindPlan(receipt, all, all, [] { return true; }).status(),
            absl::CancelledError("the caller has left"));
  // Whichever request the store does not answer.
  int num_left = 0;
  other_->connection.SetFaults(
      [&] { return num_left-- == 0 ? StoreFault::kUnreachable : StoreFault::kNone; });
  int asked = 0;
  for (;; ++asked) {
    num_left = asked;
    const auto plan = find(second);
    if (plan.ok()) break;
    EXPECT_THAT(plan, StatusIs(absl::StatusCode::kUnavailable, testing::_)) << asked;
  }
  EXPECT_GE(asked, 2);
  other_->connection.SetFaults(nullptr);
  EXPECT_THAT(Delete(first, job), IsOk());
  EXPECT_THAT(find(second), StatusIs(absl::StatusCode::kNotFound, HasSubstr(receipt)));
  other_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(find(second), StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

// Whatever is wrong with the ledger of another job.
TEST_F(JobCensusTest, ADamagedLedgerHidesNoReceipt) {
  CountedServer first(*owner_, JobsOptions());
  CountedServer second(*other_, JobsOptions());
  const std::string damaged = JobOf(*owner_, "a");
  const std::string job = JobOf(*owner_, "team");
  for (const std::string& name : {damaged, job}) EXPECT_THAT(LoadOne(first.jobs, name), IsOk());
  EXPECT_THAT(SweepOnce(first), IsOk());
  EXPECT_THAT(NamesListed(), testing::ElementsAre(damaged, job));
  const std::string receipt = first.jobs.Open(job).value().job->OpenedNear(0)->plan->receipt;
  const auto find = [&] {
    return second.jobs.FindPlan(
        receipt, [](const std::string& /*name*/) { return true; },
        [](const EpochIdentity& /*identity*/) { return true; }, [] { return false; });
  };
  EXPECT_EQ(find()->opened.identity.key.job, damaged);
  // A record that is none.
  EXPECT_THAT(first.jobs.Open(damaged).value().job->log().Append({"x"}), IsOk());
  EXPECT_THAT(other_->logs.Read(damaged), IsOk());
  EXPECT_EQ(find()->opened.identity.key.job, job);
  FakeConnection connection(&servers_);
  // Of a head that is damaged, one of another release, and one without its entries.
  for (const char* const head : {"2 2 x", "3 anything else", "2 1-1 9 9 10 1 0 "}) {
    Transaction change;
    change.then = {Operation::Put(JobKeys(damaged).log().head, head)};
    ASSERT_THAT(connection.Commit(change), IsOk());
    EXPECT_THAT(other_->logs.Read(damaged), testing::Not(IsOk())) << head;
    PH_ASSERT_OK_AND_ASSIGN(const Jobs::Planned found, find());
    EXPECT_EQ(found.opened.identity.key.job, job) << head;
  }
}

// It reads what may be much, so it waits as others do, for one caller at a time, with a budget.
TEST_F(JobCensusTest, OneSearchForAReceiptReadsLedgersAtATime) {
  CountedServer first(*owner_, JobsOptions());
  const std::string job = JobOf(*owner_, "team");
  EXPECT_THAT(LoadOne(first.jobs, job), IsOk());
  EXPECT_THAT(SweepOnce(first), IsOk());
  const std::string receipt = first.jobs.Open(job).value().job->OpenedNear(0)->plan->receipt;
  MemoryBudget memory(uint64_t{1} << 20);
  PH_ASSERT_OK_AND_ASSIGN(const auto second,
                          Jobs::Create(&other_->loader, &other_->logs, JobsOptions(), &memory));
  const auto find = [&](const std::function<void()>& meanwhile) {
    return second->FindPlan(
        receipt,
        [&](const std::string& /*name*/) {
          meanwhile();
          return true;
        },
        [](const EpochIdentity& /*identity*/) { return true; }, [] { return false; });
  };
  EXPECT_THAT(find([&] {
                EXPECT_THAT(find([] {}), StatusIs(absl::StatusCode::kResourceExhausted,
                                                  HasSubstr("one call at a time")));
              }),
              IsOk());
  EXPECT_EQ(memory.held(), 0U);
  class Leaving final : public Caller {
   public:
    bool IsGone() const override { return num_waits == most_waits; }
    void OnWait() override { ++num_waits; }
    int num_waits = 0;
    int most_waits = 0;
  } caller;
  // For the list, and for a ledger.
  for (const int most_waits : {1, 2}) {
    caller.num_waits = 0;
    caller.most_waits = most_waits;
    const CallerScope scope(&caller);
    EXPECT_THAT(find([] {}), StatusIs(absl::StatusCode::kCancelled, testing::_));
    EXPECT_EQ(caller.num_waits, most_waits);
  }
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold most, memory.Hold("others", memory.bound()));
  EXPECT_THAT(find([] {}), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("ledger")));
}

// What cannot be forgotten now is told, and forgotten later.
TEST_F(JobCensusTest, EpochsThatCannotBeForgottenAreTold) {
  JobsOptions options;
  options.epoch_retention = absl::Hours(10);
  CountedServer first(*owner_, options);
  for (const char* const begin : {"a", "team"}) {
    EXPECT_THAT(LoadOne(first.jobs, JobOf(*owner_, begin)), IsOk());
  }
  const absl::Time late = clock_.Now() + absl::Hours(100);
  owner_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(first.jobs.ForgetUnused(late), testing::Not(IsOk()));
  owner_->connection.SetFaults(nullptr);
  EXPECT_THAT(first.jobs.ForgetUnused(late), IsOkAndHolds(2U));
}

// The directory may be out of reach just then, the job given back before, and the list never read.
TEST_F(JobCensusTest, DeletedJobsAreNotListed) {
  const std::string job = JobOf(*owner_, "team");
  const std::string other = JobOf(*owner_, "team");
  CountedServer first(*owner_, JobsOptions());
  EXPECT_THAT(LoadOne(first.jobs, job), IsOk());
  EXPECT_THAT(LoadOne(first.jobs, other), IsOk());
  EXPECT_THAT(SweepOnce(first), IsOk());
  EXPECT_THAT(NamesListed(), testing::UnorderedElementsAre(job, other));
  EXPECT_THAT(Delete(first, job), IsOk());
  owner_->connection.SetFaults([] { return StoreFault::kRequestLost; });
  EXPECT_THAT(SweepOnce(first), StatusIs(absl::StatusCode::kUnknown, testing::_));
  EXPECT_THAT(SweepOnce(first), StatusIs(absl::StatusCode::kUnknown, testing::_));
  EXPECT_THAT(NamesListed(), testing::UnorderedElementsAre(job, other));
  owner_->connection.SetFaults(nullptr);
  EXPECT_THAT(SweepOnce(first), IsOk());
  EXPECT_THAT(NamesListed(), testing::ElementsAre(other));

  for (int i = 0; i < Jobs::kIdleTurns; ++i) first.jobs.Sweep();
  CountedServer again(*owner_, JobsOptions());
  EXPECT_THAT(Delete(again, other), IsOk());
  EXPECT_THAT(SweepOnce(again), IsOk());
  EXPECT_THAT(NamesListed(), testing::IsEmpty());
}

// A server that is late to remove a job leaves it to the one that has it now.
TEST_F(JobCensusTest, ALateRemovalLeavesAJobThatIsOwned) {
  JobDirectory& directory = *owner_->logs.directory();
  EXPECT_THAT(directory.Put({job_, 1, 2, 3}), IsOk());
  {
    PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, owner_->jobs.Open(job_));
    EXPECT_FALSE(directory.RemoveUnowned(job_).value());
    EXPECT_THAT(NamesListed(), testing::ElementsAre(job_));
  }
  EXPECT_THAT(owner_->jobs.Sweep(), testing::ElementsAre(job_));
  EXPECT_TRUE(directory.RemoveUnowned(job_).value());
  EXPECT_THAT(NamesListed(), testing::IsEmpty());
}

// However many jobs there are to tell of: each call may wait for seconds.
TEST_F(JobCensusTest, ATurnAsksAStoreThatDoesNotAnswerOnce) {
  CountedServer server(*owner_, JobsOptions());
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(LoadOne(server.jobs, JobOf(*owner_, "team")), IsOk());
  }
  int num_asked = 0;
  owner_->connection.SetFaults([&num_asked] {
    ++num_asked;
    return StoreFault::kUnreachable;
  });
  EXPECT_THAT(server.census.Turn(server.jobs, clock_.Now()),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_EQ(num_asked, 1);
}

TEST_F(JobCensusTest, ATurnThatCannotReadSaysSoAndTheNextOneReads) {
  CountedServer server(*owner_, JobsOptions());
  EXPECT_THAT(other_->logs.directory()->Put({"team/others", 1, 2, 3}), IsOk());
  owner_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(server.census.Turn(server.jobs, clock_.Now()),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  owner_->connection.SetFaults([] { return StoreFault::kNone; });
  EXPECT_THAT(server.census.Turn(server.jobs, clock_.Now()), IsOk());
  EXPECT_EQ(server.census.EpochsByNamespace(), (std::map<std::string, uint64_t>{{"team", 1}}));
}

// A use that is no minute later than what was said is not said; that a job has no epochs is said
// until it is known.
TEST_F(JobCensusTest, UsesAreSaidSeldom) {
  ShortPages pages(owner_->logs.directory());
  JobCensus census(&pages, absl::InfiniteDuration());
  const std::string job = JobOf(*owner_, "team");
  const auto use_after = [&](absl::Duration time) {
    clock_.Advance(time);
    for (SharingServer* const server : {owner_, other_}) EXPECT_THAT(server->lease.Tick(), IsOk());
    EXPECT_THAT(LoadOne(owner_->jobs, job), IsOk());
    EXPECT_THAT(census.Turn(owner_->jobs, clock_.Now()), IsOk());
    return pages.num_puts;
  };
  EXPECT_EQ(use_after(absl::Seconds(1)), 1);
  EXPECT_EQ(use_after(absl::Seconds(59)), 1);
  EXPECT_EQ(use_after(absl::Seconds(1)), 2);
  EXPECT_EQ(use_after(absl::Seconds(59)), 2);
  const auto first_listed = [&] { return pages.List("", 1).value().jobs.at(0); };
  EXPECT_EQ(first_listed().num_epochs, 1U);
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, owner_->jobs.Open(job));
  EXPECT_THAT(place.job->Forget(), IsOk());
  pages.of_removals = absl::UnavailableError("no removal");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(census.Turn(owner_->jobs, clock_.Now()), pages.of_removals);
    EXPECT_EQ(first_listed().name, job);
  }
  pages.of_removals = absl::OkStatus();
  EXPECT_THAT(census.Turn(owner_->jobs, clock_.Now()), IsOk());
  EXPECT_THAT(NamesListed(), testing::IsEmpty());
  EXPECT_EQ(pages.num_puts, 2);
}

// Of a directory that is read in part, nothing counts.
TEST_F(JobCensusTest, JobsOfAllPagesCount) {
  ShortPages pages(owner_->logs.directory());
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_THAT(pages.Put({absl::StrCat(i < 2 ? "few/" : "team/", i), i + 1, 2, 3}), IsOk());
  }
  JobCensus census(&pages, absl::InfiniteDuration());
  using Epochs = std::map<std::string, uint64_t>;
  for (const int page : {0, 1, 2}) {
    pages.FailAt(page);
    EXPECT_THAT(census.Turn(owner_->jobs, clock_.Now()),
                StatusIs(absl::StatusCode::kUnavailable, "page"));
    EXPECT_EQ(census.EpochsByNamespace(), Epochs());
  }
  EXPECT_THAT(census.Turn(owner_->jobs, clock_.Now()), IsOk());
  EXPECT_EQ(census.EpochsByNamespace(), (Epochs{{"few", 3}, {"team", 12}}));
  EXPECT_EQ(census.EpochsElsewhere("team", {"team/2", "team/4"}), 4U);
}

// A page may be short, or have none that can be read; the order is that of the names.
TEST_F(JobCensusTest, JobsAreListedByNameOverAllPages) {
  JobDirectory& directory = *owner_->logs.directory();
  const std::vector<std::string> names = {"a%", "a-b", "a.b", "a/b", "a0", "team/z"};
  for (const std::string& name : names) EXPECT_THAT(directory.Put({name, 1, 2, 3}), IsOk());
  for (const char* key : {"jobs/a", "jobs/a--", "jobs/zz"}) {
    EXPECT_THAT(
        owner_->connection.Commit({{}, {Operation::Put(key, "2 of a later version")}, {}}).status(),
        IsOk());
  }
  for (const size_t limit : {1, 2, 3, 100}) {
    std::vector<std::string> read;
    std::string after;
    do {
      PH_ASSERT_OK_AND_ASSIGN(JobPage page, directory.List(after, limit));
      for (const ListedJob& job : page.jobs) read.push_back(job.name);
      after = page.next;
    } while (!after.empty());
    EXPECT_EQ(read, names);
  }
}

// A page has 100 jobs unless more or fewer are asked for, and 1000 at most.
TEST_F(JobCensusTest, PagesHaveABound) {
  for (int i = 0; i < 1001; ++i) {
    ASSERT_THAT(owner_->logs.directory()->Put({absl::StrFormat("job%04d", i), 1, 2, 3}), IsOk());
  }
  const auto told = [&](size_t page_size) {
    const auto all = [](const std::string&) { return true; };
    const absl::StatusOr<JobList> list = owner_->jobs.List(page_size, "", all);
    EXPECT_THAT(list, IsOk());
    return list.ok() ? std::pair(list->jobs.size(), list->next_page_token)
                     : std::pair(size_t{0}, std::string());
  };
  EXPECT_EQ(told(0), std::pair(size_t{100}, std::string("job0099")));
  EXPECT_EQ(told(3), std::pair(size_t{3}, std::string("job0002")));
  EXPECT_EQ(told(1000), std::pair(size_t{1000}, std::string("job0999")));
  EXPECT_EQ(told(5000), std::pair(size_t{1000}, std::string("job0999")));
}

// Those that cannot be opened do not keep others from their turn, nor do those without a known use.
TEST_F(JobCensusTest, EveryUnusedJobHasItsTurn) {
  JobsOptions options;
  options.epoch_retention = absl::Hours(10);
  CountedServer server(*owner_, options);
  JobDirectory& directory = *owner_->logs.directory();
  for (int i = 0; i < 2 * JobCensus::kMostOpened; ++i) {
    EXPECT_THAT(directory.Put({JobOf(*other_, "all"), 1, 1, 1}), IsOk());  // Another server's.
  }
  const std::string job = JobOf(*owner_, "team");
  EXPECT_THAT(directory.Put({job, 1, 0, 0}), IsOk());
  for (int i = 0; i < 3; ++i) TurnAll(server);
  EXPECT_THAT(NamesListed(), testing::Not(testing::Contains(job)));
}

// Also of jobs that nobody owns any more.
TEST_F(JobCensusTest, EpochsThatNobodyUsesAreForgotten) {
  JobsOptions options;
  options.epoch_retention = absl::Hours(10);
  CountedServer first(*owner_, options);
  const std::string job = JobOf(*owner_, "team");
  EXPECT_THAT(LoadOne(first.jobs, job), IsOk());
  TurnAll(first);
  for (int i = 0; i < Jobs::kIdleTurns; ++i) first.jobs.Sweep();
  EXPECT_THAT(owner_->logs.OwnerOf(job), StatusIs(absl::StatusCode::kNotFound, testing::_));

  CountedServer again(*owner_, options);
  CountedServer second(*other_, options);
  const auto pass = [&](absl::Duration time) {
    clock_.Advance(time);
    for (SharingServer* const server : {owner_, other_}) EXPECT_THAT(server->lease.Tick(), IsOk());
    TurnAll(second);
    TurnAll(again);
  };
  pass(absl::Hours(9));
  PH_ASSERT_OK_AND_ASSIGN(auto listed, owner_->logs.directory()->List("", 10));
  ASSERT_EQ(listed.jobs.size(), 1U);
  EXPECT_EQ(listed.jobs[0].name, job);
  EXPECT_EQ(listed.jobs[0].num_epochs, 1U);
  pass(absl::Hours(2));
  PH_ASSERT_OK_AND_ASSIGN(listed, owner_->logs.directory()->List("", 10));
  EXPECT_THAT(listed.jobs, testing::IsEmpty());
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, again.jobs.Open(job));
  EXPECT_THAT(place.job->Summary(1), StatusIs(absl::StatusCode::kNotFound, testing::_));
}

// All workers may be saving their state when the owner goes, so that nobody loads the job.
TEST_F(JobsTest, AcknowledgementsNeedNobodyWhoLoads) {
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place first, owner_->jobs.Open(job_));
  const auto session = Load(first.job);
  EXPECT_THAT(Acknowledge(*first.job, *session, 0), IsOk());
  owner_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  clock_.Advance(kServerLease);
  ASSERT_THAT(other_->lease.Tick(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place second, other_->jobs.Open(job_));
  ASSERT_NE(second.job, nullptr);
  PH_ASSERT_OK_AND_ASSIGN(AcknowledgeResult result, Acknowledge(*second.job, *session, 0));
  EXPECT_EQ(result.num_new, 0U);
  PH_ASSERT_OK_AND_ASSIGN(result, Acknowledge(*second.job, *session, 1));
  EXPECT_EQ(result.num_new, 1U);
}

// A server that is cut off sends its workers away, those that wait too; the next owner goes on in
// the same generation, and what the first has still to say is refused.
TEST_F(JobsTest, AJobOfAServerThatIsCutOffIsTaken) {
  PH_ASSERT_OK_AND_ASSIGN(Jobs::Place first, owner_->jobs.Open(job_));
  auto session = Load(first.job);
  EXPECT_THAT(Acknowledge(*first.job, *session, 0), IsOk());
  owner_->jobs.Sweep();
  EXPECT_THAT(first.job->early_end().status(), IsOk());
  const auto expect_counted = [&] {
    const DeliverySnapshot snapshot = owner_->jobs.Snapshot();
    EXPECT_EQ(snapshot.totals.acknowledged, 1U);
    EXPECT_EQ(snapshot.num_generations, 1U);
  };
  expect_counted();

  owner_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  clock_.Advance(kServerLease);
  EXPECT_THAT(owner_->lease.Tick(), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  owner_->jobs.Sweep();
  expect_counted();
  EXPECT_THAT(first.job->early_end().status(),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_THAT(owner_->jobs.Open(job_), StatusIs(absl::StatusCode::kUnavailable, testing::_));

  ASSERT_THAT(other_->lease.Tick(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place second, other_->jobs.Open(job_));
  ASSERT_NE(second.job, nullptr);
  EXPECT_EQ(other_->jobs.counts().num_taken_over, 1U);
  const auto next = Load(second.job);
  EXPECT_EQ(next->start().join.generation, session->start().join.generation);
  EXPECT_GT(next->start().session, session->start().session);
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult again, Acknowledge(*second.job, *next, 0));
  EXPECT_EQ(again.num_new, 0U);

  owner_->connection.SetFaults(nullptr);
  EXPECT_THAT(Acknowledge(*first.job, *session, 1),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult last, Acknowledge(*second.job, *next, 1));
  EXPECT_EQ(last.num_new, 1U);

  // It is kept until nobody uses it.
  session = nullptr;
  const std::weak_ptr<Job> kept = std::exchange(first.job, nullptr);
  owner_->jobs.Sweep();
  EXPECT_TRUE(kept.expired());
  expect_counted();
}

TEST_F(JobsTest, JobsThatNobodyLoadsAreGivenBack) {
  // Nothing is kept of it.
  EXPECT_THAT(owner_->jobs.Open(job_), IsOk());
  owner_->jobs.Sweep();
  EXPECT_THAT(owner_->logs.OwnerOf(job_), StatusIs(absl::StatusCode::kNotFound, testing::_));
  {
    PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, owner_->jobs.Open(job_));
    const auto session = Load(place.job);
    for (int i = 0; i <= Jobs::kIdleTurns; ++i) owner_->jobs.Sweep();
    EXPECT_THAT(owner_->logs.OwnerOf(job_), IsOk());
  }
  for (int i = 0; i + 1 < Jobs::kIdleTurns; ++i) owner_->jobs.Sweep();
  EXPECT_THAT(owner_->logs.OwnerOf(job_), IsOk());
  owner_->jobs.Sweep();
  EXPECT_THAT(owner_->logs.OwnerOf(job_), StatusIs(absl::StatusCode::kNotFound, testing::_));
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place again, owner_->jobs.Open(job_));
  EXPECT_FALSE(again.job->IsForgotten());
}

TEST_F(JobsTest, AJobThatCannotBeOpenedIsTriedAgain) {
  owner_->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(owner_->jobs.Open(job_), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  owner_->connection.SetFaults(nullptr);
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, owner_->jobs.Open(job_));
  ASSERT_NE(place.job, nullptr);
  // A failed commit of unknown outcome loses the log, not the job.
  auto session = Load(place.job);
  owner_->connection.SetFaults([] { return StoreFault::kRequestLost; });
  EXPECT_THAT(Acknowledge(*place.job, *session, 0),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  owner_->connection.SetFaults(nullptr);
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place anew, owner_->jobs.Open(job_));
  ASSERT_NE(anew.job, nullptr);
  EXPECT_NE(anew.job, place.job);
  EXPECT_EQ(owner_->logs.commits().num_failed, 1U);
}

// Whoever loads is told where the job goes, and who asks for it there has it.
TEST_F(JobsTest, AJobThatIsMovedSaysWhereItGoes) {
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, owner_->jobs.Open(job_));
  const auto session = Load(place.job);
  // To nobody, and to itself: it stays.
  EXPECT_THAT(owner_->jobs.Move(job_, "none:1"), StatusIs(absl::StatusCode::kNotFound, testing::_));
  EXPECT_THAT(owner_->jobs.Move(job_, owner_->lease.address()), IsOk());
  EXPECT_THAT(place.job->early_end().status(), IsOk());
  EXPECT_THAT(Acknowledge(*place.job, *session, 0), IsOk());
  EXPECT_EQ(owner_->jobs.Open(job_)->job, place.job);

  const std::string address = other_->lease.address();
  EXPECT_THAT(owner_->jobs.Move(job_, address), IsOk());
  EXPECT_EQ(
      place.job->early_end().status(),
      absl::UnavailableError(absl::StrCat("job '", job_, "' moves to the server at ", address,
                                          ": load again; what was not acknowledged comes again")));
  EXPECT_EQ(owner_->jobs.num_here(), 0U);
  EXPECT_EQ(owner_->jobs.Move(job_, address),
            absl::UnavailableError(
                absl::StrCat("job '", job_, "' has just left this server: ask again")));
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place elsewhere, owner_->jobs.Open(job_));
  EXPECT_EQ(elsewhere.job, nullptr);
  EXPECT_EQ(elsewhere.owner.address, address);
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place there, other_->jobs.Open(job_));
  ASSERT_NE(there.job, nullptr);
  EXPECT_FALSE(there.job->IsForgotten());
  EXPECT_EQ(other_->jobs.counts().num_taken_over, 1U);
}

// What was trained on can be acknowledged to the end.
TEST_F(JobsTest, AServerThatEndsOpensNoOtherJob) {
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place place, owner_->jobs.Open(job_));
  const auto session = Load(place.job);
  owner_->jobs.EndAll(absl::UnavailableError("it drains"));
  EXPECT_THAT(place.job->early_end().status(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("it drains")));
  PH_ASSERT_OK_AND_ASSIGN(const Jobs::Place again, owner_->jobs.Open(job_));
  EXPECT_EQ(again.job, place.job);
  EXPECT_THAT(Acknowledge(*again.job, *session, 0), IsOk());
  EXPECT_THAT(owner_->jobs.Open("another"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("it drains")));
}

// A server that is alone, over the logs in a folder.
class JobsAloneTest : public ::testing::Test {
 protected:
  JobsAloneTest() {
    dataset_.Seal();
    Restart();
  }

  void Restart(const JobsOptions& options = {}) {
    jobs_ = nullptr;
    logs_ = nullptr;
    LmdbJobLogs::Options of_logs;
    of_logs.folder = folder_.path();
    of_logs.first_revision = first_revision_ += 1000;
    logs_ = LmdbJobLogs::Open(of_logs).value();
    jobs_ = AllJobs::Open(&catalog_, logs_.get(), options).value();
  }

  absl::StatusOr<std::unique_ptr<LoadSession>> Load(const std::string& job,
                                                    std::optional<uint64_t> generation = {}) {
    EpochRequest request = DatasetWorld::Request();
    request.key.job = job;
    JoinRequest join;
    join.sharing = Sharing::Ranked(1);
    join.generation = generation;
    return jobs_->Load(std::move(request), std::move(join), 4, [] {});
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  DatasetWorld dataset_{60};
  EpochCatalog catalog_{&dataset_.store(), EpochBounds()};
  uint64_t first_revision_ = 0;
  std::unique_ptr<LmdbJobLogs> logs_;
  std::unique_ptr<AllJobs> jobs_;
};

// All jobs are here from the start on, each with a log of its own; nothing gives them away.
TEST_F(JobsAloneTest, AllJobsAreHere) {
  for (const char* const job : {"b", "a"}) EXPECT_THAT(Load(job), IsOk());
  EXPECT_THAT(logs_->Names().value(), testing::ElementsAre("a", "b"));
  Restart();
  EXPECT_EQ(jobs_->jobs().num_here(), 2U);
  for (int i = 0; i <= Jobs::kIdleTurns; ++i) jobs_->jobs().Sweep();
  std::vector<std::string> listed;
  for (const JobSummary& job : jobs_->ListJobs(0, "").jobs) listed.push_back(job.name);
  EXPECT_THAT(listed, testing::ElementsAre("a", "b"));
  EXPECT_EQ(jobs_->Snapshot().num_epochs, 2U);
  // As far as somebody may see them.
  const auto of_b = jobs_->jobs().List(0, "", [](const std::string& name) { return name == "b"; });
  ASSERT_EQ(of_b->jobs.size(), 1U);
  EXPECT_EQ(of_b->jobs[0].name, "b");
  EXPECT_EQ(jobs_->jobs().Find("c"), nullptr);
  EXPECT_NE(jobs_->jobs().Find("a"), nullptr);
  // Of each job, its sessions.
  EXPECT_TRUE(jobs_->Sessions().empty());
  PH_ASSERT_OK_AND_ASSIGN(const auto first, Load("a"));
  PH_ASSERT_OK_AND_ASSIGN(const auto second, Load("b"));
  std::set<std::string> with_sessions;
  for (const SessionSummary& session : jobs_->Sessions()) with_sessions.insert(session.key.job);
  EXPECT_EQ(with_sessions, (std::set<std::string>{"a", "b"}));
}

// A job that is deleted leaves no log behind, and its workers have no part in a later job of its
// name, here or after a restart. `has_logs`: whether there is any job's log.
void TestNothingIsLeftOfADeletedJobButItsGenerations(const std::function<AllJobs&()>& jobs,
                                                     const std::function<void()>& restart,
                                                     const std::function<bool()>& has_logs) {
  std::set<uint64_t> generations;
  std::set<std::pair<uint64_t, SessionId>> sessions;
  for (int i = 0; i < 4; ++i) {
    EpochRequest request = DatasetWorld::Request();
    request.key.job = "job";
    JoinRequest join;
    join.sharing = Sharing::Ranked(1);
    PH_ASSERT_OK_AND_ASSIGN(auto session,
                            jobs().Load(std::move(request), std::move(join), 4, [] {}));
    const uint64_t generation = session->start().join.generation;
    EXPECT_TRUE(generations.insert(generation).second);
    EXPECT_TRUE(sessions.insert({generation, session->start().session}).second);
    session = nullptr;
    EXPECT_TRUE(has_logs());
    for (const uint64_t former : generations) {
      if (former == *generations.rbegin()) continue;
      EXPECT_THAT(jobs().Acknowledge({"job", 0}, 0, former, {0}, absl::UnixEpoch()),
                  StatusIs(absl::StatusCode::kFailedPrecondition, testing::_));
    }
    EXPECT_THAT(jobs().DeleteJob("job"), IsOk());
    jobs().jobs().Sweep();
    EXPECT_FALSE(has_logs());
    EXPECT_EQ(jobs().jobs().num_here(), 0U);
    if (i % 2 == 1) restart();
  }
}

TEST_F(JobsAloneTest, NothingIsLeftOfADeletedJobButItsGenerations) {
  TestNothingIsLeftOfADeletedJobButItsGenerations(
      [&]() -> AllJobs& { return *jobs_; }, [&] { Restart(); },
      [&] { return !logs_->Names()->empty() || logs_->num_records() != 0; });
}

TEST_F(JobsTest, NothingIsLeftOfADeletedJobButItsGenerations) {
  FakeKeyValueServers servers{&clock_};
  std::unique_ptr<SharingServer> server;
  std::unique_ptr<AllJobs> jobs;
  int num_starts = 0;
  const auto start = [&] {
    jobs = nullptr;
    if (server != nullptr) {
      ASSERT_THAT(server->lease.Leave(), IsOk());
    }
    server =
        std::make_unique<SharingServer>(servers, clock_, dataset_, absl::StrCat("s", num_starts++));
    ASSERT_THAT(server->lease.Tick(), IsOk());
    jobs = AllJobs::Open(&server->catalog, &server->logs, JobsOptions()).value();
  };
  start();
  FakeConnection reader(&servers);
  TestNothingIsLeftOfADeletedJobButItsGenerations(
      [&]() -> AllJobs& { return *jobs; }, [&] { start(); },
      [&] { return !reader.Range(KeyRange::Prefix("job/"), 0, 0)->values.empty(); });
}

// Totals never fall, whatever goes.
TEST_F(JobsAloneTest, WhatADeletedJobHasDeliveredCountsOn) {
  PH_ASSERT_OK_AND_ASSIGN(auto session, Load("a"));
  for (const uint64_t batch : {0, 1, 2}) {
    PH_ASSERT_OK_AND_ASSIGN(const LoadEvent event, session->Next(absl::UnixEpoch()));
    EXPECT_EQ(event.number, batch);
  }
  EXPECT_THAT(jobs_->Acknowledge({"a", 0}, session->start().session,
                                 session->start().join.generation, {0, 1}, absl::UnixEpoch()),
              IsOk());
  const DeliverySnapshot before = jobs_->Snapshot();
  EXPECT_EQ(before.totals.leased, 3U);
  EXPECT_EQ(before.jobs.count("a"), 1U);
  EXPECT_EQ(before.progress.size(), 1U);
  session = nullptr;
  EXPECT_THAT(jobs_->DeleteJob("a"), IsOk());
  EXPECT_EQ(jobs_->num_jobs(), 0U);
  for (int i = 0; i < 2; ++i) {
    const DeliverySnapshot after = jobs_->Snapshot();
    EXPECT_EQ(after.totals.leased, 3U);
    EXPECT_EQ(after.totals.acknowledged, 2U);
    EXPECT_EQ(after.totals.given_back, 1U);
    EXPECT_EQ(after.num_generations, 1U);
    EXPECT_EQ(after.num_epochs, 0U);
    EXPECT_TRUE(after.jobs.empty());
    EXPECT_TRUE(after.progress.empty());
    jobs_->jobs().Sweep();
  }
}

// Of a server's pool, on the thread of the clock.
class PoolAtOnce final : public JobPool {
 public:
  void Submit(const ClientId& /*client*/, std::function<void()> job) override { job(); }
};

TEST_F(JobsAloneTest, LeasesAreGivenBackAtTheirEnd) {
  SimulatedClock clock;
  PoolAtOnce pool;
  const auto timer = std::make_shared<LeaseTimer>(&clock, &pool, &jobs_->jobs());
  JoinRequest join;
  join.worker = "a";
  PH_ASSERT_OK_AND_ASSIGN(const auto session,
                          jobs_->Load(DatasetWorld::Request(), std::move(join), 9, [] {}));
  const auto take = [&] {
    const auto event = session->Next(clock.Now());
    EXPECT_THAT(event, IsOk());
    timer->Arm(event->leased_until);
  };
  const auto num_expired = [&] { return jobs_->Snapshot().totals.expired; };
  timer->Arm(absl::InfiniteFuture());
  take();
  clock.Advance(absl::Minutes(1));
  take();
  clock.Advance(absl::Minutes(4) - absl::Seconds(1));
  EXPECT_EQ(num_expired(), 0U);
  clock.Advance(absl::Seconds(1));
  EXPECT_EQ(num_expired(), 1U);
  // It sets itself again, and may be set again.
  clock.Advance(absl::Minutes(1));
  EXPECT_EQ(num_expired(), 2U);
  take();
  clock.Advance(absl::Minutes(5));
  EXPECT_EQ(num_expired(), 3U);
  take();
  timer->Stop();
  clock.Advance(absl::Minutes(5));
  timer->Arm(clock.Now());
  clock.Advance(absl::Minutes(5));
  EXPECT_EQ(num_expired(), 3U);
}

TEST_F(JobsAloneTest, EpochsThatNobodyUsesAreForgottenInTime) {
  EXPECT_EQ(RetentionTimer::PeriodOf(absl::Seconds(4)), absl::Seconds(1));
  EXPECT_EQ(RetentionTimer::PeriodOf(absl::Seconds(16)), absl::Seconds(2));
  EXPECT_EQ(RetentionTimer::PeriodOf(absl::Minutes(80)), absl::Minutes(10));
  EXPECT_EQ(RetentionTimer::PeriodOf(absl::Hours(24)), absl::Minutes(10));
  JobsOptions options;
  options.epoch_retention = absl::Minutes(16);
  Restart(options);
  SimulatedClock clock;
  PoolAtOnce pool;
  std::make_shared<RetentionTimer>(&clock, &pool, nullptr, options.epoch_retention)->Start();
  const auto timer = std::make_shared<RetentionTimer>(&clock, &pool, &jobs_->jobs(),
                                                      jobs_->jobs().epoch_retention());
  timer->Start();
  const auto load = [&] {
    JoinRequest join;
    join.sharing = Sharing::Ranked(1);
    join.now = clock.Now();
    EXPECT_THAT(jobs_->Load(DatasetWorld::Request(), std::move(join), 4, [] {}), IsOk());
  };
  const auto left_after = [&](int periods) {
    for (int i = 0; i < periods; ++i) clock.Advance(absl::Minutes(2));
    return jobs_->Snapshot().num_epochs;
  };
  load();
  EXPECT_EQ(left_after(7), 1U);
  EXPECT_EQ(left_after(1), 0U);
  load();
  EXPECT_EQ(left_after(7), 1U);
  timer->Stop();
  EXPECT_EQ(left_after(9), 1U);
}

// Whatever clients ask for: jobs that there never were take no memory for long, and no disk.
TEST_F(JobsAloneTest, UnknownJobsAreDropped) {
  EXPECT_THAT(Load("job"), IsOk());
  for (int i = 0; i < 5000; ++i) {
    EXPECT_THAT(jobs_->Acknowledge({absl::StrCat("none", i), 0}, 0, 1, {0}, absl::UnixEpoch()),
                StatusIs(absl::StatusCode::kNotFound, testing::_));
    ASSERT_LE(jobs_->jobs().num_here(), 200U);
  }
  EXPECT_THAT(logs_->Names().value(), testing::ElementsAre("job"));
  EXPECT_EQ(jobs_->ListJobs(0, "").jobs.size(), 1U);
}

}  // namespace
}  // namespace packhouse
