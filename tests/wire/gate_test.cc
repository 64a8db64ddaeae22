#include "service/rpc/gate.h"

#include <memory>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::rpc {
namespace {

using ::testing::HasSubstr;

class RecordingStream final : public Abortable {
 public:
  void Abort(const absl::Status& status) override { aborted = status; }
  std::optional<absl::Status> aborted;
};

TEST(GateTest, BoundsStreamsAndCalls) {
  Gate gate({.max_streams = 1, .max_calls = 2});
  const auto first = std::make_shared<RecordingStream>();
  const auto second = std::make_shared<RecordingStream>();
  EXPECT_THAT(gate.EnterStream(first), IsOk());
  EXPECT_THAT(gate.EnterStream(second), StatusIs(absl::StatusCode::kResourceExhausted,
                                                 HasSubstr("streams: 1 are open, at most 1")));
  gate.LeaveStream(first.get());
  EXPECT_THAT(gate.EnterStream(second), IsOk());
  EXPECT_THAT(gate.EnterCall(), IsOk());
  EXPECT_THAT(gate.EnterCall(), IsOk());
  EXPECT_THAT(gate.EnterCall(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("calls: 2 are waiting, at most 2")));
}

TEST(GateTest, AClosedGateLetsNobodyInAndWaitsForThoseInside) {
  Gate gate({});
  const auto stream = std::make_shared<RecordingStream>();
  ASSERT_THAT(gate.EnterStream(stream), IsOk());
  gate.Close();
  EXPECT_TRUE(gate.is_closed());
  EXPECT_THAT(gate.EnterCall(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
  EXPECT_THAT(gate.EnterStream(std::make_shared<RecordingStream>()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
  EXPECT_FALSE(gate.WaitUntilEmpty(absl::InfinitePast()));
  gate.AbortStreams(absl::UnavailableError("late"));
  EXPECT_EQ(stream->aborted, absl::UnavailableError("late"));
  gate.LeaveStream(stream.get());
  EXPECT_TRUE(gate.WaitUntilEmpty(absl::InfinitePast()));
}

}  // namespace
}  // namespace packhouse::rpc
