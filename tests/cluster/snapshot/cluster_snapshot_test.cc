// The laws of a snapshot of what servers share: what is restored is what there was at one moment,
// whatever servers and sweeps did meanwhile; and there is a whole one, or none.
#include "service/program/wings/cluster_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/program/data_folder/snapshot.h"
#include "service/program/data_folder/snapshot_manifest.h"
#include "service/stores/keys/cluster_life.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/object_source_graph_store.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/random_graphs.h"
#include "tests/support/refusals.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr char kLife[] = "1800000000-1";
constexpr auto kGoOn = [](const SourceGraphProgress&) { return true; };

// Calls something of a test's before each call, which may fail it.
class WatchedObjects final : public ObjectStore {
 public:
  explicit WatchedObjects(ObjectStore* store) : store_(store) {}
  std::function<absl::Status()> before = [] { return absl::OkStatus(); };

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    PH_RETURN_IF_ERROR(Before());
    return store_->Put(key, bytes, deadline);
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    PH_RETURN_IF_ERROR(Before());
    return store_->Get(key, range, sink, deadline);
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    PH_RETURN_IF_ERROR(Before());
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    PH_RETURN_IF_ERROR(Before());
    return store_->Delete(key, deadline);
  }

 private:
  // It may set another one.
  absl::Status Before() {
    const auto now = before;
    return now();
  }

  ObjectStore* const store_;
};

// Does not answer with more than etcd has time for, nor where a test says so.
class SlowKeys final : public KeyValueStore {
 public:
  explicit SlowKeys(KeyValueStore* store) : store_(store) {}
  std::function<absl::Status()> before = [] { return absl::OkStatus(); };
  std::function<absl::Status()> before_commit = [] { return absl::OkStatus(); };
  std::function<absl::Status()> after_commit = [] { return absl::OkStatus(); };

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    PH_RETURN_IF_ERROR(before());
    PH_ASSIGN_OR_RETURN(RangeResult read, store_->Range(range, limit, revision));
    size_t bytes = 0;
    for (const KeyValue& value : read.values) bytes += value.key.size() + value.value.size();
    if (bytes >= size_t{4} << 20) return absl::UnavailableError("it took too long");
    ++num_answers;
    return read;
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    most_in_commit = std::max(most_in_commit, transaction.then.size());
    is_change = !transaction.compares.empty();
    PH_RETURN_IF_ERROR(before_commit());
    auto done = store_->Commit(transaction);
    PH_RETURN_IF_ERROR(after_commit());
    return done;
  }
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override {
    return store_->GrantLease(length);
  }
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override {
    return store_->KeepAlive(lease);
  }
  absl::Status RevokeLease(LeaseId lease) override { return store_->RevokeLease(lease); }

  int num_answers = 0;
  size_t most_in_commit = 0;
  // Whether what is committed now is more than a question.
  bool is_change = false;

 private:
  KeyValueStore* const store_;
};

class ClusterSnapshotTest : public ::testing::Test {
 protected:
  // Two stores, and one process that has them.
  struct Cluster {
    explicit Cluster(std::string cache_folder) : folder(std::move(cache_folder)) {
      // No two clusters draw the same number.
      static uint64_t clusters = 0;
      stores.drawn = ++clusters * 1'000'000;
      Start();
    }

    // Another process.
    void Start(StoreFaults faults = nullptr) {
      companions = nullptr;
      graphs = nullptr;
      replica = nullptr;
      ObjectDatasetStore::Options options;
      options.chunks_of_page = 4;
      replica = std::make_unique<ObjectReplica>(&stores, &watched,
                                                absl::StrCat(folder, "-", ++num_processes), options,
                                                uint64_t{1} << 30, std::move(faults));
      ObjectSourceGraphStore::Options of_graphs;
      of_graphs.upload.piece_bytes = 4096;
      of_graphs.fetches_at_once = 1;
      graphs = std::make_unique<ObjectSourceGraphStore>(replica->engines(), &replica->cache(),
                                                        of_graphs);
      ObjectCompanions::Options of_companions;
      of_companions.upload = of_graphs.upload;
      of_companions.fetches_at_once = 1;
      companions =
          std::make_unique<ObjectCompanions>(replica->engines(), &replica->cache(), of_companions);
    }
    DatasetStore& datasets() { return replica->store(); }
    std::map<std::string, std::string> Keys() {
      std::map<std::string, std::string> keys;
      FakeConnection connection(&stores.keys);
      const RangeResult all = connection.Range({"!", "~"}, 0, 0).value();
      for (const KeyValue& value : all.values) {
        keys[value.key] = value.value;
      }
      return keys;
    }
    absl::Status Sweep() {
      stores.clock.Advance(absl::Milliseconds(1));
      ObjectSweeper::Options options;
      options.min_age = absl::ZeroDuration();
      PH_RETURN_IF_ERROR(ObjectSweeper(replica->engines(), options).Run().status());
      return SourceGraphSweeper(replica->engines(), options).Run().status();
    }

    const std::string folder;
    int num_processes = 0;
    ObjectCluster stores;
    FakeObjectStore fake{&stores.clock};
    WatchedObjects watched{&fake};
    std::unique_ptr<ObjectReplica> replica;
    std::unique_ptr<ObjectSourceGraphStore> graphs;
    std::unique_ptr<ObjectCompanions> companions;
  };

  ClusterSnapshotTest() {
    from_.stores.keys.SetForgetful(false);
    EXPECT_THAT(BindStores(from_.replica->engines()), IsOk());
    for (const char* const name : {"sealed", "team/open"}) {
      EXPECT_THAT(from_.datasets().Create(name, schema_, {}), IsOk());
      for (uint64_t i = 1; i <= 10; ++i) EXPECT_THAT(Append(from_, name, i), IsOk());
    }
    EXPECT_THAT(from_.datasets().Seal("sealed"), IsOk());
    FileSourceGraphStore::Options options;
    options.folder = folder_.path() + "/files";
    options.min_free_bytes = 0;
    const auto files = FileSourceGraphStore::Open(options).value();
    SeededRandom random(1);
    EXPECT_THAT(files->Create("graph", LawSchema(), LawOptions()), IsOk());
    const SourceGraphSchema schema = LawSchema();
    const SourceGraphOptions of_graph = LawOptions();
    const ChunkOfRows chunk(schema, of_graph, RandomRows(random, 40, 200));
    EXPECT_THAT(files->Append({"graph", 0}, chunk.chunk(), ProducerSequence{"p", 1}), IsOk());
    EXPECT_THAT(files->Seal("graph", SealOptions(), kGoOn), IsOk());
    EXPECT_THAT(from_.graphs->CopyIn(*files->OpenSealed("graph"), kGoOn), IsOk());
    const std::string bytes(9000, 'b');
    std::ofstream(folder_.path() + "/file") << bytes;
    SharedCompanion made = Companion(from_, "halves");
    EXPECT_THAT(from_.companions->Upload(made, folder_.path(),
                                         {{{"file", bytes.size(), Crc32c(bytes)}}, "summary"},
                                         [] { return true; }),
                IsOk());
    // One that is being made.
    made = Companion(from_, "begun");
    EXPECT_THAT(from_.companions->Tell(made, "half of it"), IsOk());
    // Of servers, and of others that share more.
    const auto lease = from_.replica->connection().GrantLease(absl::Hours(1000));
    EXPECT_THAT(
        from_.replica->connection().Commit(
            {{},
             {Operation::Put("member/x", "here", lease->id),
              Operation::Put("job/j/owner", "x", lease->id), Operation::Put("life", "1700000000-1"),
              Operation::Put("ds/id/odd/t/1", "odd"), Operation::Put("job/j/head", "h"),
              Operation::Put("hist/h/h", "counts")},
             {}}),
        IsOk());
  }

  absl::Status Append(Cluster& cluster, const std::string& name, uint64_t seed) {
    Random random(seed);
    const GraphChunk chunk = RandomChunk(random, &schema_, 3, 9, seed << 20);
    return cluster.datasets().Append(name, chunk, {}, ProducerSequence{"p", seed}).status();
  }
  // One that is claimed.
  static SharedCompanion Companion(Cluster& cluster, const std::string& name) {
    SharedCompanion made;
    made.graph = {"graph", cluster.graphs->Get("graph")->id};
    made.name = name;
    made.state = "state";
    made.revision = cluster.companions->Put(made).value();
    return made;
  }
  absl::StatusOr<SnapshotReport> Take(const std::string& name, KeyValueStore* keys = nullptr) {
    ObjectEngines engines = from_.replica->engines();
    if (keys != nullptr) engines.keys = keys;
    return TakeClusterSnapshot(engines, folder_.path() + "/" + name, absl::UnixEpoch(),
                               [](const SnapshotReport&) { return true; });
  }
  // Of logs of jobs.
  void PutEntries(const std::vector<size_t>& sizes) {
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::string key = absl::StrCat("job/large/", absl::Hex(i, absl::kZeroPad8));
      EXPECT_THAT(from_.replica->connection().Commit(
                      {{}, {Operation::Put(key, std::string(sizes[i], 'x'))}, {}}),
                  IsOk());
    }
  }
  absl::Status Restore(const std::string& name, Cluster& to, KeyValueStore* keys = nullptr) {
    ObjectEngines engines = to.replica->engines();
    if (keys != nullptr) engines.keys = keys;
    return RestoreClusterSnapshot(folder_.path() + "/" + name, engines, kLife).status();
  }
  static void ExpectWhole(Cluster& cluster, const std::string& name, uint64_t num_graphs) {
    PH_ASSERT_OK_AND_ASSIGN(
        const VerifyReport report,
        cluster.datasets().Verify(name, [](const VerifyProgress&) { return true; }));
    EXPECT_TRUE(report.ok());
    EXPECT_EQ(report.num_graphs, num_graphs) << name;
  }
  // Servers may use it.
  void ExpectRestored(Cluster& to, const std::map<std::string, std::string>& keys) {
    std::map<std::string, std::string> wanted = keys;
    for (const char* const left_out : {"member/x", "job/j/owner", "ds/store"}) {
      wanted.erase(left_out);
    }
    std::erase_if(wanted, [](const auto& key) { return absl::EndsWith(key.first, "/begun"); });
    wanted["life"] = kLife;
    EXPECT_EQ(to.Keys(), wanted);
    to.Start();
    EXPECT_THAT(LivingStore::Join(std::make_unique<FakeConnection>(&to.stores.keys)), IsOk());
    ASSERT_THAT(BindStores(to.replica->engines()), IsOk());
    ASSERT_THAT(to.Sweep(), IsOk());
    ExpectWhole(to, "sealed", 30);
    ExpectWhole(to, "team/open", 30);
    PH_ASSERT_OK_AND_ASSIGN(const auto report, to.graphs->Verify("graph", kGoOn));
    EXPECT_TRUE(report.ok());
    PH_ASSERT_OK_AND_ASSIGN(const auto companions, to.companions->ListAll());
    ASSERT_EQ(companions.size(), 1U);
    PH_ASSERT_OK_AND_ASSIGN(const OwnedBytes read,
                            to.companions->Map(companions[0], "file", 0, 1 << 20));
    EXPECT_EQ(read.bytes, std::string(9000, 'b'));
    ASSERT_THAT(Append(to, "team/open", 11), IsOk());
    ExpectWhole(to, "team/open", 33);
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  Cluster from_{folder_.path() + "/from"};
  Cluster to_{folder_.path() + "/to"};
};

TEST_F(ClusterSnapshotTest, WhatIsRestoredIsWhatThereWas) {
  const auto keys = from_.Keys();
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport report, Take("s"));
  EXPECT_GT(report.num_files, 20U);
  EXPECT_EQ(from_.Keys(), keys);
  const std::string folder = folder_.path() + "/s";
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport restored,
                          RestoreClusterSnapshot(folder, to_.replica->engines(), kLife));
  uint64_t num_bytes = 0;
  const ObjectList objects = to_.fake.List("", "", 0, absl::InfiniteFuture()).value();
  for (const ObjectInfo& each : objects.objects) num_bytes += each.num_bytes;
  EXPECT_EQ(restored.folder, folder);
  EXPECT_EQ(restored.num_files, objects.objects.size());
  EXPECT_EQ(restored.num_bytes, num_bytes);
  EXPECT_EQ(report.total_bytes, num_bytes);
  // Beside them, the keys.
  EXPECT_EQ(report.num_files, objects.objects.size() + 1);
  EXPECT_EQ(ReadSnapshotManifest(folder)->taken, "1970-01-01T00:00:00+00:00");
  ExpectRestored(to_, keys);
}

// Whoever takes it for one of a data folder is told what it is, and what restores it.
TEST_F(ClusterSnapshotTest, AFolderIsNotMadeOfIt) {
  ASSERT_THAT(Take("s"), IsOk());
  const std::string into = folder_.path() + "/folder";
  EXPECT_THAT(RestoreSnapshot(folder_.path() + "/s", into),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("of a cluster"), HasSubstr("/s s3://BUCKET/EMPTY"))));
  EXPECT_THAT(ReadWhole(into + "/RESTORING"), StatusIs(absl::StatusCode::kNotFound, _));
}

// Each as large as a transaction lets it be, or next to such a one; while etcd is away now and
// then, and its history goes.
TEST_F(ClusterSnapshotTest, LargeEntriesAreOfIt) {
  constexpr size_t kMiB = size_t{1} << 20;
  std::vector<size_t> sizes = {kMiB * 6 / 10, kMiB, kMiB * 144 / 100, kMiB * 3 / 10, kMiB};
  sizes.resize(20, kMiB);
  PutEntries(sizes);
  SlowKeys slow(&from_.replica->connection());
  int num_calls = 0;
  slow.before = [&]() -> absl::Status {
    ++num_calls;
    if (num_calls % 3 == 0) return absl::UnavailableError("away");
    if (num_calls != 8) return absl::OkStatus();
    // From here on there is one more.
    EXPECT_THAT(from_.replica->connection().Commit({{}, {Operation::Put("a", "late")}, {}}),
                IsOk());
    from_.stores.keys.Compact(from_.stores.keys.revision());
    return absl::OkStatus();
  };
  ASSERT_THAT(Take("s", &slow), IsOk());
  EXPECT_GT(num_calls, 8);
  EXPECT_LT(slow.num_answers, 60);
  ASSERT_THAT(Restore("s", to_), IsOk());
  ExpectRestored(to_, from_.Keys());
}

// A request of unknown outcome may be done when servers run already.
TEST_F(ClusterSnapshotTest, WhatIsLateChangesNothingAfterTheEnd) {
  ASSERT_THAT(Take("s"), IsOk());
  for (int step = 0; step < 10; ++step) {
    SCOPED_TRACE(step);
    Cluster to(absl::StrCat(folder_.path(), "/late", step));
    int num_calls = 0;
    to.Start([&] {
      const int call = num_calls++;
      return call >= step && call < step + 20 ? StoreFault::kDoneLater : StoreFault::kNone;
    });
    const absl::Status restored = Restore("s", to);
    to.Start();
    if (!restored.ok()) {
      ASSERT_THAT(Restore("s", to), IsOk());
    }
    FakeConnection connection(&to.stores.keys);
    // A server changes all.
    for (const KeyRange& range : {KeyRange{"!", "life"}, KeyRange{"liff", "~"}}) {
      ASSERT_THAT(connection.Commit({{}, {Operation::Delete(range)}, {}}), IsOk());
    }
    const auto left = connection.Get("life");
    to.stores.keys.DoLateRequests();
    EXPECT_EQ(to.Keys().size(), 1U);
    EXPECT_EQ(connection.Get("life").value(), left.value());
  }
}

// Another one has the stores before the last key is there.
TEST_F(ClusterSnapshotTest, OneRestoreHasTheStores) {
  ASSERT_THAT(Take("s"), IsOk());
  int num_calls = 0;
  to_.watched.before = [&] {
    if (++num_calls != 10) return absl::OkStatus();
    FakeConnection connection(&to_.stores.keys);
    EXPECT_THAT(connection.Commit({{}, {Operation::Put("life", "another")}, {}}), IsOk());
    return absl::OkStatus();
  };
  EXPECT_THAT(Restore("s", to_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another restore")));
  EXPECT_EQ(to_.Keys().size(), 1U);
  EXPECT_EQ(to_.Keys()["life"], "another");
}

// By whoever takes it, at any of its steps.
TEST_F(ClusterSnapshotTest, OneThatIsStoppedGoesOn) {
  PutEntries({size_t{1} << 20});
  const auto keys = from_.Keys();
  int num_stops = 0;
  for (;; ++num_stops) {
    int left = num_stops;
    const absl::Status taken =
        TakeClusterSnapshot(from_.replica->engines(), folder_.path() + "/s", absl::UnixEpoch(),
                            [&left](const SnapshotReport&) { return left-- != 0; })
            .status();
    if (taken.ok()) break;
    ASSERT_THAT(taken, StatusIs(absl::StatusCode::kCancelled, HasSubstr("it goes on when it is")));
    EXPECT_FALSE(from_.Keys().contains("snapshot"));
  }
  EXPECT_GT(num_stops, 20);
  ASSERT_THAT(Restore("s", to_), IsOk());
  ExpectRestored(to_, keys);
}

TEST_F(ClusterSnapshotTest, AKeyThatNoServerWritesIsNamed) {
  KeyValueStore& keys = from_.replica->connection();
  const uint64_t id = from_.datasets().Get("team/open")->id;
  for (const std::string& of : {std::string(kSourceGraphNames), std::string(kCompanions),
                                DatasetTailKeys(id), DatasetPageKeys(id)}) {
    const std::string key = absl::StrCat(of, "odd");
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(key, "nonsense")}, {}}), IsOk());
    const absl::Status taken = Take("s").status();
    EXPECT_FALSE(taken.ok());
    EXPECT_TRUE(absl::StartsWith(taken.message(), key + ": ")) << taken;
    ASSERT_THAT(keys.Commit({{}, {Operation::Delete(KeyRange::Of(key))}, {}}), IsOk());
  }
  EXPECT_THAT(Take("s"), IsOk());
}

// Of those that name objects; the others are copied as they are.
TEST_F(ClusterSnapshotTest, AKeyThatIsDamagedIsNamed) {
  KeyValueStore& keys = from_.replica->connection();
  int num_named = 0;
  for (const auto& [key, value] : from_.Keys()) {
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(key, "?")}, {}}), IsOk());
    const absl::Status taken = Take(absl::StrCat("s", ++num_named)).status();
    const bool has_objects =
        absl::StartsWith(key, "sg/name/") || absl::StartsWith(key, "sg/with/") ||
        (absl::StartsWith(key, "ds/id/") &&
         (absl::StrContains(key, "/page/") || absl::StrContains(key, "/tail/")));
    if (has_objects) {
      EXPECT_TRUE(absl::IsDataLoss(taken)) << taken;
      EXPECT_TRUE(absl::StartsWith(taken.message(), key + ": ")) << taken;
    } else {
      EXPECT_TRUE(taken.ok() || key == kStoreIdentityKey) << key << ": " << taken;
    }
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }
  EXPECT_GT(num_named, 15);
}

// Whichever request is refused for good; asked for again, it goes on.
TEST_F(ClusterSnapshotTest, WhatIsRefusedEndsASnapshot) {
  const auto before = from_.Keys();
  Refusals refusals(absl::StatusCode::kPermissionDenied);
  RefusingKeys keys(&from_.replica->connection(), &refusals);
  RefusingObjects objects(&from_.fake, &refusals);
  ObjectEngines engines = from_.replica->engines();
  engines.keys = &keys;
  engines.objects = &objects;
  const auto take = [&](int step, const std::string& name) {
    refusals.Begin(step);
    return TakeClusterSnapshot(engines, absl::StrCat(folder_.path(), "/", name), absl::UnixEpoch(),
                               [](const SnapshotReport&) { return true; });
  };
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport whole, take(-1, "whole"));
  const int num_requests = refusals.num_requests();
  EXPECT_GT(num_requests, 20);
  for (int step = 0; step < num_requests; ++step) {
    SCOPED_TRACE(step);
    const auto taken = take(step, "s");
    if (taken.ok()) {
      // To give back what kept sweeps away: it goes by itself.
      EXPECT_EQ(step, num_requests - 1);
      continue;
    }
    EXPECT_TRUE(absl::IsPermissionDenied(taken.status()) || absl::IsUnavailable(taken.status()))
        << taken.status();
    EXPECT_TRUE(absl::StrContains(taken.status().message(), kWhy)) << taken.status();
    EXPECT_FALSE(std::filesystem::exists(folder_.path() + "/s/manifest"));
    EXPECT_EQ(from_.Keys(), before);
  }
  if (!std::filesystem::exists(folder_.path() + "/s/manifest")) {
    PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport again, take(-1, "s"));
    EXPECT_EQ(again.num_files, whole.num_files);
    EXPECT_GT(again.num_kept_bytes, 0U);
  }
  ASSERT_THAT(Restore("s", to_), IsOk());
  ExpectRestored(to_, before);
}

// Nobody waits for ever for a store that is away, or whose history goes.
TEST_F(ClusterSnapshotTest, TriesHaveAnEnd) {
  SlowKeys slow(&from_.replica->connection());
  slow.before = [] { return absl::OutOfRangeError("dropped"); };
  EXPECT_THAT(Take("dropped", &slow), StatusIs(absl::StatusCode::kUnavailable, "dropped"));
  int num_reads = 0;
  slow.before = [&] {
    ++num_reads;
    return absl::UnavailableError("away");
  };
  EXPECT_THAT(Take("away", &slow), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("away")));
  EXPECT_EQ(num_reads, from_.replica->engines().max_attempts + 1);
  ASSERT_THAT(Take("s"), IsOk());
  SlowKeys to(&to_.replica->connection());
  ObjectEngines engines = to_.replica->engines();
  engines.keys = &to;
  int num_commits = 0;
  to.before_commit = [&] {
    return ++num_commits <= 1 ? absl::OkStatus() : absl::UnavailableError("away");
  };
  EXPECT_THAT(RestoreClusterSnapshot(folder_.path() + "/s", engines, kLife),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("away")));
  EXPECT_EQ(num_commits, 1 + engines.max_attempts + 1);
  to.before_commit = [] { return absl::OkStatus(); };
  EXPECT_THAT(RestoreClusterSnapshot(folder_.path() + "/s", engines, kLife), IsOk());
}

// Whichever change of etcd's is refused for good.
TEST_F(ClusterSnapshotTest, WhatIsRefusedEndsARestore) {
  PutEntries(std::vector<size_t>(2, size_t{1} << 20));
  ASSERT_THAT(Take("s"), IsOk());
  const auto restore = [&](int refused, int& num_commits) {
    Cluster to(absl::StrCat(folder_.path(), "/refused", refused));
    SlowKeys keys(&to.replica->connection());
    num_commits = 0;
    keys.before_commit = [&] {
      return num_commits++ == refused ? absl::PermissionDeniedError("refused") : absl::OkStatus();
    };
    ObjectEngines engines = to.replica->engines();
    engines.keys = &keys;
    return RestoreClusterSnapshot(folder_.path() + "/s", engines, kLife).status();
  };
  int all = 0;
  ASSERT_THAT(restore(-1, all), IsOk());
  EXPECT_GT(all, 3);
  for (int refused = 0; refused < all; ++refused) {
    int num_commits = 0;
    const absl::Status restored = restore(refused, num_commits);
    EXPECT_FALSE(restored.ok()) << refused;
    EXPECT_TRUE(absl::StrContains(restored.message(), "refused")) << restored;
    EXPECT_EQ(num_commits, refused + 1);
  }
}

TEST_F(ClusterSnapshotTest, ASnapshotOfAFolderIsNotRestoredIntoStores) {
  const std::string folder = folder_.path() + "/of_a_folder";
  ASSERT_THAT(MakeFolder(folder), IsOk());
  ASSERT_THAT(WriteWhole(folder, kSnapshotManifest, EncodeSnapshotManifest(SnapshotManifest())),
              IsOk());
  EXPECT_THAT(Restore("of_a_folder", to_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       absl::StrCat("'", folder,
                                    "' is a snapshot of a data folder, not of a cluster: restore "
                                    "it by packhoused store restore ",
                                    folder, " DIR")));
  EXPECT_TRUE(to_.Keys().empty());
}

// Another restore, or a server, comes between two of its changes: it is said whose the stores are.
TEST_F(ClusterSnapshotTest, WhoHasTheStoresIsNamed) {
  PutEntries(std::vector<size_t>(2, size_t{1} << 20));
  ASSERT_THAT(Take("s"), IsOk());
  for (const bool is_gone : {false, true}) {
    for (int at = 0; at < 3; ++at) {
      SCOPED_TRACE(testing::Message() << at << " " << is_gone);
      Cluster to(absl::StrCat(folder_.path(), "/named", at, is_gone));
      SlowKeys keys(&to.replica->connection());
      int num_commits = 0;
      keys.before_commit = [&] {
        if (!keys.is_change || num_commits++ != at) return absl::OkStatus();
        const Operation change = is_gone && at != 0 ? Operation::Delete(KeyRange::Of("life"))
                                                    : Operation::Put("life", "another");
        EXPECT_THAT(to.replica->connection().Commit({{}, {change}, {}}), IsOk());
        return absl::OkStatus();
      };
      EXPECT_EQ(Restore("s", to, &keys),
                absl::FailedPreconditionError(
                    at == 0 ? "etcd has got another life meanwhile"
                            : absl::StrCat("another restore, or a server, has the stores: their "
                                           "life is ",
                                           is_gone ? "not there" : "'another'",
                                           ", and was that of this restore")));
    }
  }
}

// Each change may be done though nobody hears of it; many keys are put in several.
TEST_F(ClusterSnapshotTest, ALostAnswerToAnyChangeIsSurvived) {
  PutEntries(std::vector<size_t>(230, 1));
  ASSERT_THAT(Take("s"), IsOk());
  int all = 1;
  for (int lost = 0; lost < all; ++lost) {
    SCOPED_TRACE(lost);
    Cluster to(absl::StrCat(folder_.path(), "/lost", lost));
    SlowKeys keys(&to.replica->connection());
    int num_commits = 0;
    keys.after_commit = [&]() -> absl::Status {
      return num_commits++ == lost ? absl::UnknownError("lost") : absl::OkStatus();
    };
    ASSERT_THAT(Restore("s", to, &keys), IsOk());
    all = num_commits - 1;
    EXPECT_EQ(keys.most_in_commit, 100U);
    ExpectRestored(to, from_.Keys());
  }
  EXPECT_GE(all, 4);
}

// What is changed in its folder after it was checked.
TEST_F(ClusterSnapshotTest, FilesThatGoWhileTheyAreRestoredAreAnError) {
  ASSERT_THAT(Take("s"), IsOk());
  const std::string keys = folder_.path() + "/s/cluster/keys";
  const std::string sound = ReadWhole(keys).value();
  const auto restore = [&](int number, const std::function<void()>& change) {
    Cluster to(absl::StrCat(folder_.path(), "/gone", number));
    bool is_changed = false;
    to.watched.before = [&] {
      if (to.Keys().contains("life") && !std::exchange(is_changed, true)) change();
      return absl::OkStatus();
    };
    const absl::Status restored = Restore("s", to);
    EXPECT_EQ(to.Keys().size(), 1U);
    return restored;
  };
  EXPECT_EQ(restore(1, [&] { std::filesystem::resize_file(keys, sound.size() - 1); }),
            absl::DataLossError(keys + ": ends within a value"));
  std::ofstream(keys, std::ios::binary) << sound;
  EXPECT_THAT(restore(2, [&] { std::filesystem::remove(keys); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(keys)));
  std::ofstream(keys, std::ios::binary) << sound;
  const std::string objects = folder_.path() + "/s/cluster/objects";
  EXPECT_THAT(restore(3, [&] { std::filesystem::remove_all(objects); }),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(objects)));
}

// Its keys are compacted, or its hold is gone, while they are read.
TEST_F(ClusterSnapshotTest, KeysThatCannotBeReadOfOneMomentAreNone) {
  PutEntries(std::vector<size_t>(5, size_t{1} << 20));
  SlowKeys slow(&from_.replica->connection());
  int num_calls = 0;
  slow.before = [&] {
    ++num_calls;
    EXPECT_THAT(from_.replica->connection().Commit({{}, {Operation::Put("a", "late")}, {}}),
                IsOk());
    from_.stores.keys.Compact(from_.stores.keys.revision());
    return absl::OkStatus();
  };
  EXPECT_THAT(Take("s", &slow), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_GE(num_calls, 20);
  slow.before = [&] {
    from_.stores.clock.Advance(absl::Minutes(3));
    return absl::OkStatus();
  };
  EXPECT_EQ(Take("s", &slow).status(),
            absl::UnavailableError("the snapshot was held up for too long: take it again"));
  slow.before = [] { return absl::OkStatus(); };
  EXPECT_THAT(Take("s", &slow), IsOk());
  EXPECT_EQ(Take("s").status(), absl::AlreadyExistsError(absl::StrCat(
                                    "'", folder_.path(), "/s' has a whole snapshot already")));
}

// Servers append, delete and sweep before each object that is read.
TEST_F(ClusterSnapshotTest, ItIsOfOneMomentWhateverServersDo) {
  const auto keys = from_.Keys();
  uint64_t num_calls = 0;
  from_.watched.before = [&] {
    const auto before = std::exchange(from_.watched.before, [] { return absl::OkStatus(); });
    const auto held = from_.Keys();
    if (held.contains("snapshot")) {
      if (++num_calls == 1) {
        EXPECT_THAT(from_.datasets().Delete("sealed"), IsOk());
        EXPECT_THAT(from_.graphs->Delete("graph"), IsOk());
        EXPECT_THAT(from_.companions->RemoveGone(), IsOk());
      }
      EXPECT_THAT(Append(from_, "team/open", 100 + num_calls), IsOk());
      EXPECT_THAT(from_.Sweep(), IsOk());
    }
    from_.watched.before = before;
    return absl::OkStatus();
  };
  const auto taken = Take("s");
  EXPECT_THAT(taken, IsOk());
  from_.watched.before = [] { return absl::OkStatus(); };
  EXPECT_GT(num_calls, 20U);
  ASSERT_THAT(Restore("s", to_), IsOk());
  ExpectRestored(to_, keys);
  // Then sweeps go on.
  const size_t held = from_.fake.num_objects();
  ASSERT_THAT(from_.Sweep(), IsOk());
  EXPECT_LT(from_.fake.num_objects(), held);
}

// It begins while a sweep is under way, and what was deleted before goes; nothing else.
TEST_F(ClusterSnapshotTest, ASweepThatHasBegunTakesNothingOfIt) {
  ASSERT_THAT(from_.datasets().Create("gone", schema_, {}), IsOk());
  ASSERT_THAT(Append(from_, "gone", 1), IsOk());
  ASSERT_THAT(from_.datasets().Delete("gone"), IsOk());
  for (int at = 0; at < 12; ++at) {
    SCOPED_TRACE(at);
    const std::string name = absl::StrCat("s", at);
    const std::string set = absl::StrCat("of/", at);
    ASSERT_THAT(from_.datasets().Create(set, schema_, {}), IsOk());
    for (uint64_t i = 1; i <= 5; ++i) ASSERT_THAT(Append(from_, set, i), IsOk());
    int num_calls = 0;
    absl::Status taken;
    from_.watched.before = [&] {
      if (num_calls++ != at) return absl::OkStatus();
      // After its keys are read, the data set is deleted: its objects are still to be read.
      bool is_deleted = false;
      from_.watched.before = [&] {
        if (!from_.Keys().contains("snapshot") || is_deleted) return absl::OkStatus();
        is_deleted = true;
        EXPECT_THAT(from_.datasets().Delete(set), IsOk());
        return absl::OkStatus();
      };
      taken = Take(name).status();
      from_.watched.before = [] { return absl::OkStatus(); };
      return absl::OkStatus();
    };
    EXPECT_THAT(from_.Sweep(), IsOk());
    from_.watched.before = [] { return absl::OkStatus(); };
    ASSERT_THAT(taken, IsOk());
  }
}

TEST_F(ClusterSnapshotTest, WithoutAnObjectThereIsNone) {
  const ObjectList all = from_.fake.List("", "", 0, absl::InfiniteFuture()).value();
  int number = 0;
  for (const ObjectInfo& info : all.objects) {
    // Of an upload, and of the two stores.
    if (info.num_bytes == 0 || info.key == kStoreIdentityObject) continue;
    SCOPED_TRACE(info.key);
    const std::string bytes =
        ReadObject(from_.fake, info.key, {}, uint64_t{1} << 30, absl::InfiniteFuture()).value();
    const std::string name = absl::StrCat("s", ++number);
    from_.fake.Damage(info.key, info.num_bytes / 2);
    EXPECT_THAT(Take(name), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(info.key)));
    ASSERT_THAT(from_.fake.Delete(info.key, absl::InfiniteFuture()), IsOk());
    EXPECT_THAT(Take(name), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(info.key)));
    EXPECT_THAT(Restore(name, to_), StatusIs(absl::StatusCode::kNotFound, _));
    ASSERT_THAT(from_.fake.Put(info.key, bytes, absl::InfiniteFuture()), IsOk());
  }
  EXPECT_GT(number, 20);
  EXPECT_TRUE(to_.Keys().empty());
  EXPECT_EQ(to_.fake.num_objects(), 0U);
}

TEST_F(ClusterSnapshotTest, StoresThatHaveSomethingAreRefused) {
  ASSERT_THAT(Take("s"), IsOk());
  ASSERT_THAT(to_.fake.Put("d/x", "1", absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(Restore("s", to_), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("d/x")));
  ASSERT_THAT(to_.fake.Delete("d/x", absl::InfiniteFuture()), IsOk());
  ASSERT_THAT(to_.replica->connection().Commit({{}, {Operation::Put("job/k", "1")}, {}}), IsOk());
  EXPECT_THAT(Restore("s", to_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("job/k")));
  EXPECT_EQ(to_.Keys().size(), 1U);
  // Nor does it come twice.
  Cluster other(folder_.path() + "/other");
  ASSERT_THAT(Restore("s", other), IsOk());
  EXPECT_THAT(Restore("s", other), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  const std::string keys = folder_.path() + "/s/cluster/keys";
  const std::string bytes = ReadWhole(keys).value();
  ASSERT_THAT(WriteWhole(folder_.path() + "/s/cluster", "keys", bytes + "x"), IsOk());
  EXPECT_THAT(Restore("s", to_), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cluster/keys")));
}

// Killed before any of its calls, and run again.
TEST_F(ClusterSnapshotTest, ItGoesOnWhereItWasKilled) {
  const auto keys = from_.Keys();
  const auto killed_at = [](Cluster& cluster, int step, int& num_steps) {
    const auto is_dead = [&num_steps, step] { return num_steps++ >= step; };
    cluster.Start([is_dead] { return is_dead() ? StoreFault::kCrashBefore : StoreFault::kNone; });
    cluster.watched.before = [is_dead]() -> absl::Status {
      return is_dead() ? absl::PermissionDeniedError("killed") : absl::OkStatus();
    };
  };
  const auto started_again = [](Cluster& cluster) {
    cluster.watched.before = [] { return absl::OkStatus(); };
    cluster.Start();
    cluster.stores.clock.Advance(absl::Minutes(3));
  };
  int num_kills = 0;
  for (int step = 0;; step += 3) {
    SCOPED_TRACE(step);
    int num_steps = 0;
    killed_at(from_, step, num_steps);
    const std::string name = absl::StrCat("s", step);
    const absl::Status taken = Take(name).status();
    started_again(from_);
    if (taken.ok()) break;
    ++num_kills;
    ASSERT_THAT(Take(name), IsOk());
    Cluster to(absl::StrCat(folder_.path(), "/to", step));
    ASSERT_THAT(Restore(name, to), IsOk());
    ExpectRestored(to, keys);
  }
  EXPECT_GT(num_kills, 10);
  num_kills = 0;
  for (int step = 0;; ++step) {
    SCOPED_TRACE(step);
    int num_steps = 0;
    Cluster to(absl::StrCat(folder_.path(), "/again", step));
    killed_at(to, step, num_steps);
    const absl::Status restored = Restore("s0", to);
    started_again(to);
    if (restored.ok()) break;
    ++num_kills;
    if (to.fake.num_objects() != 0) {
      EXPECT_THAT(LivingStore::Join(std::make_unique<FakeConnection>(&to.stores.keys)),
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("life")));
    }
    ASSERT_THAT(Restore("s0", to), IsOk());
    ExpectRestored(to, keys);
  }
  EXPECT_GT(num_kills, 20);
}

// Each object takes nine seconds: those that say what others there are, too.
TEST_F(ClusterSnapshotTest, SweepsWaitForASlowOne) {
  for (uint64_t i = 100; i < 160; ++i) ASSERT_THAT(Append(from_, "team/open", i), IsOk());
  from_.watched.before = [&] {
    if (from_.Keys().contains("snapshot")) from_.stores.clock.Advance(absl::Seconds(9));
    return absl::OkStatus();
  };
  EXPECT_THAT(Take("s"), IsOk());
}

// Nor does an answer that is lost leave anything.
TEST_F(ClusterSnapshotTest, WithoutAnAnswerItCanBeTakenAgain) {
  int num_calls = 0;
  for (int lost = 0; lost < 8; ++lost) {
    SCOPED_TRACE(lost);
    num_calls = 0;
    from_.Start([&num_calls, lost] {
      return num_calls++ == lost ? StoreFault::kReplyLost : StoreFault::kNone;
    });
    const absl::Status taken = Take(absl::StrCat("s", lost)).status();
    EXPECT_TRUE(taken.ok() || absl::IsUnavailable(taken)) << taken;
    EXPECT_FALSE(from_.Keys().contains("snapshot"));
  }
}

TEST_F(ClusterSnapshotTest, OneIsTakenAtATime) {
  bool is_second = false;
  from_.watched.before = [&] {
    if (!from_.Keys().contains("snapshot") || std::exchange(is_second, true)) {
      return absl::OkStatus();
    }
    EXPECT_THAT(Take("other"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("another")));
    return absl::OkStatus();
  };
  EXPECT_THAT(Take("s"), IsOk());
  EXPECT_TRUE(is_second);
  from_.watched.before = [] { return absl::OkStatus(); };
  // One that takes so long that sweeps have gone on is none.
  int num_calls = 0;
  int late = -1;
  from_.watched.before = [&] {
    if (from_.Keys().contains("snapshot") && num_calls++ == late) {
      from_.stores.clock.Advance(absl::Minutes(3));
    }
    return absl::OkStatus();
  };
  EXPECT_THAT(Take("in time"), IsOk());
  const int last = num_calls - 1;
  for (int step = 0; step <= last; ++step) {
    SCOPED_TRACE(step);
    num_calls = 0;
    late = step;
    EXPECT_THAT(Take("late"), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("too long")));
  }
}

}  // namespace
}  // namespace packhouse
