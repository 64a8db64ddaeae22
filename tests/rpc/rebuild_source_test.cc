// What RebuildBatches says of batches that there are not.
#include "service/server/services/rebuild_source.h"

#include <cstdint>
#include <memory>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Has batches, and makes none.
class NumberedEpoch final : public LoadableEpoch {
 public:
  explicit NumberedEpoch(const std::vector<uint64_t>& num_batches) {
    identity_ = {{"job", 3}, "graphs", 7, 1, {}, "words", 0};
    for (const uint64_t each : num_batches) identity_.rank_groups.push_back({{24, 6}, 1, each});
  }

  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return schema_; }
  absl::Span<const BatchShape> shapes(size_t /*rank_group*/) const override { return {}; }
  uint64_t num_graphs() const override { return 0; }
  uint64_t NumGraphs(uint64_t /*number*/) const override { return 0; }
  absl::StatusOr<BuiltBatch> Build(uint64_t /*number*/) const override { return BuiltBatch(); }
  absl::StatusOr<BuiltBatch> BuildPadding(size_t /*rank_group*/) const override {
    return BuiltBatch();
  }

 private:
  EpochIdentity identity_;
  const GraphSchema schema_ = GraphSchema::Create(SizeSchema::NodesAndEdges(), {}).value();
};

absl::Status Opened(const std::vector<uint64_t>& num_batches, uint64_t number) {
  return RebuildSource::Open(std::make_shared<const NumberedEpoch>(num_batches), {number},
                             std::nullopt, Making(nullptr, nullptr))
      .status();
}

TEST(RebuildSourceTest, NumbersBeyondAreToldByRankGroup) {
  EXPECT_THAT(Opened({5}, 4), IsOk());
  EXPECT_THAT(Opened({5}, 5), StatusIs(absl::StatusCode::kOutOfRange,
                                       AllOf(HasSubstr("batch 5: epoch 3 has 5 batches, numbered "
                                                       "from 0"),
                                             Not(HasSubstr("rank group")))));
  EXPECT_THAT(Opened({5, 7}, 11), IsOk());
  EXPECT_THAT(
      Opened({5, 7}, 12),
      StatusIs(absl::StatusCode::kOutOfRange,
               HasSubstr("batch 12: epoch 3 has 5 batches of rank group 0, numbered from 0, 7 "
                         "batches of rank group 1, numbered from 5; batches of padding")));
}

}  // namespace
}  // namespace packhouse
