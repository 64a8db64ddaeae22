#include "client/cli/ingest.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/files/npz_graphs.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_dataset_service.h"
#include "tests/client/npz_writer.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

GraphSizes RandomSizes(uint64_t seed, std::size_t graphs) {
  Random random(seed);
  GraphSizes sizes;
  sizes.components = {"nodes", "edges"};
  sizes.num_rows = graphs;
  for (std::size_t i = 0; i < 2 * graphs; ++i) {
    sizes.values.push_back(static_cast<uint32_t>(random.Below(100)));
  }
  return sizes;
}

// Reads no further than some graphs, as a program that is killed there.
class CutSource final : public GraphSource {
 public:
  CutSource(std::unique_ptr<GraphSource> source, uint64_t graphs)
      : source_(std::move(source)), left_(graphs) {}
  const v1::GraphSchema& schema() const override { return source_->schema(); }
  bool is_grouped() const override { return source_->is_grouped(); }
  uint64_t num_graphs() const override { return source_->num_graphs(); }
  uint64_t GraphBytes(uint64_t graph) const override { return source_->GraphBytes(graph); }
  std::string fingerprint() const override { return source_->fingerprint(); }
  absl::StatusOr<SourceChunk> Next(uint64_t count) override {
    if (count > left_) return absl::AbortedError("killed");
    left_ -= count;
    return source_->Next(count);
  }

 private:
  const std::unique_ptr<GraphSource> source_;
  uint64_t left_;
};

class IngestTest : public testing::Test {
 protected:
  static IngestOptions Options(const std::string& dataset) {
    IngestOptions options;
    options.dataset = dataset;
    options.chunk_bytes = 100;
    options.retry.sleep = [](absl::Duration) {};
    options.retry.patience = absl::InfiniteDuration();
    return options;
  }

  std::string StoredCounts(const std::string& dataset) {
    std::string counts;
    for (const v1::AppendRequest& request : server_.service().stored(dataset).records) {
      counts += request.graphs().sizes().counts();
    }
    return counts;
  }

  FakeDatasetServer server_;
};

std::string AllCounts(const GraphSizes& sizes) {
  return (*MakeSizesSource(sizes))->Next(sizes.num_rows)->graphs.sizes().counts();
}

TEST_F(IngestTest, StoresAllGraphsOnceAndSeals) {
  const GraphSizes sizes = RandomSizes(1, 1000);
  const auto source = MakeSizesSource(sizes);
  IngestOptions options = Options("d");
  options.seal = true;
  options.max_bytes = 12345;
  uint64_t last = 0;
  options.on_progress = [&](const IngestTotals& totals) {
    EXPECT_GT(totals.graphs_stored, last);
    last = totals.graphs_stored;
  };
  PH_ASSERT_OK_AND_ASSIGN(const IngestResult result, Ingest(options, server_.Channel(), **source));
  EXPECT_EQ(result.totals.graphs_stored, 1000);
  EXPECT_EQ(result.totals.graphs_present, 0);
  EXPECT_EQ(result.totals.bytes, 8000);
  EXPECT_EQ(result.dataset.state(), v1::DATASET_STATE_SEALED);
  EXPECT_EQ(result.dataset.max_bytes(), 12345);
  EXPECT_NE(result.dataset.id(), 0);
  EXPECT_EQ(last, 1000);
  EXPECT_EQ(StoredCounts("d"), AllCounts(sizes));
  for (const v1::AppendRequest& request : server_.service().stored("d").records) {
    EXPECT_LE(request.graphs().sizes().num_graphs(), 12);
    EXPECT_EQ(request.dataset_id(), result.dataset.id());
  }
}

TEST_F(IngestTest, AgainStoresNothingEvenIfSealed) {
  const GraphSizes sizes = RandomSizes(1, 100);
  IngestOptions options = Options("d");
  options.seal = true;
  ASSERT_THAT(Ingest(options, server_.Channel(), **MakeSizesSource(sizes)), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const IngestResult again,
                          Ingest(options, server_.Channel(), **MakeSizesSource(sizes)));
  EXPECT_EQ(again.totals.graphs_stored, 0);
  EXPECT_EQ(again.totals.graphs_present, 100);
  EXPECT_EQ(again.graphs_before, 100);
  EXPECT_EQ(StoredCounts("d"), AllCounts(sizes));
  // Other graphs cannot follow.
  EXPECT_THAT(Ingest(options, server_.Channel(), **MakeSizesSource(RandomSizes(2, 100))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("sealed")));
}

// However often it is killed and begun again, and whatever breaks: every graph is stored once, in
// order, and the totals say so.
TEST_F(IngestTest, KillsAndBrokenStreamsLoseNothingAndRepeatNothing) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    Random faults(seed + 1000);
    const uint64_t odds = faults.Between(2, 30);
    server_.service().set_fault([&faults, odds](const v1::AppendRequest&) {
      if (faults.Below(odds) != 0) return AppendFault::kNone;
      return faults.Below(2) == 0 ? AppendFault::kBreakBefore : AppendFault::kBreakAfter;
    });
    const std::size_t graphs = random.Between(1, 700);
    const GraphSizes sizes = RandomSizes(seed, graphs);
    const IngestOptions options = Options("d" + std::to_string(seed));
    for (uint64_t kills = random.Below(4); kills > 0; --kills) {
      CutSource cut(*MakeSizesSource(sizes), random.Below(graphs));
      ASSERT_THAT(Ingest(options, server_.Channel(), cut),
                  StatusIs(absl::StatusCode::kAborted, HasSubstr("killed")));
    }
    PH_ASSERT_OK_AND_ASSIGN(const IngestResult result,
                            Ingest(options, server_.Channel(), **MakeSizesSource(sizes)));
    ASSERT_EQ(StoredCounts(options.dataset), AllCounts(sizes));
    ASSERT_EQ(result.totals.graphs_stored + result.totals.graphs_present, graphs);
    ASSERT_LE(result.totals.graphs_present, result.graphs_before);
    ASSERT_EQ(result.dataset.num_graphs(), graphs);
    ASSERT_EQ(result.totals.bytes, 8 * graphs);
  }
}

TEST_F(IngestTest, SourcesFollowOneAnotherInOneDataset) {
  const GraphSizes first = RandomSizes(1, 300);
  const GraphSizes second = RandomSizes(2, 200);
  ASSERT_THAT(Ingest(Options("d"), server_.Channel(), **MakeSizesSource(first)), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const IngestResult result,
                          Ingest(Options("d"), server_.Channel(), **MakeSizesSource(second)));
  EXPECT_EQ(result.graphs_before, 300);
  EXPECT_EQ(result.totals.graphs_stored, 200);
  EXPECT_EQ(StoredCounts("d"), AllCounts(first) + AllCounts(second));
}

TEST_F(IngestTest, ADatasetCreatedByATryWhoseAnswerWasLostIsTaken) {
  // One for Get, which finds nothing, and one for Create.
  server_.service().LoseAnswers(1);
  EXPECT_THAT(Ingest(Options("d"), server_.Channel(), **MakeSizesSource(RandomSizes(1, 9))),
              IsOk());
}

TEST_F(IngestTest, WholeGraphsWithGroups) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/graphs.npz";
  WriteNpz(path, {{"node_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, 2, 3, 5})},
                  {"edge_offsets.npy", NpyFile<int64_t>("<i8", "(4,)", {0, 2, 2, 3})},
                  {"x.npy", NpyFile<int16_t>("<i2", "(5,)", {1, 2, 3, 4, 5})},
                  {"edge_index.npy", NpyFile<int16_t>("<i2", "(2, 3)", {0, 1, 1, 1, 0, 0})},
                  {"query.npy", NpyFile<int64_t>("<i8", "(3,)", {8, 8, 9})}});
  IngestOptions options = Options("d");
  options.chunk_bytes = 1;
  PH_ASSERT_OK_AND_ASSIGN(const auto source, OpenGraphSource(path, "query"));
  PH_ASSERT_OK_AND_ASSIGN(const IngestResult result, Ingest(options, server_.Channel(), *source));
  EXPECT_EQ(result.totals.graphs_stored, 3);
  EXPECT_TRUE(result.dataset.grouped());
  const FakeDatasetService::Stored stored = server_.service().stored("d");
  // A graph that is larger than a chunk is a chunk.
  ASSERT_EQ(stored.records.size(), 3);
  std::string rows;
  for (const v1::AppendRequest& request : stored.records) {
    EXPECT_EQ(request.group_ids().size(), 8);
    rows += request.graphs().tensors(0).data();
  }
  const std::vector<int16_t> x = {1, 2, 3, 4, 5};
  EXPECT_EQ(rows, std::string(reinterpret_cast<const char*>(x.data()), 10));
}

TEST_F(IngestTest, AnotherSchemaIsRefusedNamingWhatDiffers) {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/graphs.npz";
  const auto open = [&](const std::string& type, const std::string& groups) {
    WriteNpz(path, {{"node_offsets.npy", NpyFile<int64_t>("<i8", "(2,)", {0, 2})},
                    {"edge_offsets.npy", NpyFile<int64_t>("<i8", "(2,)", {0, 0})},
                    {"x.npy", NpyFile<int16_t>(type, "(2,)", {1, 2})},
                    {"query.npy", NpyFile<int64_t>("<i8", "(1,)", {8})}});
    return *OpenGraphSource(path, groups);
  };
  const auto channel = server_.Channel();
  ASSERT_THAT(Ingest(Options("whole"), channel, *open("<i2", "")), IsOk());
  ASSERT_THAT(Ingest(Options("sizes"), channel, **MakeSizesSource(RandomSizes(1, 2))), IsOk());
  const auto refused = [](const std::string& says) {
    return StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr(says));
  };
  EXPECT_THAT(Ingest(Options("whole"), channel, *open("<f2", "")),
              refused("data set 'whole' has tensor 0 x: int16 of nodes, the source x: float16"));
  EXPECT_THAT(Ingest(Options("whole"), channel, *open("<i2", "query")),
              refused("has tensor 1 query: int64 of graphs, the source none"));
  EXPECT_THAT(Ingest(Options("sizes"), channel, *open("<i2", "")),
              refused("data set 'sizes' has tensor 0 none, the source x: int16 of nodes"));
  GraphSizes tokens = RandomSizes(1, 2);
  tokens.components = {"tokens", "edges"};
  EXPECT_THAT(Ingest(Options("sizes"), channel, **MakeSizesSource(tokens)),
              refused("has the components nodes, edges, the source tokens, edges"));
  IngestOptions bounded = Options("sizes");
  bounded.max_bytes = 9;
  EXPECT_THAT(Ingest(bounded, channel, **MakeSizesSource(RandomSizes(1, 2))),
              refused("was created with max_bytes 0, wanted is 9"));
}

// A data set that cuts graphs has tensors that are not sent, and more graphs than were sent.
TEST_F(IngestTest, GraphsThatTheServerCutsAreStoredOnce) {
  server_.service().set_fault([](const v1::AppendRequest&) { return AppendFault::kStorePieces; });
  const GraphSizes sizes = RandomSizes(1, 100);
  IngestOptions options = Options("cut");
  options.max_rows.emplace_back().set_component("nodes");
  options.max_rows[0].set_rows(40);
  options.cuts_oversize = true;
  const auto channel = server_.Channel();
  PH_ASSERT_OK_AND_ASSIGN(const IngestResult result,
                          Ingest(options, channel, **MakeSizesSource(sizes)));
  EXPECT_EQ(result.totals.graphs_stored, 100);
  EXPECT_EQ(result.totals.pieces_stored, 200);
  EXPECT_EQ(result.dataset.max_rows(0).rows(), 40);
  PH_ASSERT_OK_AND_ASSIGN(const IngestResult again,
                          Ingest(options, channel, **MakeSizesSource(sizes)));
  EXPECT_EQ(again.totals.graphs_stored, 0);
  EXPECT_EQ(again.totals.graphs_present, 100);
  // Who does not say how the data set was created, may append to it.
  EXPECT_THAT(Ingest(Options("cut"), channel, **MakeSizesSource(sizes)), IsOk());
  options.max_rows[0].set_rows(41);
  EXPECT_THAT(Ingest(options, channel, **MakeSizesSource(sizes)),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("was created with max_rows nodes=40, wanted is nodes=41")));
  ASSERT_THAT(Ingest(Options("whole"), channel, **MakeSizesSource(RandomSizes(1, 2))), IsOk());
  options.dataset = "whole";
  EXPECT_THAT(Ingest(options, channel, **MakeSizesSource(RandomSizes(1, 2))),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("without cutting")));
}

TEST_F(IngestTest, ARefusedGraphEndsIt) {
  server_.service().set_fault([](const v1::AppendRequest&) { return AppendFault::kRefuse; });
  EXPECT_EQ(
      Ingest(Options("d"), server_.Channel(), **MakeSizesSource(RandomSizes(1, 500))).status(),
      absl::OutOfRangeError("graph 7"));
}

TEST(DefaultProducerTest, NamesContentAndCut) {
  const auto a = MakeSizesSource(RandomSizes(1, 50));
  const auto same = MakeSizesSource(RandomSizes(1, 50));
  const auto other = MakeSizesSource(RandomSizes(2, 50));
  EXPECT_EQ(DefaultProducer(**a, 100), DefaultProducer(**same, 100));
  EXPECT_NE(DefaultProducer(**a, 100), DefaultProducer(**other, 100));
  EXPECT_NE(DefaultProducer(**a, 100), DefaultProducer(**a, 200));
  EXPECT_LE(DefaultProducer(**a, ~uint64_t{0}).size(), 128);
}

}  // namespace
}  // namespace packhouse::client
