// Acknowledgements, whatever becomes of the calls that send them.
#include "client/cpp/acknowledger.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Keeps what is sent; a call waits while the door is shut, and then fails as often as was said.
class SentCalls {
 public:
  absl::StatusOr<v1::AcknowledgeResponse> Take(const v1::AcknowledgeRequest& request) {
    const absl::MutexLock lock(&mutex_);
    requests_.push_back(request);
    mutex_.Await(absl::Condition(&is_open_));
    if (num_failures_ != 0) {
      --num_failures_;
      return failure_;
    }
    v1::AcknowledgeResponse response;
    response.set_cursor(absl::StrCat("cursor ", requests_.size()));
    return response;
  }
  void Shut() { Set(is_open_, false); }
  void Open() { Set(is_open_, true); }
  void Fail(int times, absl::Status how) {
    const absl::MutexLock lock(&mutex_);
    num_failures_ = times;
    failure_ = std::move(how);
  }
  void AwaitCall(size_t number) {
    const absl::MutexLock lock(&mutex_);
    const auto has_come = [this, number]()
                              ABSL_NO_THREAD_SAFETY_ANALYSIS { return requests_.size() >= number; };
    mutex_.Await(absl::Condition(&has_come));
  }
  std::vector<v1::AcknowledgeRequest> requests() const {
    const absl::MutexLock lock(&mutex_);
    return requests_;
  }
  // The batches of each call.
  std::vector<std::vector<uint64_t>> batches() const {
    std::vector<std::vector<uint64_t>> batches;
    for (const v1::AcknowledgeRequest& request : requests()) {
      batches.emplace_back(request.batches().begin(), request.batches().end());
    }
    return batches;
  }

 private:
  void Set(bool& what, bool value) {
    const absl::MutexLock lock(&mutex_);
    what = value;
  }

  mutable absl::Mutex mutex_;
  std::vector<v1::AcknowledgeRequest> requests_ ABSL_GUARDED_BY(mutex_);
  bool is_open_ ABSL_GUARDED_BY(mutex_) = true;
  int num_failures_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

class AcknowledgerTest : public testing::Test {
 protected:
  std::unique_ptr<Acknowledger> Make(absl::Duration patience = absl::ZeroDuration(),
                                     size_t gather = 100) {
    RetryOptions retry;
    retry.patience = patience;
    retry.first_wait = absl::Milliseconds(1);
    retry.connect_timeout = absl::ZeroDuration();
    return std::make_unique<Acknowledger>(
        MakeChannel("127.0.0.1:1"),
        [this](const v1::AcknowledgeRequest& request) { return calls_.Take(request); },
        Acknowledger::Options{"job", gather, retry, [this] {
                                const absl::MutexLock lock(&mutex_);
                                ++num_told_;
                              }});
  }
  static BatchLease Lease(uint64_t batch) { return {5, 3, 4, batch}; }
  void AwaitTold(int times) {
    const absl::MutexLock lock(&mutex_);
    const auto is_told = [this, times]()
                             ABSL_NO_THREAD_SAFETY_ANALYSIS { return num_told_ >= times; };
    mutex_.Await(absl::Condition(&is_told));
    EXPECT_EQ(std::exchange(num_told_, 0), times);
  }

  SentCalls calls_;
  absl::Mutex mutex_;
  int num_told_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What comes while a call is under way goes by the next; of one epoch, generation and session.
TEST_F(AcknowledgerTest, EachCallHasAllThatGatheredForOneSession) {
  const auto acknowledger = Make();
  EXPECT_EQ(acknowledger->cursor(), "");
  calls_.Shut();
  ASSERT_THAT(acknowledger->Add({5, 3, 4, 0}), IsOk());
  calls_.AwaitCall(1);
  for (const BatchLease& lease : {BatchLease{5, 3, 4, 1},
                                  {5, 3, 4, 2},
                                  {5, 3, 6, 3},
                                  {5, 7, 6, 4},
                                  {8, 7, 6, 5},
                                  {8, 7, 6, 6}}) {
    ASSERT_THAT(acknowledger->Add(lease), IsOk());
  }
  calls_.Open();
  ASSERT_THAT(acknowledger->Flush(), IsOk());
  EXPECT_EQ(acknowledger->cursor(), "cursor 5");
  EXPECT_THAT(calls_.batches(), ElementsAre(ElementsAre(0), ElementsAre(1, 2), ElementsAre(3),
                                            ElementsAre(4), ElementsAre(5, 6)));
  const auto requests = calls_.requests();
  const std::vector<std::vector<uint64_t>> sessions = {
      {5, 3, 4}, {5, 3, 4}, {5, 3, 6}, {5, 7, 6}, {8, 7, 6}};
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(requests[i].job(), "job");
    EXPECT_EQ((std::vector<uint64_t>{requests[i].epoch(), requests[i].generation(),
                                     requests[i].session()}),
              sessions[i]);
  }
}

TEST_F(AcknowledgerTest, ACallHasAtMostAsManyAsAServerTakes) {
  constexpr uint64_t kMost = 65536;
  const auto acknowledger = Make();
  calls_.Shut();
  ASSERT_THAT(acknowledger->Add(Lease(0)), IsOk());
  calls_.AwaitCall(1);
  for (uint64_t batch = 1; batch <= kMost + 1; ++batch) {
    ASSERT_THAT(acknowledger->Add(Lease(batch)), IsOk());
  }
  calls_.Open();
  ASSERT_THAT(acknowledger->Flush(), IsOk());
  EXPECT_THAT(calls_.batches(), ElementsAre(ElementsAre(0), SizeIs(kMost), ElementsAre(kMost + 1)));
}

// Whoever asks first gets the error, once; then sending goes on, with all and in order.
TEST_F(AcknowledgerTest, AnErrorIsToldOnceAndWhatWasNotSentIsSentAgain) {
  const auto refused = absl::FailedPreconditionError("generation 4");
  using Ask = absl::Status (*)(Acknowledger&);
  for (const Ask ask : {Ask([](Acknowledger& of) { return of.Check(); }),
                        Ask([](Acknowledger& of) { return of.Flush(); }),
                        Ask([](Acknowledger& of) { return of.Add(Lease(99)); })}) {
    const size_t before = calls_.requests().size();
    const auto acknowledger = Make();
    calls_.Shut();
    calls_.Fail(1, refused);
    ASSERT_THAT(acknowledger->Add(Lease(0)), IsOk());
    calls_.AwaitCall(before + 1);
    ASSERT_THAT(acknowledger->Add(Lease(1)), IsOk());
    calls_.Open();
    AwaitTold(1);
    // Nothing is sent meanwhile.
    EXPECT_THAT(calls_.requests(), SizeIs(before + 1));
    EXPECT_EQ(ask(*acknowledger), refused);
    EXPECT_THAT(acknowledger->Check(), IsOk());
    ASSERT_THAT(acknowledger->Add(Lease(2)), IsOk());
    EXPECT_THAT(acknowledger->Flush(), IsOk());
    std::vector<uint64_t> again;
    const auto batches = calls_.batches();
    for (size_t i = before + 1; i < batches.size(); ++i) {
      again.insert(again.end(), batches[i].begin(), batches[i].end());
    }
    EXPECT_THAT(again, ElementsAre(0, 1, 2));
  }
}

TEST_F(AcknowledgerTest, AServerThatIsAwayIsWaitedFor) {
  const auto acknowledger = Make(absl::Hours(1));
  calls_.Fail(3, absl::UnavailableError("away"));
  ASSERT_THAT(acknowledger->Add(Lease(0)), IsOk());
  EXPECT_THAT(acknowledger->Flush(), IsOk());
  EXPECT_THAT(calls_.batches(),
              ElementsAre(ElementsAre(0), ElementsAre(0), ElementsAre(0), ElementsAre(0)));
  EXPECT_EQ(acknowledger->cursor(), "cursor 4");
  const absl::MutexLock lock(&mutex_);
  EXPECT_EQ(num_told_, 0);
}

// As when a state is loaded: calls of before count no more, however they end.
TEST_F(AcknowledgerTest, AfterAResetNothingOfBeforeIsLeft) {
  for (const bool fails : {false, true}) {
    const size_t before = calls_.requests().size();
    const auto acknowledger = Make();
    calls_.Shut();
    if (fails) calls_.Fail(1, absl::FailedPreconditionError("generation 4"));
    ASSERT_THAT(acknowledger->Add(Lease(0)), IsOk());
    calls_.AwaitCall(before + 1);
    ASSERT_THAT(acknowledger->Add(Lease(1)), IsOk());
    acknowledger->Reset();
    calls_.Open();
    EXPECT_THAT(acknowledger->Flush(), IsOk());
    EXPECT_EQ(acknowledger->cursor(), "");
    ASSERT_THAT(acknowledger->Add(Lease(7)), IsOk());
    EXPECT_THAT(acknowledger->Flush(), IsOk());
    EXPECT_THAT(calls_.batches().back(), ElementsAre(7));
    EXPECT_THAT(calls_.requests(), SizeIs(before + 2));
  }
  // Nor an error that nobody was told.
  const auto acknowledger = Make();
  calls_.Fail(1, absl::FailedPreconditionError("generation 4"));
  ASSERT_THAT(acknowledger->Add(Lease(0)), IsOk());
  AwaitTold(1);
  acknowledger->Reset();
  EXPECT_THAT(acknowledger->Check(), IsOk());
  EXPECT_THAT(acknowledger->Flush(), IsOk());
}

// While it is destroyed, what waits is sent once more, and no server is waited for.
TEST_F(AcknowledgerTest, TheLastAreSentAtTheEnd) {
  for (const bool is_away : {false, true}) {
    const size_t before = calls_.requests().size();
    auto acknowledger = Make(is_away ? absl::InfiniteDuration() : absl::ZeroDuration());
    calls_.Shut();
    ASSERT_THAT(acknowledger->Add(Lease(0)), IsOk());
    calls_.AwaitCall(before + 1);
    ASSERT_THAT(acknowledger->Add(Lease(1)), IsOk());
    if (is_away) calls_.Fail(1'000'000, absl::UnavailableError("away"));
    calls_.Open();
    acknowledger = nullptr;
    EXPECT_THAT(calls_.batches().back(), is_away ? ElementsAre(0) : ElementsAre(1));
    calls_.Fail(0, absl::OkStatus());
  }
}

}  // namespace
}  // namespace packhouse::client
