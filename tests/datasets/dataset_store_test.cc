// The laws that every DatasetStore keeps. One harness over all implementations: a new one adds a
// line at the end.
#include "service/stores/datasets/dataset_store.h"

#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/datasets/quota_dataset_store.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/objects/s3_server.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// An implementation with a place of its own.
class StoreWorld {
 public:
  virtual ~StoreWorld() = default;
  virtual DatasetStore& store() = 0;
  // Ends the process, as far as the store can tell, and starts another.
  virtual void Reopen() = 0;
  // Why there is no such store here; empty if there is one.
  virtual std::string why_not() const { return ""; }
  // Of so many seeds, as many as take a second.
  virtual uint64_t Seeds(uint64_t all) const { return all; }
};

class MemoryWorld final : public StoreWorld {
 public:
  explicit MemoryWorld(uint64_t max_bytes) : store_(max_bytes) {}
  DatasetStore& store() override { return store_; }
  void Reopen() override {}

 private:
  MemoryDatasetStore store_;
};

class LmdbWorld final : public StoreWorld {
 public:
  explicit LmdbWorld(uint64_t max_bytes) : max_bytes_(max_bytes) { Reopen(); }
  DatasetStore& store() override { return *store_; }
  void Reopen() override {
    store_ = nullptr;
    LmdbDatasetStore::Options options;
    options.folder = folder_.path();
    options.max_bytes = max_bytes_;
    store_ = LmdbDatasetStore::Open(options).value();
  }

 private:
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const uint64_t max_bytes_;
  std::unique_ptr<LmdbDatasetStore> store_;
};

// Quotas that nothing reaches change nothing.
class QuotaWorld final : public StoreWorld {
 public:
  explicit QuotaWorld(uint64_t max_bytes) : inner_(max_bytes) {}
  DatasetStore& store() override { return store_; }
  void Reopen() override {}

 private:
  MemoryDatasetStore inner_;
  const QuotasOf quotas_of_ = [](absl::string_view /*where*/) {
    Quotas quotas;
    quotas.disk_bytes = uint64_t{1} << 40;
    quotas.datasets = 2000;
    return quotas;
  };
  DiskQuota disk_{quotas_of_};
  QuotaDatasetStore store_{&inner_, quotas_of_, &disk_};
};

// A replica over an object store and a key-value store. Its manifest has pages of three chunks.
class ObjectWorld final : public StoreWorld {
 public:
  enum class Kind {
    kFake,
    kFaulty,  // Calls of both engines fail now and then, and answers are lost.
    kS3,      // Objects in a real S3 server.
  };
  ObjectWorld(uint64_t max_bytes, Kind kind) : kind_(kind) {
    options_.max_bytes = max_bytes;
    options_.chunks_of_page = 3;
    if (kind == Kind::kFaulty) fake_.SetFaults({20, 20, 20, 0}, 5);
    if (kind == Kind::kS3) s3_ = S3Server::Shared().NewStore("data/sets", &cluster_.clock);
    if (why_not().empty()) Reopen();
  }
  DatasetStore& store() override { return replica_->store(); }
  void Reopen() override {
    replica_ = nullptr;
    StoreFaults faults;
    if (kind_ == Kind::kFaulty) {
      faults = RandomFaults(++num_replicas_, 10,
                            {StoreFault::kUnreachable, StoreFault::kRequestLost,
                             StoreFault::kReplyLost, StoreFault::kDoneLater});
    }
    ObjectStore* const objects = kind_ == Kind::kS3 ? s3_.get() : static_cast<ObjectStore*>(&fake_);
    replica_ = std::make_unique<ObjectReplica>(&cluster_, objects, folder_.path(), options_,
                                               uint64_t{1} << 30, std::move(faults));
  }
  std::string why_not() const override {
    return kind_ == Kind::kS3 && s3_ == nullptr ? S3Server::Shared().why_not() : "";
  }
  uint64_t Seeds(uint64_t all) const override { return kind_ == Kind::kS3 ? all / 10 : all; }

 private:
  const Kind kind_;
  ObjectDatasetStore::Options options_;
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  ObjectCluster cluster_;
  FakeObjectStore fake_;
  std::unique_ptr<ObjectStore> s3_;
  uint64_t num_replicas_ = 0;
  std::unique_ptr<ObjectReplica> replica_;
};

using MakeWorld = std::function<std::unique_ptr<StoreWorld>(uint64_t max_bytes)>;
constexpr uint64_t kMaxBytes = uint64_t{1} << 30;

class DatasetStoreTest : public ::testing::TestWithParam<std::pair<const char*, MakeWorld>> {
 protected:
  void SetUp() override {
    Begin(kMaxBytes);
    if (!world_->why_not().empty()) GTEST_SKIP() << world_->why_not();
  }
  void Begin(uint64_t max_bytes) { world_ = GetParam().second(max_bytes); }
  DatasetStore& store() { return world_->store(); }
  void Reopen() { world_->Reopen(); }

  // x int16 [nodes], edge_index int32 [edges, 2], y float32 [graphs].
  const GraphSchema schema_ = GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                                  {{"x", DType::kInt16, {}, 0, {}, {}},
                                                   {"edge_index", DType::kInt32, {2}, 1, 0, {}},
                                                   {"y", DType::kFloat32, {}, 2, {}, {}}})
                                  .value();

  GraphChunk Chunk(uint64_t seed, size_t num_graphs, uint64_t first_id = 0) const {
    Random random(seed);
    return RandomChunk(random, &schema_, num_graphs, 9, first_id);
  }

  std::unique_ptr<StoreWorld> world_;
};

constexpr auto kGoOn = [](const VerifyProgress&) { return true; };

// What a data set must hold: chunks in their order, with their group ids.
struct Expected {
  std::vector<GraphChunk> chunks;
  std::vector<uint64_t> group_ids;
};

void ExpectHolds(const DatasetStore& store, absl::string_view name, const Expected& expected) {
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, store.OpenReader(name));
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, store.Get(name));
  const size_t l = info.schema->num_components();
  SizeHistogram recount(l);
  size_t i = 0;
  size_t num_records = 0;
  for (const GraphChunk& chunk : expected.chunks) {
    ASSERT_THAT(recount.AddTable(chunk.sizes()), IsOk());
    num_records += chunk.num_graphs() != 0 ? 1 : 0;
    for (size_t j = 0; j < chunk.num_graphs(); ++j, ++i) {
      ASSERT_LT(i, reader->num_graphs());
      ASSERT_EQ(reader->counts().subspan(i * l, l), chunk.sizes().tuple(j));
      ASSERT_EQ(reader->graph_ids()[i], chunk.sizes().graph_id(j));
      PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(i));
      ASSERT_TRUE(SameGraph(*graph.chunk, graph.index, chunk, j)) << "graph " << i;
    }
  }
  EXPECT_EQ(reader->num_graphs(), i);
  EXPECT_EQ(info.num_graphs, i);
  EXPECT_EQ(info.num_records, num_records);
  EXPECT_EQ(reader->group_ids(), absl::MakeConstSpan(expected.group_ids));
  EXPECT_THAT(reader->Graph(i), StatusIs(absl::StatusCode::kOutOfRange, _));
  EXPECT_TRUE(reader->unreadable().empty());
  EXPECT_TRUE(reader->histogram() == recount);
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram stored, store.GetHistogram(name));
  EXPECT_TRUE(stored == recount);
  uint64_t reserved = 0;
  PH_ASSERT_OK_AND_ASSIGN(const SizeHistogram held,
                          store.GetReservedHistogram(name, [&](uint64_t bytes) {
                            reserved += bytes;
                            return absl::OkStatus();
                          }));
  EXPECT_TRUE(held == recount);
  EXPECT_GE(reserved, held.bytes());
  // Before it is known which sizes are alike.
  EXPECT_LE(reserved, 2 * SizeHistogram::BytesFor(i, l));
  EXPECT_THAT(store.GetReservedHistogram(
                  name, [](uint64_t) { return absl::ResourceExhaustedError("no room"); }),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report, store.Verify(name, kGoOn));
  EXPECT_TRUE(report.ok()) << (report.disagreements.empty() ? ""
                                                            : report.disagreements[0].message());
  EXPECT_EQ(report.num_graphs, i);
}

// Conservation: what was appended is read back byte for byte and in order, whatever the schema.
TEST_P(DatasetStoreTest, WhatWasAppendedIsReadBack) {
  for (uint64_t seed = 0; seed < world_->Seeds(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const std::string name = absl::StrCat("set/", seed);
    const GraphSchema schema = RandomSchema(random);
    DatasetOptions options;
    options.grouped = random.Below(2) == 0;
    ASSERT_THAT(store().Create(name, schema, options), IsOk());
    Expected expected;
    const size_t num_chunks = random.Below(6);
    for (size_t c = 0; c < num_chunks; ++c) {
      const size_t n = random.Below(random.Below(4) == 0 ? 300 : 6);
      GraphChunk chunk = RandomChunk(random, &schema, n, 5, random.Next() >> 1);
      std::vector<uint64_t> groups;
      for (size_t i = 0; options.grouped && i < n; ++i) groups.push_back(random.Next());
      PH_ASSERT_OK_AND_ASSIGN(const AppendResult result,
                              store().Append(name, chunk, groups, std::nullopt));
      EXPECT_EQ(result.num_appended, n);
      EXPECT_FALSE(result.is_repetition);
      expected.group_ids.insert(expected.group_ids.end(), groups.begin(), groups.end());
      expected.chunks.push_back(std::move(chunk));
    }
    ExpectHolds(store(), name, expected);
    Reopen();
    ExpectHolds(store(), name, expected);
    ASSERT_THAT(store().Seal(name), IsOk());
    Reopen();
    ExpectHolds(store(), name, expected);
  }
}

TEST_P(DatasetStoreTest, IdsAreTheProducers) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  const GraphSchema plain = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  ASSERT_THAT(store().Create("plain", plain, {}), IsOk());
  // Out of order, across the largest one, and again in another chunk.
  const std::vector<uint64_t> ids = {UINT64_MAX, 0, 7};
  const auto chunk =
      GraphChunk::OfSizes(&plain, SizeTable::WithIds(3, 2, {1, 2, 3, 4, 5, 6}, ids).value());
  ASSERT_THAT(store().Append("plain", chunk, {}, std::nullopt), IsOk());
  ASSERT_THAT(store().Append("plain", chunk, {}, std::nullopt), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, store().OpenReader("plain"));
  EXPECT_THAT(reader->graph_ids(), ElementsAre(UINT64_MAX, 0, 7, UINT64_MAX, 0, 7));
  EXPECT_THAT(reader->counts(), ElementsAre(1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6));
  PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(4));
  EXPECT_EQ(graph.chunk->sizes().graph_id(graph.index), 0U);
}

TEST_P(DatasetStoreTest, ARetryCountsOnceWhateverHappensBetween) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  Expected expected;
  expected.chunks.push_back(Chunk(1, 4));
  const ProducerSequence first = {"p", 1};
  ASSERT_THAT(store().Append("set", expected.chunks[0], {}, first), IsOk());
  const auto expect_repetition = [&](const GraphChunk& chunk, const ProducerSequence& sequence) {
    PH_ASSERT_OK_AND_ASSIGN(const AppendResult again, store().Append("set", chunk, {}, sequence));
    EXPECT_TRUE(again.is_repetition);
    EXPECT_EQ(again.num_appended, 0U);
  };
  const auto expect_taken = [&](const GraphChunk& chunk, const ProducerSequence& sequence,
                                uint64_t next) {
    EXPECT_THAT(store().Append("set", chunk, {}, sequence),
                StatusIs(absl::StatusCode::kAlreadyExists,
                         AllOf(HasSubstr(absl::StrCat("sequence ", sequence.sequence)),
                               HasSubstr(absl::StrCat("its next one is ", next)))));
    EXPECT_EQ(store().GetProducer("set", sequence.producer)->last() + 1, next);
  };
  expect_repetition(expected.chunks[0], first);
  expect_taken(Chunk(9, 3), first, 2);
  expect_taken(Chunk(1, 4, /*first_id=*/77), first, 2);
  expect_taken(Chunk(1, 0), first, 2);
  // Another producer's numbers are its own; numbers may be left out, but not gone back to.
  expected.chunks.push_back(Chunk(2, 5));
  PH_ASSERT_OK_AND_ASSIGN(const AppendResult other,
                          store().Append("set", expected.chunks[1], {}, ProducerSequence{"q", 1}));
  EXPECT_EQ(other.first_graph, 4U);
  EXPECT_EQ(other.num_graphs, 9U);
  expected.chunks.push_back(Chunk(3, 1));
  ASSERT_THAT(store().Append("set", expected.chunks[2], {}, ProducerSequence{"p", 5}), IsOk());
  expect_taken(expected.chunks[2], {"p", 3}, 6);
  Reopen();
  expect_repetition(expected.chunks[2], {"p", 5});
  expect_repetition(expected.chunks[1], {"q", 1});
  expect_taken(expected.chunks[0], {"q", 1}, 2);
  // An empty chunk uses its number up too.
  ASSERT_THAT(store().Append("set", Chunk(4, 0), {}, ProducerSequence{"q", 2}), IsOk());
  expect_repetition(Chunk(4, 0), {"q", 2});
  ASSERT_THAT(store().Seal("set"), IsOk());
  expect_repetition(expected.chunks[2], {"p", 5});
  expect_taken(expected.chunks[1], {"p", 5}, 6);
  EXPECT_THAT(store().Append("set", Chunk(9, 3), {}, ProducerSequence{"p", 6}),
              StatusIs(absl::StatusCode::kFailedPrecondition, _));
  ExpectHolds(store(), "set", expected);
}

// However far a producer goes back: what it repeats is known, or refused, and never taken for what
// it is not.
TEST_P(DatasetStoreTest, AnOldNumberIsKnownOrRefused) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  constexpr uint64_t kNumbers = DatasetStore::kRememberedSequences + 40;
  const auto content = [&](uint64_t number) { return Chunk(number, number % 16 == 0 ? 1 : 0); };
  for (uint64_t number = 1; number <= kNumbers; ++number) {
    ASSERT_THAT(store().Append("set", content(number), {}, ProducerSequence{"p", number}), IsOk());
  }
  Reopen();
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo info, store().Get("set"));
  PH_ASSERT_OK_AND_ASSIGN(const ProducerHistory history, store().GetProducer("set", "p"));
  EXPECT_EQ(history.last(), kNumbers);
  EXPECT_EQ(history.first_remembered(), 41U);
  for (const uint64_t number : {1, 16, 40, 41, 48, 100, static_cast<int>(kNumbers)}) {
    SCOPED_TRACE(number);
    const auto again =
        store().Append("set", content(number), {}, ProducerSequence{"p", uint64_t{number}});
    if (number < history.first_remembered()) {
      EXPECT_THAT(again, StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr("is older than")));
    } else {
      ASSERT_THAT(again, IsOk());
      EXPECT_TRUE(again->is_repetition);
    }
    EXPECT_THAT(store().Append("set", Chunk(5, 2), {}, ProducerSequence{"p", uint64_t{number}}),
                StatusIs(absl::StatusCode::kAlreadyExists, _));
  }
  EXPECT_EQ(store().Get("set")->num_graphs, info.num_graphs);
  EXPECT_EQ(store().GetProducer("set", "nobody")->last(), 0U);
  EXPECT_THAT(store().GetProducer("none", "p"), StatusIs(absl::StatusCode::kNotFound, _));
}

// Each call of a client that names no producer makes a new one up. They go again when their time is
// over, so a data set never has too many, and named ones have room.
TEST_P(DatasetStoreTest, ProducersOfOneCallAreLetGo) {
  if (world_->Seeds(10) < 10) GTEST_SKIP() << "thousands of calls";
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  constexpr uint64_t kCalls = DatasetStore::kMaxProducers + 700;
  ProducerSequence producer = {"", 1};
  producer.forget_after = absl::Minutes(10);
  const GraphChunk chunk = Chunk(1, 3);
  for (uint64_t call = 0; call < kCalls; ++call) {
    producer.producer = absl::StrCat("made up ", call);
    producer.now = absl::UnixEpoch() + absl::Seconds(call);
    ASSERT_THAT(store().Append("set", call % 100 == 0 ? chunk : Chunk(1, 0), {}, producer), IsOk());
  }
  // A call that is tried again in its time is known.
  producer.producer = absl::StrCat("made up ", (kCalls - 1) / 100 * 100);
  PH_ASSERT_OK_AND_ASSIGN(const AppendResult again, store().Append("set", chunk, {}, producer));
  EXPECT_TRUE(again.is_repetition);
  EXPECT_THAT(store().Append("set", Chunk(2, 1), {}, producer),
              StatusIs(absl::StatusCode::kAlreadyExists, _));
  ASSERT_THAT(store().Append("set", chunk, {}, ProducerSequence{"named", 1}), IsOk());
  Reopen();
  ASSERT_THAT(store().Append("set", chunk, {}, ProducerSequence{"named too", 1}), IsOk());
  EXPECT_EQ(store().Get("set")->num_graphs, 3 * ((kCalls + 99) / 100 + 2));
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report, store().Verify("set", kGoOn));
  EXPECT_TRUE(report.ok());
  producer.forget_after = absl::Hours(24 * 365);
  EXPECT_THAT(store().Append("set", chunk, {}, producer),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("forget_after")));
}

TEST_P(DatasetStoreTest, AFailedAppendLeavesNothingAndItsNumberFree) {
  DatasetOptions options;
  options.max_counts = {0, 3};
  ASSERT_THAT(store().Create("set", schema_, options), IsOk());
  const GraphSchema plain = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
  const ProducerSequence producer = {"p", 1};
  // Graphs of up to 9 edges: the first that has more than 3 is named.
  const GraphChunk large = Chunk(1, 50, 1000);
  size_t first = 0;
  while (large.count(first, 1) <= 3) ++first;
  EXPECT_THAT(
      store().Append("set", large, {}, producer),
      StatusIs(absl::StatusCode::kOutOfRange, HasSubstr(absl::StrCat("graph ", 1000 + first))));
  EXPECT_THAT(store().Append("set", GraphChunk::Create(&plain, SizeTable(), {}, nullptr).value(),
                             {}, producer),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("tensors")));
  EXPECT_THAT(store().Append("set", GraphChunk::OfSizes(&schema_, SizeTable()), {}, producer),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("without rows")));
  const std::vector<uint64_t> groups = {1, 2};
  EXPECT_THAT(store().Append("set", Chunk(1, 2), groups, producer),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("group ids")));
  EXPECT_THAT(store().Append("set", Chunk(1, 3), groups, producer),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("2 group ids for 3 graphs")));
  EXPECT_THAT(store().Append("set", Chunk(1, 2), {}, ProducerSequence{"", 1}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("producer")));
  EXPECT_THAT(store().Append("set", Chunk(1, 2), {}, ProducerSequence{"p", 0}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("sequence 0")));
  EXPECT_THAT(store().Append("none", Chunk(1, 2), {}, producer),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("none")));
  ExpectHolds(store(), "set", {});
  Random random(3);
  Expected expected;
  expected.chunks.push_back(RandomChunk(random, &schema_, 20, 3, 0));
  PH_ASSERT_OK_AND_ASSIGN(const AppendResult result,
                          store().Append("set", expected.chunks[0], {}, producer));
  EXPECT_FALSE(result.is_repetition);
  ExpectHolds(store(), "set", expected);
}

TEST_P(DatasetStoreTest, NamesThatAreNot) {
  const std::string longest(DatasetStore::kMaxNameLength, 'a');
  EXPECT_THAT(store().Create(longest, schema_, {}), IsOk());
  for (const std::string& bad :
       {std::string(), longest + "a", std::string(600, 'a'), std::string("a b"),
        std::string("a\0b", 3), std::string(100000, '\xff')}) {
    EXPECT_THAT(store().Create(bad, schema_, {}), StatusIs(absl::StatusCode::kInvalidArgument, _));
    EXPECT_THAT(store().Get(bad), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().GetHistogram(bad), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().GetReservedHistogram(bad, [](uint64_t) { return absl::OkStatus(); }),
                StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().Seal(bad), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().Delete(bad), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().OpenReader(bad), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().OpenChunks(bad), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().GetProducer(bad, "p"), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().Verify(bad, kGoOn), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_THAT(store().Append(bad, Chunk(1, 1), {}, std::nullopt),
                StatusIs(absl::StatusCode::kNotFound, _));
  }
  EXPECT_THAT(store().Create(longest, schema_, {}), StatusIs(absl::StatusCode::kAlreadyExists, _));
  DatasetOptions options;
  options.max_counts = {1, 2, 3};
  EXPECT_THAT(store().Create("set", schema_, options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("3 largest counts")));
}

TEST_P(DatasetStoreTest, AnotherSchemaIsNamed) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  const auto refuse = [&](const GraphSchema& schema, absl::string_view what) {
    Random random(1);
    EXPECT_THAT(store().Append("set", RandomChunk(random, &schema, 2, 2, 0), {}, std::nullopt),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(std::string(what))));
  };
  const auto make = [&](SizeSchema sizes, std::vector<TensorSpec> tensors) {
    return GraphSchema::Create(std::move(sizes), std::move(tensors)).value();
  };
  std::vector<TensorSpec> tensors(schema_.tensors().begin(), schema_.tensors().end());
  refuse(make(SizeSchema::Create({"edges", "nodes"}).value(), tensors),
         "components [edges, nodes]");
  for (TensorSpec& tensor : tensors) {
    if (tensor.row_shape.size() != 1) continue;
    const Layout before = tensor.layout;
    tensor.layout = Layout::kRowsLast;
    refuse(make(SizeSchema::NodesAndEdges(), tensors), absl::StrCat("'", tensor.name, "', is not"));
    tensor.layout = before;
  }
  const auto change = [&](size_t t, const std::function<void(TensorSpec&)>& make_other) {
    std::vector<TensorSpec> changed = tensors;
    make_other(changed[t]);
    refuse(make(SizeSchema::NodesAndEdges(), changed), absl::StrCat("tensor ", t, ", '"));
  };
  change(0, [](TensorSpec& tensor) { tensor.name = "z"; });
  change(0, [](TensorSpec& tensor) { tensor.dtype = DType::kUint16; });
  change(0, [](TensorSpec& tensor) { tensor.row_shape = {2}; });
  change(0, [](TensorSpec& tensor) { tensor.component = 1; });
  change(0, [](TensorSpec& tensor) { tensor.padding_value = "ab"; });
  change(1, [](TensorSpec& tensor) { tensor.index_into = 1; });
  tensors[2].dtype = DType::kFloat64;
  refuse(make(SizeSchema::NodesAndEdges(), tensors), "tensor 2, 'y'");
  tensors.pop_back();
  refuse(make(SizeSchema::NodesAndEdges(), tensors), "2 tensors");
}

TEST(CheckSameSchemaTest, SaysHowATensorWasCreated) {
  TensorSpec x = {"x", DType::kInt16, {2}, 0, {}, {}, Layout::kRowsLast};
  const auto schema = [](const TensorSpec& tensor) {
    return GraphSchema::Create(SizeSchema::NodesAndEdges(), {tensor}).value();
  };
  const GraphSchema stored = schema(x);
  EXPECT_THAT(CheckSameSchema("set", stored, stored), IsOk());
  x.layout = Layout::kRowsFirst;
  const std::string was = "data set 'set': tensor 0, 'x', is not as it was created: ";
  EXPECT_EQ(CheckSameSchema("set", stored, schema(x)),
            absl::FailedPreconditionError(was + "'x', int16 [2] along nodes, rows last"));
  EXPECT_EQ(CheckSameSchema("set", schema(x), stored),
            absl::FailedPreconditionError(was + "'x', int16 [2] along nodes"));
}

TEST_P(DatasetStoreTest, VersionsTellDataSetsApart) {
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo created, store().Create("set", schema_, {}));
  EXPECT_EQ(created.state, DatasetState::kOpen);
  EXPECT_NE(created.version, 0U);
  ASSERT_THAT(store().Append("set", Chunk(1, 3), {}, std::nullopt), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo sealed, store().Seal("set"));
  EXPECT_EQ(sealed.state, DatasetState::kSealed);
  EXPECT_EQ(sealed.num_graphs, 3U);
  EXPECT_NE(sealed.version, created.version);
  Reopen();
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo again, store().Seal("set"));
  EXPECT_EQ(again.version, sealed.version);
  ASSERT_THAT(store().Delete("set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo anew, store().Create("set", schema_, {}));
  EXPECT_NE(anew.version, created.version);
  EXPECT_EQ(anew.num_graphs, 0U);
  ExpectHolds(store(), "set", {});
}

// A chunk that comes late does not get into a data set that was made anew, where its number would
// make the chunks before it look like repetitions.
TEST_P(DatasetStoreTest, AnIdIsOfOneDataSet) {
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo first, store().Create("set", schema_, {}));
  EXPECT_NE(first.id, 0U);
  const ProducerSequence late = {"producer", 5};
  ASSERT_THAT(store().AppendTo({"set", first.id}, Chunk(1, 3), {}, late), IsOk());
  EXPECT_EQ(store().Get("set")->id, first.id);
  ASSERT_THAT(store().Delete("set"), IsOk());
  Reopen();  // Nothing that is stored tells any more which numbers have been used.
  PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo anew, store().Create("set", schema_, {}));
  EXPECT_NE(anew.id, first.id);
  EXPECT_THAT(store().AppendTo({"set", first.id}, Chunk(1, 3), {}, late),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(store().GetProducer({"set", first.id}, "producer"),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_EQ(store().GetProducer({"set", anew.id}, "producer")->last(), 0U);
  ASSERT_THAT(store().AppendTo({"set", anew.id}, Chunk(1, 3), {}, ProducerSequence{"producer", 1}),
              IsOk());
  EXPECT_EQ(store().Seal("set")->id, anew.id);
}

// Pages are in order and complete for whatever is there throughout, whatever comes and goes.
TEST_P(DatasetStoreTest, PagesAreOrderedAndComplete) {
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList none, store().List(0, ""));
  EXPECT_TRUE(none.datasets.empty());
  EXPECT_EQ(none.next_page_token, "");
  std::vector<std::string> names;
  for (int i = 0; i < 23; ++i) names.push_back(absl::StrCat("set", i % 7, "/", i));
  for (const std::string& name : names) ASSERT_THAT(store().Create(name, schema_, {}), IsOk());
  std::sort(names.begin(), names.end());
  for (const size_t page_size : {1, 2, 22, 23, 24, 5000}) {
    std::vector<std::string> listed;
    std::string token;
    do {
      PH_ASSERT_OK_AND_ASSIGN(const DatasetList page, store().List(page_size, token));
      EXPECT_LE(page.datasets.size(), page_size);
      for (const DatasetInfo& info : page.datasets) listed.push_back(info.name);
      token = page.next_page_token;
    } while (!token.empty());
    EXPECT_EQ(listed, names);
  }
  // The token's own data set may be gone when the next page is asked for.
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList first, store().List(5, ""));
  ASSERT_THAT(store().Delete(first.datasets.back().name), IsOk());
  ASSERT_THAT(store().Create("aaa", schema_, {}), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList rest, store().List(100, first.next_page_token));
  ASSERT_EQ(rest.datasets.size(), names.size() - 5);
  EXPECT_EQ(rest.datasets.front().name, names[5]);
  EXPECT_THAT(store().List(1, "not a name"), StatusIs(absl::StatusCode::kInvalidArgument, _));
}

// As many as are asked for, a hundred if no number is, and a thousand at most.
TEST_P(DatasetStoreTest, APageIsBounded) {
  // Where quotas are, each call counts those before it.
  if (world_->Seeds(10) < 10 || GetParam().first == absl::string_view("Quota")) {
    GTEST_SKIP() << "a thousand calls";
  }
  for (int i = 1000; i <= 2000; ++i) {
    ASSERT_THAT(store().Create(absl::StrCat("set", i), schema_, {}), IsOk());
  }
  for (const auto& [asked, listed] : std::vector<std::pair<size_t, size_t>>{
           {0, 100}, {1, 1}, {1000, 1000}, {1001, 1000}, {SIZE_MAX, 1000}}) {
    PH_ASSERT_OK_AND_ASSIGN(const DatasetList page, store().List(asked, ""));
    EXPECT_EQ(page.datasets.size(), listed);
    EXPECT_EQ(page.next_page_token, absl::StrCat("set", 999 + listed));
  }
  PH_ASSERT_OK_AND_ASSIGN(const DatasetList last, store().List(0, "set1999"));
  ASSERT_EQ(last.datasets.size(), 1U);
  EXPECT_EQ(last.datasets[0].name, "set2000");
  EXPECT_EQ(last.next_page_token, "");
}

// Quota: of a data set and of all, and space that deletion gives back.
TEST_P(DatasetStoreTest, QuotaBoundsAndDeletionFrees) {
  Begin(uint64_t{1} << 20);
  DatasetOptions small;
  small.max_bytes = uint64_t{1} << 18;
  ASSERT_THAT(store().Create("small", schema_, small), IsOk());
  ASSERT_THAT(store().Create("large", schema_, {}), IsOk());
  const auto fill = [&](const std::string& name) {
    Expected expected;
    while (true) {
      GraphChunk chunk = Chunk(expected.chunks.size(), 600);
      const auto result = store().Append(name, chunk, {}, std::nullopt);
      if (!result.ok()) {
        EXPECT_THAT(result, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("bytes")));
        return expected;
      }
      expected.chunks.push_back(std::move(chunk));
    }
  };
  const Expected in_small = fill("small");
  EXPECT_GE(in_small.chunks.size(), 3U);
  EXPECT_LE(store().Get("small")->num_bytes, small.max_bytes);
  const Expected in_large = fill("large");
  EXPECT_GT(in_large.chunks.size(), in_small.chunks.size());
  ExpectHolds(store(), "small", in_small);
  ExpectHolds(store(), "large", in_large);
  EXPECT_LE(store().Get("small")->num_bytes + store().Get("large")->num_bytes, uint64_t{1} << 20);
  // Many times the room goes through.
  for (int round = 0; round < 3; ++round) {
    ASSERT_THAT(store().Delete("large"), IsOk());
    ASSERT_THAT(store().Create("large", schema_, {}), IsOk());
    EXPECT_EQ(fill("large").chunks.size(), in_large.chunks.size());
  }
  Reopen();
  ExpectHolds(store(), "small", in_small);
  ExpectHolds(store(), "large", in_large);
}

// A reader sees the data set as it was, through appends, seal, deletion and what is written over.
TEST_P(DatasetStoreTest, AReaderKeepsWhatItOpened) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  const GraphChunk first = Chunk(1, 40);
  const GraphChunk second = Chunk(2, 300);
  ASSERT_THAT(store().Append("set", first, {}, std::nullopt), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(auto before, store().OpenReader("set"));
  ASSERT_THAT(store().Append("set", second, {}, std::nullopt), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(auto after, store().OpenReader("set"));
  ASSERT_THAT(store().Delete("set"), IsOk());
  EXPECT_THAT(store().OpenReader("set"), StatusIs(absl::StatusCode::kNotFound, _));
  for (int round = 0; round < 20; ++round) {
    ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
    ASSERT_THAT(store().Append("set", Chunk(50 + round, 300), {}, std::nullopt), IsOk());
    if (round != 19) {
      ASSERT_THAT(store().Delete("set"), IsOk());
    }
  }
  EXPECT_EQ(before->num_graphs(), 40U);
  EXPECT_EQ(before->info().num_graphs, 40U);
  EXPECT_EQ(before->histogram().num_graphs(), 40U);
  ASSERT_EQ(after->num_graphs(), 340U);
  for (size_t i = 0; i < 340; ++i) {
    PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, after->Graph(i));
    const bool in_first = i < 40;
    ASSERT_TRUE(
        SameGraph(*graph.chunk, graph.index, in_first ? first : second, in_first ? i : i - 40));
  }
  PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, before->Graph(39));
  EXPECT_TRUE(SameGraph(*graph.chunk, graph.index, first, 39));
  before = nullptr;
  after = nullptr;
  ASSERT_THAT(store().Append("set", Chunk(90, 300), {}, std::nullopt), IsOk());
  Expected expected;
  expected.chunks.push_back(Chunk(69, 300));
  expected.chunks.push_back(Chunk(90, 300));
  ExpectHolds(store(), "set", expected);
}

TEST_P(DatasetStoreTest, VerifySaysHowFarItIsAndCanBeGivenUp) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  for (int i = 0; i < 5; ++i) {
    ASSERT_THAT(store().Append("set", Chunk(i, 3), {}, std::nullopt), IsOk());
  }
  std::vector<uint64_t> seen;
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                          store().Verify("set", [&](const VerifyProgress& progress) {
                            EXPECT_EQ(progress.num_records_total, 5U);
                            EXPECT_LE(progress.num_bytes, progress.num_bytes_total);
                            seen.push_back(progress.num_records);
                            return true;
                          }));
  EXPECT_THAT(seen, ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(report.ok());
  EXPECT_EQ(report.num_graphs, 15U);
  EXPECT_THAT(store().Verify("set", [](const VerifyProgress& p) { return p.num_records < 2; }),
              StatusIs(absl::StatusCode::kCancelled, _));
}

// Several producers at once, each of which sends everything twice: every chunk is there once,
// whole, and each producer's chunks are in its order. Readers, deletion and creation go on beside
// them.
TEST_P(DatasetStoreTest, ProducersAppendAtOnce) {
  constexpr size_t kProducers = 4;
  constexpr size_t kChunks = 40;
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  const auto content = [&](size_t producer, size_t sequence) {
    return Chunk(producer * 1000 + sequence, 1 + (producer + sequence) % 7,
                 producer << 32 | sequence << 8);
  };
  std::vector<std::vector<uint64_t>> first_graphs(kProducers);
  std::vector<std::thread> threads;
  for (size_t producer = 0; producer < kProducers; ++producer) {
    threads.emplace_back([&, producer] {
      for (size_t sequence = 1; sequence <= kChunks; ++sequence) {
        const GraphChunk chunk = content(producer, sequence);
        const ProducerSequence number = {absl::StrCat("p", producer), sequence};
        const auto result = store().Append("set", chunk, {}, number);
        ASSERT_THAT(result, IsOk());
        EXPECT_FALSE(result->is_repetition);
        first_graphs[producer].push_back(result->first_graph);
        const auto again = store().Append("set", chunk, {}, number);
        ASSERT_THAT(again, IsOk());
        EXPECT_TRUE(again->is_repetition);
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 20; ++i) {
      const auto reader = store().OpenReader("set");
      ASSERT_THAT(reader, IsOk());
      for (size_t graph = 0; graph < (*reader)->num_graphs(); ++graph) {
        ASSERT_THAT((*reader)->Graph(graph), IsOk());
      }
      EXPECT_EQ((*reader)->histogram().num_graphs(), (*reader)->num_graphs());
    }
  });
  threads.emplace_back([&] {
    for (int i = 0; i < 20; ++i) {
      ASSERT_THAT(store().Create("other", schema_, {}), IsOk());
      ASSERT_THAT(store().Append("other", Chunk(i, 30), {}, std::nullopt), IsOk());
      ASSERT_THAT(store().Delete("other"), IsOk());
    }
  });
  for (std::thread& thread : threads) thread.join();
  Reopen();
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, store().OpenReader("set"));
  size_t num_graphs = 0;
  for (size_t producer = 0; producer < kProducers; ++producer) {
    EXPECT_TRUE(std::is_sorted(first_graphs[producer].begin(), first_graphs[producer].end()));
    for (size_t sequence = 1; sequence <= kChunks; ++sequence) {
      const GraphChunk chunk = content(producer, sequence);
      num_graphs += chunk.num_graphs();
      for (size_t i = 0; i < chunk.num_graphs(); ++i) {
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph,
                                reader->Graph(first_graphs[producer][sequence - 1] + i));
        ASSERT_TRUE(SameGraph(*graph.chunk, graph.index, chunk, i));
      }
    }
  }
  EXPECT_EQ(reader->num_graphs(), num_graphs);
  PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report, store().Verify("set", kGoOn));
  EXPECT_TRUE(report.ok());
}

// Many threads share one reader. Each graph is decoded once, by the thread that comes first.
TEST_P(DatasetStoreTest, AReaderServesManyThreads) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  Expected expected;
  for (int i = 0; i < 20; ++i) {
    expected.chunks.push_back(Chunk(i, 10));
    ASSERT_THAT(store().Append("set", expected.chunks.back(), {}, std::nullopt), IsOk());
  }
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, store().OpenReader("set"));
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Random random(thread);
      for (int draw = 0; draw < 500; ++draw) {
        const size_t i = random.Below(200);
        const auto graph = reader->Graph(i);
        ASSERT_THAT(graph, IsOk());
        ASSERT_TRUE(SameGraph(*graph->chunk, graph->index, expected.chunks[i / 10], i % 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// A part of a data set is a data set whose graphs are those of its chunks, in order.
TEST_P(DatasetStoreTest, ChunksHaveTheGraphsOfTheWhole) {
  ASSERT_THAT(store().Create("set", schema_, {}), IsOk());
  EXPECT_THAT(store().OpenChunks("set"), StatusIs(absl::StatusCode::kFailedPrecondition, _));
  EXPECT_THAT(store().OpenChunks("none"), StatusIs(absl::StatusCode::kNotFound, _));
  for (int i = 0; i < 20; ++i) {
    ASSERT_THAT(store().Append("set", Chunk(i, 1 + i % 7), {}, std::nullopt), IsOk());
  }
  ASSERT_THAT(store().Seal("set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const auto whole, store().OpenReader("set"));
  PH_ASSERT_OK_AND_ASSIGN(const auto chunks, store().OpenChunks("set"));
  EXPECT_EQ(chunks->info().version, whole->info().version);
  const size_t l = schema_.num_components();
  std::vector<size_t> starts;
  SizeHistogram sizes(l);
  for (uint32_t i = 0; i < chunks->num_graphs().size(); ++i) {
    starts.push_back(i == 0 ? 0 : starts.back() + chunks->num_graphs()[i - 1]);
    EXPECT_THAT(chunks->AddSizes(i, sizes), IsOk());
  }
  EXPECT_EQ(starts.back() + chunks->num_graphs().back(), whole->num_graphs());
  EXPECT_TRUE(sizes == whole->histogram());
  Random random(1);
  for (int draw = 0; draw < 8; ++draw) {
    std::vector<uint32_t> some;
    for (uint32_t i = 0; i < starts.size(); ++i) {
      if (draw == 0 || random.Below(2) == 0) some.push_back(i);
    }
    PH_ASSERT_OK_AND_ASSIGN(const auto part, chunks->Open(some));
    size_t at = 0;
    for (const uint32_t chunk : some) {
      for (size_t i = starts[chunk]; i < starts[chunk] + chunks->num_graphs()[chunk]; ++i, ++at) {
        ASSERT_LT(at, part->num_graphs());
        EXPECT_EQ(part->graph_ids()[at], whole->graph_ids()[i]);
        EXPECT_EQ(part->counts().subspan(at * l, l), whole->counts().subspan(i * l, l));
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph ours, part->Graph(at));
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph theirs, whole->Graph(i));
        ASSERT_TRUE(SameGraph(*ours.chunk, ours.index, *theirs.chunk, theirs.index));
      }
    }
    EXPECT_EQ(at, part->num_graphs());
    EXPECT_TRUE(part->unreadable().empty());
  }
}

// A long history against the reference: same calls, same codes, same contents.
TEST_P(DatasetStoreTest, AgreesWithTheReference) {
  for (uint64_t seed = 0, end = world_->Seeds(20); seed < end; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    Begin(kMaxBytes);
    MemoryDatasetStore reference(kMaxBytes);
    const auto name = [&] { return absl::StrCat("set", random.Below(4)); };
    const auto expect_same = [&](const absl::Status& ours, const absl::Status& theirs) {
      ASSERT_EQ(ours.code(), theirs.code()) << ours << " " << theirs;
    };
    // The ids that the names have had: what is meant for one data set is never done to another.
    std::map<std::string, std::vector<std::pair<uint64_t, uint64_t>>> ids;
    for (int step = 0; step < 150; ++step) {
      const std::string dataset = name();
      std::pair<uint64_t, uint64_t> id = {0, 0};
      if (const auto& of_name = ids[dataset]; !of_name.empty() && random.Below(3) != 0) {
        id = of_name[of_name.size() - 1 - random.Below(std::min<size_t>(of_name.size(), 2))];
      }
      switch (random.Below(10)) {
        case 0: {
          DatasetOptions options;
          if (random.Below(2) == 0) options.max_counts = {8, 0};
          const auto ours = store().Create(dataset, schema_, options);
          const auto theirs = reference.Create(dataset, schema_, options);
          expect_same(ours.status(), theirs.status());
          if (ours.ok() && theirs.ok()) ids[dataset].emplace_back(ours->id, theirs->id);
          break;
        }
        case 1:
          expect_same(store().Delete({dataset, id.first}), reference.Delete({dataset, id.second}));
          break;
        case 2:
          if (random.Below(3) == 0) {
            expect_same(store().Seal({dataset, id.first}).status(),
                        reference.Seal({dataset, id.second}).status());
          }
          break;
        case 3:
          if (random.Below(5) == 0) Reopen();
          break;
        default: {
          std::optional<ProducerSequence> producer;
          uint64_t content = random.Next();
          if (random.Below(2) == 0) {
            const uint64_t who = random.Below(3);
            producer = {absl::StrCat("p", who), random.Between(1, 20)};
            // Mostly what it always sends under this number.
            if (random.Below(4) != 0) content = who << 32 | producer->sequence;
          }
          Random of_content(content);
          const uint64_t num_graphs = of_content.Below(60);
          const GraphChunk chunk = Chunk(content, num_graphs, of_content.Next() >> 1);
          const auto ours = store().AppendTo({dataset, id.first}, chunk, {}, producer);
          const auto theirs = reference.AppendTo({dataset, id.second}, chunk, {}, producer);
          expect_same(ours.status(), theirs.status());
          if (!ours.ok()) break;
          EXPECT_EQ(ours->first_graph, theirs->first_graph);
          EXPECT_EQ(ours->num_appended, theirs->num_appended);
          EXPECT_EQ(ours->is_repetition, theirs->is_repetition);
          EXPECT_EQ(ours->num_graphs, theirs->num_graphs);
        }
      }
    }
    for (int i = 0; i < 4; ++i) {
      const std::string dataset = absl::StrCat("set", i);
      const auto ours = store().OpenReader(dataset);
      const auto theirs = reference.OpenReader(dataset);
      ASSERT_EQ(ours.ok(), theirs.ok());
      if (!ours.ok()) continue;
      ASSERT_EQ((*ours)->num_graphs(), (*theirs)->num_graphs());
      EXPECT_EQ((*ours)->info().state, (*theirs)->info().state);
      EXPECT_TRUE((*ours)->histogram() == (*theirs)->histogram());
      EXPECT_EQ((*ours)->counts(), (*theirs)->counts());
      EXPECT_EQ((*ours)->graph_ids(), (*theirs)->graph_ids());
      for (size_t graph = 0; graph < (*ours)->num_graphs(); ++graph) {
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph a, (*ours)->Graph(graph));
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph b, (*theirs)->Graph(graph));
        ASSERT_TRUE(SameGraph(*a.chunk, a.index, *b.chunk, b.index));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, DatasetStoreTest,
    ::testing::Values(
        std::pair<const char*, MakeWorld>(
            "Memory", [](uint64_t max_bytes) { return std::make_unique<MemoryWorld>(max_bytes); }),
        std::pair<const char*, MakeWorld>(
            "Quota", [](uint64_t max_bytes) { return std::make_unique<QuotaWorld>(max_bytes); }),
        std::pair<const char*, MakeWorld>(
            "Lmdb", [](uint64_t max_bytes) { return std::make_unique<LmdbWorld>(max_bytes); }),
        std::pair<const char*, MakeWorld>("Object",
                                          [](uint64_t max_bytes) {
                                            return std::make_unique<ObjectWorld>(
                                                max_bytes, ObjectWorld::Kind::kFake);
                                          }),
        std::pair<const char*, MakeWorld>("FaultyObject",
                                          [](uint64_t max_bytes) {
                                            return std::make_unique<ObjectWorld>(
                                                max_bytes, ObjectWorld::Kind::kFaulty);
                                          }),
        std::pair<const char*, MakeWorld>("S3",
                                          [](uint64_t max_bytes) {
                                            return std::make_unique<ObjectWorld>(
                                                max_bytes, ObjectWorld::Kind::kS3);
                                          })),
    [](const auto& instance) { return std::string(instance.param.first); });

}  // namespace
}  // namespace packhouse
