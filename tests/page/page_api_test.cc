#include "service/wings/page/page_api.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "service/access/authorizer.h"
#include "tests/support/simulated_clock.h"

namespace packhouse::page {
namespace {

// A server that has handed out another batch each time it is read.
class ReadServer {
 public:
  ServerReading Read() {
    const absl::MutexLock lock(&mutex_);
    ServerReading reading;
    reading.served.batches = ++num_reads_;
    return reading;
  }
  void AwaitReads(uint64_t count) {
    const absl::MutexLock lock(&mutex_);
    const auto is_read = [this, count]()
                             ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return num_reads_ >= count; };
    mutex_.Await(absl::Condition(&is_read));
  }

 private:
  absl::Mutex mutex_;
  uint64_t num_reads_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Nothing is to be called at once: it would be called for ever.
class PatientClock final : public Clock {
 public:
  absl::Time Now() const override { return clock_.Now(); }
  void CallAt(absl::Time time, std::function<void()> callback) override {
    EXPECT_GT(time, Now());
    clock_.CallAt(time, std::move(callback));
  }
  void Advance(absl::Duration duration) { clock_.Advance(duration); }

 private:
  SimulatedClock clock_;
};

TEST(PageApiTest, TheCurveGrowsByASampleEachInterval) {
  PatientClock clock;
  ReadServer server;
  PageSources sources;
  sources.clock = &clock;
  sources.reading = [&] { return server.Read(); };
  PageApi api(sources);
  for (uint64_t samples = 1; samples <= 5; ++samples) {
    server.AwaitReads(samples);
    clock.Advance(History::kInterval);
  }
}

// A server that cannot be asked.
class DeafCalls final : public PageCalls {
 public:
  absl::Status Call(const std::string& /*method*/, const Viewer& /*viewer*/,
                    const google::protobuf::Message& /*request*/,
                    google::protobuf::Message& /*response*/, StopSwitch& /*stop*/) override {
    return absl::UnavailableError("deaf");
  }
  absl::Status CallStreaming(const std::string& /*method*/, const Viewer& /*viewer*/,
                             const google::protobuf::Message& /*request*/,
                             absl::FunctionRef<absl::Status(const std::string& response)> /*take*/,
                             StopSwitch& /*stop*/) override {
    return absl::UnavailableError("deaf");
  }
};

TEST(PageApiTest, EveryPathIsAQuestion) {
  PatientClock clock;
  DeafCalls calls;
  PageSources sources;
  sources.clock = &clock;
  sources.calls = &calls;
  sources.reading = [] { return ServerReading(); };
  sources.state = [] { return ServerState(); };
  sources.quotas = [] { return std::vector<QuotaReading>(); };
  sources.watch_job = [](const std::string& /*job*/) { return std::vector<EpochWatch>(); };
  PageApi api(sources);
  std::vector<std::string> paths = PageApi::Paths();
  paths.push_back("/api/other");
  for (const std::string& path : paths) {
    PageAnswer answer = {202, ""};
    while (answer.status == 202) {
      std::this_thread::yield();
      answer = api.Answer(path, "view=a", {});
    }
    EXPECT_EQ(absl::StrContains(answer.body, "no such question"), path == "/api/other")
        << path << ": " << answer.body;
  }
}

TEST(PageApiTest, AnswersAreWhatWasReadOrWhyNot) {
  PatientClock clock;
  DeafCalls calls;
  ServerState state;
  state.version = "1.2";
  const Authorizer authorizer(
      std::make_shared<const Policy>(*Policy::Create({{{"friend"}, Role::kViewer, {"team"}}}, {})));
  PageSources sources;
  sources.clock = &clock;
  sources.calls = &calls;
  sources.authorizer = &authorizer;
  sources.reading = [] {
    ServerReading reading;
    reading.num_connections = 7;
    return reading;
  };
  sources.state = [&] { return state; };
  PageApi api(sources);
  const auto ask = [&](const char* path, const char* query, const char* viewer = "friend") {
    const PageAnswer answer = api.Answer(path, query, {viewer});
    return std::pair(answer.status, answer.body);
  };
  EXPECT_EQ(ask("/api/state", ""), std::pair(200, JsonText(StateJson(state))));
  const auto [status, overview] = ask("/api/overview", "");
  EXPECT_EQ(status, 200);
  EXPECT_TRUE(absl::StrContains(overview, R"("connections":{"open":7)")) << overview;
  for (const char* const path : {"/api/state", "/api/overview", "/api/jobs"}) {
    EXPECT_EQ(ask(path, "", "stranger"),
              std::pair(403, std::string(R"({"code":"PERMISSION_DENIED","error":"the server's )"
                                         R"(policy gives principal 'stranger' no right 'view' in )"
                                         R"(any namespace"})")));
  }
  const auto malformed = ask("/api/jobs", "a=%");
  EXPECT_EQ(malformed.first, 200);
  EXPECT_TRUE(absl::StartsWith(malformed.second, R"({"code":"INVALID_ARGUMENT","error":"query: )"))
      << malformed.second;
  auto answer = ask("/api/jobs", "view=a");
  EXPECT_EQ(answer, std::pair(202, std::string("{}")));
  while (answer.first == 202) {
    std::this_thread::yield();
    answer = ask("/api/jobs", "view=a");
  }
  EXPECT_EQ(answer, std::pair(200, std::string(R"({"code":"UNAVAILABLE","error":"deaf"})")));
}

// A question is worked on after the samples that wait when it comes.
TEST(PageApiTest, WhileThreadsWorkOneSampleWaitsForThem) {
  PatientClock clock;
  absl::Notification begun;
  absl::Notification go_on;
  std::atomic<int> num_reads = 0;
  PageSources sources;
  sources.clock = &clock;
  sources.reading = [&] {
    if (++num_reads == 1) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return ServerReading();
  };
  PageJobs::Bounds bounds;
  bounds.num_threads = 1;
  PageApi api(sources, bounds);
  begun.WaitForNotification();
  for (int i = 0; i < 5; ++i) clock.Advance(History::kInterval);
  go_on.Notify();
  while (api.Answer("/api/other", "view=a", {}).status == 202) std::this_thread::yield();
  EXPECT_EQ(num_reads.load(), 2);
}

}  // namespace
}  // namespace packhouse::page
