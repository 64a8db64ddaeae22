// Graphs that the server makes, as a data set.
#include "service/engine/epochs/made_dataset.h"

#include <cstdint>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

// The same graphs each time.
class FixedMaker final : public GraphMaker {
 public:
  const GraphSchema& schema() const override { return *schema_; }
  uint64_t num_graphs() const override { return 10; }
  uint64_t graphs_per_append() const override { return 3; }
  absl::StatusOr<GraphChunk> Make(uint64_t begin, uint64_t end) override {
    Random random(begin);
    return RandomChunk(random, schema_.get(), end - begin, /*max_count=*/5, begin);
  }

 private:
  const std::shared_ptr<const GraphSchema> schema_ = SmallSchema();
};

// Somebody deletes the data set while it is made, and creates another one with its name: nothing
// gets into that one, and it is not sealed.
TEST(MadeDatasetTest, ADataSetThatIsCreatedAnewIsNotTheOneThatIsMade) {
  for (uint64_t at = 3; at <= 10; at += at == 9 ? 1 : 3) {
    for (const bool is_created_anew : {false, true}) {
      SCOPED_TRACE(testing::Message() << "at=" << at << " anew=" << is_created_anew);
      FixedMaker maker;
      MemoryDatasetStore store(uint64_t{1} << 30);
      const auto made =
          MakeDataset(maker, {"set", 0, "maker"}, store, Making(), [&](uint64_t done) {
            if (done != at) return;
            EXPECT_THAT(store.Delete("set"), IsOk());
            if (!is_created_anew) return;
            EXPECT_THAT(store.Create("set", maker.schema(), {}), IsOk());
          });
      EXPECT_THAT(made, StatusIs(absl::StatusCode::kNotFound, testing::_));
      if (!is_created_anew) continue;
      PH_ASSERT_OK_AND_ASSIGN(const DatasetInfo anew, store.Get("set"));
      EXPECT_EQ(anew.num_graphs, 0U);
      EXPECT_EQ(anew.state, DatasetState::kOpen);
    }
  }
}

}  // namespace
}  // namespace packhouse
