// The ledger over the log that lasts: whatever happens to the process, replaying what the folder
// has gives the ledger that the answers told of.
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/datasets/lmdb_record_log.h"
#include "service/delivery/epoch_delivery.h"
#include "tests/delivery/epoch_worlds.h"
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

absl::StatusOr<std::unique_ptr<LmdbRecordLog>> OpenLog(const std::string& folder) {
  LmdbRecordLog::Options options;
  options.folder = folder;
  return LmdbRecordLog::Open(options);
}

absl::StatusOr<JobLedger> Replayed(LmdbRecordLog& log) {
  const auto records = log.ReadAll();
  if (!records.ok()) return records.status();
  return JobLedger::Replay(*records);
}

// A server with a few epochs; odd ones are ranked, even ones dynamic.
class Server {
 public:
  explicit Server(const std::string& folder) : log_(OpenLog(folder).value()) {
    ledger_ = Replayed(*log_).value();
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      auto opened = EpochDelivery::Open(IdentityOf({kBatches}, epoch), absl::Seconds(9), &ledger_,
                                        log_.get());
      EXPECT_THAT(opened, IsOk());
      epochs_.push_back(*std::move(opened));
    }
  }

  void Step(Random& random) {
    const uint64_t number = random.Below(kEpochs);
    EpochDelivery& epoch = *epochs_[number];
    if (!sessions_.contains(number) || random.Below(12) == 0) {
      JoinRequest request;
      request.session = ++last_session_;
      request.attempt = random.Below(5) == 0 ? "again" : "first";
      if (number % 2 == 1) {
        request.sharing = Sharing::Ranked(1 + random.Below(2));
      } else {
        request.worker = std::string(1, static_cast<char>('a' + random.Below(3)));
      }
      if (!cursors_[number].empty() && random.Below(3) == 0) {
        request.cursor = DecodeCursor(cursors_[number]).value();
      }
      const auto joined = epoch.Join(request);
      ASSERT_THAT(joined, IsOk());
      sessions_[number] = request.session;
      return;
    }
    const SessionId session = sessions_[number];
    std::vector<uint64_t> batches;
    for (uint64_t left = random.Between(1, 4); left != 0; --left) {
      const auto lease = epoch.Next(session, 100, kStart);
      // A new generation ended the session: it joins again.
      if (!lease.ok()) {
        sessions_.erase(number);
        return;
      }
      if (lease->outcome == LeaseOutcome::kLeased) batches.push_back(lease->batch);
    }
    // Some are never acknowledged.
    if (!batches.empty() && random.Below(4) == 0) batches.pop_back();
    PH_ASSERT_OK_AND_ASSIGN(const AcknowledgeResult result,
                            epoch.Acknowledge(session, epoch.generation(), batches, kStart));
    if (random.Below(3) == 0) cursors_[number] = result.cursor;
    num_acknowledged_ += result.num_new;
  }

  void CompactIfLong() {
    if (log_->num_records() <= kRecordsToCompact) return;
    ASSERT_THAT(log_->Replace(ledger_.Snapshot()), IsOk());
    ++num_compactions_;
  }

  const JobLedger& ledger() const { return ledger_; }
  uint64_t num_acknowledged() const { return num_acknowledged_; }
  uint64_t num_compactions() const { return num_compactions_; }

 private:
  std::unique_ptr<LmdbRecordLog> log_;
  JobLedger ledger_;
  std::vector<std::unique_ptr<EpochDelivery>> epochs_;
  std::map<uint64_t, SessionId> sessions_;
  std::map<uint64_t, std::string> cursors_;
  SessionId last_session_ = 0;
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
    for (int run = 0; run < 5; ++run) {
      JobLedger ledger;
      {
        Server server(folder.path());
        // Epochs are in the ledger once somebody has joined, not by being opened.
        ASSERT_TRUE(server.ledger() == expected) << "run " << run;
        for (uint64_t left = random.Below(80); left != 0; --left) {
          ASSERT_NO_FATAL_FAILURE(server.Step(random));
          ASSERT_NO_FATAL_FAILURE(server.CompactIfLong());
        }
        // What a kill would leave at this moment: the file as it is, and nobody's lock.
        TemporaryFolder copy(TemporaryFolder::InMemory());
        std::filesystem::copy_file(folder.path() + "/data.mdb", copy.path() + "/data.mdb");
        PH_ASSERT_OK_AND_ASSIGN(const auto killed, OpenLog(copy.path()));
        PH_ASSERT_OK_AND_ASSIGN(ledger, Replayed(*killed));
        EXPECT_TRUE(ledger == server.ledger());
        expected = server.ledger();
        num_acknowledged += server.num_acknowledged();
        num_compactions += server.num_compactions();
      }
      PH_ASSERT_OK_AND_ASSIGN(const auto reopened, OpenLog(folder.path()));
      PH_ASSERT_OK_AND_ASSIGN(ledger, Replayed(*reopened));
      EXPECT_TRUE(ledger == expected);
    }
  }
  EXPECT_GT(num_acknowledged, 20 * kSeeds);
  EXPECT_GT(num_compactions, kSeeds);
}

}  // namespace
}  // namespace packhouse
