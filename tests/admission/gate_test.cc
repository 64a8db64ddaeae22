#include "service/server/calls/gate.h"

#include <memory>
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr auto kQuick = Gate::CallKind::kQuick;
constexpr auto kPlanning = Gate::CallKind::kPlanning;

class RecordingStream final : public Abortable {
 public:
  void Abort(const absl::Status& status) override { aborted = status; }
  void EndIfIdleSince(absl::Time since) override { idle_since = since; }
  std::optional<absl::Status> aborted;
  std::optional<absl::Time> idle_since;
};

TEST(GateTest, BoundsStreamsAndCalls) {
  Gate gate({.max_streams = 1, .max_calls = 2, .max_calls_per_client = 2});
  const auto first = std::make_shared<RecordingStream>();
  const auto second = std::make_shared<RecordingStream>();
  EXPECT_THAT(gate.EnterStream("a", first), IsOk());
  EXPECT_THAT(gate.EnterStream("b", second), StatusIs(absl::StatusCode::kResourceExhausted,
                                                      HasSubstr("streams: 1 are open, at most 1")));
  gate.LeaveStream(first.get());
  EXPECT_THAT(gate.EnterStream("b", second), IsOk());
  EXPECT_THAT(gate.EnterCall("a", kQuick), IsOk());
  EXPECT_THAT(gate.EnterCall("a", kQuick), IsOk());
  EXPECT_THAT(gate.EnterCall("a", kQuick), StatusIs(absl::StatusCode::kResourceExhausted,
                                                    HasSubstr("calls: 2 are waiting, at most 2")));
}

TEST(GateTest, AClosedGateLetsNobodyInAndWaitsForThoseInside) {
  Gate gate({});
  const auto stream = std::make_shared<RecordingStream>();
  ASSERT_THAT(gate.EnterStream("a", stream), IsOk());
  gate.Close();
  EXPECT_TRUE(gate.is_closed());
  EXPECT_THAT(gate.EnterCall("a", kQuick),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
  EXPECT_THAT(gate.EnterStream("a", std::make_shared<RecordingStream>()),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
  EXPECT_FALSE(gate.WaitUntilEmpty(absl::InfinitePast()));
  gate.AbortStreams(absl::UnavailableError("late"));
  EXPECT_EQ(stream->aborted, absl::UnavailableError("late"));
  gate.LeaveStream(stream.get());
  EXPECT_TRUE(gate.WaitUntilEmpty(absl::InfinitePast()));
}

// One client never takes the last place: by default it has half of them.
TEST(GateTest, AClientHasItsOwnBounds) {
  Gate gate({.max_streams = 8, .max_calls = 9});
  std::vector<std::shared_ptr<RecordingStream>> streams;
  for (int i = 0; i < 4; ++i) {
    streams.push_back(std::make_shared<RecordingStream>());
    ASSERT_THAT(gate.EnterStream("10.0.0.1", streams.back()), IsOk());
    ASSERT_THAT(gate.EnterCall("10.0.0.1", kQuick), IsOk());
  }
  const auto other = std::make_shared<RecordingStream>();
  EXPECT_THAT(gate.EnterStream("10.0.0.1", other),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("client '10.0.0.1' has 4, at most 4"),
                             HasSubstr("--max-streams-per-client"))));
  EXPECT_THAT(gate.EnterCall("10.0.0.1", kQuick),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       AllOf(HasSubstr("client '10.0.0.1' has 4, at most 4"),
                             HasSubstr("--max-calls-per-client"))));
  EXPECT_THAT(gate.EnterStream("10.0.0.2", other), IsOk());
  EXPECT_THAT(gate.EnterCall("10.0.0.2", kQuick), IsOk());
  // A call that leaves makes room for calls of its own client.
  gate.LeaveStream(streams.back().get());
  gate.LeaveCall("10.0.0.1", kQuick);
  EXPECT_THAT(gate.EnterStream("10.0.0.1", streams.back()), IsOk());
  EXPECT_THAT(gate.EnterCall("10.0.0.1", kQuick), IsOk());
}

// However many plan, half of all calls and of each client's are for those that do not.
TEST(GateTest, CallsThatPlanLeaveRoomForOthers) {
  Gate gate({.max_calls = 6, .max_calls_per_client = 4});
  ASSERT_THAT(gate.EnterCall("a", kPlanning), IsOk());
  ASSERT_THAT(gate.EnterCall("a", kPlanning), IsOk());
  EXPECT_THAT(gate.EnterCall("a", kPlanning),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("calls that plan: client 'a' has 2, at most 2")));
  EXPECT_THAT(gate.EnterCall("a", kQuick), IsOk());
  ASSERT_THAT(gate.EnterCall("b", kPlanning), IsOk());
  EXPECT_THAT(gate.EnterCall("b", kPlanning),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("calls that plan: 3 are waiting, at most 3")));
  EXPECT_THAT(gate.EnterCall("b", kQuick), IsOk());
  gate.LeaveCall("a", kPlanning);
  EXPECT_THAT(gate.EnterCall("b", kPlanning), IsOk());
}

// A refused stream leaves, too, and takes nobody's place with it.
TEST(GateTest, ARefusedStreamLeavesNothing) {
  Gate gate({.max_streams = 2});
  const auto stream = std::make_shared<RecordingStream>();
  const auto refused = std::make_shared<RecordingStream>();
  ASSERT_THAT(gate.EnterStream("a", stream), IsOk());
  ASSERT_THAT(gate.EnterStream("a", refused),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  gate.LeaveStream(refused.get());
  EXPECT_THAT(gate.EnterStream("a", refused),
              StatusIs(absl::StatusCode::kResourceExhausted, ::testing::_));
  gate.LeaveStream(stream.get());
  EXPECT_THAT(gate.EnterStream("a", refused), IsOk());
}

TEST(GateTest, AsksEveryOpenStreamWhetherItIsIdle) {
  Gate gate({});
  const auto open = std::make_shared<RecordingStream>();
  const auto left = std::make_shared<RecordingStream>();
  ASSERT_THAT(gate.EnterStream("a", open), IsOk());
  ASSERT_THAT(gate.EnterStream("a", left), IsOk());
  gate.LeaveStream(left.get());
  const absl::Time since = absl::UnixEpoch() + absl::Hours(1);
  gate.EndIdleStreams(since);
  EXPECT_EQ(open->idle_since, since);
  EXPECT_EQ(left->idle_since, std::nullopt);
}

// A client that sends headers and no request is neither a call nor a stream yet.
TEST(GateTest, CallsWhoseRequestsHaveNotComeEndAsStreamsDo) {
  Gate gate({.max_streams = 1, .max_calls = 1});
  const auto call = std::make_shared<RecordingStream>();
  ASSERT_THAT(gate.EnterWaiting(call), IsOk());
  EXPECT_THAT(gate.EnterCall("a", kQuick), IsOk());
  gate.LeaveCall("a", kQuick);
  gate.EndIdleStreams(absl::UnixEpoch());
  EXPECT_EQ(call->idle_since, absl::UnixEpoch());
  gate.Close();
  EXPECT_FALSE(gate.WaitUntilEmpty(absl::InfinitePast()));
  gate.AbortStreams(absl::UnavailableError("late"));
  EXPECT_EQ(call->aborted, absl::UnavailableError("late"));
  gate.LeaveWaiting(call.get());
  EXPECT_TRUE(gate.WaitUntilEmpty(absl::InfinitePast()));
  EXPECT_THAT(gate.EnterWaiting(call),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("draining")));
}

}  // namespace
}  // namespace packhouse
