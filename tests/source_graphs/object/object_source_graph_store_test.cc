// The laws of source graphs that servers share over an object store.
#include "service/wings/cluster/graphs/object_source_graph_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/checksum.h"
#include "service/base/seeded_random.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/graph_sweeper.h"
#include "service/wings/cluster/graphs/joined_objects.h"
#include "service/wings/cluster/graphs/object_companions.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"
#include "service/wings/graphs/source_graphs/quota_source_graph_store.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/source_graphs/stored/random_source_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kGoOnCopying = [](const SourceGraphProgress&) { return true; };

// Does something of a test's before each Put of a piece, each Get of one, and one of a manifest.
class WatchedStore final : public ObjectStore {
 public:
  explicit WatchedStore(ObjectStore* store) : store_(store) {}

  std::function<void()> before_piece;
  std::function<void()> before_get_of_piece;
  std::function<void()> before_get_of_manifest;

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override {
    if (before_piece && key.find("/p/") != absl::string_view::npos) before_piece();
    return store_->Put(key, bytes, deadline);
  }
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override {
    if (before_get_of_piece && key.find("/p/") != absl::string_view::npos) before_get_of_piece();
    if (before_get_of_manifest && key.find("/m/") != absl::string_view::npos) {
      std::exchange(before_get_of_manifest, nullptr)();
    }
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

class ObjectSourceGraphStoreTest : public testing::Test {
 protected:
  // A server, or a command: its way to the engines, its cache, and what it builds.
  struct Server {
    std::unique_ptr<ObjectReplica> replica;
    std::unique_ptr<FileSourceGraphStore> building;
    std::unique_ptr<ObjectSourceGraphStore> store;
    std::string cache;
  };
  // An empty name: it builds nothing. A name that was there before has what was built there.
  Server Start(const std::string& name = "", uint64_t cache_bytes = uint64_t{1} << 30,
               StoreFaults faults = nullptr) {
    Server server;
    server.cache = reused_cache_.empty() ? absl::StrCat(folder_.path(), "/cache", ++num_servers_)
                                         : reused_cache_;
    server.replica = std::make_unique<ObjectReplica>(&cluster_, &watched_, server.cache,
                                                     ObjectDatasetStore::Options(), cache_bytes,
                                                     std::move(faults));
    ObjectSourceGraphStore::Options options;
    options.upload.piece_bytes = 4096;
    options.upload.max_bytes = max_bytes_;
    options.max_cache_bytes = cache_bytes;
    options.fetches_at_once = 2;
    if (!name.empty()) {
      server.building = Files(name);
      options.server = name;
      options.building = server.building.get();
    }
    server.store = std::make_unique<ObjectSourceGraphStore>(server.replica->engines(),
                                                            &server.replica->cache(), options);
    return server;
  }
  std::unique_ptr<FileSourceGraphStore> Files(const std::string& name) {
    FileSourceGraphStore::Options options;
    options.folder = absl::StrCat(folder_.path(), "/files-", name);
    options.min_free_bytes = 0;
    return FileSourceGraphStore::Open(options).value();
  }
  RowsOfGraph Rows(uint64_t seed) const {
    SeededRandom random(seed);
    return RandomRows(random, 40, 200);
  }
  void Fill(SourceGraphStore& store, const std::string& name, uint64_t seed) {
    ASSERT_THAT(store.Create(name, schema_, options_), IsOk());
    ASSERT_THAT(Append(store, name, seed), IsOk());
  }
  absl::StatusOr<SourceAppendResult> Append(SourceGraphStore& store, const std::string& name,
                                            uint64_t seed) {
    const ChunkOfRows chunk(schema_, options_, Rows(seed));
    return store.Append({name, 0}, chunk.chunk(), ProducerSequence{"p", 1});
  }
  absl::Status Seal(SourceGraphStore& store, const std::string& name) {
    return store.Seal(name, SealOptions(), kGoOnCopying).status();
  }
  ReadGraph Given(uint64_t seed) const { return Expected(schema_, options_, Rows(seed)); }
  static ReadGraph ReadOf(const SourceGraphStore& store, const std::string& name) {
    const auto graph = store.Open(name);
    EXPECT_THAT(graph, IsOk());
    return graph.ok() ? Read(**graph) : ReadGraph();
  }
  absl::StatusOr<ObjectSweeper::Step> Sweep(Server& server,
                                            absl::Duration min_age = absl::ZeroDuration()) {
    // What was put just now is older than now.
    cluster_.clock.Advance(absl::Milliseconds(1));
    EXPECT_THAT(BindStores(Start().replica->engines()), IsOk());
    ObjectSweeper::Options options;
    options.min_age = min_age;
    return SourceGraphSweeper(server.replica->engines(), options).Run();
  }
  // Of all that the store has.
  uint64_t TotalBytes() {
    const auto read = Start().replica->connection().Get(kStoreTotalsKey);
    return DecodeObjectTotals(read.value()->value)->num_bytes;
  }
  std::vector<std::string> Objects() {
    std::vector<std::string> names;
    const auto list = fake_.List("g/", "", 0, absl::InfiniteFuture());
    for (const ObjectInfo& object : list->objects) names.push_back(object.key);
    return names;
  }
  std::string AnyPiece() {
    for (const std::string& name : Objects()) {
      if (name.find("/p/") != std::string::npos) return name;
    }
    return "";
  }
  // How many keys of source graphs there are.
  size_t NumKeys() {
    auto read = Start().replica->connection().Range(KeyRange::Prefix("sg/"), 0, 0);
    return read.ok() ? read->values.size() : 0;
  }

  const SourceGraphSchema schema_ = LawSchema();
  const SourceGraphOptions options_ = LawOptions();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  int num_servers_ = 0;
  std::string reused_cache_;  // Of the next server; empty: one of its own.
  uint64_t max_bytes_ = 0;
  ObjectCluster cluster_;
  FakeObjectStore fake_{&cluster_.clock};
  WatchedStore watched_{&fake_};
};

// Names of objects and keys of numbers, and nothing else.
TEST(SharedGraphValuesTest, NumbersAreReadFromNames) {
  uint64_t objects = 0;
  for (const std::string& name : {SourceGraphBegunObject(0xab), SourceGraphManifestObject(0xab, 7),
                                  SourceGraphPieceObject(0xab, 3, 7)}) {
    objects = 0;
    EXPECT_TRUE(ParseSourceGraphObject(name, objects)) << name;
    EXPECT_EQ(objects, 0xabU);
    EXPECT_TRUE(name.starts_with(SourceGraphObjects(0xab)));
  }
  EXPECT_EQ(SourceGraphPieceObject(0xab, 3, 7), "g/00000000000000ab/p/00000003-00000007");
  EXPECT_EQ(SourceGraphManifestObject(0xab, 7), "g/00000000000000ab/m/00000007");
  for (const char* const name : {"", "g/", "g/00000000000000ab", "g/0000000000000ab/x/1",
                                 "g/00000000000000ag/m/1", "h/00000000000000ab/m/1"}) {
    EXPECT_FALSE(ParseSourceGraphObject(name, objects)) << name;
  }
  for (const auto& [key, prefix] : std::vector<std::pair<std::string, absl::string_view>>{
           {SourceGraphObjectsKey(0xab), kSourceGraphIds},
           {SourceGraphUploadKey(0xab), kSourceGraphUploads},
           {GoneSourceGraphKey(0xab), kGoneSourceGraphs}}) {
    objects = 0;
    EXPECT_TRUE(ParseSourceGraphKey(key, prefix, objects)) << key;
    EXPECT_EQ(objects, 0xabU);
    EXPECT_FALSE(ParseSourceGraphKey(key + "0", prefix, objects));
    EXPECT_FALSE(ParseSourceGraphKey(key.substr(0, key.size() - 1), prefix, objects));
    EXPECT_FALSE(ParseSourceGraphKey(key.substr(0, key.size() - 1) + "g", prefix, objects));
    EXPECT_FALSE(ParseSourceGraphKey("x" + key, prefix, objects));
  }
  EXPECT_EQ(NameInCompanionKey(CompanionKey(0xab, "p/q")), "p/q");
  EXPECT_EQ(NameInCompanionKey("sg/with/00ab"), "");
}

TEST(SharedGraphValuesTest, CompanionsAreReadAsTheyWereWritten) {
  StoredCompanion stored;
  stored.companion.graph = {"team/g", 0xab};
  stored.companion.state = "state";
  stored.companion.server = "a:1";
  stored.companion.num_bytes = 4;
  stored.object = {1, 2, 3};
  const std::string value = EncodeCompanion(stored);
  PH_ASSERT_OK_AND_ASSIGN(const StoredCompanion read,
                          DecodeCompanion({CompanionKey(0xab, "p"), value, 5, 6, 0}));
  EXPECT_EQ(read.companion.graph.name, "team/g");
  EXPECT_EQ(read.companion.graph.id, 0xabU);
  EXPECT_EQ(read.companion.name, "p");
  EXPECT_EQ(read.companion.state, "state");
  EXPECT_EQ(read.companion.server, "a:1");
  EXPECT_EQ(read.companion.num_bytes, 4U);
  EXPECT_EQ(read.companion.revision, 6U);
  EXPECT_TRUE(read.companion.is_whole);
  EXPECT_EQ(read.object.objects, 1U);
  EXPECT_EQ(read.object.num_bytes, 2U);
  EXPECT_EQ(read.object.crc, 3U);
  stored.object = {};
  EXPECT_FALSE(DecodeCompanion({CompanionKey(1, "p"), EncodeCompanion(stored), 5, 6, 0})
                   ->companion.is_whole);
  const std::string good = CompanionKey(0xab, "p");
  for (const auto& [key, bytes] :
       std::vector<std::pair<std::string, std::string>>{{CompanionKey(0xab, ""), value},
                                                        {"sg/name/00000000000000ab/p", value},
                                                        {"sg/with/00000000000000ab.p", value},
                                                        {"sg/with/00000000000000ag/p", value},
                                                        {good, value.substr(0, value.size() - 1)},
                                                        {good, value + "x"}}) {
    EXPECT_THAT(DecodeCompanion({key, bytes, 5, 6, 0}),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(key)));
  }
  // As many pieces as the files need, each at a multiple of the alignment.
  constexpr uint64_t kUnit = kArrayAlignment;
  SharedCompanionManifest manifest;
  manifest.contents = {{{"a", 1, 11}, {"none", 0, 12}, {"b", kUnit + 1, 13}}, "summary"};
  const ArrayPlaces places = PlacesOf(manifest.contents.files);
  EXPECT_THAT(places.offsets, testing::ElementsAre(0U, kUnit, kUnit));
  EXPECT_EQ(places.num_bytes, 2 * kUnit + 1);
  manifest.pieces = {0, places.num_bytes, kUnit, {7, 8, 9}};
  PH_ASSERT_OK_AND_ASSIGN(const SharedCompanionManifest again,
                          DecodeCompanionManifest("p", EncodeCompanionManifest(manifest)));
  ASSERT_EQ(again.contents.files.size(), 3U);
  EXPECT_EQ(again.contents.files[2].path, "b");
  EXPECT_EQ(again.contents.files[2].num_bytes, kUnit + 1);
  EXPECT_EQ(again.contents.files[2].crc32c, 13U);
  EXPECT_EQ(again.contents.summary, "summary");
  EXPECT_EQ(again.pieces.num_bytes, places.num_bytes);
  EXPECT_EQ(again.pieces.piece_bytes, kUnit);
  EXPECT_THAT(again.pieces.crcs, testing::ElementsAre(7U, 8U, 9U));
  const auto read_with = [&](uint64_t piece_bytes, size_t num_pieces, uint64_t last_bytes) {
    manifest.contents.files[2].num_bytes = last_bytes;
    manifest.pieces.piece_bytes = piece_bytes;
    manifest.pieces.crcs.assign(num_pieces, 7);
    return DecodeCompanionManifest("p", EncodeCompanionManifest(manifest)).status();
  };
  EXPECT_THAT(read_with(kUnit, 2, kUnit), IsOk());
  EXPECT_THAT(read_with(2 * kUnit, 1, kUnit), IsOk());
  EXPECT_THAT(read_with(2 * kUnit, 2, kUnit + 1), IsOk());
  const auto malformed = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'p'"));
  EXPECT_THAT(read_with(kUnit, 3, kUnit), malformed);
  EXPECT_THAT(read_with(kUnit, 1, kUnit), malformed);
  EXPECT_THAT(read_with(2 * kUnit, 1, kUnit + 1), malformed);
  EXPECT_THAT(read_with(0, 2, kUnit), malformed);
  EXPECT_THAT(read_with(kUnit + 1, 2, kUnit), malformed);
  const std::string bytes = EncodeCompanionManifest(manifest);
  EXPECT_THAT(DecodeCompanionManifest("p", bytes.substr(0, bytes.size() - 1)), malformed);
}

// Of whichever key, or object, of another graph: nothing of it is shown as this one's.
TEST_F(ObjectSourceGraphStoreTest, ValuesOfOtherGraphsAreDamage) {
  Server a = Start("a");
  for (const char* const name : {"g", "h"}) {
    Fill(*a.store, name, name[0]);
    ASSERT_THAT(Seal(*a.store, name), IsOk());
  }
  KeyValueStore& keys = a.replica->connection();
  const std::string value = keys.Get(SourceGraphNameKey("g")).value()->value;
  const SharedGraph graph = DecodeSharedGraph("g", value).value();
  EXPECT_EQ(EncodeSharedGraph(graph), value);
  EXPECT_THAT(DecodeSharedGraph("h", value),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'h'")));
  const SharedGraph other =
      DecodeSharedGraph("h", keys.Get(SourceGraphNameKey("h")).value()->value).value();
  using Change = std::function<void(SharedGraph&)>;
  for (const auto& [what, change] : std::vector<std::pair<std::string, Change>>{
           {"of another", [&](SharedGraph& changed) { changed.object = other.object; }},
           {"of another", [](SharedGraph& changed) { ++changed.version; }},
           {"of another", [](SharedGraph& changed) { ++changed.num_nodes[0]; }},
           {"of another", [](SharedGraph& changed) { ++changed.num_edges.back(); }},
           {"of another", [](SharedGraph& changed) { ++changed.num_bytes; }},
           {"'g'", [](SharedGraph& changed) { changed.num_nodes.pop_back(); }},
           {"'g'", [](SharedGraph& changed) { changed.num_edges.push_back(1); }},
           {"in 5 transfers", [](SharedGraph& changed) { ++changed.object.num_bytes; }},
           {"'g'", [](SharedGraph& changed) { ++changed.object.crc; }}}) {
    SharedGraph changed = graph;
    change(changed);
    ASSERT_THAT(
        keys.Commit(
            {{}, {Operation::Put(SourceGraphNameKey("g"), EncodeSharedGraph(changed))}, {}}),
        IsOk());
    EXPECT_THAT(Start().store->Open("g"),
                StatusIs(absl::StatusCode::kDataLoss, AllOf(HasSubstr("'g'"), HasSubstr(what))));
  }
  ASSERT_THAT(keys.Commit({{}, {Operation::Put(SourceGraphNameKey("g"), value)}, {}}), IsOk());
  EXPECT_EQ(ReadOf(*Start().store, "g"), Given('g'));
}

// A server says how far it is with its own graph, whatever is told of it elsewhere.
TEST_F(ObjectSourceGraphStoreTest, WhatIsDoneIsToldOnTheWay) {
  Server a = Start("a");
  Fill(*a.store, "g", 3);
  std::vector<SourceGraphProgress> told;
  bool was_sealing = false;
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo sealed,
                          a.store->Seal("g", SealOptions(), [&](const SourceGraphProgress& now) {
                            told.push_back(now);
                            if (2 * now.done > now.total) {
                              const SourceGraphInfo info = a.store->Get("g").value();
                              was_sealing = info.state == SourceGraphState::kSealing &&
                                            info.version == 0 && info.num_edges[0] != 0;
                            }
                            return true;
                          }));
  EXPECT_EQ(sealed.state, SourceGraphState::kSealed);
  EXPECT_NE(sealed.version, 0U);
  EXPECT_TRUE(was_sealing);
  ASSERT_GT(told.size(), 5U);
  for (size_t i = 1; i < told.size(); ++i) {
    EXPECT_LE(told[i - 1].done * told[i].total, told[i].done * told[i - 1].total) << i;
  }
  EXPECT_LE(told.back().done, told.back().total);
  EXPECT_EQ(told.back().total, 2 * sealed.num_bytes);
  // Of a check, piece by piece.
  told.clear();
  PH_ASSERT_OK_AND_ASSIGN(const auto report,
                          a.store->Verify("g", [&](const SourceGraphProgress& now) {
                            told.push_back(now);
                            return true;
                          }));
  EXPECT_EQ(report.num_bytes, sealed.num_bytes);
  for (size_t i = 0; i < (sealed.num_bytes + 4095) / 4096; ++i) {
    EXPECT_EQ(told[i].done, std::min<uint64_t>(4096 * (i + 1), sealed.num_bytes));
    EXPECT_EQ(told[i].total, sealed.num_bytes);
  }
  for (size_t stop : {size_t{1}, told.size()}) {
    EXPECT_THAT(a.store->Verify("g", [&](const SourceGraphProgress&) { return --stop != 0; }),
                StatusIs(absl::StatusCode::kCancelled, _));
  }
}

// From a folder into the bucket, read by any server, and back into another folder.
TEST_F(ObjectSourceGraphStoreTest, ACopyIsTheSameGraphEverywhere) {
  auto files = Files("from");
  Fill(*files, "team/g", 1);
  ASSERT_THAT(Seal(*files, "team/g"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SealedSourceGraph sealed, files->OpenSealed("team/g"));
  Server command = Start();
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphCopy copy, command.store->CopyIn(sealed, kGoOnCopying));
  EXPECT_EQ(copy.num_old_bytes, 0U);
  EXPECT_GT(copy.num_bytes, 4 * 4096U);
  Server a = Start("a");
  Server b = Start("b");
  EXPECT_EQ(ReadOf(*a.store, "team/g"), Given(1));
  EXPECT_EQ(ReadOf(*b.store, "team/g"), Given(1));
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, b.store->Get("team/g"));
  EXPECT_EQ(info.state, SourceGraphState::kSealed);
  EXPECT_EQ(info.version, sealed.manifest->version);
  EXPECT_EQ(info.num_edges, sealed.manifest->num_edges);
  EXPECT_EQ(info.num_bytes, copy.num_bytes);
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphVerifyReport report,
                          b.store->Verify("team/g", kGoOnCopying));
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.num_bytes, copy.num_bytes);
  // Again: nothing is sent, and nothing changes.
  const uint64_t puts = fake_.num_puts();
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphCopy again, command.store->CopyIn(sealed, kGoOnCopying));
  EXPECT_EQ(again.num_old_bytes, copy.num_bytes);
  EXPECT_EQ(fake_.num_puts(), puts);
  // Another graph of that name is another one.
  auto others = Files("others");
  Fill(*others, "team/g", 2);
  ASSERT_THAT(Seal(*others, "team/g"), IsOk());
  EXPECT_THAT(command.store->CopyIn(*others->OpenSealed("team/g"), kGoOnCopying),
              StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("another one")));
  EXPECT_THAT(others->CopyIn(sealed, kGoOnCopying), StatusIs(absl::StatusCode::kAlreadyExists, _));
  auto back = Files("back");
  PH_ASSERT_OK_AND_ASSIGN(const SealedSourceGraph opened, b.store->OpenSealed("team/g"));
  ASSERT_THAT(back->CopyIn(opened, kGoOnCopying), IsOk());
  EXPECT_EQ(back->CopyIn(opened, kGoOnCopying)->num_old_bytes, back->Get("team/g")->num_bytes);
  back.reset();
  back = Files("back");
  EXPECT_EQ(ReadOf(*back, "team/g"), Given(1));
  EXPECT_EQ(back->Get("team/g")->version, info.version);
  EXPECT_TRUE(back->Verify("team/g", kGoOnCopying)->ok());
}

// One server has the rows; the others say which. Sealed, it is everybody's, and its files are gone.
TEST_F(ObjectSourceGraphStoreTest, OneServerBuildsAGraphAndAllReadIt) {
  Server a = Start("a:1");
  Server b = Start("b:2");
  Fill(*a.store, "g", 3);
  EXPECT_THAT(b.store->Create("g", schema_, options_),
              StatusIs(absl::StatusCode::kAlreadyExists, _));
  const auto is_refused = StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("a:1"));
  EXPECT_THAT(Append(*b.store, "g", 3), is_refused);
  EXPECT_THAT(Seal(*b.store, "g"), is_refused);
  EXPECT_THAT(b.store->Verify("g", kGoOnCopying), is_refused);
  EXPECT_THAT(b.store->Open("g"), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo open, b.store->Get("g"));
  EXPECT_EQ(open.state, SourceGraphState::kOpen);
  EXPECT_THAT(open.num_nodes, testing::ElementsAre(0U, 0U));
  EXPECT_THAT(open.num_edges, testing::ElementsAre(0U, 0U, 0U, 0U));
  EXPECT_GT(a.store->Get("g")->num_edges[0], 0U);
  EXPECT_TRUE(Append(*a.store, "g", 3)->is_repetition);
  EXPECT_TRUE(a.store->Verify("g", kGoOnCopying)->ok());
  const uint64_t id = a.store->Get("g")->id;
  ASSERT_THAT(a.store->RemoveAllBuilt(), IsOk());
  // It goes on where it is started again.
  a = Server();
  a = Start("a:1");
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  ASSERT_THAT(Seal(*b.store, "g"), IsOk());
  EXPECT_EQ(a.building->counts().num_graphs, 0U);
  EXPECT_EQ(b.store->Get("g")->id, id);
  EXPECT_EQ(ReadOf(*b.store, "g"), Given(3));
  const SourceAppendResult repeated = Append(*b.store, "g", 3).value();
  const SourceGraphInfo sealed = b.store->Get("g").value();
  EXPECT_TRUE(repeated.is_repetition);
  EXPECT_EQ(repeated.total_nodes, absl::c_accumulate(sealed.num_nodes, uint64_t{0}));
  EXPECT_EQ(repeated.total_edges, absl::c_accumulate(sealed.num_edges, uint64_t{0}));
  const ChunkOfRows more(schema_, options_, Rows(4));
  EXPECT_THAT(b.store->Append({"g", 0}, more.chunk(), ProducerSequence{"p", 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sealed")));
  EXPECT_THAT(b.store->Append({"g", id + 1}, more.chunk(), std::nullopt),
              StatusIs(absl::StatusCode::kNotFound, _));
  // Only sealed ones are taken where nothing is built.
  EXPECT_THAT(Start().store->Create("h", schema_, options_),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("sealed")));
}

TEST_F(ObjectSourceGraphStoreTest, RowsThatAreLostAreNamed) {
  Server a = Start("a:1");
  Fill(*a.store, "g", 3);
  ASSERT_THAT(a.building->Delete("g"), IsOk());
  EXPECT_THAT(Append(*a.store, "g", 3), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a:1")));
  EXPECT_THAT(Seal(*a.store, "g"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("a:1")));
  ASSERT_THAT(Start("b:2").store->Delete("g"), IsOk());
  EXPECT_THAT(Append(*a.store, "g", 3), StatusIs(absl::StatusCode::kNotFound, _));
  Fill(*a.store, "g", 4);
}

TEST_F(ObjectSourceGraphStoreTest, ListsAreOfAllServers) {
  Server a = Start("a");
  Server b = Start("b");
  for (int i = 0; i < 5; ++i) Fill(i % 2 == 0 ? *a.store : *b.store, absl::StrCat("g", i), 1);
  ASSERT_THAT(Seal(*a.store, "g2"), IsOk());
  std::vector<std::string> names;
  std::string token;
  do {
    PH_ASSERT_OK_AND_ASSIGN(const SourceGraphList list, b.store->List(2, token));
    EXPECT_LE(list.graphs.size(), 2U);
    for (const SourceGraphInfo& info : list.graphs) {
      names.push_back(info.name);
      EXPECT_EQ(info.state == SourceGraphState::kSealed, info.name == "g2");
    }
    token = list.next_page_token;
  } while (!token.empty());
  EXPECT_THAT(names, testing::ElementsAre("g0", "g1", "g2", "g3", "g4"));
  EXPECT_THAT(a.store->List(2, "no/../\n"), StatusIs(absl::StatusCode::kInvalidArgument, _));
  EXPECT_THAT(a.store->Get("\n"), StatusIs(absl::StatusCode::kNotFound, _));
}

// A value that cannot be read hides no other graph, and its own one is told as damaged.
TEST_F(ObjectSourceGraphStoreTest, ADamagedGraphIsListedBesideTheOthers) {
  Server a = Start("a");
  for (const char* const name : {"g0", "g1", "g2"}) Fill(*a.store, name, 1);
  Transaction damage;
  damage.then.push_back(Operation::Put(SourceGraphNameKey("g1"), "no such value"));
  ASSERT_THAT(a.replica->connection().Commit(damage), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphList list, Start("b").store->List(0, ""));
  ASSERT_EQ(list.graphs.size(), 3U);
  for (const SourceGraphInfo& info : list.graphs) {
    EXPECT_EQ(info.state, info.name == "g1" ? SourceGraphState::kDamaged : SourceGraphState::kOpen)
        << info.name;
  }
}

// What the copy before has sent is not sent again, and told.
TEST_F(ObjectSourceGraphStoreTest, ACopyThatWasGivenUpGoesOn) {
  auto files = Files("from");
  Fill(*files, "team/g", 1);
  ASSERT_THAT(Seal(*files, "team/g"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SealedSourceGraph sealed, files->OpenSealed("team/g"));
  constexpr uint64_t kSent = 3 * 4096;
  uint64_t num_pieces = 0;
  watched_.before_piece = [&] { ++num_pieces; };
  const auto give_up = [](const SourceGraphProgress& now) { return now.done < kSent; };
  EXPECT_THAT(Start().store->CopyIn(sealed, give_up), StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_EQ(num_pieces, 3U);
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphCopy copy, Start().store->CopyIn(sealed, kGoOnCopying));
  EXPECT_EQ(copy.num_old_bytes, kSent);
  EXPECT_EQ(num_pieces, (copy.num_bytes + 4095) / 4096);
  EXPECT_EQ(ReadOf(*Start().store, "team/g"), Given(1));
}

// Readers have their copies; for all others it is gone, and so are its objects soon.
TEST_F(ObjectSourceGraphStoreTest, ADeletedGraphIsReadToTheEnd) {
  Server a = Start("a");
  Server b = Start("b");
  Fill(*a.store, "g", 5);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  const auto held = b.store->Open("g");
  ASSERT_THAT(held, IsOk());
  ASSERT_THAT(a.store->Delete("g"), IsOk());
  EXPECT_THAT(b.store->Open("g"), StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(b.store->Delete("g"), StatusIs(absl::StatusCode::kNotFound, _));
  // They need not be old.
  ASSERT_THAT(Sweep(b, absl::Hours(1)), IsOk());
  EXPECT_THAT(Objects(), testing::IsEmpty());
  EXPECT_EQ(NumKeys(), 0U);
  EXPECT_EQ(Read(**held), Given(5));
  Fill(*b.store, "g", 6);
  ASSERT_THAT(Seal(*b.store, "g"), IsOk());
  EXPECT_EQ(ReadOf(*a.store, "g"), Given(6));
  EXPECT_EQ(Read(**held), Given(5));
}

// For who deletes what nobody uses.
TEST_F(ObjectSourceGraphStoreTest, AGraphThatWasUsedStays) {
  Server a = Start("a");
  Fill(*a.store, "g", 1);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  const uint64_t id = a.store->Get("g")->id;
  KeyValueStore& keys = a.replica->connection();
  const Transaction use = {{}, {Operation::Put("used", "now")}, {}};
  ASSERT_THAT(keys.Commit(use), IsOk());
  const Revision seen = keys.Get("used").value()->mod_revision;
  bool is_used = false;
  const auto unused = [&]() -> absl::StatusOr<std::vector<Compare>> {
    if (keys.Get("used").value()->mod_revision != seen) return absl::AbortedError("it was used");
    if (is_used) {
      EXPECT_THAT(keys.Commit(use), IsOk());
    }
    return std::vector<Compare>{Compare::ModRevision("used", seen)};
  };
  EXPECT_THAT(a.store->DeleteIf({"g", id + 1}, unused), StatusIs(absl::StatusCode::kNotFound, _));
  is_used = true;
  EXPECT_THAT(a.store->DeleteIf({"g", id}, unused), StatusIs(absl::StatusCode::kAborted, _));
  EXPECT_EQ(ReadOf(*a.store, "g"), Given(1));
  const auto still = [] { return std::vector<Compare>(); };
  EXPECT_THAT(a.store->DeleteIf({"g", id}, still), IsOk());
  EXPECT_THAT(a.store->Get("g"), StatusIs(absl::StatusCode::kNotFound, _));
}

// Deleted by another server while it is built: nothing of it comes into the store.
TEST_F(ObjectSourceGraphStoreTest, AGraphThatIsDeletedWhileItIsBuiltIsGone) {
  Server a = Start("a");
  Server b = Start("b");
  Fill(*a.store, "g", 5);
  watched_.before_piece = [&] {
    watched_.before_piece = nullptr;
    ASSERT_THAT(b.store->Delete("g"), IsOk());
    Fill(*b.store, "g", 6);
  };
  EXPECT_THAT(Seal(*a.store, "g"), StatusIs(absl::StatusCode::kNotFound, HasSubstr("deleted")));
  ASSERT_THAT(a.store->RemoveAllBuilt(), IsOk());
  EXPECT_EQ(a.building->counts().num_graphs, 0U);
  ASSERT_THAT(Seal(*b.store, "g"), IsOk());
  EXPECT_EQ(ReadOf(*a.store, "g"), Given(6));
}

TEST_F(ObjectSourceGraphStoreTest, TheCacheBoundsWhatIsOpen) {
  Server a = Start("a");
  for (const char* name : {"one", "two"}) {
    Fill(*a.store, name, 7);
    ASSERT_THAT(Seal(*a.store, name), IsOk());
  }
  const uint64_t bytes = a.store->Get("one")->num_bytes;
  Server small = Start("", bytes - 1);
  EXPECT_THAT(small.store->Open("one"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::AllOf(HasSubstr("'one'"), HasSubstr(absl::StrCat(bytes)),
                                      HasSubstr(absl::StrCat(bytes - 1)))));
  // Before any of it is read.
  fake_.Damage(AnyPiece(), 17);
  EXPECT_THAT(small.store->Verify("one", kGoOnCopying),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'one'")));
  fake_.Damage(AnyPiece(), 17);
  Server b = Start("", bytes + bytes / 2);
  auto held = b.store->Open("one");
  ASSERT_THAT(held, IsOk());
  // Readers share one copy.
  EXPECT_EQ(b.store->Open("one")->get(), held->get());
  EXPECT_EQ(b.replica->cache().counts().in_use, bytes);
  EXPECT_THAT(b.store->Open("two"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::AllOf(HasSubstr("'two'"), HasSubstr("max_bytes"))));
  held = absl::CancelledError();
  EXPECT_EQ(ReadOf(*b.store, "two"), Given(7));
  EXPECT_EQ(b.replica->cache().counts().in_use, 0U);
  EXPECT_GT(b.replica->cache().counts().evictions, 0U);
}

// What is wrong is named; what was wrong in the cache alone is fetched again.
TEST_F(ObjectSourceGraphStoreTest, DamageIsFound) {
  Server a = Start("a");
  Fill(*a.store, "g", 8);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  Server b = Start();
  ASSERT_THAT(b.store->Open("g"), IsOk());
  const std::string cache = b.cache;
  b = Server();
  for (const auto& file : std::filesystem::directory_iterator(cache)) {
    if (file.path().extension() != ".chunk") continue;
    std::filesystem::resize_file(file.path(), 10);
  }
  reused_cache_ = cache;
  b = Start();
  reused_cache_.clear();
  EXPECT_EQ(ReadOf(*b.store, "g"), Given(8));
  const std::string piece = AnyPiece();
  fake_.Damage(piece, 17);
  Server c = Start();
  EXPECT_THAT(c.store->Open("g"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'g'")));
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphVerifyReport report, c.store->Verify("g", kGoOnCopying));
  EXPECT_EQ(report.num_damaged, 1U);
  // Who has it in the cache reads on, and verifies what is in the store.
  EXPECT_EQ(ReadOf(*b.store, "g"), Given(8));
  EXPECT_EQ(b.store->Verify("g", kGoOnCopying)->num_damaged, 1U);
  ASSERT_THAT(fake_.Delete(piece, absl::InfiniteFuture()), IsOk());
  EXPECT_THAT(c.store->Open("g"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'g'")));
}

// Whether it is lost, or the graph was deleted, is not known then.
TEST_F(ObjectSourceGraphStoreTest, AnObjectIsNotLostWhileNobodyCanSaySo) {
  Server a = Start("a");
  Fill(*a.store, "g", 8);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  ASSERT_THAT(fake_.Delete(AnyPiece(), absl::InfiniteFuture()), IsOk());
  std::atomic<bool> is_away = false;
  Server b = Start("", uint64_t{1} << 30,
                   [&] { return is_away ? StoreFault::kUnreachable : StoreFault::kNone; });
  EXPECT_THAT(b.store->Open("g"), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("'g'")));
  watched_.before_get_of_piece = [&] { is_away = true; };
  EXPECT_THAT(b.store->Open("g"), StatusIs(absl::StatusCode::kUnavailable, _));
  is_away = false;
  EXPECT_THAT(b.store->Verify("g", kGoOnCopying), StatusIs(absl::StatusCode::kUnavailable, _));
}

// What cannot be read stops nothing, and what is damaged goes, unless the graph is being built.
TEST_F(ObjectSourceGraphStoreTest, WhatIsLeftOfDamagedGraphsIsRemoved) {
  {
    Server a = Start("a");
    for (const char* const name : {"deleted", "gone", "kept"}) Fill(*a.store, name, 8);
  }
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder_.path())) {
    if (file.path().filename() != "definition") continue;
    std::ofstream(file.path().parent_path() / "manifest") << "damaged";
  }
  Server a = Start("a");
  Server other = Start("b");
  for (const char* const name : {"deleted", "gone"}) {
    ASSERT_THAT(other.store->Delete(name), IsOk());
  }
  Transaction damage;
  damage.then = {Operation::Put(SourceGraphNameKey("gone"), "damaged")};
  ASSERT_THAT(other.replica->connection().Commit(damage), IsOk());
  const auto names = [&] {
    std::vector<std::string> built;
    const SourceGraphList list = a.building->List(10, "").value();
    for (const SourceGraphInfo& graph : list.graphs) {
      EXPECT_EQ(graph.state, SourceGraphState::kDamaged);
      built.push_back(graph.name);
    }
    return built;
  };
  EXPECT_THAT(names(), testing::ElementsAre("deleted", "gone", "kept"));
  EXPECT_THAT(a.store->RemoveAllBuilt(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("gone")));
  EXPECT_THAT(names(), testing::ElementsAre("gone", "kept"));
  damage.then = {Operation::Delete(KeyRange::Of(SourceGraphNameKey("gone")))};
  ASSERT_THAT(other.replica->connection().Commit(damage), IsOk());
  EXPECT_THAT(a.store->RemoveAllBuilt(), IsOk());
  EXPECT_THAT(names(), testing::ElementsAre("kept"));
}

// Arrays that fail their checksums are not spread.
TEST_F(ObjectSourceGraphStoreTest, ADamagedGraphIsNotCopied) {
  auto files = Files("from");
  Fill(*files, "g", 1);
  ASSERT_THAT(Seal(*files, "g"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(SealedSourceGraph sealed, files->OpenSealed("g"));
  auto manifest = std::make_shared<GraphManifest>(*sealed.manifest);
  manifest->arrays.back().block_crcs.back() ^= 1;
  sealed.manifest = manifest;
  const auto is_named =
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr(manifest->arrays.back().name));
  EXPECT_THAT(Start().store->CopyIn(sealed, kGoOnCopying), is_named);
  auto back = Files("back");
  EXPECT_THAT(back->CopyIn(sealed, kGoOnCopying), is_named);
  EXPECT_EQ(back->counts().num_bytes, 0U);
  EXPECT_THAT(Start().store->Get("g"), StatusIs(absl::StatusCode::kNotFound, _));
}

// A process that ends in the middle: the next one sends only the rest.
TEST_F(ObjectSourceGraphStoreTest, AnUploadThatWasStoppedGoesOn) {
  Server a = Start("a");
  Fill(*a.store, "g", 9);
  int num_pieces = 0;
  watched_.before_piece = [&] {
    if (++num_pieces == 4) a.replica->connection().Crash();
  };
  EXPECT_THAT(Seal(*a.store, "g"), StatusIs(absl::StatusCode::kUnavailable, _));
  const int before = num_pieces;
  watched_.before_piece = [&] { ++num_pieces; };
  a = Server();
  a = Start("a");
  EXPECT_EQ(a.store->Get("g")->state, SourceGraphState::kSealing);
  // It is young, so no sweep ends it.
  EXPECT_EQ(Sweep(a, absl::Hours(1))->num_deleted, 0U);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  EXPECT_EQ(num_pieces, before);
  EXPECT_EQ(ReadOf(*Start().store, "g"), Given(9));
}

// Given up by the caller, and gone on with; also when all was swept between.
TEST_F(ObjectSourceGraphStoreTest, AnUploadThatWasGivenUpIsSwept) {
  Server a = Start("a");
  Fill(*a.store, "g", 9);
  const auto give_up = [](const SourceGraphProgress& now) { return now.done < now.total * 3 / 4; };
  EXPECT_THAT(a.store->Seal("g", SealOptions(), give_up),
              StatusIs(absl::StatusCode::kCancelled, _));
  EXPECT_NE(AnyPiece(), "");
  cluster_.clock.Advance(absl::Minutes(59));
  PH_ASSERT_OK_AND_ASSIGN(ObjectSweeper::Step step, Sweep(a, absl::Hours(1)));
  EXPECT_EQ(step.num_deleted, 0U);
  cluster_.clock.Advance(absl::Minutes(2));
  PH_ASSERT_OK_AND_ASSIGN(step, Sweep(a, absl::Hours(1)));
  EXPECT_GT(step.num_orphans, 0U);
  EXPECT_TRUE(step.is_round_over);
  EXPECT_THAT(Objects(), testing::IsEmpty());
  EXPECT_EQ(NumKeys(), 1U);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  EXPECT_EQ(ReadOf(*Start().store, "g"), Given(9));
  cluster_.clock.Advance(absl::Hours(5));
  EXPECT_EQ(Sweep(a)->num_deleted, 0U);
}

// What each step has looked at and deleted.
TEST_F(ObjectSourceGraphStoreTest, AStepOfASweepSaysWhatItDid) {
  Server a = Start("a");
  ASSERT_THAT(BindStores(a.replica->engines()), IsOk());
  KeyValueStore& keys = a.replica->connection();
  const auto put = [&](uint64_t objects, uint64_t num_pieces) {
    for (uint64_t piece = 0; piece < num_pieces; ++piece) {
      ASSERT_THAT(fake_.Put(SourceGraphPieceObject(objects, piece, 7), std::string(objects, 'o'),
                            absl::InfiniteFuture()),
                  IsOk());
    }
  };
  for (const uint64_t objects : {1, 2, 3}) put(objects, 3);
  ASSERT_THAT(fake_.Put("g/of-others", "", absl::InfiniteFuture()), IsOk());
  // Somebody has those of 2.
  ASSERT_THAT(keys.Commit({{}, {Operation::Put(SourceGraphObjectsKey(2), "g")}, {}}), IsOk());
  ObjectSweeper::Options options;
  const auto words = [](const absl::StatusOr<ObjectSweeper::Step>& step) {
    if (!step.ok()) return step.status().ToString();
    return absl::StrCat(step->num_listed, " listed, ", step->num_deleted, " deleted, ",
                        step->num_bytes, " bytes, ", step->num_orphans, " orphans",
                        step->is_round_over ? ", over" : "");
  };
  // As old as they must be is too young.
  cluster_.clock.Advance(options.min_age);
  options.max_listed = 1;
  SourceGraphSweeper sweeper(a.replica->engines(), options);
  EXPECT_EQ(words(sweeper.Run()), "10 listed, 0 deleted, 0 bytes, 0 orphans");
  EXPECT_EQ(words(sweeper.Run()), "7 listed, 0 deleted, 0 bytes, 0 orphans");
  EXPECT_EQ(words(sweeper.Run()), "4 listed, 0 deleted, 0 bytes, 0 orphans, over");
  cluster_.clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(words(sweeper.Run()), "10 listed, 3 deleted, 3 bytes, 3 orphans");
  EXPECT_EQ(words(sweeper.Run()), "7 listed, 0 deleted, 0 bytes, 0 orphans");
  EXPECT_EQ(words(sweeper.Run()), "4 listed, 3 deleted, 9 bytes, 3 orphans, over");
  EXPECT_EQ(words(sweeper.Run()), "4 listed, 0 deleted, 0 bytes, 0 orphans, over");
  for (const uint64_t objects : {4, 5}) put(objects, 3);
  cluster_.clock.Advance(absl::Hours(2));
  options = {};
  options.max_deleted = 2;
  SourceGraphSweeper bounded(a.replica->engines(), options);
  EXPECT_EQ(words(bounded.Run()), "10 listed, 2 deleted, 8 bytes, 2 orphans");
  EXPECT_EQ(words(bounded.Run()), "5 listed, 2 deleted, 9 bytes, 2 orphans");
  EXPECT_EQ(words(bounded.Run()), "3 listed, 2 deleted, 10 bytes, 2 orphans, over");
  // Of a deleted graph all go, however young and many they are, and then its key; but for what
  // another one has.
  for (const uint64_t objects : {2, 6}) {
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(GoneSourceGraphKey(objects), "g")}, {}}), IsOk());
  }
  const std::string others = absl::StrCat(kGoneSourceGraphs, "of-others");
  ASSERT_THAT(keys.Commit({{}, {Operation::Put(others, "")}, {}}), IsOk());
  put(6, ObjectStore::kMaxListed + 1);
  options.max_deleted = ObjectStore::kMaxListed;
  SourceGraphSweeper large(a.replica->engines(), options);
  EXPECT_EQ(words(large.Run()), "5 listed, 1000 deleted, 6000 bytes, 0 orphans");
  EXPECT_TRUE(keys.Get(GoneSourceGraphKey(6)).value().has_value());
  EXPECT_EQ(words(large.Run()), "4 listed, 1 deleted, 6 bytes, 0 orphans, over");
  EXPECT_FALSE(keys.Get(GoneSourceGraphKey(6)).value().has_value());
  EXPECT_EQ(keys.Range(KeyRange::Prefix(kGoneSourceGraphs), 0, 0)->values.size(), 2U);
  EXPECT_EQ(Objects().size(), 4U);
}

// With another key-value store, all objects would be nobody's.
TEST_F(ObjectSourceGraphStoreTest, OnlyStoresThatBelongTogetherAreSwept) {
  Server a = Start("a");
  Fill(*a.store, "g", 9);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  EXPECT_EQ(Sweep(a)->num_deleted, 0U);
  const std::vector<std::string> objects = Objects();
  ObjectCluster empty;
  empty.drawn = 1000;
  empty.clock.Advance(absl::Hours(100'000));
  ObjectReplica lost(&empty, &fake_, folder_.path() + "/lost");
  ObjectSweeper::Options at_once;
  at_once.min_age = absl::ZeroDuration();
  EXPECT_THAT(SourceGraphSweeper(lost.engines(), at_once).Run(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("do not belong together")));
  EXPECT_EQ(Objects(), objects);
}

// A round through more objects than a step looks at: each step goes on where the last one ended,
// and the next round begins anew.
TEST_F(ObjectSourceGraphStoreTest, ARoundOfSweepsGoesOnWhereItEnded) {
  Server a = Start("a");
  ASSERT_THAT(BindStores(a.replica->engines()), IsOk());
  constexpr int kUploads = 12;
  constexpr uint64_t kPieces = 100;
  uint64_t num_bytes = 0;
  for (uint64_t objects = 1; objects <= kUploads; ++objects) {
    for (uint64_t piece = 0; piece < kPieces; ++piece) {
      const std::string bytes(objects, 'o');
      num_bytes += bytes.size();
      ASSERT_THAT(
          fake_.Put(SourceGraphPieceObject(objects, piece, 7), bytes, absl::InfiniteFuture()),
          IsOk());
    }
  }
  cluster_.clock.Advance(absl::Hours(1));
  ObjectSweeper::Options options;
  options.max_listed = 1;  // One upload at a time.
  options.max_deleted = 60;
  SourceGraphSweeper sweeper(a.replica->engines(), options);
  ObjectSweeper::Step all;
  const auto num_steps = [&] {
    for (int steps = 1; steps < 100; ++steps) {
      const auto step = sweeper.Run();
      EXPECT_THAT(step, IsOk());
      if (!step.ok()) return -1;
      EXPECT_LE(step->num_deleted, options.max_deleted);
      EXPECT_EQ(step->num_orphans, step->num_deleted);
      all.num_deleted += step->num_deleted;
      all.num_bytes += step->num_bytes;
      if (step->is_round_over) return steps;
    }
    return 100;
  };
  // As old as they must be is too young.
  EXPECT_EQ(num_steps(), kUploads);
  EXPECT_EQ(num_steps(), kUploads);
  EXPECT_EQ(all.num_deleted, 0U);
  cluster_.clock.Advance(absl::Milliseconds(1));
  EXPECT_EQ(num_steps(), 2 * kUploads);
  EXPECT_EQ(all.num_deleted, kUploads * kPieces);
  EXPECT_EQ(all.num_bytes, num_bytes);
  EXPECT_THAT(Objects(), testing::IsEmpty());
}

// Of a file whose pieces are also others': any range is read as it was written, nothing is fetched
// that is not needed, or twice, and what the cache cannot have is refused before it is fetched.
TEST_F(ObjectSourceGraphStoreTest, RangesOfACompanionComeThroughTheCache) {
  Server a = Start("a");
  Fill(*a.store, "g", 3);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  constexpr uint64_t kPiece = 2 * kArrayAlignment;
  constexpr uint64_t kFirst = kPiece - kArrayAlignment;  // Of the file's bytes, in its first piece.
  std::string bytes;
  for (uint64_t i = 0; i < kFirst + kPiece + 2; ++i) bytes.push_back(static_cast<char>(i * 3 / 2));
  std::filesystem::create_directories(folder_.path() + "/with");
  std::ofstream(folder_.path() + "/with/before") << 'b';
  std::ofstream(folder_.path() + "/with/file") << bytes;
  ObjectCompanions::Options options;
  options.upload.piece_bytes = kPiece;
  options.server = "a";
  const auto companions = [&](Server& server) {
    return ObjectCompanions(server.replica->engines(), &server.replica->cache(), options);
  };
  SharedCompanion own;
  own.graph = {"g", a.store->Get("g")->id};
  own.name = "p";
  own.state = "state";
  own.server = "a";
  PH_ASSERT_OK_AND_ASSIGN(own.revision, companions(a).Put(own));
  ASSERT_THAT(companions(a).Upload(
                  own, folder_.path() + "/with",
                  {{{"before", 1, Crc32c("b")}, {"file", bytes.size(), Crc32c(bytes)}}, "summary"},
                  [] { return true; }),
              IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SharedCompanion whole, companions(a).Find(own.graph, "p"));
  const std::vector<uint64_t> edges = {0,
                                       1,
                                       kFirst - 1,
                                       kFirst,
                                       kFirst + 1,
                                       kFirst + kPiece - 1,
                                       kFirst + kPiece,
                                       kFirst + kPiece + 1,
                                       bytes.size()};
  const ObjectCompanions of_a = companions(a);
  for (const uint64_t begin : edges) {
    for (const uint64_t end : edges) {
      if (end < begin) continue;
      SCOPED_TRACE(testing::Message() << "[" << begin << ", " << end << ")");
      PH_ASSERT_OK_AND_ASSIGN(const OwnedBytes part, of_a.Map(whole, "file", begin, end - begin));
      EXPECT_TRUE(part.bytes == bytes.substr(begin, end - begin));
      EXPECT_EQ(part.num_bytes, bytes.size());
    }
    EXPECT_TRUE(of_a.Map(whole, "file", begin, UINT64_MAX)->bytes == bytes.substr(begin));
  }
  EXPECT_THAT(of_a.Map(whole, "none", 0, 1),
              StatusIs(absl::StatusCode::kNotFound, "partition 'p' of 'g' has no file 'none'"));

  options.max_cache_bytes = kFirst;
  Server b = Start("b");
  const ObjectCompanions of_b = companions(b);
  uint64_t before = fake_.num_gets();
  const auto num_fetched = [&] {
    return fake_.num_gets() - std::exchange(before, fake_.num_gets());
  };
  EXPECT_THAT(of_b.Map(whole, "file", 0, kFirst + 1),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       "partition 'p' of 'g' has 4097 bytes, which must be in the cache of this "
                       "server to be read: its bound (--cache-bytes) is 4096"));
  EXPECT_EQ(num_fetched(), 1U);  // The manifest.
  EXPECT_THAT(of_b.Map(whole, "file", 0, kFirst), IsOk());
  EXPECT_EQ(num_fetched(), 1U);
  EXPECT_THAT(of_b.Map(whole, "file", 1, kFirst), IsOk());
  EXPECT_EQ(num_fetched(), 1U);
  EXPECT_THAT(of_b.Map(whole, "file", kFirst - 1, 2), IsOk());
  EXPECT_EQ(num_fetched(), 0U);
}

// The dangerous moment: all pieces are there, and nobody has them, when a sweep comes, by a clock
// that is wrong. The upload must not commit what the sweep has deleted.
TEST_F(ObjectSourceGraphStoreTest, ASweepDuringAnUploadLosesNothing) {
  Server a = Start("a");
  Server b = Start("b");
  Fill(*a.store, "g", 10);
  uint64_t num_deleted = 0;
  int num_pieces = 0;
  watched_.before_piece = [&] {
    if (++num_pieces != 5) return;
    num_deleted = Sweep(b)->num_deleted;
  };
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  EXPECT_GT(num_deleted, 4U);
  EXPECT_EQ(ReadOf(*b.store, "g"), Given(10));
  (void)Sweep(b);
  EXPECT_TRUE(Start().store->Verify("g", kGoOnCopying)->ok());
}

TEST_F(ObjectSourceGraphStoreTest, BytesAreCountedWithThoseOfDataSets) {
  max_bytes_ = 200'000;
  Server a = Start("a");
  Fill(*a.store, "g", 1);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  const uint64_t bytes = a.store->Get("g")->num_bytes;
  max_bytes_ = bytes + bytes / 2;
  Server b = Start("b");
  Fill(*b.store, "h", 2);
  const uint64_t puts = fake_.num_puts();
  EXPECT_THAT(Seal(*b.store, "h"),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       testing::AllOf(HasSubstr("'h'"), HasSubstr("max_bytes"))));
  EXPECT_EQ(fake_.num_puts(), puts);
  ASSERT_THAT(b.store->Delete("g"), IsOk());
  ASSERT_THAT(Seal(*b.store, "h"), IsOk());
}

// What another server was told counts, too.
TEST_F(ObjectSourceGraphStoreTest, QuotasAreOfAllServers) {
  Server a = Start("a");
  Server b = Start("b");
  const QuotasOf quotas_of = [](absl::string_view) {
    Quotas quotas;
    quotas.source_graphs = 1;
    quotas.disk_bytes = 20'000;
    return quotas;
  };
  DiskQuota disk(quotas_of);
  QuotaSourceGraphStore quota(b.store.get(), quotas_of, &disk);
  Fill(*a.store, "team/g", 1);
  EXPECT_THAT(quota.Create("team/h", schema_, options_),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("source_graphs")));
  ASSERT_THAT(Seal(*a.store, "team/g"), IsOk());
  EXPECT_GT(quota.CountAll()->at("team").bytes, 20'000U);
  ASSERT_THAT(b.store->Create("team/h", schema_, options_), IsOk());
  EXPECT_THAT(Append(quota, "team/h", 2),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("disk_bytes")));
  ASSERT_THAT(a.store->Delete("team/g"), IsOk());
  EXPECT_THAT(Append(quota, "team/h", 2), IsOk());
  // Who cannot count refuses: there may be more than there may be.
  b.replica->connection().SetFaults([] { return StoreFault::kUnreachable; });
  EXPECT_THAT(quota.CountAll(), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(quota.Create("team/i", schema_, options_),
              StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(Append(quota, "team/h", 3), StatusIs(absl::StatusCode::kUnavailable, _));
}

// Whichever call names another graph than there is, another name than can be, or other rows.
TEST_F(ObjectSourceGraphStoreTest, WhatACallNamesIsChecked) {
  Server a = Start("a");
  Server b = Start("b");
  Fill(*a.store, "g", 1);
  const uint64_t id = a.store->Get("g")->id;
  const auto bad_name = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("a b"));
  EXPECT_THAT(a.store->Create("a b", schema_, options_), bad_name);
  EXPECT_THAT(a.store->Create("g", schema_, options_),
              StatusIs(absl::StatusCode::kAlreadyExists, "source graph 'g': there is one already"));
  const auto another = StatusIs(absl::StatusCode::kNotFound,
                                absl::StrCat("source graph 'g': its id is ", id, ", asked for is ",
                                             id + 1, ", which was deleted, or never was"));
  const ChunkOfRows rows(schema_, options_, Rows(1));
  const ChunkOfRows other_rows(schema_, options_, Rows(2));
  const auto append = [&](SourceGraphStore& store, uint64_t of, const ChunkOfRows& which,
                          const std::optional<ProducerSequence>& producer) {
    return store.Append({"g", of}, which.chunk(), producer).status();
  };
  const ProducerSequence first = {"p", 1};
  const auto expect_of_another = [&] {
    EXPECT_THAT(append(*a.store, id + 1, rows, first), another);
    EXPECT_THAT(a.store->GetProducer({"g", id + 1}, "p"), another);
    EXPECT_THAT(a.store->Seal({"g", id + 1}, SealOptions(), kGoOnCopying), another);
    EXPECT_THAT(a.store->Delete({"g", id + 1}), another);
  };
  expect_of_another();
  EXPECT_THAT(b.store->GetProducer({"g", id}, "p"),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("by the server a,")));
  EXPECT_EQ(a.store->GetProducer({"g", id}, "p")->last(), 1U);
  EXPECT_THAT(a.store->OpenIfHere("g"),
              StatusIs(absl::StatusCode::kFailedPrecondition, "source graph 'g' is not sealed"));
  // Given up while it is sealed here.
  EXPECT_THAT(
      a.store->Seal({"g", id}, SealOptions(), [](const SourceGraphProgress&) { return false; }),
      StatusIs(absl::StatusCode::kCancelled, _));
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  expect_of_another();
  for (const auto& store : {a.store.get(), b.store.get()}) {
    EXPECT_EQ(store->GetProducer({"g", id}, "p")->last(), 1U);
    EXPECT_EQ(store->GetProducer({"g", 0}, "q")->last(), 0U);
    EXPECT_THAT(append(*store, id, rows, first), IsOk());
    EXPECT_THAT(append(*store, id, other_rows, first),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("'g'")));
    const auto is_sealed =
        StatusIs(absl::StatusCode::kFailedPrecondition, "source graph 'g' is sealed");
    EXPECT_THAT(append(*store, id, rows, std::nullopt), is_sealed);
    EXPECT_THAT(append(*store, id, rows, ProducerSequence{"q", 1}), is_sealed);
  }
  // Only what somebody has open is here.
  EXPECT_THAT(b.store->OpenIfHere("g"), StatusIs(absl::StatusCode::kCancelled,
                                                 "source graph 'g' is not open on this server"));
  const auto held = b.store->Open("g");
  EXPECT_EQ(b.store->OpenIfHere("g")->get(), held->get());
  PH_ASSERT_OK_AND_ASSIGN(SealedSourceGraph sealed, b.store->OpenSealed("g"));
  sealed.definition.name = "a b";
  EXPECT_THAT(b.store->CopyIn(sealed, kGoOnCopying), bad_name);
}

// What is built is told as far as it is there; what cannot be built is nobody's.
TEST_F(ObjectSourceGraphStoreTest, AGraphThatCannotBeBuiltIsNone) {
  FileSourceGraphStore::Options files;
  files.folder = folder_.path() + "/few";
  files.min_free_bytes = 0;
  files.max_graphs = 1;
  const auto building = FileSourceGraphStore::Open(files).value();
  Server server = Start();
  ObjectSourceGraphStore::Options options;
  options.server = "a:1";
  options.building = building.get();
  ObjectSourceGraphStore store(server.replica->engines(), &server.replica->cache(), options);
  Fill(store, "g", 1);
  EXPECT_THAT(store.Create("h", schema_, options_),
              StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_THAT(store.Get("h"),
              StatusIs(absl::StatusCode::kNotFound, "source graph 'h': there is none"));
  EXPECT_GT(store.Get("g")->num_edges[0], 0U);
  ASSERT_THAT(building->Delete("g"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo lost, store.Get("g"));
  EXPECT_EQ(lost.state, SourceGraphState::kOpen);
  EXPECT_EQ(lost.num_edges[0], 0U);
  // Another one of that name is not it.
  ASSERT_THAT(building->Create("g", schema_, options_), IsOk());
  const ChunkOfRows rows(schema_, options_, Rows(1));
  ASSERT_THAT(building->Append({"g", 0}, rows.chunk(), std::nullopt), IsOk());
  EXPECT_EQ(store.Get("g")->id, lost.id);
  EXPECT_EQ(store.Get("g")->num_edges[0], 0U);
}

// Between any two requests of a creation another server makes one of that name, and between any two
// of other calls it deletes it: what is said then is true.
TEST_F(ObjectSourceGraphStoreTest, OthersMayBeFaster) {
  for (int at = 1; at <= 3; ++at) {
    SCOPED_TRACE(at);
    Server b = Start("b");
    int requests = 0;
    Server a = Start("a", uint64_t{1} << 30, [&] {
      if (++requests == at) Fill(*b.store, "g", 2);
      return StoreFault::kNone;
    });
    EXPECT_THAT(
        a.store->Create("g", schema_, options_),
        StatusIs(absl::StatusCode::kAlreadyExists, "source graph 'g': there is one already"));
    EXPECT_EQ(a.building->counts().num_graphs, 0U);
    EXPECT_EQ(b.store->GetProducer({"g", 0}, "p")->last(), 1U);
    ASSERT_THAT(b.store->Delete("g"), IsOk());
  }
  // The rows are lost: whether the graph is gone, too, is asked for.
  for (const bool is_away : {false, true}) {
    SCOPED_TRACE(is_away);
    Server b = Start("b");
    bool is_asked = false;
    int requests = 0;
    Server a = Start("a", uint64_t{1} << 30, [&] {
      if (!is_asked || ++requests != 2)
        return is_away && requests > 1 ? StoreFault::kUnreachable : StoreFault::kNone;
      if (is_away) return StoreFault::kUnreachable;
      EXPECT_THAT(b.store->Delete("g"), IsOk());
      return StoreFault::kNone;
    });
    Fill(*a.store, "g", 1);
    ASSERT_THAT(a.building->Delete("g"), IsOk());
    is_asked = true;
    const absl::Status appended = Append(*a.store, "g", 1).status();
    if (is_away) {
      EXPECT_THAT(appended, StatusIs(absl::StatusCode::kUnavailable, _));
      ASSERT_THAT(b.store->Delete("g"), IsOk());
    } else {
      EXPECT_THAT(appended,
                  StatusIs(absl::StatusCode::kNotFound, "source graph 'g': there is none"));
    }
  }
  // While it is put into the store; and while it is read.
  Server b = Start("b");
  Server a = Start("a");
  Fill(*a.store, "g", 5);
  watched_.before_piece = [&] {
    watched_.before_piece = nullptr;
    ASSERT_THAT(b.store->Delete("g"), IsOk());
  };
  EXPECT_THAT(Seal(*a.store, "g"),
              StatusIs(absl::StatusCode::kNotFound, "source graph 'g': was deleted"));
  for (const bool is_anew : {false, true}) {
    ASSERT_THAT(a.store->RemoveAllBuilt(), IsOk());
    Fill(*a.store, "g", 5);
    ASSERT_THAT(Seal(*a.store, "g"), IsOk());
    ASSERT_THAT(Sweep(a), IsOk());
    ASSERT_THAT(fake_.Delete(AnyPiece(), absl::InfiniteFuture()), IsOk());
    // Two threads read.
    std::atomic<bool> has_come = false;
    watched_.before_get_of_piece = [&] {
      if (has_come.exchange(true)) return;
      ASSERT_THAT(a.store->Delete("g"), IsOk());
      if (!is_anew) return;
      Fill(*a.store, "g", 6);
      ASSERT_THAT(Seal(*a.store, "g"), IsOk());
    };
    EXPECT_THAT(Start().store->Open("g"),
                StatusIs(absl::StatusCode::kNotFound, "source graph 'g': there is none"));
    watched_.before_get_of_piece = nullptr;
    a.store->Delete("g").IgnoreError();
  }
}

// Whoever opens it at the same moment: there is one map of it.
TEST_F(ObjectSourceGraphStoreTest, ThoseThatOpenAGraphAtOnceShareIt) {
  Server a = Start("a");
  Fill(*a.store, "g", 1);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  std::shared_ptr<const StoredSourceGraph> faster;
  watched_.before_get_of_manifest = [&] { faster = a.store->Open("g").value(); };
  PH_ASSERT_OK_AND_ASSIGN(const auto opened, a.store->Open("g"));
  EXPECT_EQ(opened, faster);
}

// Also in the threads that help to fetch.
TEST_F(ObjectSourceGraphStoreTest, AGraphThatThereIsNoMemoryForIsOpenedLater) {
  Server a = Start("a");
  Fill(*a.store, "g", 1);
  ASSERT_THAT(Seal(*a.store, "g"), IsOk());
  watched_.before_get_of_piece = [] { throw std::bad_alloc(); };
  EXPECT_THAT(a.store->Open("g"), StatusIs(absl::StatusCode::kResourceExhausted, _));
  watched_.before_get_of_piece = nullptr;
  EXPECT_EQ(ReadOf(*a.store, "g"), Given(1));
}

// What others put while this one is put counts. What was put when nothing was counted takes nothing
// away from the rest.
TEST_F(ObjectSourceGraphStoreTest, TheBoundHoldsWhoeverComesMeanwhile) {
  Server uncounted = Start("c");
  Fill(*uncounted.store, "old", 3);
  ASSERT_THAT(Seal(*uncounted.store, "old"), IsOk());
  const uint64_t bytes = uncounted.store->Get("old")->num_bytes;
  max_bytes_ = bytes + bytes / 2;
  Server a = Start("a");
  Server b = Start("b");
  Fill(*a.store, "g", 1);
  Fill(*b.store, "h", 2);
  watched_.before_piece = [&] {
    watched_.before_piece = nullptr;
    ASSERT_THAT(Seal(*b.store, "h"), IsOk());
  };
  EXPECT_THAT(Seal(*a.store, "g"),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("'g'")));
  EXPECT_EQ(TotalBytes(), b.store->Get("h")->num_bytes);
  EXPECT_EQ(a.store->Get("g")->state, SourceGraphState::kSealing);
  ASSERT_THAT(b.store->Delete("h"), IsOk());
  EXPECT_EQ(TotalBytes(), 0U);
  ASSERT_THAT(b.store->Delete("old"), IsOk());
  EXPECT_EQ(TotalBytes(), 0U);
  EXPECT_THAT(Seal(*a.store, "g"), IsOk());
}

// Its pieces are more than one answer lists. Also by another process, nothing is sent twice.
TEST_F(ObjectSourceGraphStoreTest, AnUploadOfManyPiecesGoesOn) {
  const Server a = Start();
  const ObjectEngines engines = a.replica->engines();
  constexpr uint64_t kPieces = ObjectStore::kMaxListed + 100;
  uint64_t num_read = 0;
  const auto put = [&](PieceUpload& upload) {
    return upload.Put(
        upload.Begin().value(),
        [&](uint64_t from, uint64_t to) {
          ++num_read;
          return std::string(to - from, static_cast<char>(from));
        },
        [](uint64_t) { return true; });
  };
  PieceUpload first(engines, {8, 0}, "it", {"key", 1}, 8 * kPieces);
  ASSERT_THAT(put(first), IsOk());
  EXPECT_EQ(first.num_old_bytes(), 0U);
  ASSERT_THAT(put(first), IsOk());
  EXPECT_EQ(num_read, kPieces);
  PieceUpload next(engines, {8, 0}, "it", {"key", 1}, 8 * kPieces);
  const uint64_t before = fake_.num_puts();
  ASSERT_THAT(put(next), IsOk());
  EXPECT_EQ(next.num_old_bytes(), 8 * kPieces);
  EXPECT_EQ(next.pieces().crcs, first.pieces().crcs);
  EXPECT_EQ(fake_.num_puts(), before + 1);  // It says that it goes on.
}

// What checksums say nothing of is looked at, too; of long arrays, each block.
TEST_F(ObjectSourceGraphStoreTest, ACopyIsCheckedBlockByBlockAndAsAGraph) {
  auto files = Files("from");
  Fill(*files, "g", 1);
  ASSERT_THAT(Seal(*files, "g"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SealedSourceGraph sealed, files->OpenSealed("g"));
  // With other bytes in one array, or with one more.
  const auto with = [&](const std::string& name, const std::string& bytes) {
    auto manifest = std::make_shared<GraphManifest>(*sealed.manifest);
    MappedSourceGraph::Arrays arrays;
    std::erase_if(manifest->arrays, [&](const ArrayInfo& array) { return array.name == name; });
    for (const ArrayInfo& array : manifest->arrays) {
      arrays[array.name] = sealed.graph->array(array.name);
    }
    ArrayInfo& changed = manifest->arrays.emplace_back();
    changed = {name, bytes.size(), {}};
    for (size_t at = 0; at < bytes.size(); at += ArrayInfo::kBlockBytes) {
      changed.block_crcs.push_back(
          Crc32c(absl::string_view(bytes).substr(at, ArrayInfo::kBlockBytes)));
    }
    arrays[name] = bytes;
    auto graph = MappedSourceGraph::OfArrays(std::move(arrays), nullptr, sealed.graph->info(),
                                             std::make_shared<SealedChecks>("g", *manifest));
    return SealedSourceGraph{sealed.definition, manifest, graph.value()};
  };
  Server server = Start();
  const std::string name = AdjacencyArray(0, true, kNeighboursPart);
  std::string neighbours(sealed.graph->array(name));
  neighbours.replace(0, 4, "\xff\xff\xff\xff");
  ASSERT_THAT(server.store->CopyIn(with(name, neighbours), kGoOnCopying), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SourceGraphVerifyReport report,
                          server.store->Verify("g", kGoOnCopying));
  ASSERT_EQ(report.num_damaged, 1U);
  EXPECT_THAT(report.damaged[0], StatusIs(absl::StatusCode::kDataLoss, _));
  ASSERT_THAT(server.store->Delete("g"), IsOk());

  std::string bytes(2 * ArrayInfo::kBlockBytes + 5, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 / 5);
  const SealedSourceGraph good = with("long", bytes);
  for (size_t block = 0; block < 3; ++block) {
    auto manifest = std::make_shared<GraphManifest>(*good.manifest);
    manifest->arrays.back().block_crcs[block] ^= 1;
    EXPECT_THAT(
        server.store->CopyIn({good.definition, manifest, good.graph}, kGoOnCopying),
        StatusIs(absl::StatusCode::kDataLoss,
                 HasSubstr(absl::StrCat(
                     "array long, bytes ", block * ArrayInfo::kBlockBytes, " to ",
                     std::min((block + 1) * ArrayInfo::kBlockBytes, uint64_t{bytes.size()})))));
  }
  ASSERT_THAT(server.store->CopyIn(good, kGoOnCopying), IsOk());
  EXPECT_TRUE(server.store->OpenSealed("g")->graph->array("long") == bytes);
}

class SomeBytes final : public MappedObject {
 public:
  explicit SomeBytes(absl::string_view bytes) : bytes_(bytes) {}
  absl::string_view bytes() const override { return bytes_; }

 private:
  const absl::string_view bytes_;
};

// One behind the other, and nothing is left of them in the process' addresses.
TEST_F(ObjectSourceGraphStoreTest, ObjectsAreJoinedOrRefused) {
  Server server = Start();
  const auto map = [](char fill, int flags) {
    void* const begin =
        ::mmap(nullptr, kArrayAlignment, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(begin, MAP_FAILED);
    std::memset(begin, fill, kArrayAlignment);
    return absl::string_view(static_cast<const char*>(begin), kArrayAlignment);
  };
  const auto join = [&](const std::vector<absl::string_view>& parts) {
    JoinedObjects::Objects objects;
    for (const absl::string_view part : parts) objects.push_back(std::make_shared<SomeBytes>(part));
    return JoinedObjects::Join(std::move(objects), server.replica->cache());
  };
  const absl::string_view a = map('a', MAP_SHARED);
  const absl::string_view b = map('b', MAP_SHARED);
  char* joined = nullptr;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto both, join({a, b}));
    EXPECT_TRUE(both->bytes() == absl::StrCat(a, b));
    joined = const_cast<char*>(both->bytes().data());
  }
  unsigned char pages[2];
  for (const uint64_t at : {uint64_t{0}, kArrayAlignment}) {
    EXPECT_EQ(::mincore(joined + at, kArrayAlignment, pages), -1);
  }
  // Only of a shared map there can be a second one; and more than all addresses.
  const absl::string_view alone = map('c', MAP_PRIVATE);
  const absl::string_view endless(a.data(), size_t{1} << 60);
  for (const absl::string_view bad : {alone, endless}) {
    EXPECT_THAT(join({a, bad}), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr(absl::StrCat(a.size() + bad.size(), " bytes"))));
  }
  for (const absl::string_view part : {a, b, alone}) {
    ::munmap(const_cast<char*>(part.data()), part.size());
  }
}

// A deletion whose answer is lost is not that of the next graph of that name.
TEST_F(ObjectSourceGraphStoreTest, ADeletionIsOfOneGraph) {
  Server b = Start("b");
  for (const bool is_anew : {false, true}) {
    int requests = 0;
    bool is_asked = false;
    Server a = Start("a", uint64_t{1} << 30, [&] {
      if (!is_asked) return StoreFault::kNone;
      if (++requests == 2) return StoreFault::kReplyLost;
      if (requests == 3 && is_anew) Fill(*b.store, "g", 2);
      return StoreFault::kNone;
    });
    Fill(*a.store, "g", 1);
    is_asked = true;
    EXPECT_THAT(a.store->Delete("g"), IsOk());
    is_asked = false;
    EXPECT_EQ(b.store->Get("g").ok(), is_anew);
  }
}

// More than one answer has.
TEST_F(ObjectSourceGraphStoreTest, ManyGraphsAreListed) {
  Server a = Start("a");
  Fill(*a.store, "g", 1);
  KeyValueStore& keys = a.replica->connection();
  SharedGraph graph =
      DecodeSharedGraph("g", keys.Get(SourceGraphNameKey("g")).value()->value).value();
  graph.server = "b";
  std::vector<std::string> expected = {"g"};
  for (int i = 0; i < 260; ++i) {
    graph.definition.name = absl::StrCat("g", 1000 + i);
    expected.push_back(graph.definition.name);
    ASSERT_THAT(keys.Commit({{},
                             {Operation::Put(SourceGraphNameKey(graph.definition.name),
                                             EncodeSharedGraph(graph))},
                             {}}),
                IsOk());
  }
  for (const size_t page_size : {0, 1, 130, 1000}) {
    std::vector<std::string> names;
    std::string token;
    do {
      PH_ASSERT_OK_AND_ASSIGN(const SourceGraphList list, a.store->List(page_size, token));
      for (const SourceGraphInfo& info : list.graphs) names.push_back(info.name);
      token = list.next_page_token;
    } while (!token.empty());
    EXPECT_EQ(names, expected);
  }
  // So are uploads that others have begun: the own one is gone on with.
  const ObjectEngines engines = a.replica->engines();
  const PieceUpload upload(engines, {4096, 0}, "it", {"key", 1}, 10);
  for (int i = 0; i < 130; ++i) {
    ASSERT_THAT(
        keys.Commit(
            {{}, {Operation::Put(absl::StrCat(kSourceGraphUploads, "0000", 1000 + i), "")}, {}}),
        IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const PieceUpload::Begun begun, upload.Begin());
  PH_ASSERT_OK_AND_ASSIGN(const PieceUpload::Begun again, upload.Begin());
  EXPECT_EQ(again.objects, begun.objects);
  EXPECT_EQ(again.create_revision, begun.create_revision);
  EXPECT_EQ(keys.Get(SourceGraphUploadKey(begun.objects)).value()->create_revision,
            begun.create_revision);
}

// What is there of that name, and what all have together, must be known.
TEST_F(ObjectSourceGraphStoreTest, ACopyOntoDamageIsRefused) {
  auto files = Files("from");
  Fill(*files, "g", 1);
  ASSERT_THAT(Seal(*files, "g"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SealedSourceGraph sealed, files->OpenSealed("g"));
  max_bytes_ = uint64_t{1} << 30;
  Server a = Start("a");
  KeyValueStore& keys = a.replica->connection();
  const auto put = [&](const std::string& key, const std::string& value) {
    ASSERT_THAT(keys.Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  };
  put(SourceGraphNameKey("g"), "?");
  const auto is_malformed =
      StatusIs(absl::StatusCode::kDataLoss, "stored source graph 'g': malformed");
  EXPECT_THAT(a.store->CopyIn(sealed, kGoOnCopying), is_malformed);
  EXPECT_THAT(a.store->Get("g"), is_malformed);
  EXPECT_THAT(a.store->Create("g", schema_, options_), is_malformed);
  EXPECT_THAT(a.store->Delete("g"), is_malformed);
  ASSERT_THAT(keys.Commit({{}, {Operation::Delete(KeyRange::Of(SourceGraphNameKey("g")))}, {}}),
              IsOk());
  put("ds/totals", "?");
  EXPECT_THAT(a.store->CopyIn(sealed, kGoOnCopying),
              StatusIs(absl::StatusCode::kDataLoss, "stored totals of the store: malformed"));
  EXPECT_THAT(Objects(), testing::IsEmpty());
}

TEST_F(ObjectSourceGraphStoreTest, ManifestsAreOfTheirArrays) {
  const auto malformed = [](const std::string& bytes) {
    EXPECT_THAT(DecodeSharedManifest("g", bytes),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("manifest of source graph 'g'")));
  };
  auto files = Files("from");
  Fill(*files, "g", 1);
  ASSERT_THAT(Seal(*files, "g"), IsOk());
  SharedGraphManifest manifest;
  manifest.manifest = *files->OpenSealed("g")->manifest;
  manifest.pieces.piece_bytes = 1024 * kArrayAlignment;
  manifest.pieces.crcs = {1};
  const std::string good = EncodeSharedManifest(manifest);
  PH_ASSERT_OK_AND_ASSIGN(const SharedGraphManifest read, DecodeSharedManifest("g", good));
  EXPECT_EQ(read.pieces.num_bytes, PlacesOf(manifest.manifest.arrays).num_bytes);
  malformed("?");
  malformed("");
  malformed(good + "x");
  malformed(good.substr(0, good.size() - 1));
  manifest.pieces.crcs = {1, 2};
  malformed(EncodeSharedManifest(manifest));
  manifest.pieces.crcs.clear();
  malformed(EncodeSharedManifest(manifest));
  manifest.pieces = {0, 0, 0, {1}};
  malformed(EncodeSharedManifest(manifest));
}

// Simulation: two servers and a command build, seal, copy, delete and sweep graphs; calls fail, are
// lost or done late, processes end at any point. A graph is there as a whole or not at all, with
// the rows of one that was given; nothing is left once all is deleted and swept.
TEST_F(ObjectSourceGraphStoreTest, AGraphIsThereAsAWholeOrNotAtAllWhateverFails) {
  auto files = Files("given");
  for (uint64_t seed = 0; seed < 3; ++seed) {
    Fill(*files, absl::StrCat("g", seed), seed);
    ASSERT_THAT(Seal(*files, absl::StrCat("g", seed)), IsOk());
  }
  int num_read = 0;
  int num_crashes = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SeededRandom random(seed);
    fake_.SetFaults({20, 20, 20, 0}, seed);
    const auto faults = [&] {
      return RandomFaults(
          random.Next(), 8,
          {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
           StoreFault::kDoneLater, StoreFault::kCrashBefore, StoreFault::kCrashAfter});
    };
    const std::vector<std::string> addresses = {"a", "b", ""};
    std::vector<Server> servers;
    for (const std::string& address : addresses) {
      servers.push_back(Start(address, uint64_t{1} << 30, faults()));
    }
    for (int step = 0; step < 20; ++step) {
      const size_t at = random.Below(servers.size());
      Server& server = servers[at];
      if (server.replica->connection().crashed()) {
        ++num_crashes;
        server = Server();
        server = Start(addresses[at], uint64_t{1} << 30, faults());
      }
      const uint64_t which = random.Below(3);
      const std::string name = absl::StrCat("g", which);
      switch (random.Below(8)) {
        case 0:
          (void)Sweep(server);
          (void)server.store->RemoveAllBuilt();
          break;
        case 1:
          (void)server.store->Delete(name);
          break;
        case 2:
          (void)server.store->Create(name, schema_, options_);
          break;
        case 3:
          (void)Append(*server.store, name, which);
          break;
        case 4:
          (void)Seal(*server.store, name);
          break;
        case 5:
        case 6:
          (void)server.store->CopyIn(*files->OpenSealed(name), kGoOnCopying);
          break;
        default: {
          const auto opened = server.store->Open(name);
          ASSERT_FALSE(absl::IsDataLoss(opened.status())) << opened.status();
          if (!opened.ok()) break;
          // One that was sealed before rows came is empty.
          const ReadGraph read = Read(**opened);
          ASSERT_TRUE(read == Given(which) || (*opened)->num_nodes(0) == 0);
          ++num_read;
        }
      }
    }
    cluster_.keys.DoLateRequests();
    fake_.SetFaults({}, 0);
    servers.clear();
    Server calm = Start("a");
    for (uint64_t which = 0; which < 3; ++which) {
      const std::string name = absl::StrCat("g", which);
      const auto info = calm.store->Get(name);
      if (absl::IsNotFound(info.status())) continue;
      ASSERT_THAT(info, IsOk());
      if (info->state == SourceGraphState::kSealed) {
        PH_ASSERT_OK_AND_ASSIGN(const SourceGraphVerifyReport report,
                                calm.store->Verify(name, kGoOnCopying));
        ASSERT_TRUE(report.ok()) << report.damaged.front();
        const ReadGraph read = ReadOf(*calm.store, name);
        ASSERT_TRUE(read == Given(which) || calm.store->Get(name)->num_nodes[0] == 0);
      }
      ASSERT_THAT(calm.store->Delete(name), IsOk());
    }
    ASSERT_THAT(Sweep(calm), IsOk());
    ASSERT_THAT(Objects(), testing::IsEmpty());
    ASSERT_EQ(NumKeys(), 0U);
    ASSERT_THAT(calm.store->RemoveAllBuilt(), IsOk());
    ASSERT_EQ(calm.building->counts().num_graphs, 0U);
  }
  EXPECT_GT(num_read, 20);
  EXPECT_GT(num_crashes, 100);
}

}  // namespace
}  // namespace packhouse
