// Stores that an earlier release has written: refused with the flag that converts them, and
// converted as a whole or not at all. tests/support/format_1_store/README.md says what is in them.
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/datasets/lmdb/checked_value.h"
#include "service/datasets/lmdb/lmdb_dataset_store.h"
#include "service/datasets/lmdb/stored_keys.h"
#include "service/ledger/format_1_events.h"
#include "service/ledger/job_ledger.h"
#include "service/ledger/lmdb/lmdb_record_log.h"
#include "tests/datasets/stored_files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace {

// How many more writes and flushes the process makes before it ends, the last write by half; below
// zero, it goes on.
std::atomic<int> writes_left = -1;

bool IsLast() { return writes_left >= 0 && writes_left-- == 0; }

}  // namespace

// In the place of the C library's, for LMDB.
extern "C" ssize_t pwrite(int fd, const void* bytes, size_t count, off_t offset) {
  if (IsLast()) {
    ::syscall(SYS_pwrite64, fd, bytes, count / 2, offset);
    std::_Exit(9);
  }
  return ::syscall(SYS_pwrite64, fd, bytes, count, offset);
}
extern "C" ssize_t writev(int fd, const iovec* parts, int count) {
  if (IsLast()) {
    ::syscall(SYS_writev, fd, parts, count / 2);
    std::_Exit(9);
  }
  return ::syscall(SYS_writev, fd, parts, count);
}
extern "C" int fdatasync(int fd) {
  if (IsLast()) std::_Exit(9);
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace packhouse {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StoreUpgradeTest : public ::testing::Test {
 protected:
  StoreUpgradeTest() {
    std::filesystem::copy(
        std::filesystem::path(PACKHOUSE_SOURCE_DIR) / "tests/support/format_1_store",
        folder_.path(), std::filesystem::copy_options::recursive);
  }

  LmdbDatasetStore::Options Datasets() const {
    LmdbDatasetStore::Options options;
    options.folder = folder_.path() + "/datasets";
    options.max_bytes = uint64_t{1} << 26;
    return options;
  }
  LmdbRecordLog::Options Ledger() const {
    LmdbRecordLog::Options options;
    options.folder = folder_.path() + "/delivery";
    options.max_bytes = uint64_t{1} << 26;
    return options;
  }
  absl::StatusOr<bool> UpgradeDatasets() const { return LmdbDatasetStore::Upgrade(Datasets()); }
  absl::StatusOr<bool> UpgradeLedger() const {
    return LmdbRecordLog::Upgrade(Ledger(), EventFromFormat1);
  }

  void ExpectDatasetsAsTheyWere() const {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(Datasets()));
    PH_ASSERT_OK_AND_ASSIGN(const DatasetList list, store->List(0, ""));
    ASSERT_EQ(list.datasets.size(), 2U);
    const DatasetInfo& info = list.datasets[0];
    EXPECT_EQ(info.name, "molecules");
    EXPECT_EQ(info.id, 8229065251189384742U);
    EXPECT_EQ(info.version, 16835670768039788211U);
    EXPECT_EQ(info.state, DatasetState::kSealed);
    EXPECT_EQ(info.num_graphs, 18U);
    EXPECT_EQ(info.num_records, 3U);
    EXPECT_EQ(info.num_bytes, 12288U);
    ASSERT_EQ(info.schema->tensors().size(), 2U);
    EXPECT_EQ(info.schema->tensors()[0].name, "x");
    EXPECT_EQ(info.schema->tensors()[0].dtype, DType::kUint8);
    EXPECT_EQ(info.schema->tensors()[1].index_into, 0U);
    EXPECT_THAT(info.schema->tensors()[1].row_shape, ElementsAre(2));
    EXPECT_EQ(list.datasets[1].name, "open/more");
    EXPECT_EQ(list.datasets[1].options.max_bytes, uint64_t{1} << 20);
    EXPECT_TRUE(list.datasets[1].options.grouped);

    PH_ASSERT_OK_AND_ASSIGN(const auto reader, store->OpenReader("molecules"));
    for (size_t i = 0; i < 18; ++i) {
      EXPECT_EQ(reader->graph_ids()[i], 100 + i);
      EXPECT_EQ(reader->counts()[2 * i], 2 + i % 3);
      EXPECT_EQ(reader->counts()[2 * i + 1], i % 4);
    }
    EXPECT_EQ(reader->histogram().num_graphs(), 18U);
    for (const char* const name : {"molecules", "open/more"}) {
      PH_ASSERT_OK_AND_ASSIGN(const VerifyReport report,
                              store->Verify(name, [](const VerifyProgress&) { return true; }));
      EXPECT_TRUE(report.ok());
    }
    // What was appended is known as that; more goes on.
    const GraphSchema open = *store->Get("open/more")->schema;
    PH_ASSERT_OK_AND_ASSIGN(SizeTable sizes,
                            SizeTable::WithConsecutiveIds(1, 2, std::vector<uint32_t>{3, 1}, 0));
    PH_ASSERT_OK_AND_ASSIGN(const GraphChunk chunk,
                            GraphChunk::Create(&open, std::move(sizes), {}, nullptr));
    PH_ASSERT_OK_AND_ASSIGN(
        const AppendResult appended,
        store->Append("open/more", chunk, std::vector<uint64_t>{8}, ProducerSequence{"p", 1}));
    EXPECT_EQ(appended.num_appended, 1U);
  }

  void ExpectLedgerAsItWas() const {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, LmdbRecordLog::Open(Ledger()));
    PH_ASSERT_OK_AND_ASSIGN(const auto records, log->ReadAll());
    PH_ASSERT_OK_AND_ASSIGN(const JobLedger ledger, JobLedger::Replay(records));
    EXPECT_THAT(ledger.Epochs(), ElementsAre(EpochKey{"others", 4}, EpochKey{"train", 0}));
    EXPECT_EQ(ledger.last_generation(), 2U);
    const EpochState& train = *ledger.Find({"train", 0});
    EXPECT_EQ(train.identity.dataset_version, 16835670768039788211U);
    EXPECT_EQ(train.identity.seed, 3U);
    ASSERT_EQ(train.identity.rank_groups.size(), 1U);
    EXPECT_THAT(train.identity.rank_groups[0].capacities, ElementsAre(9, 12, 3));
    EXPECT_EQ(train.identity.num_batches(), 6U);
    EXPECT_EQ(train.generation, 1U);
    EXPECT_EQ(train.attempt, "first");
    EXPECT_EQ(train.client, "127.0.0.1");
    EXPECT_EQ(train.used_seconds, 1795348053U);
    EXPECT_EQ(train.done, BatchSet::Of({0, 2}));
    EXPECT_EQ(train.sharing, Sharing::Ranked(1));
    EXPECT_EQ(train.plan, "");
    const EpochState& others = *ledger.Find({"others", 4});
    EXPECT_EQ(others.done, BatchSet::Of({1}));
    EXPECT_THAT(others.workers, ElementsAre("w"));
    EXPECT_FALSE(others.sharing.ranked());
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
};

TEST_F(StoreUpgradeTest, AnOlderFormatIsRefusedWithTheFlagThatConvertsIt) {
  const auto names_it = StatusIs(
      absl::StatusCode::kFailedPrecondition,
      AllOf(HasSubstr(folder_.path()),
            HasSubstr("format version 1, this packhoused reads version 2; to convert it, run "
                      "packhoused --upgrade-store once with the same --data-dir")));
  EXPECT_THAT(LmdbDatasetStore::Open(Datasets()), names_it);
  EXPECT_THAT(LmdbRecordLog::Open(Ledger()), names_it);
}

TEST_F(StoreUpgradeTest, EverythingIsAsItWas) {
  EXPECT_THAT(UpgradeDatasets(), IsOkAndHolds(true));
  EXPECT_THAT(UpgradeLedger(), IsOkAndHolds(true));
  ExpectDatasetsAsTheyWere();
  ExpectLedgerAsItWas();
  EXPECT_THAT(UpgradeDatasets(), IsOkAndHolds(false));
  EXPECT_THAT(UpgradeLedger(), IsOkAndHolds(false));
}

TEST_F(StoreUpgradeTest, AFolderOfNothingHasNothingToConvert) {
  LmdbDatasetStore::Options options = Datasets();
  options.folder = folder_.path() + "/new";
  EXPECT_THAT(LmdbDatasetStore::Upgrade(options), IsOkAndHolds(false));
  EXPECT_THAT(LmdbDatasetStore::Open(options), IsOk());
}

// A process that ends at any write or flush, that write by half, leaves the store as it was or
// converted; to convert it again goes on.
TEST_F(StoreUpgradeTest, ACrashLeavesTheOldStoreOrTheNewOne) {
  const std::string old_datasets = ReadFile(DataFile(Datasets().folder));
  const std::string old_ledger = ReadFile(DataFile(Ledger().folder));
  int num_crashes = 0;
  for (bool has_ended = false; !has_ended; ++num_crashes) {
    SCOPED_TRACE(testing::Message() << "after " << num_crashes << " writes");
    WriteFile(DataFile(Datasets().folder), old_datasets);
    WriteFile(DataFile(Ledger().folder), old_ledger);
    const pid_t child = ::fork();
    if (child == 0) {
      writes_left = num_crashes;
      const bool is_ok = UpgradeDatasets().ok() && UpgradeLedger().ok();
      std::_Exit(is_ok ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    ASSERT_TRUE(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9) << WEXITSTATUS(status);
    has_ended = WEXITSTATUS(status) == 0;
    for (const absl::Status& opened :
         {LmdbDatasetStore::Open(Datasets()).status(), LmdbRecordLog::Open(Ledger()).status()}) {
      if (opened.ok()) continue;
      EXPECT_FALSE(has_ended);
      EXPECT_THAT(opened,
                  StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("--upgrade-store")));
    }
    EXPECT_THAT(UpgradeDatasets(), IsOk());
    EXPECT_THAT(UpgradeLedger(), IsOk());
    ExpectDatasetsAsTheyWere();
    ExpectLedgerAsItWas();
  }
  EXPECT_GT(num_crashes, 8);
}

// What was damaged before is damaged afterwards, and the rest is converted.
TEST_F(StoreUpgradeTest, ADamagedValueStaysSo) {
  const std::string key = NameKey("open/more");
  PutRaw(Datasets().folder, key, "not its checksum");
  EXPECT_THAT(UpgradeDatasets(), IsOkAndHolds(true));
  PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(Datasets()));
  EXPECT_THAT(store->Get("molecules"), IsOk());
  EXPECT_THAT(store->Get("open/more"), StatusIs(absl::StatusCode::kDataLoss, testing::_));
}

// A ledger of which a record is lost must not be believed.
TEST_F(StoreUpgradeTest, ALogWithADamagedRecordIsNotConverted) {
  for (const std::string& value :
       {std::string("not its checksum"), WithChecksum(LogRecordKey(2), "no event")}) {
    PutRaw(Ledger().folder, LogRecordKey(2), value);
    EXPECT_THAT(UpgradeLedger(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record 2")));
    EXPECT_THAT(LmdbRecordLog::Open(Ledger()),
                StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("version 1")));
  }
}

TEST_F(StoreUpgradeTest, ALaterFormatIsLeftAlone) {
  PutRaw(Datasets().folder, FormatKey(), WithChecksum(FormatKey(), EncodeNumber(3)));
  EXPECT_THAT(UpgradeDatasets(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("format version 3, this packhoused reads version 2")));
}

}  // namespace
}  // namespace packhouse
