// What a server's pools do for its jobs.
#include "service/server/services/served_jobs.h"

#include <memory>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/memory_budget.h"
#include "service/server/services/server_options.h"
#include "service/server/services/server_pools.h"
#include "tests/epochs/dataset_worlds.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse::rpc {
namespace {

TEST(ServedJobsTest, TheNextEpochOfAJobIsMadeReadyMeanwhile) {
  DatasetWorld dataset(60);
  dataset.Seal();
  FailingLog log;
  LogsOfJobs logs(&log);
  SimulatedClock clock;
  MemoryBudget budget(uint64_t{64} << 20);
  ServerOptions options;
  options.job_logs = &logs;
  ServerPools pools(options, /*quotas_of=*/nullptr, &clock);
  PH_ASSERT_OK_AND_ASSIGN(const auto served,
                          ServedJobs::Open(options, &clock, &dataset.store(), &budget));
  served->StartOn(pools);
  const auto load = [&](uint64_t epoch, const Cancellation& cancellation) {
    JoinRequest join;
    join.sharing = Sharing::Ranked(1);
    return served->loader()->Load(
        served->jobs()->Open("job").value().job, DatasetWorld::Request({24, 30, 6}, epoch),
        std::move(join), 4, [] {}, cancellation);
  };
  const auto always = [] { return true; };
  PH_ASSERT_OK_AND_ASSIGN(const auto first, load(0, {}));
  for (uint64_t epoch = 1; epoch < 4; ++epoch) {
    served->loader()->AwaitBackground();
    // What is ready is given to whoever asks.
    EXPECT_THAT(load(epoch, always), IsOk());
  }
  EXPECT_THAT(load(7, always), StatusIs(absl::StatusCode::kCancelled, ::testing::_));
}

}  // namespace
}  // namespace packhouse::rpc
