// What only data sets in an object store promise: replicas share them, objects are coalesced, swept
// and missed.
#include "service/wings/cluster/datasets/object_dataset_store.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/prepared_append.h"
#include "service/wings/cluster/datasets/object_appender.h"
#include "service/wings/cluster/datasets/object_manifest.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

// Does something of a test's before each Put.
class InterruptedStore final : public ObjectStore {
 public:
  explicit InterruptedStore(ObjectStore* store) : store_(store) {}

  std::function<void()> before_put;
  std::atomic<bool> gets_fail = false;
  std::function<void()> after_put;
  // Of which objects nothing is given.
  std::function<absl::Status(absl::string_view key)> of_get;

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    if (before_put) std::exchange(before_put, nullptr)();
    absl::Status status = store_->Put(key, bytes, deadline);
    if (after_put) std::exchange(after_put, nullptr)();
    return status;
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    if (gets_fail && absl::StrContains(key, "/c/")) throw std::bad_alloc();
    if (of_get) PH_RETURN_IF_ERROR(of_get(key));
    return store_->Get(key, range, sink, deadline);
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    return store_->Delete(key, deadline);
  }

 private:
  ObjectStore* const store_;
};

class ObjectDatasetStoreTest : public ::testing::Test {
 protected:
  std::unique_ptr<ObjectReplica> Replica(uint64_t cache_bytes = uint64_t{1} << 30,
                                         StoreFaults faults = nullptr) {
    ObjectDatasetStore::Options options;
    options.chunks_of_page = 4;
    return std::make_unique<ObjectReplica>(&cluster_, &interrupted_,
                                           absl::StrCat(folder_.path(), "/", ++num_replicas_),
                                           options, cache_bytes, std::move(faults));
  }
  GraphChunk Chunk(uint64_t seed, size_t num_graphs) const {
    Random random(seed);
    return RandomChunk(random, &schema_, num_graphs, 9, seed << 20);
  }
  ObjectSweeper Sweeper(ObjectReplica& replica) {
    ObjectSweeper::Options options;
    options.min_age = absl::ZeroDuration();
    EXPECT_THAT(BindStores(Replica()->engines()), IsOk());
    return ObjectSweeper(replica.engines(), options);
  }
  std::vector<std::string> Objects() {
    const auto list = fake_.List("d/", "", 0, absl::InfiniteFuture());
    std::vector<std::string> names;
    for (const ObjectInfo& object : list->objects) names.push_back(object.key);
    return names;
  }
  void ExpectWhole(DatasetStore& store, const std::string& name, size_t num_graphs) {
    PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                            store.Verify(name, [](const VerifyProgress&) { return true; }));
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.num_graphs, num_graphs);
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  int num_replicas_ = 0;
  ObjectCluster cluster_;
  FakeObjectStore fake_{&cluster_.clock};
  InterruptedStore interrupted_{&fake_};
};

// What one replica was told, every other one sees.
TEST_F(ObjectDatasetStoreTest, ReplicasShareEverything) {
  auto a = Replica();
  auto b = Replica();
  ASSERT_THAT(a->store().Create("set", schema_, {}), IsOk());
  EXPECT_THAT(b->store().Create("set", schema_, {}), StatusIs(absl::StatusCode::kAlreadyExists, _));
  for (uint64_t i = 1; i <= 11; ++i) {
    ObjectReplica& replica = i % 2 == 0 ? *a : *b;
    ASSERT_THAT(replica.store().Append("set", Chunk(i, 3), {}, ProducerSequence{"p", i}), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(
        const AppendResult again,
        (i % 2 == 0 ? *b : *a).store().Append("set", Chunk(i, 3), {}, ProducerSequence{"p", i}));
    EXPECT_TRUE(again.is_repetition);
  }
  ASSERT_THAT(b->store().Seal("set"), IsOk());
  EXPECT_EQ(a->store().Get("set")->state, DatasetState::kSealed);
  PH_ASSERT_OK_AND_ASSIGN(const auto ours, a->store().OpenReader("set"));
  PH_ASSERT_OK_AND_ASSIGN(const auto theirs, b->store().OpenReader("set"));
  EXPECT_EQ(ours->num_graphs(), 33U);
  EXPECT_EQ(ours->counts(), theirs->counts());
  EXPECT_EQ(ours->graph_ids(), theirs->graph_ids());
  EXPECT_EQ(ours->info().version, theirs->info().version);
  ASSERT_THAT(a->store().Delete("set"), IsOk());
  EXPECT_THAT(b->store().Get("set"), StatusIs(absl::StatusCode::kNotFound, _));
}

// etcd is compacted by time or by size, on its own or by an operator: no state but the present one
// is there for long.
TEST_F(ObjectDatasetStoreTest, CompactionTakesNothing) {
  auto a = Replica();
  ASSERT_THAT(a->store().Create("set", schema_, {}), IsOk());
  for (uint64_t i = 1; i <= 11; ++i) {
    ASSERT_THAT(a->store().Append("set", Chunk(i, 3), {}, ProducerSequence{"p", i}), IsOk());
  }
  // Others' changes follow, and all that was before them is dropped.
  ASSERT_THAT(a->store().Create("other", schema_, {}), IsOk());
  cluster_.keys.Compact(cluster_.keys.revision());
  auto b = Replica();
  for (ObjectReplica* const replica : {a.get(), b.get()}) ExpectWhole(replica->store(), "set", 33);
  ASSERT_THAT(b->store().Append("set", Chunk(12, 3), {}, ProducerSequence{"p", 12}), IsOk());
  ExpectWhole(a->store(), "set", 36);
}

// Pages have one that is read for it.
TEST_F(ObjectDatasetStoreTest, AHistogramIsReservedBeforeItIsRead) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (uint64_t i = 1; i <= 11; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  const uint64_t before = fake_.num_gets();
  EXPECT_THAT(replica->store().GetReservedHistogram(
                  "set", [](uint64_t) { return absl::ResourceExhaustedError("no room"); }),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room")));
  EXPECT_EQ(fake_.num_gets(), before);
  uint64_t reserved = 0;
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram histogram,
                          replica->store().GetReservedHistogram("set", [&](uint64_t bytes) {
                            reserved += bytes;
                            return absl::OkStatus();
                          }));
  EXPECT_GT(fake_.num_gets(), before);
  EXPECT_GE(reserved, histogram.bytes());
  EXPECT_EQ(histogram.num_graphs(), 33U);
}

// A failure that no status tells of ends its call, and neither the calls after it nor the program.
TEST_F(ObjectDatasetStoreTest, ExceptionsHoldNobodyUp) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  interrupted_.before_put = [] { throw std::bad_alloc(); };
  EXPECT_THAT(replica->store().Append("set", Chunk(1, 3), {}, std::nullopt),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("not known")));
  interrupted_.before_put = [] { throw std::runtime_error("from somewhere"); };
  EXPECT_THROW((void)replica->store().Append("set", Chunk(2, 3), {}, std::nullopt),
               std::runtime_error);
  for (int i = 3; i < 6; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  // The fourth chunk makes a page, after the append was told.
  interrupted_.after_put = [this] { interrupted_.before_put = [] { throw std::bad_alloc(); }; };
  EXPECT_THAT(replica->store().Append("set", Chunk(6, 3), {}, std::nullopt), IsOk());
  EXPECT_THAT(replica->store().Append("set", Chunk(7, 3), {}, std::nullopt), IsOk());
  ExpectWhole(replica->store(), "set", 15);
  // A reader's fetches have threads of their own.
  interrupted_.gets_fail = true;
  auto other = Replica();
  EXPECT_THAT(other->store().OpenReader("set"), StatusIs(absl::StatusCode::kResourceExhausted, _));
  interrupted_.gets_fail = false;
  EXPECT_THAT(other->store().OpenReader("set"), IsOk());
}

// Two appends wait while another one puts its object, and then share a commit. `before_commit` is
// called after they have put theirs.
class SharedCommitTest : public ObjectDatasetStoreTest {
 protected:
  std::vector<absl::StatusOr<AppendResult>> AppendTwice(ObjectReplica& replica,
                                                        const std::function<void()>& before_commit,
                                                        const std::function<void()>& one_is_told) {
    ObjectAppender::Options options;
    options.chunks_of_page = 2;
    ObjectAppender appender(replica.engines(), options);
    const auto append = [&](const GraphChunk& chunk,
                            const std::optional<ProducerSequence>& producer) {
      return appender.Append(PrepareAppend({"set"}, chunk, {}, producer).value());
    };
    const GraphChunk first = Chunk(1, 3);
    const GraphChunk same = Chunk(2, 3);
    std::vector<absl::StatusOr<AppendResult>> results(2);
    std::vector<std::thread> threads;
    std::atomic<int> num_told = 0;
    interrupted_.before_put = [&] {
      for (absl::StatusOr<AppendResult>& result : results) {
        threads.emplace_back([&] {
          result = append(same, ProducerSequence{"p", 1});
          if (++num_told == 1) one_is_told();
        });
      }
      while (appender.num_waiting("set") != 2) std::this_thread::yield();
      interrupted_.before_put = [&] { interrupted_.after_put = before_commit; };
    };
    EXPECT_THAT(append(first, std::nullopt), IsOk());
    for (std::thread& thread : threads) thread.join();
    return results;
  }
};

// An append that repeats one of its own transaction is not done unless that is.
TEST_F(SharedCommitTest, ARepetitionWaitsForWhatItRepeats) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  const auto results = AppendTwice(
      *replica, [&] { replica->connection().Crash(); }, [] {});
  for (const auto& result : results) {
    EXPECT_THAT(result, StatusIs(absl::StatusCode::kUnavailable,
                                 HasSubstr("it is not known whether the append happened")));
  }
  EXPECT_EQ(Replica()->store().Get("set")->num_graphs, 3U);
}

// Who only waits is told before the tail of the manifest becomes a page.
TEST_F(SharedCommitTest, WaitersAreToldBeforeATailIsMoved) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  absl::Notification told;
  bool was_told = false;
  const auto results = AppendTwice(
      *replica,
      [&] {
        interrupted_.before_put = [&] {
          was_told = told.WaitForNotificationWithTimeout(absl::Seconds(10));
        };
      },
      [&] { told.Notify(); });
  EXPECT_TRUE(was_told);
  ASSERT_THAT(results[0], IsOk());
  ASSERT_THAT(results[1], IsOk());
  EXPECT_NE(results[0]->is_repetition, results[1]->is_repetition);
  ExpectWhole(replica->store(), "set", 6);
}

// An append that may have happened is never told as one that has not.
TEST_F(ObjectDatasetStoreTest, ALostReplyBeforeADeletionIsNotKnown) {
  auto replica = Replica();
  auto other = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  interrupted_.after_put = [&] {
    replica->connection().SetFaults([&, calls = 0]() mutable {
      if (++calls == 1) return StoreFault::kReplyLost;
      if (calls == 2) {
        EXPECT_THAT(other->store().Delete("set"), IsOk());
      }
      return StoreFault::kNone;
    });
  };
  EXPECT_THAT(replica->store().Append("set", Chunk(1, 3), {}, std::nullopt),
              StatusIs(absl::StatusCode::kUnavailable,
                       HasSubstr("it is not known whether the append happened")));
}

// A number that counts no graphs: done once, whatever is known of it, and told as that.
TEST_F(ObjectDatasetStoreTest, ANumberWithoutGraphsDoesNotRepeatItself) {
  cluster_.keys.SetForgetful(false);
  for (const StoreFault fault :
       {StoreFault::kRequestLost, StoreFault::kReplyLost, StoreFault::kDoneLater}) {
    const std::string name = absl::StrCat("set", static_cast<int>(fault));
    auto replica = Replica();
    ASSERT_THAT(replica->store().Create(name, schema_, {}), IsOk());
    int num_calls = 0;
    replica->connection().SetFaults([&] {
      // The name, the state, and what was remembered are read first.
      return ++num_calls == 4 ? fault : StoreFault::kNone;
    });
    const auto append = [&] {
      return replica->store().Append(name, Chunk(1, 0), {}, ProducerSequence{"p", 1});
    };
    PH_ASSERT_OK_AND_ASSIGN(const AppendResult first, append());
    EXPECT_GE(num_calls, 7);
    EXPECT_FALSE(first.is_repetition);
    EXPECT_EQ(first.num_appended, 0U);
    EXPECT_TRUE(append()->is_repetition);
    cluster_.keys.DoLateRequests();
    EXPECT_EQ(replica->store().GetProducer(name, "p")->last(), 1U);
    ExpectWhole(replica->store(), name, 0);
  }
}

// Up to so many that wait share an object.
TEST_F(ObjectDatasetStoreTest, AnObjectHasSoManyAppends) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  ObjectAppender::Options options;
  options.chunks_of_page = 1000;
  ObjectAppender appender(replica->engines(), options);
  const GraphChunk chunk = Chunk(1, 1);
  const auto append = [&] {
    return appender.Append(PrepareAppend({"set"}, chunk, {}, std::nullopt).value());
  };
  constexpr size_t kOthers = ObjectAppender::kMaxAppends + 3;
  std::vector<std::thread> threads;
  interrupted_.before_put = [&] {
    for (size_t i = 0; i < kOthers; ++i)
      threads.emplace_back([&] { EXPECT_THAT(append(), IsOk()); });
    while (appender.num_waiting("set") != kOthers) std::this_thread::yield();
  };
  ASSERT_THAT(append(), IsOk());
  for (std::thread& thread : threads) thread.join();
  PH_ASSERT_OK_AND_ASSIGN(DatasetHead head, ReadHead(replica->engines(), "set"));
  PH_ASSERT_OK_AND_ASSIGN(const ObjectManifest manifest,
                          ReadManifest(replica->engines(), head, /*with_pages=*/true));
  std::vector<size_t> records;
  for (const ObjectChunk& each : manifest.chunks) records.push_back(each.records.size());
  EXPECT_THAT(records, testing::ElementsAre(1U, ObjectAppender::kMaxAppends, 3U));
  EXPECT_EQ(appender.num_waiting("set"), 0U);
}

// And of so many bytes.
TEST_F(ObjectDatasetStoreTest, AnObjectHasSoManyBytes) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  ObjectAppender appender(replica->engines(), ObjectAppender::Options());
  const std::string zeros(ObjectAppender::kMaxBytes / 2, '\0');
  const auto append = [&](uint64_t id, size_t num_bytes) {
    const auto num_nodes = static_cast<uint32_t>(num_bytes / 2);
    const GraphChunk chunk =
        GraphChunk::Create(&schema_,
                           SizeTable::WithConsecutiveIds(1, 2, {num_nodes, 0}, id).value(),
                           {absl::string_view(zeros).substr(0, num_bytes)}, nullptr)
            .value();
    EXPECT_THAT(appender.Append(PrepareAppend({"set"}, chunk, {}, std::nullopt).value()), IsOk());
  };
  std::vector<std::thread> threads;
  interrupted_.before_put = [&] {
    for (const size_t num_bytes : {zeros.size(), zeros.size(), size_t{2}}) {
      const size_t before = threads.size();
      threads.emplace_back([&, before, num_bytes] { append(before + 1, num_bytes); });
      while (appender.num_waiting("set") == before) std::this_thread::yield();
    }
  };
  append(0, 2);
  for (std::thread& thread : threads) thread.join();
  PH_ASSERT_OK_AND_ASSIGN(DatasetHead head, ReadHead(replica->engines(), "set"));
  PH_ASSERT_OK_AND_ASSIGN(const ObjectManifest manifest,
                          ReadManifest(replica->engines(), head, /*with_pages=*/true));
  std::vector<size_t> records;
  for (const ObjectChunk& each : manifest.chunks) records.push_back(each.records.size());
  EXPECT_THAT(records, testing::ElementsAre(1U, 1U, 2U));
}

// Appends that wait share an object.
TEST_F(ObjectDatasetStoreTest, WaitingAppendsAreCoalesced) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  constexpr int kOthers = 20;
  std::vector<std::thread> threads;
  interrupted_.before_put = [&] {
    for (int i = 0; i < kOthers; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_THAT(replica->store().Append("set", Chunk(i, 2), {}, std::nullopt), IsOk());
      });
    }
    // The first append waits in its Put until the others queue; how many of them is the machine's
    // matter.
    std::this_thread::yield();
  };
  ASSERT_THAT(replica->store().Append("set", Chunk(99, 2), {}, std::nullopt), IsOk());
  for (std::thread& thread : threads) thread.join();
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, replica->store().Get("set"));
  EXPECT_EQ(info.num_records, kOthers + 1U);
  ExpectWhole(replica->store(), "set", 2 * (kOthers + 1));
  // Pages and their runs too, but never an object for each append.
  EXPECT_LE(Objects().size(), 2U * (kOthers + 1));
}

// Objects of deleted data sets, and of appends that were given up, go; others do not.
TEST_F(ObjectDatasetStoreTest, SweepingDeletesWhatNobodyHas) {
  auto replica = Replica();
  for (const std::string name : {"kept", "gone"}) {
    ASSERT_THAT(replica->store().Create(name, schema_, {}), IsOk());
    for (int i = 0; i < 10; ++i) {
      ASSERT_THAT(replica->store().Append(name, Chunk(i, 3), {}, std::nullopt), IsOk());
    }
  }
  const size_t of_two = Objects().size();
  ASSERT_THAT(replica->store().Delete("gone"), IsOk());
  // An append whose process ends after the object was put.
  auto dying = Replica();
  interrupted_.after_put = [&] { dying->connection().Crash(); };
  EXPECT_THAT(dying->store().Append("kept", Chunk(77, 3), {}, std::nullopt),
              StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_EQ(Objects().size(), of_two + 1);
  cluster_.clock.Advance(absl::Minutes(1));
  ObjectSweeper sweeper = Sweeper(*replica);
  PH_ASSERT_OK_AND_ASSIGN(const ObjectSweeper::Step step, sweeper.Run());
  EXPECT_TRUE(step.is_round_over);
  EXPECT_EQ(step.num_deleted, of_two / 2 + 1);
  EXPECT_EQ(Objects().size(), of_two / 2);
  ExpectWhole(replica->store(), "kept", 30);
  // Nothing more to do.
  EXPECT_EQ(sweeper.Run()->num_deleted, 0U);
}

// With another key-value store, all objects would be nobody's.
TEST_F(ObjectDatasetStoreTest, OnlyStoresThatBelongTogetherAreSwept) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  ASSERT_THAT(replica->store().Append("set", Chunk(1, 3), {}, std::nullopt), IsOk());
  ObjectSweeper::Options at_once;
  at_once.min_age = absl::ZeroDuration();
  cluster_.clock.Advance(absl::Minutes(1));
  const auto is_refused =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not belong together"));
  EXPECT_THAT(ObjectSweeper(replica->engines(), at_once).Run(), is_refused);
  EXPECT_THAT(BindStores(replica->engines()), IsOk());
  EXPECT_THAT(BindStores(Replica()->engines()), IsOk());
  EXPECT_EQ(ObjectSweeper(replica->engines(), at_once).Run()->num_deleted, 0U);

  ObjectCluster empty;
  empty.drawn = 1000;
  ObjectReplica lost(&empty, &fake_, folder_.path() + "/lost");
  empty.clock.Advance(absl::Hours(100'000));
  EXPECT_THAT(BindStores(lost.engines()), is_refused);
  EXPECT_THAT(ObjectSweeper(lost.engines(), at_once).Run(), is_refused);
  // Also if it was bound to objects of its own before.
  FakeObjectStore others;
  ObjectReplica elsewhere(&empty, &others, folder_.path() + "/elsewhere");
  EXPECT_THAT(BindStores(elsewhere.engines()), IsOk());
  EXPECT_THAT(BindStores(lost.engines()), is_refused);
  EXPECT_THAT(ObjectSweeper(lost.engines(), at_once).Run(), is_refused);
  // Objects of nobody, keys of somebody.
  FakeObjectStore nobodys;
  ObjectReplica moved(&cluster_, &nobodys, folder_.path() + "/moved");
  EXPECT_THAT(BindStores(moved.engines()), is_refused);
  EXPECT_EQ(Objects().size(), 1U);
}

// Binding goes on where a process ended, and after lost answers.
TEST_F(ObjectDatasetStoreTest, StoresAreBoundWhateverFails) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    ObjectCluster cluster;
    FakeObjectStore objects;
    objects.SetFaults({4, 4, 4, 0}, seed);
    Random random(seed);
    for (int i = 0; i < 3; ++i) {
      ObjectReplica replica(&cluster, &objects,
                            absl::StrCat(folder_.path(), "/bound", seed, "-", i), {}, 1 << 20,
                            RandomFaults(random.Next(), 4,
                                         {StoreFault::kUnreachable, StoreFault::kRequestLost,
                                          StoreFault::kReplyLost, StoreFault::kDoneLater,
                                          StoreFault::kCrashBefore, StoreFault::kCrashAfter}));
      const absl::Status bound = BindStores(replica.engines());
      EXPECT_TRUE(bound.ok() || replica.connection().crashed()) << bound;
    }
    ObjectReplica calm(&cluster, &objects, absl::StrCat(folder_.path(), "/calm", seed));
    EXPECT_THAT(BindStores(calm.engines()), IsOk());
    EXPECT_THAT(CheckStoresAreBound(calm.engines()), IsOk());
  }
}

// Tells of each call before it is made.
class ToldStore final : public ObjectStore {
 public:
  ToldStore(ObjectStore* store, std::function<void()> tell)
      : store_(store), tell_(std::move(tell)) {}

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    tell_();
    return store_->Put(key, bytes, deadline);
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    tell_();
    return store_->Get(key, range, sink, deadline);
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    tell_();
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    tell_();
    return store_->Delete(key, deadline);
  }

 private:
  ObjectStore* const store_;
  const std::function<void()> tell_;
};

// Two clusters that bind the same objects at the same time: whenever the second one comes, one of
// them is bound, and the other one is not, and never will be.
TEST_F(ObjectDatasetStoreTest, OfTwoClustersOneIsBound) {
  int num_calls = 1000;
  for (int at = 0; at <= num_calls; ++at) {
    SCOPED_TRACE(at);
    FakeObjectStore objects;
    ObjectCluster clusters[2];
    clusters[1].drawn = 1000;
    ObjectReplica second(&clusters[1], &objects, absl::StrCat(folder_.path(), "/second", at));
    absl::Status bound;
    int calls = 0;
    ToldStore told(&objects, [&] {
      if (calls++ == at) bound = BindStores(second.engines());
    });
    ObjectReplica first(&clusters[0], &told, absl::StrCat(folder_.path(), "/first", at));
    const bool is_first = BindStores(first.engines()).ok();
    if (calls <= at) bound = BindStores(second.engines());
    num_calls = calls;
    EXPECT_NE(is_first, bound.ok()) << bound;
    EXPECT_EQ(CheckStoresAreBound(first.engines()).ok(), is_first);
    EXPECT_EQ(CheckStoresAreBound(second.engines()).ok(), bound.ok());
    EXPECT_THAT(BindStores((is_first ? second : first).engines()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not belong")));
    // No claim is left.
    EXPECT_EQ(objects.num_objects(), 1U);
  }
  EXPECT_GE(num_calls, 5);
}

// A claim of a cluster that has ended in the midst is named, and goes with its next start.
TEST_F(ObjectDatasetStoreTest, AClaimIsKeptForWhoMadeIt) {
  int calls_left = 4;  // The last one lists the claims.
  ObjectCluster other;
  other.drawn = 1000;
  FakeObjectStore objects;
  ToldStore told(&objects, [&] {
    if (--calls_left == 0) throw std::bad_alloc();
  });
  {
    ObjectReplica ended(&cluster_, &told, folder_.path() + "/ended");
    EXPECT_THROW((void)BindStores(ended.engines()), std::bad_alloc);
  }
  ASSERT_EQ(objects.num_objects(), 1U);
  ObjectReplica elsewhere(&other, &objects, folder_.path() + "/elsewhere");
  EXPECT_THAT(BindStores(elsewhere.engines()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("claims/")));
  EXPECT_EQ(objects.num_objects(), 1U);
  ObjectReplica again(&cluster_, &objects, folder_.path() + "/again");
  EXPECT_THAT(BindStores(again.engines()), IsOk());
  EXPECT_EQ(objects.num_objects(), 1U);
}

// The page of a long tail is committed although others append all the time.
TEST_F(ObjectDatasetStoreTest, ATailBecomesAPageHoweverBusyOthersAre) {
  auto replica = Replica();
  // Makes no pages itself.
  ObjectReplica other(&cluster_, &interrupted_, folder_.path() + "/busy");
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  interrupted_.after_put = [&] {  // Of the fourth chunk; then of the page.
    interrupted_.after_put = [&] {
      ASSERT_THAT(other.store().Append("set", Chunk(9, 3), {}, std::nullopt), IsOk());
    };
  };
  ASSERT_THAT(replica->store().Append("set", Chunk(4, 3), {}, std::nullopt), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetHead head, ReadHead(replica->engines(), "set"));
  EXPECT_EQ(head.state.num_pages, 1U);
  EXPECT_EQ(head.state.num_tail, 1U);
  ExpectWhole(replica->store(), "set", 15);
}

// Who has another thread for it does not wait until the tail is a page.
TEST_F(ObjectDatasetStoreTest, ATailMayBecomeAPageLater) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  std::vector<std::function<void()>> later;
  ObjectDatasetStore::Options options;
  options.chunks_of_page = 4;
  options.later = [&](std::function<void()> work) { later.push_back(std::move(work)); };
  ObjectDatasetStore store(replica->engines(), &replica->cache(), options);
  for (int i = 0; i < 6; ++i) {
    ASSERT_THAT(store.Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  EXPECT_EQ(ReadHead(replica->engines(), "set")->state.num_tail, 6U);
  ASSERT_EQ(later.size(), 1U);
  later[0]();
  later.clear();
  EXPECT_EQ(ReadHead(replica->engines(), "set")->state.num_tail, 0U);
  for (int i = 0; i < 4; ++i) {
    ASSERT_THAT(store.Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  EXPECT_EQ(later.size(), 1U);
  later.clear();
  ExpectWhole(store, "set", 30);
}

TEST_F(ObjectDatasetStoreTest, ASweepIsBounded) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("gone", schema_, {}), IsOk());
  for (int i = 0; i < 10; ++i) {
    ASSERT_THAT(replica->store().Append("gone", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  const size_t num_objects = Objects().size();
  ASSERT_THAT(replica->store().Delete("gone"), IsOk());
  ObjectSweeper::Options options;
  options.max_deleted = 4;
  ASSERT_THAT(BindStores(replica->engines()), IsOk());
  ObjectSweeper sweeper(replica->engines(), options);
  size_t steps = 0;
  while (!Objects().empty()) {
    PH_ASSERT_OK_AND_ASSIGN(const ObjectSweeper::Step step, sweeper.Run());
    EXPECT_LE(step.num_deleted, 4U);
    ASSERT_LT(++steps, 100U);
  }
  EXPECT_EQ(steps, (num_objects + 3) / 4);
}

// The dangerous moment: an object is put, but not committed, when a sweep finds that nobody has it.
// The append must not commit what the sweep has deleted.
TEST_F(ObjectDatasetStoreTest, ASweepDuringAnAppendLosesNothing) {
  auto replica = Replica();
  auto other = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  ASSERT_THAT(replica->store().Append("set", Chunk(1, 3), {}, std::nullopt), IsOk());
  ObjectSweeper sweeper = Sweeper(*other);
  uint64_t num_deleted = 0;
  interrupted_.after_put = [&] {
    cluster_.clock.Advance(absl::Minutes(1));
    num_deleted = sweeper.Run()->num_deleted;
  };
  PH_ASSERT_OK_AND_ASSIGN(const AppendResult result,
                          replica->store().Append("set", Chunk(2, 5), {}, std::nullopt));
  EXPECT_EQ(result.first_graph, 3U);
  EXPECT_EQ(num_deleted, 1U);
  ExpectWhole(replica->store(), "set", 8);
  EXPECT_THAT(other->store().OpenReader("set"), IsOk());
}

// Objects that are lost or damaged are named; the rest is served.
TEST_F(ObjectDatasetStoreTest, LostObjectsAreNamed) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 10), {}, std::nullopt), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto before, replica->store().OpenReader("set"));
  const std::vector<std::string> objects = Objects();
  ASSERT_EQ(objects.size(), 3U);
  ASSERT_THAT(fake_.Delete(objects[0], absl::InfiniteFuture()), IsOk());
  fake_.Damage(objects[1], 300);
  PH_ASSERT_OK_AND_ASSIGN(
      const VerifyReport report,
      replica->store().Verify("set", [](const VerifyProgress&) { return true; }));
  EXPECT_EQ(report.num_damaged, 2U);
  EXPECT_EQ(report.num_graphs, 30U);
  // Who has it in the cache goes on.
  EXPECT_TRUE((*replica->store().OpenReader("set"))->unreadable().empty());
  auto other = Replica();
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, other->store().OpenReader("set"));
  ASSERT_EQ(reader->unreadable().size(), 2U);
  size_t num_readable = 0;
  for (size_t i = 0; i < 30; ++i) {
    const auto graph = reader->Graph(i);
    if (graph.ok()) {
      ++num_readable;
    } else {
      EXPECT_THAT(graph, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record")));
    }
  }
  EXPECT_EQ(num_readable, 10U);
}

// Nobody believes that an object is lost as long as another one only does not come.
TEST_F(ObjectDatasetStoreTest, WhatFailsForNowIsToldBeforeWhatIsLost) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 10), {}, std::nullopt), IsOk());
  }
  const std::vector<std::string> objects = Objects();
  ASSERT_EQ(objects.size(), 3U);
  for (const std::string& lost : objects) {
    for (const std::string& refused : objects) {
      auto other = Replica();
      interrupted_.of_get = [&](absl::string_view key) {
        if (key == refused) return absl::PermissionDeniedError("not now");
        return key == lost ? absl::NotFoundError("lost") : absl::OkStatus();
      };
      EXPECT_THAT(other->store().OpenReader("set"),
                  StatusIs(absl::StatusCode::kUnavailable,
                           AllOf(HasSubstr("'set'"), HasSubstr("not now"))));
      interrupted_.of_get = nullptr;
      EXPECT_THAT((*other->store().OpenReader("set"))->unreadable(), testing::IsEmpty());
    }
  }
}

// What a transfer gives is checked before it counts, and tried again. Nothing of it is kept, so
// that a store that is sound again is read as it is.
TEST_F(ObjectDatasetStoreTest, OtherBytesOnTheWayAreNoDamage) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 30; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 10), {}, std::nullopt), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto whole, replica->store().OpenReader("set"));
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram sizes, replica->store().GetHistogram("set"));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    auto other = Replica();
    fake_.SetFaults({0, 0, 0, 0, 6}, seed);
    EXPECT_EQ(*other->store().GetHistogram("set"), sizes);
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, other->store().OpenReader("set"));
    EXPECT_THAT(reader->unreadable(), testing::IsEmpty());
    EXPECT_EQ(reader->counts(), whole->counts());
    ExpectWhole(other->store(), "set", 300);
    // All transfers, for a while.
    auto another = Replica();
    fake_.SetFaults({0, 0, 0, 0, 1}, seed);
    const auto damaged = another->store().OpenReader("set");
    if (damaged.ok()) {
      EXPECT_FALSE((*damaged)->unreadable().empty());
    } else {
      EXPECT_THAT(damaged, StatusIs(absl::StatusCode::kDataLoss, _));
    }
    fake_.SetFaults({}, seed);
    PH_ASSERT_OK_AND_ASSIGN(const auto sound, another->store().OpenReader("set"));
    EXPECT_THAT(sound->unreadable(), testing::IsEmpty());
  }
}

// Whether it is lost, or the data set was deleted, is not known then.
TEST_F(ObjectDatasetStoreTest, AnObjectIsNotLostWhileNobodyCanSaySo) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  ASSERT_THAT(replica->store().Append("set", Chunk(0, 10), {}, std::nullopt), IsOk());
  ASSERT_THAT(fake_.Delete(Objects()[0], absl::InfiniteFuture()), IsOk());
  bool is_read = false;
  for (int num_answers = 0; !is_read; ++num_answers) {
    auto other = Replica();
    int num_calls = 0;
    other->connection().SetFaults(
        [&] { return ++num_calls > num_answers ? StoreFault::kUnreachable : StoreFault::kNone; });
    const auto reader = other->store().OpenReader("set");
    is_read = reader.ok();
    if (is_read) {
      EXPECT_LE(num_calls, num_answers);
      EXPECT_EQ((*reader)->unreadable().size(), 1U);
    } else {
      EXPECT_THAT(reader, StatusIs(absl::StatusCode::kUnavailable, _));
    }
  }
}

// Of chunks that are in pages and of those that are not, whatever fails for now.
TEST_F(ObjectDatasetStoreTest, SizesOfChunksAreReadSeveralAtOnce) {
  cluster_.reads_at_once = 8;
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 10; ++i) {
    // Runs of so many sizes are in the objects alone.
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 200), {}, std::nullopt), IsOk());
  }
  ASSERT_THAT(replica->store().Seal("set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto whole, replica->store().OpenReader("set"));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    fake_.SetFaults({3, 0, 3, 0}, seed);
    auto other = Replica();
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram histogram, other->store().GetHistogram("set"));
    EXPECT_TRUE(histogram == whole->histogram());
    PH_ASSERT_OK_AND_ASSIGN(const auto chunks, other->store().OpenChunks("set"));
    const std::vector<uint32_t> order = {7, 1, 0, 9, 3, 8, 2, 4, 6, 5};
    const uint64_t before = fake_.num_gets();
    const auto sizes = chunks->ReadSizes(order);
    SizeHistogram read(schema_.num_components());
    uint64_t num_graphs = 0;
    for (const uint32_t chunk : order) {
      ASSERT_THAT(sizes->AddNext(read), IsOk());
      num_graphs += chunks->num_graphs()[chunk];
      EXPECT_EQ(read.num_graphs(), num_graphs);
    }
    EXPECT_GE(fake_.num_gets() - before, 10U);
    EXPECT_TRUE(read == whole->histogram());
  }
  fake_.SetFaults({}, 0);
}

// They are in the manifest.
TEST_F(ObjectDatasetStoreTest, SizesOfSmallChunksAreNotReadFromTheirObjects) {
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(replica->store().Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  ASSERT_THAT(replica->store().Seal("set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks, replica->store().OpenChunks("set"));
  const uint64_t before = fake_.num_gets();
  const std::vector<uint32_t> all = {0, 1, 2};
  const auto sizes = chunks->ReadSizes(all);
  SizeHistogram read(schema_.num_components());
  for (int i = 0; i < 3; ++i) EXPECT_THAT(sizes->AddNext(read), IsOk());
  EXPECT_EQ(read.num_graphs(), 9U);
  EXPECT_EQ(fake_.num_gets(), before);
}

TEST_F(ObjectDatasetStoreTest, ARunThatIsNotOfItsChunkIsNamed) {
  cluster_.reads_at_once = 8;
  auto replica = Replica();
  ASSERT_THAT(replica->store().Create("set", schema_, {}), IsOk());
  ASSERT_THAT(replica->store().Append("set", Chunk(1, 200), {}, std::nullopt), IsOk());
  ASSERT_THAT(replica->store().Append("set", Chunk(2, 200), {}, std::nullopt), IsOk());
  ASSERT_THAT(replica->store().Seal("set"), IsOk());
  const auto objects = fake_.List("d/", "", 0, absl::InfiniteFuture());
  ASSERT_EQ(objects->objects.size(), 2U);
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks, replica->store().OpenChunks("set"));
  // The lowest byte of the last count.
  for (const ObjectInfo& object : objects->objects) {
    fake_.Damage(object.key, object.num_bytes - sizeof(uint64_t));
  }
  const std::vector<uint32_t> both = {0, 1};
  SizeHistogram sizes(schema_.num_components());
  EXPECT_THAT(chunks->ReadSizes(both)->AddNext(sizes),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("data set 'set'"), HasSubstr("bytes that are not the"))));
  ASSERT_THAT(replica->store().Delete("set"), IsOk());
  EXPECT_THAT(chunks->ReadSizes(both)->AddNext(sizes), StatusIs(absl::StatusCode::kNotFound, _));
}

TEST_F(ObjectDatasetStoreTest, DataSetsInUseMustFitTheCache) {
  auto writer = Replica();
  for (const std::string name : {"a", "b"}) {
    ASSERT_THAT(writer->store().Create(name, schema_, {}), IsOk());
    ASSERT_THAT(writer->store().Append(name, Chunk(1, 300), {}, std::nullopt), IsOk());
  }
  const uint64_t size = fake_.List("d/", "", 0, absl::InfiniteFuture())->objects[0].num_bytes;
  auto replica = Replica(size + size / 2);
  auto reader = replica->store().OpenReader("a");
  ASSERT_THAT(reader, IsOk());
  EXPECT_THAT(replica->store().OpenReader("b"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("max_bytes")));
  reader = absl::CancelledError();
  EXPECT_THAT(replica->store().OpenReader("b"), IsOk());
}

// Simulation: replicas append to a few data sets, their calls fail, are lost or done late,
// processes end at any point, sweeps go on between. What was acknowledged is there exactly once;
// what each producer sent is a prefix of its numbers, and what is not acknowledged may be there.
TEST_F(ObjectDatasetStoreTest, AcknowledgedIsThereOnceWhateverFails) {
  Replica();  // The stores know each other from here on.
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    fake_.SetFaults({15, 15, 15, 0, 15}, seed);
    const auto faults = [&] {
      return RandomFaults(
          random.Next(), 8,
          {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
           StoreFault::kDoneLater, StoreFault::kCrashBefore, StoreFault::kCrashAfter});
    };
    std::vector<std::unique_ptr<ObjectReplica>> replicas;
    for (int i = 0; i < 3; ++i) replicas.push_back(Replica(uint64_t{1} << 30, faults()));
    const std::string name = absl::StrCat("set", seed);
    {
      auto calm = Replica();
      ASSERT_THAT(calm->store().Create(name, schema_, {}), IsOk());
    }
    std::map<std::string, uint64_t> acknowledged;
    std::map<std::string, uint64_t> sent;
    for (int step = 0; step < 25; ++step) {
      auto& replica = replicas[random.Below(replicas.size())];
      if (replica->connection().crashed()) replica = Replica(uint64_t{1} << 30, faults());
      if (random.Below(6) == 0) {
        cluster_.clock.Advance(absl::Minutes(1));
        ObjectSweeper sweeper = Sweeper(*replica);
        (void)sweeper.Run();
        continue;
      }
      const std::string producer = absl::StrCat("p", random.Below(3));
      // Again until it is acknowledged, as producers do.
      const uint64_t sequence = acknowledged[producer] + 1;
      sent[producer] = std::max(sent[producer], sequence);
      const GraphChunk chunk = Chunk((producer[1] - '0') * 1000 + sequence, 1 + sequence % 3);
      const auto result =
          replica->store().Append(name, chunk, {}, ProducerSequence{producer, sequence});
      if (result.ok()) acknowledged[producer] = sequence;
    }
    cluster_.keys.DoLateRequests();
    fake_.SetFaults({}, 0);
    auto calm = Replica();
    PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                            calm->store().Verify(name, [](const VerifyProgress&) { return true; }));
    ASSERT_TRUE(report.ok()) << (report.disagreements.empty() ? report.damaged[0].status.message()
                                                              : report.disagreements[0].message());
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, calm->store().OpenReader(name));
    std::map<uint64_t, size_t> times;
    for (const uint64_t id : reader->graph_ids()) ++times[id >> 20];
    for (const auto& [producer, last] : sent) {
      for (uint64_t sequence = 1; sequence <= last; ++sequence) {
        const size_t count = times[(producer[1] - '0') * 1000 + sequence];
        if (sequence <= acknowledged[producer]) {
          ASSERT_EQ(count, 1 + sequence % 3) << producer << " " << sequence;
        } else {
          ASSERT_TRUE(count == 0 || count == 1 + sequence % 3) << producer << " " << sequence;
        }
      }
    }
    // Nothing is left once it is deleted and swept.
    ASSERT_THAT(calm->store().Delete(name), IsOk());
    cluster_.clock.Advance(absl::Minutes(1));
    ObjectSweeper sweeper = Sweeper(*calm);
    ASSERT_THAT(sweeper.Run(), IsOk());
    ASSERT_TRUE(Objects().empty());
  }
}

// A server whose calls fail for now tries again. Meanwhile another may delete the data set, and
// create another one with its name: that one is not sealed, and not deleted.
TEST(ObjectStoreIdentityTest, WhatIsTriedAgainIsOfTheSameDataSet) {
  const GraphSchema schema = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  for (const bool seals : {false, true}) {
    for (const bool is_named_by_id : {false, true}) {
      // Before it knows which one has the name, only an id tells.
      for (int at = is_named_by_id ? 0 : 2; at < 7; ++at) {
        SCOPED_TRACE(testing::Message()
                     << "seals=" << seals << " id=" << is_named_by_id << " at=" << at);
        ObjectCluster cluster;
        FakeObjectStore objects;
        const TemporaryFolder folder(TemporaryFolder::InMemory());
        ObjectReplica one(&cluster, &objects, folder.path() + "/one");
        ObjectReplica other(&cluster, &objects, folder.path() + "/other");
        PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo first, one.store().Create("set", schema, {}));
        uint64_t anew = 0;
        int calls = 0;
        one.connection().SetFaults([&]() -> StoreFault {
          if (calls++ != at) return StoreFault::kNone;
          EXPECT_THAT(other.store().Delete("set"), IsOk());
          const auto created = other.store().Create("set", schema, {});
          EXPECT_THAT(created, IsOk());
          if (created.ok()) anew = created->id;
          return StoreFault::kUnreachable;
        });
        const DatasetStore::Target target("set", is_named_by_id ? first.id : 0);
        const absl::Status done =
            seals ? one.store().Seal(target).status() : one.store().Delete(target);
        if (anew == 0) {
          EXPECT_THAT(done, IsOk());
          continue;
        }
        EXPECT_THAT(done, StatusIs(absl::StatusCode::kNotFound, _));
        PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo now, other.store().Get("set"));
        EXPECT_EQ(now.id, anew);
        EXPECT_EQ(now.state, DatasetState::kOpen);
      }
    }
  }
}

}  // namespace
}  // namespace packhouse
