// The laws of partitions that several servers share.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/partition_jobs/jobs_world.h"
#include "tests/support/files_below.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::map<std::string, std::string> FilesIn(const std::string& folder) {
  auto files = FilesBelow(folder);
  std::erase_if(files, [&folder](const auto& file) {
    return std::filesystem::is_directory(folder + "/" + file.first);
  });
  return files;
}

class AwayGraphs final : public OneGraphStore {
 public:
  using OneGraphStore::OneGraphStore;
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(absl::string_view) const override {
    return absl::UnavailableError("the graphs are away");
  }
};

// To open it, it has to be fetched: from a time on that takes until it is let go.
class FetchedGraphs final : public OneGraphStore {
 public:
  FetchedGraphs(std::unique_ptr<const SourceGraph> graph, int slow_from)
      : OneGraphStore(std::move(graph)), slow_from_(slow_from) {}

  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> Open(
      absl::string_view name) const override {
    absl::MutexLock lock(&mutex_);
    if (++num_opened_ >= slow_from_ &&
        !mutex_.AwaitWithTimeout(absl::Condition(&is_let_go_), absl::Seconds(20))) {
      ADD_FAILURE() << "others wait until it is fetched";
    }
    return OneGraphStore::Open(name);
  }
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> OpenIfHere(
      absl::string_view) const override {
    return absl::CancelledError("it is not here");
  }
  void AwaitSlowOne() {
    const auto waits = [this] { return num_opened_ >= slow_from_; };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&waits));
  }
  void LetGo() {
    absl::MutexLock lock(&mutex_);
    is_let_go_ = true;
  }

 private:
  const int slow_from_;
  mutable absl::Mutex mutex_;
  mutable int num_opened_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_let_go_ ABSL_GUARDED_BY(mutex_) = false;
};

// Nobody would know of a use.
class UnusedGraphs final : public OneGraphStore {
 public:
  UnusedGraphs(std::unique_ptr<const SourceGraph> graph, absl::StatusCode code)
      : OneGraphStore(std::move(graph)), code_(code) {}
  absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> OpenIfHere(
      absl::string_view) const override {
    return absl::Status(code_, "the use was not written");
  }

 private:
  const absl::StatusCode code_;
};

class AwayObjects final : public ObjectStore {
 public:
  absl::Status Put(absl::string_view, absl::string_view, absl::Time) override { return Away(); }
  absl::Status Get(absl::string_view, const ByteRange&, ObjectSink, absl::Time) override {
    return Away();
  }
  absl::StatusOr<ObjectList> List(absl::string_view, absl::string_view, size_t,
                                  absl::Time) override {
    return Away();
  }
  absl::Status Delete(absl::string_view, absl::Time) override { return Away(); }

 private:
  static absl::Status Away() { return absl::UnavailableError("the objects are away"); }
};

class SharedPartitionsTest : public testing::Test {
 protected:
  // A server, from its start to its end.
  struct Server {
    Server() = default;
    Server(Server&&) = default;
    // Where one follows another, what works ends before what it works with.
    Server& operator=(Server&& next) noexcept {
      jobs = nullptr;
      shared.companions = nullptr;
      shared = std::move(next.shared);
      graphs = std::move(next.graphs);
      unused = std::move(next.unused);
      engine = std::move(next.engine);
      jobs = std::move(next.jobs);
      return *this;
    }

    SharedPartitionsWorld::Server shared;
    std::unique_ptr<OneGraphStore> graphs;
    std::unique_ptr<OneGraphStore> unused =
        std::make_unique<OneGraphStore>(SmallSourceGraph(kNodes));
    std::unique_ptr<HeldEngine> engine = std::make_unique<HeldEngine>();
    std::unique_ptr<PartitionJobs> jobs;
  };
  // With the disk that the last one of that name has left. `held`: its engine waits.
  Server Start(const std::string& name, bool held = false, StoreFaults faults = nullptr) {
    Server server;
    server.shared = world_.Start(name, folder_.path() + "/" + name, std::move(faults));
    server.graphs = std::move(graphs_);
    if (server.graphs == nullptr) {
      server.graphs = std::make_unique<OneGraphStore>(SmallSourceGraph(kNodes));
    }
    if (held) server.engine->Hold();
    PartitionJobs::Options options;
    options.shared = server.shared.companions.get();
    options.unused_graphs = server.unused.get();
    server.jobs = std::make_unique<PartitionJobs>(server.graphs.get(), server.engine.get(),
                                                  &world_.cluster.clock, nullptr, options);
    return server;
  }
  static PartitionJobInfo Get(const Server& server, const std::string& name = "p") {
    const auto info = server.jobs->Get("g", name);
    EXPECT_THAT(info, IsOk());
    return info.ok() ? *info : PartitionJobInfo();
  }
  // What work at it was told so far, is known to all.
  void LetTimePass() { world_.cluster.clock.Advance(2 * PartitionJobs::kTellPeriod); }
  // On its disk, of partitions.
  size_t NumFilesOf(const std::string& server) {
    const std::string folder = folder_.path() + "/" + server + "/companions";
    if (!std::filesystem::exists(folder)) return 0;
    auto files = FilesIn(folder);
    std::erase_if(files, [](const auto& file) { return file.first.ends_with(kPartitionListFile); });
    return files.size();
  }
  size_t NumObjectsAfterSweep(Server& server) {
    world_.cluster.clock.Advance(absl::Hours(2));
    EXPECT_THAT(BindStores(server.shared.replica->engines()), IsOk());
    EXPECT_THAT(server.shared.companions->RemoveGone(), IsOk());
    EXPECT_THAT(SourceGraphSweeper(server.shared.replica->engines(), {}).Run(), IsOk());
    const auto list = world_.fake.List("g/", "", 0, absl::InfiniteFuture());
    EXPECT_THAT(list, IsOk());
    return list->objects.size();
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  SharedPartitionsWorld world_;
  std::unique_ptr<OneGraphStore> graphs_;  // Of the next server; null: one that has them here.
};

TEST_F(SharedPartitionsTest, WhatOneServerMakesAllHave) {
  Server a = Start("a:1", /*held=*/true);
  Server b = Start("b:1", /*held=*/true);
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.engine->AwaitCalls(1);
  // Whoever asks sees how far it is; to ask for it again at another server begins nothing.
  LetTimePass();
  while (Get(b).share_done == 0) LetTimePass();
  EXPECT_EQ(Get(b).state, PartitionJobState::kRunning);
  EXPECT_EQ(Get(b).phase, RunPhase::kAssigning);
  PH_ASSERT_OK_AND_ASSIGN(const PartitionJobInfo again, b.jobs->Partition("g", PlanNamed("p")));
  EXPECT_EQ(again.state, PartitionJobState::kRunning);
  EXPECT_THAT(b.jobs->Partition("g", PlanNamed("p", PartMethod::kRandom)),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("other words")));
  EXPECT_THAT(b.jobs->ReadFile("g", "p", "p.json", 0, 1),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not done")));
  a.engine->LetGo();
  a.jobs->AwaitIdle();
  EXPECT_EQ(Get(b).state, PartitionJobState::kDone);
  ASSERT_TRUE(Get(b).report.has_value());
  EXPECT_EQ(Get(b).report->parts.size(), 3U);
  // As a folder has it, on the disk of no server.
  const std::string output = folder_.path() + "/output";
  ASSERT_THAT(RunPartition(*SmallSourceGraph(kNodes), PlanNamed("p"), output, a.engine.get(), {}),
              IsOk());
  EXPECT_EQ(ReadFilesOf(*b.jobs, "p"), FilesIn(output));
  EXPECT_EQ(NumFilesOf("a:1"), 0U);
  // It outlives the server.
  a = Server();
  Server c = Start("c:1");
  EXPECT_EQ(ReadFilesOf(*c.jobs, "p"), FilesIn(output));
  PH_ASSERT_OK_AND_ASSIGN(const auto parts, c.jobs->PartsOf("g", "p"));
  for (uint32_t node = 0; node < parts.part.size(); ++node) EXPECT_EQ(parts.part[node], node % 3);
  PH_ASSERT_OK_AND_ASSIGN(const auto list, c.jobs->List("g"));
  EXPECT_EQ(list.size(), 1U);
  ASSERT_THAT(c.jobs->Delete("g", "p"), IsOk());
  EXPECT_THAT(b.jobs->Get("g", "p"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(NumObjectsAfterSweep(c), 0U);
  EXPECT_EQ(world_.NumKeys(), 0U);
}

// Another server ends the work: by a cancellation, a deletion, or since the graph is gone.
TEST_F(SharedPartitionsTest, WorkEndsWhereverItIsEnded) {
  for (const std::string how : {"cancel", "delete", "delete and ask for another", "graph"}) {
    SCOPED_TRACE(how);
    Server a = Start("a:1", /*held=*/true);
    Server b = Start("b:1");
    ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
    a.engine->AwaitCalls(1);
    if (how == "cancel") {
      ASSERT_THAT(b.jobs->Cancel("g", "p"), IsOk());
      EXPECT_EQ(Get(a).state, PartitionJobState::kCancelled);
    } else if (how == "graph") {
      world_.MakeGraph(0);
      ASSERT_THAT(b.shared.companions->RemoveGone(), IsOk());
    } else {
      ASSERT_THAT(b.jobs->Delete("g", "p"), IsOk());
      EXPECT_THAT(a.jobs->Get("g", "p"), StatusIs(absl::StatusCode::kNotFound, _));
    }
    PartitionPlan other = PlanNamed("p", PartMethod::kRandom);
    if (how == "delete and ask for another") {
      ASSERT_THAT(b.jobs->Partition("g", other), IsOk());
      b.jobs->AwaitIdle();
    }
    LetTimePass();
    // The engine is held: it ends since it is told so.
    a.jobs->AwaitIdle();
    if (how == "cancel") {
      EXPECT_EQ(Get(b).state, PartitionJobState::kCancelled);
      ASSERT_THAT(b.jobs->Partition("g", PlanNamed("p")), IsOk());
      b.jobs->AwaitIdle();
      EXPECT_EQ(Get(a).state, PartitionJobState::kDone);
    } else if (how == "delete and ask for another") {
      EXPECT_EQ(Get(a).state, PartitionJobState::kDone);
      EXPECT_EQ(PlanText(Get(a).plan), PlanText(other));
    }
    // What its disk has goes, at the latest when the server starts again.
    a = Server();
    a = Start("a:1");
    a.jobs->AwaitIdle();
    EXPECT_EQ(NumFilesOf("a:1"), 0U);
    world_.MakeGraph(1);
    b.jobs->Delete("g", "p").IgnoreError();
  }
}

// A server that is gone is named; it goes on when it is back, unless somebody else has it by then.
TEST_F(SharedPartitionsTest, AServerThatIsGoneIsNamed) {
  for (const bool is_taken : {false, true}) {
    SCOPED_TRACE(is_taken);
    Server a = Start("a:1", /*held=*/true);
    Server b = Start("b:1");
    ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
    a.engine->AwaitCalls(1);
    a = Server();
    world_.SetGone("a:1");
    const PartitionJobInfo lost = Get(b);
    EXPECT_EQ(lost.state, PartitionJobState::kFailed);
    EXPECT_THAT(lost.error, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("a:1")));
    PH_ASSERT_OK_AND_ASSIGN(const auto list, b.jobs->List("g"));
    ASSERT_EQ(list.size(), 1U);
    EXPECT_THAT(list[0].error, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("a:1")));
    if (is_taken) {
      ASSERT_THAT(b.jobs->Partition("g", PlanNamed("p")), IsOk());
      b.jobs->AwaitIdle();
      EXPECT_EQ(Get(b).state, PartitionJobState::kDone);
    }
    world_.SetGone("");
    a = Start("a:1", /*held=*/is_taken);
    a.jobs->AwaitIdle();
    EXPECT_EQ(Get(b).state, PartitionJobState::kDone);
    EXPECT_EQ(NumFilesOf("a:1"), 0U);
    ASSERT_THAT(a.jobs->Delete("g", "p"), IsOk());
  }
}

// Nor does a store that is away end it: whoever has claimed it goes on when the store is back.
TEST_F(SharedPartitionsTest, AStoreThatIsAwayEndsNothing) {
  Server b = Start("b:1");
  Server a = Start("a:1", /*held=*/true);
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.engine->AwaitCalls(1);
  const auto expect_held_up = [&] {
    a = Server();
    a = Start("a:1");
    a.jobs->AwaitIdle();
    EXPECT_EQ(Get(a).state, PartitionJobState::kWaiting);
    EXPECT_THAT(Get(a).error, IsOk());
    EXPECT_THAT(Get(b).error, IsOk());
    EXPECT_NE(Get(b).state, PartitionJobState::kFailed);
  };
  graphs_ = std::make_unique<AwayGraphs>(SmallSourceGraph(kNodes));
  expect_held_up();
  AwayObjects away;
  world_.objects = &away;
  expect_held_up();
  world_.objects = nullptr;
  a = Server();
  a = Start("a:1");
  a.jobs->AwaitIdle();
  EXPECT_EQ(Get(b).state, PartitionJobState::kDone);
  EXPECT_EQ(NumFilesOf("a:1"), 0U);
}

// A graph is fetched for minutes, or its objects are away: by who asks for a partition, or by the
// work, which somebody cancels. Meanwhile the server changes other partitions.
TEST_F(SharedPartitionsTest, OthersDoNotWaitForAGraphThatIsFetched) {
  for (const bool is_work : {false, true}) {
    SCOPED_TRACE(is_work);
    Server b = Start("b:1");
    ASSERT_THAT(b.jobs->Partition("g", PlanNamed("q")), IsOk());
    b.jobs->AwaitIdle();
    auto graphs =
        std::make_unique<FetchedGraphs>(SmallSourceGraph(kNodes), /*slow_from=*/is_work ? 2 : 1);
    FetchedGraphs& fetched = *graphs;
    graphs_ = std::move(graphs);
    Server a = Start("a:1");
    std::thread slow([&] {
      EXPECT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
      if (!is_work) return;
      fetched.AwaitSlowOne();
      EXPECT_THAT(a.jobs->Cancel("g", "p"), IsOk());
    });
    fetched.AwaitSlowOne();
    while (is_work && Get(b).state != PartitionJobState::kCancelled) std::this_thread::yield();
    const auto again = a.jobs->Partition("g", PlanNamed("q"));
    EXPECT_THAT(again, IsOk());
    EXPECT_TRUE(again.ok() && again->report.has_value() && !again->files.empty());
    EXPECT_THAT(a.jobs->Cancel("g", "q"), IsOk());
    EXPECT_THAT(a.jobs->Delete("g", "q"), IsOk());
    fetched.LetGo();
    slow.join();
    a.jobs->AwaitIdle();
    EXPECT_EQ(Get(b).state, is_work ? PartitionJobState::kCancelled : PartitionJobState::kDone);
    // One that was cancelled goes on, or there is one that is done.
    EXPECT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
    a.jobs->AwaitIdle();
    EXPECT_EQ(Get(b).state, PartitionJobState::kDone);
    EXPECT_THAT(a.jobs->Delete("g", "p"), IsOk());
  }
}

// A graph whose use nobody would know of may expire: its partitions do not go on, nor does anybody
// believe that they are asked for.
TEST_F(SharedPartitionsTest, NothingGoesOnWithoutAUseOfItsGraph) {
  // The second: where the store has no room, or too many requests.
  for (const auto code : {absl::StatusCode::kUnavailable, absl::StatusCode::kResourceExhausted}) {
    SCOPED_TRACE(code);
    const auto without_uses = [this, code] {
      graphs_ = std::make_unique<UnusedGraphs>(SmallSourceGraph(kNodes), code);
    };
    Server b = Start("b:1", /*held=*/true);
    ASSERT_THAT(b.jobs->Partition("g", PlanNamed("p")), IsOk());
    b.engine->AwaitCalls(1);
    without_uses();
    Server a = Start("a:1");
    EXPECT_THAT(a.jobs->Partition("g", PlanNamed("p")),
                StatusIs(code, HasSubstr("was not written")));
    // To look is none.
    EXPECT_EQ(Get(a).state, PartitionJobState::kRunning);
    b = Server();
    without_uses();
    b = Start("b:1");
    b.jobs->AwaitIdle();
    EXPECT_EQ(Get(b).state, PartitionJobState::kWaiting);
    b = Server();
    b = Start("b:1");
    b.jobs->AwaitIdle();
    EXPECT_EQ(Get(a).state, PartitionJobState::kDone);
    // To delete is none, either.
    EXPECT_THAT(a.jobs->Delete("g", "p"), IsOk());
    EXPECT_THAT(b.jobs->Get("g", "p"), StatusIs(absl::StatusCode::kNotFound, _));
  }
}

// A server that was taken for gone works on: what it has made is not taken.
TEST_F(SharedPartitionsTest, WhoeverHasTheClaimPublishes) {
  Server a = Start("a:1", /*held=*/true);
  Server b = Start("b:1", /*held=*/true);
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.engine->AwaitCalls(1);
  world_.SetGone("a:1");
  ASSERT_THAT(b.jobs->Partition("g", PlanNamed("p")), IsOk());
  b.engine->AwaitCalls(1);
  // It does not look before it is done.
  a.engine->LetGo();
  a.jobs->AwaitIdle();
  EXPECT_EQ(Get(b).state, PartitionJobState::kRunning);
  b.engine->LetGo();
  b.jobs->AwaitIdle();
  EXPECT_EQ(Get(a).state, PartitionJobState::kDone);
  EXPECT_EQ(NumObjectsAfterSweep(b), NumObjectsAfterSweep(a));
  ASSERT_THAT(b.jobs->Delete("g", "p"), IsOk());
  EXPECT_EQ(NumObjectsAfterSweep(b), 0U);
  EXPECT_EQ(world_.NumKeys(), 0U);
}

enum class Race { kClaims, kUploadAndClaim, kUploadAndDelete };

class RacingServersTest : public SharedPartitionsTest, public testing::WithParamInterface<Race> {
 protected:
  RacingServersTest() {
    std::filesystem::create_directories(files_);
    std::ofstream(files_ + "/file") << bytes_;
    own_.graph = {"g", 1};
    own_.name = "p";
    own_.state = "of a";
    own_.server = "a:1";
  }
  // Of one server.
  absl::Status Change(ObjectCompanions& companions) {
    if (GetParam() == Race::kClaims) return companions.Put(own_).status();
    return companions.Upload(own_, files_, {{{"file", bytes_.size(), Crc32c(bytes_)}}, "summary"},
                             [] { return true; });
  }
  // Of the other one.
  absl::Status ChangeMeanwhile(ObjectCompanions& companions) {
    if (GetParam() == Race::kUploadAndDelete) return companions.Delete(own_.graph, "p");
    SharedCompanion another = own_;
    another.state = "of b";
    another.server = "b:1";
    return companions.Put(another).status();
  }

  const std::string files_ = folder_.path() + "/files";
  const std::string bytes_ = std::string(9000, 'b');
  SharedCompanion own_;
};

// Between any two requests of a claim, or of an upload, another server takes the partition, or
// deletes it: one of the two has it, and nothing is left of the other.
TEST_P(RacingServersTest, OneHasIt) {
  const bool deletes = GetParam() == Race::kUploadAndDelete;
  Server b = Start("b:1");
  ObjectCompanions& others = *b.shared.companions;
  size_t num_lost = 0;
  bool has_come = true;
  for (int at = 0; has_come; ++at) {
    SCOPED_TRACE(at);
    own_.revision = 0;
    if (GetParam() != Race::kClaims) {
      PH_ASSERT_OK_AND_ASSIGN(own_.revision, others.Put(own_));
    }
    int requests = -1;
    has_come = false;
    absl::Status of_other;
    const SharedPartitionsWorld::Server a =
        world_.Start("a:1", absl::StrCat(folder_.path(), "/a", at), [&] {
          if (++requests != at) return StoreFault::kNone;
          has_come = true;
          of_other = ChangeMeanwhile(others);
          return StoreFault::kNone;
        });
    const absl::Status done = Change(*a.companions);
    num_lost += done.ok() ? 0 : 1;
    EXPECT_TRUE(done.ok() || absl::IsAborted(done) || absl::IsNotFound(done)) << done;
    EXPECT_NE(done.ok(), has_come && of_other.ok());
    const auto found = others.Find(own_.graph, "p");
    if (deletes && has_come) {
      EXPECT_THAT(found, StatusIs(absl::StatusCode::kNotFound, _));
    } else {
      ASSERT_THAT(found, IsOk());
      EXPECT_EQ(found->state, done.ok() ? "of a" : "of b");
      EXPECT_EQ(found->is_whole, GetParam() != Race::kClaims && done.ok());
      ASSERT_THAT(others.Delete(own_.graph, "p"), IsOk());
    }
    EXPECT_EQ(NumObjectsAfterSweep(b), 0U);
    EXPECT_EQ(world_.NumKeys(), 0U);
  }
  EXPECT_GT(num_lost, 0U);
}

INSTANTIATE_TEST_SUITE_P(All, RacingServersTest,
                         testing::Values(Race::kClaims, Race::kUploadAndClaim,
                                         Race::kUploadAndDelete));

// It was cancelled elsewhere, and this server, which works on, does not know it yet.
TEST_F(SharedPartitionsTest, AskedForAgainWhereItStillRuns) {
  Server a = Start("a:1", /*held=*/true);
  Server b = Start("b:1");
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.engine->AwaitCalls(1);
  ASSERT_THAT(b.jobs->Cancel("g", "p"), IsOk());
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.engine->LetGo();
  a.jobs->AwaitIdle();
  EXPECT_EQ(Get(b).state, PartitionJobState::kDone);
}

// A graph that was deleted takes its partitions with it, at once; one that is made under its name
// later has none.
TEST_F(SharedPartitionsTest, PartitionsGoWithTheirGraph) {
  Server a = Start("a:1");
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.jobs->AwaitIdle();
  const CompanionGraph old = {"g", 1};
  world_.MakeGraph(2);
  EXPECT_THAT(a.shared.companions->Find(old, "p"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(a.shared.companions->Find({"g", 2}, "p"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(NumObjectsAfterSweep(a), 0U);
  EXPECT_EQ(world_.NumKeys(), 0U);
}

// Others may be faster again and again: what was put is read once, unless it is not there any more.
TEST_F(SharedPartitionsTest, ALostRaceReadsNothingAgain) {
  const SharedPartitionsWorld::Server a = world_.Start("a:1", folder_.path() + "/a");
  const std::string bytes(10000, 'b');
  const ObjectEngines engines = a.replica->engines();
  PieceUpload upload(engines, {4096, 0}, "it", {"key", 1}, bytes.size());
  PH_ASSERT_OK_AND_ASSIGN(const PieceUpload::Begun begun, upload.Begin());
  size_t num_read = 0;
  const auto put = [&] {
    return upload.Put(
        begun,
        [&](uint64_t from, uint64_t to) {
          ++num_read;
          return bytes.substr(from, to - from);
        },
        [](uint64_t) { return true; });
  };
  ASSERT_THAT(put(), IsOk());
  EXPECT_EQ(num_read, 3U);
  ASSERT_THAT(put(), IsOk());
  EXPECT_EQ(num_read, 3U);
  EXPECT_EQ(upload.pieces().crcs.size(), 3U);
  const std::string one = SourceGraphPieceObject(begun.objects, 1, upload.pieces().crcs[1]);
  ASSERT_THAT(world_.fake.Delete(one, absl::InfiniteFuture()), IsOk());
  ASSERT_THAT(put(), IsOk());
  EXPECT_EQ(num_read, 6U);
  ASSERT_THAT(put(), IsOk());
  EXPECT_EQ(num_read, 6U);
}

// The store's bound counts partitions, and they give their bytes back.
TEST_F(SharedPartitionsTest, TheBoundOfTheStoreCountsThem) {
  world_.max_bytes = 1;
  Server a = Start("a:1");
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.jobs->AwaitIdle();
  EXPECT_THAT(Get(a).error, StatusIs(absl::StatusCode::kResourceExhausted,
                                     AllOf(HasSubstr("'p'"), HasSubstr("max_bytes is 1"))));
  a = Server();
  world_.max_bytes = uint64_t{1} << 20;
  a = Start("a:1");
  // What was made is kept for it: the engine is not asked again.
  a.engine->FailWith(absl::InternalError("asked again"));
  ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
  a.jobs->AwaitIdle();
  EXPECT_EQ(Get(a).state, PartitionJobState::kDone);
  const auto totals = [&]() -> uint64_t {
    const auto read = a.shared.replica->connection().Range(KeyRange::Of(kStoreTotalsKey), 0, 0);
    return read.ok() && !read->values.empty() ? DecodeObjectTotals(read->values[0].value)->num_bytes
                                              : 0;
  };
  EXPECT_GT(totals(), 1000U);
  ASSERT_THAT(a.jobs->Delete("g", "p"), IsOk());
  EXPECT_EQ(totals(), 0U);
}

// Whichever request the server is killed at: it is there as a whole or not at all, and the same
// server goes on with it when it is started again.
// The answer is whole, or it is the refusal; and nothing has changed then.
TEST_F(SharedPartitionsTest, ARefusedRequestEndsACall) {
  using Answer = absl::StatusOr<std::string>;
  const auto told = [](const absl::StatusOr<PartitionJobInfo>& info) -> Answer {
    if (!info.ok()) return info.status();
    std::string text = absl::StrCat(info->plan.name, " ", static_cast<int>(info->state), " ",
                                    info->share_done, " ", info->error.message());
    for (const PartitionJobFile& file : info->files) {
      absl::StrAppend(&text, " ", file.path, ":", file.num_bytes);
    }
    return text;
  };
  const auto of = [](const absl::Status& status) -> Answer {
    if (!status.ok()) return status;
    return "done";
  };
  const std::vector<std::pair<const char*, std::function<Answer(PartitionJobs&)>>> calls = {
      {"get", [&](PartitionJobs& jobs) { return told(jobs.Get("g", "p")); }},
      {"list",
       [&](PartitionJobs& jobs) -> Answer {
         const auto list = jobs.List("g");
         if (!list.ok()) return list.status();
         std::string all;
         for (const PartitionJobInfo& info : *list) absl::StrAppend(&all, *told(info), "; ");
         return all;
       }},
      {"read",
       [](PartitionJobs& jobs) -> Answer {
         const auto read = jobs.ReadFile("g", "p", "p.json", 1, 1000);
         if (!read.ok()) return read.status();
         return absl::StrCat(read->num_bytes, " ", read->data);
       }},
      {"parts",
       [](PartitionJobs& jobs) -> Answer {
         const auto parts = jobs.PartsOf("g", "p");
         if (!parts.ok()) return parts.status();
         return absl::StrCat(parts->num_parts, " ", absl::StrJoin(parts->part, " "));
       }},
      {"ask again", [&](PartitionJobs& jobs) { return told(jobs.Partition("g", PlanNamed("p"))); }},
      {"cancel", [&](PartitionJobs& jobs) { return told(jobs.Cancel("g", "p")); }},
      {"bytes",
       [](PartitionJobs& jobs) -> Answer {
         const auto bytes = jobs.BytesByNamespace();
         if (!bytes.ok()) return bytes.status();
         std::string all;
         for (const auto& [space, number] : *bytes) absl::StrAppend(&all, space, ":", number, " ");
         return all;
       }},
      {"delete", [&](PartitionJobs& jobs) { return of(jobs.Delete("g", "p")); }},
  };
  Server a = Start("a:1");
  for (const auto& [name, call] : calls) {
    std::string whole;
    for (int step = -1, num_requests = 0; step < num_requests; ++step) {
      SCOPED_TRACE(absl::StrCat(name, ", request ", step, " of ", num_requests));
      ASSERT_THAT(a.jobs->Partition("g", PlanNamed("p")), IsOk());
      a.jobs->AwaitIdle();
      Refusals refusals(absl::StatusCode::kPermissionDenied);
      world_.refusals = &refusals;
      // It has fetched nothing.
      Server b = Start(absl::StrCat(name, step, ":1"));
      world_.refusals = nullptr;
      refusals.Begin(step);
      const Answer answer = call(*b.jobs);
      if (step == -1) {
        ASSERT_THAT(answer, IsOk());
        whole = *answer;
        num_requests = refusals.num_requests();
        EXPECT_GT(num_requests, 0);
        continue;
      }
      refusals.Begin(-1);
      if (answer.ok()) {
        EXPECT_EQ(*answer, whole);
        continue;
      }
      EXPECT_TRUE(absl::IsPermissionDenied(answer.status()) || absl::IsUnavailable(answer.status()))
          << answer.status();
      EXPECT_THAT(answer.status().message(), HasSubstr(kWhy));
      const Answer again = call(*b.jobs);
      ASSERT_THAT(again, IsOk());
      EXPECT_EQ(*again, whole);
    }
  }
}

TEST_F(SharedPartitionsTest, KilledAtAnyRequest) {
  const std::string output = folder_.path() + "/output";
  HeldEngine engine;
  ASSERT_THAT(RunPartition(*SmallSourceGraph(kNodes), PlanNamed("p"), output, &engine, {}), IsOk());
  const std::map<std::string, std::string> expected = FilesIn(output);
  Server watcher = Start("watcher");
  bool was_killed = true;
  size_t num_killed = 0;
  for (int at = 0; was_killed; ++at) {
    SCOPED_TRACE(at);
    was_killed = false;
    int requests = 0;
    {
      Server a = Start("a:1", /*held=*/false, [&] {
        if (requests++ != at) return StoreFault::kNone;
        was_killed = true;
        return at % 2 == 0 ? StoreFault::kCrashBefore : StoreFault::kCrashAfter;
      });
      a.jobs->Partition("g", PlanNamed("p")).IgnoreError();
      a.jobs->AwaitIdle();
    }
    num_killed += was_killed ? 1 : 0;
    const auto seen = watcher.jobs->Get("g", "p");
    if (seen.ok() && seen->state == PartitionJobState::kDone) {
      EXPECT_EQ(ReadFilesOf(*watcher.jobs, "p"), expected);
    }
    Server again = Start("a:1");
    again.jobs->AwaitIdle();
    ASSERT_THAT(again.jobs->Partition("g", PlanNamed("p")), IsOk());
    again.jobs->AwaitIdle();
    EXPECT_EQ(ReadFilesOf(*watcher.jobs, "p"), expected);
    EXPECT_EQ(NumFilesOf("a:1"), 0U);
    ASSERT_THAT(watcher.jobs->Delete("g", "p"), IsOk());
    EXPECT_EQ(NumObjectsAfterSweep(watcher), 0U);
    EXPECT_EQ(world_.NumKeys(), 0U);
  }
  EXPECT_GT(num_killed, 10U);
}

// What is asked of one companion, and what is said of it, by whole words. A server has put it for a
// graph `g`, with files of which one is empty and one is of several pieces.
class SharedCompanionsTest : public testing::Test {
 protected:
  SharedCompanionsTest() {
    own_.graph = {"g", 1};
    own_.name = "p";
    own_.state = "begun";
    own_.server = "a:1";
    for (const auto& [path, bytes] : files_) {
      contents_.files.push_back({path, bytes.size(), Crc32c(bytes)});
      std::ofstream(folder_.path() + "/" + path) << bytes;
    }
    contents_.summary = "summary";
  }
  absl::Status Upload(ObjectCompanions& by) {
    return by.Upload(own_, folder_.path(), contents_, [] { return true; });
  }
  void PutWhole() {
    PH_ASSERT_OK_AND_ASSIGN(own_.revision, companions_.Put(own_));
    own_.state = "done";
    ASSERT_THAT(Upload(companions_), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(own_, companions_.Find(own_.graph, "p"));
  }
  std::string KeyOf() const { return CompanionKey(own_.graph.id, own_.name); }
  void PutKey(const std::string& key, const std::string& value) {
    ASSERT_THAT(a_.replica->connection().Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }
  StoredCompanion Stored() {
    return DecodeCompanion(*a_.replica->connection().Get(KeyOf()).value()).value();
  }
  std::string FirstPiece() {
    const auto list = world_.fake.List("g/", "", 0, absl::InfiniteFuture());
    for (const ObjectInfo& object : list->objects) {
      if (object.key.find("/p/00000000-") != std::string::npos) return object.key;
    }
    return "";
  }

  const std::map<std::string, std::string> files_ = {
      {"a", std::string(5000, 'a')},
      {"empty", ""},
      {"long", std::string(3000, 'l') + std::string(6001, 'm')}};
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  SharedPartitionsWorld world_;
  SharedPartitionsWorld::Server a_ = world_.Start("a:1", folder_.path() + "/at-a");
  ObjectCompanions& companions_ = *a_.companions;
  SharedCompanion own_;
  CompanionContents contents_;
  int num_servers_ = 0;
};

TEST_F(SharedCompanionsTest, WhatIsNotThereIsNamed) {
  const auto no_graph = [](const std::string& name) {
    return StatusIs(absl::StatusCode::kNotFound, "source graph '" + name + "': there is none");
  };
  const auto none = StatusIs(absl::StatusCode::kNotFound, "partition 'p' of 'g': there is none");
  const auto of_another =
      StatusIs(absl::StatusCode::kAborted, "partition 'p' of 'g': another server has changed it");
  EXPECT_THAT(companions_.Find({"h", 1}, "p"), no_graph("h"));
  EXPECT_THAT(companions_.Find({"g", 2}, "p"), no_graph("g"));
  EXPECT_THAT(companions_.Find(own_.graph, "p"), none);
  EXPECT_THAT(companions_.Delete(own_.graph, "p"), none);
  EXPECT_THAT(companions_.Delete({"h", 1}, "p"), no_graph("h"));
  SharedCompanion wanted = own_;
  wanted.revision = 1;
  EXPECT_THAT(companions_.Put(wanted), none);
  wanted.graph.id = 2;
  EXPECT_THAT(companions_.Put(wanted), no_graph("g"));
  PH_ASSERT_OK_AND_ASSIGN(own_.revision, companions_.Put(own_));
  wanted = own_;
  for (const uint64_t revision : {uint64_t{0}, own_.revision - 1, own_.revision + 1}) {
    wanted.revision = revision;
    EXPECT_THAT(companions_.Put(wanted), of_another);
    EXPECT_THAT(companions_.Tell(wanted, "half"), of_another);
    EXPECT_THAT(companions_.Upload(wanted, folder_.path(), contents_, [] { return true; }),
                of_another);
  }
  // Nothing was put for them.
  EXPECT_EQ(world_.fake.num_objects(), 0U);
  EXPECT_EQ(companions_.Find(own_.graph, "p")->progress, "");
  ASSERT_THAT(Upload(companions_), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SharedCompanion whole, companions_.Find(own_.graph, "p"));
  EXPECT_THAT(companions_.ContentsOf(own_), none);
  EXPECT_THAT(companions_.Map(own_, "a", 0, 1), none);
  EXPECT_THAT(companions_.Map(whole, "b", 0, 1),
              StatusIs(absl::StatusCode::kNotFound, "partition 'p' of 'g' has no file 'b'"));
  // What is whole stays so.
  EXPECT_THAT(companions_.Put(whole), of_another);
  world_.MakeGraph(2);
  EXPECT_THAT(companions_.ContentsOf(whole), none);
  EXPECT_THAT(companions_.Delete(own_.graph, "p"), no_graph("g"));
  // One that is built yet has none, either.
  SharedGraph built =
      DecodeSharedGraph("g", a_.replica->connection().Get(SourceGraphNameKey("g")).value()->value)
          .value();
  built.definition.id = 1;
  built.server = "a:1";
  PutKey(SourceGraphNameKey("g"), EncodeSharedGraph(built));
  EXPECT_THAT(companions_.Find(own_.graph, "p"), no_graph("g"));
}

TEST_F(SharedCompanionsTest, AllIsToldOfIt) {
  const auto words = [](const SharedCompanion& of) {
    return absl::StrCat(of.graph.name, " ", of.graph.id, " ", of.name, " ", of.state, " ",
                        of.server, of.server_lives ? " lives, " : " is gone, ", of.progress,
                        of.is_whole ? ", whole of " : ", ", of.num_bytes);
  };
  const SharedPartitionsWorld::Server b = world_.Start("b:1", folder_.path() + "/at-b");
  PH_ASSERT_OK_AND_ASSIGN(own_.revision, companions_.Put(own_));
  PH_ASSERT_OK_AND_ASSIGN(SharedCompanion found, b.companions->Find(own_.graph, "p"));
  EXPECT_EQ(words(found), "g 1 p begun a:1 lives, , 0");
  EXPECT_EQ(found.revision, own_.revision);
  ASSERT_THAT(companions_.Tell(own_, "half"), IsOk());
  world_.SetGone("a:1");
  EXPECT_EQ(words(*b.companions->Find(own_.graph, "p")), "g 1 p begun a:1 is gone, half, 0");
  // A server that asks is there, whatever is said of it.
  EXPECT_EQ(words(*companions_.Find(own_.graph, "p")), "g 1 p begun a:1 lives, half, 0");
  // Another one takes it: what was told before is no more.
  SharedCompanion taken = own_;
  taken.server = "b:1";
  taken.state = "again";
  PH_ASSERT_OK_AND_ASSIGN(taken.revision, b.companions->Put(taken));
  EXPECT_EQ(words(*companions_.Find(own_.graph, "p")), "g 1 p again b:1 lives, , 0");
  ASSERT_THAT(b.companions->Tell(taken, "most"), IsOk());
  own_ = taken;
  own_.state = "done";
  ASSERT_THAT(Upload(*b.companions), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(found, companions_.Find(own_.graph, "p"));
  EXPECT_EQ(words(found), "g 1 p done b:1 lives, , whole of 17193");
  PH_ASSERT_OK_AND_ASSIGN(const CompanionContents contents, companions_.ContentsOf(found));
  EXPECT_EQ(contents.summary, "summary");
  ASSERT_EQ(contents.files.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(contents.files[i].path, contents_.files[i].path);
    EXPECT_EQ(contents.files[i].num_bytes, contents_.files[i].num_bytes);
    EXPECT_EQ(contents.files[i].crc32c, contents_.files[i].crc32c);
  }
  // Lists are of one graph, or of all, also of those that are gone.
  SharedCompanion second = own_;
  second.name = "q";
  second.revision = 0;
  ASSERT_THAT(companions_.Put(second), IsOk());
  world_.SetGone("b:1");
  world_.MakeGraph(2);
  second.graph.id = 2;
  ASSERT_THAT(companions_.Put(second), IsOk());
  const auto all_of = [&](const absl::StatusOr<std::vector<SharedCompanion>>& list) {
    std::vector<std::string> all;
    for (const SharedCompanion& each : *list) all.push_back(words(each));
    return all;
  };
  EXPECT_THAT(
      all_of(companions_.List({"g", 1})),
      ElementsAre("g 1 p done b:1 is gone, , whole of 17193", "g 1 q done b:1 is gone, , 0"));
  EXPECT_THAT(all_of(companions_.List({"g", 2})), ElementsAre("g 2 q done b:1 is gone, , 0"));
  EXPECT_EQ(all_of(companions_.ListAll()).size(), 3U);
  // Those of graphs that are gone go, and no others.
  ASSERT_THAT(companions_.RemoveGone(), IsOk());
  EXPECT_THAT(all_of(companions_.ListAll()), ElementsAre("g 2 q done b:1 is gone, , 0"));
}

TEST_F(SharedCompanionsTest, AnyPartOfAFileIsRead) {
  PutWhole();
  for (const auto& [path, bytes] : files_) {
    for (const uint64_t offset : {0, 1, 2999, 4095, 4096, 4097, 5000, 8192, 9000, 9001, 9002}) {
      for (const uint64_t most : {0, 1, 4096, 5000, 10000}) {
        SCOPED_TRACE(absl::StrCat(path, " ", offset, " ", most));
        PH_ASSERT_OK_AND_ASSIGN(const OwnedBytes read, companions_.Map(own_, path, offset, most));
        EXPECT_EQ(read.bytes, bytes.substr(std::min<size_t>(offset, bytes.size()), most));
        EXPECT_EQ(read.num_bytes, bytes.size());
      }
    }
  }
  // What is read at once must have room in the cache.
  ObjectCompanions::Options options;
  options.max_cache_bytes = 4000;
  const ObjectCompanions small(a_.replica->engines(), &a_.replica->cache(), options);
  EXPECT_THAT(small.Map(own_, "long", 10, 4000), IsOk());
  EXPECT_THAT(small.Map(own_, "a", 1001, 4000), IsOk());
  EXPECT_THAT(small.Map(own_, "a", 999, 9000),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "partition 'p' of 'g' has 4001 bytes, which must be in the cache of this "
                       "server to be read: its bound (--cache-bytes) is 4000"));
}

// Nothing of it is anybody's then.
TEST_F(SharedCompanionsTest, FilesThatAreNotAsTheyWereMadeAreNotPut) {
  PH_ASSERT_OK_AND_ASSIGN(own_.revision, companions_.Put(own_));
  for (const auto& [path, bytes] : files_) {
    for (const bool is_short : {false, true}) {
      SCOPED_TRACE(absl::StrCat(path, is_short));
      if (is_short && bytes.empty()) continue;
      const std::string file = folder_.path() + "/" + path;
      std::string other = bytes;
      if (is_short) other.pop_back();
      if (!is_short && !other.empty()) other.back() ^= 1;
      std::ofstream(file) << other;
      // One that is empty has a sum, too.
      CompanionContents contents = contents_;
      if (bytes.empty()) contents.files[1].crc32c = 1;
      EXPECT_THAT(companions_.Upload(own_, folder_.path(), contents, [] { return true; }),
                  StatusIs(absl::StatusCode::kDataLoss, file + " is not what was written"));
      EXPECT_FALSE(companions_.Find(own_.graph, "p")->is_whole);
      std::ofstream(file) << bytes;
    }
  }
  int num_asked = 0;
  EXPECT_THAT(companions_.Upload(own_, folder_.path(), contents_, [&] { return ++num_asked < 3; }),
              StatusIs(absl::StatusCode::kCancelled, "given up"));
  EXPECT_EQ(num_asked, 3);
  EXPECT_THAT(companions_.Upload(own_, folder_.path() + "/none", contents_, [] { return true; }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none/a")));
  EXPECT_THAT(Upload(companions_), IsOk());
}

TEST_F(SharedCompanionsTest, DamageIsNamed) {
  PutWhole();
  const StoredCompanion stored = Stored();
  const std::string value = EncodeCompanion(stored);
  const std::string piece = FirstPiece();
  const auto expect_lost = [&](const std::string& what) {
    SCOPED_TRACE(what);
    const SharedPartitionsWorld::Server c =
        world_.Start("c:1", absl::StrCat(folder_.path(), "/at-c", ++num_servers_));
    const auto is_lost = StatusIs(absl::StatusCode::kDataLoss,
                                  AllOf(StartsWith("partition 'p' of 'g': "), HasSubstr(what)));
    const SharedCompanion now = c.companions->Find(own_.graph, "p").value();
    EXPECT_THAT(c.companions->Map(now, "a", 0, 10), is_lost);
    EXPECT_THAT(c.companions->Verify(Stored()), is_lost);
    const bool is_of_piece = what == piece || what == "-0: ";
    if (!is_of_piece) {
      EXPECT_THAT(c.companions->ContentsOf(now), is_lost);
    }
  };
  EXPECT_THAT(companions_.Verify(stored), IsOk());
  const std::string bytes = *ReadObject(world_.fake, piece, {}, 1 << 20, absl::InfiniteFuture());
  world_.fake.Damage(piece, 7);
  expect_lost("-0: ");
  ASSERT_THAT(world_.fake.Delete(piece, absl::InfiniteFuture()), IsOk());
  expect_lost(piece);
  ASSERT_THAT(world_.fake.Put(piece, bytes, absl::InfiniteFuture()), IsOk());
  StoredCompanion other = stored;
  ++other.companion.num_bytes;
  PutKey(KeyOf(), EncodeCompanion(other));
  expect_lost("its manifest is that of another one");
  other = stored;
  ++other.object.crc;
  PutKey(KeyOf(), EncodeCompanion(other));
  expect_lost("object");
  // What cannot be read at all has its name.
  PutKey(KeyOf(), "?");
  const std::string malformed = "stored key 'sg/with/0000000000000001/p': malformed";
  const auto is_malformed = StatusIs(absl::StatusCode::kDataLoss, malformed);
  EXPECT_THAT(companions_.Find(own_.graph, "p"), is_malformed);
  EXPECT_THAT(companions_.Put(own_), is_malformed);
  EXPECT_THAT(Upload(companions_), is_malformed);
  own_.revision = a_.replica->connection().Get(KeyOf()).value()->mod_revision;
  EXPECT_THAT(companions_.ContentsOf(own_), is_malformed);
  PH_ASSERT_OK_AND_ASSIGN(const auto list, companions_.ListAll());
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].name, "p");
  EXPECT_EQ(list[0].graph.name, "");
  EXPECT_THAT(companions_.RemoveGone(), IsOk());
  EXPECT_EQ(companions_.ListAll()->size(), 1U);
  EXPECT_THAT(companions_.Delete(own_.graph, "p"), IsOk());
  EXPECT_EQ(companions_.ListAll()->size(), 0U);
  // Nobody knows its objects.
  EXPECT_EQ(
      a_.replica->connection().Range(KeyRange::Prefix(kGoneSourceGraphs), 0, 0)->values.size(), 0U);
}

// Of a graph whose value cannot be read nothing goes; others do.
TEST_F(SharedCompanionsTest, WhatADamagedGraphHasStays) {
  SharedGraph other =
      DecodeSharedGraph("g", a_.replica->connection().Get(SourceGraphNameKey("g")).value()->value)
          .value();
  other.definition.name = "h";
  other.definition.id = 9;
  PutKey(SourceGraphNameKey("h"), EncodeSharedGraph(other));
  SharedCompanion of_other = own_;
  of_other.graph = {"h", 9};
  ASSERT_THAT(companions_.Put(own_), IsOk());
  ASSERT_THAT(companions_.Put(of_other), IsOk());
  PutKey(SourceGraphNameKey("g"), "?");
  ASSERT_THAT(a_.replica->connection().Commit(
                  {{}, {Operation::Delete(KeyRange::Of(SourceGraphNameKey("h")))}, {}}),
              IsOk());
  const auto is_malformed =
      StatusIs(absl::StatusCode::kDataLoss, "stored source graph 'g': malformed");
  EXPECT_THAT(companions_.RemoveGone(), is_malformed);
  PH_ASSERT_OK_AND_ASSIGN(const auto left, companions_.ListAll());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].graph.name, "g");
  EXPECT_THAT(companions_.Find(own_.graph, "p"), is_malformed);
}

// Before it is said that an object is lost: it was deleted, or deleted and made anew.
TEST_F(SharedCompanionsTest, WhatWasDeletedMeanwhileIsNotLost) {
  for (const bool is_anew : {false, true}) {
    SCOPED_TRACE(is_anew);
    own_.state = "begun";
    own_.revision = 0;
    PutWhole();
    ASSERT_THAT(world_.fake.Delete(FirstPiece(), absl::InfiniteFuture()), IsOk());
    int requests = 0;
    const SharedPartitionsWorld::Server b =
        world_.Start("b:1", absl::StrCat(folder_.path(), "/at-b", is_anew), [&] {
          if (++requests == 2) {
            EXPECT_THAT(companions_.Delete(own_.graph, "p"), IsOk());
            SharedCompanion anew = own_;
            anew.revision = 0;
            if (is_anew) {
              EXPECT_THAT(companions_.Put(anew), IsOk());
            }
          }
          return StoreFault::kNone;
        });
    EXPECT_THAT(b.companions->Map(own_, "a", 0, 10),
                StatusIs(absl::StatusCode::kNotFound, "partition 'p' of 'g': there is none"));
    EXPECT_EQ(requests, 2);
    if (is_anew) {
      ASSERT_THAT(companions_.Delete(own_.graph, "p"), IsOk());
    }
    world_.cluster.clock.Advance(absl::Hours(2));
    ASSERT_THAT(BindStores(a_.replica->engines()), IsOk());
    ASSERT_THAT(SourceGraphSweeper(a_.replica->engines(), {}).Run(), IsOk());
  }
}

// To the byte, and with those of all others.
TEST_F(SharedCompanionsTest, TheBoundIsTheWholeStores) {
  const auto upload = [&](const std::string& name, uint64_t max_bytes) {
    own_.name = name;
    ObjectCompanions::Options options;
    options.upload = {4096, max_bytes};
    ObjectCompanions bounded(a_.replica->engines(), &a_.replica->cache(), options);
    const auto found = bounded.Find(own_.graph, name);
    own_.revision = found.ok() ? found->revision : 0;
    if (!found.ok()) own_.revision = bounded.Put(own_).value();
    return Upload(bounded);
  };
  constexpr uint64_t kBytes = 17193;
  EXPECT_THAT(upload("p", kBytes - 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "partition 'p' of 'g': 17193 bytes more than the 0 in the store, max_bytes "
                       "is 17192"));
  EXPECT_EQ(world_.fake.num_objects(), 0U);
  EXPECT_THAT(upload("p", kBytes), IsOk());
  for (const uint64_t bound : {kBytes - 1, kBytes, 2 * kBytes - 1}) {
    EXPECT_THAT(upload("q", bound),
                StatusIs(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("partition 'q' of 'g': 17193 bytes more than the 17193 in "
                                      "the store, max_bytes is ",
                                      bound)));
  }
  EXPECT_THAT(upload("q", 2 * kBytes), IsOk());
}

}  // namespace
}  // namespace packhouse
