// Copies between stores: whole, the same, and gone on with where they were stopped.
#include "service/stores/datasets/dataset_copy.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/forwarding_dataset_store.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/datasets/object/object_replica.h"
#include "tests/objects/fake_object_store.h"
#include "tests/support/random_graphs.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

bool GoOn(const DatasetCopy& /*copied*/, const DatasetInfo& /*of*/) { return true; }

// From an embedded store to one over objects.
class DatasetCopyTest : public ::testing::Test {
 protected:
  static constexpr size_t kRecords = 7;

  DatasetCopyTest() {
    LmdbDatasetStore::Options options;
    options.folder = folder_.path() + "/embedded";
    options.max_bytes = uint64_t{1} << 24;
    embedded_ = LmdbDatasetStore::Open(options).value();
    replica_ = std::make_unique<ObjectReplica>(&cluster_, &objects_, folder_.path() + "/cache");
    DatasetOptions of_set;
    of_set.grouped = true;
    of_set.max_counts = {100, 100, 100};
    of_set.max_counts.resize(schema_.num_components());
    EXPECT_THAT(embedded_->Create("set", schema_, of_set), IsOk());
    for (size_t i = 0; i < kRecords; ++i) {
      const GraphChunk chunk = Chunk(i);
      const std::vector<uint64_t> groups(chunk.num_graphs(), i / 2);
      EXPECT_THAT(embedded_->Append("set", chunk, groups, std::nullopt), IsOk());
    }
  }
  GraphChunk Chunk(uint64_t seed) const {
    Random random(seed);
    return RandomChunk(random, &schema_, 1 + seed % 4, 9, seed << 20);
  }
  DatasetStore& copies() { return replica_->store(); }
  static std::vector<std::string> RowsOf(const DatasetReader& reader) {
    std::vector<std::string> rows;
    for (size_t i = 0; i < reader.num_graphs(); ++i) {
      const StoredGraph graph = reader.Graph(i).value();
      std::string& of_graph = rows.emplace_back(absl::StrCat(reader.graph_ids()[i]));
      for (size_t t = 0; t < graph.chunk->num_columns(); ++t) {
        absl::StrAppend(&of_graph, "|", graph.chunk->rows(graph.index, t));
      }
    }
    return rows;
  }
  static void ExpectSame(const DatasetStore& a, const DatasetStore& b) {
    PH_ASSERT_OK_AND_ASSIGN(const auto one, a.OpenReader("set"));
    PH_ASSERT_OK_AND_ASSIGN(const auto other, b.OpenReader("set"));
    EXPECT_EQ(one->info().num_records, other->info().num_records);
    EXPECT_EQ(one->info().options.max_counts, other->info().options.max_counts);
    EXPECT_THAT(one->counts(), ElementsAreArray(other->counts()));
    EXPECT_THAT(one->group_ids(), ElementsAreArray(other->group_ids()));
    EXPECT_EQ(RowsOf(*one), RowsOf(*other));
  }

  const GraphSchema schema_ = GraphSchema::Create(SizeSchema::NodesAndEdges(),
                                                  {{"x", DType::kFloat32, {3}, 0, {}, {}},
                                                   {"edge_index", DType::kInt64, {2}, 1, 0, {}}})
                                  .value();
  TemporaryFolder folder_{TemporaryFolder::InMemory()};
  ObjectCluster cluster_;
  FakeObjectStore objects_;
  std::unique_ptr<LmdbDatasetStore> embedded_;
  std::unique_ptr<ObjectReplica> replica_;
};

TEST_F(DatasetCopyTest, ACopyIsTheSameThereAndBack) {
  ASSERT_THAT(embedded_->Seal("set"), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const DatasetCopy there, CopyDataset(*embedded_, copies(), "set", GoOn));
  EXPECT_EQ(there.num_records, kRecords);
  EXPECT_EQ(there.num_old_records, 0U);
  EXPECT_EQ(copies().Get("set")->state, DatasetState::kSealed);
  ExpectSame(*embedded_, copies());

  LmdbDatasetStore::Options options;
  options.folder = folder_.path() + "/back";
  options.max_bytes = uint64_t{1} << 24;
  const auto back = LmdbDatasetStore::Open(options).value();
  ASSERT_THAT(CopyDataset(copies(), *back, "set", GoOn), IsOk());
  ExpectSame(*embedded_, *back);
  // There is nothing more to do.
  PH_ASSERT_OK_AND_ASSIGN(const DatasetCopy again, CopyDataset(*embedded_, copies(), "set", GoOn));
  EXPECT_EQ(again.num_old_records, kRecords);
}

TEST_F(DatasetCopyTest, ACopyGoesOnWhereItWasStopped) {
  ASSERT_THAT(embedded_->Seal("set"), IsOk());
  for (size_t stop = 1; stop <= 3; ++stop) {
    EXPECT_THAT(CopyDataset(*embedded_, copies(), "set",
                            [&](const DatasetCopy& copied, const DatasetInfo& of) {
                              EXPECT_EQ(of.num_records, kRecords);
                              return copied.num_records < 2 * stop;
                            }),
                StatusIs(absl::StatusCode::kCancelled, HasSubstr("'set'")));
    EXPECT_EQ(copies().Get("set")->num_records, 2 * stop);
    EXPECT_EQ(copies().Get("set")->state, DatasetState::kOpen);
  }
  PH_ASSERT_OK_AND_ASSIGN(const DatasetCopy rest, CopyDataset(*embedded_, copies(), "set", GoOn));
  EXPECT_EQ(rest.num_old_records, 6U);
  ExpectSame(*embedded_, copies());
}

TEST_F(DatasetCopyTest, OthersAreLeftAlone) {
  EXPECT_THAT(CopyDataset(*embedded_, copies(), "set", GoOn),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is open")));
  EXPECT_THAT(CopyDataset(*embedded_, copies(), "other", GoOn),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("other")));
  ASSERT_THAT(embedded_->Seal("set"), IsOk());
  const DatasetOptions options = embedded_->Get("set")->options;
  const auto is_another = [](const char* why) {
    return StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(why));
  };
  ASSERT_THAT(copies().Create("set", schema_, {}), IsOk());
  EXPECT_THAT(CopyDataset(*embedded_, copies(), "set", GoOn), is_another("its options differ"));
  ASSERT_THAT(copies().Delete("set"), IsOk());
  ASSERT_THAT(copies().Create("set", schema_, options), IsOk());
  const GraphChunk chunk = Chunk(1000);
  const std::vector<uint64_t> groups(chunk.num_graphs());
  ASSERT_THAT(copies().Append("set", chunk, groups, std::nullopt), IsOk());
  EXPECT_THAT(CopyDataset(*embedded_, copies(), "set", GoOn), is_another("sizes"));
  EXPECT_EQ(copies().Get("set")->num_graphs, chunk.num_graphs());
  ASSERT_THAT(copies().Delete("set"), IsOk());
  // As many graphs as in the other, but not those.
  ASSERT_THAT(copies().Create("set", schema_, options), IsOk());
  for (size_t i = 0; i < kRecords; ++i) {
    const GraphChunk more = Chunk(40 + i);
    const std::vector<uint64_t> of(more.num_graphs());
    ASSERT_THAT(copies().Append("set", more, of, std::nullopt), IsOk());
  }
  ASSERT_THAT(copies().Seal("set"), IsOk());
  EXPECT_THAT(CopyDataset(*embedded_, copies(), "set", GoOn), is_another("sizes"));
}

// Each option, the schema, and how many graphs there are tell one data set from another.
TEST_F(DatasetCopyTest, WhatDiffersIsNoCopy) {
  ASSERT_THAT(embedded_->Seal("set"), IsOk());
  const DatasetInfo info = embedded_->Get("set").value();
  struct Case {
    const char* why;
    std::function<void(DatasetOptions&)> change;
    // Records of the other, and one that is none of them.
    size_t num_records = 0;
    bool has_more = false;
    bool is_sealed = false;
    bool has_other_schema = false;
  };
  const std::vector<Case> cases = {
      {"its options differ", [](DatasetOptions& options) { options.grouped = false; }},
      {"its options differ", [](DatasetOptions& options) { options.max_bytes = 1 << 20; }},
      {"its options differ", [](DatasetOptions& options) { options.max_counts[1] = 99; }},
      {"its schema differs", [](DatasetOptions&) {}, 0, false, false, true},
      {"graphs, not", [](DatasetOptions&) {}, kRecords - 1, false, true},
      {"graphs, not", [](DatasetOptions&) {}, kRecords, true},
      {"where no record of the data set ends", [](DatasetOptions&) {}, 2, true},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(testing::Message() << each.why << ", " << each.num_records);
    MemoryDatasetStore other(uint64_t{1} << 30);
    DatasetOptions options = info.options;
    each.change(options);
    const GraphSchema plain = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
    ASSERT_THAT(other.Create("set", each.has_other_schema ? plain : schema_, options), IsOk());
    for (size_t i = 0; i < each.num_records; ++i) {
      const GraphChunk chunk = Chunk(i);
      const std::vector<uint64_t> groups(chunk.num_graphs(), i / 2);
      ASSERT_THAT(other.Append("set", chunk, groups, std::nullopt), IsOk());
    }
    if (each.has_more) {
      // The first graph of the third record, which has more.
      const GraphChunk third = Chunk(2);
      const auto size = third.sizes().tuple(0);
      const std::vector<uint32_t> counts(size.begin(), size.end());
      PH_ASSERT_OK_AND_ASSIGN(const SizeTable sizes,
                              SizeTable::WithConsecutiveIds(1, 2, counts, 7));
      const std::string x(third.rows(0, 0));
      const std::string edges(third.rows(0, 1));
      PH_ASSERT_OK_AND_ASSIGN(const GraphChunk part,
                              GraphChunk::Create(&schema_, sizes, {x, edges}, nullptr));
      ASSERT_THAT(other.Append("set", part, {1}, std::nullopt), IsOk());
    }
    if (each.is_sealed) {
      ASSERT_THAT(other.Seal("set"), IsOk());
    }
    EXPECT_THAT(CopyDataset(*embedded_, other, "set", GoOn),
                StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(each.why)));
  }
}

// Somebody else appends to the copy while it is made, or after its last record.
TEST_F(DatasetCopyTest, AppendsOfOthersAreNoticed) {
  ASSERT_THAT(embedded_->Seal("set"), IsOk());
  for (const size_t record : {size_t{2}, kRecords}) {
    MemoryDatasetStore other(uint64_t{1} << 30);
    EXPECT_THAT(
        CopyDataset(*embedded_, other, "set",
                    [&](const DatasetCopy& copied, const DatasetInfo&) {
                      if (copied.num_records == record) {
                        const std::vector<uint64_t> groups(Chunk(0).num_graphs());
                        EXPECT_THAT(other.Append("set", Chunk(0), groups, std::nullopt), IsOk());
                      }
                      return true;
                    }),
        StatusIs(absl::StatusCode::kAlreadyExists,
                 HasSubstr(record == kRecords ? "graphs now, not" : "others append to it")));
    EXPECT_EQ(other.Get("set")->state, DatasetState::kOpen);
  }
}

// Calls of stores, of which one is refused, by its number and name.
struct Calls {
  absl::Status Next(absl::string_view name) {
    const bool is_refused = names.size() == refused;
    names.emplace_back(name);
    return is_refused ? absl::UnavailableError(absl::StrCat(refused, " ", name)) : absl::OkStatus();
  }
  std::vector<std::string> names;
  size_t refused = SIZE_MAX;
};

class RefusingStore final : public ForwardingDatasetStore {
 public:
  RefusingStore(DatasetStore* store, Calls* calls) : ForwardingDatasetStore(store), calls_(calls) {}
  absl::StatusOr<DatasetInfo> Create(absl::string_view name, const GraphSchema& schema,
                                     const DatasetOptions& options) override {
    PH_RETURN_IF_ERROR(calls_->Next("create"));
    return store()->Create(name, schema, options);
  }
  absl::StatusOr<AppendResult> AppendTo(const Target& target, const GraphChunk& chunk,
                                        absl::Span<const uint64_t> group_ids,
                                        const std::optional<ProducerSequence>& producer) override {
    PH_RETURN_IF_ERROR(calls_->Next("append"));
    return store()->AppendTo(target, chunk, group_ids, producer);
  }
  absl::StatusOr<DatasetInfo> Get(absl::string_view name) const override {
    PH_RETURN_IF_ERROR(calls_->Next("get"));
    return store()->Get(name);
  }
  absl::StatusOr<SizeHistogram> GetHistogram(absl::string_view name) const override {
    PH_RETURN_IF_ERROR(calls_->Next("histogram"));
    return store()->GetHistogram(name);
  }
  absl::StatusOr<DatasetInfo> Seal(const Target& target) override {
    PH_RETURN_IF_ERROR(calls_->Next("seal"));
    return store()->Seal(target);
  }
  absl::StatusOr<std::shared_ptr<const DatasetReader>> OpenReader(
      absl::string_view name) const override {
    PH_RETURN_IF_ERROR(calls_->Next("open"));
    PH_ASSIGN_OR_RETURN(auto reader, store()->OpenReader(name));
    return std::make_shared<const Reader>(std::move(reader), calls_);
  }

 private:
  class Reader final : public DatasetReader {
   public:
    Reader(std::shared_ptr<const DatasetReader> reader, Calls* calls)
        : reader_(std::move(reader)), calls_(calls) {
      if (const absl::Status bad = calls->Next("unreadable"); !bad.ok()) {
        unreadable_.push_back({0, 0, 1, bad});
      }
    }
    const DatasetInfo& info() const override { return reader_->info(); }
    const SizeHistogram& histogram() const override { return reader_->histogram(); }
    absl::Span<const uint32_t> counts() const override { return reader_->counts(); }
    absl::Span<const uint64_t> graph_ids() const override { return reader_->graph_ids(); }
    absl::Span<const uint64_t> group_ids() const override { return reader_->group_ids(); }
    absl::Span<const DamagedRecord> unreadable() const override { return unreadable_; }
    absl::StatusOr<StoredGraph> Graph(size_t i) const override {
      PH_RETURN_IF_ERROR(calls_->Next("graph"));
      return reader_->Graph(i);
    }
    absl::Status CheckIntact() const override { return calls_->Next("intact"); }

   private:
    const std::shared_ptr<const DatasetReader> reader_;
    Calls* const calls_;
    std::vector<DamagedRecord> unreadable_;
  };

  Calls* const calls_;
};

// Whichever call is refused, that is the answer; what was copied by then is not copied again.
TEST_F(DatasetCopyTest, EachErrorOfAStoreIsTold) {
  ASSERT_THAT(embedded_->Seal("set"), IsOk());
  Calls calls;
  RefusingStore from(embedded_.get(), &calls);
  for (size_t refused = 0;; ++refused) {
    SCOPED_TRACE(refused);
    MemoryDatasetStore copy(uint64_t{1} << 30);
    RefusingStore to(&copy, &calls);
    calls = {{}, refused};
    const absl::Status copied = CopyDataset(from, to, "set", GoOn).status();
    if (calls.names.size() <= refused) {
      EXPECT_THAT(copied, IsOk());
      break;
    }
    EXPECT_EQ(copied, absl::UnavailableError(absl::StrCat(refused, " ", calls.names.back())));
    EXPECT_EQ(calls.names.size(), refused + 1);
    const auto there = copy.Get("set");
    EXPECT_TRUE(!there.ok() || there->state == DatasetState::kOpen);
    PH_ASSERT_OK_AND_ASSIGN(const DatasetCopy rest, CopyDataset(*embedded_, copy, "set", GoOn));
    EXPECT_EQ(rest.num_old_records, there.ok() ? there->num_records : 0);
    EXPECT_EQ(rest.num_records, kRecords);
    EXPECT_EQ(rest.num_graphs, embedded_->Get("set")->num_graphs);
  }
  std::vector<std::string> expected = {"open", "unreadable", "get", "create", "histogram"};
  for (size_t i = 0; i < kRecords; ++i) {
    expected.insert(expected.end(), {"graph", "intact", "append"});
  }
  expected.insert(expected.end(), {"get", "histogram", "seal"});
  EXPECT_EQ(calls.names, expected);
}

}  // namespace
}  // namespace packhouse
