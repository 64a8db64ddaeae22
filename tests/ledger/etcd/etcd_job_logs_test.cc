// Replicas that share jobs: who gets which, for how long, and when another does.
#include "service/wings/cluster/jobs/etcd_job_logs.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <tuple>
#include <type_traits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/keys/cluster_life.h"
#include "service/stores/keys/replica_lease.h"
#include "service/wings/cluster/jobs/job_keys.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kLeaseLength = absl::Seconds(10);

struct Server {
  Server(FakeKeyValueServers& servers, SimulatedClock& clock, int number)
      : Server(servers, clock, number, number) {}
  // Where server `place` would be.
  Server(FakeKeyValueServers& servers, SimulatedClock& clock, int number, int place)
      : connection(&servers),
        lease(&connection,
              {absl::StrCat("r", number), absl::StrCat("server-", place, ":1"), kLeaseLength,
               absl::Seconds(1)},
              [&clock] { return clock.Now(); }),
        logs(&connection, &lease, absl::StrCat("r", number), uint64_t{1} << 20) {}

  FakeConnection connection;
  ReplicaLease lease;
  EtcdJobLogs logs;
};

class EtcdJobLogsTest : public ::testing::Test {
 protected:
  Server& Start() {
    all_.push_back(std::make_unique<Server>(servers_, clock_, static_cast<int>(all_.size())));
    EXPECT_THAT(all_.back()->lease.Tick(), IsOk());
    return *all_.back();
  }
  void TickAll() {
    for (const auto& server : all_) EXPECT_THAT(server->lease.Tick(), IsOk());
  }

  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  std::vector<std::unique_ptr<Server>> all_;
};

// Requests may come late, or be done though their answer was lost. Once the store answers again, a
// server that has a lease is seen by all, and stays so: no late request of an earlier try takes it
// away.
TEST(ReplicaLeaseTest, AServerWithALeaseIsSeenWhateverComesLate) {
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock, seed);
    Server server(servers, clock, 0);
    Random random(seed);
    server.connection.SetFaults(RandomFaults(seed, 60,
                                             {StoreFault::kUnreachable, StoreFault::kRequestLost,
                                              StoreFault::kReplyLost, StoreFault::kDoneLater}));
    for (uint64_t ticks = random.Between(1, 8); ticks > 0; --ticks) {
      server.lease.Tick().IgnoreError();
      clock.Advance(absl::Seconds(random.Between(0, 2)));
    }
    server.connection.SetFaults(nullptr);
    // One request that comes late may make one more try fail.
    if (!server.lease.Tick().ok()) {
      ASSERT_THAT(server.lease.Tick(), IsOk());
    }
    servers.DoLateRequests();
    for (int second = 0; second < 25; ++second) {
      clock.Advance(absl::Seconds(1));
      server.lease.Tick().IgnoreError();
      if (server.lease.lease()) {
        ASSERT_EQ(server.lease.members().size(), 1U) << second;
      }
    }
    ASSERT_TRUE(server.lease.lease().has_value());
  }
}

// Whoever is asked, one and the same server becomes the owner, and all name it.
TEST_F(EtcdJobLogsTest, AllNameTheSameOwner) {
  for (int i = 0; i < 4; ++i) Start();
  TickAll();
  std::map<std::string, int> num_owned;
  for (int j = 0; j < 40; ++j) {
    const std::string job = absl::StrCat("job", j);
    std::set<std::string> named;
    std::unique_ptr<RecordLog> log;
    for (const auto& server : all_) {
      EXPECT_THAT(
          server->logs.members(),
          testing::UnorderedElementsAre("server-0:1", "server-1:1", "server-2:1", "server-3:1"));
      PH_ASSERT_OK_AND_ASSIGN(JobPlace place, server->logs.Open(job));
      named.insert(place.log == nullptr ? place.owner.address : server->lease.address());
      if (place.log != nullptr) log = std::move(place.log);
    }
    ASSERT_NE(log, nullptr);
    ASSERT_EQ(named.size(), 1U) << job;
    EXPECT_THAT(log->ownership(), IsOk());
    ++num_owned[*named.begin()];
    PH_ASSERT_OK_AND_ASSIGN(const JobOwner owner, all_[0]->logs.OwnerOf(job));
    EXPECT_EQ(owner.revision, log->owner_revision());
    for (const auto& server : all_) {
      if (server->lease.address() == owner.address) continue;
      PH_ASSERT_OK_AND_ASSIGN(const JobPlace place, server->logs.Open(job));
      EXPECT_EQ(place.owner.address, owner.address);
      EXPECT_EQ(place.owner.revision, owner.revision);
    }
  }
  // Jobs are spread.
  EXPECT_EQ(num_owned.size(), 4U);
  EXPECT_THAT(all_[0]->logs.OwnerOf("none"),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("'none'")));
}

// A server that was killed is a member until its lease ends, beside the one that serves at its
// address now, whichever of their names comes first.
TEST_F(EtcdJobLogsTest, AJobIsMovedToTheServerThatCameLastToAnAddress) {
  Server& owner = Start();
  TickAll();
  for (const auto& [killed, serving, place] : {std::tuple(5, 7, 20), std::tuple(8, 6, 21)}) {
    const std::string job = absl::StrCat("job", place);
    PH_ASSERT_OK_AND_ASSIGN(JobPlace mine, owner.logs.Open(job));
    ASSERT_NE(mine.log, nullptr);
    ASSERT_THAT(mine.log->Append({"1"}), IsOk());
    Server before(servers_, clock_, killed, place);
    ASSERT_THAT(before.lease.Tick(), IsOk());
    Server now(servers_, clock_, serving, place);
    ASSERT_THAT(now.lease.Tick(), IsOk());
    ASSERT_THAT(mine.log->MoveTo(now.lease.address()), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const std::optional<KeyValue> moved,
                            owner.connection.Get(JobKeys(job).place()));
    ASSERT_TRUE(moved.has_value());
    EXPECT_EQ(moved->lease, now.lease.lease());
  }
}

// A job is where it was moved to while that server lives, whoever is asked.
TEST_F(EtcdJobLogsTest, AJobIsWhereItWasMovedTo) {
  for (int i = 0; i < 3; ++i) Start();
  TickAll();
  const auto owner_of = [&](const std::string& job) {
    std::unique_ptr<RecordLog> log;
    for (const auto& server : all_) {
      auto place = server->logs.Open(job);
      EXPECT_THAT(place, IsOk());
      if (place.ok() && place->log != nullptr) log = std::move(place->log);
    }
    EXPECT_NE(log, nullptr);
    return log;
  };
  const std::string job = "a/job";
  auto log = owner_of(job);
  ASSERT_NE(log, nullptr);
  EXPECT_THAT(log->Append({"1"}), IsOk());
  EXPECT_THAT(log->MoveTo("none:1"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("server-2")));
  EXPECT_THAT(log->Append({"2"}), IsOk());
  for (const int to : {2, 0, 1, 2}) {
    const std::string address = all_[static_cast<size_t>(to)]->lease.address();
    ASSERT_THAT(log->MoveTo(address), IsOk());
    auto next = owner_of(job);
    ASSERT_NE(next, nullptr);
    PH_ASSERT_OK_AND_ASSIGN(const JobOwner owner, all_[0]->logs.OwnerOf(job));
    EXPECT_EQ(owner.address, address);
    EXPECT_THAT(all_[0]->logs.directory()->Owners({job, "other"}),
                IsOkAndHolds(std::vector<std::string>{address, ""}));
    // Where it is already.
    EXPECT_THAT(next->MoveTo(address), IsOk());
    EXPECT_THAT(next->ownership(), IsOk());
    EXPECT_THAT(next->ReadAll(), IsOkAndHolds(std::vector<std::string>{"1", "2"}));
    log = std::move(next);
  }
  // Given back, it is still that server's; and anybody's, when that has gone.
  ASSERT_THAT(log->Release(), IsOk());
  log = owner_of(job);
  EXPECT_EQ(all_[0]->logs.OwnerOf(job)->address, all_[2]->lease.address());
  ASSERT_THAT(all_[2]->lease.Leave(), IsOk());
  log = nullptr;
  all_.pop_back();
  TickAll();
  EXPECT_NE(owner_of(job), nullptr);
}

// Only jobs of a member that is gone, or that comes, change their place.
TEST(RendezvousOwnerTest, OthersStayWhereTheyAre) {
  std::vector<ClusterMember> members;
  EXPECT_EQ(RendezvousOwner("job", members), nullptr);
  for (int i = 0; i < 5; ++i)
    members.push_back({absl::StrCat(i), absl::StrCat("server-", i, ":1")});
  std::vector<ClusterMember> fewer(members.begin(), members.end() - 1);
  size_t num_moved = 0;
  for (int j = 0; j < 500; ++j) {
    const std::string job = absl::StrCat("job", j);
    const ClusterMember& before = *RendezvousOwner(job, members);
    if (before == members.back()) {
      ++num_moved;
    } else {
      EXPECT_EQ(*RendezvousOwner(job, fewer), before);
    }
  }
  EXPECT_GT(num_moved, 60U);
  EXPECT_LT(num_moved, 140U);
}

// It does not wait for the lease of the process that was killed, which may be long; and whoever is
// asked names it.
TEST(EtcdJobLogsRestartTest, AServerThatIsStartedAgainHasItsJobsAtOnce) {
  // Some of them would be the other's, if nobody had them.
  for (int i = 0; i < 6; ++i) {
    const std::string job = absl::StrCat("job", i);
    SCOPED_TRACE(job);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock);
    Server first(servers, clock, 0);
    ASSERT_THAT(first.lease.Tick(), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const JobPlace owned, first.logs.Open(job));
    ASSERT_NE(owned.log, nullptr);
    ASSERT_THAT(owned.log->Append({"a"}), IsOk());
    Server other(servers, clock, 1);
    ASSERT_THAT(other.lease.Tick(), IsOk());
    first.connection.Crash();
    Server again(servers, clock, 0);
    ASSERT_THAT(again.lease.Tick(), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(JobPlace place, other.logs.Open(job));
    EXPECT_EQ(place.owner.address, again.lease.address());
    PH_ASSERT_OK_AND_ASSIGN(place, again.logs.Open(job));
    ASSERT_NE(place.log, nullptr);
    EXPECT_GT(place.log->owner_revision(), owned.log->owner_revision());
    PH_ASSERT_OK_AND_ASSIGN(const auto records, place.log->ReadAll());
    EXPECT_THAT(records, testing::ElementsAre("a"));
    // Others are still named.
    PH_ASSERT_OK_AND_ASSIGN(place, other.logs.Open(job));
    EXPECT_EQ(place.log, nullptr);
    EXPECT_EQ(place.owner.address, again.lease.address());
  }
}

// The lease ends where the owner's clock says so before it ends in the store.
TEST_F(EtcdJobLogsTest, APausedOwnerStopsBeforeAnotherMayBegin) {
  Server& first = Start();
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace owned, first.logs.Open("job"));
  ASSERT_NE(owned.log, nullptr);
  ASSERT_THAT(owned.log->Append({"a"}), IsOk());
  Server& second = Start();
  clock_.Advance(kLeaseLength - absl::Seconds(1));
  EXPECT_THAT(owned.log->ownership(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lease")));
  EXPECT_FALSE(owned.log->is_lost());
  ASSERT_THAT(second.lease.Tick(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace asked, second.logs.Open("job"));
  EXPECT_EQ(asked.owner.address, first.lease.address());
  // It comes back in time.
  ASSERT_THAT(first.lease.Tick(), IsOk());
  EXPECT_THAT(owned.log->ownership(), IsOk());
  EXPECT_THAT(owned.log->Append({"b"}), IsOk());

  clock_.Advance(kLeaseLength);
  ASSERT_THAT(second.lease.Tick(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace taken, second.logs.Open("job"));
  ASSERT_NE(taken.log, nullptr);
  EXPECT_GT(taken.log->owner_revision(), owned.log->owner_revision());
  EXPECT_THAT(taken.log->ReadAll(), IsOkAndHolds(std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(owned.log->Append({"late"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(second.lease.address())));
  EXPECT_TRUE(owned.log->is_lost());
  // It is a member again, with another lease; the job stays where it is.
  ASSERT_THAT(first.lease.Tick(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace again, first.logs.Open("job"));
  EXPECT_EQ(again.owner.address, second.lease.address());
}

// As it is had, and as it is kept.
TEST_F(EtcdJobLogsTest, ALeaseLastsToItsMargin) {
  Server& server = Start();
  ReplicaLease& lease = server.lease;
  const LeaseId id = *lease.lease();
  for (int i = 0; i < 2; ++i) {
    clock_.Advance(kLeaseLength - absl::Seconds(1) - absl::Nanoseconds(1));
    EXPECT_EQ(lease.lease(), id);
    EXPECT_TRUE(lease.Lasts(id));
    EXPECT_FALSE(lease.Lasts(id + 1));
    clock_.Advance(absl::Nanoseconds(1));
    EXPECT_EQ(lease.lease(), std::nullopt);
    EXPECT_FALSE(lease.Lasts(id));
    EXPECT_TRUE(lease.IsCurrent(id));
    EXPECT_FALSE(lease.IsCurrent(id + 1));
    ASSERT_THAT(lease.Tick(), IsOk());
    EXPECT_EQ(lease.lease(), id);
  }
  EXPECT_EQ(lease.Period(), absl::Seconds(1));
  const ReplicaLease brief(&server.connection, {"brief", "server:1", absl::Seconds(2)},
                           [] { return absl::UnixEpoch(); });
  EXPECT_EQ(brief.Period(), absl::Milliseconds(500));
  // Who has left has none, and asks for none.
  int num_calls = 0;
  server.connection.SetFaults([&] {
    ++num_calls;
    return StoreFault::kNone;
  });
  EXPECT_THAT(lease.Leave(), IsOk());
  EXPECT_THAT(lease.Leave(), IsOk());
  EXPECT_EQ(num_calls, 1);
  for (const LeaseId each : {LeaseId{0}, id}) {
    EXPECT_FALSE(lease.Lasts(each));
    EXPECT_FALSE(lease.IsCurrent(each));
  }
  EXPECT_THAT(lease.Tick(), IsOk());
  EXPECT_EQ(lease.lease(), std::nullopt);
  EXPECT_TRUE(lease.members().empty());
}

TEST_F(EtcdJobLogsTest, WhoLeavesIsReplacedAtOnce) {
  Server& first = Start();
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace owned, first.logs.Open("job"));
  Server& second = Start();
  EXPECT_THAT(first.lease.Leave(), IsOk());
  EXPECT_TRUE(owned.log->is_lost());
  ASSERT_THAT(second.lease.Tick(), IsOk());
  EXPECT_EQ(second.lease.members().size(), 1U);
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace taken, second.logs.Open("job"));
  EXPECT_NE(taken.log, nullptr);
  ASSERT_THAT(first.lease.Tick(), IsOk());
  EXPECT_THAT(first.logs.Open("other"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no lease")));
}

// A log that has failed does not keep its server from opening the job again.
TEST_F(EtcdJobLogsTest, AJobIsOpenedAgainAfterAnUnknownOutcome) {
  Server& server = Start();
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace owned, server.logs.Open("job"));
  ASSERT_THAT(owned.log->Append({"a"}), IsOk());
  server.connection.SetFaults([] { return StoreFault::kRequestLost; });
  EXPECT_THAT(owned.log->Append({"b"}),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not known")));
  EXPECT_TRUE(owned.log->is_lost());
  server.connection.SetFaults(nullptr);
  EXPECT_THAT(owned.log->ownership(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not known")));
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace again, server.logs.Open("job"));
  ASSERT_NE(again.log, nullptr);
  EXPECT_GT(again.log->owner_revision(), owned.log->owner_revision());
  EXPECT_THAT(again.log->ReadAll(), IsOkAndHolds(std::vector<std::string>{"a"}));
}

// Another server is faster, or the lease ends, between what was read and what is written.
TEST_F(EtcdJobLogsTest, WhatChangesWhileAJobIsOpenedIsTold) {
  Server& server = Start();
  Server other(servers_, clock_, 1);
  std::unique_ptr<EtcdRecordLog> of_other;
  int num_calls = 0;
  server.connection.SetFaults([&] {
    // The owner, the members and the place were read.
    if (++num_calls == 4) {
      const LeaseId lease = other.connection.GrantLease(kLeaseLength)->id;
      auto acquired =
          EtcdRecordLog::Acquire(&other.connection, {"job", "server-1:1", "r1-1", lease});
      EXPECT_THAT(acquired, IsOk());
      if (acquired.ok()) of_other = std::move(acquired->log);
    }
    return StoreFault::kNone;
  });
  PH_ASSERT_OK_AND_ASSIGN(const JobPlace place, server.logs.Open("job"));
  server.connection.SetFaults(nullptr);
  EXPECT_EQ(place.log, nullptr);
  ASSERT_NE(of_other, nullptr);
  EXPECT_EQ(place.owner.address, "server-1:1");
  EXPECT_EQ(place.owner.revision, of_other->owner_revision());

  ASSERT_THAT(server.connection.RevokeLease(*server.lease.lease()), IsOk());
  EXPECT_THAT(server.logs.Open("other"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lease has ended")));
  EXPECT_THAT(server.logs.OwnerOf("other"), StatusIs(absl::StatusCode::kNotFound, testing::_));
}

TEST_F(EtcdJobLogsTest, CommitsAreCountedAndTimed) {
  Server& server = Start();
  // Each look at the clock takes a millisecond.
  EtcdJobLogs logs(
      &server.connection, &server.lease, "timed", uint64_t{1} << 20,
      [this] {
        clock_.Advance(absl::Milliseconds(1));
        return clock_.Now();
      },
      17);
  EXPECT_EQ(logs.restored_seconds(), 17U);
  PH_ASSERT_OK_AND_ASSIGN(JobPlace place, logs.Open("job"));
  ASSERT_NE(place.log, nullptr);
  EXPECT_THAT(place.log->Append({"a"}), IsOk());
  EXPECT_THAT(place.log->Append({"b"}), IsOk());
  EXPECT_EQ(logs.commits().num_done, 2U);
  EXPECT_EQ(logs.commits().num_failed, 0U);
  servers_.SetFull(true);
  EXPECT_THAT(place.log->Append({"c"}), StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
  servers_.SetFull(false);
  EXPECT_EQ(logs.commits().num_done, 2U);
  EXPECT_EQ(logs.commits().num_failed, 1U);
  EXPECT_EQ(logs.commits().time, absl::Milliseconds(3));
  EXPECT_THAT(logs.Read("job"), IsOkAndHolds(std::vector<std::string>{"a", "b"}));
  EXPECT_THAT(logs.Read("none"), IsOkAndHolds(std::vector<std::string>()));
  EXPECT_THAT(place.log->Replace({"d"}), IsOk());
  EXPECT_THAT(logs.Read("job"), IsOkAndHolds(std::vector<std::string>{"d"}));
  EXPECT_THAT(place.log->Erase(5), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(place, logs.Open("job"));
  EXPECT_THAT(place.log->mark(), IsOkAndHolds(5U));
  EXPECT_THAT(place.log->ReadAll(), IsOkAndHolds(std::vector<std::string>()));
}

TEST_F(EtcdJobLogsTest, TheDirectoryTellsWhatItWasTold) {
  Server& server = Start();
  JobDirectory& directory = *server.logs.directory();
  ASSERT_THAT(directory.Put({"team/a", 4, 20, 300}), IsOk());
  EXPECT_EQ(server.connection.Get("jobs/team/a").value()->value, "1 4 20 300");
  // Of other versions, or damaged.
  for (const char* const value :
       {"2 4 20 300", "1 4 20", "1 4 20 300 5", "1 x 20 300", "1 4 x 300", "1 4 20 x"}) {
    ASSERT_THAT(server.connection.Commit({{}, {Operation::Put("jobs/team/b", value)}, {}}), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const JobPage page, directory.List("", 10));
    EXPECT_THAT(page.jobs, testing::ElementsAre(ListedJob{"team/a", 4, 20, 300})) << value;
    EXPECT_EQ(page.next, "");
  }
  // In pages; and who owns each of them.
  ASSERT_THAT(directory.Put({"team/c", 1, 2, 3}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JobPage first, directory.List("", 1));
  EXPECT_THAT(first.jobs, testing::ElementsAre(ListedJob{"team/a", 4, 20, 300}));
  EXPECT_EQ(first.next, "team/a");
  PH_ASSERT_OK_AND_ASSIGN(const JobPage rest, directory.List(first.next, 10));
  EXPECT_THAT(rest.jobs, testing::ElementsAre(ListedJob{"team/c", 1, 2, 3}));
  EXPECT_EQ(rest.next, "");
  ASSERT_THAT(directory.Remove("team/c"), IsOk());
  ASSERT_THAT(server.connection.Commit({{}, {Operation::Put(JobKeys("damaged").owner(), "?")}, {}}),
              IsOk());
  const auto is_damaged = StatusIs(absl::StatusCode::kDataLoss, "the owner's key is damaged: '?'");
  EXPECT_THAT(directory.Owners({"team/a", "damaged"}), is_damaged);
  EXPECT_THAT(server.logs.OwnerOf("damaged"), is_damaged);
  EXPECT_THAT(server.logs.Open("damaged"), is_damaged);
  ASSERT_THAT(directory.Remove("team/a"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const JobPage page, directory.List("", 10));
  EXPECT_THAT(page.jobs, testing::IsEmpty());
}

// Two processes with one address would each take the other for one that was killed.
TEST_F(EtcdJobLogsTest, OneThatLivesKeepsItsAddress) {
  Server& first = Start();
  Server second(servers_, clock_, 0);
  const auto make = [&](const char* replica) {
    return std::make_unique<ReplicaLease>(
        &second.connection,
        ReplicaLease::Options{replica, first.lease.address(), kLeaseLength, absl::Seconds(1)},
        [this] { return clock_.Now(); });
  };
  const auto listens = [](const std::string& /*address*/) { return true; };
  const auto nothing_listens = [](const std::string& /*address*/) { return false; };
  const auto no_sleep = [](absl::Duration /*time*/) { ADD_FAILURE(); };
  ASSERT_THAT(first.lease.CheckIsAlone(listens, no_sleep), IsOk());
  auto other = make("other");
  ASSERT_THAT(other->Tick(), IsOk());
  // One that lives has its turns meanwhile.
  EXPECT_THAT(other->CheckIsAlone(listens,
                                  [&](absl::Duration time) {
                                    clock_.Advance(time);
                                    EXPECT_THAT(first.lease.Tick(), IsOk());
                                  }),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(first.lease.address())));
  ASSERT_THAT(other->Leave(), IsOk());
  EXPECT_THAT(first.lease.Tick(), IsOk());
  // Its lease ends, and it has another one, with its address.
  clock_.Advance(2 * kLeaseLength);
  EXPECT_THAT(first.lease.Tick(), IsOk());
  EXPECT_FALSE(first.lease.is_replaced());
  // One that was killed is not waited for where nothing listens, and not for ever where something
  // does.
  other = make("again");
  ASSERT_THAT(other->Tick(), IsOk());
  EXPECT_THAT(other->CheckIsAlone(nothing_listens, no_sleep), IsOk());
  EXPECT_THAT(other->CheckIsAlone(listens, no_sleep), IsOk());
  auto third = make("third");
  ASSERT_THAT(third->Tick(), IsOk());
  int num_periods = 0;
  EXPECT_THAT(third->CheckIsAlone(listens, [&](absl::Duration /*time*/) { ++num_periods; }),
              IsOk());
  EXPECT_EQ(num_periods, ReplicaLease::kLongestSilence);
  EXPECT_THAT(third->Tick(), IsOk());
  // Those that lived after all know it, also if they had no lease meanwhile.
  EXPECT_THAT(other->Tick(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(first.lease.address())));
  EXPECT_TRUE(other->is_replaced());
  clock_.Advance(2 * kLeaseLength);
  EXPECT_THAT(third->Tick(), IsOk());
  EXPECT_THAT(first.lease.Tick(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("each server needs its")));
  EXPECT_TRUE(first.lease.is_replaced());
  EXPECT_FALSE(third->is_replaced());
}

// Calls of two processes, in an order that a test chooses: the bits of `order`, then whoever is
// left.
class CallsInTurns {
 public:
  explicit CallsInTurns(uint32_t order) : order_(order) {}

  void AwaitTurn(int process) {
    absl::MutexLock lock(&mutex_);
    const auto is_next = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return !is_busy_ && (has_ended_[1 - process] || static_cast<int>(order_ & 1) == process);
    };
    mutex_.Await(absl::Condition(&is_next));
    is_busy_ = true;
  }
  void EndTurn() {
    absl::MutexLock lock(&mutex_);
    is_busy_ = false;
    order_ >>= 1;
  }
  void End(int process) {
    absl::MutexLock lock(&mutex_);
    has_ended_[process] = true;
  }

 private:
  absl::Mutex mutex_;
  uint32_t order_ ABSL_GUARDED_BY(mutex_);
  bool is_busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_ended_[2] ABSL_GUARDED_BY(mutex_) = {false, false};
};

class StoreInTurns final : public KeyValueStore {
 public:
  StoreInTurns(KeyValueStore* store, CallsInTurns* turns, int process)
      : store_(store), turns_(turns), process_(process) {}

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    return InTurn([&] { return store_->Range(range, limit, revision); });
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    return InTurn([&] { return store_->Commit(transaction); });
  }
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    return InTurn([&] { return store_->GrantLease(length); });
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override {
    return InTurn([&] { return store_->KeepAlive(lease); });
  }
  absl::Status RevokeLease(LeaseId lease) override {
    return InTurn([&] { return store_->RevokeLease(lease); });
  }

 private:
  template <typename Call>
  std::invoke_result_t<Call> InTurn(Call call) {
    turns_->AwaitTurn(process_);
    auto answer = call();
    turns_->EndTurn();
    return answer;
  }

  KeyValueStore* const store_;
  CallsInTurns* const turns_;
  const int process_;
};

// Whatever comes first, and whether or not one of them is taken for a killed one: in the end one
// goes on, and the other one was refused.
TEST(ReplicaLeaseTest, OfTwoThatStartAtOneMomentOneGoesOn) {
  constexpr int kTurns = 10;
  for (uint32_t order = 0; order < 1U << kTurns; ++order) {
    const bool listens = order % 3 == 0;
    SCOPED_TRACE(testing::Message() << "order " << order << ", listens " << listens);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock);
    CallsInTurns turns(order);
    std::vector<std::unique_ptr<FakeConnection>> connections;
    std::vector<std::unique_ptr<StoreInTurns>> stores;
    std::vector<std::unique_ptr<ReplicaLease>> leases;
    for (int i = 0; i < 2; ++i) {
      connections.push_back(std::make_unique<FakeConnection>(&servers));
      stores.push_back(std::make_unique<StoreInTurns>(connections[i].get(), &turns, i));
      leases.push_back(std::make_unique<ReplicaLease>(
          stores[i].get(),
          ReplicaLease::Options{absl::StrCat("r", i), "server:1", kLeaseLength, absl::Seconds(1)},
          [&clock] { return clock.Now(); }));
    }
    absl::Status ended[2];
    const auto start = [&](int i) {
      ended[i] = leases[i]->Tick();
      if (ended[i].ok()) {
        ended[i] = leases[i]->CheckIsAlone([&](const std::string&) { return listens; },
                                           [](absl::Duration) {});
      }
      if (ended[i].ok()) ended[i] = leases[i]->Tick();
      if (!ended[i].ok()) leases[i]->Leave().IgnoreError();
      turns.End(i);
    };
    std::thread other([&] { start(1); });
    start(0);
    other.join();
    for (int i = 0; i < 2; ++i) {
      if (!ended[i].ok()) continue;
      ended[i] = leases[i]->Tick();
      if (!ended[i].ok()) leases[i]->Leave().IgnoreError();
    }
    ASSERT_EQ(ended[0].ok() + ended[1].ok(), 1);
    const int refused = ended[0].ok() ? 1 : 0;
    ASSERT_THAT(ended[refused],
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("server:1")));
    // And stays so.
    ASSERT_THAT(leases[1 - refused]->Tick(), IsOk());
    ASSERT_EQ(leases[1 - refused]->members().size(), 1U);
  }
}

TEST_F(EtcdJobLogsTest, MembersSayWhatTheyShouldHaveInCommon) {
  FakeConnection connection(&servers_);
  ReplicaLease lease(&connection,
                     {"r", "server:1", kLeaseLength, absl::Seconds(1), {{"a", "b c"}, {"d", ""}}},
                     [this] { return clock_.Now(); });
  ASSERT_THAT(lease.Tick(), IsOk());
  ASSERT_EQ(lease.members().size(), 1U);
  EXPECT_EQ(lease.members()[0].address, "server:1");
  EXPECT_EQ(lease.members()[0].settings,
            (std::map<std::string, std::string>{{"a", "b c"}, {"d", ""}}));
}

// Whatever the revisions are: a store that was restored is another one to who has known it before.
TEST_F(EtcdJobLogsTest, NothingIsChangedInAnotherLifeOfTheStore) {
  FakeConnection connection(&servers_);
  const auto put = [](KeyValueStore& store, absl::string_view key, absl::string_view value) {
    return store.Commit({{}, {Operation::Put(key, value)}, {}});
  };
  const auto join = [&] { return LivingStore::Join(std::make_unique<FakeConnection>(&servers_)); };
  PH_ASSERT_OK_AND_ASSIGN(const auto first, join());
  EXPECT_EQ(first->began(), 0U);
  EXPECT_THAT(put(*first, "k", "1"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const TransactionResult refused,
                          first->Commit({{Compare::Absent("k")},
                                         {Operation::Put("k", "2")},
                                         {Operation::Read(KeyRange::Of("k"))}}));
  EXPECT_FALSE(refused.succeeded);
  ASSERT_EQ(refused.reads.size(), 1U);
  EXPECT_THAT(first->life(), IsOk());
  const FakeKeyValueServers::Backup backup = servers_.TakeBackup();
  for (uint64_t life = 1'900'000'001; life <= 1'900'000'003; ++life) {
    PH_ASSERT_OK_AND_ASSIGN(const auto before, join());
    servers_.Restore(backup);
    ASSERT_THAT(put(connection, kClusterLifeKey, absl::StrCat(life, "-random")), IsOk());
    EXPECT_THAT(put(*before, "k", "3"),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr("restored from a backup")));
    EXPECT_THAT(before->life(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("start it")));
    EXPECT_EQ(connection.Get("k").value()->value, "1");
    PH_ASSERT_OK_AND_ASSIGN(const auto after, join());
    EXPECT_EQ(after->began(), life);
    EXPECT_THAT(put(*after, "k", "1"), IsOk());
  }
  for (const char* const no_life : {"", "x", "1", "-1", "99999999999"}) {
    ASSERT_THAT(put(connection, kClusterLifeKey, no_life), IsOk());
    EXPECT_THAT(join(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("life")));
  }
}

TEST_F(EtcdJobLogsTest, AFullStoreIsKnownUntilItTakesSomething) {
  PH_ASSERT_OK_AND_ASSIGN(const auto store,
                          LivingStore::Join(std::make_unique<FakeConnection>(&servers_)));
  const Transaction put = {{}, {Operation::Put("k", "v")}, {}};
  EXPECT_THAT(store->Commit(put), IsOk());
  servers_.SetFull(true);
  EXPECT_THAT(store->Commit(put), StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
  EXPECT_THAT(store->Commit({{}, {Operation::Read(KeyRange::Of("k"))}, {}}), IsOk());
  EXPECT_THAT(store->room(), StatusIs(absl::StatusCode::kResourceExhausted, testing::_));
  servers_.SetFull(false);
  EXPECT_THAT(store->Commit(put), IsOk());
  EXPECT_THAT(store->room(), IsOk());
}

}  // namespace
}  // namespace packhouse
