// What the ledger is to remember of a join, and what those are told who may not.
#include "service/engine/jobs/joining.h"

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/jobs/epoch_quota.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::IsEmpty;

constexpr absl::Time kJoined = absl::FromUnixSeconds(7200);

JoinRequest OfRank(uint32_t rank, size_t num_ranks) {
  JoinRequest request;
  request.queue = rank;
  request.sharing = Sharing::Ranked(num_ranks);
  request.now = kJoined;
  return request;
}

// Plans a join that may draw `drawn`, above `above`.
absl::StatusOr<JoinPlan> Planned(const JobLedger& ledger, const EpochIdentity& identity,
                                 const JoinRequest& request, uint64_t drawn = 1,
                                 uint64_t above = 0) {
  return PlanJoin(ledger, identity, request, [&](uint64_t named) {
    EXPECT_EQ(named, above);
    return drawn;
  });
}

void ApplyAll(const std::vector<LedgerEvent>& events, JobLedger& ledger) {
  for (const LedgerEvent& event : events) ASSERT_THAT(ledger.Apply(event), IsOk());
}

TEST(PlanJoinTest, TheFirstWorkerOpensTheEpoch) {
  Random random(1);
  EpochIdentity identity = IdentityOf({6, 8});
  identity.num_windows = 2;
  JoinRequest request;
  request.sharing.rank_group_of_rank = {0, 0, 1};
  request.queue = 1;
  request.reader = {1, 3};
  request.attempt = "first";
  request.client = "10.0.0.1";
  request.words = "words";
  request.windows = {2, 3};
  request.plan = KeepPlan(RandomPlannerResult(random));
  request.now = kJoined;
  JobLedger ledger;
  PH_ASSERT_OK_AND_ASSIGN(const JoinPlan plan, Planned(ledger, identity, request, 5));
  EXPECT_TRUE(plan.opens);
  ASSERT_TRUE(plan.starts.has_value());
  const EpochKey& key = identity.key;
  EXPECT_EQ(
      plan.events,
      (std::vector<LedgerEvent>{
          EpochOpened{identity}, EpochOwned{key, "10.0.0.1"}, EpochWorded{key, "words"},
          EpochPlanned{key, request.plan->digest, request.plan}, WindowsCounted{key, 0, {2, 3}},
          EpochUsed{key, 7200}, GenerationStarted{key, 5, "first", request.sharing, {}},
          WorkerJoined{key, 5, "rank 1 reader 1 of 3"}}));
  // What is not known is not written, nor words that are too long.
  request = OfRank(0, 3);
  request.words = std::string(kMaxWordsBytes + 1, 'x');
  identity = IdentityOf({6});
  PH_ASSERT_OK_AND_ASSIGN(const JoinPlan bare, Planned(ledger, identity, request, 5));
  EXPECT_EQ(bare.events,
            (std::vector<LedgerEvent>{EpochOpened{identity}, EpochUsed{key, 7200},
                                      GenerationStarted{key, 5, "", Sharing::Ranked(3), {}},
                                      WorkerJoined{key, 5, "rank 0"}}));
}

// Each is written once; a use of it about each hour.
TEST(PlanJoinTest, LaterWorkersAddWhatIsNew) {
  Random random(1);
  const auto kept = KeepPlan(RandomPlannerResult(random));
  EpochIdentity identity = IdentityOf({6, 8});
  identity.num_windows = 2;
  const EpochKey& key = identity.key;
  JoinRequest request;
  request.sharing.rank_group_of_rank = {0, 1};
  request.now = kJoined;
  JobLedger ledger;
  PH_ASSERT_OK_AND_ASSIGN(JoinPlan plan, Planned(ledger, identity, request));
  ApplyAll(plan.events, ledger);
  PH_ASSERT_OK_AND_ASSIGN(plan, Planned(ledger, identity, request));
  EXPECT_THAT(plan.events, IsEmpty());
  EXPECT_FALSE(plan.opens);
  EXPECT_FALSE(plan.starts.has_value());
  request.queue = 1;
  request.windows = {2, 3};
  request.plan = kept;
  request.client = "10.0.0.2";
  request.words = "words";
  request.now = kJoined + absl::Hours(1);
  PH_ASSERT_OK_AND_ASSIGN(plan, Planned(ledger, identity, request));
  EXPECT_EQ(plan.events, (std::vector<LedgerEvent>{
                             WindowsCounted{key, 0, {2, 3}}, WorkerJoined{key, 1, "rank 1"},
                             EpochUsed{key, 10800}, EpochPlanned{key, kept->digest, kept}}));
  ApplyAll(plan.events, ledger);
  request.windows = {2, 3, 1, 1};
  request.now += absl::Hours(1) - absl::Seconds(1);
  PH_ASSERT_OK_AND_ASSIGN(plan, Planned(ledger, identity, request));
  EXPECT_EQ(plan.events, (std::vector<LedgerEvent>{WindowsCounted{key, 1, {1, 1}}}));
  ApplyAll(plan.events, ledger);
  // In another number, with a plan that is there, and fewer windows than are known.
  request.windows = {2, 3};
  request.sharing.rank_group_of_rank = {0, 1, 1};
  PH_ASSERT_OK_AND_ASSIGN(plan, Planned(ledger, identity, request, 2));
  EXPECT_EQ(plan.events,
            (std::vector<LedgerEvent>{GenerationStarted{key, 2, "", request.sharing, {}},
                                      WorkerJoined{key, 2, "rank 1"}}));
  // Another epoch of the job shares the plan.
  identity.key.epoch = 1;
  request.words.clear();
  request.client.clear();
  PH_ASSERT_OK_AND_ASSIGN(plan, Planned(ledger, identity, request, 3));
  ASSERT_EQ(plan.events.size(), 6U);
  EXPECT_EQ(plan.events[1], LedgerEvent(EpochPlanned{key, kept->digest, nullptr}));
  EXPECT_EQ(plan.events[2], LedgerEvent(WindowsCounted{key, 0, {2, 3}}));
}

// What the cursor has is done, what is known of windows is kept, and later epochs are forgotten.
TEST(PlanJoinTest, ACursorRollsBack) {
  EpochIdentity identity = IdentityOf({6, 8});
  identity.num_windows = 2;
  const EpochKey& key = identity.key;
  JoinRequest request;
  request.sharing.rank_group_of_rank = {0, 1};
  request.now = kJoined;
  JobLedger ledger;
  for (const uint64_t epoch : {2, 1}) {
    EpochIdentity later = identity;
    later.key.epoch = epoch;
    PH_ASSERT_OK_AND_ASSIGN(const JoinPlan plan, Planned(ledger, later, request, 10 - epoch));
    ApplyAll(plan.events, ledger);
  }
  request.cursor = Cursor{identity, 7, BatchSet::Of({0, 6}), {2, 3}};
  PH_ASSERT_OK_AND_ASSIGN(const JoinPlan plan, Planned(ledger, identity, request, 12, 7));
  EXPECT_EQ(plan.events,
            (std::vector<LedgerEvent>{
                EpochOpened{identity}, WindowsCounted{key, 0, {2, 3}}, EpochUsed{key, 7200},
                GenerationStarted{key, 12, "", request.sharing, BatchSet::Of({0, 6})},
                WorkerJoined{key, 12, "rank 0"}, EpochForgotten{{"job", 1}},
                EpochForgotten{{"job", 2}}}));
}

TEST(PlanJoinTest, TellsWhoMayNotJoin) {
  const EpochIdentity identity = IdentityOf({6});
  JobLedger ledger;
  const auto refused = [&](const JoinRequest& request) {
    const auto plan = Planned(ledger, identity, request);
    EXPECT_FALSE(plan.ok());
    EXPECT_EQ(ForecastJoin(ledger, identity, request).status(), plan.status());
    return plan.status();
  };
  JoinRequest request = OfRank(2, 2);
  EXPECT_EQ(refused(request), absl::InvalidArgumentError("rank 2: there are 2"));
  request = OfRank(0, 2);
  request.reader = {3, 3};
  EXPECT_EQ(refused(request), absl::InvalidArgumentError("load: reader 3, there are 3"));
  JoinRequest worker;
  EXPECT_EQ(refused(worker), absl::InvalidArgumentError("load: without a rank a worker needs a "
                                                        "name"));
  worker.worker = "a";
  worker.queue = 1;
  EXPECT_EQ(refused(worker), absl::InvalidArgumentError("rank group 1: there are 1"));
  worker.queue = 0;
  worker.cursor = Cursor{identity, 1, {}};
  EXPECT_EQ(refused(worker),
            absl::InvalidArgumentError(
                "load: without a rank a cursor needs an attempt, by which the workers of one start "
                "of the trainer know each other"));
  worker.generation = 1;
  EXPECT_EQ(refused(worker),
            absl::InvalidArgumentError("load: has both a generation and a cursor"));
  // Nobody may go on in what is not there, although a cursor may begin it.
  request = OfRank(0, 2);
  request.generation = 1;
  EXPECT_EQ(refused(request),
            absl::FailedPreconditionError("epoch 0 of job 'job': nobody has loaded it"));
  ApplyAll(Planned(ledger, identity, OfRank(0, 2))->events, ledger);
  request = OfRank(0, 3);
  request.generation = 1;
  EXPECT_EQ(refused(request),
            absl::FailedPreconditionError("load: generation 1 is shared by 2 ranks, asked for are "
                                          "3 or other rank_groups (0 ranks: dynamic)"));
  request.generation = 2;
  EXPECT_EQ(refused(request),
            absl::FailedPreconditionError(
                "generation 2 of epoch 0 of job 'job' is over, the current one is 1: workers have "
                "restarted from a cursor or in another number"));
  ASSERT_THAT(ledger.Apply(EpochExpired{identity.key, 1, 90'000}), IsOk());
  request = OfRank(0, 2);
  request.cursor = Cursor{identity, 1, {}};
  EXPECT_EQ(refused(request),
            absl::FailedPreconditionError(
                "epoch 0 of job 'job': was forgotten on 1970-01-02, since nobody had used it for "
                "as long as --epoch-retention says; load it without a cursor to begin anew, or "
                "delete the job first to go on from this cursor all the same"));
  EXPECT_EQ(NoSuchEpoch(ledger, identity.key), refused(request));
}

TEST(PlanJoinTest, AGenerationHasABoundedNumberOfWorkers) {
  const EpochIdentity identity = IdentityOf({6});
  JobLedger ledger;
  JoinRequest request;
  request.worker = "last";
  request.now = kJoined;
  ApplyAll(Planned(ledger, identity, request)->events, ledger);
  for (size_t i = 0; i + 2 < kMaxWorkers; ++i) {
    ASSERT_THAT(ledger.Apply(WorkerJoined{identity.key, 1, absl::StrCat(i)}), IsOk());
  }
  request.worker = "one more";
  ApplyAll(Planned(ledger, identity, request)->events, ledger);
  EXPECT_EQ(ledger.Find(identity.key)->workers.size(), kMaxWorkers);
  EXPECT_THAT(Planned(ledger, identity, request), IsOk());
  request.worker = "too many";
  EXPECT_EQ(Planned(ledger, identity, request).status(),
            absl::ResourceExhaustedError("workers of generation 1: 65536, at most 65536"));
}

// Generations of before a restore are told so, whatever is known of the epoch.
TEST(CheckGenerationTest, TellsOfARestore) {
  const EpochIdentity identity = IdentityOf({6});
  const uint64_t former = FormerGenerations(kFirstRestore);
  EXPECT_EQ(former, uint64_t{1'000'000'000} << 20);
  JobLedger ledger;
  const auto is_of_before = [&](uint64_t generation) {
    const absl::Status status = CheckGeneration(ledger, identity.key, generation);
    EXPECT_FALSE(status.ok());
    return status == absl::FailedPreconditionError(absl::StrCat(
                         "generation ", generation,
                         " of epoch 0 of job 'job' is of before the cluster was restored from a "
                         "backup, which knows nothing of what was done after it was taken: start "
                         "the trainer again, from a checkpoint or anew"));
  };
  const absl::Status unknown = absl::NotFoundError("epoch 0 of job 'job': nobody has loaded it");
  ASSERT_THAT(ledger.Apply(GenerationsUsed{former - 1}), IsOk());
  EXPECT_FALSE(is_of_before(1));
  EXPECT_EQ(CheckGeneration(ledger, identity.key, 1), unknown);
  ASSERT_THAT(ledger.Apply(GenerationsUsed{former}), IsOk());
  EXPECT_TRUE(is_of_before(1));
  EXPECT_TRUE(is_of_before(former));
  EXPECT_FALSE(is_of_before(0));
  EXPECT_EQ(CheckGeneration(ledger, identity.key, former + 1), unknown);
  ASSERT_THAT(ledger.Apply(EpochOpened{identity}), IsOk());
  // None has started.
  EXPECT_FALSE(is_of_before(0));
  ASSERT_THAT(ledger.Apply(GenerationStarted{identity.key, former + 1, "", {}, {}}), IsOk());
  EXPECT_THAT(CheckGeneration(ledger, identity.key, former + 1), IsOk());
  EXPECT_TRUE(is_of_before(former));
}

TEST(UseToWriteTest, OfAnEpochOneIsWrittenAnHour) {
  EpochState state;
  state.identity = IdentityOf({6});
  state.used_seconds = 100;
  EXPECT_EQ(UseToWrite(state, absl::FromUnixSeconds(3699)), std::nullopt);
  EXPECT_EQ(UseToWrite(state, absl::FromUnixSeconds(3700)), (EpochUsed{state.identity.key, 3700}));
  // Never 0, which says that none is known.
  EXPECT_EQ(SecondsOf(absl::UnixEpoch()), 1U);
  EXPECT_EQ(SecondsOf(absl::FromUnixSeconds(-5)), 1U);
  EXPECT_EQ(SecondsOf(absl::FromUnixSeconds(2)), 2U);
}

// Of all, of a client, and of a namespace here and elsewhere; each says its bound and its flag.
TEST(EpochQuotaTest, SaysWhichBoundIsReached) {
  uint64_t num_elsewhere = 0;
  std::vector<std::string> asked;
  EpochQuota quota(
      5, 2,
      [](absl::string_view where) {
        Quotas quotas;
        if (where == "team") quotas.epochs = 3;
        return quotas;
      },
      [&](absl::string_view where, const std::vector<std::string>& but_jobs) {
        EXPECT_EQ(where, "team");
        asked = but_jobs;
        return num_elsewhere;
      });
  const auto take = [&](const std::string& client, const std::string& job) {
    return quota.Take({client, job});
  };
  const std::string what = "; finish them, or delete jobs that will not";
  EXPECT_THAT(take("10.0.0.1", "team/a"), IsOk());
  EXPECT_THAT(take("10.0.0.1", "other/a"), IsOk());
  EXPECT_EQ(take("10.0.0.1", "other/a"),
            absl::ResourceExhaustedError("epochs: 2 of client '10.0.0.1' are remembered, at most 2 "
                                         "(--max-epochs-per-client)" +
                                         what));
  num_elsewhere = 2;
  EXPECT_EQ(take("10.0.0.2", "team/b"), BeyondQuota("team", "epochs", 4, 3));
  EXPECT_EQ(asked, (std::vector<std::string>{"team/b", "team/a"}));
  num_elsewhere = 1;
  EXPECT_THAT(take("10.0.0.2", "team/b"), IsOk());
  EXPECT_EQ(quota.CountByNamespace(), (std::map<std::string, uint64_t>{{"other", 1}, {"team", 2}}));
  // Of no client: nobody's bound.
  for (int i = 0; i < 2; ++i) EXPECT_THAT(take("", "other/b"), IsOk());
  EXPECT_EQ(
      take("10.0.0.2", "other/b"),
      absl::ResourceExhaustedError("epochs: 5 are remembered, at most 5 (--max-epochs)" + what));
  quota.TakeAnyway({"10.0.0.2", "other/b"});
  EXPECT_EQ(quota.num_epochs(), 6U);
  for (int i = 0; i < 2; ++i) quota.GiveBack({"", "other/b"});
  EXPECT_THAT(take("10.0.0.2", "other/b").code(), absl::StatusCode::kResourceExhausted);
  quota.GiveBack({"10.0.0.2", "other/b"});
  EXPECT_THAT(take("10.0.0.2", "other/b"), IsOk());
  EXPECT_EQ(quota.CountByNamespace(), (std::map<std::string, uint64_t>{{"other", 2}, {"team", 2}}));
  quota.GiveBack({"10.0.0.1", "other/a"});
  quota.GiveBack({"10.0.0.2", "other/b"});
  EXPECT_EQ(quota.CountByNamespace(), (std::map<std::string, uint64_t>{{"team", 2}}));
}

}  // namespace
}  // namespace packhouse
