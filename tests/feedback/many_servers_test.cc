// What several servers are told of one device: whatever fails, nothing that was answered is lost,
// nothing is counted twice, and all fit the same law.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/caller.h"
#include "service/engine/feedback/feedback_store.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/leaving_caller.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const std::vector<std::string> kColumns = {"edges", "nodes", "graphs"};
const FeedbackKey kGin = {"team/gin", "h100"};

BatchObservation BatchOf(uint64_t edges, double seconds) {
  BatchObservation batch;
  batch.capacities = {edges, edges / 2, 10};
  batch.seconds = seconds;
  batch.peak_bytes = 1000 * edges;
  return batch;
}

// A way to the store on which something happens before or after reads.
class WatchedConnection final : public KeyValueStore {
 public:
  explicit WatchedConnection(FakeKeyValueServers* servers) : to_(servers) {}

  FakeConnection& to() { return to_; }

  std::function<void()> before_read = [] {};
  std::function<void()> after_read = [] {};

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    before_read();
    auto result = to_.Range(range, limit, revision);
    after_read();
    return result;
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    return to_.Commit(transaction);
  }
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    return to_.GrantLease(length);
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override { return to_.KeepAlive(lease); }
  absl::Status RevokeLease(LeaseId lease) override { return to_.RevokeLease(lease); }

 private:
  FakeConnection to_;
};

// One server, and its way to the store.
struct TestServer {
  TestServer(FakeKeyValueServers& servers, const SimulatedClock& clock, std::string replica,
             size_t max_models = 256, Retention retention = {})
      : connection(&servers),
        store(
            FeedbackStore::Open(&connection, {std::move(replica), max_models, std::move(retention),
                                              [&clock] { return clock.Now(); }})
                .value()) {}

  absl::StatusOr<uint64_t> Report(const FeedbackKey& key, uint64_t edges) {
    return store->Report(key, kColumns, {BatchOf(edges, 1e-3 + 1e-6 * static_cast<double>(edges))},
                         absl::FromUnixSeconds(1'700'000'000));
  }

  FakeConnection connection;
  std::unique_ptr<FeedbackStore> store;
};

class FeedbackOfServersTest : public testing::Test {
 protected:
  std::unique_ptr<TestServer> Start(size_t max_models = 256, Retention retention = {}) {
    return std::make_unique<TestServer>(servers_, clock_, absl::StrCat("replica", ++num_started_),
                                        max_models, std::move(retention));
  }

  SimulatedClock clock_;
  FakeKeyValueServers servers_{&clock_};
  int num_started_ = 0;
};

TEST_F(FeedbackOfServersTest, EveryServerHasWhatAnyWasTold) {
  const auto a = Start();
  const auto b = Start();
  for (uint64_t edges = 100; edges <= 2000; edges += 100) {
    EXPECT_THAT((edges % 200 == 0 ? a : b)->Report(kGin, edges), IsOkAndHolds(edges / 100));
  }
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback at_a, a->store->Get(kGin));
  EXPECT_THAT(b->store->Get(kGin), IsOkAndHolds(at_a));
  // Same observations, same law.
  const auto model = a->store->Find("team/gin/h100");
  const auto same = b->store->Find("team/gin/h100");
  ASSERT_NE(model, nullptr);
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(model->seconds.per_row, same->seconds.per_row);
  EXPECT_EQ(model->bytes.fixed, same->bytes.fixed);
  EXPECT_GT(model->seconds.per_row[0], 0);
  EXPECT_THAT(b->store->All().value(), UnorderedElementsAre(Pair(kGin, at_a)));
  EXPECT_THAT(a->store->Readings(), testing::SizeIs(1));
  EXPECT_THAT(a->store->Delete(kGin), IsOk());
  EXPECT_THAT(b->store->Delete(kGin), StatusIs(absl::StatusCode::kNotFound, HasSubstr("gin")));
  EXPECT_THAT(b->store->All().value(), IsEmpty());
  EXPECT_THAT(b->store->Readings(), IsEmpty());
  clock_.Advance(FeedbackStore::kFresh);
  EXPECT_EQ(a->store->Find("team/gin/h100"), nullptr);
}

TEST_F(FeedbackOfServersTest, FindIsFreshToASecond) {
  const auto a = Start();
  const auto b = Start();
  ASSERT_THAT(a->Report(kGin, 100), IsOk());
  const auto before = b->store->Find("team/gin/h100");
  ASSERT_NE(before, nullptr);
  ASSERT_THAT(a->Report(kGin, 9000), IsOk());
  EXPECT_EQ(b->store->Find("team/gin/h100"), before);
  clock_.Advance(FeedbackStore::kFresh);
  const auto after = b->store->Find("team/gin/h100");
  EXPECT_NE(after, before);
  // Without the store it gives what it has, and asks again after a while.
  clock_.Advance(FeedbackStore::kFresh);
  int num_asked = 0;
  b->connection.SetFaults([&] {
    ++num_asked;
    // It takes a while to find out.
    clock_.Advance(absl::Seconds(3));
    return StoreFault::kUnreachable;
  });
  EXPECT_EQ(b->store->Find("team/gin/h100"), after);
  EXPECT_EQ(b->store->Find("team/other/h100"), nullptr);
  clock_.Advance(FeedbackStore::kAway - absl::Seconds(1));
  EXPECT_EQ(b->store->Find("team/gin/h100"), after);
  EXPECT_EQ(num_asked, 1);
  EXPECT_THAT(b->store->Get(kGin), StatusIs(absl::StatusCode::kUnavailable, testing::_));
  b->connection.SetFaults(nullptr);
  ASSERT_THAT(a->Report(kGin, 20'000), IsOk());
  clock_.Advance(FeedbackStore::kAway);
  EXPECT_NE(b->store->Find("team/gin/h100"), after);
}

TEST_F(FeedbackOfServersTest, WhatIsCreatedWhileAllAreReadStays) {
  WatchedConnection connection(&servers_);
  const auto store =
      FeedbackStore::Open(&connection, {"watched", 256, {}, [this] { return clock_.Now(); }})
          .value();
  const auto other = Start();
  // More than one page.
  for (int i = 0; i < 40; ++i) {
    ASSERT_THAT(other->Report({absl::StrCat("model", i), "d"}, 100), IsOk());
  }
  int num_reads = 0;
  connection.before_read = [&] {
    if (++num_reads != 2) return;
    EXPECT_THAT(store->Report(kGin, kColumns, {BatchOf(100, 1)}, clock_.Now()), IsOk());
  };
  // Read anew, if the store has dropped what it was like before.
  EXPECT_THAT(store->All().value(), testing::SizeIs(testing::AnyOf(40, 41)));
  EXPECT_NE(store->Find("team/gin/h100"), nullptr);
  EXPECT_NE(store->ModelOf(kGin), nullptr);
}

TEST_F(FeedbackOfServersTest, AReadThatADeletionOvertakesBringsNothingBack) {
  WatchedConnection connection(&servers_);
  const auto store =
      FeedbackStore::Open(&connection, {"watched", 256, {}, [this] { return clock_.Now(); }})
          .value();
  const auto other = Start();
  ASSERT_THAT(other->Report(kGin, 100), IsOk());
  int num_reads = 0;
  connection.after_read = [&] {
    if (++num_reads == 1) {
      EXPECT_THAT(store->Delete(kGin), IsOk());
    }
  };
  EXPECT_THAT(store->Get(kGin), IsOk());
  EXPECT_EQ(store->ModelOf(kGin), nullptr);
  // Another one of that name is another one.
  ASSERT_THAT(other->Report(kGin, 200), IsOk());
  EXPECT_NE(store->Find("team/gin/h100"), nullptr);
}

TEST_F(FeedbackOfServersTest, WhatOtherServersDeleteIsForgotten) {
  // For ever: no more is known than there may be.
  constexpr size_t kMost = 4;
  const auto a = Start(kMost);
  const auto b = Start(kMost);
  for (int i = 0; i < 20; ++i) {
    const FeedbackKey key = {absl::StrCat("model", i), "d"};
    ASSERT_THAT(a->Report(key, 100), IsOk());
    EXPECT_THAT(b->store->Get(key), IsOk());
    EXPECT_NE(b->store->ModelOf(key), nullptr);
    EXPECT_LE(b->store->Readings().size(), kMost);
    ASSERT_THAT(a->store->Delete(key), IsOk());
  }
  // With a retention: not for long.
  const auto c = Start(kMost, {absl::Hours(8), {}});
  ASSERT_THAT(a->Report(kGin, 100), IsOk());
  EXPECT_THAT(c->store->Get(kGin), IsOk());
  EXPECT_NE(c->store->ModelOf(kGin), nullptr);
  ASSERT_THAT(a->store->Delete(kGin), IsOk());
  EXPECT_THAT(c->store->Readings(), testing::SizeIs(1));
  std::vector<Expired> expired;
  EXPECT_THAT(c->store->DeleteUnused(expired), IsOk());
  EXPECT_THAT(c->store->Readings(), IsEmpty());
}

TEST_F(FeedbackOfServersTest, WhoLosesPausesAndTriesAgain) {
  WatchedConnection connection(&servers_);
  std::vector<absl::Duration> pauses;
  const auto store =
      FeedbackStore::Open(&connection, {"watched",
                                        256,
                                        {},
                                        [this] { return clock_.Now(); },
                                        [&](absl::Duration pause) { pauses.push_back(pause); }})
          .value();
  const auto other = Start();
  ASSERT_THAT(other->Report(kGin, 100), IsOk());
  int num_reads = 0;
  connection.after_read = [&] {
    if (++num_reads <= 10) {
      EXPECT_THAT(other->Report(kGin, 100), IsOk());
    }
  };
  EXPECT_THAT(store->Report(kGin, kColumns, {BatchOf(100, 1)}, clock_.Now()),
              IsOkAndHolds(uint64_t{12}));
  ASSERT_THAT(pauses, testing::SizeIs(10));
  EXPECT_GE(pauses[0], SharedChanges::kFirstPause / 2);
  EXPECT_LE(pauses[0], SharedChanges::kFirstPause);
  EXPECT_GE(pauses[9], SharedChanges::kLongestPause / 2);
  EXPECT_LE(pauses[9], SharedChanges::kLongestPause);
}

// A deletion that others come before, or whose answer is lost, is tried again. By then another
// model may have the name.
TEST_F(FeedbackOfServersTest, ADeletionThatIsTriedAgainIsOfTheSameModel) {
  const auto other = Start();
  for (int at = 1; at < 6; ++at) {
    SCOPED_TRACE(at);
    WatchedConnection connection(&servers_);
    const auto store =
        FeedbackStore::Open(
            &connection,
            {"watched", 256, {}, [this] { return clock_.Now(); }, [](absl::Duration) {}})
            .value();
    ASSERT_THAT(other->Report(kGin, 100), IsOk());
    int num_reads = 0;
    bool is_anew = false;
    connection.after_read = [&] {
      if (++num_reads != at) return;
      is_anew = true;
      EXPECT_THAT(other->store->Delete(kGin), IsOk());
      EXPECT_THAT(other->Report(kGin, 200), IsOkAndHolds(uint64_t{1}));
    };
    const absl::Status deleted = store->Delete(kGin);
    connection.after_read = [] {};
    EXPECT_EQ(deleted.code(), is_anew ? absl::StatusCode::kNotFound : absl::StatusCode::kOk);
    EXPECT_EQ(other->store->Get(kGin).ok(), is_anew);
    if (!is_anew) continue;
    ASSERT_THAT(other->store->Delete(kGin), IsOk());
  }
}

// The `nth` request from now on, the first is 1, has this fault.
StoreFaults FaultAt(int nth, StoreFault fault) {
  return [left = nth, fault]() mutable { return --left == 0 ? fault : StoreFault::kNone; };
}

TEST_F(FeedbackOfServersTest, ADeletionWhoseAnswerIsLostIsDone) {
  const auto server = Start();
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  // After the model and the number of models are read.
  server->connection.SetFaults(FaultAt(3, StoreFault::kReplyLost));
  EXPECT_THAT(server->store->Delete(kGin), IsOk());
  EXPECT_THAT(server->store->All().value(), IsEmpty());
}

// Whether a report is there shows as long as not too many others have come since; then it is said.
TEST_F(FeedbackOfServersTest, AReportThatManyOthersHaveFollowedIsNotKnown) {
  constexpr int kMost = FeedbackStore::kMaxAttempts;
  for (const int num_others : {kMost - 1, kMost}) {
    const FeedbackKey key = {absl::StrCat("m", num_others), "d"};
    WatchedConnection connection(&servers_);
    const auto store =
        FeedbackStore::Open(&connection, {"watched", 256, {}, [this] { return clock_.Now(); }})
            .value();
    const auto report = [&] {
      return store->Report(key, kColumns, {BatchOf(100, 1)}, clock_.Now());
    };
    ASSERT_THAT(report(), IsOk());
    int num_reads = 0;
    connection.before_read = [&] {
      if (++num_reads != 2) return;
      for (int i = 0; i < num_others; ++i) EXPECT_THAT(Start()->Report(key, 100), IsOk());
    };
    connection.to().SetFaults(FaultAt(2, StoreFault::kReplyLost));
    const absl::Status reported = report().status();
    if (num_others < kMost) {
      EXPECT_THAT(reported, IsOk());
    } else {
      EXPECT_THAT(reported,
                  StatusIs(absl::StatusCode::kUnavailable, HasSubstr("many other servers")));
    }
    connection.before_read = [] {};
    EXPECT_EQ(store->Get(key)->shapes.num_reports(), num_others + 2);
  }
}

TEST_F(FeedbackOfServersTest, WhatNobodyKnowsIsSaid) {
  const auto server = Start();
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  server->connection.SetFaults([num_asked = 0]() mutable {
    ++num_asked;
    return num_asked == 1   ? StoreFault::kNone
           : num_asked == 2 ? StoreFault::kReplyLost
                            : StoreFault::kUnreachable;
  });
  EXPECT_THAT(server->Report(kGin, 100),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("it is not known whether")));
}

// A use that is written between two tries of a report hides nothing of it.
TEST_F(FeedbackOfServersTest, AUseBesideAReportDoesNotCountItTwice) {
  WatchedConnection connection(&servers_);
  const auto store =
      FeedbackStore::Open(&connection,
                          {"watched", 256, {absl::Hours(8), {}}, [this] { return clock_.Now(); }})
          .value();
  const auto report = [&] {
    return store->Report(kGin, kColumns, {BatchOf(100, 1)}, clock_.Now());
  };
  ASSERT_THAT(report(), IsOk());
  int num_reads = 0;
  connection.before_read = [&] {
    if (++num_reads != 2) return;
    clock_.Advance(absl::Minutes(1));
    EXPECT_NE(store->Find("team/gin/h100"), nullptr);
    EXPECT_THAT(store->SaveUses(), IsOk());
  };
  connection.to().SetFaults(FaultAt(2, StoreFault::kReplyLost));
  EXPECT_THAT(report(), IsOk());
  EXPECT_GT(num_reads, 2);
  EXPECT_EQ(store->Get(kGin)->shapes.num_reports(), 2);
}

// It may have been used since the sweep began, or the store did not take the use.
TEST_F(FeedbackOfServersTest, WhatIsUsedStaysThoughTheUseCannotBeWritten) {
  const Retention retention = {absl::Hours(8), {}};
  const auto server = Start(256, retention);
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  clock_.Advance(absl::Hours(9));
  ASSERT_NE(server->store->Find("team/gin/h100"), nullptr);
  server->connection.SetFaults(FaultAt(2, StoreFault::kUnreachable));
  std::vector<Expired> expired;
  EXPECT_THAT(server->store->DeleteUnused(expired),
              StatusIs(absl::StatusCode::kUnavailable, testing::_));
  EXPECT_THAT(expired, IsEmpty());
  EXPECT_THAT(server->store->Get(kGin), IsOk());
}

TEST_F(FeedbackOfServersTest, NobodysReportIsNotMade) {
  const auto server = Start();
  LeavingCaller caller;
  const CallerScope scope(&caller);
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  caller.Leave();
  EXPECT_THAT(server->Report(kGin, 100), StatusIs(absl::StatusCode::kCancelled, testing::_));
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback kept, server->store->Get(kGin));
  EXPECT_EQ(kept.shapes.num_reports(), 1);
}

TEST_F(FeedbackOfServersTest, RefusalsAreNamed) {
  const auto server = Start(/*max_models=*/1);
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  EXPECT_THAT(server->store->Report(kGin, {"nodes", "graphs"}, {BatchOf(1, 1)}, clock_.Now()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("edges, nodes, graphs")));
  EXPECT_THAT(server->Report({"other", "h100"}, 1),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 1")));
  EXPECT_THAT(server->Report({"no name", "h100"}, 1),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("no name")));
}

// Each report has a shape of its own, so that it shows how often it was counted.
TEST_F(FeedbackOfServersTest, WhatWasAnsweredIsCountedOnceWhateverFails) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    FakeKeyValueServers servers(&clock_, seed);
    Random random(seed);
    std::vector<std::unique_ptr<TestServer>> running(3);
    int num_started = 0;
    std::map<uint64_t, bool> answered;
    for (uint64_t report = 1; report <= 40; ++report) {
      auto& server = running[random.Below(running.size())];
      if (server == nullptr || server->connection.crashed()) {
        server =
            std::make_unique<TestServer>(servers, clock_, absl::StrCat("replica", ++num_started));
        server->connection.SetFaults(RandomFaults(
            seed + 1000 * static_cast<uint64_t>(num_started), 40,
            {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
             StoreFault::kDoneLater, StoreFault::kCrashBefore, StoreFault::kCrashAfter}));
      }
      const auto told = server->Report(kGin, 100 * report);
      answered[100 * report] = told.ok();
      if (!told.ok()) {
        EXPECT_THAT(told, StatusIs(absl::StatusCode::kUnavailable, testing::_));
      }
    }
    servers.DoLateRequests();
    TestServer reader(servers, clock_, "reader");
    std::map<uint64_t, uint64_t> counted;
    const auto kept = reader.store->Get(kGin);
    if (kept.ok()) {
      for (const MeasuredShape& shape : kept->shapes.shapes()) {
        counted[shape.capacities[0]] = shape.num_batches;
      }
    }
    for (const auto& [edges, was_answered] : answered) {
      if (was_answered) {
        EXPECT_EQ(counted[edges], 1) << edges;
      } else {
        EXPECT_LE(counted[edges], 1) << edges;
      }
    }
  }
}

// Creations and deletions that fail at any point leave the count of models as it must be.
TEST_F(FeedbackOfServersTest, TheBoundCountsWhatIsThere) {
  constexpr size_t kMost = 4;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    FakeKeyValueServers servers(&clock_, seed);
    Random random(seed);
    std::vector<std::unique_ptr<TestServer>> running;
    for (int i = 0; i < 2; ++i) {
      running.push_back(
          std::make_unique<TestServer>(servers, clock_, absl::StrCat("replica", i), kMost));
      running.back()->connection.SetFaults(
          RandomFaults(seed + 1000 * static_cast<uint64_t>(i), 30,
                       {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
                        StoreFault::kDoneLater}));
    }
    for (int step = 0; step < 40; ++step) {
      TestServer& server = *running[random.Below(running.size())];
      const FeedbackKey key = {absl::StrCat("model", random.Below(6)), "d"};
      if (random.Below(2) == 0) {
        (void)server.Report(key, 100);
      } else {
        server.store->Delete(key).IgnoreError();
      }
    }
    servers.DoLateRequests();
    TestServer last(servers, clock_, "last", kMost);
    PH_ASSERT_OK_AND_ASSIGN(const auto all, last.store->All());
    ASSERT_LE(all.size(), kMost);
    for (size_t i = all.size(); i < kMost; ++i) {
      EXPECT_THAT(last.Report({absl::StrCat("more", i), "d"}, 100), IsOk());
    }
    EXPECT_THAT(last.Report({"last", "d"}, 100),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 4")));
  }
}

TEST_F(FeedbackOfServersTest, ReportsOfManyThreadsAreAllCounted) {
  const auto a = Start();
  const auto b = Start();
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      TestServer& server = i % 2 == 0 ? *a : *b;
      for (uint64_t k = 0; k < 10; ++k) EXPECT_THAT(server.Report(kGin, 100 * (i + 1)), IsOk());
      (void)server.store->Find("team/gin/h100");
    });
  }
  for (std::thread& thread : threads) thread.join();
  PH_ASSERT_OK_AND_ASSIGN(const KeptFeedback kept, b->store->Get(kGin));
  EXPECT_EQ(kept.shapes.num_reports(), 40);
}

TEST_F(FeedbackOfServersTest, WhatNoServerUsesExpires) {
  const Retention retention = {absl::Hours(8), {{"kept", absl::InfiniteDuration()}}};
  const auto a = Start(256, retention);
  const auto b = Start(256, retention);
  const FeedbackKey used = {"used", "d"};
  const FeedbackKey kept = {"kept/gin", "d"};
  for (const FeedbackKey& key : {kGin, used, kept}) ASSERT_THAT(a->Report(key, 100), IsOk());
  EXPECT_TRUE(a->store->notes_uses());
  std::vector<Expired> expired;
  // Another server than the one that sweeps uses one of them.
  clock_.Advance(absl::Hours(8));
  ASSERT_NE(b->store->Find("used/d"), nullptr);
  EXPECT_THAT(b->store->SaveUses(), IsOk());
  EXPECT_THAT(a->store->DeleteUnused(expired), IsOk());
  // It may have been used, and another server has not said so yet.
  EXPECT_THAT(expired, IsEmpty());
  clock_.Advance(retention.Period());
  EXPECT_THAT(a->store->DeleteUnused(expired), IsOk());
  ASSERT_THAT(expired, testing::SizeIs(1));
  EXPECT_EQ(expired[0].name, "team/gin/h100");
  EXPECT_EQ(expired[0].unused, absl::Hours(8) + retention.Period());
  EXPECT_GT(expired[0].num_bytes, 0);
  EXPECT_EQ(a->store->num_expired(), 1);
  EXPECT_THAT(b->store->All().value(),
              UnorderedElementsAre(Pair(used, testing::_), Pair(kept, testing::_)));
  // There is room for another one.
  EXPECT_THAT(b->Report({"new", "d"}, 1), IsOk());
}

// Revisions that a server has seen come again, and name what others have told since.
TEST(FeedbackOfRestoredServersTest, AllFitTheSameLawAlsoWhenTheStoreWasRestored) {
  const std::vector<FeedbackKey> keys = {kGin, {"team/gat", "h100"}};
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock, seed);
    std::vector<std::unique_ptr<TestServer>> cluster;
    for (int i = 0; i < 2; ++i) {
      cluster.push_back(std::make_unique<TestServer>(servers, clock, absl::StrCat("s", i)));
    }
    const auto change_some = [&] {
      for (uint64_t step = random.Below(5); step > 0; --step) {
        TestServer& server = *cluster[random.Below(2)];
        const FeedbackKey& key = keys[random.Below(2)];
        if (random.Below(6) == 0) {
          server.store->Delete(key).IgnoreError();
        } else {
          ASSERT_THAT(server.Report(key, 10 * (1 + random.Below(1000))), IsOk());
        }
      }
    };
    for (int restores = 0; restores < 4; ++restores) {
      change_some();
      const FakeKeyValueServers::Backup backup = servers.TakeBackup();
      change_some();
      servers.Restore(backup);
      change_some();
      clock.Advance(FeedbackStore::kFresh);
      TestServer fresh(servers, clock, "fresh");
      PH_ASSERT_OK_AND_ASSIGN(const auto expected, fresh.store->All());
      for (const auto& server : cluster) {
        for (const FeedbackKey& key : keys) {
          const std::string name = absl::StrCat(key.model, "/", key.device);
          const auto law = fresh.store->Find(name);
          const auto known = server->store->Find(name);
          ASSERT_EQ(known == nullptr, law == nullptr) << name;
          if (law == nullptr) continue;
          ASSERT_EQ(known->seconds.per_row, law->seconds.per_row) << name;
          ASSERT_EQ(known->bytes.fixed, law->bytes.fixed) << name;
        }
        ASSERT_THAT(server->store->All(), IsOkAndHolds(expected));
      }
    }
  }
}

TEST_F(FeedbackOfServersTest, DamageIsNoticed) {
  const auto server = Start();
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  Transaction damage;
  damage.then = {Operation::Put("feedback/m/team%2Fgin/h100", "other bytes")};
  ASSERT_THAT(server->connection.Commit(damage), IsOk());
  const auto lost = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gin"));
  EXPECT_THAT(server->store->Get(kGin), lost);
  EXPECT_THAT(server->store->All(), lost);
  EXPECT_THAT(server->Report(kGin, 100), lost);
  damage.then = {Operation::Put("feedback/count", "some")};
  ASSERT_THAT(server->connection.Commit(damage), IsOk());
  EXPECT_THAT(server->Report({"other", "h100"}, 100),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("feedback/count")));
}

// What a check of the store says of measured models: which are damaged, and whether as many are
// there as were counted.
TEST_F(FeedbackOfServersTest, ACheckTellsWhatIsDamaged) {
  const auto server = Start();
  std::vector<std::string> told;
  const auto check = [&](KeyStore& keys) {
    told.clear();
    return FeedbackStore::Check(keys, [&](absl::string_view key, const absl::Status& what,
                                          const std::optional<std::string>& right) {
      EXPECT_THAT(what, StatusIs(absl::StatusCode::kDataLoss, testing::_));
      told.push_back(absl::StrCat(key, ": ", what.message(), right ? "; right: " + *right : ""));
    });
  };
  EXPECT_THAT(check(server->connection), IsOk());
  EXPECT_THAT(told, IsEmpty());
  ASSERT_THAT(server->Report({"a", "d"}, 100), IsOk());
  ASSERT_THAT(server->Report({"b", "d"}, 100), IsOk());
  EXPECT_THAT(check(server->connection), IsOk());
  EXPECT_THAT(told, IsEmpty());
  Transaction damage;
  damage.then = {Operation::Put("feedback/m/a/d", "other bytes"),
                 Operation::Put("feedback/m/nameless", "x")};
  ASSERT_THAT(server->connection.Commit(damage), IsOk());
  EXPECT_THAT(check(server->connection), IsOk());
  EXPECT_THAT(told,
              testing::ElementsAre(testing::StartsWith("feedback/m/a/d: "),
                                   testing::StartsWith("feedback/m/nameless: "),
                                   "feedback/count: measured models: there are 3, should be '2'"
                                   "; right: 3"));
  server->connection.SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(check(server->connection), StatusIs(absl::StatusCode::kUnavailable, testing::_));
}

// Models and their number are read as they were at one moment, which the store may forget
// meanwhile.
TEST_F(FeedbackOfServersTest, ACheckReadsOneMoment) {
  const auto server = Start();
  ASSERT_THAT(server->Report(kGin, 100), IsOk());
  constexpr int kTries = 11;
  for (const int num_forgotten : {1, kTries - 1, kTries}) {
    WatchedConnection connection(&servers_);
    int num_reads = 0;
    connection.before_read = [&] {
      // The first of two reads the models, the second their number.
      if (++num_reads % 2 != 0 || num_reads > 2 * num_forgotten) return;
      ASSERT_THAT(server->Report({absl::StrCat("m", num_forgotten, "-", num_reads), "d"}, 1),
                  IsOk());
      servers_.Compact(servers_.revision());
    };
    const absl::Status checked = FeedbackStore::Check(
        connection, [](absl::string_view key, const absl::Status& what, const auto& /*right*/) {
          ADD_FAILURE() << key << ": " << what;
        });
    EXPECT_EQ(checked.code(),
              num_forgotten < kTries ? absl::StatusCode::kOk : absl::StatusCode::kOutOfRange);
    EXPECT_EQ(num_reads, 2 * std::min(num_forgotten + 1, kTries));
  }
}

}  // namespace
}  // namespace packhouse
