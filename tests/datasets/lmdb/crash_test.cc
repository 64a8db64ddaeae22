// The store's process is killed (-9) at random moments. Afterwards everything it acknowledged is
// there, nothing is there by half or twice, and what came after goes on. What a kill cannot show is
// the loss of what the kernel had not written yet: for that see the torn commits of
// lmdb_dataset_store_test.cc, and fdatasync(), which every commit waits for.
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/datasets/killed_process.h"
#include "tests/datasets/lmdb/killed_appends.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr int kKills = 40;

// (producer, sequence) -> where its first graph is.
using Acknowledged = std::map<std::pair<uint64_t, uint64_t>, uint64_t>;

// Appends to the store in `folder` until `num_lines` appends are acknowledged or more.
void AppendAndKill(const std::string& folder, size_t num_lines, Acknowledged& acknowledged) {
  std::vector<std::string> lines;
  RunAndKill(PACKHOUSE_APPEND_UNTIL_KILLED, folder, num_lines, lines);
  for (const std::string& line : lines) {
    unsigned long long producer = 0;
    unsigned long long sequence = 0;
    unsigned long long first_graph = 0;
    ASSERT_EQ(std::sscanf(line.c_str(), "%llu %llu %llu", &producer, &sequence, &first_graph), 3);
    EXPECT_TRUE(acknowledged.emplace(std::pair(producer, sequence), first_graph).second)
        << producer << " " << sequence << " was acknowledged twice";
  }
}

TEST(CrashTest, WhatWasAcknowledgedSurvivesEveryKill) {
  TemporaryFolder folder;
  const GraphSchema schema = KilledAppendSchema();
  Acknowledged acknowledged;
  Random random(1);
  for (int round = 0; round < kKills; ++round) {
    SCOPED_TRACE(testing::Message() << "kill " << round);
    const size_t num_lines = round == 0 ? 0 : random.Below(12);
    AppendAndKill(folder.path(), num_lines, acknowledged);
    LmdbDatasetStore::Options options;
    options.folder = folder.path();
    options.max_bytes = uint64_t{1} << 30;
    PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
    const auto opened = store->OpenReader("set");
    if (!opened.ok()) {
      EXPECT_THAT(opened, StatusIs(absl::StatusCode::kNotFound, testing::_));
      EXPECT_TRUE(acknowledged.empty());
      continue;
    }
    const auto& reader = *opened;
    PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                            store->Verify("set", [](const VerifyProgress&) { return true; }));
    EXPECT_TRUE(report.ok());

    // Whole chunks, each producer's in its order and each once, acknowledged or not.
    std::map<uint64_t, uint64_t> last_sequence;
    Acknowledged found;
    for (uint64_t i = 0; i < reader->num_graphs();) {
      const uint64_t id = reader->graph_ids()[i];
      const uint64_t producer = id >> 48;
      const uint64_t sequence = id >> 16 & 0xffffffff;
      ASSERT_EQ(sequence, last_sequence[producer] + 1) << "of producer " << producer;
      last_sequence[producer] = sequence;
      found[{producer, sequence}] = i;
      const GraphChunk chunk = KilledAppend(schema, producer, sequence);
      ASSERT_LE(i + chunk.num_graphs(), reader->num_graphs());
      for (size_t j = 0; j < chunk.num_graphs(); ++j, ++i) {
        PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(i));
        ASSERT_TRUE(SameGraph(*graph.chunk, graph.index, chunk, j));
      }
    }
    for (const auto& [append, first_graph] : acknowledged) {
      const auto at = found.find(append);
      ASSERT_NE(at, found.end()) << append.first << " " << append.second << " is lost";
      EXPECT_EQ(at->second, first_graph);
    }
  }
  EXPECT_GT(acknowledged.size(), 100U);
  RecordProperty("kills", kKills);
  RecordProperty("acknowledged", static_cast<int>(acknowledged.size()));
}

}  // namespace
}  // namespace packhouse
