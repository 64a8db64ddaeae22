// Copies of a data set's graphs in memory: the same batches, held as a whole or not at all, made on
// a thread of their own.
#include "service/engine/epochs/gathered_rows.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "service/algorithms/collation/gathered_graph.h"
#include "service/base/execution.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "service/engine/epochs/prepared_epoch.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

constexpr uint64_t kCopyUnit = uint64_t{1} << 20;

// All tensors of an epoch's batches.
std::string ContentsOf(const PreparedEpoch& epoch) {
  std::string contents;
  for (uint64_t number = 0; number < epoch.identity().num_batches(); ++number) {
    const auto built = epoch.Build(number);
    EXPECT_THAT(built, IsOk());
    if (!built.ok()) return contents;
    absl::StrAppend(&contents, "batch ", number);
    for (const uint64_t id : built->batch.graph_ids) absl::StrAppend(&contents, " ", id);
    for (const BatchTensor& tensor : built->batch.tensors) {
      absl::StrAppend(&contents, tensor.name, tensor.data);
    }
  }
  return contents;
}

// What the calling thread has others do is done at once, as long as this lives.
class AtOnce final : public Execution {
 public:
  AtOnce() { Enter(this); }
  ~AtOnce() override { Enter(nullptr); }

  std::unique_ptr<Begun> Begin(std::function<void()> work) override {
    class Done final : public Begun {
      void Join() override {}
    };
    std::thread(std::move(work)).join();
    return std::make_unique<Done>();
  }
  void Pause(absl::Duration) override {}
  bool Block(std::atomic<int32_t>& wakes, bool) override {
    for (int32_t now = wakes;; now = wakes) {
      if (now > 0 && wakes.compare_exchange_weak(now, now - 1)) return true;
      std::this_thread::yield();
    }
  }
};

// A data set whose graphs are copied while epochs are loaded, and epochs that are not made from the
// copy.
class GatheredEpochsTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kBound = 64 * kCopyUnit;
  // Of all graphs, in large pages.
  static constexpr uint64_t kLeastBytes = 2 * kCopyUnit;

  GatheredEpochsTest() { world_.Seal(); }

  std::string Loaded(uint64_t epoch) {
    const auto prepared = catalog_->Prepare(DatasetWorld::Request({24, 30, 6}, epoch));
    EXPECT_THAT(prepared, IsOk());
    return prepared.ok() ? ContentsOf(**prepared) : "";
  }
  std::string Expected(uint64_t epoch) {
    // Each reader makes one epoch, and the first has no copy.
    EpochCatalog alone(&world_.store(), EpochBounds());
    const auto prepared = alone.Prepare(DatasetWorld::Request({24, 30, 6}, epoch));
    EXPECT_THAT(prepared, IsOk());
    return prepared.ok() ? ContentsOf(**prepared) : "";
  }

  AtOnce at_once_;
  DatasetWorld world_{300};
  MemoryBudget budget_{kBound};
  std::unique_ptr<EpochCatalog> catalog_ =
      std::make_unique<EpochCatalog>(&world_.store(), EpochBounds(), &budget_);
};

TEST_F(GatheredEpochsTest, BatchesAreTheSameAndTheCopyIsHeld) {
  EXPECT_EQ(Loaded(0), Expected(0));
  // What is loaded once is not copied.
  EXPECT_LT(budget_.held(), kLeastBytes);
  for (uint64_t epoch = 1; epoch < 4; ++epoch) {
    EXPECT_EQ(Loaded(epoch), Expected(epoch)) << epoch;
    EXPECT_GE(budget_.held(), kLeastBytes);
    EXPECT_LT(budget_.held(), kLeastBytes + kCopyUnit);
  }
  catalog_->Forget("graphs");
  EXPECT_EQ(budget_.held(), 0);
}

TEST_F(GatheredEpochsTest, TheCopyGoesWhereOthersNeedItsRoom) {
  for (uint64_t epoch = 0; epoch < 3; ++epoch) Loaded(epoch);
  const std::string expected = Expected(3);
  PH_ASSERT_OK_AND_ASSIGN(const auto used,
                          catalog_->Prepare(DatasetWorld::Request({24, 30, 6}, 3)));
  EXPECT_EQ(ContentsOf(*used), expected);
  EXPECT_GE(budget_.held(), kLeastBytes);
  // Although the epoch is used.
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, budget_.Hold("the rest", kBound - kCopyUnit));
  EXPECT_EQ(ContentsOf(*used), expected);
  EXPECT_LE(budget_.held(), kBound);
}

TEST_F(GatheredEpochsTest, NothingIsCopiedWhereHalfOfTheMemoryIsHeld) {
  PH_ASSERT_OK_AND_ASSIGN(const MemoryHold others, budget_.Hold("others", kBound / 2));
  for (uint64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(Loaded(epoch), Expected(epoch)) << epoch;
    EXPECT_LT(budget_.held(), kBound / 2 + kCopyUnit);
  }
}

TEST_F(GatheredEpochsTest, ACopyThatNobodyUsesMakesRoom) {
  for (uint64_t epoch = 0; epoch < 3; ++epoch) Loaded(epoch);
  PH_ASSERT_OK_AND_ASSIGN(const auto idle,
                          catalog_->Prepare(DatasetWorld::Request({24, 30, 6}, 3)));
  EXPECT_THAT(world_.store().Create("others", world_.schema(), DatasetOptions()), IsOk());
  EXPECT_THAT(world_.store().Seal("others"), IsOk());
  EXPECT_GE(budget_.held(), kLeastBytes);
  for (uint64_t epoch = 0; epoch < 12; ++epoch) {
    EpochRequest request = DatasetWorld::Request({24, 30, 6}, epoch);
    request.dataset = "others";
    EXPECT_THAT(catalog_->Prepare(request), IsOk());
  }
  EXPECT_LT(budget_.held(), kLeastBytes);
  EXPECT_EQ(ContentsOf(*idle), Expected(3));
}

// A batch that is being made from the copy keeps it for a moment: others wait for that, and are not
// refused.
TEST_F(GatheredEpochsTest, OthersGetTheRoomOfACopyThatIsInUse) {
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    catalog_ = nullptr;
    catalog_ = std::make_unique<EpochCatalog>(&world_.store(), EpochBounds(), &budget_);
    for (uint64_t epoch = 0; epoch < 3; ++epoch) Loaded(epoch);
    PH_ASSERT_OK_AND_ASSIGN(const auto used,
                            catalog_->Prepare(DatasetWorld::Request({24, 30, 6}, 3)));
    ASSERT_GE(budget_.held(), kLeastBytes);
    absl::Notification has_begun;
    std::atomic<bool> is_over = false;
    std::thread trainer([&] {
      ContentsOf(*used);
      has_begun.Notify();
      while (!is_over) ContentsOf(*used);
    });
    has_begun.WaitForNotification();
    EXPECT_THAT(budget_.Hold("the rest", kBound - kCopyUnit).status(), IsOk());
    is_over = true;
    trainer.join();
  }
}

TEST(GatheredRowsTest, ACopyOfSeveralLargePagesIsHeldAsAWhole) {
  DatasetWorld world(400, /*seed=*/1, /*max_count=*/2000);
  world.Seal();
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, world.store().OpenReader("graphs"));
  MemoryBudget budget(64 * kCopyUnit);
  GatheredRows rows(&budget, reader);
  const AtOnce at_once;
  rows.Make();
  const auto copy = rows.Ready();
  ASSERT_NE(copy, nullptr);
  uint64_t bytes = 0;
  for (size_t i = 0; i < reader->num_graphs(); ++i) bytes += copy->graph(i).size();
  EXPECT_GT(bytes, 2 * kCopyUnit);
  EXPECT_GE(budget.held(), bytes);
}

// Batches do not wait for it: a thread makes it beside them, and whenever it is dropped, nothing is
// left.
TEST(GatheredRowsTest, ACopyIsMadeBesideOthersAsAWholeOrNotAtAll) {
  DatasetWorld world(400, /*seed=*/1, /*max_count=*/2000);
  world.Seal();
  PH_ASSERT_OK_AND_ASSIGN(const std::shared_ptr<const DatasetReader> reader,
                          world.store().OpenReader("graphs"));
  MemoryBudget budget(64 * kCopyUnit);
  for (int looks = 0; looks < 50; ++looks) {
    GatheredRows rows(&budget, reader);
    rows.Make();
    std::shared_ptr<const GatheredRows::Copy> copy;
    // The last time until it is whole.
    for (int i = 0; copy == nullptr && (i < looks || looks == 49); ++i) {
      rows.Make();
      EXPECT_GT(budget.held(), 2 * kCopyUnit);
      copy = rows.Ready();
      std::this_thread::yield();
    }
    for (size_t i = 0; copy != nullptr && i < reader->num_graphs(); ++i) {
      std::string expected(copy->graph(i).size(), '\0');
      PH_ASSERT_OK_AND_ASSIGN(const StoredGraph stored, reader->Graph(i));
      GatherGraph(*stored.chunk, stored.index, expected.data());
      ASSERT_EQ(copy->graph(i), expected) << i;
    }
    copy = nullptr;
    const auto gone = rows.Drop();
    ASSERT_NE(gone, nullptr);
    gone->WaitForNotification();
    EXPECT_EQ(budget.held(), 0);
    rows.Make();
    EXPECT_EQ(budget.held(), 0);
    EXPECT_EQ(rows.Ready(), nullptr);
  }
}

// Who needs the room can wait for the batches that still use it.
TEST_F(GatheredEpochsTest, ADroppedCopyTellsWhenItsMemoryIsFree) {
  PH_ASSERT_OK_AND_ASSIGN(const auto reader, world_.store().OpenReader("graphs"));
  GatheredRows rows(&budget_, reader);
  EXPECT_EQ(rows.Drop(), nullptr);
  rows.Make();
  auto used = rows.Ready();
  ASSERT_NE(used, nullptr);
  const auto gone = rows.Drop();
  ASSERT_NE(gone, nullptr);
  EXPECT_EQ(rows.Ready(), nullptr);
  EXPECT_FALSE(gone->HasBeenNotified());
  EXPECT_GE(budget_.held(), kLeastBytes);
  used = nullptr;
  EXPECT_TRUE(gone->HasBeenNotified());
  EXPECT_EQ(budget_.held(), 0);
}

}  // namespace
}  // namespace packhouse
