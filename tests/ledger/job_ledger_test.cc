#include "service/engine/jobs/job_ledger.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/internal/stored.pb.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/ledger_repair.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::HasSubstr;

// One of few.
std::shared_ptr<const KeptPlan> RandomPlan(Random& random) {
  Random of_plan(random.Below(3));
  return KeepPlan(RandomPlannerResult(of_plan));
}

// Any event, about one of few jobs and epochs.
LedgerEvent RandomEvent(Random& random) {
  const EpochKey key = {random.Below(2) == 0 ? "a" : "b", random.Below(3)};
  const uint64_t generation = random.Below(12);
  BatchSet batches;
  for (uint64_t i = random.Below(8); i != 0; --i) batches.Insert(random.Below(30));
  switch (random.Below(12)) {
    case 10: {
      WindowsCounted counted = {key, random.Below(3), {}};
      for (uint64_t i = 2 * random.Between(1, 2); i != 0; --i) {
        counted.num_batches.push_back(static_cast<uint32_t>(random.Below(8)));
      }
      return counted;
    }
    case 9:
      return EpochWorded{key, random.Below(2) == 0 ? "" : "words"};
    case 0: {
      EpochIdentity identity = IdentityOf({10 + random.Below(2), 20});
      identity.key = key;
      // One with windows has the same number of them whenever it is opened.
      identity.num_windows = key.epoch == 1 ? 3 : 0;
      return EpochOpened{identity};
    }
    case 1: {
      Sharing sharing;
      for (uint64_t i = random.Below(5); i != 0; --i) {
        sharing.rank_group_of_rank.push_back(static_cast<uint32_t>(random.Below(2)));
      }
      sharing.last_steps = static_cast<LastSteps>(random.Below(2));
      return GenerationStarted{key, generation, random.Below(2) == 0 ? "" : "x", sharing, batches};
    }
    case 2:
      return WorkerJoined{key, generation, random.Below(2) == 0 ? "w" : ""};
    case 3:
      return BatchesAcknowledged{key, generation, batches};
    case 4:
      return EpochForgotten{key};
    case 5:
      return EpochOwned{key, random.Below(3) == 0 ? "" : "10.0.0.1"};
    case 6:
      return EpochUsed{key, random.Below(100)};
    case 8: {
      const auto plan = RandomPlan(random);
      return EpochPlanned{key, plan->digest, random.Below(2) == 0 ? nullptr : plan};
    }
    case 7:
      return EpochExpired{key, generation, random.Below(100)};
    default:
      return GenerationsUsed{generation};
  }
}

TEST(LedgerEventTest, RoundTrip) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    const LedgerEvent event = RandomEvent(random);
    const std::string record = EncodeEvent(event);
    PH_ASSERT_OK_AND_ASSIGN(const LedgerEvent back, DecodeEvent(record));
    EXPECT_EQ(back, event);
    EXPECT_EQ(EncodeEvent(back), record);
  }
}

// Plans of epochs are the same only if all of them is.
TEST(LedgerEventTest, PlansDiffer) {
  Random random(1);
  const auto plan = RandomPlan(random);
  const EpochPlanned planned = {{"job", 1}, plan->digest, plan};
  EXPECT_EQ(planned, (EpochPlanned{{"job", 1}, plan->digest, std::make_shared<KeptPlan>(*plan)}));
  const EpochPlanned without = {{"job", 1}, plan->digest, nullptr};
  EXPECT_EQ(without, without);
  KeptPlan other = *plan;
  other.receipt += "x";
  const std::vector<EpochPlanned> different = {
      without,
      {{"job", 2}, plan->digest, plan},
      {{"job", 1}, plan->digest + "x", plan},
      {{"job", 1}, plan->digest, std::make_shared<KeptPlan>(other)}};
  for (const EpochPlanned& each : different) {
    EXPECT_FALSE(planned == each);
    EXPECT_FALSE(each == planned);
  }
}

// Whatever the bytes, no crash, and what is read is written the same way.
TEST(LedgerEventTest, AnyBytesAreReadOrRefused) {
  uint64_t read = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    std::string record = EncodeEvent(RandomEvent(random));
    for (uint64_t i = random.Between(1, 3); i != 0 && !record.empty(); --i) {
      const size_t at = random.Below(record.size());
      const uint64_t how = random.Below(4);
      if (how == 0) record.insert(at, 1, static_cast<char>(random.Next()));
      if (how == 1) record.erase(at, 1);
      if (how >= 2) record[at] = static_cast<char>(random.Next());
    }
    const auto event = DecodeEvent(record);
    if (!event.ok()) {
      EXPECT_EQ(event.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++read;
    EXPECT_EQ(EncodeEvent(*event), record);
  }
  EXPECT_GT(read, 1000U);
}

// The example in docs/storage-format.md.
TEST(LedgerEventTest, TheBytesAreThoseOfTheFormat) {
  BatchesAcknowledged event;
  event.epoch = {"ab", 300};
  event.generation = 1;
  event.batches = BatchSet::Of({0, 1, 4});
  EXPECT_EQ(absl::BytesToHexString(EncodeEvent(event)), "2a110a070a02616210ac0210011a0400020201");
  // What a later release may add is refused, not left out.
  std::string later = EncodeEvent(EpochForgotten{{"ab", 300}});
  ASSERT_THAT(DecodeEvent(later), IsOk());
  EXPECT_THAT(DecodeEvent(later + std::string("\xa0\x01\x01", 3)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("later release")));
  const std::string malformed = "event: malformed, or written by a later release of packhoused";
  EXPECT_EQ(DecodeEvent("").status(), absl::InvalidArgumentError(malformed));
  EXPECT_EQ(DecodeEvent(std::string(kMaxEventBytes + 1, '\0')).status(),
            absl::InvalidArgumentError("event: 16777217 bytes, at most 16777216"));
  EXPECT_EQ(DecodeEvent(std::string(kMaxEventBytes, '\0')).status(),
            absl::InvalidArgumentError("event: is no message of the ledger"));
  // Ranks of one rank group are one run.
  GenerationStarted started = {{"ab", 3}, 1, "", {{0, 0, 1}, LastSteps::kDropped}, {}};
  EXPECT_EQ(absl::BytesToHexString(EncodeEvent(started)),
            "1a120a060a0261621003100120012a0400020101");
}

// Bounds are those of what may be written, so that a record takes no more memory than that.
TEST(LedgerEventTest, WhatIsBeyondTheBoundsIsRefused) {
  const EpochKey key = {"job", 1};
  const auto decoded = [](const LedgerEvent& event) { return DecodeEvent(EncodeEvent(event)); };
  const auto is_malformed = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("malformed"));
  EXPECT_THAT(decoded(EpochWorded{key, std::string(kMaxWordsBytes, 'x')}), IsOk());
  EXPECT_THAT(decoded(EpochWorded{key, std::string(kMaxWordsBytes + 1, 'x')}), is_malformed);
  GenerationStarted started = {key, 1, "", Sharing::Ranked(Sharing::kMaxRanks), {}};
  EXPECT_THAT(decoded(started), IsOk());
  started.sharing.rank_group_of_rank.push_back(0);
  EXPECT_THAT(decoded(started), is_malformed);
  started.sharing.rank_group_of_rank.back() = 1;
  EXPECT_THAT(decoded(started), is_malformed);
  EpochIdentity identity = IdentityOf({10});
  identity.key.job.clear();
  EXPECT_THAT(decoded(EpochOpened{identity}),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("job name")));
}

TEST(KeptPlanTest, ComesBack) {
  for (uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    const PlannerResult planned = RandomPlannerResult(random);
    const auto kept = KeepPlan(planned);
    ASSERT_NE(kept, nullptr);
    uint64_t reserved = 0;
    const auto reserve = [&](uint64_t bytes) {
      reserved += bytes;
      return absl::OkStatus();
    };
    PH_ASSERT_OK_AND_ASSIGN(const PlannerResult back, ReadPlan(*kept, reserve));
    EXPECT_TRUE(back == planned);
    EXPECT_EQ(KeepPlan(back)->digest, kept->digest);
    EXPECT_GT(reserved, 0U);
    EXPECT_THAT(ReadPlan(*kept, [](uint64_t) { return absl::ResourceExhaustedError("no room"); }),
                StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room")));
    // Bytes that are no plan are refused, or read as another plan. They cause no crash.
    KeptPlan changed = *kept;
    changed.bytes[random.Below(changed.bytes.size())] = static_cast<char>(random.Next());
    const auto other = ReadPlan(changed, reserve);
    if (!other.ok()) {
      EXPECT_THAT(other, StatusIs(absl::StatusCode::kDataLoss, _));
    }
    // And an event does not take them.
    EpochPlanned event = {{"job", 1}, kept->digest, std::make_shared<const KeptPlan>(changed)};
    if (changed.bytes != kept->bytes) {
      EXPECT_THAT(DecodeEvent(EncodeEvent(event)), StatusIs(absl::StatusCode::kInvalidArgument, _));
    }
  }
}

// Whatever list has one number more or fewer than the others say.
TEST(KeptPlanTest, ListsThatDoNotFitEachOtherAreMalformed) {
  PlannerResult planned;
  planned.receipt = "v1-a";
  planned.num_components = 2;
  planned.tuples = {1, 2, 3, 4};
  planned.shapes = {{{10, 10, 4}, {5, 5, 2}}};
  planned.patterns = {{{{{0, 1}, {1, 2}}, 7}}};
  planned.segments.num_batches = {3};
  planned.segments.rows = {5};
  planned.segments.fullest = {5};
  const auto kept = KeepPlan(planned);
  std::vector<uint64_t> reserved;
  const auto reserve = [&](uint64_t bytes) {
    reserved.push_back(bytes);
    return absl::OkStatus();
  };
  PH_ASSERT_OK_AND_ASSIGN(const PlannerResult back, ReadPlan(*kept, reserve));
  EXPECT_TRUE(back == planned);
  const uint64_t of_shapes = sizeof(std::vector<uint64_t>) + 16;
  EXPECT_EQ(reserved,
            (std::vector<uint64_t>{24 * kept->bytes.size(),
                                   sizeof(PlannerResult) + 4 + 4 * sizeof(uint32_t) +
                                       (sizeof(Pattern) + 16) + 2 * sizeof(PatternEntry) +
                                       3 * 2 * of_shapes + 3 * 6 * sizeof(uint64_t) +
                                       6 * of_shapes + sizeof(uint32_t) + 2 * sizeof(uint64_t)}));
  const absl::Status malformed =
      absl::DataLossError("plan v1-a: what the ledger keeps of it is malformed");
  const auto changed = [&](const auto& change) {
    internal::Plan stored;
    EXPECT_TRUE(stored.ParseFromString(kept->bytes));
    change(stored);
    return ReadPlan({"v1-a", "", stored.SerializeAsString()}, reserve).status();
  };
  using Plan = internal::Plan;
  EXPECT_EQ(changed([](Plan&) {}), absl::OkStatus());
  EXPECT_EQ(changed([](Plan& plan) { plan.set_receipt("v1-b"); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_num_shapes(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_num_capacities(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_capacities(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.set_num_capacities(1, 4); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_tuples(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.set_num_components(0); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_num_patterns(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) {
              plan.add_num_patterns(1);
              plan.add_repeats(1);
            }),
            malformed);
  EXPECT_EQ(changed([](Plan& plan) {
              plan.add_num_patterns(1);
              plan.add_num_entries(0);
            }),
            malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_repeats(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_num_entries(0); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.set_num_entries(0, 3); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) {
              plan.set_num_entries(0, 3);
              plan.add_entry_tuples(0);
            }),
            malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_entry_tuples(0); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.add_entry_copies(1); }), malformed);
  EXPECT_EQ(changed([](Plan& plan) { plan.mutable_segments()->add_rows(1); }), malformed);
  EXPECT_EQ(ReadPlan({"v1-a", "", "no plan"}, reserve).status(), malformed);
  reserved.clear();
  EXPECT_EQ(ReadPlan({"v1-a", "", std::string(kMaxPlanBytes + 1, '\0')}, reserve).status(),
            malformed);
  EXPECT_TRUE(reserved.empty());
  // Each of the two times that memory is taken.
  for (const size_t refused : {0, 1}) {
    reserved.clear();
    const absl::Status no_room = absl::ResourceExhaustedError("no room");
    EXPECT_EQ(ReadPlan(*kept,
                       [&](uint64_t bytes) {
                         reserved.push_back(bytes);
                         return reserved.size() == refused + 1 ? no_room : absl::OkStatus();
                       })
                  .status(),
              no_room);
  }
}

// For people; zeros where there are none, or the plan cannot be read.
TEST(KeptPlanTest, TellsOfItsSegments) {
  const auto told = [](const KeptPlan& plan) {
    const KeptSegments segments = SegmentsOf(plan);
    return std::pair(segments.num_segments, segments.lower_bound);
  };
  const std::pair<uint64_t, uint64_t> nothing = {0, 0};
  PlannerResult planned;
  planned.lower_bound = 40;
  planned.segments.num_batches = {4, 5, 6};
  planned.segments.digests = {1, 2, 3};
  planned.receipt = absl::StrCat(kSegmentsReceipt, "a");
  KeptPlan kept = *KeepPlan(planned);
  EXPECT_EQ(told(kept), (std::pair<uint64_t, uint64_t>{3, 40}));
  EXPECT_EQ(SegmentsOf(kept).Loss(50), 0.25);
  EXPECT_EQ(KeptSegments().Loss(50), 0);
  kept.receipt = "v1-a";
  EXPECT_EQ(told(kept), nothing);
  kept.receipt = planned.receipt;
  kept.bytes = "no plan";
  EXPECT_EQ(told(kept), nothing);
}

TEST(KeptPlanTest, OneThatIsTooLargeIsNotKept) {
  PlannerResult planned;
  planned.shapes = {{{10, 10}}};
  planned.num_components = 1;
  planned.tuples.resize(kMaxPlanBytes - 64, 1);
  planned.patterns.resize(1);
  EXPECT_NE(KeepPlan(planned), nullptr);
  planned.tuples.resize(kMaxPlanBytes, 1);
  EXPECT_EQ(KeepPlan(planned), nullptr);
}

// Each plan is there once, as long as an open epoch has it.
TEST(JobLedgerTest, APlanGoesWithItsLastEpoch) {
  Random random(1);
  const auto plan = KeepPlan(RandomPlannerResult(random));
  const auto other = KeepPlan(RandomPlannerResult(random));
  const EpochIdentity first = IdentityOf({10}, 1);
  const EpochIdentity second = IdentityOf({10}, 2);
  JobLedger ledger;
  const auto refused = [](const std::string& why) {
    return absl::FailedPreconditionError(absl::StrCat("epoch 1 of job 'job': ", why));
  };
  EXPECT_EQ(ledger.Apply(EpochPlanned{first.key, plan->digest, plan}), refused("is not open"));
  ASSERT_THAT(ledger.Apply(EpochOpened{first}), IsOk());
  const uint64_t bytes = ledger.bytes();
  EXPECT_EQ(ledger.Apply(EpochPlanned{first.key, plan->digest, nullptr}),
            refused(absl::StrCat("plan ", plan->digest, " is not there")));
  EXPECT_EQ(ledger.PlanOf(first.key), nullptr);
  ASSERT_THAT(ledger.Apply(EpochPlanned{first.key, plan->digest, plan}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochPlanned{first.key, plan->digest, plan}), IsOk());
  EXPECT_EQ(ledger.Apply(EpochPlanned{first.key, other->digest, other}),
            refused(absl::StrCat("has plan ", plan->digest, ", not ", other->digest)));
  // Once, with its digest in the epoch.
  EXPECT_EQ(ledger.bytes(), bytes + 512 + plan->bytes.size() + plan->digest.size());
  ASSERT_THAT(ledger.Apply(EpochOpened{second}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochPlanned{second.key, plan->digest, nullptr}), IsOk());
  EXPECT_EQ(ledger.PlanOf(second.key), plan);
  ASSERT_THAT(ledger.Apply(EpochForgotten{first.key}), IsOk());
  EXPECT_TRUE(ledger.HasPlan(plan->digest));
  PH_ASSERT_OK_AND_ASSIGN(const JobLedger again, JobLedger::Replay(ledger.Snapshot()));
  EXPECT_EQ(*again.PlanOf(second.key), *plan);
  ASSERT_THAT(ledger.Apply(EpochExpired{second.key, 1, 5}), IsOk());
  EXPECT_FALSE(ledger.HasPlan(plan->digest));
  ledger.DropExpired(5);
  EXPECT_EQ(ledger.bytes(), 0U);
}

// Replay of the records, and of a snapshot at any time with the records after it, give the state.
TEST(JobLedgerTest, ReplayAndSnapshotsGiveTheSameState) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    JobLedger ledger;
    std::vector<std::string> all;
    std::vector<std::string> compacted;
    for (int i = 0; i < 60; ++i) {
      const LedgerEvent event = RandomEvent(random);
      const JobLedger before = ledger;
      if (!ledger.Apply(event).ok()) {
        EXPECT_TRUE(ledger == before);
        continue;
      }
      all.push_back(EncodeEvent(event));
      compacted.push_back(all.back());
      if (random.Below(10) == 0) compacted = ledger.Snapshot();
    }
    PH_ASSERT_OK_AND_ASSIGN(const JobLedger replayed, JobLedger::Replay(all));
    EXPECT_TRUE(replayed == ledger);
    EXPECT_EQ(replayed.bytes(), ledger.bytes());
    PH_ASSERT_OK_AND_ASSIGN(const JobLedger from_snapshot, JobLedger::Replay(compacted));
    EXPECT_TRUE(from_snapshot == ledger);
    PH_ASSERT_OK_AND_ASSIGN(const JobLedger twice, JobLedger::Replay(from_snapshot.Snapshot()));
    EXPECT_TRUE(twice == ledger);
  }
}

TEST(JobLedgerTest, AcknowledgementsOfAnEarlierGenerationAreIgnored) {
  const EpochIdentity identity = IdentityOf({10});
  JobLedger ledger;
  ASSERT_THAT(ledger.Apply(EpochOpened{identity}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochOpened{identity}), IsOk());
  ASSERT_THAT(ledger.Apply(GenerationStarted{identity.key, 1, "", {}, {}}), IsOk());
  ASSERT_THAT(ledger.Apply(BatchesAcknowledged{identity.key, 1, BatchSet::Of({1, 2})}), IsOk());
  ASSERT_THAT(ledger.Apply(GenerationStarted{identity.key, 2, "", {}, BatchSet::Of({1})}), IsOk());
  ASSERT_THAT(ledger.Apply(BatchesAcknowledged{identity.key, 1, BatchSet::Of({3})}), IsOk());
  EXPECT_EQ(ledger.Find(identity.key)->done, BatchSet::Of({1}));
  EXPECT_EQ(
      ledger.Apply(GenerationStarted{identity.key, 2, "", {}, {}}),
      absl::FailedPreconditionError("epoch 0 of job 'job': generation 2 was used, the last is 2"));
  EXPECT_EQ(ledger.Apply(GenerationStarted{identity.key, 3, "", {}, BatchSet::Of({10})}),
            absl::InvalidArgumentError("epoch 0 of job 'job': batch 10 is done, there are 10"));
  {
    JobLedger last = ledger;
    EXPECT_THAT(last.Apply(GenerationStarted{identity.key, 3, "", {}, BatchSet::Of({9})}), IsOk());
    EXPECT_EQ(last.Find(identity.key)->base, BatchSet::Of({9}));
  }
  EpochIdentity other = identity;
  other.seed = 99;
  EXPECT_THAT(ledger.Apply(EpochOpened{other}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("seed 99")));
  // Generations are not used again, even if the epoch is forgotten.
  ASSERT_THAT(ledger.Apply(EpochForgotten{identity.key}), IsOk());
  EXPECT_EQ(ledger.Find(identity.key), nullptr);
  EXPECT_EQ(ledger.last_generation(), 2U);
  EXPECT_EQ(ledger.Apply(GenerationStarted{identity.key, 3, "", {}, {}}),
            absl::FailedPreconditionError("epoch 0 of job 'job': is not open"));
}

// What is changed on one side is not seen on the other.
TEST(JobLedgerTest, AForkSharesWhatNeitherChanges) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    JobLedger ledger;
    for (int i = 0; i < 60; ++i) {
      const JobLedger before = ledger;
      JobLedger fork = ledger.Fork();
      EXPECT_TRUE(fork == before);
      for (uint64_t j = random.Below(4); j != 0; --j) (void)fork.Apply(RandomEvent(random));
      EXPECT_TRUE(ledger == before);
      if (random.Below(2) == 0) {
        (void)ledger.Apply(RandomEvent(random));
        const JobLedger changed = ledger;
        (void)fork.Apply(RandomEvent(random));
        EXPECT_TRUE(ledger == changed);
      } else {
        ledger = std::move(fork);
      }
    }
  }
}

// Of a copy, and of a fork, too: bytes, plans, openings, and what differs.
TEST(JobLedgerTest, ACopyAndAForkAreWholeLedgers) {
  Random random(1);
  const auto plan = KeepPlan(RandomPlannerResult(random));
  const EpochKey first = IdentityOf({10}, 1).key;
  const EpochKey second = IdentityOf({10}, 2).key;
  JobLedger ledger;
  for (const uint64_t epoch : {1, 2}) {
    ASSERT_THAT(ledger.Apply(EpochOpened{IdentityOf({10}, epoch)}), IsOk());
  }
  ASSERT_THAT(ledger.Apply(EpochPlanned{first, plan->digest, plan}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochExpired{second, 3, 90}), IsOk());
  ASSERT_THAT(ledger.Apply(GenerationsUsed{7}), IsOk());
  EXPECT_EQ(ledger.OpeningOf(first), 1U);
  EXPECT_EQ(ledger.OpeningOf(second), 0U);
  JobLedger copy = ledger;
  JobLedger assigned;
  assigned = ledger;
  JobLedger fork = ledger.Fork();
  const uint64_t bytes = ledger.bytes();
  EXPECT_EQ(bytes, ledger.Find(first)->Bytes() + 512 + plan->bytes.size() + 512);
  for (JobLedger* const each : {&copy, &assigned, &fork}) {
    EXPECT_TRUE(*each == ledger);
    EXPECT_EQ(each->bytes(), bytes);
    EXPECT_EQ(each->PlanOf(first), plan);
    EXPECT_EQ(each->last_generation(), 7U);
    EXPECT_EQ(each->OpeningOf(first), 1U);
    EXPECT_EQ(each->Expired(), std::vector<EpochKey>{second});
    ASSERT_THAT(each->Apply(GenerationsUsed{8}), IsOk());
    EXPECT_FALSE(*each == ledger);
    ASSERT_THAT(each->Apply(EpochForgotten{first}), IsOk());
    EXPECT_EQ(each->bytes(), 512U);
    ASSERT_THAT(each->Apply(EpochOpened{IdentityOf({10}, 3)}), IsOk());
    EXPECT_EQ(each->OpeningOf({"job", 3}), 3U);
    EXPECT_EQ(each->last_generation(), 8U);
  }
  EXPECT_EQ(ledger.bytes(), bytes);
  // What has expired, and each part of an epoch, makes a ledger another one.
  JobLedger other = ledger;
  ASSERT_THAT(other.Apply(EpochForgotten{second}), IsOk());
  EXPECT_FALSE(other == ledger);
  other = ledger;
  ASSERT_THAT(other.Apply(EpochUsed{first, 5}), IsOk());
  EXPECT_FALSE(other == ledger);
  other = ledger;
  ASSERT_THAT(other.Apply(EpochForgotten{first}), IsOk());
  EXPECT_FALSE(other == ledger);
}

// Each part of an epoch's state counts, since its bytes are of a budget.
TEST(JobLedgerTest, TheBytesOfAnEpochAreThoseOfItsParts) {
  EpochState plain;
  plain.identity = IdentityOf({10});
  EXPECT_EQ(plain.Bytes(), sizeof(EpochState) + 512 + std::string("jobmoleculesshuffle").size() +
                               sizeof(IdentityRankGroup) + 3 * sizeof(uint64_t));
  const auto added = [&](const auto& change) {
    EpochState state = plain;
    change(state);
    return state.Bytes() - plain.Bytes();
  };
  EXPECT_EQ(added([](EpochState& state) { state.identity.key.job += "x"; }), 1U);
  EXPECT_EQ(added([](EpochState& state) { state.identity.dataset += "xy"; }), 2U);
  EXPECT_EQ(added([](EpochState& state) { state.identity.options += "xyz"; }), 3U);
  EXPECT_EQ(added([](EpochState& state) { state.attempt = "abcd"; }), 4U);
  EXPECT_EQ(added([](EpochState& state) { state.client = "abcde"; }), 5U);
  EXPECT_EQ(added([](EpochState& state) { state.plan = "abcdef"; }), 6U);
  EXPECT_EQ(added([](EpochState& state) { state.words = "abcdefg"; }), 7U);
  EXPECT_EQ(added([](EpochState& state) {
              state.identity.rank_groups.push_back({{1, 2}, 0, 0});
            }),
            sizeof(IdentityRankGroup) + 2 * sizeof(uint64_t));
  EXPECT_EQ(added([](EpochState& state) { state.base = BatchSet::Of({1, 3}); }), 80U);
  EXPECT_EQ(added([](EpochState& state) { state.done = BatchSet::Of({1, 3, 5}); }), 120U);
  EXPECT_EQ(added([](EpochState& state) { state.workers = {"a", "b"}; }), 512U);
  EXPECT_EQ(added([](EpochState& state) { state.windows = {1, 2, 3}; }), 24U);
  EXPECT_EQ(added([](EpochState& state) { state.sharing = Sharing::Ranked(5); }), 20U);
}

TEST(JobLedgerTest, WhatIsOpenedAgainHasNotExpired) {
  const EpochIdentity identity = IdentityOf({10});
  JobLedger ledger;
  ASSERT_THAT(ledger.Apply(EpochOpened{identity}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochOwned{identity.key, "10.0.0.1"}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochUsed{identity.key, 50}), IsOk());
  ASSERT_THAT(ledger.Apply(EpochUsed{identity.key, 40}), IsOk());
  EXPECT_EQ(ledger.Find(identity.key)->used_seconds, 50U);
  EXPECT_EQ(ledger.Find(identity.key)->client, "10.0.0.1");
  ASSERT_THAT(ledger.Apply(EpochExpired{identity.key, 3, 90}), IsOk());
  EXPECT_EQ(ledger.num_epochs(), 0U);
  EXPECT_FALSE(ledger.empty());
  EXPECT_EQ(ledger.FindExpired(identity.key)->generation, 3U);
  ledger.DropExpired(89);
  EXPECT_FALSE(ledger.empty());
  ASSERT_THAT(ledger.Apply(EpochOpened{identity}), IsOk());
  EXPECT_EQ(ledger.FindExpired(identity.key), nullptr);
  ASSERT_THAT(ledger.Apply(EpochExpired{identity.key, 3, 90}), IsOk());
  ledger.DropExpired(90);
  EXPECT_TRUE(ledger.empty());
}

TEST(JobLedgerTest, ABadRecordIsNamed) {
  std::vector<std::string> records = {EncodeEvent(EpochOpened{IdentityOf({10})}),
                                      EncodeEvent(GenerationsUsed{3})};
  records[1].pop_back();
  EXPECT_THAT(JobLedger::Replay(records),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record 1: event: ")));
}

// Windows are counted one after the other, and have no more batches than the epoch.
TEST(JobLedgerTest, WindowsAreCountedInOrder) {
  EpochIdentity identity = IdentityOf({10, 20});
  identity.num_windows = 2;
  JobLedger ledger;
  const auto count = [&](uint64_t first, std::vector<uint32_t> numbers) {
    return ledger.Apply(WindowsCounted{identity.key, first, std::move(numbers)});
  };
  EXPECT_THAT(count(0, {1, 2}),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is not open")));
  ASSERT_THAT(ledger.Apply(EpochOpened{identity}), IsOk());
  const auto state = [&] { return *ledger.Find(identity.key); };
  const auto is_refused = StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("of windows"));
  for (const auto& [first, numbers] : std::vector<std::pair<uint64_t, std::vector<uint32_t>>>{
           {1, {1, 2}}, {0, {1}}, {0, {11, 1}}, {0, {1, 21}}, {0, {1, 1, 1, 1, 1, 1}}}) {
    EXPECT_THAT(count(first, numbers), is_refused);
    EXPECT_TRUE(state().windows.empty());
  }
  EXPECT_EQ(state().ExpectedBatches(), 30U);
  ASSERT_THAT(count(0, {4, 20}), IsOk());
  EXPECT_EQ(state().NumKnown(), (std::vector<uint64_t>{4, 20}));
  EXPECT_EQ(state().ExpectedBatches(), 28U);
  EXPECT_FALSE(state().is_complete());
  EXPECT_THAT(count(0, {4, 0}), is_refused);
  EXPECT_EQ(count(1, {7, 0}),
            absl::InvalidArgumentError(
                "epoch 0 of job 'job': 2 numbers of batches of windows from 1 on, with 31 batches "
                "so far; 1 of 2 are known, of 2 rank groups with at most 30 batches"));
  const uint64_t bytes = ledger.bytes();
  ASSERT_THAT(count(1, {6, 0}), IsOk());
  EXPECT_GE(ledger.bytes(), bytes + 2 * sizeof(uint32_t));
  EXPECT_TRUE(state().is_complete());
  EXPECT_EQ(state().ExpectedBatches(), 30U);
  PH_ASSERT_OK_AND_ASSIGN(const JobLedger again, JobLedger::Replay(ledger.Snapshot()));
  EXPECT_TRUE(again == ledger);
}

// What is not damaged is kept as it is; what comes after a lost record is not believed, but no
// generation is used again.
TEST(LedgerRepairTest, AJobIsKeptWholeOrGivenUp) {
  const EpochIdentity identity = IdentityOf({10});
  std::vector<FoundRecord> found;
  for (const LedgerEvent& event : std::vector<LedgerEvent>{
           EpochOpened{identity}, GenerationStarted{identity.key, 3, "", {}, {}},
           BatchesAcknowledged{identity.key, 3, BatchSet::Of({4})}, GenerationsUsed{7}}) {
    found.push_back({10 + found.size(), EncodeEvent(event), absl::OkStatus()});
  }
  const auto told = [](const LedgerRepair& repair) {
    std::vector<std::string> losses;
    TellLosses(repair, "data.mdb", "job 'job'", "the job", [&](const StoredDamage& damage) {
      EXPECT_EQ(damage.file, "data.mdb");
      losses.push_back(absl::StrCat(damage.place, ": ", damage.what, "; ", damage.cost));
    });
    return losses;
  };
  LedgerRepair repair = RepairLedger(found);
  EXPECT_FALSE(repair.is_lost);
  EXPECT_EQ(repair.last_generation, 7U);
  EXPECT_TRUE(told(repair).empty());
  ASSERT_EQ(repair.records.size(), found.size());
  for (size_t i = 0; i < found.size(); ++i) EXPECT_EQ(repair.records[i], found[i].bytes);

  std::vector<FoundRecord> mended = found;
  mended[1].is_mended = true;
  repair = RepairLedger(mended);
  EXPECT_FALSE(repair.is_lost);
  EXPECT_EQ(repair.records.size(), found.size());
  EXPECT_EQ(told(repair), (std::vector<std::string>{
                              "job 'job', record 11: one bit had flipped; nothing: packhoused "
                              "store repair puts it right"}));

  std::vector<FoundRecord> lost = found;
  lost[0].status = absl::DataLossError("is missing");
  lost[2].bytes = "no event";
  repair = RepairLedger(lost);
  EXPECT_TRUE(repair.is_lost);
  EXPECT_TRUE(repair.records.empty());
  EXPECT_EQ(repair.last_generation, 9U);
  EXPECT_THAT(told(repair),
              testing::ElementsAre("job 'job', record 10: is missing; the job",
                                   testing::StartsWith("job 'job', record 12: event: ")));

  // None is damaged, and one is missing.
  std::vector<FoundRecord> misfit(found.begin() + 1, found.end());
  repair = RepairLedger(misfit);
  EXPECT_TRUE(repair.is_lost);
  EXPECT_TRUE(repair.records.empty());
  EXPECT_EQ(repair.last_generation, 7U);
  EXPECT_THAT(told(repair),
              testing::ElementsAre("job 'job', record 11: does not fit the records before it: "
                                   "epoch 0 of job 'job': is not open; the job"));

  EXPECT_EQ(JobOfEvent(found[0].bytes), "job");
  EXPECT_EQ(JobOfEvent(found[2].bytes), "job");
  EXPECT_EQ(JobOfEvent(found[3].bytes), "");
  EXPECT_EQ(JobOfEvent("no event"), "");
}

}  // namespace
}  // namespace packhouse
