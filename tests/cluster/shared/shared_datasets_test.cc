// What servers share over an S3 store, which is one of the test's here: how it is opened, what it
// is made of, and what a sweep of all of it says.
#include "service/wings/cluster/shared/shared_datasets.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/clock.h"
#include "service/base/seeded_random.h"
#include "service/base/status_macros.h"
#include "service/stores/limits/data_folder.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/cluster/shared/store_uri.h"
#include "tests/objects/small_s3.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/etcd_process.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

class SharedDatasetsTest : public ::testing::Test {
 protected:
  SharedDatasetsTest() {
    keys_.SetForgetful(false);
    std::ofstream(folder_.path() + "/credentials")
        << "[default]\naws_access_key_id = a\naws_secret_access_key = s\n";
  }
  SharedDatasetsOptions Options(const std::string& server) {
    SharedDatasetsOptions options;
    options.uri = "s3://b";
    options.endpoint = s3_.endpoint();
    options.credentials_file = folder_.path() + "/credentials";
    options.cache_folder = absl::StrCat(folder_.path(), "/cache", server);
    options.cache_bytes = 1 << 20;
    options.server = server;
    return options;
  }
  absl::StatusOr<std::unique_ptr<SharedDatasets>> Open(
      const SharedDatasetsOptions& options,
      SharedDatasets::Binding binding = SharedDatasets::Binding::kNow) {
    return SharedDatasets::Open(options, &connection_, &clock_, binding);
  }
  absl::Status Append(SharedDatasets& shared, uint64_t seed) {
    Random random(seed);
    return shared.store()
        ->Append("set", RandomChunk(random, &schema_, 3, 9, seed << 20), {},
                 ProducerSequence{"p", seed})
        .status();
  }

  const GraphSchema schema_ =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const SystemClock clock_;
  SimulatedClock of_keys_;
  FakeKeyValueServers keys_{&of_keys_};
  FakeConnection connection_{&keys_};
  SmallS3 s3_;
};

TEST_F(SharedDatasetsTest, WhatIsWrongWithAnOptionIsSaid) {
  using Change = std::function<void(SharedDatasetsOptions&)>;
  for (const auto& [change, code, why] :
       std::vector<std::tuple<Change, absl::StatusCode, std::string>>{
           {[](auto& o) { o.uri = "b"; }, absl::StatusCode::kInvalidArgument, "s3://"},
           {[](auto& o) { o.credentials_file += "x"; }, absl::StatusCode::kNotFound,
            "credentialsx"},
           {[](auto& o) { o.endpoint = "x:1"; }, absl::StatusCode::kInvalidArgument, "'x:1'"},
           {[](auto& o) { o.region = "a b"; }, absl::StatusCode::kInvalidArgument, "'a b'"},
           {[](auto& o) { o.cache_folder = "/proc/x"; }, absl::StatusCode::kNotFound, "/proc/x"},
       }) {
    SharedDatasetsOptions options = Options("a:1");
    change(options);
    EXPECT_THAT(Open(options), StatusIs(code, HasSubstr(why)));
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto first, Open(Options("a:1")));
  EXPECT_THAT(Open(Options("a:1")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process")));
}

TEST_F(SharedDatasetsTest, TheTwoStoresAreBoundOrLeft) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto read, Open(Options("a:1"), SharedDatasets::Binding::kNever));
    EXPECT_EQ(s3_.num_requests, 0);
    EXPECT_THAT(read->ConfirmObjects(), IsOk());
  }
  EXPECT_TRUE(s3_.Keys().empty());
  SharedDatasetsOptions below = Options("a:1");
  below.uri = "s3://b/p/q";
  ASSERT_THAT(Open(below), IsOk());
  EXPECT_THAT(s3_.Keys(), testing::ElementsAre("p/q/store"));
  ASSERT_THAT(s3_.objects.Delete("p/q/store", absl::InfiniteFuture()), IsOk());
  ASSERT_THAT(connection_.Commit({{}, {Operation::Delete(KeyRange::Prefix("ds/"))}, {}}), IsOk());
  for (const auto binding : {SharedDatasets::Binding::kNow, SharedDatasets::Binding::kNowOrLater}) {
    ASSERT_THAT(Open(Options("a:1"), binding), IsOk());
    EXPECT_THAT(s3_.Keys(), testing::ElementsAre("store"));
    ASSERT_THAT(s3_.objects.Put("store", "another", absl::InfiniteFuture()), IsOk());
    EXPECT_THAT(Open(Options("a:1"), binding),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not belong")));
    ASSERT_THAT(s3_.objects.Delete("store", absl::InfiniteFuture()), IsOk());
    ASSERT_THAT(connection_.Commit({{}, {Operation::Delete(KeyRange::Prefix("ds/"))}, {}}), IsOk());
  }
}

TEST_F(SharedDatasetsTest, ServersShareAll) {
  SharedDatasetsOptions options = Options("a:1");
  options.sweep_period = absl::Minutes(7);
  options.lives = [](absl::string_view server) { return server == "b:1"; };
  PH_ASSERT_OK_AND_ASSIGN(const auto a, Open(options));
  PH_ASSERT_OK_AND_ASSIGN(const auto b, Open(Options("b:1")));
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, Open(Options("")));
  EXPECT_EQ(a->sweep_period(), absl::Minutes(7));
  EXPECT_EQ(a->companions()->server(), "a:1");
  EXPECT_EQ(a->companions()->folder(), options.cache_folder + "/companions");
  EXPECT_THAT(a->ConfirmObjects(), IsOk());
  EXPECT_THAT(a->objects_status(), IsOk());
  ASSERT_THAT(a->store()->Create("set", schema_, {}), IsOk());
  for (uint64_t seed = 1; seed <= 3; ++seed) ASSERT_THAT(Append(*a, seed), IsOk());
  EXPECT_EQ(b->store()->Get("set")->num_graphs, 9U);
  const auto opened = b->store()->OpenReader("set");
  ASSERT_THAT(opened, IsOk());
  EXPECT_EQ((*opened)->graph_ids().size(), 9U);
  const SharedDatasets::Counts counts = b->counts();
  EXPECT_EQ(counts.cache.misses, 3U);
  EXPECT_EQ(counts.max_cache_bytes, 1U << 20);
  EXPECT_EQ(counts.num_retries, 0U);
  // Graphs are built by those that have a name.
  const SourceGraphSchema schema =
      SourceGraphSchema::Create({{"n", {}}}, {{"e", 0, 0, {}, std::nullopt}}).value();
  EXPECT_THAT(a->source_graphs()->Create("g", schema, SourceGraphOptions()), IsOk());
  EXPECT_THAT(
      b->source_graphs()->Seal("g", SealOptions(), [](const SourceGraphProgress&) { return true; }),
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a:1")));
  EXPECT_THAT(reader->source_graphs()->Create("h", schema, SourceGraphOptions()),
              StatusIs(absl::StatusCode::kUnimplemented, _));
  EXPECT_THAT(
      a->source_graphs()->Seal("g", SealOptions(), [](const SourceGraphProgress&) { return true; }),
      IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo sealed, reader->source_graphs()->Get("g"));
  SharedCompanion wanted;
  wanted.graph = {"g", sealed.id};
  wanted.name = "p";
  wanted.server = "c:1";
  ASSERT_THAT(b->companions()->Put(wanted), IsOk());
  EXPECT_FALSE(a->companions()->Find(wanted.graph, "p")->server_lives);
  EXPECT_TRUE(b->companions()->Find(wanted.graph, "p")->server_lives);
}

// Whatever is beyond one of them is refused; without it, it is taken.
TEST_F(SharedDatasetsTest, BoundsAreThoseOfTheOptions) {
  int num_made = 0;
  const auto make_graph = [&](SharedDatasets& in, std::string* name = nullptr) {
    const std::string own = absl::StrCat("g", ++num_made);
    if (name != nullptr) *name = own;
    SeededRandom random(1);
    const ChunkOfRows rows(LawSchema(), LawOptions(), RandomRows(random, 4, 9));
    PH_RETURN_IF_ERROR(in.source_graphs()->Create(own, LawSchema(), LawOptions()).status());
    return in.source_graphs()->Append({own, 0}, rows.chunk(), std::nullopt).status();
  };
  const auto seal_graph = [&](SharedDatasets& in, std::string* name = nullptr) {
    std::string own;
    PH_RETURN_IF_ERROR(make_graph(in, &own));
    if (name != nullptr) *name = own;
    return in.source_graphs()
        ->Seal(own, SealOptions(), [](const SourceGraphProgress&) { return true; })
        .status();
  };
  PH_ASSERT_OK_AND_ASSIGN(const auto a, Open(Options("a:1")));
  ASSERT_THAT(a->store()->Create("set", schema_, {}), IsOk());
  ASSERT_THAT(Append(*a, 1), IsOk());
  std::string graph;
  ASSERT_THAT(seal_graph(*a, &graph), IsOk());
  const CompanionGraph of = {graph, a->source_graphs()->Get(graph)->id};
  const std::string bytes(4000, 'f');
  std::ofstream(folder_.path() + "/file") << bytes;
  const auto upload = [&](SharedDatasets& in, const std::string& name) {
    SharedCompanion own;
    own.graph = of;
    own.name = name;
    PH_ASSIGN_OR_RETURN(own.revision, in.companions()->Put(own));
    return in.companions()->Upload(own, folder_.path(),
                                   {{{"file", bytes.size(), Crc32c(bytes)}}, "summary"},
                                   [] { return true; });
  };
  ASSERT_THAT(upload(*a, "whole"), IsOk());

  using Change = void (*)(SharedDatasetsOptions&);
  using Call = std::function<absl::Status(SharedDatasets&)>;
  const Change max_bytes = [](SharedDatasetsOptions& o) { o.max_bytes = 1; };
  const Change memory = [](SharedDatasetsOptions& o) { o.memory_bytes = 1; };
  const Change cache = [](SharedDatasetsOptions& o) { o.cache_bytes = 100; };
  const Call append = [&](SharedDatasets& in) { return Append(in, ++num_made + 10); };
  const Call seal = [&](SharedDatasets& in) { return seal_graph(in); };
  const std::vector<std::tuple<std::string, Change, Call>> all = {
      {"max_bytes", max_bytes, seal},
      {"max_bytes", max_bytes,
       [&](SharedDatasets& in) { return upload(in, absl::StrCat("p", ++num_made)); }},
      {"at most 1", max_bytes, append},
      {"", memory, append},
      {"", memory, seal},
      {"max_bytes", cache,
       [](SharedDatasets& in) {
         PH_ASSIGN_OR_RETURN(const auto reader, in.store()->OpenReader("set"));
         return reader->Graph(0).status();
       }},
      {"--cache-bytes", cache,
       [&](SharedDatasets& in) { return in.source_graphs()->OpenSealed(graph).status(); }},
      {"--cache-bytes", cache,
       [&](SharedDatasets& in) {
         PH_ASSIGN_OR_RETURN(const SharedCompanion whole, in.companions()->Find(of, "whole"));
         return in.companions()->Map(whole, "file", 0, bytes.size()).status();
       }},
      {"", [](SharedDatasetsOptions& o) { o.max_building_bytes = 1; },
       [&](SharedDatasets& in) { return make_graph(in); }},
      {"", [](SharedDatasetsOptions& o) { o.max_building = 1; },
       [&](SharedDatasets& in) {
         PH_RETURN_IF_ERROR(make_graph(in));
         return make_graph(in);
       }},
  };
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    const auto& [why, change, call] = all[i];
    EXPECT_THAT(call(*a), IsOk());
    SharedDatasetsOptions options = Options(absl::StrCat("b:", i));
    change(options);
    PH_ASSERT_OK_AND_ASSIGN(const auto b, Open(options));
    EXPECT_THAT(call(*b), StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(why)));
  }
}

// Of objects of both kinds; what a step says is added up.
TEST_F(SharedDatasetsTest, ASweepIsOfAll) {
  PH_ASSERT_OK_AND_ASSIGN(const auto a, Open(Options("a:1")));
  const auto put = [&](const std::string& key, const std::string& bytes) {
    ASSERT_THAT(s3_.objects.Put(key, bytes, absl::InfiniteFuture()), IsOk());
  };
  const auto expect_counts = [&](uint64_t objects, uint64_t bytes, uint64_t orphans,
                                 uint64_t failed) {
    const SharedDatasets::Counts counts = a->counts();
    EXPECT_EQ(counts.swept_objects, objects);
    EXPECT_EQ(counts.swept_bytes, bytes);
    EXPECT_EQ(counts.orphaned_objects, orphans);
    EXPECT_EQ(counts.failed_sweeps, failed);
  };
  put(ChunkObject(1, 1), "one");
  put(ChunkObject(1, 2), "other");
  put(SourceGraphPieceObject(7, 0, 1), "piece of a graph");
  // Of a deleted one; and of a companion whose graph is gone.
  put(SourceGraphPieceObject(8, 0, 1), "8");
  ASSERT_THAT(connection_.Commit({{}, {Operation::Put(GoneSourceGraphKey(8), "g")}, {}}), IsOk());
  StoredCompanion companion;
  companion.companion.graph = {"gone", 5};
  const std::string of_companion = CompanionKey(5, "p");
  const auto put_companion = [&] {
    ASSERT_THAT(
        connection_.Commit({{}, {Operation::Put(of_companion, EncodeCompanion(companion))}, {}}),
        IsOk());
  };
  put_companion();
  PH_ASSERT_OK_AND_ASSIGN(const ObjectSweeper::Step step, a->Sweep());
  EXPECT_EQ(step.num_listed, 3U);
  EXPECT_EQ(step.num_deleted, 4U);
  EXPECT_EQ(step.num_bytes, 25U);
  EXPECT_EQ(step.num_orphans, 3U);
  expect_counts(4, 25, 3, 0);
  EXPECT_THAT(s3_.Keys(), testing::ElementsAre("store"));
  EXPECT_FALSE(connection_.Get(of_companion).value().has_value());
  // What fails for one may work for the others.
  put_companion();
  s3_.refuses = true;
  EXPECT_THAT(a->Sweep(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("403")));
  s3_.refuses = false;
  EXPECT_FALSE(connection_.Get(of_companion).value().has_value());
  expect_counts(4, 25, 3, 1);
  put(ChunkObject(2, 1), "more");
  put(SourceGraphPieceObject(9, 0, 1), "piece");
  ASSERT_THAT(connection_.Commit({{}, {Operation::Put(SourceGraphNameKey("bad"), "?")}, {}}),
              IsOk());
  companion.companion.graph = {"bad", 6};
  put_companion();
  EXPECT_THAT(a->Sweep(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'bad'")));
  expect_counts(6, 34, 5, 2);
}

// By the store's own means; what is for ever is not noted.
TEST_F(SharedDatasetsTest, UsesAreOfBothKinds) {
  PH_ASSERT_OK_AND_ASSIGN(const auto a, Open(Options("a:1")));
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo set, a->store()->Create("set", schema_, {}));
  const SourceGraphSchema schema =
      SourceGraphSchema::Create({{"n", {}}}, {{"e", 0, 0, {}, std::nullopt}}).value();
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo graph,
                          a->source_graphs()->Create("graph", schema, SourceGraphOptions()));
  SharedUses::Options options;
  options.retention = *ParseRetention("8h");
  options.now = [this] { return of_keys_.Now(); };
  const auto nobody = [](absl::FunctionRef<void(const std::string&)>) {};
  for (const bool is_set : {true, false}) {
    SCOPED_TRACE(is_set);
    const auto make = [&](const SharedUses::Options& of) {
      return is_set ? a->DatasetUses(of) : a->SourceGraphUses(of);
    };
    const std::string kind = is_set ? "ds" : "sg";
    const std::string name = is_set ? "set" : "graph";
    const uint64_t id = is_set ? set.id : graph.id;
    PH_ASSERT_OK_AND_ASSIGN(const MakeUses made, make(options));
    Uses uses = made(nobody);
    EXPECT_THAT(uses.Use("none"), IsOk());
    EXPECT_THAT(uses.Use(name), IsOk());
    const std::string key = absl::StrCat("uses/", kind, "/of/", name);
    EXPECT_EQ(connection_.Get(key).value()->value,
              absl::StrCat("0 ", absl::Hex(id, absl::kZeroPad16)));
    EXPECT_FALSE(connection_.Get(absl::StrCat("uses/", kind, "/of/none")).value().has_value());
    // It is deleted once nobody has used it for so long.
    ASSERT_THAT(connection_.Commit(
                    {{}, {Operation::Put(absl::StrCat("uses/", kind, "/seconds"), "1000000")}, {}}),
                IsOk());
    EXPECT_THAT(uses.shared()->BeginSweep(), IsOk());
    EXPECT_THAT(uses.shared()->RemoveIfUnused(name, id),
                IsOkAndHolds(std::optional<absl::Duration>(absl::Seconds(1'000'000))));
    const absl::Status gone =
        is_set ? a->store()->Get(name).status() : a->source_graphs()->Get(name).status();
    EXPECT_THAT(gone, StatusIs(absl::StatusCode::kNotFound, _));
    SharedUses::Options for_ever = options;
    for_ever.retention = Retention();
    PH_ASSERT_OK_AND_ASSIGN(const MakeUses none, make(for_ever));
    EXPECT_TRUE(none == nullptr);
    const std::string all = absl::StrCat("uses/", kind, "/");
    EXPECT_TRUE(connection_.Range(KeyRange::Prefix(all), 0, 0)->values.empty());
  }
}

TEST_F(SharedDatasetsTest, AStoreIsNamedByItsAddress) {
  StoreAddress address;
  const auto open = [&](const std::string& uri, bool may_make = false) {
    address.uri = uri;
    return OpenStore(address, may_make, &clock_);
  };
  for (const char* const uri : {"", "lmdb:", "file:x", "S3://b"}) {
    EXPECT_THAT(open(uri), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a store is")));
  }
  EXPECT_THAT(open("s3://b"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("--ledger")));
  const std::string data = "lmdb:" + folder_.path() + "/data";
  EXPECT_THAT(open(data), StatusIs(absl::StatusCode::kNotFound, HasSubstr("is no data folder")));
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto made, open(data, true));
    EXPECT_THAT(made->store()->Create("set", schema_, {}), IsOk());
  }
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto found, open(data));
    EXPECT_THAT(found->store()->Get("set"), IsOk());
    EXPECT_THAT(found->source_graphs(), IsOkAndHolds(nullptr));
  }
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto found, open(data, true));
    PH_ASSERT_OK_AND_ASSIGN(SealedGraphStore* const graphs, found->source_graphs());
    ASSERT_NE(graphs, nullptr);
    EXPECT_THAT(found->source_graphs(), IsOkAndHolds(graphs));
  }
  {
    // Each of the two has the bound.
    address.max_bytes = 1;
    PH_ASSERT_OK_AND_ASSIGN(const auto full, open(data));
    Random random(1);
    EXPECT_THAT(full->store()->Append("set", RandomChunk(random, &schema_, 3, 9, 0), {}, {}),
                StatusIs(absl::StatusCode::kResourceExhausted, _));
    PH_ASSERT_OK_AND_ASSIGN(SealedGraphStore* const graphs, full->source_graphs());
    ASSERT_NE(graphs, nullptr);
    SeededRandom rows_of(1);
    const ChunkOfRows rows(LawSchema(), LawOptions(), RandomRows(rows_of, 4, 9));
    ASSERT_THAT(graphs->Create("g", LawSchema(), LawOptions()), IsOk());
    EXPECT_THAT(graphs->Append({"g", 0}, rows.chunk(), std::nullopt),
                StatusIs(absl::StatusCode::kResourceExhausted, _));
  }
  EXPECT_FALSE(open("lmdb:/proc/none", true).ok());
  std::ofstream(folder_.path() + "/data/" + kRestoringMark) << "";
  EXPECT_THAT(open(data), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  // Of the ledger, each file that cannot be read.
  LedgerAddress ledger;
  ledger.uri = "http://h";
  EXPECT_THAT(ConnectLedger(ledger), StatusIs(absl::StatusCode::kInvalidArgument, _));
  ledger.uri = "etcd://127.0.0.1:1";
  EXPECT_THAT(ConnectLedger(ledger), IsOk());
  for (std::string LedgerAddress::*file :
       {&LedgerAddress::roots_file, &LedgerAddress::certificate_file, &LedgerAddress::key_file}) {
    ledger.*file = folder_.path() + "/none";
    EXPECT_THAT(ConnectLedger(ledger), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
    (ledger.*file).clear();
  }
  ledger.user = "u:p";
  EXPECT_THAT(ConnectLedger(ledger),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("in plain text")));
  // An endpoint to which all would go in plain text.
  address.ledger.uri = "etcd://127.0.0.1:1";
  address.shared = Options("");
  address.shared.endpoint = "http://s3.example.org";
  EXPECT_THAT(open("s3://b"), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("https://")));
  address.allows_plain_text = true;
  address.cache_parent = folder_.path() + "/none";
  EXPECT_THAT(open("s3://b"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/none")));
  address.cache_parent = folder_.path();
  EXPECT_THAT(open("b"), StatusIs(absl::StatusCode::kInvalidArgument, _));
  address.shared.credentials_file = "/nowhere";
  EXPECT_THAT(open("s3://b"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere")));
  // Its folder goes with it.
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    EXPECT_THAT(entry.path().filename().string(),
                testing::Not(testing::StartsWith("packhouse-cache-")));
  }
}

TEST_F(SharedDatasetsTest, AStoreInS3HasACacheThatGoesWithIt) {
  if (EtcdProcess::Program().empty()) GTEST_SKIP() << "no etcd here: Debian's etcd-server";
  const EtcdProcess etcd;
  StoreAddress address;
  address.uri = "s3://b/p";
  address.ledger.uri = absl::StrCat("etcd://", etcd.address());
  address.ledger.timeout = absl::Seconds(10);
  address.shared = Options("");
  address.cache_parent = folder_.path();
  const auto folders = [&] {
    size_t number = 0;
    for (const auto& each : std::filesystem::directory_iterator(folder_.path())) {
      number += each.is_directory() ? 1 : 0;
    }
    return number;
  };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto opened, OpenStore(address, false, &clock_));
    EXPECT_THAT(s3_.Keys(), testing::ElementsAre("p/store"));
    ASSERT_THAT(opened->store()->Create("set", schema_, {}), IsOk());
    Random random(1);
    ASSERT_THAT(opened->store()->Append("set", RandomChunk(random, &schema_, 3, 9, 0), {}, {}),
                IsOk());
    EXPECT_THAT(opened->store()->OpenReader("set"), IsOk());
    EXPECT_THAT(opened->source_graphs().value()->Get("g"),
                StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_EQ(folders(), 1U);
    EXPECT_FALSE(std::filesystem::exists(address.shared.cache_folder));
  }
  EXPECT_EQ(folders(), 0U);
}

}  // namespace
}  // namespace packhouse
