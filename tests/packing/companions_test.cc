#include "service/algorithms/packing/companions.h"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "service/algorithms/packing/pool_scan.h"
#include "service/algorithms/planning/limits.h"

namespace packhouse {
namespace {

// (nodes, edges) of waiting graphs.
class PoolOfSizes {
 public:
  explicit PoolOfSizes(const std::vector<std::pair<int32_t, int32_t>>& graphs)
      : scores_(graphs.size(), 1) {
    for (const auto& graph : graphs) sizes_.push_back(graph.first);
    for (const auto& graph : graphs) sizes_.push_back(graph.second);
  }
  void Erase(size_t slot) { scores_[slot] = 0; }
  PoolColumns columns() const { return {sizes_.data(), scores_.data(), scores_.size(), 2}; }

 private:
  std::vector<int32_t> sizes_;
  std::vector<int32_t> scores_;
};

// Has seen graphs of 10 nodes and 30 edges. Alone, ten of them fill a pack of 100 nodes and 1000
// edges.
Companions OfStream() {
  Companions companions(Limits::Create({100, 1000, kUnlimited}).value());
  for (int i = 0; i < 100; ++i) companions.Add({{10, 30}});
  // Graphs of half a pack do not count.
  for (int i = 0; i < 100; ++i) companions.Add({{10, 900}});
  companions.Learn();
  return companions;
}

TEST(CompanionsTest, LopsidedIsWhatLeavesTooLittleOfAnotherComponent) {
  const Companions companions = OfStream();
  const PoolOfSizes pool({{20, 900}, {20, 700}, {20, 499}, {60, 180}, {100, 1000}, {100, 900}});
  EXPECT_TRUE(companions.IsLopsided(pool.columns(), 0));   // Leaves 80 nodes and 100 edges.
  EXPECT_FALSE(companions.IsLopsided(pool.columns(), 1));  // Eight mean graphs need 240 edges.
  EXPECT_FALSE(companions.IsLopsided(pool.columns(), 2));  // Less than half a pack.
  EXPECT_FALSE(companions.IsLopsided(pool.columns(), 3));  // Of the stream's shape.
  EXPECT_FALSE(companions.IsLopsided(pool.columns(), 4));  // Leaves nothing.
  EXPECT_FALSE(companions.IsLopsided(pool.columns(), 5));  // Leaves no nodes.
  const Companions unlearnt(Limits::Create({100, 1000, kUnlimited}).value());
  EXPECT_FALSE(unlearnt.IsLopsided(pool.columns(), 0));
}

// What has faded counts half: a mean graph then has 60 edges, and not 50.
TEST(CompanionsTest, OldGraphsFade) {
  Companions companions = OfStream();
  companions.Fade();
  for (int i = 0; i < 50; ++i) companions.Add({{10, 90}});
  companions.Learn();
  const PoolOfSizes pool({{20, 600}, {20, 550}});
  EXPECT_TRUE(companions.IsLopsided(pool.columns(), 0));
  EXPECT_FALSE(companions.IsLopsided(pool.columns(), 1));
}

TEST(CompanionsTest, TheShapeOfTheRoomIsFound) {
  Companions companions = OfStream();
  const std::vector<int32_t> room = {80, 100, 1000};
  companions.Start(room);
  EXPECT_FALSE(companions.NearlyFull(room, 2));
  EXPECT_TRUE(companions.NearlyFull({{19, 100, 1000}}, 2));
  EXPECT_TRUE(companions.NearlyFull({{80, 100, 1}}, 2));
  // Wanted are 1.25 edges a node. Of nearly equal ones the first is taken.
  PoolOfSizes pool({{10, 30}, {90, 100}, {20, 20}, {40, 49}, {40, 50}, {10, 200}});
  EXPECT_EQ(companions.Find(pool.columns(), room, 0, 6), 3);
  pool.Erase(3);
  EXPECT_EQ(companions.Find(pool.columns(), room, 0, 6), 4);
  pool.Erase(4);
  EXPECT_EQ(companions.Find(pool.columns(), room, 0, 6), 2);
  EXPECT_EQ(companions.Find(pool.columns(), room, 0, 2), 0);
  EXPECT_EQ(companions.Find(pool.columns(), room, 5, 6), PoolScan::kNone);
  EXPECT_EQ(companions.Find(pool.columns(), room, 1, 2), PoolScan::kNone);
}

}  // namespace
}  // namespace packhouse
