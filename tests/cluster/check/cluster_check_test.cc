// The laws of the check of what servers share: all damage is named, and nothing else is, whatever
// servers do beside it, or have left when they were killed.
#include "service/wings/cluster/check/cluster_check.h"

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/engine/feedback/feedback_store.h"
#include "service/engine/jobs/event_codec.h"
#include "service/wings/cluster/check/cluster_repair.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/object_source_graph_store.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/cluster/histograms/shared_histogram_store.h"
#include "service/wings/cluster/jobs/etcd_job_directory.h"
#include "service/wings/cluster/jobs/etcd_record_log.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/random_graphs.h"
#include "tests/support/refusals.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr uint64_t kMaxBytes = uint64_t{1} << 30;
constexpr auto kGoOn = [](const SourceGraphProgress&) { return true; };

// Does something of a test's before each call.
class WatchedObjects final : public ObjectStore {
 public:
  explicit WatchedObjects(ObjectStore* store) : store_(store) {}
  std::function<void()> before = [] {};
  std::function<void()> before_get_of_graph;  // Of the first one.

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    before();
    return store_->Put(key, bytes, deadline);
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    before();
    if (before_get_of_graph && absl::StartsWith(key, "g/")) {
      std::exchange(before_get_of_graph, nullptr)();
    }
    return store_->Get(key, range, sink, deadline);
  }
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override {
    before();
    return store_->List(prefix, after, limit, deadline);
  }
  absl::Status Delete(absl::string_view key, absl::Time deadline) override {
    before();
    return store_->Delete(key, deadline);
  }

 private:
  ObjectStore* const store_;
};

std::vector<std::string> EventsOf(const std::string& job, uint64_t generation) {
  EpochIdentity identity;
  identity.key = {job, generation};
  identity.dataset = "sealed";
  identity.dataset_version = 3;
  identity.rank_groups.push_back({{222, 502, kUnlimited}, 0, 40});
  const EpochKey& key = identity.key;
  return {EncodeEvent(EpochOpened{identity}), EncodeEvent(EpochUsed{key, 1000}),
          EncodeEvent(GenerationStarted{key, generation, "x", Sharing::Ranked(1), {}}),
          EncodeEvent(BatchesAcknowledged{key, generation, BatchSet::Of({1, 2, 5})})};
}

class ClusterCheckTest : public testing::Test {
 protected:
  // A process: a server, or the check.
  struct Process {
    std::unique_ptr<ObjectReplica> replica;
    std::unique_ptr<ObjectCompanions> companions;
    std::unique_ptr<ObjectSourceGraphStore> graphs;
    std::unique_ptr<SharedHistogramStore> histograms;
    std::unique_ptr<FeedbackStore> models;
    LeaseId lease = 0;

    ObjectDatasetStore& datasets() { return replica->store(); }
    KeyValueStore& keys() { return replica->connection(); }
  };

  ClusterCheckTest() {
    FileSourceGraphStore::Options options;
    options.folder = folder_.path() + "/files";
    options.min_free_bytes = 0;
    files_ = FileSourceGraphStore::Open(options).value();
    for (const auto& [name, seed] : std::map<std::string, uint64_t>{{"graph", 1}, {"other", 2}}) {
      SeededRandom random(seed);
      const SourceGraphSchema schema = LawSchema();
      const SourceGraphOptions of_graph = LawOptions();
      EXPECT_THAT(files_->Create(name, schema, of_graph), IsOk());
      const ChunkOfRows chunk(schema, of_graph, RandomRows(random, 40, 200));
      EXPECT_THAT(files_->Append({name, 0}, chunk.chunk(), ProducerSequence{"p", 1}), IsOk());
      EXPECT_THAT(files_->Seal(name, SealOptions(), kGoOn), IsOk());
    }
    cluster_.keys.SetForgetful(false);
    server_ = Start(&fake_);
    EXPECT_THAT(BindStores(server_.replica->engines()), IsOk());
  }

  Process Start(ObjectStore* objects, StoreFaults faults = nullptr) {
    Process process;
    const std::string name = absl::StrCat("p", ++num_processes_);
    ObjectDatasetStore::Options of_datasets;
    of_datasets.chunks_of_page = 4;
    of_datasets.max_bytes = kMaxBytes;
    process.replica =
        std::make_unique<ObjectReplica>(&cluster_, objects, absl::StrCat(folder_.path(), "/", name),
                                        of_datasets, uint64_t{1} << 30, std::move(faults));
    ObjectSourceGraphStore::Options of_graphs;
    of_graphs.upload.piece_bytes = 4096;
    of_graphs.upload.max_bytes = kMaxBytes;
    of_graphs.fetches_at_once = 1;
    process.graphs = std::make_unique<ObjectSourceGraphStore>(process.replica->engines(),
                                                              &process.replica->cache(), of_graphs);
    ObjectCompanions::Options of_companions;
    of_companions.upload = of_graphs.upload;
    of_companions.fetches_at_once = 1;
    of_companions.server = name;
    process.companions = std::make_unique<ObjectCompanions>(
        process.replica->engines(), &process.replica->cache(), of_companions);
    process.histograms = std::make_unique<SharedHistogramStore>(
        &process.keys(), SharedHistogramStore::Options{name, {}, nullptr}, nullptr);
    FeedbackStore::Options of_models;
    of_models.replica = name;
    of_models.now = [this] { return cluster_.clock.Now(); };
    process.models = FeedbackStore::Open(&process.keys(), of_models).value();
    const auto lease = process.keys().GrantLease(absl::Hours(10'000));
    process.lease = lease.ok() ? lease->id : 0;
    return process;
  }

  absl::Status Append(Process& process, const std::string& name, uint64_t seed) {
    Random random(seed);
    const GraphChunk chunk = RandomChunk(random, &schema_, 3, 9, seed << 20);
    return process.datasets().Append(name, chunk, {}, ProducerSequence{"p", seed}).status();
  }
  static absl::Status Count(Process& process, const std::string& name, uint32_t num_sizes) {
    SizeHistogram sizes(2);
    for (uint32_t i = 0; i < num_sizes; ++i) {
      PH_RETURN_IF_ERROR(sizes.Add({{i, 2 * i}}, 1 + i % 3));
    }
    const HistogramKey key = {name, SizeSchema::NodesAndEdges(), std::nullopt};
    return process.histograms->Merge(key, sizes, std::nullopt, absl::UnixEpoch()).status();
  }
  static absl::Status Report(Process& process, const std::string& model) {
    BatchObservation batch;
    batch.capacities = {100, 8};
    batch.seconds = 0.5;
    return process.models->Report({model, "gpu"}, {"nodes", "graphs"}, {batch}, absl::UnixEpoch())
        .status();
  }
  // Null: the process does not get it.
  std::unique_ptr<EtcdRecordLog> LogOf(Process& process, const std::string& job) {
    auto acquired = EtcdRecordLog::Acquire(
        &process.keys(), {job, "here:1", absl::StrCat("a", ++num_attempts_), process.lease});
    return acquired.ok() ? std::move(acquired->log) : nullptr;
  }
  absl::Status CopyGraph(Process& process, const std::string& name) {
    PH_ASSIGN_OR_RETURN(const SealedSourceGraph sealed, files_->OpenSealed(name));
    return process.graphs->CopyIn(sealed, kGoOn).status();
  }
  // A companion of a graph: one file, in several pieces.
  absl::Status MakeCompanion(Process& process, const std::string& graph, const std::string& name) {
    PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, process.graphs->Get(graph));
    SharedCompanion made;
    made.graph = {graph, info.id};
    made.name = name;
    made.state = "begun";
    PH_ASSIGN_OR_RETURN(made.revision, process.companions->Put(made));
    const std::string bytes(10'000, name[0]);
    std::ofstream(folder_.path() + "/file") << bytes;
    return process.companions->Upload(made, folder_.path(),
                                      {{{"file", bytes.size(), Crc32c(bytes)}}, "summary"},
                                      [] { return true; });
  }

  // Something of everything.
  void Fill() {
    for (const char* const name : {"sealed", "team/open"}) {
      ASSERT_THAT(server_.datasets().Create(name, schema_, {}), IsOk());
      for (uint64_t i = 1; i <= 10; ++i) ASSERT_THAT(Append(server_, name, i), IsOk());
    }
    ASSERT_THAT(server_.datasets().Seal("sealed"), IsOk());
    for (const char* const name : {"graph", "other"}) {
      ASSERT_THAT(CopyGraph(server_, name), IsOk());
      for (const char* const part : {"halves", "thirds"}) {
        ASSERT_THAT(MakeCompanion(server_, name, part), IsOk());
      }
    }
    EtcdJobDirectory directory(&server_.keys());
    for (const char* const job : {"replaced", "team/100%"}) {
      const auto log = LogOf(server_, job);
      ASSERT_NE(log, nullptr);
      for (uint64_t generation = 1; generation < 4; ++generation) {
        ASSERT_THAT(log->Append(EventsOf(job, generation)), IsOk());
      }
      if (job == absl::string_view("replaced")) {
        ASSERT_THAT(log->Replace(EventsOf(job, 3)), IsOk());
      }
      ASSERT_THAT(log->Append(EventsOf(job, 4)), IsOk());
      ASSERT_THAT(directory.Put({job, 4, 1, 2}), IsOk());
    }
    EXPECT_THAT(LogOf(server_, "erased")->Erase(7), IsOk());
    // The first has a base, and no run after it.
    ASSERT_THAT(Count(server_, "team/large", 20'000), IsOk());
    EXPECT_EQ(server_.keys().Range(KeyRange::Prefix("hist/l/"), 0, 0)->values.size(), 1U);
    ASSERT_THAT(Count(server_, "small", 5), IsOk());
    for (const char* const name : {"team/large", "small"}) {
      ASSERT_THAT(Report(server_, name), IsOk());
    }
  }

  struct Checked {
    absl::Status status;
    StoredCounts counts;
    std::vector<std::string> damages;

    // In words; an error is one of them.
    std::string all() const {
      return absl::StrCat(absl::StrJoin(damages, "\n"), status.ok() ? "" : status.ToString());
    }
  };
  static Checked Check(const CheckedCluster& cluster) {
    Checked checked;
    checked.status = CheckCluster(
        cluster,
        [&](const StoredDamage& damage) {
          checked.damages.push_back(
              absl::StrCat(damage.file, "|", damage.place, "|", damage.what, "|", damage.cost));
        },
        checked.counts);
    return checked;
  }
  static Checked Check(Process& process) {
    CheckedCluster cluster;
    cluster.engines = process.replica->engines();
    cluster.datasets = &process.datasets();
    cluster.source_graphs = process.graphs.get();
    cluster.companions = process.companions.get();
    cluster.keys_name = "KEYS";
    cluster.objects_name = "OBJECTS";
    return Check(cluster);
  }
  Checked Check() {
    Process process = Start(&fake_);
    return Check(process);
  }

  std::vector<KeyValue> Keys() {
    return server_.keys().Range({std::string(1, '\1'), "\xff"}, 0, 0)->values;
  }
  std::map<std::string, std::string> Objects() {
    std::map<std::string, std::string> objects;
    const ObjectList list = fake_.List("", "", 0, absl::InfiniteFuture()).value();
    for (const ObjectInfo& info : list.objects) {
      objects[info.key] =
          ReadObject(fake_, info.key, {}, kMaxBytes, absl::InfiniteFuture()).value();
    }
    return objects;
  }
  void Put(const std::string& key, const std::string& value) {
    ASSERT_THAT(server_.keys().Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  }
  void Delete(const std::string& key) {
    ASSERT_THAT(server_.keys().Commit({{}, {Operation::Delete(KeyRange::Of(key))}, {}}), IsOk());
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  ObjectCluster cluster_;
  FakeObjectStore fake_{&cluster_.clock};
  std::unique_ptr<FileSourceGraphStore> files_;
  int num_processes_ = 0;
  uint64_t num_attempts_ = 0;
  Process server_;
};

TEST_F(ClusterCheckTest, WhatIsSoundIsCountedAndStaysAsItIs) {
  Fill();
  const std::vector<KeyValue> keys = Keys();
  const std::map<std::string, std::string> objects = Objects();
  Process process = Start(&fake_);
  const Checked checked = Check(process);
  EXPECT_EQ(checked.all(), "");
  EXPECT_EQ(checked.counts.num_datasets, 2U);
  EXPECT_EQ(checked.counts.num_source_graphs, 2U);
  EXPECT_EQ(checked.counts.num_ledger_records, 24U);
  EXPECT_EQ(checked.counts.num_histograms, 2U);
  EXPECT_EQ(checked.counts.num_unnamed_objects, 0U);
  EXPECT_TRUE(Keys() == keys);
  EXPECT_EQ(Objects(), objects);
}

// A key of a lease, or one that only says what is left to do; or nobody could miss it.
bool MayBeMissing(absl::string_view key) {
  for (const char* const each : {"jobs/", "job-mark", "ds/totals", "sg/up/", "ds/gone/"}) {
    if (absl::StartsWith(key, each)) return true;
  }
  return absl::EndsWith(key, "/owner");
}

// What the damage must name, by the beginning of the key or object.
std::string NameIn(absl::string_view key) {
  const std::vector<std::pair<absl::string_view, std::string>> words = {
      {"ds/store", "ds/store"},
      {"store", "'store'"},
      {"ds/totals", "ds/totals"},
      {"ds/id/", "data set"},
      {"ds/name/", "belongs to no data set"},
      {"d/", "data set"},
      {"sg/", "source graph"},
      {"g/", "source graph"},
      {"job/replaced", "job 'replaced'"},
      {"job/", "job 'team/"},
      {"hist/", "histogram"},
      {"feedback/", "feedback/"}};
  for (const auto& [beginning, word] : words) {
    if (absl::StartsWith(key, beginning)) return word;
  }
  return std::string(key);
}

// What the damage of a key costs, where it is not what it names.
std::string CostOf(absl::string_view key) {
  const std::vector<std::pair<absl::string_view, std::string>> costs = {
      {"ds/totals", "|the bound --max-store-bytes"},
      {"job-mark", "|nothing that is there, but no server takes a job"},
      {"feedback/count", "|the bound --max-measured-models"},
      {"feedback/", "|that measured model"}};
  for (const auto& [beginning, cost] : costs) {
    if (absl::StartsWith(key, beginning)) return cost;
  }
  return "";
}

TEST_F(ClusterCheckTest, EachKeyThatIsLostOrOverwrittenIsNamed) {
  Fill();
  const std::vector<KeyValue> keys = Keys();
  size_t num_found = 0;
  for (const KeyValue& value : keys) {
    SCOPED_TRACE(value.key);
    Delete(value.key);
    const std::string lost = Check().all();
    Put(value.key, "?");
    const std::string overwritten = Check().all();
    Put(value.key, value.value);
    if (MayBeMissing(value.key)) {
      EXPECT_EQ(lost, "");
    } else {
      EXPECT_THAT(lost, HasSubstr(NameIn(value.key)));
    }
    if (absl::EndsWith(value.key, "/owner") || absl::StartsWith(value.key, "jobs/")) {
      EXPECT_EQ(overwritten, "");
    } else {
      EXPECT_THAT(overwritten, AllOf(HasSubstr(NameIn(value.key)), HasSubstr(CostOf(value.key))));
    }
    // Where one thing cannot be read, nobody knows what all have together.
    if (value.key != kStoreTotalsKey) {
      EXPECT_THAT(overwritten, Not(HasSubstr("ds/totals")));
    } else {
      EXPECT_THAT(overwritten, HasSubstr("does not say that there are 2 data sets, and "));
    }
    num_found += lost.empty() ? 0 : 1;
  }
  EXPECT_GT(num_found, 30U);
  EXPECT_EQ(Check().all(), "");
}

TEST_F(ClusterCheckTest, EachObjectThatIsLostOrHasAnotherByteIsNamed) {
  Fill();
  Random random(1);
  for (const auto& [key, bytes] : Objects()) {
    // What says that an upload has begun is empty.
    if (bytes.empty()) continue;
    SCOPED_TRACE(key);
    const auto expect_named = [&, name = key] {
      EXPECT_THAT(Check().all(), AllOf(HasSubstr(NameIn(name)), HasSubstr("OBJECTS")));
    };
    if (key != kStoreIdentityObject) {
      for (const size_t at : {size_t{0}, bytes.size() - 1, bytes.size(),
                              static_cast<size_t>(random.Below(bytes.size()))}) {
        fake_.Damage(key, at);
        expect_named();
        ASSERT_THAT(fake_.Put(key, bytes, absl::InfiniteFuture()), IsOk());
      }
    }
    ASSERT_THAT(fake_.Delete(key, absl::InfiniteFuture()), IsOk());
    expect_named();
    ASSERT_THAT(fake_.Put(key, bytes, absl::InfiniteFuture()), IsOk());
  }
  EXPECT_EQ(Check().all(), "");
}

// Names that no call would take.
TEST_F(ClusterCheckTest, NamesThatNobodyCanUseAreNamed) {
  Fill();
  for (const char* const key :
       {"ds/name/a b", "sg/name/a b", "hist/h/a b", "ds/id/a b/state", "sg/with/a b"}) {
    SCOPED_TRACE(key);
    Put(key, "?");
    EXPECT_THAT(Check().damages, Contains(HasSubstr("a b")));
    Delete(key);
  }
  EXPECT_EQ(Check().all(), "");
}

// What one server builds is not here.
TEST_F(ClusterCheckTest, GraphsThatAreBuiltAreOnlyCounted) {
  Fill();
  const std::string value = server_.keys().Get(SourceGraphNameKey("graph")).value()->value;
  SharedGraph built = DecodeSharedGraph("graph", value).value();
  built.definition.name = "built";
  built.server = "a:1";
  built.num_bytes = 0;
  Put(SourceGraphNameKey("built"), EncodeSharedGraph(built));
  const Checked checked = Check();
  EXPECT_EQ(checked.all(), "");
  EXPECT_EQ(checked.counts.num_source_graphs, 3U);
  // Also if it was sealed when the check began to look at them: it is deleted, and made anew.
  built.definition.name = "other";
  WatchedObjects watched(&fake_);
  watched.before_get_of_graph = [&] {
    EXPECT_THAT(server_.graphs->Delete({"other", 0}), IsOk());
    Put(SourceGraphNameKey("other"), EncodeSharedGraph(built));
  };
  Process process = Start(&watched);
  EXPECT_EQ(Check(process).all(), "");
  EXPECT_TRUE(watched.before_get_of_graph == nullptr);
}

// The store of keys may be away for a moment as the check begins; a check that it fails ends.
TEST_F(ClusterCheckTest, AStoreThatDoesNotAnswerIsAskedAgain) {
  Fill();
  for (const int num_failures : {3, 1'000'000}) {
    int left = num_failures;
    int asked = 0;
    Process process = Start(&fake_);
    process.replica->connection().SetFaults([&] {
      ++asked;
      return left-- > 0 ? StoreFault::kUnreachable : StoreFault::kNone;
    });
    const Checked checked = Check(process);
    process.replica->connection().SetFaults(nullptr);
    EXPECT_THAT(checked.damages, IsEmpty());
    if (num_failures == 3) {
      EXPECT_THAT(checked.status, IsOk());
      EXPECT_EQ(checked.counts.num_ledger_records, 24U);
    } else {
      EXPECT_THAT(checked.status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("fake")));
      EXPECT_EQ(asked, process.replica->engines().max_attempts + 1);
    }
  }
}

// Whichever request is refused: the check ends with that, and takes it for no damage.
TEST_F(ClusterCheckTest, ARefusalEndsIt) {
  Fill();
  Refusals refusals(absl::StatusCode::kPermissionDenied);
  Process process = Start(&fake_);
  RefusingKeys keys(&process.keys(), &refusals);
  RefusingObjects objects(&fake_, &refusals);
  ObjectEngines engines = process.replica->engines();
  engines.keys = &keys;
  engines.objects = &objects;
  ChunkCache& cache = process.replica->cache();
  const ObjectDatasetStore datasets(engines, &cache, {});
  ObjectSourceGraphStore::Options of_graphs;
  of_graphs.fetches_at_once = 1;
  const ObjectSourceGraphStore graphs(engines, &cache, of_graphs);
  const ObjectCompanions companions(engines, &cache, {});
  const CheckedCluster cluster = {engines, &datasets, &graphs, &companions, "KEYS", "OBJECTS"};
  // From here on the cache has what it can have.
  EXPECT_EQ(Check(cluster).all(), "");
  refusals.Begin(-1);
  EXPECT_EQ(Check(cluster).all(), "");
  const int num_requests = refusals.num_requests();
  EXPECT_GT(num_requests, 50);
  for (int step = 0; step < num_requests; ++step) {
    SCOPED_TRACE(absl::StrCat("request ", step, " of ", num_requests));
    refusals.Begin(step);
    const Checked checked = Check(cluster);
    EXPECT_THAT(checked.damages, IsEmpty());
    EXPECT_TRUE(absl::IsPermissionDenied(checked.status) || absl::IsUnavailable(checked.status))
        << checked.status;
    EXPECT_THAT(checked.status.message(), HasSubstr(kWhy));
    EXPECT_EQ(refusals.num_requests(), step + 1);
  }
}

// The record, and what its graphs are.
TEST_F(ClusterCheckTest, DamageNamesThePlaceAndTheCost) {
  Fill();
  const uint64_t id = server_.datasets().Get("sealed")->id;
  std::vector<std::string> chunks;
  for (const auto& [key, bytes] : Objects()) {
    if (absl::StartsWith(key, absl::StrCat(DatasetObjects(id), "c/"))) chunks.push_back(key);
  }
  fake_.Damage(chunks.front(), 0);
  EXPECT_THAT(Check().damages,
              ElementsAre(AllOf(HasSubstr("OBJECTS|record "), HasSubstr("of data set 'sealed'|"),
                                HasSubstr("|graphs ")),
                          HasSubstr("|counts and histogram of data set 'sealed'")));
  // Whole, and no event.
  ASSERT_THAT(LogOf(server_, "replaced")->Append({"?"}), IsOk());
  EXPECT_THAT(Check().damages, Contains(AllOf(HasSubstr("KEYS|job 'replaced', record 9|"),
                                              HasSubstr("|job 'replaced'"))));
}

TEST_F(ClusterCheckTest, StoresThatAreOthersOrNewAreNoDamage) {
  EXPECT_THAT(Check().status, IsOk());
  Put(std::string(kStoreIdentityKey), "0123456789abcdef");
  EXPECT_THAT(Check().status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not belong together")));
  Delete(std::string(kStoreIdentityKey));
  ASSERT_THAT(fake_.Delete(kStoreIdentityObject, absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(Check().status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("OBJECTS")));
}

// What nothing names is counted, once it is so old that it is swept.
TEST_F(ClusterCheckTest, WhatIsCountedIsWhatASweepDeletes) {
  Fill();
  const uint64_t id = server_.datasets().Get("team/open")->id;
  for (const std::string& key : {ChunkObject(id, 7), RunObject(id, 8), ChunkObject(id + 1, 9),
                                 SourceGraphPieceObject(77, 0, 1), SourceGraphBegunObject(77)}) {
    ASSERT_THAT(fake_.Put(key, key, absl::InfiniteFuture()), IsOk());
  }
  EXPECT_EQ(Check().counts.num_unnamed_objects, 0U);
  cluster_.clock.Advance(absl::Hours(2));
  const Checked checked = Check();
  EXPECT_EQ(checked.all(), "");
  EXPECT_EQ(checked.counts.num_unnamed_objects, 5U);
  const ObjectEngines engines = server_.replica->engines();
  const ObjectSweeper::Step swept = ObjectSweeper(engines, {}).Run().value();
  const ObjectSweeper::Step of_graphs = SourceGraphSweeper(engines, {}).Run().value();
  EXPECT_EQ(swept.num_deleted + of_graphs.num_deleted, 5U);
  EXPECT_EQ(swept.num_bytes + of_graphs.num_bytes, checked.counts.num_unnamed_bytes);
  EXPECT_EQ(Check().counts.num_unnamed_objects, 0U);
}

// Without objects: what the servers of a data folder share.
TEST_F(ClusterCheckTest, KeysAreCheckedAlone) {
  Fill();
  CheckedCluster cluster;
  cluster.engines = server_.replica->engines();
  cluster.engines.objects = nullptr;
  Delete(JobKeys("replaced").log().head);
  // The first change of a job, in the middle.
  Put(JobKeys("begun").log().Entry(0), "?");
  // That of one that is listed behind many others is damage, too.
  Put(JobKeys("z").log().Entry(0), "?");
  for (int i = 0; i <= 1000; ++i) Put(EtcdJobDirectory::KeyOf(absl::StrCat("y", i)), "1 1 1 1");
  Put(EtcdJobDirectory::KeyOf("z"), "1 1 1 1");
  StoredCounts counts;
  std::vector<std::string> places;
  const auto found = [&](const StoredDamage& damage) { places.push_back(damage.place); };
  EXPECT_THAT(CheckCluster(cluster, found, counts), IsOk());
  EXPECT_THAT(places, ElementsAre(JobKeys("replaced").log().head, JobKeys("z").log().head));
  EXPECT_EQ(counts.num_datasets, 0U);
  EXPECT_EQ(counts.num_histograms, 2U);
}

// --- What a repair does.

class ClusterRepairTest : public ClusterCheckTest {
 protected:
  struct Repaired {
    absl::Status status;
    RepairReport report;
  };
  static CheckedCluster ClusterOf(const ObjectEngines& engines) {
    CheckedCluster cluster;
    cluster.engines = engines;
    cluster.keys_name = "KEYS";
    cluster.objects_name = "OBJECTS";
    return cluster;
  }
  static Repaired Repair(const CheckedCluster& cluster, bool accept_missing) {
    Repaired repaired;
    repaired.status = RepairCluster(cluster, {accept_missing}, repaired.report);
    return repaired;
  }
  Repaired Repair(bool accept_missing) {
    return Repair(ClusterOf(server_.replica->engines()), accept_missing);
  }

  // As servers leave it that have ended.
  void FillAndEnd() {
    Fill();
    cluster_.clock.Advance(absl::Hours(20'000));
    for (const KeyValue& value : Keys()) EXPECT_EQ(value.lease, 0U) << value.key;
  }
  void PutAll(const std::vector<KeyValue>& keys) {
    Transaction all;
    all.then.push_back(Operation::Delete({std::string(1, '\1'), "\xff"}));
    ASSERT_THAT(server_.keys().Commit(all), IsOk());
    for (const KeyValue& value : keys) Put(value.key, value.value);
  }
  static std::map<std::string, std::string> Values(const std::vector<KeyValue>& keys) {
    std::map<std::string, std::string> values;
    for (const KeyValue& value : keys) values[value.key] = value.value;
    return values;
  }
  // The names of all that is there.
  std::set<std::string> Names() {
    std::set<std::string> names;
    for (const KeyValue& value : Keys()) {
      for (const char* const each :
           {"ds/name/", "sg/name/", "sg/with/", "hist/h/", "feedback/m/", "jobs/"}) {
        if (absl::StartsWith(value.key, each)) names.insert(value.key);
      }
    }
    return names;
  }
};

// Whichever key is lost or overwritten: a repair gives up no more than what it says, and what is
// damaged then a call can delete.
TEST_F(ClusterRepairTest, EachKeyThatIsLostOrOverwrittenIsPutRightOrGivenUp) {
  FillAndEnd();
  const std::vector<KeyValue> keys = Keys();
  const std::set<std::string> names = Names();
  ASSERT_EQ(names.size(), 2U + 2 + 4 + 2 + 2 + 2);
  EXPECT_FALSE(Repair(true).report.is_changed);
  EXPECT_EQ(Values(Keys()), Values(keys));
  int num_refused = 0;
  int num_free = 0;
  int num_jobs = 0;
  for (const KeyValue& value : keys) {
    for (const char* const damage : {"", "?"}) {
      SCOPED_TRACE(absl::StrCat(value.key, " ", damage));
      // With another number the stores do not belong together.
      if (value.key == kStoreIdentityKey && *damage != '\0') continue;
      PutAll(keys);
      if (*damage == '\0') {
        Delete(value.key);
      } else {
        Put(value.key, damage);
      }
      const auto damaged = Values(Keys());
      const std::set<std::string> left = Names();
      const bool is_sound = Check().all().empty();
      const Repaired careful = Repair(false);
      if (!careful.status.ok()) {
        ++num_refused;
        EXPECT_THAT(careful.status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("; --accept-missing costs ")));
        EXPECT_FALSE(careful.report.is_changed);
        EXPECT_EQ(Values(Keys()), damaged);
      } else if (careful.report.lost_jobs.empty()) {
        EXPECT_EQ(Names(), left);
        num_free += careful.report.is_changed ? 1 : 0;
      } else {
        ++num_jobs;
        EXPECT_THAT(careful.report.done, Each(HasSubstr("; it costs job '")));
      }
      const Repaired repaired = Repair(true);
      EXPECT_THAT(repaired.status, IsOk());
      EXPECT_FALSE(is_sound && (careful.report.is_changed || repaired.report.is_changed));
      std::set<std::string> lost;
      for (const std::string& name : names) {
        if (!Names().contains(name)) lost.insert(name);
      }
      EXPECT_LE(lost.size(), 1U) << absl::StrJoin(lost, " ");
      // Damage of what can be read else is of a call.
      if (!Check().all().empty()) {
        const std::string all = Check().all();
        EXPECT_THAT(lost, IsEmpty());
        ASSERT_THAT(all, HasSubstr("data set '"));
        const bool is_open = absl::StrContains(all, "team/open");
        EXPECT_THAT(server_.datasets().Delete({is_open ? "team/open" : "sealed", 0}), IsOk());
      }
      EXPECT_EQ(Check().all(), "");
      EXPECT_FALSE(Repair(true).report.is_changed);
    }
  }
  EXPECT_GT(num_refused, 30);
  EXPECT_GT(num_free, 8);
  EXPECT_GT(num_jobs, 12);
}

// So that somebody can decide.
TEST_F(ClusterRepairTest, ARefusalSaysWhatEverythingCosts) {
  FillAndEnd();
  Put(DatasetNameKey("sealed"), "?");
  Put(DatasetNameKey("team/open"), "?");
  Put("feedback/m/small/gpu", "?");
  Delete("hist/h/small");
  EXPECT_THAT(
      Repair(false).status,
      StatusIs(absl::StatusCode::kFailedPrecondition,
               AllOf(StartsWith("KEYS, ds/id/"),
                     HasSubstr(": belongs to no data set that has a name; --accept-missing costs "
                               "data set 'sealed', data set 'team/open', histogram 'small', that "
                               "measured model, the data set whose name or key was lost"))));
  EXPECT_THAT(Repair(true).status, IsOk());
  EXPECT_EQ(Check().all(), "");
}

// A name is free again, and no generation of the lost job is used by its successor.
TEST_F(ClusterRepairTest, ALostJobBeginsAnew) {
  FillAndEnd();
  for (const char* const mark : {"7", "?"}) {
    SCOPED_TRACE(mark);
    Put(std::string(JobKeys::kMark), mark);
    for (const KeyValue& value : Keys()) {
      if (absl::StartsWith(value.key, "job/replaced/log/")) Put(value.key, "?");
    }
    Delete(JobKeys("team/100%").log().head);
    const Repaired repaired = Repair(false);
    EXPECT_THAT(repaired.status, IsOk());
    EXPECT_TRUE(repaired.report.is_changed);
    EXPECT_THAT(repaired.report.lost_jobs, SizeIs(*mark == '7' ? 2 : 0));
    EXPECT_EQ(Check().all(), "");
    if (*mark != '7') break;
    EXPECT_THAT(repaired.report.lost_jobs, ElementsAre("replaced", "team/100%"));
    for (const char* const job : {"replaced", "team/100%"}) {
      EXPECT_EQ(server_.keys().Get(EtcdJobDirectory::KeyOf(job)).value(), std::nullopt);
      Process process = Start(&fake_);
      const auto log = LogOf(process, job);
      ASSERT_NE(log, nullptr);
      EXPECT_THAT(log->ReadAll().value(), IsEmpty());
      EXPECT_GT(log->mark().value(), uint64_t{1} << 40);
      EXPECT_THAT(log->Release(), IsOk());
    }
  }
}

TEST_F(ClusterRepairTest, AJobIsGivenUpBesideADamagedMark) {
  FillAndEnd();
  Put(std::string(JobKeys::kMark), "?");
  Put(JobKeys("replaced").log().head, "?");
  const Repaired repaired = Repair(false);
  EXPECT_THAT(repaired.status, IsOk());
  EXPECT_THAT(repaired.report.lost_jobs, ElementsAre("replaced"));
  EXPECT_THAT(repaired.report.done, SizeIs(2));
  EXPECT_EQ(Check().all(), "");
}

TEST_F(ClusterRepairTest, ServersMustNotRun) {
  FillAndEnd();
  Delete(std::string(kStoreTotalsKey));
  Put(std::string(kStoreTotalsKey), "?");
  Put("member/x-1", "host:7\nsigning-key abc");
  EXPECT_THAT(Repair(true).status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                            "the server host:7 uses KEYS: stop all servers first"));
  Delete("member/x-1");
  // One that has joined meanwhile.
  Put(JobKeys("replaced").log().head, "?");
  Process process = Start(&fake_);
  const JobKeys job("replaced");
  Put(job.owner(), "host:7 a1");
  EXPECT_THAT(Repair(true).status,
              StatusIs(absl::StatusCode::kAborted,
                       "KEYS, replaced: somebody has changed it meanwhile; repair again"));
  Delete(job.owner());
  EXPECT_THAT(Repair(true).status, IsOk());
  EXPECT_EQ(Check().all(), "");
}

// Which of the two is missing is written as the other one says, if somebody says that they belong
// together.
TEST_F(ClusterRepairTest, StoresAreBoundAnew) {
  FillAndEnd();
  const std::string key(kStoreIdentityKey);
  const std::string object(kStoreIdentityObject);
  const std::string number = server_.keys().Get(key).value()->value;
  const auto bytes = [&] {
    return ReadObject(fake_, object, {}, kMaxBytes, absl::InfiniteFuture());
  };
  const std::string there = bytes().value();
  Delete(key);
  EXPECT_THAT(Repair(false).status,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       "KEYS, ds/store: is missing; --accept-missing costs all, if the two are not "
                       "of one cluster"));
  EXPECT_EQ(server_.keys().Get(key).value(), std::nullopt);
  const Repaired repaired = Repair(true);
  EXPECT_THAT(repaired.status, IsOk());
  EXPECT_THAT(repaired.report.done, ElementsAre("KEYS, ds/store: is missing; it was written anew"));
  EXPECT_EQ(server_.keys().Get(key).value()->value, number);
  ASSERT_THAT(fake_.Delete(object, absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(Repair(false).status, StatusIs(absl::StatusCode::kFailedPrecondition,
                                             HasSubstr("OBJECTS, object 'store': is missing; ")));
  EXPECT_THAT(Repair(true).report.done,
              ElementsAre("OBJECTS, object 'store': is missing; it was written anew"));
  EXPECT_THAT(bytes(), IsOkAndHolds(there));
  EXPECT_EQ(Check().all(), "");
  Put(key, "0123456789abcdef");
  EXPECT_THAT(Repair(true).status,
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not belong together")));
  Delete(key);
  ASSERT_THAT(fake_.Delete(object, absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(Repair(true).status,
              StatusIs(absl::StatusCode::kNotFound, "no server has used OBJECTS with KEYS"));
}

// Whichever request is refused, a later repair goes on.
TEST_F(ClusterRepairTest, ARefusedRepairGoesOn) {
  FillAndEnd();
  const std::vector<KeyValue> keys = Keys();
  const auto damage = [&] {
    PutAll(keys);
    Delete(std::string(kStoreIdentityKey));
    Delete(DatasetNameKey("sealed"));
    Delete(JobKeys("replaced").log().head);
    Put("feedback/count", "9");
    Put(SourceGraphNameKey("graph"), "?");
  };
  for (const auto code : {absl::StatusCode::kPermissionDenied, absl::StatusCode::kUnavailable}) {
    Refusals refusals(code);
    RefusingKeys refusing(&server_.keys(), &refusals);
    RefusingObjects objects(&fake_, &refusals);
    ObjectEngines engines = server_.replica->engines();
    engines.keys = &refusing;
    engines.objects = &objects;
    const CheckedCluster cluster = ClusterOf(engines);
    damage();
    refusals.Begin(-1);
    EXPECT_THAT(Repair(cluster, true).status, IsOk());
    EXPECT_EQ(Check().all(), "");
    const auto mended = Values(Keys());
    const int num_requests = refusals.num_requests();
    EXPECT_GT(num_requests, 40);
    const int stride = code == absl::StatusCode::kUnavailable ? 5 : 1;
    for (int step = 0; step < num_requests; step += stride) {
      SCOPED_TRACE(absl::StrCat("request ", step, " of ", num_requests));
      damage();
      refusals.Begin(step);
      const absl::Status status = Repair(cluster, true).status;
      // Keys that are away are asked again.
      EXPECT_TRUE(absl::IsUnavailable(status) || status.code() == code || status.ok()) << status;
      EXPECT_TRUE(status.ok() || absl::StrContains(status.message(), kWhy)) << status;
      EXPECT_FALSE(status.ok() && code == absl::StatusCode::kPermissionDenied);
      refusals.Begin(-1);
      EXPECT_THAT(Repair(cluster, true).status, IsOk());
      EXPECT_EQ(Values(Keys()), mended);
    }
  }
}

// Without objects: what the servers of a data folder share. A store that does not come to rest ends
// it.
TEST_F(ClusterRepairTest, KeysAreRepairedAloneAndNotForEver) {
  FillAndEnd();
  ObjectEngines engines = server_.replica->engines();
  engines.objects = nullptr;
  Delete(JobKeys("replaced").log().head);
  Put(DatasetNameKey("sealed"), "?");
  EXPECT_THAT(Repair(ClusterOf(engines), false).report.lost_jobs, ElementsAre("replaced"));
  EXPECT_EQ(server_.keys().Get(DatasetNameKey("sealed")).value()->value, "?");
  Process restless = Start(&fake_, [&] {
    Put("hist/h/small", "?");
    return StoreFault::kNone;
  });
  engines = restless.replica->engines();
  engines.objects = nullptr;
  EXPECT_THAT(Repair(ClusterOf(engines), true).status,
              StatusIs(absl::StatusCode::kAborted, HasSubstr("KEYS")));
}

// However much of it is damaged.
TEST_F(ClusterRepairTest, AJobIsGivenUpOnce) {
  FillAndEnd();
  Process process = Start(&fake_);
  const auto log = LogOf(process, "replaced");
  ASSERT_NE(log, nullptr);
  ASSERT_THAT(log->Append({"?", "!"}), IsOk());
  ASSERT_THAT(log->Release(), IsOk());
  const Repaired repaired = Repair(false);
  EXPECT_THAT(repaired.status, IsOk());
  EXPECT_THAT(repaired.report.lost_jobs, ElementsAre("replaced"));
  EXPECT_THAT(repaired.report.done, SizeIs(2));
  EXPECT_EQ(Check().all(), "");
}

// A server that does all that one can, a step at a time. `percent` of its calls fail: it may be
// killed in the middle of anything, and then another one works.
class BusyClusterTest : public ClusterCheckTest {
 protected:
  void Begin(uint64_t seed, uint64_t percent) {
    random_ = Random(seed);
    percent_ = percent;
    Revive();
  }
  void Revive() {
    busy_ = Process();
    logs_.clear();
    std::vector<StoreFault> faults = {StoreFault::kRequestLost, StoreFault::kReplyLost,
                                      StoreFault::kDoneLater, StoreFault::kCrashBefore,
                                      StoreFault::kCrashAfter};
    busy_ = Start(&fake_, RandomFaults(random_.Next(), percent_, std::move(faults)));
  }
  void DoOne() {
    if (std::exchange(is_under_way_, true)) return;
    if (busy_.replica->connection().crashed()) {
      // The leases of the one that was killed.
      cluster_.clock.Advance(absl::Hours(20'000));
      Revive();
    }
    const std::string name = absl::StrCat("n", random_.Below(3));
    switch (random_.Below(18)) {
      case 0:
        busy_.datasets().Create(name, schema_, {}).IgnoreError();
        break;
      case 1:
        busy_.datasets().Delete({name, 0}).IgnoreError();
        break;
      case 2:
        if (random_.Below(4) == 0) busy_.datasets().Seal({name, 0}).IgnoreError();
        break;
      case 3:
        CopyGraph(busy_, "graph").IgnoreError();
        break;
      case 4:
        busy_.graphs->Delete({"graph", 0}).IgnoreError();
        break;
      case 5:
        Count(busy_, name, random_.Below(4) == 0 ? 20'000 : 3).IgnoreError();
        break;
      case 6:
        if (random_.Below(3) == 0) busy_.histograms->Delete(name).IgnoreError();
        break;
      case 7:
        Report(busy_, name).IgnoreError();
        break;
      case 8:
        busy_.models->Delete({name, "gpu"}).IgnoreError();
        break;
      case 14:
        busy_.companions->RemoveGone().IgnoreError();
        break;
      case 15:
        if (const auto graph = busy_.graphs->Get("graph"); graph.ok()) {
          busy_.companions->Delete({"graph", graph->id}, name).IgnoreError();
        }
        break;
      case 16:
      case 17:
        MakeCompanion(busy_, "graph", name).IgnoreError();
        break;
      case 9:
      case 10:
        WriteLog(name);
        break;
      default:
        Append(busy_, name, ++num_appends_).IgnoreError();
    }
    is_under_way_ = false;
  }
  // Of one epoch after the other, so that each log fits together.
  void WriteLog(const std::string& job) {
    auto& log = logs_[job];
    if (log == nullptr) log = LogOf(busy_, job);
    if (log == nullptr) return;
    const std::vector<std::string> records = EventsOf(job, ++num_appends_);
    EtcdJobDirectory directory(&busy_.keys());
    bool is_done = false;
    if (random_.Below(4) == 0) {
      is_done = log->Replace(records).ok();
    } else if (random_.Below(8) == 0) {
      if (log->Erase(num_appends_).ok()) directory.Remove(job).IgnoreError();
    } else {
      is_done = log->Append(records).ok();
      if (is_done) directory.Put({job, 1, 1, 1}).IgnoreError();
    }
    if (!is_done) log = nullptr;
  }

  Random random_{0};
  uint64_t percent_ = 0;
  uint64_t num_appends_ = 100;
  bool is_under_way_ = false;
  Process busy_;
  std::map<std::string, std::unique_ptr<EtcdRecordLog>> logs_;
};

TEST_F(BusyClusterTest, BesideServersThatRunNothingIsFound) {
  Fill();
  Begin(1, 0);
  uint64_t num_calls = 0;
  int num_whole = 0;
  const auto beside = [&] {
    if (++num_calls % 3 == 0) DoOne();
  };
  WatchedObjects watched(&fake_);
  for (int i = 0; i < 60; ++i) {
    SCOPED_TRACE(i);
    Process process = Start(&watched, [&] {
      beside();
      return StoreFault::kNone;
    });
    watched.before = beside;
    const Checked checked = Check(process);
    watched.before = [] {};
    process.replica->connection().SetFaults(nullptr);
    // What changes all the time may be too quick for the check: that is no damage.
    EXPECT_THAT(checked.damages, IsEmpty());
    EXPECT_TRUE(checked.status.ok() || absl::IsUnavailable(checked.status)) << checked.status;
    num_whole += checked.status.ok() ? 1 : 0;
  }
  EXPECT_GT(num_whole, 30);
  EXPECT_GT(num_calls, 10'000U);
}

TEST_F(BusyClusterTest, WhatServersLeaveThatAreKilledIsNoDamage) {
  uint64_t num_unnamed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Begin(seed, 8);
    for (int i = 0; i < 40; ++i) DoOne();
    cluster_.keys.DoLateRequests();
    cluster_.clock.Advance(absl::Hours(2));
    const Checked checked = Check();
    EXPECT_EQ(checked.all(), "");
    num_unnamed += checked.counts.num_unnamed_objects;
  }
  EXPECT_GT(num_unnamed, 10U);
}

}  // namespace
}  // namespace packhouse
