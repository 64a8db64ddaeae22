// A streaming call against a model: whatever happens to it, in whatever order, also while its work
// is being asked, it keeps its laws.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "service/server/calls/streaming_call.h"
#include "tests/support/random.h"
#include "tests/wire/call_stage.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {
namespace {

class Model {
 public:
  explicit Model(uint64_t seed)
      : random_(seed), stage_(seed % 5 == 0 ? 2 * kLarge : uint64_t{64} << 20) {
    Script& script = stage_.script;
    script.seed = seed;
    script.takes_requests = Often(50);
    script.may_block = Often(30);
    script.max_bytes = Often(50) ? kLarge : 1 + random_.Below(20'000);
    script.meanwhile = [this] { Meanwhile(); };
    script.busy = Often(30) ? 50 : 0;
    script.no_room = Often(30) ? 50 : 0;
    script.plans = Often(30) ? 30 : 0;
    script.error = Often(20) ? 3 : 0;
    script.no_memory = Often(20) ? 3 : 0;
    stops_ = Often(40);
    write_percent_ = Often(50) ? 10 : 80;
  }

  void Run() {
    ASSERT_TRUE(stage_.call->Enter());
    for (int i = 0; i < 300 && !::testing::Test::HasFailure(); ++i) {
      Happen();
      CheckAtRest();
    }
    // Whatever it has come to, it ends if the client reads and sends no more.
    stops_ = false;
    write_percent_ = 100;
    requests_left_ = 0;
    is_ending_ = true;
    for (int i = 0; i < 100'000 && !stage_.link.state().status; ++i) {
      Happen();
      CheckAtRest();
      if (::testing::Test::HasFailure()) return;
    }
    CheckEnd();
    stage_.Done();
    EXPECT_TRUE(stage_.script.is_gone);
  }

 private:
  static constexpr size_t kLarge = 400'000;

  bool Often(uint64_t percent) { return random_.Below(100) < percent; }

  // While the work is being asked, other threads are not idle.
  void Meanwhile() {
    if (is_inside_) return;
    is_inside_ = true;
    while (Often(40)) Happen();
    is_inside_ = false;
  }

  void Happen() {
    const uint64_t what = random_.Below(16);
    switch (what) {
      case 0:
        if (begun_) break;
        begun_ = true;
        stage_.Begin();
        break;
      case 1:
      case 2:
      case 3:
        if (!is_inside_ && !stage_.pool.empty()) stage_.pool.RunOne();
        break;
      case 4:
      case 5:
        Read();
        break;
      case 6:
      case 7:
      case 8:
        if (Often(write_percent_) && stage_.link.EndWrite()) Written(!stops_ || !Often(2));
        break;
      default:
        HappenAround(what);
    }
    const auto most = static_cast<int64_t>(stage_.script.max_bytes + 20);
    EXPECT_LE(stage_.observer.bytes(),
              most + std::max(2 * most, static_cast<int64_t>(Outbox::kFullBytes) + most));
  }

  // By others than the client.
  void HappenAround(uint64_t what) {
    StreamingCall& call = *stage_.call;
    Script& script = stage_.script;
    switch (what) {
      case 9:
        // A plan is made.
        if (script.is_planning.exchange(false)) call.Wake();
        if (script.takes_requests || script.is_complete) break;
        script.produced += random_.Below(40);
        if (is_ending_) script.is_complete = true;
        call.Wake();
        break;
      case 10:
        stage_.clock.Advance(
            absl::Microseconds(random_.Below(is_ending_ || Often(20) ? 20'000 : 200)));
        break;
      case 11:
        if (stops_ && Often(5)) stage_.clock.Advance(absl::Seconds(11));
        break;
      case 12:
        if (!stops_ || !Often(5)) break;
        is_stopped_ |= !stage_.link.state().status;
        if (Often(50)) {
          call.OnCancel();
        } else {
          stage_.gate.AbortStreams(absl::UnavailableError("draining"));
        }
        break;
      case 13:
        if (!stops_ || !Often(5)) break;
        may_be_idle_ = true;
        stage_.gate.EndIdleStreams(stage_.clock.Now());
        break;
      case 14:
        if (!stage_.link.EndCancel()) break;
        is_stopped_ = true;
        call.OnCancel();
        if (stage_.link.EndWrite()) Written(false);
        break;
      default:
        call.Wake();
        break;
    }
  }

  void Read() {
    if (!stage_.link.EndRead()) return;
    EXPECT_FALSE(is_half_closed_) << "a read after the last request";
    if (requests_left_ == 0) {
      is_half_closed_ = true;
      stage_.call->OnRead(nullptr);
      return;
    }
    --requests_left_;
    ++received_;
    std::string text = absl::StrCat(random_.Below(Often(50) ? 3 : 60));
    if (Often(20)) absl::StrAppend(&text, " ", random_.Below(5));
    stage_.call->OnRead(std::make_unique<TextRequest>(text, &stage_.num_requests));
  }

  void Written(bool ok) {
    if (!ok) is_stopped_ = true;
    stage_.call->OnWritten(ok);
  }

  // No wake-up is lost: if nobody is at work, there is nothing to do without news.
  void CheckAtRest() {
    const Script& script = stage_.script;
    const ScriptedLink::State link = stage_.link.state();
    if (!begun_ || !stage_.pool.empty() || link.status) return;
    const uint64_t to_give = (script.takes_requests ? script.owed : script.produced) - script.given;
    if (link.is_writing) {
      // While one is on its way, others are made ahead.
      const bool is_ahead = stage_.observer.responses() > 2 || script.max_bytes == kLarge ||
                            script.has_failed || is_stopped_ || script.is_planning;
      EXPECT_TRUE(to_give == 0 || is_ahead) << to_give << " to give";
      return;
    }
    EXPECT_FALSE(is_stopped_) << "not ended";
    EXPECT_EQ(stage_.observer.responses(), 0) << "made and not sent";
    if (script.is_planning) return;
    EXPECT_EQ(to_give, 0U);
    if (!script.takes_requests) {
      EXPECT_FALSE(script.is_complete) << "not ended";
    } else if (script.is_waiting_for_room) {
      EXPECT_EQ(script.accepted + 1 + (link.is_reading ? 0 : 1),
                received_ + (is_half_closed_ ? 1 : 0));
    } else {
      EXPECT_EQ(script.accepted, received_);
      EXPECT_TRUE(link.is_reading);
      EXPECT_GT(script.due, stage_.clock.Now());
    }
  }

  void CheckEnd() {
    const Script& script = stage_.script;
    const ScriptedLink::State link = stage_.link.state();
    ASSERT_TRUE(link.status) << "it does not end";
    const std::vector<std::string> sent = stage_.link.sent();
    for (size_t i = 0; i < sent.size(); ++i) ASSERT_EQ(sent[i], absl::StrCat(i));
    if (!is_stopped_) {
      EXPECT_EQ(sent.size(), script.given);
    }
    if (link.status->ok()) {
      EXPECT_FALSE(script.has_failed);
      EXPECT_FALSE(script.is_planning);
      EXPECT_EQ(script.given, script.takes_requests ? script.owed : script.produced);
      EXPECT_EQ(script.accepted, received_);
      EXPECT_EQ(is_half_closed_, script.takes_requests);
      EXPECT_EQ(script.due, absl::InfiniteFuture());
    } else {
      EXPECT_TRUE(is_stopped_ || may_be_idle_ || script.has_failed || script.no_room != 0)
          << *link.status;
    }
  }

  Random random_;
  Stage stage_;
  bool begun_ = false;
  bool stops_ = false;
  bool is_ending_ = false;
  bool is_inside_ = false;
  uint64_t write_percent_ = 0;
  uint64_t requests_left_ = 20;
  uint64_t received_ = 0;
  bool is_half_closed_ = false;
  bool is_stopped_ = false;
  bool may_be_idle_ = false;
};

TEST(StreamingCallModelTest, KeepsItsLawsWhateverHappens) {
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed=" << seed);
    Model(seed).Run();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace packhouse
