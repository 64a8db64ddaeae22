#include "service/server/services/load_source.h"

#include <memory>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/epochs/epoch_catalog.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/support/status_matchers.h"
#include "tests/support/unwatched_streams.h"
#include "tests/wire/told_fields.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(RedirectSourceTest, NamesTheOwnerOnce) {
  RedirectSource source({"other:1", 7});
  PH_ASSERT_OK_AND_ASSIGN(const auto first, source.Next());
  ASSERT_TRUE(first.has_value());
  const v1::LoadRedirect& redirect = first->message.redirect();
  EXPECT_THAT(UntoldFields(redirect), IsEmpty());
  EXPECT_EQ(redirect.address(), "other:1");
  EXPECT_EQ(redirect.owner_revision(), 7U);
  PH_ASSERT_OK_AND_ASSIGN(const auto second, source.Next());
  EXPECT_FALSE(second.has_value());
}

// A segment may take long: its chunks may be in a store that does not answer.
TEST(EvaluationSourceTest, EndsEarlyWhileItWaitsForASegment) {
  DatasetWorld dataset(600);
  dataset.Seal();
  EpochBounds bounds;
  bounds.planner_steps = 1000;
  EpochCatalog catalog(&dataset.store(), bounds);
  EpochRequest request = DatasetWorld::Request();
  request.key.job.clear();
  request.segments = SegmentsRequest{300, 1};
  PH_ASSERT_OK_AND_ASSIGN(const auto epoch, catalog.PrepareSegmented(request));
  std::vector<SegmentMakings::Waiter> ordered;
  int num_wakes = 0;
  const auto wake = [&num_wakes] { ++num_wakes; };
  const auto order = [&ordered](uint32_t /*segment*/, SegmentMakings::Waiter waiter) {
    ordered.push_back(std::move(waiter));
  };
  PH_ASSERT_OK_AND_ASSIGN(auto evaluation,
                          Evaluation::Open(epoch, {}, /*memory=*/nullptr, order, wake));
  UnwatchedStreams observers;
  EarlyEnd early_end;
  {
    EvaluationSource source(std::move(evaluation), observers.ForStream(epoch->schema().sizes(), {}),
                            &early_end, wake);
    PH_ASSERT_OK_AND_ASSIGN(const auto opened, source.Next());
    EXPECT_TRUE(opened.has_value());
    PH_ASSERT_OK_AND_ASSIGN(const auto none, source.Next());
    EXPECT_FALSE(none.has_value());
    EXPECT_TRUE(source.IsWaiting());
    ASSERT_EQ(ordered.size(), 1U);
    EXPECT_FALSE(ordered[0].is_over());
    EXPECT_EQ(num_wakes, 0);
    early_end.Begin(absl::UnavailableError("the server goes down"));
    EXPECT_EQ(num_wakes, 1);
    EXPECT_THAT(source.Next(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("goes down")));
  }
  EXPECT_TRUE(ordered[0].is_over());
  ordered[0].made(absl::OkStatus());
  EXPECT_EQ(num_wakes, 1);
}

}  // namespace
}  // namespace packhouse
