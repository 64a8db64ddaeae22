// What only the embedded store promises: durability, and what becomes of faults below it. The laws
// of all stores are in dataset_store_test.cc.
#include "service/stores/lmdb/lmdb_dataset_store.h"

#include <lmdb.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_dataset_eraser.h"
#include "service/stores/lmdb/lmdb_dataset_values.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_maintenance.h"
#include "service/stores/lmdb/lmdb_meta_pages.h"
#include "service/stores/lmdb/lmdb_page_check.h"
#include "service/stores/lmdb/lmdb_page_layout.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/lmdb_tree_page.h"
#include "service/stores/lmdb/page_file.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"
#include "tests/datasets/stored_files.h"
#include "tests/support/random_graphs.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// ThreadSanitizer is slow, and one thread is all there is to see here.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kDamagedFiles = 150;
constexpr size_t kTornCommits = 30;
#else
constexpr uint64_t kDamagedFiles = 2000;
constexpr size_t kTornCommits = 400;
#endif
constexpr auto kGoOn = [](const VerifyProgress&) { return true; };

absl::StatusOr<std::unique_ptr<LmdbDatasetStore>> OpenStore(const std::string& folder,
                                                            uint64_t max_bytes = uint64_t{1}
                                                                                 << 30) {
  LmdbDatasetStore::Options options;
  options.folder = folder;
  options.max_bytes = max_bytes;
  return LmdbDatasetStore::Open(options);
}

GraphSchema Schema() {
  return GraphSchema::Create(
             SizeSchema::NodesAndEdges(),
             {{"x", DType::kInt16, {}, 0, {}, {}}, {"edge_index", DType::kInt32, {2}, 1, 0, {}}})
      .value();
}

GraphChunk Chunk(const GraphSchema& schema, uint64_t seed, size_t num_graphs) {
  Random random(seed);
  return RandomChunk(random, &schema, num_graphs, 9, seed << 32);
}

// What each data set holds, in order.
using World = std::map<std::string, std::vector<GraphChunk>>;

// Appends to `name` and remembers it.
void Append(LmdbDatasetStore& store, World& world, const GraphSchema& schema,
            const std::string& name, uint64_t seed, size_t num_graphs) {
  GraphChunk chunk = Chunk(schema, seed, num_graphs);
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, store.Get(name));
  std::vector<uint64_t> groups;
  for (size_t i = 0; info.options.grouped && i < num_graphs; ++i) groups.push_back(seed + i / 3);
  ASSERT_THAT(
      store.Append(name, chunk, groups, ProducerSequence{absl::StrCat("p", seed % 3), seed}),
      IsOk());
  world[name].push_back(std::move(chunk));
}

// Three data sets, and free pages of deleted ones.
void BuildWorld(const std::string& folder, const GraphSchema& schema, World& world) {
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder));
  for (const std::string name : {"a", "b", "gone", "many/sizes"}) {
    DatasetOptions options;
    options.grouped = name == "b";
    ASSERT_THAT(store->Create(name, schema, options), IsOk());
  }
  uint64_t seed = 0;
  for (int round = 0; round < 6; ++round) {
    Append(*store, world, schema, "a", ++seed, 20);
    Append(*store, world, schema, "gone", ++seed, 300);
    Append(*store, world, schema, "b", ++seed, 100 + 50 * round);
    Append(*store, world, schema, "many/sizes", ++seed, 7);
  }
  ASSERT_THAT(store->Seal("a"), IsOk());
  ASSERT_THAT(store->Delete("gone"), IsOk());
  ASSERT_THAT(store->WaitUntilErased(), IsOk());
  world.erase("gone");
  Append(*store, world, schema, "b", ++seed, 10);
}

// Reads all of it: every graph is right, or DATA_LOSS. Returns how many calls said so.
size_t ExpectRightOrLost(LmdbDatasetStore& store, const World& world) {
  size_t num_lost = 0;
  const auto is_lost = [&](const absl::Status& status) {
    if (status.ok()) return false;
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kDataLoss, _));
    ++num_lost;
    return true;
  };
  const auto list = store.List(0, "");
  if (is_lost(list.status())) return num_lost;
  std::set<std::string> listed;
  bool name_is_lost = false;
  for (const DatasetInfo& info : list->datasets) {
    listed.insert(info.name);
    name_is_lost |= info.state == DatasetState::kDamaged;
  }
  for (const auto& [name, chunks] : world) {
    if (!listed.contains(name)) {
      // The name itself was hit, so the list has another name instead.
      EXPECT_TRUE(name_is_lost) << name;
      ++num_lost;
      continue;
    }
    SizeHistogram recount(2);
    for (const GraphChunk& chunk : chunks) EXPECT_THAT(recount.AddTable(chunk.sizes()), IsOk());
    const auto histogram = store.GetHistogram(name);
    if (!is_lost(histogram.status())) {
      EXPECT_TRUE(*histogram == recount) << name;
    }
    const size_t lost_before = num_lost;
    const auto report = store.Verify(name, kGoOn);
    const auto reader = store.OpenReader(name);
    if (is_lost(reader.status())) continue;
    EXPECT_EQ((*reader)->num_graphs(), recount.num_graphs());
    size_t i = 0;
    for (const GraphChunk& chunk : chunks) {
      for (size_t j = 0; j < chunk.num_graphs(); ++j, ++i) {
        const auto graph = (*reader)->Graph(i);
        if (is_lost(graph.status())) {
          EXPECT_THAT(graph.status().message(), HasSubstr(absl::StrCat("data set '", name, "'")));
          continue;
        }
        EXPECT_TRUE(SameGraph(*graph->chunk, graph->index, chunk, j)) << name << " " << i;
      }
    }
    if (num_lost != lost_before || !histogram.ok()) {
      EXPECT_TRUE(!report.ok() || !report->ok()) << "Verify missed it in " << name;
    }
    EXPECT_TRUE(!(*reader)->unreadable().empty() || (*reader)->histogram() == recount);
  }
  return num_lost;
}

class LmdbDatasetStoreTest : public ::testing::Test {
 protected:
  const GraphSchema schema_ = Schema();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  World world_;
};

TEST_F(LmdbDatasetStoreTest, AFolderIsOneProcesssAtATime) {
  PH_ASSERT_OK_AND_ASSIGN(auto store, OpenStore(folder_.path()));
  EXPECT_THAT(OpenStore(folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr(absl::StrCat("is in use by process ", ::getpid()))));
  ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
  Append(*store, world_, schema_, "a", 1, 10);
  // A reader keeps the folder open beyond the store.
  PH_ASSERT_OK_AND_ASSIGN(auto reader, store->OpenReader("a"));
  store = nullptr;
  EXPECT_THAT(OpenStore(folder_.path()), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_THAT(reader->Graph(3), IsOk());
  reader = nullptr;
  EXPECT_THAT(OpenStore(folder_.path()), IsOk());
}

TEST_F(LmdbDatasetStoreTest, AFolderThatIsNotThereIsMade) {
  const std::string nested = folder_.path() + "/not/there";
  EXPECT_THAT(OpenStore(nested), IsOk());
  EXPECT_TRUE(std::filesystem::exists(DataFile(nested)));
  WriteFile(folder_.path() + "/file", "x");
  EXPECT_THAT(OpenStore(folder_.path() + "/file"),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("cannot create the folder")));
}

TEST_F(LmdbDatasetStoreTest, AnotherFormatVersionIsNamed) {
  BuildWorld(folder_.path(), schema_, world_);
  PutRaw(folder_.path(), FormatKey(), WithChecksum(FormatKey(), EncodeNumber(3)));
  EXPECT_THAT(OpenStore(folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("format version 3, this packhoused reads version 2")));
  PutRaw(folder_.path(), FormatKey(), WithChecksum(FormatKey(), EncodeNumber(kStoreFormatVersion)));
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
}

TEST_F(LmdbDatasetStoreTest, ADatabaseOfSomebodyElseIsLeftAlone) {
  PutRaw(folder_.path(), "somebody", "else");
  EXPECT_THAT(OpenStore(folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("somebody")));
}

// What docs/storage-format.md advises to make a file small.
TEST_F(LmdbDatasetStoreTest, ACompactedCopyIsAStore) {
  BuildWorld(folder_.path(), schema_, world_);
  const TemporaryFolder copy(TemporaryFolder::InMemory());
  MDB_env* env = nullptr;
  ASSERT_EQ(mdb_env_create(&env), 0);
  ASSERT_EQ(mdb_env_open(env, folder_.path().c_str(), MDB_RDONLY, 0640), 0);
  ASSERT_EQ(mdb_env_copy2(env, copy.path().c_str(), MDB_CP_COMPACT), 0);
  mdb_env_close(env);
  EXPECT_LT(std::filesystem::file_size(DataFile(copy.path())),
            std::filesystem::file_size(DataFile(folder_.path())));
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(copy.path()));
  Append(*store, world_, schema_, "b", 80, 50);
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
}

TEST_F(LmdbDatasetStoreTest, TheNumberOfDataSetsIsBounded) {
  LmdbDatasetStore::Options options;
  options.folder = folder_.path();
  options.max_datasets = 2;
  PH_ASSERT_OK_AND_ASSIGN(auto store, LmdbDatasetStore::Open(options));
  ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
  ASSERT_THAT(store->Create("b", schema_, {}), IsOk());
  EXPECT_THAT(store->Create("c", schema_, {}),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("at most 2")));
  store = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(store, LmdbDatasetStore::Open(options));
  EXPECT_THAT(store->Create("c", schema_, {}), StatusIs(absl::StatusCode::kResourceExhausted, _));
  ASSERT_THAT(store->Delete("a"), IsOk());
  EXPECT_THAT(store->Create("c", schema_, {}), IsOk());
}

// What is there stays when the bound is lowered below it, and nothing more goes in.
TEST_F(LmdbDatasetStoreTest, ALoweredBoundRefusesMore) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
    Append(*store, world_, schema_, "a", 1, 3000);
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path(), 2 * kPage));
  ASSERT_GT(store->num_bytes(), 3 * kPage);
  EXPECT_THAT(store->Append("a", Chunk(schema_, 2, 1), {}, std::nullopt),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr(absl::StrCat(store->num_bytes(), " + ", kPage, " bytes"))));
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
}

// Of a producer whose value is damaged nothing is taken for new, and neither is one whose key is.
TEST_F(LmdbDatasetStoreTest, ADamagedProducerRefusesWhatItWouldRepeat) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
    Append(*store, world_, schema_, "a", 3, 10);  // By "p0".
  }
  PutRaw(folder_.path(), ProducerKey(1, "p0"), "bad");
  const auto is_lost = StatusIs(absl::StatusCode::kDataLoss, HasSubstr("data set 'a': "));
  const GraphChunk chunk = Chunk(schema_, 3, 10);
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    EXPECT_THAT(store->GetProducer("a", "p0"), is_lost);
    for (const std::string name : {"p0", "p1"}) {
      EXPECT_THAT(store->Append("a", chunk, {}, ProducerSequence{name, 3}), is_lost) << name;
    }
    EXPECT_FALSE(store->Verify("a", kGoOn)->ok());
    EXPECT_EQ(store->Get("a")->num_records, 1U);
  }
  const std::string key = ProducerKey(1, "p0");
  PutRaw(folder_.path(), key, WithChecksum(key, "x"));
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    EXPECT_THAT(store->GetProducer("a", "p0"), is_lost);
    EXPECT_THAT(store->Append("a", chunk, {}, ProducerSequence{"p0", 3}), is_lost);
  }
  EraseKey(folder_.path(), key);
  PutRaw(folder_.path(), ProducerKey(2, "p0"), "");
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
  EXPECT_THAT(
      store->Append("a", chunk, {}, ProducerSequence{"p0", 3}),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("there are 0 producers, should be 1")));
  EXPECT_THAT(store->Verify("a", kGoOn)->disagreements,
              testing::ElementsAre(
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("0 producers, should be 1"))));
}

// A key that damage has made: it is listed, and no call takes it for a data set's name.
TEST_F(LmdbDatasetStoreTest, AKeyThatIsNoNameNamesNothing) {
  auto store = OpenStore(folder_.path()).value();
  ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
  store = nullptr;
  const std::vector<std::string> names = {"", "a b", std::string(129, 'a'), std::string(500, 'a')};
  for (const std::string& name : names) PutRaw(folder_.path(), NameKey(name), "x");
  store = OpenStore(folder_.path()).value();
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    const auto is_none = StatusIs(absl::StatusCode::kNotFound,
                                  absl::StrCat("data set: there is none named '",
                                               name.substr(0, DatasetStore::kMaxNameLength), "'"));
    EXPECT_THAT(store->Get(name), is_none);
    EXPECT_THAT(store->GetHistogram(name), is_none);
    EXPECT_THAT(store->GetProducer(name, "p"), is_none);
    EXPECT_THAT(store->Append(name, Chunk(schema_, 1, 1), {}, std::nullopt), is_none);
    EXPECT_THAT(store->Seal(name), is_none);
    EXPECT_THAT(store->Verify(name, kGoOn), is_none);
    EXPECT_THAT(store->OpenReader(name), is_none);
    EXPECT_THAT(store->OpenChunks(name), is_none);
    EXPECT_THAT(store->Delete(name), is_none);
  }
  std::vector<std::string> damaged;
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList list, store->List(0, ""));
  for (const DatasetInfo& info : list.datasets) {
    if (info.state == DatasetState::kDamaged) damaged.push_back(info.name);
  }
  EXPECT_THAT(damaged, ElementsAre("a b", names[2], names[3]));
}

// A number that a state or a tombstone has, whatever else is wrong with it, is that of no other.
TEST_F(LmdbDatasetStoreTest, NumbersAreNotUsedAgain) {
  const auto numbers = [&] {
    std::vector<uint64_t> found;
    const auto environment = LmdbEnvironment::Open(folder_.path(), uint64_t{1} << 28).value();
    const auto transaction =
        LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kRead).value();
    EXPECT_THAT(ForEachKey(transaction, kStatePrefix,
                           [&](absl::string_view key, absl::string_view) {
                             found.push_back(NumberAtEnd(key).value_or(0));
                             return true;
                           }),
                IsOk());
    return found;
  };
  const auto create = [&](const std::string& name) {
    EXPECT_THAT(OpenStore(folder_.path()).value()->Create(name, schema_, {}), IsOk());
  };
  create("a");
  EXPECT_THAT(numbers(), ElementsAre(1));
  PutRaw(folder_.path(), StateKey(7), "x");
  create("b");
  EXPECT_THAT(numbers(), ElementsAre(1, 7, 8));
  PutRaw(folder_.path(), TombstoneKey(30), "x");
  create("c");
  EXPECT_THAT(numbers(), ElementsAre(1, 7, 8, 9));
  // Erased in the end, and until then nobody's.
  PutRaw(folder_.path(), TombstoneKey(20), WithChecksum(TombstoneKey(20), EncodeTombstone("gone")));
  create("d");
  EXPECT_THAT(numbers(), ElementsAre(1, 7, 8, 9, 21));
}

// There are so many named ones and no more; a sweep of the others stops at what it cannot read.
TEST_F(LmdbDatasetStoreTest, ProducersAreBounded) {
  auto store = OpenStore(folder_.path()).value();
  ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
  const GraphChunk empty = Chunk(schema_, 1, 0);
  ProducerSequence producer = {"", 1};
  const auto append = [&](size_t number) {
    producer.producer = absl::StrCat("p", number);
    return store->Append("a", empty, {}, producer).status();
  };
  for (size_t i = 0; i < DatasetStore::kMaxProducers; ++i) ASSERT_THAT(append(i), IsOk());
  EXPECT_THAT(append(DatasetStore::kMaxProducers),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("there are 4096 producers, at most 4096")));
  ASSERT_THAT(store->Create("b", schema_, {}), IsOk());
  producer.forget_after = absl::Minutes(10);
  producer.now = absl::UnixEpoch() + absl::Hours(1);
  const auto append_to_b = [&](size_t number) {
    producer.producer = absl::StrCat("p", number);
    return store->Append("b", empty, {}, producer).status();
  };
  for (size_t i = 0; i < 1024; ++i) ASSERT_THAT(append_to_b(i), IsOk());
  store = nullptr;
  PutRaw(folder_.path(), ProducerKey(2, "p7"), "bad");
  store = OpenStore(folder_.path()).value();
  producer.now += absl::Hours(1);
  EXPECT_THAT(append_to_b(1024),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("data set 'b': ")));
}

// After a sweep that left more than half of the bound, too.
TEST_F(LmdbDatasetStoreTest, AtTheBoundProducersWhoseTimeIsOverGo) {
  ProducerSequence producer = {"old", 1};
  producer.forget_after = absl::Minutes(10);
  producer.now = absl::UnixEpoch() + absl::Hours(1);
  const GraphChunk empty = Chunk(schema_, 1, 0);
  {
    const auto store = OpenStore(folder_.path()).value();
    ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
    ASSERT_THAT(store->Append("a", empty, {}, producer), IsOk());
  }
  {
    const auto environment = LmdbEnvironment::Open(folder_.path(), uint64_t{1} << 28).value();
    auto transaction = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
    StoredState state = DecodeState(*transaction.Get(StateKey(1)).value()).value();
    state.num_producers = state.num_made_up = DatasetStore::kMaxMadeUpProducers;
    state.sweep_made_up_at = 2 * state.num_made_up;
    ASSERT_THAT(transaction.Put(StateKey(1), EncodeState(state)), IsOk());
    ASSERT_THAT(transaction.Commit(), IsOk());
  }
  const auto store = OpenStore(folder_.path()).value();
  producer.producer = "new";
  EXPECT_THAT(store->Append("a", empty, {}, producer),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("65536 producers whose names were made up")));
  producer.now += absl::Hours(1);
  EXPECT_THAT(store->Append("a", empty, {}, producer), IsOk());
}

// Everything in the folder that is not as it was written is told, with what it costs; a record or a
// value that nothing leads to as well.
TEST_F(LmdbDatasetStoreTest, ACheckTellsEachKindOfDamage) {
  BuildWorld(folder_.path(), schema_, world_);
  const auto check = [&](absl::StatusOr<uint64_t> num_datasets) {
    std::vector<std::string> found;
    uint64_t identity = 0;
    const auto checked = CheckDatasetFolder(
        folder_.path(),
        [&](const StoredDamage& damage) {
          EXPECT_EQ(damage.file, DataFile(folder_.path()));
          found.push_back(absl::StrCat(damage.place, "|", damage.what, "|", damage.cost));
        },
        &identity);
    EXPECT_EQ(checked.status(), num_datasets.status());
    if (checked.ok() && num_datasets.ok()) {
      EXPECT_EQ(*checked, *num_datasets);
    }
    EXPECT_EQ(identity != 0, checked.ok() && *checked != 0);
    return found;
  };
  EXPECT_THAT(check(3), IsEmpty());
  const std::string sound = ReadFile(DataFile(folder_.path()));
  const std::string stray =
      "belong to no data set that has a name|the data set whose name or key was damaged; if there "
      "is none, only their space";
  struct Case {
    std::string key;
    std::string value;
    uint64_t num_datasets;
    std::vector<std::string> found;
  };
  const auto fails = [](const std::string& key) {
    return absl::StrCat("stored value '", absl::CHexEscape(key), "' fails its checksum");
  };
  // "a" is data set 1, "b" 2, "many/sizes" 4; each has three producers at most, a state and runs.
  for (const Case& each : std::vector<Case>{
           {"zzz",
            "x",
            3,
            {"the key 'zzz'|is no key of this store|what had been under the key that it was"}},
           {RecordKey(77, 0), "x", 3, {"1 values of data set number 77|" + stray}},
           {StateKey(78), "x", 3, {"1 values of data set number 78|" + stray}},
           {HistogramKeyOf(79, 3), "x", 3, {"1 values of data set number 79|" + stray}},
           {ProducerKey(80, "name"), "x", 3, {"1 values of data set number 80|" + stray}},
           {std::string(kStatePrefix), "x", 3, {"1 values of data set number 0|" + stray}},
           {TombstoneKey(81),
            "x",
            3,
            {absl::StrCat("the tombstone '", absl::CHexEscape(TombstoneKey(81)), "'|",
                          fails(TombstoneKey(81)), "|space of a deleted data set stays taken")}},
           {NameKey("new"),
            "x",
            3,
            {absl::StrCat("the definition of data set 'new'|", fails(NameKey("new")),
                          "|data set 'new'")}},
           {NameKey("new"),
            WithChecksum(NameKey("new"), "\xff"),
            3,
            {"the definition of data set 'new'|stored definition of a data set: malformed|"
             "data set 'new'"}},
           {StateKey(1),
            "x",
            3,
            {absl::StrCat("data set 'a'|data set 'a': ", fails(StateKey(1)), "|data set 'a'")}},
           {TombstoneKey(82), WithChecksum(TombstoneKey(82), EncodeTombstone("gone")), 3, {}},
       }) {
    SCOPED_TRACE(absl::CHexEscape(each.key));
    PutRaw(folder_.path(), each.key, each.value);
    EXPECT_THAT(check(each.num_datasets), ElementsAreArray(each.found));
    WriteFile(DataFile(folder_.path()), sound);
  }
  // The format, and the trees.
  PutRaw(folder_.path(), FormatKey(), "x");
  EXPECT_THAT(check(0), ElementsAre(AllOf(HasSubstr("the format|"), HasSubstr("checksum"),
                                          HasSubstr("|all data sets, until a snapshot"))));
  PutRaw(folder_.path(), FormatKey(), WithChecksum(FormatKey(), EncodeNumber(3)));
  EXPECT_THAT(CheckDatasetFolder(folder_.path(), [](const StoredDamage&) {}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("version 3")));
  WriteFile(DataFile(folder_.path()), sound.substr(0, kPage));
  EXPECT_THAT(check(0), ElementsAre(AllOf(HasSubstr("the pages of the trees|"),
                                          HasSubstr("|all data sets, until a snapshot"))));
  WriteFile(DataFile(folder_.path()), "");
  EXPECT_THAT(check(0), IsEmpty());
  std::filesystem::remove(DataFile(folder_.path()));
  EXPECT_THAT(check(0), IsEmpty());
}

// More sizes than are folded at once: the histogram's runs are merged, and stay few.
TEST_F(LmdbDatasetStoreTest, ManyDistinctSizesAreFolded) {
  PH_ASSERT_OK_AND_ASSIGN(auto store, OpenStore(folder_.path()));
  const GraphSchema plain = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  ASSERT_THAT(store->Create("a", plain, {}), IsOk());
  SizeHistogram recount(2);
  Random random(1);
  constexpr uint64_t kSizes = 80 * 80;
  for (uint64_t round = 0; round < 30; ++round) {
    std::vector<uint32_t> counts;
    for (int i = 0; i < 2 * 1000; ++i) counts.push_back(random.Below(80));
    const SizeTable table =
        SizeTable::WithConsecutiveIds(1000, 2, std::move(counts), round * 1000).value();
    ASSERT_THAT(recount.AddTable(table), IsOk());
    ASSERT_THAT(store->Append("a", GraphChunk::OfSizes(&plain, table), {}, std::nullopt), IsOk());
    PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram histogram, store->GetHistogram("a"));
    ASSERT_TRUE(histogram == recount) << round;
    // Later runs have no more sizes than the first, and what comes next.
    EXPECT_THAT(store->GetReservedHistogram("a",
                                            [&](uint64_t bytes) {
                                              EXPECT_GE(bytes, histogram.bytes());
                                              EXPECT_LE(bytes,
                                                        SizeHistogram::BytesFor(2 * kSizes, 2));
                                              return absl::OkStatus();
                                            }),
                IsOk());
  }
  store = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(store, OpenStore(folder_.path()));
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report, store->Verify("a", kGoOn));
  EXPECT_TRUE(report.ok());
  store = nullptr;
  const std::string file = ReadFile(DataFile(folder_.path()));
  EXPECT_LT(file.size(), 4U << 20);
}

// What is deleted while it is read goes when the reader goes, or with the next process.
TEST_F(LmdbDatasetStoreTest, SpaceOfADeletedDataSetComesBack) {
  TemporaryFolder copy(TemporaryFolder::InMemory());
  uintmax_t file_bytes = 0;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      Append(*store, world_, schema_, "a", seed, 500);
    }
    const uint64_t full = store->num_bytes();
    EXPECT_EQ(store->Get("a")->num_bytes, full);
    PH_ASSERT_OK_AND_ASSIGN(auto reader, store->OpenReader("a"));
    ASSERT_THAT(store->Delete("a"), IsOk());
    EXPECT_EQ(store->num_bytes(), full);
    // As a crash would have left it here.
    std::filesystem::copy_file(DataFile(folder_.path()), DataFile(copy.path()));
    EXPECT_THAT(reader->Graph(9999), IsOk());
    reader = nullptr;
    ASSERT_THAT(store->WaitUntilErased(), IsOk());
    EXPECT_EQ(store->num_bytes(), 0U);
    // The same amount goes into the same file, again and again.
    file_bytes = std::filesystem::file_size(DataFile(folder_.path()));
    for (int round = 0; round < 5; ++round) {
      ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
      for (uint64_t seed = 1; seed <= 20; ++seed) {
        Append(*store, world_, schema_, "a", seed, 500);
      }
      ASSERT_THAT(store->Delete("a"), IsOk());
      ASSERT_THAT(store->WaitUntilErased(), IsOk());
    }
    EXPECT_LT(std::filesystem::file_size(DataFile(folder_.path())), file_bytes * 3 / 2);
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto reopened, OpenStore(copy.path()));
  ASSERT_THAT(reopened->WaitUntilErased(), IsOk());
  EXPECT_EQ(reopened->num_bytes(), 0U);
  EXPECT_THAT(reopened->List(0, "")->datasets, IsEmpty());
  ASSERT_THAT(reopened->Create("a", schema_, {}), IsOk());
  world_.clear();
  for (uint64_t seed = 1; seed <= 20; ++seed) Append(*reopened, world_, schema_, "a", seed, 500);
  EXPECT_EQ(ExpectRightOrLost(*reopened, world_), 0U);
  EXPECT_LT(std::filesystem::file_size(DataFile(copy.path())), file_bytes * 3 / 2);
}

// A disk whose commits wait until they are let go, and which tells what each thread made of them.
class GatedDisk final : public CommitObserver {
 public:
  void OnCommitBegin() override {
    absl::MutexLock lock(&mutex_);
    ++num_begun_;
    mutex_.Await(absl::Condition(&is_open_));
  }
  void OnCommitEnd(const CommitSummary&) override {}
  void OnStoreBytes(uint64_t num_bytes) override {
    absl::MutexLock lock(&mutex_);
    if (num_bytes < num_bytes_) {
      ++num_decreases_;
      most_freed_ = std::max(most_freed_, num_bytes_ - num_bytes);
      erasing_threads_.insert(std::this_thread::get_id());
    }
    num_bytes_ = num_bytes;
  }

  void Close() {
    absl::MutexLock lock(&mutex_);
    is_open_ = false;
  }
  void Open() {
    absl::MutexLock lock(&mutex_);
    is_open_ = true;
  }
  void AwaitCommit(uint64_t number) {
    absl::MutexLock lock(&mutex_);
    const auto has_begun = [&] { return num_begun_ >= number; };
    mutex_.Await(absl::Condition(&has_begun));
  }
  uint64_t num_begun() const {
    absl::MutexLock lock(&mutex_);
    return num_begun_;
  }
  uint64_t num_decreases() const {
    absl::MutexLock lock(&mutex_);
    return num_decreases_;
  }
  uint64_t most_freed() const {
    absl::MutexLock lock(&mutex_);
    return most_freed_;
  }
  std::set<std::thread::id> erasing_threads() const {
    absl::MutexLock lock(&mutex_);
    return erasing_threads_;
  }

 private:
  mutable absl::Mutex mutex_;
  bool is_open_ = true;
  uint64_t num_begun_ = 0;
  uint64_t num_bytes_ = 0;
  uint64_t num_decreases_ = 0;
  uint64_t most_freed_ = 0;
  std::set<std::thread::id> erasing_threads_;
};

// Letting go of the last reader of a deleted data set waits for no disk: a thread of gRPC's may be
// the one that does. Here no commit ends before the reader has gone.
TEST_F(LmdbDatasetStoreTest, WhoLetsGoOfTheLastReaderDoesNotErase) {
  GatedDisk disk;
  LmdbDatasetStore::Options options;
  options.folder = folder_.path();
  options.observer = &disk;
  PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
  ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
  for (uint64_t seed = 1; seed <= 20; ++seed) Append(*store, world_, schema_, "a", seed, 50);
  PH_ASSERT_OK_AND_ASSIGN(auto reader, store->OpenReader("a"));
  ASSERT_THAT(store->Delete("a"), IsOk());
  EXPECT_GT(store->num_bytes(), 0U);
  const uint64_t num_begun = disk.num_begun();
  disk.Close();
  reader = nullptr;
  disk.AwaitCommit(num_begun + 1);  // By another thread, which waits in it.
  EXPECT_GT(store->num_bytes(), 0U);
  disk.Open();
  ASSERT_THAT(store->WaitUntilErased(), IsOk());
  EXPECT_EQ(store->num_bytes(), 0U);
}

// However many append, delete and let go of readers: one thread erases, which is none of theirs, a
// bounded portion at a time, and all comes back.
TEST_F(LmdbDatasetStoreTest, OneThreadErasesInSmallPortions) {
  constexpr int kThreads = 3;
  constexpr uint64_t kRecords = LmdbDatasetEraser::kMaxKeys * 3 / 2;
  GatedDisk disk;
  LmdbDatasetStore::Options options;
  options.folder = folder_.path();
  options.observer = &disk;
  PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
  std::set<std::thread::id> callers = {std::this_thread::get_id()};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const std::string name = absl::StrCat("set", thread);
      const GraphChunk chunk = Chunk(schema_, thread, 3);
      for (int round = 0; round < 2; ++round) {
        ASSERT_THAT(store->Create(name, schema_, {}), IsOk());
        for (uint64_t i = 0; i < kRecords; ++i) {
          ASSERT_THAT(store->Append(name, chunk, {}, std::nullopt), IsOk());
        }
        auto reader = store->OpenReader(name);
        ASSERT_THAT(reader, IsOk());
        ASSERT_THAT(store->Delete(name), IsOk());
        EXPECT_THAT((*reader)->Graph(3 * kRecords - 1), IsOk());
      }
    });
    callers.insert(threads.back().get_id());
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_THAT(store->WaitUntilErased(), IsOk());
  EXPECT_EQ(store->num_bytes(), 0U);
  const auto erasing = disk.erasing_threads();
  EXPECT_EQ(erasing.size(), 1U);
  for (const auto& thread : erasing) EXPECT_FALSE(callers.contains(thread));
  EXPECT_GE(disk.num_decreases(), 2U);
  EXPECT_LE(disk.most_freed(), LmdbDatasetEraser::kMaxKeys * kPage);
}

// The store ends between two portions; the next one counts what is left, and goes on.
TEST_F(LmdbDatasetStoreTest, ErasingGoesOnWhereItEnded) {
  GatedDisk disk;
  LmdbDatasetStore::Options options;
  options.folder = folder_.path();
  options.observer = &disk;
  PH_ASSERT_OK_AND_ASSIGN(auto store, LmdbDatasetStore::Open(options));
  ASSERT_THAT(store->Create("kept", schema_, {}), IsOk());
  Append(*store, world_, schema_, "kept", 7, 300);
  const uint64_t kept = store->num_bytes();
  ASSERT_THAT(store->Create("large", schema_, {}), IsOk());
  const GraphChunk chunk = Chunk(schema_, 1, 3);
  const uint64_t num_records = 3 * LmdbDatasetEraser::kMaxKeys;
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < num_records / 4; ++i) {
        ASSERT_THAT(store->Append("large", chunk, {}, std::nullopt), IsOk());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const uint64_t full = store->num_bytes();
  EXPECT_EQ(full, kept + num_records * kPage);
  PH_ASSERT_OK_AND_ASSIGN(auto reader, store->OpenReader("large"));
  ASSERT_THAT(store->Delete("large"), IsOk());
  const uint64_t num_begun = disk.num_begun();
  disk.Close();
  reader = nullptr;
  disk.AwaitCommit(num_begun + 1);
  std::thread ending([&] { store = nullptr; });
  disk.Open();
  ending.join();
  options.observer = nullptr;
  // At least one portion is gone, and as the thread ends when it is asked to, mostly no other.
  PH_ASSERT_OK_AND_ASSIGN(store, LmdbDatasetStore::Open(options));
  EXPECT_LE(store->num_bytes(), full - LmdbDatasetEraser::kMaxKeys * kPage);
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
  ASSERT_THAT(store->WaitUntilErased(), IsOk());
  EXPECT_EQ(store->num_bytes(), kept);
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
}

// A page that says it has been changed in memory would be written to where it is mapped.
TEST_F(LmdbDatasetStoreTest, FlagsOfPagesInMemoryAreFound) {
  BuildWorld(folder_.path(), schema_, world_);
  const std::string good = ReadFile(DataFile(folder_.path()));
  size_t num_refused = 0;
  for (const size_t page : TreePages(good)) {
    for (int bit = 4; bit < 16; ++bit) {
      SCOPED_TRACE(testing::Message() << "page " << page << ", flag " << bit);
      std::string bad = good;
      char& flags = bad[page * kPage + 10 + bit / 8];
      flags = static_cast<char>(flags ^ (1 << (bit % 8)));
      TemporaryFolder folder(TemporaryFolder::InMemory());
      WriteFile(DataFile(folder.path()), bad);
      const auto store = OpenStore(folder.path());
      if (!store.ok()) {
        EXPECT_THAT(store, StatusIs(absl::StatusCode::kDataLoss, _));
        ++num_refused;
        continue;
      }
      // Nothing leads to this page.
      EXPECT_THAT((*store)->Create("new", schema_, {}), IsOk());
      EXPECT_EQ(ExpectRightOrLost(**store, world_), 0U);
    }
  }
  // At least flips in the root, the leaves and the newer meta page are refused.
  EXPECT_GE(num_refused, 4 * 12U);
}

// The number of a commit may change to one that fits that of the other meta page, too: by one flip
// for some numbers. LMDB would go back to the commit before.
TEST_F(LmdbDatasetStoreTest, NobodyGoesBackByACommit) {
  constexpr size_t kTransactionAt = 16 + 128;
  BuildWorld(folder_.path(), schema_, world_);
  for (uint64_t commit = 0; commit < 9; ++commit) {
    if (commit == 8) {
      // The list of free pages has several levels: a reader that goes on keeps them.
      const auto environment = LmdbEnvironment::Open(folder_.path(), uint64_t{1} << 28).value();
      const auto reader =
          LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kRead).value();
      for (int i = 0; i < 400; ++i) {
        auto writer = LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite).value();
        ASSERT_THAT(writer.Put(TombstoneKey(99), EncodeTombstone("gone")), IsOk());
        ASSERT_THAT(writer.Commit(), IsOk());
      }
    }
    Append(*OpenStore(folder_.path()).value(), world_, schema_, "b", 99 + commit, 10);
    const std::string good = ReadFile(DataFile(folder_.path()));
    for (const size_t page : {0, 1}) {
      for (int bit = 0; bit < 16; ++bit) {
        SCOPED_TRACE(testing::Message() << commit << ", page " << page << ", bit " << bit);
        std::string bad = good;
        char& byte = bad[page * kPage + kTransactionAt + bit / 8];
        byte = static_cast<char>(byte ^ (1 << (bit % 8)));
        TemporaryFolder folder(TemporaryFolder::InMemory());
        WriteFile(DataFile(folder.path()), bad);
        EXPECT_THAT(OpenStore(folder.path()), StatusIs(absl::StatusCode::kDataLoss, _));
      }
    }
  }
}

// Each bit of both meta pages, which say where all the others are: the store is refused, or all is
// there. What they say must not be believed before it is checked: an open with a large number of
// pages would take gigabytes.
TEST_F(LmdbDatasetStoreTest, EachBitOfTheMetaPagesIsFoundOrHarmless) {
  constexpr size_t kMetaAt = 16;
  constexpr size_t kMetaBytes = 136;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    ASSERT_THAT(store->Create("a", schema_, {}), IsOk());
    Append(*store, world_, schema_, "a", 1, 10);
  }
  const std::string good = ReadFile(DataFile(folder_.path()));
  size_t num_refused = 0;
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  for (const size_t page : {0, 1}) {
    for (size_t bit = 0; bit < 8 * kMetaBytes; ++bit) {
      SCOPED_TRACE(testing::Message() << "page " << page << ", bit " << bit);
      std::string bad = good;
      char& byte = bad[page * kPage + kMetaAt + bit / 8];
      byte = static_cast<char>(byte ^ (1 << (bit % 8)));
      WriteFile(DataFile(folder.path()), bad);
      const auto store = OpenStore(folder.path());
      if (store.ok()) {
        EXPECT_EQ(ExpectRightOrLost(**store, world_), 0U);
      } else {
        EXPECT_THAT(store,
                    AnyOf(StatusIs(absl::StatusCode::kDataLoss, HasSubstr(folder.path())),
                          StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("LMDB"))));
        ++num_refused;
      }
    }
  }
  EXPECT_GT(num_refused, 8 * kMetaBytes / 2);
}

// A number in a page of an LMDB file.
struct StoredField {
  std::string name;
  uint64_t page = 0;
  size_t at = 0;  // In the file.
  size_t bytes = 0;
};

// The fields of all headers that the newest commit's tree of data reaches: of its pages, of large
// values, and of the nodes in leaves.
std::vector<StoredField> TreeFields(const std::string& path) {
  using lmdb_layout::NodeHeader;
  using lmdb_layout::PageHeader;
  const PageFile file(path);
  const CommitMeta commit = ReadMetaPages(file)->newest;
  std::vector<StoredField> fields;
  const auto add_header = [&](const std::string& of, uint64_t page) {
    const size_t at = page * kPage;
    fields.push_back({of + " number", page, at + offsetof(PageHeader, number), 8});
    fields.push_back({of + " flags", page, at + offsetof(PageHeader, flags), 2});
    fields.push_back({of + " lower", page, at + offsetof(PageHeader, lower), 2});
    fields.push_back({of + " upper", page, at + offsetof(PageHeader, upper), 2});
  };
  const auto& tree = commit.meta.trees[1];
  std::vector<std::pair<uint64_t, size_t>> pages = {{tree.root, 1}};
  for (size_t p = 0; p < pages.size(); ++p) {
    const auto [number, depth] = pages[p];
    const bool is_leaf = depth == tree.depth;
    add_header(is_leaf ? "leaf" : "branch", number);
    const auto page = LmdbTreePage::Read(file, number, kPage, is_leaf);
    EXPECT_THAT(page, IsOk());
    for (size_t i = 0; page.ok() && i < page->num_nodes(); ++i) {
      const LmdbTreePage::Node node = page->NodeAt(i).value();
      if (!is_leaf) {
        pages.emplace_back(node.child, depth + 1);
        continue;
      }
      uint16_t offset = 0;
      EXPECT_THAT(file.ReadAs(number * kPage + sizeof(PageHeader) + i * sizeof(offset), offset),
                  IsOk());
      const size_t at = number * kPage + offset;
      fields.push_back({"node flags", number, at + offsetof(NodeHeader, flags), 2});
      if (!node.is_big) {
        fields.push_back({"node key", number, at + offsetof(NodeHeader, key_bytes), 2});
        fields.push_back({"node value", number, at, 4});
        continue;
      }
      uint64_t first = 0;
      std::memcpy(&first, node.data.data(), sizeof(first));
      add_header("value", first);
    }
  }
  return fields;
}

// Whatever a header in a tree says that is not so, wherever it is, the page is named.
TEST_F(LmdbDatasetStoreTest, EachFieldOfATreeIsChecked) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    for (int i = 0; i < 40; ++i) {
      const std::string name = absl::StrCat("a/data/set/with/a/long/name/", i);
      ASSERT_THAT(store->Create(name, schema_, {}), IsOk());
      if (i % 4 == 0) Append(*store, world_, schema_, name, i + 1, 5 + 20 * i);
    }
  }
  const std::string good = ReadFile(DataFile(folder_.path()));
  const std::vector<StoredField> fields = TreeFields(DataFile(folder_.path()));
  std::map<std::string, size_t> num_changed;
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  ASSERT_THAT(CheckLmdbPages(DataFile(folder_.path())), IsOk());
  for (const StoredField& field : fields) {
    uint64_t value = 0;
    std::memcpy(&value, good.data() + field.at, field.bytes);
    std::vector<uint64_t> others = {value + 2, value - 2, value ^ 0x40};
    // One byte more of a node may be the one that fills it up to an even number, and one flag more
    // says that its value is the number of a page, which is what is named then.
    if (field.name.substr(0, 4) != "node") {
      others.insert(others.end(), {value + 1, value - 1});
    }
    for (const uint64_t other : others) {
      SCOPED_TRACE(testing::Message()
                   << field.name << " of page " << field.page << ": " << value << " to " << other);
      std::string bad = good;
      std::memcpy(bad.data() + field.at, &other, field.bytes);
      WriteFile(DataFile(folder.path()), bad);
      const std::string page = absl::StrCat("page ", field.page);
      EXPECT_THAT(
          CheckLmdbPages(DataFile(folder.path())),
          StatusIs(absl::StatusCode::kDataLoss,
                   AnyOf(HasSubstr(page + " "), HasSubstr(page + ","), HasSubstr(page + ":"))));
      ++num_changed[field.name];
    }
  }
  for (const std::string name : {"branch number", "leaf upper", "value flags", "node value"}) {
    EXPECT_GE(num_changed[name], 5) << name;
  }
}

// Also one of more pages than 16 bits can count. The file has holes, so none of it is written.
TEST_F(LmdbDatasetStoreTest, AValueMayHaveAnyNumberOfPages) {
  for (const uint64_t num_pages : {1, 2, 65535, 65536, 65537}) {
    SCOPED_TRACE(num_pages);
    const TemporaryFolder folder(TemporaryFolder::InMemory());
    MDB_env* env = nullptr;
    ASSERT_EQ(mdb_env_create(&env), 0);
    ASSERT_EQ(mdb_env_set_mapsize(env, (num_pages + 64) * kPage), 0);
    ASSERT_EQ(mdb_env_open(env, folder.path().c_str(), MDB_WRITEMAP, 0640), 0);
    MDB_txn* txn = nullptr;
    ASSERT_EQ(mdb_txn_begin(env, nullptr, 0, &txn), 0);
    MDB_dbi dbi = 0;
    ASSERT_EQ(mdb_dbi_open(txn, nullptr, 0, &dbi), 0);
    MDB_val key = {3, const_cast<char*>("key")};
    MDB_val value = {num_pages * kPage - sizeof(lmdb_layout::PageHeader), nullptr};
    ASSERT_EQ(mdb_put(txn, dbi, &key, &value, MDB_RESERVE), 0);
    ASSERT_EQ(mdb_txn_commit(txn), 0);
    mdb_env_close(env);
    EXPECT_THAT(CheckLmdbPages(DataFile(folder.path())), IsOk());
  }
}

// Flips bits anywhere in the file, and every second time in the pages of LMDB's trees, which are
// few. The store never gives a wrong byte and never crashes. It serves what is whole.
TEST_F(LmdbDatasetStoreTest, FlippedBitsAreFoundOrHarmless) {
  BuildWorld(folder_.path(), schema_, world_);
  const std::string good = ReadFile(DataFile(folder_.path()));
  const std::vector<size_t> tree_pages = TreePages(good);
  size_t num_refused = 0;
  size_t num_with_loss = 0;
  size_t num_unharmed = 0;
  for (uint64_t seed = 0; seed < kDamagedFiles; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::string bad = good;
    const size_t num_flips = random.Between(1, 3);
    for (size_t flip = 0; flip < num_flips; ++flip) {
      const size_t page = seed % 2 == 0 ? tree_pages[random.Below(tree_pages.size())]
                                        : random.Below(good.size() / kPage);
      size_t byte = page * kPage + random.Below(kPage);
      // A page of a tree is mostly empty.
      while (seed % 2 == 0 && good[byte] == 0) byte = page * kPage + random.Below(kPage);
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << random.Below(8)));
    }
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), bad);
    const auto store = OpenStore(folder.path());
    if (!store.ok()) {
      EXPECT_THAT(store, AnyOf(StatusIs(absl::StatusCode::kDataLoss, HasSubstr(folder.path())),
                               StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("LMDB"))));
      ++num_refused;
      continue;
    }
    const size_t num_lost = ExpectRightOrLost(**store, world_);
    ++(num_lost == 0 ? num_unharmed : num_with_loss);
    // Writing beside the damage spoils nothing more.
    ASSERT_THAT((*store)->Create("new", schema_, {}), IsOk());
    World with_new = world_;
    Append(**store, with_new, schema_, "new", 99, 300);
    EXPECT_EQ(ExpectRightOrLost(**store, with_new), num_lost);
  }
  // Every kind happens often. The test would be worth nothing if one never happened.
  EXPECT_GT(num_refused, kDamagedFiles / 20);
  EXPECT_GT(num_with_loss, kDamagedFiles / 20);
  EXPECT_GT(num_unharmed, kDamagedFiles / 20);
  RecordProperty("refused", static_cast<int>(num_refused));
  RecordProperty("with_loss", static_cast<int>(num_with_loss));
  RecordProperty("unharmed", static_cast<int>(num_unharmed));
}

// One bad record among good ones: the message names it, and its neighbours are served.
TEST_F(LmdbDatasetStoreTest, ABadRecordIsNamedAndTheRestServed) {
  BuildWorld(folder_.path(), schema_, world_);
  std::string file = ReadFile(DataFile(folder_.path()));
  // The columns of record 2 of "b", 100 + 150 graphs in.
  const absl::string_view x = world_["b"][2].column(0);
  const size_t at = file.find(std::string(x));
  ASSERT_NE(at, std::string::npos);
  file[at + 5] = static_cast<char>(file[at + 5] ^ 1);
  WriteFile(DataFile(folder_.path()), file);
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, store->OpenReader("b"));
  EXPECT_TRUE(reader->unreadable().empty());
  const auto lost = StatusIs(
      absl::StatusCode::kDataLoss,
      AllOf(HasSubstr("data set 'b': record 2 (graphs [250, 450)): "), HasSubstr("tensors")));
  EXPECT_THAT(reader->Graph(249), IsOk());
  EXPECT_THAT(reader->Graph(250), lost);
  EXPECT_THAT(reader->Graph(449), lost);
  EXPECT_THAT(reader->Graph(450), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report, store->Verify("b", kGoOn));
  EXPECT_EQ(report.num_damaged, 1U);
  ASSERT_EQ(report.damaged.size(), 1U);
  EXPECT_EQ(report.damaged[0].record, 2U);
  EXPECT_EQ(report.damaged[0].first_graph, 250U);
  EXPECT_EQ(report.damaged[0].num_graphs, 200U);
  EXPECT_THAT(report.disagreements, IsEmpty());
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport other, store->Verify("a", kGoOn));
  EXPECT_TRUE(other.ok());
}

// The sizes of a bad record are not known when the reader is opened; where its graphs are, is.
TEST_F(LmdbDatasetStoreTest, ARecordWithoutSizesKeepsItsPlace) {
  BuildWorld(folder_.path(), schema_, world_);
  const std::string good = ReadFile(DataFile(folder_.path()));
  std::vector<size_t> records;  // Of all data sets.
  for (size_t at = 0; (at = good.find("PHCHUNK\n", at)) != std::string::npos; ++at) {
    records.push_back(at);
  }
  size_t num_hit = 0;
  for (const size_t at : records) {
    for (const size_t byte : {size_t{0}, size_t{33}, size_t{113}}) {
      std::string bad = good;
      bad[at + byte] = static_cast<char>(bad[at + byte] ^ 4);
      TemporaryFolder folder(TemporaryFolder::InMemory());
      WriteFile(DataFile(folder.path()), bad);
      PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder.path()));
      PH_ASSERT_OK_AND_ASSIGN(const auto reader, store->OpenReader("b"));
      for (const DamagedRecord& damaged : reader->unreadable()) {
        ++num_hit;
        EXPECT_THAT(damaged.status, StatusIs(absl::StatusCode::kDataLoss, _));
        ASSERT_LT(damaged.record, world_["b"].size());
        EXPECT_EQ(damaged.num_graphs, world_["b"][damaged.record].num_graphs());
        EXPECT_EQ(reader->counts()[2 * damaged.first_graph], 0U);
      }
      EXPECT_EQ(reader->num_graphs(), store->Get("b")->num_graphs);
      ExpectRightOrLost(*store, world_);
    }
  }
  EXPECT_EQ(num_hit, 3 * world_["b"].size());
}

// The file cut off at any page, or shorter than a page.
TEST_F(LmdbDatasetStoreTest, ACutOffFileIsRefusedOrWhole) {
  BuildWorld(folder_.path(), schema_, world_);
  const std::string good = ReadFile(DataFile(folder_.path()));
  std::vector<size_t> lengths = {1, 15, 16, 100, 152, kPage - 1, kPage + 20, 2 * kPage};
  for (size_t page = 3; page < good.size() / kPage; page += 7) lengths.push_back(page * kPage);
  lengths.push_back(good.size() - 1);
  for (const size_t length : lengths) {
    SCOPED_TRACE(testing::Message() << length << " of " << good.size());
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), absl::string_view(good).substr(0, length));
    const auto store = OpenStore(folder.path());
    if (store.ok()) {
      EXPECT_EQ(ExpectRightOrLost(**store, world_), 0U);
    } else {
      EXPECT_THAT(store, StatusIs(absl::StatusCode::kDataLoss, _));
    }
  }
}

// A commit torn at any place: LMDB writes data first, then one of the two meta pages. As long as
// the new meta page is not there, whatever has come of the data, all that was acknowledged before
// is there and nothing else; with it, all is.
TEST_F(LmdbDatasetStoreTest, ATornCommitIsWholeOrNotThere) {
  BuildWorld(folder_.path(), schema_, world_);
  const std::string before = ReadFile(DataFile(folder_.path()));
  World after_world = world_;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder_.path()));
    Append(*store, after_world, schema_, "b", 70, 200);
  }
  const std::string after = ReadFile(DataFile(folder_.path()));
  ASSERT_GE(after.size(), before.size());
  std::vector<size_t> changed;  // Bytes of data pages that the commit changed.
  for (size_t at = 2 * kPage; at < after.size(); ++at) {
    if (at >= before.size() || after[at] != before[at]) changed.push_back(at);
  }
  ASSERT_GT(changed.size(), 2000U);
  const auto expect = [&](const std::string& bytes, const World& expected) {
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), bytes);
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(folder.path()));
    EXPECT_EQ(ExpectRightOrLost(*store, expected), 0U);
    EXPECT_EQ(store->Get("b")->num_records, expected.at("b").size());
  };
  const size_t stride = changed.size() / kTornCommits;
  for (size_t cut = 0; cut < changed.size(); cut += stride) {
    SCOPED_TRACE(testing::Message() << "cut at byte " << changed[cut]);
    // Written up to there, and the other way round: written from there, as a disk may reorder.
    std::string torn = before;
    torn.resize(std::max(before.size(), changed[cut]), '\0');
    std::string reordered = before;
    reordered.resize(after.size(), '\0');
    for (size_t i = 0; i < changed.size(); ++i) {
      (i < cut ? torn : reordered)[changed[i]] = after[changed[i]];
    }
    expect(torn, world_);
    expect(reordered, world_);
  }
  expect(after, after_world);
  // The commit numbers in the meta pages tell which is newer; each byte of the new page torn.
  const size_t new_meta = after.compare(0, kPage, before, 0, kPage) != 0 ? 0 : kPage;
  for (size_t cut = 0; cut <= 160; cut += 8) {
    SCOPED_TRACE(testing::Message() << "meta page cut at byte " << cut);
    std::string torn = after;
    torn.replace(new_meta + cut, kPage - cut, before, new_meta + cut, kPage - cut);
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), torn);
    const auto store = OpenStore(folder.path());
    if (!store.ok()) {
      EXPECT_THAT(store, StatusIs(absl::StatusCode::kDataLoss, _));
      continue;
    }
    const bool has_new = (*store)->Get("b")->num_records == after_world["b"].size();
    EXPECT_EQ(ExpectRightOrLost(**store, has_new ? after_world : world_), 0U);
  }
}

TEST_F(LmdbDatasetStoreTest, WhatIsNoDatabaseIsRefused) {
  Random random(1);
  for (const size_t length : {1, 4096, 8192, 100000}) {
    std::string noise;
    for (size_t i = 0; i < length; ++i) noise.push_back(static_cast<char>(random.Next()));
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), noise);
    EXPECT_THAT(OpenStore(folder.path()),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(folder.path())));
  }
}

// Appends until something is full, and says how many went in.
size_t Fill(LmdbDatasetStore& store, World& world, const GraphSchema& schema,
            const std::string& name, absl::string_view why) {
  for (uint64_t seed = 1;; ++seed) {
    GraphChunk chunk = Chunk(schema, seed * 3, 300);
    const auto result = store.Append(name, chunk, {}, ProducerSequence{"p", seed});
    if (!result.ok()) {
      EXPECT_THAT(result,
                  StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr(std::string(why))));
      return seed - 1;
    }
    world[name].push_back(std::move(chunk));
  }
}

TEST_F(LmdbDatasetStoreTest, AFullDiskLosesNothingAndGoesOnOnceThereIsSpace) {
  SmallDisk disk(3 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(disk.path()));
    ASSERT_THAT(store->Create("kept", schema_, {}), IsOk());
    ASSERT_THAT(store->Create("large", schema_, {}), IsOk());
    Append(*store, world_, schema_, "kept", 1000, 100);
    EXPECT_GT(Fill(*store, world_, schema_, "large", "space"), 20U);
    // Full, and full again, and all of it is there.
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(store->Append("large", Chunk(schema_, 1, 300), {}, std::nullopt),
                  StatusIs(absl::StatusCode::kResourceExhausted, _));
    }
    EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
    // Deleting makes room, on the full disk.
    ASSERT_THAT(store->Delete("large"), IsOk());
    world_.erase("large");
    ASSERT_THAT(store->Create("large", schema_, {}), IsOk());
    EXPECT_GT(Fill(*store, world_, schema_, "large", "space"), 15U);
    EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
  }
  // Reopening on the full disk, too.
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(disk.path()));
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
  ASSERT_THAT(store->Delete("large"), IsOk());
  world_.erase("large");
  Append(*store, world_, schema_, "kept", 1001, 300);
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
}

// What finds no room waits for what was deleted before, whichever comes first to the disk.
TEST_F(LmdbDatasetStoreTest, OnAFullDiskAnAppendAfterADeletionGoesThrough) {
  for (int round = 0; round < 5; ++round) {
    SCOPED_TRACE(round);
    SmallDisk disk(3 << 20);
    if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
    world_.clear();
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(disk.path()));
    ASSERT_THAT(store->Create("other", schema_, {}), IsOk());
    ASSERT_THAT(store->Create("large", schema_, {}), IsOk());
    Fill(*store, world_, schema_, "large", "space");
    ASSERT_THAT(store->Delete("large"), IsOk());
    for (uint64_t seed = 1; seed < 10; ++seed) {
      EXPECT_THAT(store->Append("other", Chunk(schema_, seed, 300), {}, std::nullopt), IsOk());
    }
  }
}

TEST_F(LmdbDatasetStoreTest, ADiskTooSmallToBeginOnIsSaidSo) {
  for (const size_t bytes : {size_t{4096}, size_t{64} << 10, size_t{272} << 10}) {
    SmallDisk disk(bytes);
    if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
    EXPECT_THAT(OpenStore(disk.path()), StatusIs(absl::StatusCode::kResourceExhausted, _)) << bytes;
  }
}

TEST_F(LmdbDatasetStoreTest, AReadOnlyDiskIsRead) {
  SmallDisk disk(8 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  BuildWorld(disk.path(), schema_, world_);
  if (!disk.MakeReadOnly()) GTEST_SKIP() << "cannot remount: " << std::strerror(errno);
  PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenStore(disk.path()));
  EXPECT_TRUE(store->is_read_only());
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
  EXPECT_THAT(store->Append("b", Chunk(schema_, 1, 3), {}, std::nullopt),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Read-only")));
  EXPECT_THAT(store->Create("c", schema_, {}), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(store->Seal("b"), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_THAT(store->Delete("b"), StatusIs(absl::StatusCode::kUnavailable, _));
  EXPECT_EQ(ExpectRightOrLost(*store, world_), 0U);
  EXPECT_THAT(OpenStore(disk.path() + "/none"), StatusIs(absl::StatusCode::kUnavailable, _));
}

}  // namespace
}  // namespace packhouse
