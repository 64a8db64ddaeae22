// Copies between stores: whole, the same, and gone on with where they were stopped.
#include "service/stores/datasets/dataset_copy.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
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

}  // namespace
}  // namespace packhouse
