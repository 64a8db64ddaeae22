// The ledger over the log that lasts: whatever happens to the process, replaying what the folder
// has gives the ledger that the answers told of.
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/engine/jobs/event_codec.h"
#include "service/engine/jobs/job.h"
#include "service/stores/logs/lmdb_job_logs.h"
#include "tests/delivery/job_worlds.h"
#include "tests/epochs/epoch_worlds.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr absl::Time kStart = absl::UnixEpoch();
constexpr uint64_t kEpochs = 4;
constexpr uint64_t kBatches = 40;
constexpr uint64_t kRecordsToCompact = 60;
// Under ThreadSanitizer there is but one thread to see.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kSeeds = 3;
#else
constexpr uint64_t kSeeds = 30;
#endif

absl::StatusOr<std::unique_ptr<LmdbJobLogs>> OpenLog(const std::string& folder) {
  LmdbJobLogs::Options options;
  options.folder = folder;
  return LmdbJobLogs::Open(options);
}

// All jobs together.
absl::StatusOr<JobLedger> Replayed(LmdbJobLogs& logs) {
  std::vector<std::string> all;
  uint64_t last = 0;
  const std::vector<std::string> names = logs.Names().value();
  for (const std::string& job : names) {
    const auto records = logs.Read(job);
    if (!records.ok()) return records.status();
    // Each has its own generations.
    const auto ledger = JobLedger::Replay(*records);
    if (!ledger.ok()) return ledger.status();
    last = std::max(last, ledger->last_generation());
    for (std::string& record : ledger->EpochRecords()) all.push_back(std::move(record));
  }
  all.push_back(EncodeEvent(GenerationsUsed{last}));
  return JobLedger::Replay(all);
}

// A server with a few epochs of each of two jobs; odd ones are ranked, even ones dynamic.
class Server {
 public:
  explicit Server(const std::string& folder) : log_(OpenLog(folder).value()), world_(log_.get()) {}

  void Step(Random& random) {
    const std::string name = random.Below(2) == 0 ? "job" : "other";
    Job& job = world_.job(name);
    const uint64_t number = random.Below(kEpochs);
    EpochIdentity identity = IdentityOf({kBatches}, number);
    identity.key.job = name;
    if (random.Below(100) == 0) {
      (void)job.Forget();
      return;
    }
    std::optional<Seat>& seat = seats_[identity.key];
    std::string& cursor = cursors_[identity.key];
    if (!seat || random.Below(12) == 0) {
      if (seat) job.Leave(*seat->session);
      JoinRequest request;
      request.attempt = random.Below(5) == 0 ? "again" : "first";
      request.client = random.Below(2) == 0 ? "10.0.0.1" : "";
      request.now = kStart + absl::Hours(random.Below(50));
      if (random.Below(3) != 0) {
        Random of_plan(number % 3);
        request.plan = KeepPlan(RandomPlannerResult(of_plan));
      }
      if (number % 2 == 1) {
        request.sharing = Sharing::Ranked(1 + random.Below(2));
      } else {
        request.worker = std::string(1, static_cast<char>('a' + random.Below(3)));
      }
      if (!cursor.empty() && random.Below(3) == 0) request.cursor = DecodeCursor(cursor).value();
      auto joined = world_.Join(identity, request);
      ASSERT_THAT(joined, IsOk());
      seat = *std::move(joined);
      return;
    }
    std::vector<uint64_t> batches;
    for (uint64_t left = random.Between(1, 4); left != 0; --left) {
      const auto lease = job.Next(*seat->session, kStart);
      // A new generation ended the session, or the epoch was forgotten: it joins again.
      if (!lease.ok()) {
        job.Leave(*seat->session);
        seat.reset();
        return;
      }
      if (lease->outcome == LeaseOutcome::kLeased) batches.push_back(lease->batch);
    }
    // Some are never acknowledged.
    if (!batches.empty() && random.Below(4) == 0) batches.pop_back();
    PH_ASSERT_OK_AND_ASSIGN(
        const AcknowledgeResult result,
        job.Acknowledge(number, seat->start.session, seat->start.join.generation, batches, kStart));
    if (random.Below(3) == 0) cursor = result.cursor;
    num_acknowledged_ += result.num_new;
  }

  void CompactIfLong() {
    if (log_->num_records() <= kRecordsToCompact) return;
    world_.Compact();
    ++num_compactions_;
  }

  JobLedger ledger() { return world_.Ledger(); }
  uint64_t num_acknowledged() const { return num_acknowledged_; }
  uint64_t num_compactions() const { return num_compactions_; }

 private:
  const std::unique_ptr<LmdbJobLogs> log_;
  JobWorld world_;
  std::map<EpochKey, std::optional<Seat>> seats_;
  std::map<EpochKey, std::string> cursors_;
  uint64_t num_acknowledged_ = 0;
  uint64_t num_compactions_ = 0;
};

TEST(DurableLedgerTest, ReplayGivesWhatTheAnswersToldOf) {
  uint64_t num_acknowledged = 0;
  uint64_t num_compactions = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TemporaryFolder folder(TemporaryFolder::InMemory());
    JobLedger expected;
    uint64_t last_generation = 0;
    for (int run = 0; run < 5; ++run) {
      JobLedger ledger;
      {
        Server server(folder.path());
        // Epochs are in the ledger once somebody has joined, not by being opened.
        ASSERT_EQ(server.ledger().EpochRecords(), expected.EpochRecords()) << "run " << run;
        for (uint64_t left = random.Below(80); left != 0; --left) {
          ASSERT_NO_FATAL_FAILURE(server.Step(random));
          ASSERT_NO_FATAL_FAILURE(server.CompactIfLong());
        }
        // What a kill would leave at this moment: the file as it is, and nobody's lock.
        TemporaryFolder copy(TemporaryFolder::InMemory());
        std::filesystem::copy_file(folder.path() + "/data.mdb", copy.path() + "/data.mdb");
        PH_ASSERT_OK_AND_ASSIGN(const auto killed, OpenLog(copy.path()));
        PH_ASSERT_OK_AND_ASSIGN(ledger, Replayed(*killed));
        EXPECT_EQ(ledger.EpochRecords(), server.ledger().EpochRecords());
        expected = server.ledger();
        num_acknowledged += server.num_acknowledged();
        num_compactions += server.num_compactions();
      }
      PH_ASSERT_OK_AND_ASSIGN(const auto reopened, OpenLog(folder.path()));
      PH_ASSERT_OK_AND_ASSIGN(ledger, Replayed(*reopened));
      EXPECT_EQ(ledger.EpochRecords(), expected.EpochRecords());
      // Numbers of generations are not used again, whatever has been forgotten.
      EXPECT_GE(ledger.last_generation(), last_generation);
      last_generation = ledger.last_generation();
    }
  }
  EXPECT_GT(num_acknowledged, 20 * kSeeds);
  EXPECT_GT(num_compactions, kSeeds);
}

}  // namespace
}  // namespace packhouse
