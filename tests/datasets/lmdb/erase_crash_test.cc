// The store's process is killed (-9) while it erases what was deleted. Afterwards the store counts
// what is there, goes on erasing, and nothing else is touched.
#include <string>
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

constexpr int kKills = 12;

TEST(EraseCrashTest, ErasingGoesOnAfterEveryKill) {
  TemporaryFolder folder(TemporaryFolder::InMemory());
  const GraphSchema schema = KilledAppendSchema();
  Random random(1);
  size_t num_left_by_half = 0;
  for (int round = 0; round < kKills; ++round) {
    SCOPED_TRACE(testing::Message() << "kill " << round);
    std::vector<std::string> lines;
    RunAndKill(PACKHOUSE_ERASE_UNTIL_KILLED, folder.path(), random.Between(1, 6), lines);
    LmdbDatasetStore::Options options;
    options.folder = folder.path();
    options.max_bytes = uint64_t{1} << 30;
    PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
    const auto bytes_of_all = [&] {
      uint64_t bytes = 0;
      const auto list = store->List(0, "");
      EXPECT_THAT(list, IsOk());
      for (const DatasetInfo& info : list->datasets) bytes += info.num_bytes;
      return bytes;
    };
    if (store->num_bytes() > bytes_of_all()) ++num_left_by_half;
    ASSERT_THAT(store->WaitUntilErased(), IsOk());
    EXPECT_EQ(store->num_bytes(), bytes_of_all());
    PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                            store->Verify("kept", [](const VerifyProgress&) { return true; }));
    EXPECT_TRUE(report.ok());
    PH_ASSERT_OK_AND_ASSIGN(const auto reader, store->OpenReader("kept"));
    const GraphChunk chunk = KilledAppend(schema, 0, 1);
    ASSERT_EQ(reader->num_graphs(), chunk.num_graphs());
    for (size_t i = 0; i < chunk.num_graphs(); ++i) {
      PH_ASSERT_OK_AND_ASSIGN(const StoredGraph graph, reader->Graph(i));
      ASSERT_TRUE(SameGraph(*graph.chunk, graph.index, chunk, i));
    }
  }
  RecordProperty("left_by_half", static_cast<int>(num_left_by_half));
}

}  // namespace
}  // namespace packhouse
