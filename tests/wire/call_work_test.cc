// What calls do by handlers and sources, with all the threads that they have in a server.
#include "service/server/calls/call_work.h"

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/histogram.pb.h"
#include "service/server/calls/source_call.h"
#include "tests/support/status_matchers.h"
#include "tests/wire/call_stage.h"
#include "tests/wire/call_threads.h"
#include "tests/wire/scripted_call.h"

namespace packhouse {
namespace {

using ::testing::_;
using Request = v1::ObserveRequest;
using Response = v1::ObserveResponse;

Response Numbered(uint64_t number) {
  Response response;
  response.set_num_graphs(number);
  return response;
}

uint64_t NumberOf(const std::string& bytes) {
  Response response;
  EXPECT_TRUE(response.ParseFromString(bytes));
  return response.num_graphs();
}

// Answers each request with the number of its tables.
class CountingHandler final : public StreamHandler<Request, Response> {
 public:
  absl::Status Accept(std::unique_ptr<Request> request) override {
    response_ = Numbered(static_cast<uint64_t>(request->components_size()));
    return absl::OkStatus();
  }
  void HalfClose() override {}
  absl::StatusOr<std::optional<Response>> Next() override {
    return std::exchange(response_, std::nullopt);
  }

 private:
  std::optional<Response> response_;
};

// Opens by its first request, for which it waits.
class OpeningHandler final : public StreamHandler<Request, Response> {
 public:
  bool OpensOnStore(const Request& /*request*/) const override { return !is_open_; }
  absl::Status Accept(std::unique_ptr<Request> request) override {
    is_open_ = true;
    if (request->components_size() == 0) return absl::NotFoundError("no such thing");
    response_ = Numbered(static_cast<uint64_t>(request->components_size()));
    return absl::OkStatus();
  }
  void HalfClose() override {}
  absl::StatusOr<std::optional<Response>> Next() override {
    return std::exchange(response_, std::nullopt);
  }

 private:
  bool is_open_ = false;
  std::optional<Response> response_;
};

std::unique_ptr<CallWork> OpeningWork(const Stage& stage) {
  CallContext context = stage.call->context();
  context.max_response_bytes = 1 << 20;
  return std::make_unique<StreamWork<Request, Response>>(context,
                                                         std::make_unique<OpeningHandler>());
}

TEST(CallWorkTest, AStreamIsOnTheOpeningPoolUntilItIsOpen) {
  Stage stage;
  Request request;
  request.add_components("nodes");
  ASSERT_TRUE(stage.call->Enter());
  stage.call->Begin(OpeningWork(stage));
  stage.Read(request.SerializeAsString());
  stage.RunAll();
  EXPECT_THAT(stage.link.sent(), ::testing::IsEmpty());
  ASSERT_FALSE(stage.opening_pool.empty());
  // The next request may have come meanwhile: it is not for this pool.
  stage.Read(request.SerializeAsString());
  stage.opening_pool.RunOne();
  EXPECT_THAT(stage.link.sent(), ::testing::SizeIs(1));
  EXPECT_TRUE(stage.opening_pool.empty());
  stage.Write();
  stage.RunAll();
  EXPECT_THAT(stage.link.sent(), ::testing::SizeIs(2));
  stage.Write();
  ASSERT_TRUE(stage.link.EndRead());
  stage.call->OnRead(nullptr);
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status, IsOk());
  EXPECT_TRUE(stage.opening_pool.empty());
  stage.Done();
}

TEST(CallWorkTest, WhatTheServerLacksIsSaidOfTheFirstRequest) {
  Stage stage;
  CallContext context = stage.call->context();
  context.max_response_bytes = 1 << 20;
  ASSERT_TRUE(stage.call->Enter());
  stage.call->Begin(std::make_unique<StreamWork<Request, Response>>(
      context, std::make_unique<CountingHandler>(), absl::FailedPreconditionError("no folder")));
  stage.RunAll();
  EXPECT_FALSE(stage.link.state().status);
  stage.Read(Request().SerializeAsString());
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status,
              StatusIs(absl::StatusCode::kFailedPrecondition, "no folder"));
  EXPECT_THAT(stage.link.sent(), ::testing::IsEmpty());
  stage.Done();
}

TEST(CallWorkTest, AStreamThatCannotBeOpenedEnds) {
  Stage stage;
  ASSERT_TRUE(stage.call->Enter());
  stage.call->Begin(OpeningWork(stage));
  stage.Read("");
  stage.RunAll();
  ASSERT_FALSE(stage.opening_pool.empty());
  stage.opening_pool.RunOne();
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kNotFound, "no such thing"));
  stage.Done();
}

// Nothing is waited for if the client is gone by then.
TEST(CallWorkTest, AStreamThatIsCancelledBeforeItOpensDoesNotOpen) {
  Stage stage;
  ASSERT_TRUE(stage.call->Enter());
  stage.call->Begin(OpeningWork(stage));
  stage.Read("");
  stage.RunAll();
  stage.call->OnCancel();
  ASSERT_FALSE(stage.opening_pool.empty());
  stage.opening_pool.RunOne();
  stage.RunAll();
  EXPECT_THAT(*stage.link.state().status, StatusIs(absl::StatusCode::kCancelled, _));
  stage.Done();
}

// Their messages are held of one budget, in which there is not room for all: each waits for the
// others, and goes on.
TEST(CallWorkTest, RequestsOfStreamsShareTheirMemory) {
  Calls calls;
  std::atomic<int> num_requests = 0;
  SideBySide(4, [&](int) {
    constexpr int kRequests = 50;
    ScriptedLink link;
    auto call = std::make_shared<StreamingCall>(calls.Context(), Method::kObserve, &link);
    ASSERT_TRUE(call->Enter());
    call->Begin(std::make_unique<StreamWork<Request, Response>>(
        calls.Context(), std::make_unique<CountingHandler>()));
    int sent = 0;
    calls.Serve(*call, link, /*cancels=*/false, [&]() -> std::unique_ptr<RequestBytes> {
      if (sent == kRequests) return nullptr;
      Request request;
      for (int i = 0; i < 100 + sent; ++i) request.add_components(std::string(20, 'c'));
      ++sent;
      return std::make_unique<TextRequest>(request.SerializeAsString(), &num_requests);
    });
    EXPECT_THAT(*link.state().status, IsOk());
    const std::vector<std::string> sent_back = link.sent();
    ASSERT_EQ(sent_back.size(), kRequests);
    for (uint64_t i = 0; i < kRequests; ++i) EXPECT_EQ(NumberOf(sent_back[i]), 100 + i);
  });
  EXPECT_EQ(num_requests, 0);
}

TEST(CallWorkTest, BytesThatAreNoMessageEndTheStream) {
  Calls calls;
  std::atomic<int> num_requests = 0;
  ScriptedLink link;
  auto call = std::make_shared<StreamingCall>(calls.Context(), Method::kObserve, &link);
  ASSERT_TRUE(call->Enter());
  call->Begin(std::make_unique<StreamWork<Request, Response>>(calls.Context(),
                                                              std::make_unique<CountingHandler>()));
  calls.Serve(*call, link, /*cancels=*/false,
              [&] { return std::make_unique<TextRequest>("\xff\xff", &num_requests); });
  EXPECT_THAT(*link.state().status, StatusIs(absl::StatusCode::kInvalidArgument,
                                             ::testing::HasSubstr("truncated or malformed")));
}

// Gives what has been produced, and is woken for more.
struct Production {
  std::atomic<uint64_t> produced = 0;
  std::atomic<bool> is_complete = false;
};
class ProducedSource final : public ResponseSource<Response> {
 public:
  explicit ProducedSource(std::shared_ptr<Production> production)
      : production_(std::move(production)) {}

  absl::StatusOr<std::optional<Response>> Next() override {
    is_waiting_ = !production_->is_complete;
    if (given_ == production_->produced) return std::nullopt;
    return Numbered(given_++);
  }
  bool IsWaiting() const override { return is_waiting_; }

 private:
  const std::shared_ptr<Production> production_;
  uint64_t given_ = 0;
  bool is_waiting_ = true;
};

constexpr uint64_t kProgress = 1'000'000;

// Progress first, the latest in any case; then each response once, in order; or an end, if the
// client cancels while the request is planned or answered.
TEST(CallWorkTest, ASourceIsMadeByAJobAndEmptied) {
  for (int round = 0; round < 6; ++round) {
    Calls calls;
    std::atomic<int> num_requests = 0;
    SideBySide(4, [&](int i) {
      constexpr uint64_t kReports = 20;
      constexpr uint64_t kResponses = 1000;
      const bool cancels = i == 3;
      const auto production = std::make_shared<Production>();
      std::optional<std::thread> producer;
      const auto work = [&](const Request&, ProgressSink<Response>& sink)
          -> absl::StatusOr<std::unique_ptr<ResponseSource<Response>>> {
        for (uint64_t report = 0; report < kReports; ++report) {
          sink.Report(Numbered(kProgress + report));
          if (sink.YieldTurn()) return absl::CancelledError("given up");
        }
        producer.emplace([production, wake = sink.Waker()] {
          while (production->produced < kResponses) {
            ++production->produced;
            wake();
          }
          production->is_complete = true;
          wake();
        });
        return std::make_unique<ProducedSource>(production);
      };
      const auto planned = [&](const Request& request, ProgressSink<Response>& sink)
          -> absl::StatusOr<std::unique_ptr<ResponseSource<Response>>> {
        if (sink.call().is_trial()) return absl::CancelledError("not at once");
        return work(request, sink);
      };
      ScriptedLink link;
      const MethodRow row =
          Row(Method::kTune, i % 2 == 0 ? Waits::kPlansUnlessReady : Waits::kPlans, planned);
      NoHeaders headers;
      auto call = SourceCall::Start(calls.Context(), row, &link, headers);
      calls.Serve(*call, link, cancels, [&] {
        return std::make_unique<TextRequest>(Request().SerializeAsString(), &num_requests);
      });
      call.reset();
      if (producer) producer->join();

      const ScriptedLink::State state = link.state();
      if (cancels && !state.status->ok()) {
        EXPECT_THAT(*state.status, StatusIs(absl::StatusCode::kCancelled, _));
        return;
      }
      EXPECT_THAT(*state.status, IsOk());
      uint64_t last_progress = 0;
      uint64_t next = 0;
      for (const std::string& bytes : link.sent()) {
        const uint64_t number = NumberOf(bytes);
        if (number >= kProgress) {
          EXPECT_EQ(next, 0U) << "progress after the first response";
          EXPECT_GT(number, last_progress);
          last_progress = number;
        } else {
          ASSERT_EQ(number, next++);
        }
      }
      EXPECT_EQ(last_progress, kProgress + kReports - 1);
      EXPECT_EQ(next, kResponses);
    });
    EXPECT_EQ(num_requests, 0);
  }
}

}  // namespace
}  // namespace packhouse
