// Data sets and source graphs that servers share, whichever request to a store of keys or objects
// fails: lost, late, repeated, or of unknown outcome. Once all is over and swept, no object is left
// that nobody has.
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_sweeper.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/object_source_graph_store.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/failing_steps/failing_requests.h"
#include "tests/objects/fake_object_store.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/failing_steps.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

// Which requests fail, and how. Null: none of the store.
struct Failing {
  FailingRequests* keys = nullptr;
  StoreFault key_fault = StoreFault::kNone;
  FailingRequests* objects = nullptr;
  ObjectFault object_fault = ObjectFault::kRefused;
  RefusedMemory* memory = nullptr;
};

// Two replicas: the requests of one fail, the other sees what is there.
class SharedStoresWorld : public StepsWorld {
 protected:
  SharedStoresWorld(const Failing& failing, uint64_t chunks_of_page)
      : failing_(failing),
        failing_objects_(&objects_, failing.objects == nullptr ? &none_ : failing.objects,
                         failing.object_fault),
        one_(ClusterWith(failing.memory), &failing_objects_, folder_.path() + "/one",
             Options(chunks_of_page)),
        other_(ClusterWith(nullptr), &objects_, folder_.path() + "/other",
               Options(chunks_of_page)) {
    cluster_.keys.SetForgetful(false);
    EXPECT_TRUE(BindStores(other_.engines()).ok());
  }
  // What was asked for before this does not fail.
  void BeginFailing() {
    if (failing_.keys == nullptr) return;
    one_.connection().SetFaults([failing = failing_] {
      return failing.keys->Fails() ? failing.key_fault : StoreFault::kNone;
    });
  }
  template <typename Sweeper>
  uint64_t NumObjectsAfterSweep() {
    failing_objects_.DoLateRequests();
    cluster_.keys.DoLateRequests();
    // What was put just now is older than now.
    cluster_.clock.Advance(absl::Milliseconds(1));
    ObjectSweeper::Options options;
    options.min_age = absl::ZeroDuration();
    const auto swept = Sweeper(other_.engines(), options).Run();
    EXPECT_TRUE(swept.ok()) << swept.status();
    EXPECT_TRUE(swept.ok() && swept->is_round_over);
    return objects_.num_objects();
  }

  std::string Held() override {
    return failing_.memory == nullptr || failing_.memory->held() == 0
               ? ""
               : absl::StrCat(failing_.memory->held(), " bytes");
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  ObjectCluster cluster_;
  FakeObjectStore objects_{&cluster_.clock};

  // For the replica that is made next.
  ObjectCluster* ClusterWith(RefusedMemory* memory) {
    cluster_.memory = memory == nullptr ? nullptr : memory->budget();
    return &cluster_;
  }

 private:
  static ObjectDatasetStore::Options Options(uint64_t chunks_of_page) {
    ObjectDatasetStore::Options options;
    options.chunks_of_page = chunks_of_page;
    return options;
  }

  const Failing failing_;
  CountedSteps none_;
  StepsObjectStore failing_objects_;

 protected:
  ObjectReplica one_;
  ObjectReplica other_;
};

enum class Change { kCreate, kAppend, kAppendPage, kSeal, kDelete, kRead };

// A data set over objects.
class SharedDatasetWorld final : public SharedStoresWorld {
 public:
  SharedDatasetWorld(Change change, const Failing& failing)
      : SharedStoresWorld(failing, change == Change::kAppendPage ? 2 : 1000), change_(change) {
    DatasetStore& store = other_.store();
    if (change_ != Change::kCreate) {
      EXPECT_TRUE(store.Create("set", schema_, {}).ok());
    }
    if (change_ != Change::kCreate && change_ != Change::kAppend) {
      EXPECT_TRUE(Append(store, 1).ok());
    }
    BeginFailing();
  }
  absl::Status Attempt() override {
    switch (change_) {
      case Change::kCreate:
        return one_.store().Create("set", schema_, {}).status();
      case Change::kAppend:
      case Change::kAppendPage:
        return Append(one_.store(), 2).status();
      case Change::kSeal:
        return one_.store().Seal("set").status();
      case Change::kDelete:
        return one_.store().Delete("set");
      case Change::kRead: {
        const auto reader = one_.store().OpenReader("set");
        if (!reader.ok()) return reader.status();
        const auto report = one_.store().Verify("set", [](const VerifyProgress&) { return true; });
        if (!report.ok()) return report.status();
        EXPECT_TRUE(report->ok());
        read_ = absl::StrJoin((*reader)->graph_ids(), " ");
        return absl::OkStatus();
      }
    }
    return absl::InternalError("not reached");
  }
  std::string State() override {
    const uint64_t num_objects = NumObjectsAfterSweep<ObjectSweeper>();
    const auto info = other_.store().Get("set");
    if (absl::IsNotFound(info.status())) return absl::StrCat("none, ", num_objects, " objects");
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "unreadable";
    const auto report = other_.store().Verify("set", [](const VerifyProgress&) { return true; });
    EXPECT_TRUE(report.ok() && report->ok());
    // A page is made of chunks later, if not now.
    return absl::StrCat(info->state == DatasetState::kSealed ? "sealed" : "open", " with ",
                        info->num_graphs, " graphs in ", info->num_bytes, " bytes",
                        change_ == Change::kAppendPage ? "" : absl::StrCat(" ", num_objects),
                        " read: ", read_);
  }

 private:
  absl::StatusOr<AppendResult> Append(DatasetStore& store, uint64_t sequence) {
    Random random(sequence);
    return store.Append("set", RandomChunk(random, &schema_, 4, 9, 10 * sequence), {},
                        ProducerSequence{"p", sequence});
  }

  const Change change_;
  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}});
  std::string read_;
};

// A call is repeated by its client.
StepsOptions OptionsOf(Change change) {
  StepsOptions options;
  if (change == Change::kCreate) options.again = absl::StatusCode::kAlreadyExists;
  if (change == Change::kDelete) options.again = absl::StatusCode::kNotFound;
  options.may_all_be_survived = true;
  return options;
}

class SharedDatasetStepsTest : public testing::TestWithParam<Change> {};

TEST_P(SharedDatasetStepsTest, ARequestForKeysFails) {
  for (const StoreFault fault : kKeyFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedDatasetWorld>(GetParam(), Failing{&requests, fault});
        },
        requests, OptionsOf(GetParam()));
  }
}

TEST_P(SharedDatasetStepsTest, KeysAreAwayFromSomeStepOn) {
  FailingRequests requests(/*lasts=*/true);
  const StepsTold told = ExpectDoneOrNot(
      [&] {
        return std::make_unique<SharedDatasetWorld>(GetParam(),
                                                    Failing{&requests, StoreFault::kUnreachable});
      },
      requests, OptionsOf(GetParam()));
  EXPECT_GT(told.num_not_done, 0U);
}

INSTANTIATE_TEST_SUITE_P(Changes, SharedDatasetStepsTest,
                         testing::Values(Change::kCreate, Change::kAppend, Change::kAppendPage,
                                         Change::kSeal, Change::kDelete, Change::kRead));

// Others ask for no object: what they leave is swept.
class SharedObjectStepsTest : public testing::TestWithParam<Change> {};

TEST_P(SharedObjectStepsTest, ARequestForAnObjectFails) {
  for (const ObjectFault fault : kObjectFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedDatasetWorld>(
              GetParam(), Failing{nullptr, StoreFault::kNone, &requests, fault});
        },
        requests, OptionsOf(GetParam()));
  }
}

TEST_P(SharedObjectStepsTest, ObjectsAreAwayFromSomeStepOn) {
  for (const ObjectFault fault : {ObjectFault::kRefused, ObjectFault::kDoneLater}) {
    FailingRequests requests(/*lasts=*/true);
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedDatasetWorld>(
              GetParam(), Failing{nullptr, StoreFault::kNone, &requests, fault});
        },
        requests, OptionsOf(GetParam()));
  }
}

INSTANTIATE_TEST_SUITE_P(Changes, SharedObjectStepsTest,
                         testing::Values(Change::kAppend, Change::kAppendPage, Change::kRead));

TEST(SharedAppendStepsTest, MemoryRefused) {
  RefusedMemory memory;
  Failing failing;
  failing.memory = &memory;
  const StepsTold told = ExpectDoneOrNot(
      [&] { return std::make_unique<SharedDatasetWorld>(Change::kAppend, failing); }, memory);
  EXPECT_EQ(told.num_done, 0U);
}

// A source graph that one server has built is sealed: its pieces become objects.
class SharedGraphWorld final : public SharedStoresWorld {
 public:
  explicit SharedGraphWorld(const Failing& failing) : SharedStoresWorld(failing, 1000) {
    FileSourceGraphStore::Options files;
    files.folder = folder_.path() + "/files";
    files.min_free_bytes = 0;
    building_ = FileSourceGraphStore::Open(files).value();
    ClusterWith(failing.memory);
    store_ = Store(one_, building_.get());
    ClusterWith(nullptr);
    other_store_ = Store(other_, nullptr);
    SeededRandom random(5);
    const RowsOfGraph rows = RandomRows(random, 30, 150);
    expected_ = Expected(schema_, options_, rows);
    EXPECT_TRUE(store_->Create("a", schema_, options_).ok());
    const ChunkOfRows chunk(schema_, options_, rows);
    EXPECT_TRUE(store_->Append({"a", 0}, chunk.chunk(), ProducerSequence{"p", 1}).ok());
    BeginFailing();
  }
  absl::Status Attempt() override {
    return store_->Seal("a", SealOptions(), [](const SourceGraphProgress&) { return true; })
        .status();
  }
  std::string State() override {
    const uint64_t num_objects = NumObjectsAfterSweep<SourceGraphSweeper>();
    const auto info = other_store_->Get("a");
    EXPECT_TRUE(info.ok()) << info.status();
    if (!info.ok()) return "lost";
    if (info->state != SourceGraphState::kSealed) {
      return absl::StrCat("not sealed, ", num_objects, " objects");
    }
    const auto graph = other_store_->Open("a");
    EXPECT_TRUE(graph.ok()) << graph.status();
    const bool is_whole = graph.ok() && Read(**graph) == expected_;
    return absl::StrCat(is_whole ? "sealed" : "sealed, with other rows", ", ", num_objects,
                        " objects");
  }

 private:
  static std::unique_ptr<ObjectSourceGraphStore> Store(ObjectReplica& replica,
                                                       FileSourceGraphStore* building) {
    ObjectSourceGraphStore::Options options;
    options.upload.piece_bytes = 4096;
    options.max_cache_bytes = uint64_t{1} << 30;
    options.fetches_at_once = 2;
    if (building != nullptr) {
      options.server = "a";
      options.building = building;
    }
    return std::make_unique<ObjectSourceGraphStore>(replica.engines(), &replica.cache(), options);
  }

  const SourceGraphSchema schema_ = LawSchema();
  const SourceGraphOptions options_ = LawOptions();
  ReadGraph expected_;
  std::unique_ptr<FileSourceGraphStore> building_;
  std::unique_ptr<ObjectSourceGraphStore> store_;
  std::unique_ptr<ObjectSourceGraphStore> other_store_;
};

StepsOptions OfASharedSeal() {
  StepsOptions options;
  options.may_all_be_survived = true;
  options.most_steps = 12;
  options.each_kind = true;
  return options;
}

TEST(SharedSealStepsTest, ARequestForKeysFails) {
  for (const StoreFault fault : kKeyFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedGraphWorld>(Failing{&requests, fault});
        },
        requests, OfASharedSeal());
  }
}

TEST(SharedSealStepsTest, ARequestForAnObjectFails) {
  for (const ObjectFault fault : kObjectFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedGraphWorld>(
              Failing{nullptr, StoreFault::kNone, &requests, fault});
        },
        requests, OfASharedSeal());
  }
}

TEST(SharedSealStepsTest, MemoryRefused) {
  RefusedMemory memory;
  Failing failing;
  failing.memory = &memory;
  const StepsTold told =
      ExpectDoneOrNot([&] { return std::make_unique<SharedGraphWorld>(failing); }, memory);
  EXPECT_EQ(told.num_done, 0U);
}

// What belongs to a graph: claimed, put into the store as a whole, read, deleted.
enum class OfCompanion { kClaim, kUpload, kRead, kDelete, kRemoveGone };

class SharedCompanionWorld final : public SharedStoresWorld {
 public:
  SharedCompanionWorld(OfCompanion change, const Failing& failing)
      : SharedStoresWorld(failing, 1000), change_(change) {
    claimed_.graph = {"g", 7};
    claimed_.name = "p";
    claimed_.state = "begun";
    claimed_.server = "a:1";
    ClusterWith(failing.memory);
    store_ = Store(one_);
    ClusterWith(nullptr);
    other_store_ = Store(other_);
    PutGraph();
    for (const auto& [path, bytes] : Files()) {
      contents_.files.push_back({path, bytes.size(), Crc32c(bytes)});
      std::ofstream(folder_.path() + "/" + path) << bytes;
    }
    if (change_ != OfCompanion::kClaim) claimed_.revision = *other_store_->Put(claimed_);
    if (change_ != OfCompanion::kClaim && change_ != OfCompanion::kUpload) {
      EXPECT_TRUE(Upload(*other_store_).ok());
    }
    if (change_ == OfCompanion::kRemoveGone) {
      EXPECT_TRUE(other_.connection()
                      .Commit({{}, {Operation::Delete(KeyRange::Of(SourceGraphNameKey("g")))}, {}})
                      .ok());
    }
    BeginFailing();
  }
  absl::Status Attempt() override {
    switch (change_) {
      case OfCompanion::kClaim:
        return store_->Put(claimed_).status();
      case OfCompanion::kUpload:
        return Upload(*store_);
      case OfCompanion::kRead: {
        PH_ASSIGN_OR_RETURN(const SharedCompanion found, store_->Find(claimed_.graph, "p"));
        PH_ASSIGN_OR_RETURN(const OwnedBytes bytes, store_->Map(found, "b", 3, 5000));
        EXPECT_EQ(bytes.bytes, Files().at("b").substr(3, 5000));
        return absl::OkStatus();
      }
      case OfCompanion::kDelete:
        return store_->Delete(claimed_.graph, "p");
      case OfCompanion::kRemoveGone:
        return store_->RemoveGone();
    }
    return absl::InternalError("not reached");
  }
  std::string State() override {
    const uint64_t num_objects = NumObjectsAfterSweep<SourceGraphSweeper>();
    const auto all = other_store_->ListAll();
    EXPECT_TRUE(all.ok()) << all.status();
    if (!all.ok()) return "unreadable";
    std::string state = absl::StrCat(num_objects, " objects");
    for (const SharedCompanion& each : *all) {
      absl::StrAppend(&state, ", ", each.name, " ", each.state, " at ", each.server);
      if (!each.is_whole || change_ == OfCompanion::kRemoveGone) continue;
      for (const auto& [path, bytes] : Files()) {
        const auto read = other_store_->Map(each, path, 0, 1 << 20);
        EXPECT_TRUE(read.ok()) << read.status();
        EXPECT_TRUE(read.ok() && read->bytes == bytes);
      }
      absl::StrAppend(&state, ", whole of ", each.num_bytes);
    }
    return state;
  }

 private:
  // In several pieces, one of them of several files.
  static std::map<std::string, std::string> Files() {
    return {{"a", "some"}, {"b", std::string(9001, 'b')}, {"c", ""}, {"d", std::string(4096, 'd')}};
  }
  void PutGraph() {
    SharedGraph graph;
    graph.definition = {"g", 7, std::make_shared<const SourceGraphSchema>(LawSchema()),
                        LawOptions()};
    graph.num_nodes.resize(graph.definition.schema->node_sets().size());
    graph.num_edges.resize(graph.definition.schema->edge_sets().size());
    EXPECT_TRUE(
        other_.connection()
            .Commit({{}, {Operation::Put(SourceGraphNameKey("g"), EncodeSharedGraph(graph))}, {}})
            .ok());
  }
  absl::Status Upload(ObjectCompanions& store) {
    SharedCompanion whole = claimed_;
    whole.state = "done";
    return store.Upload(whole, folder_.path(), contents_, [] { return true; });
  }
  static std::unique_ptr<ObjectCompanions> Store(ObjectReplica& replica) {
    ObjectCompanions::Options options;
    options.upload.piece_bytes = 4096;
    options.fetches_at_once = 1;
    options.server = "a:1";
    return std::make_unique<ObjectCompanions>(replica.engines(), &replica.cache(), options);
  }

  const OfCompanion change_;
  SharedCompanion claimed_;
  CompanionContents contents_;
  std::unique_ptr<ObjectCompanions> store_;
  std::unique_ptr<ObjectCompanions> other_store_;
};

class SharedCompanionStepsTest : public testing::TestWithParam<OfCompanion> {
 protected:
  // A claim, or an upload, that is repeated is that of another revision by then.
  static StepsOptions Options() {
    StepsOptions options;
    options.may_all_be_survived = true;
    if (GetParam() == OfCompanion::kDelete) {
      options.again = absl::StatusCode::kNotFound;
    } else if (GetParam() == OfCompanion::kClaim || GetParam() == OfCompanion::kUpload) {
      options.again = absl::StatusCode::kAborted;
    }
    return options;
  }
};

TEST_P(SharedCompanionStepsTest, ARequestForKeysFails) {
  for (const StoreFault fault : kKeyFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedCompanionWorld>(GetParam(), Failing{&requests, fault});
        },
        requests, Options());
  }
}

TEST_P(SharedCompanionStepsTest, KeysAreAwayFromSomeStepOn) {
  FailingRequests requests(/*lasts=*/true);
  ExpectDoneOrNot(
      [&] {
        return std::make_unique<SharedCompanionWorld>(GetParam(),
                                                      Failing{&requests, StoreFault::kUnreachable});
      },
      requests, Options());
}

TEST_P(SharedCompanionStepsTest, ARequestForAnObjectFails) {
  // The others ask for keys alone.
  if (GetParam() != OfCompanion::kUpload && GetParam() != OfCompanion::kRead) return;
  for (const ObjectFault fault : kObjectFaults) {
    SCOPED_TRACE(static_cast<int>(fault));
    FailingRequests requests;
    ExpectDoneOrNot(
        [&] {
          return std::make_unique<SharedCompanionWorld>(
              GetParam(), Failing{nullptr, StoreFault::kNone, &requests, fault});
        },
        requests, Options());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedCompanionStepsTest,
                         testing::Values(OfCompanion::kClaim, OfCompanion::kUpload,
                                         OfCompanion::kRead, OfCompanion::kDelete,
                                         OfCompanion::kRemoveGone));

}  // namespace
}  // namespace packhouse
