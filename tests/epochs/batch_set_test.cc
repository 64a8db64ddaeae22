#include "service/engine/epochs/batch_set.h"

#include <set>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/random.h"

namespace packhouse {
namespace {

using ::testing::ElementsAre;

// Against std::set, over random runs.
TEST(BatchSetTest, IsTheSetOfWhatWasInserted) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    BatchSet set;
    std::set<uint64_t> reference;
    for (int i = 0; i < 30; ++i) {
      const uint64_t begin = random.Below(60);
      if (random.Below(2) == 0) {
        EXPECT_EQ(set.Insert(begin), reference.insert(begin).second);
      } else {
        const uint64_t end = begin + random.Below(6);
        set.InsertRun({begin, end});
        for (uint64_t batch = begin; batch < end; ++batch) reference.insert(batch);
      }
      ASSERT_EQ(set.size(), reference.size());
      EXPECT_EQ(set.end(), reference.empty() ? 0 : *reference.rbegin() + 1);
    }
    std::vector<uint32_t> missing;
    for (uint64_t batch = 0; batch < 70; ++batch) {
      EXPECT_EQ(set.Contains(batch), reference.contains(batch));
      if (batch >= 7 && batch < 50 && !reference.contains(batch)) missing.push_back(batch);
    }
    EXPECT_EQ(set.Missing(7, 50), missing);
    const std::vector<BatchRun> runs = set.Runs();
    for (size_t i = 1; i < runs.size(); ++i) EXPECT_LT(runs[i - 1].end, runs[i].begin);
    const BatchSet below = set.Below(33);
    EXPECT_EQ(below.size(),
              static_cast<size_t>(std::distance(reference.begin(), reference.lower_bound(33))));
    for (uint64_t end = 0; end < 70; ++end) EXPECT_EQ(set.SizeBelow(end), set.Below(end).size());
    BatchSet copy;
    copy.InsertAll(set);
    EXPECT_EQ(copy, set);
  }
}

TEST(BatchSetTest, TouchingRunsAreOne) {
  BatchSet set = BatchSet::Of({4, 6});
  EXPECT_EQ(set.num_runs(), 2U);
  EXPECT_TRUE(set.Insert(5));
  EXPECT_FALSE(set.Insert(5));
  EXPECT_THAT(set.Runs(), ElementsAre(BatchRun{4, 7}));
  set.InsertRun({3, 3});
  EXPECT_EQ(set.size(), 3U);
}

}  // namespace
}  // namespace packhouse
