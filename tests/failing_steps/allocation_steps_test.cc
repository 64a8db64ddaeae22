// Whichever allocation of a call fails: the call is done, or RESOURCE_EXHAUSTED and all is as
// before. (A job's, and a join's: tests/delivery/out_of_memory_test.cc.)
//
// Not tried, since these end the process: a growing hash table of Abseil's (it notes its new
// capacity before it allocates), JSON of nlohmann's, whose destructors allocate (the files of a
// partition), and the directory iterator of std::filesystem, which allocates where it says that it
// does not throw (a snapshot, a restore, a partition).
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/failing_steps/epoch_world.h"
#include "tests/failing_steps/plan_world.h"
#include "tests/failing_steps/seal_world.h"
#include "tests/support/failing_allocations.h"
#include "tests/support/failing_steps.h"
#include "tests/support/random_graphs.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

// A chunk is appended to a data set of the folder's store.
class AppendWorld final : public StepsWorld {
 public:
  AppendWorld() {
    LmdbDatasetStore::Options options;
    options.folder = folder_.path() + "/store";
    options.max_bytes = uint64_t{1} << 24;
    store_ = LmdbDatasetStore::Open(options).value();
    EXPECT_TRUE(store_->Create("set", schema_, {}).ok());
  }
  absl::Status Attempt() override {
    return store_->Append("set", chunk_, {}, ProducerSequence{"p", 1}).status();
  }
  std::string State() override {
    const auto report = store_->Verify("set", [](const VerifyProgress&) { return true; });
    EXPECT_TRUE(report.ok() && report->ok());
    return absl::StrCat(store_->Get("set")->num_graphs, " graphs");
  }

 private:
  static GraphChunk Chunk(const GraphSchema* schema) {
    Random random(1);
    return RandomChunk(random, schema, 4, 9, 0);
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}});
  const GraphChunk chunk_ = Chunk(&schema_);
  std::unique_ptr<LmdbDatasetStore> store_;
};

TEST(AllocationStepsTest, OfAnAppend) {
  FailingAllocations allocations;
  ExpectDoneOrNot([] { return std::make_unique<AppendWorld>(); }, allocations);
}

TEST(AllocationStepsTest, OfASeal) {
  FailingAllocations allocations;
  ExpectDoneOrNot([] { return std::make_unique<SealWorld>(nullptr); }, allocations);
}

TEST(AllocationStepsTest, OfAPlan) {
  FailingAllocations allocations;
  ExpectDoneOrNot([] { return std::make_unique<PlanWorld>(nullptr, nullptr); }, allocations);
}

TEST(AllocationStepsTest, OfAnEpoch) {
  DatasetWorld world(60);
  world.Seal();
  const std::shared_ptr<const DatasetReader> reader = world.store().OpenReader("graphs").value();
  const EpochRequest request = DatasetWorld::Request();
  RefusedMemory memory;
  FailingAllocations allocations;
  ExpectDoneOrNot(
      [&] { return std::make_unique<EpochWorld>(reader, nullptr, request, nullptr, memory); },
      allocations);
}

}  // namespace
}  // namespace packhouse
