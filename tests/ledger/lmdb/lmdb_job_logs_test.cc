#include "service/stores/logs/lmdb_job_logs.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"
#include "tests/datasets/stored_files.h"
#include "tests/ledger/lmdb/one_log.h"
#include "tests/ledger/record_log_laws.h"
#include "tests/support/random.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace {

// How many more flushes the disk does before it fails; below zero, it never does.
std::atomic<int> flushes_left = -1;
// Called once, by the next flush; set while nobody writes.
std::function<void()> during_next_flush;

}  // namespace

// In the place of the C library's, for LMDB.
extern "C" int fdatasync(int fd) {
  if (const auto call = std::exchange(during_next_flush, nullptr)) call();
  if (flushes_left == 0) {
    errno = EIO;
    return -1;
  }
  if (flushes_left > 0) --flushes_left;
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Records = std::vector<std::string>;

// ThreadSanitizer is slow, and one thread is all there is to see here.
#if defined(__SANITIZE_THREAD__)
constexpr uint64_t kDamagedFiles = 100;
constexpr size_t kTornCommits = 20;
#else
constexpr uint64_t kDamagedFiles = 1500;
constexpr size_t kTornCommits = 300;
#endif

absl::StatusOr<std::unique_ptr<OneLog>> OpenLog(const std::string& folder,
                                                uint64_t max_bytes = uint64_t{1} << 28) {
  LmdbJobLogs::Options options;
  options.folder = folder;
  options.max_bytes = max_bytes;
  return OneLog::Open(options);
}

void AppendTo(Records& records, const Records& more) {
  records.insert(records.end(), more.begin(), more.end());
}

class LmdbJobLogsTest : public ::testing::Test {
 protected:
  ~LmdbJobLogsTest() override { flushes_left = -1; }

  // A log with free pages of what was replaced, and what it has.
  Records BuildLog() {
    const auto log = OpenLog(folder_.path()).value();
    Random random(1);
    EXPECT_THAT(log->Append(RandomLogRecords(random, 100)), IsOk());
    Records records = RandomLogRecords(random, 30);
    EXPECT_THAT(log->Replace(records), IsOk());
    for (int i = 0; i < 40; ++i) {
      const Records more = RandomLogRecords(random, 20);
      EXPECT_THAT(log->Append(more), IsOk());
      AppendTo(records, more);
    }
    return records;
  }

  TemporaryFolder folder_{TemporaryFolder::InMemory()};
};

TEST_F(LmdbJobLogsTest, IsAListThatLasts) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    const std::string folder = absl::StrCat(folder_.path(), "/", seed);
    ASSERT_NO_FATAL_FAILURE(TestIsAListThatLasts([&] { return OpenLog(folder); }, seed));
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder));
    PH_ASSERT_OK_AND_ASSIGN(const Records records, log->ReadAll());
    EXPECT_EQ(log->num_records(), records.size());
    uint64_t bytes = 0;
    for (const std::string& record : records) bytes += record.size();
    EXPECT_GE(log->num_bytes(), bytes);
    EXPECT_LE(log->num_bytes(), 3 * bytes + 64 * records.size());
  }
}

// The example in docs/storage-format.md.
TEST_F(LmdbJobLogsTest, TheFormatIsAsDescribed) {
  uint64_t identity = 0;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
    ASSERT_THAT(log->Append({"\xac\x02"}), IsOk());
    identity = log->identity();
  }
  EXPECT_NE(identity, 0U);
  const std::string format = WithChecksum(LogFormatKey(), EncodeNumber(3) + EncodeNumber(identity));
  PH_ASSERT_OK_AND_ASSIGN(const auto environment,
                          LmdbEnvironment::Open(folder_.path(), uint64_t{1} << 28));
  PH_ASSERT_OK_AND_ASSIGN(const LmdbTransaction transaction,
                          LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kRead));
  PH_ASSERT_OK_AND_ASSIGN(LmdbCursor cursor,
                          LmdbCursor::At(transaction, absl::string_view("\0", 1)));
  std::map<std::string, std::string> found;
  while (cursor.valid()) {
    found[absl::BytesToHexString(cursor.key())] = absl::BytesToHexString(cursor.raw_value());
    ASSERT_THAT(cursor.Next(), IsOk());
  }
  EXPECT_THAT(found,
              ElementsAre(testing::Pair("62", "0200000000000000000000000000000026e969e7"),
                          testing::Pair("6c", absl::BytesToHexString(format)),
                          testing::Pair("6e6a6f62",
                                        "010000000000000001000000000000000200000000000000"
                                        "2600000000000000ee13ad21"),
                          testing::Pair("7200000000000000010000000000000001", "ac0237194b54")));
}

TEST_F(LmdbJobLogsTest, SequenceNumbersAreNotUsedAgain) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
    ASSERT_THAT(log->Append({"a", "b"}), IsOk());
    ASSERT_THAT(log->Replace({}), IsOk());
    EXPECT_EQ(log->num_records(), 0U);
    EXPECT_EQ(log->num_bytes(), 0U);
  }
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
    EXPECT_THAT(log->ReadAll().value(), IsEmpty());
    ASSERT_THAT(log->Append({"c"}), IsOk());
  }
  // The page that the disk had before, coming back: the right checksum, the wrong record.
  PutRaw(folder_.path(), RecordKey(1, 2), WithChecksum(RecordKey(1, 2), "b"));
  EXPECT_THAT(OpenLog(folder_.path()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record 3 is missing")));
}

TEST_F(LmdbJobLogsTest, AFolderIsOneProcesssAtATime) {
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path() + "/delivery"));
  EXPECT_THAT(OpenLog(folder_.path() + "/delivery"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr("delivery' is in use by process "),
                             HasSubstr(absl::StrCat(::getpid())))));
}

TEST_F(LmdbJobLogsTest, AnotherFormatVersionIsNamed) {
  const Records records = BuildLog();
  PutRaw(folder_.path(), LogFormatKey(), WithChecksum(LogFormatKey(), EncodeNumber(7)));
  EXPECT_THAT(OpenLog(folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("format version 7, this packhoused reads version 3")));
  PutRaw(folder_.path(), LogFormatKey(),
         WithChecksum(LogFormatKey(), EncodeNumber(kLogFormatVersion)));
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
  EXPECT_EQ(log->ReadAll().value(), records);
}

TEST_F(LmdbJobLogsTest, AFolderOfDataSetsIsNoLog) {
  LmdbDatasetStore::Options options;
  options.folder = folder_.path();
  ASSERT_THAT(LmdbDatasetStore::Open(options), IsOk());
  EXPECT_THAT(OpenLog(folder_.path()),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("something else")));
  TemporaryFolder other;
  ASSERT_THAT(OpenLog(other.path()), IsOk());
  options.folder = other.path();
  EXPECT_THAT(LmdbDatasetStore::Open(options),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("something else")));
}

// What happens to one log changes no other: against a list for each.
TEST_F(LmdbJobLogsTest, LogsAreApart) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    TemporaryFolder folder(TemporaryFolder::InMemory());
    Random random(seed);
    LmdbJobLogs::Options options;
    options.folder = folder.path();
    PH_ASSERT_OK_AND_ASSIGN(auto logs, LmdbJobLogs::Open(options));
    std::map<std::string, Records> model;
    uint64_t mark = 0;
    for (int step = 0; step < 80; ++step) {
      // Names that begin alike.
      const std::string job(1 + random.Below(3), 'j');
      const auto log = logs->Open(job).value().log;
      const uint64_t choice = random.Below(12);
      if (choice < 7) {
        const Records more = RandomLogRecords(random, 5);
        ASSERT_THAT(log->Append(more), IsOk());
        if (!more.empty()) AppendTo(model[job], more);
      } else if (choice < 9) {
        model[job] = RandomLogRecords(random, 5);
        ASSERT_THAT(log->Replace(model[job]), IsOk());
      } else if (choice < 11) {
        const uint64_t of_job = random.Below(1000);
        mark = std::max(mark, of_job);
        ASSERT_THAT(log->Erase(of_job), IsOk());
        model.erase(job);
      } else {
        const uint64_t bytes = logs->num_bytes();
        logs = nullptr;
        PH_ASSERT_OK_AND_ASSIGN(logs, LmdbJobLogs::Open(options));
        EXPECT_EQ(logs->num_bytes(), bytes);
      }
      Records names;
      size_t num_records = 0;
      for (const auto& [name, records] : model) {
        names.push_back(name);
        num_records += records.size();
        EXPECT_TRUE(logs->Read(name).value() == records) << name;
      }
      EXPECT_EQ(logs->Names().value(), names);
      EXPECT_EQ(logs->num_records(), num_records);
      EXPECT_EQ(logs->Open("any").value().log->mark().value(), mark);
      std::map<std::string, Records> all;
      PH_ASSERT_OK_AND_ASSIGN(const LmdbTransaction moment, logs->BeginReading());
      ASSERT_THAT(logs->ForEach(moment,
                                [&](absl::string_view name, absl::string_view record) {
                                  all[std::string(name)].emplace_back(record);
                                  return absl::OkStatus();
                                }),
                  IsOk());
      for (const auto& [name, records] : model) EXPECT_TRUE(all[name] == records) << name;
    }
  }
}

// A log that is begun later has no number of an earlier one, so that no old record comes back; and
// each opening of a log has a revision of its own, above those of all runs before.
TEST_F(LmdbJobLogsTest, NumbersAndRevisionsAreNotUsedAgain) {
  LmdbJobLogs::Options options;
  options.folder = folder_.path();
  options.first_revision = 100;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto logs, LmdbJobLogs::Open(options));
    const auto first = logs->Open("job").value().log;
    ASSERT_THAT(first->Append({"a"}), IsOk());
    ASSERT_THAT(first->Erase(0), IsOk());
    const auto second = logs->Open("job").value().log;
    EXPECT_LT(first->owner_revision(), second->owner_revision());
    EXPECT_GE(first->owner_revision(), 100U);
  }
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto logs, LmdbJobLogs::Open(options));
    ASSERT_THAT(logs->Open("job").value().log->Append({"b"}), IsOk());
  }
  PutRaw(folder_.path(), RecordKey(1, 1), WithChecksum(RecordKey(1, 1), "a"));
  EXPECT_THAT(LmdbJobLogs::Open(options), StatusIs(absl::StatusCode::kDataLoss, _));
}

// The laws of every log (record_log_laws.h).
TEST_F(LmdbJobLogsTest, ManyThreadsAppend) {
  TestManyThreadsAppend([&] { return OpenLog(folder_.path()); }, 8, 40);
}

// The disk fails after some flushes, again and again.
TEST_F(LmdbJobLogsTest, LosesNothingAcknowledged) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    TemporaryFolder folder(TemporaryFolder::InMemory());
    Random random(seed);
    ASSERT_NO_FATAL_FAILURE(TestLosesNothingAcknowledged(
        [&] {
          flushes_left = -1;
          auto log = OpenLog(folder.path());
          flushes_left = static_cast<int>(random.Below(12));
          return log;
        },
        seed));
  }
}

TEST_F(LmdbJobLogsTest, HasAsManyBytesAsItMay) {
  TestHasAsManyBytesAsItMay([&](uint64_t max_bytes) {
    auto log = OpenLog(absl::StrCat(folder_.path(), "/", max_bytes), max_bytes).value();
    const OneLog& opened = *log;
    return BoundedLog{std::move(log), [&opened] { return opened.num_bytes(); }};
  });
  const auto log = OpenLog(folder_.path() + "/full", 100).value();
  ASSERT_THAT(log->Append({"123456"}), IsOk());  // 32 + 6 + 4 bytes.
  const auto refusal = [&](int used, int added) {
    return absl::ResourceExhaustedError(absl::StrCat("store '", folder_.path(), "/full': ", used,
                                                     " + ", added,
                                                     " bytes of records, at most 100"));
  };
  EXPECT_EQ(log->Append({std::string(23, 'x')}), refusal(42, 59));
  EXPECT_EQ(log->Replace({std::string(65, 'x')}), refusal(0, 101));
  EXPECT_EQ(log->Replace({std::string(1000, 'x')}), refusal(0, 1036));
  EXPECT_THAT(log->Append({std::string(22, 'x')}), IsOk());
  EXPECT_EQ(log->num_bytes(), 100U);
  EXPECT_EQ(log->num_records(), 2U);
}

class CountingObserver final : public CommitObserver {
 public:
  void OnCommitBegin() override { ++num_begun; }
  void OnCommitEnd(const CommitSummary& summary) override { num_changes += summary.num_changes; }
  void OnStoreBytes(uint64_t bytes) override { num_bytes = bytes; }

  size_t num_begun = 0;
  uint64_t num_changes = 0;
  uint64_t num_bytes = 0;
};

// Appends to many logs share the disk's flushes as those to one do.
TEST_F(LmdbJobLogsTest, AppendsToManyLogsShareFlushes) {
  CountingObserver observer;
  LmdbJobLogs::Options options;
  options.folder = folder_.path();
  options.observer = &observer;
  PH_ASSERT_OK_AND_ASSIGN(const auto logs, LmdbJobLogs::Open(options));
  const size_t begun = observer.num_begun;
  constexpr size_t kJobs = 64;
  std::vector<std::thread> threads;
  // While the disk is busy with the first one, all others come.
  during_next_flush = [&] {
    for (size_t i = 1; i < kJobs; ++i) {
      threads.emplace_back([&, i] {
        EXPECT_THAT(logs->Open(absl::StrCat("job", i)).value().log->Append({"a"}), IsOk());
      });
    }
    while (logs->num_waiting() != kJobs - 1) std::this_thread::yield();
  };
  EXPECT_THAT(logs->Open("job0").value().log->Append({"a"}), IsOk());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(observer.num_begun, begun + 2);
  EXPECT_EQ(logs->Names().value().size(), kJobs);
}

TEST_F(LmdbJobLogsTest, CommitsAreObserved) {
  CountingObserver observer;
  LmdbJobLogs::Options options;
  options.folder = folder_.path();
  options.observer = &observer;
  PH_ASSERT_OK_AND_ASSIGN(auto log, OneLog::Open(options));
  const size_t begun = observer.num_begun;
  ASSERT_THAT(log->Append({"a", "b"}), IsOk());
  ASSERT_THAT(log->Append({}), IsOk());
  EXPECT_EQ(observer.num_begun, begun + 1);
  EXPECT_EQ(observer.num_bytes, log->num_bytes());
  observer.num_bytes = 0;
  log = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(log, OneLog::Open(options));
  EXPECT_EQ(observer.num_bytes, log->num_bytes());
}

// Snapshots take the place of the log again and again; the file stays small.
TEST_F(LmdbJobLogsTest, FreePagesAreUsedAgain) {
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
  const Records records(500, std::string(200, 'x'));
  for (int round = 0; round < 30; ++round) {
    for (int i = 0; i < 4; ++i) ASSERT_THAT(log->Append(records), IsOk());
    ASSERT_THAT(log->Replace(records), IsOk());
  }
  EXPECT_LT(std::filesystem::file_size(DataFile(folder_.path())), 4U << 20);
}

TEST_F(LmdbJobLogsTest, ABadRecordIsNamed) {
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
    ASSERT_THAT(log->Append({"first", "second", "third"}), IsOk());
  }
  const std::string good = ReadFile(DataFile(folder_.path()));
  std::string bad = good;
  bad[good.rfind("second") + 2] ^= 1;
  WriteFile(DataFile(folder_.path()), bad);
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
    EXPECT_THAT(log->ReadAll(), StatusIs(absl::StatusCode::kDataLoss,
                                         AllOf(HasSubstr(folder_.path()), HasSubstr("record 2"))));
  }
  WriteFile(DataFile(folder_.path()), good);
  PutRaw(folder_.path(), RecordKey(1, 5), WithChecksum(RecordKey(1, 5), "fifth"));
  EXPECT_THAT(OpenLog(folder_.path()),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record 4 is missing")));
}

// Whatever is not as it was written is named when the folder is opened, wherever it is.
TEST_F(LmdbJobLogsTest, EachKindOfDamageIsNamed) {
  LmdbJobLogs::Options options;
  options.folder = folder_.path();
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto logs, LmdbJobLogs::Open(options));
    for (const std::string job : {"a", "b"}) {
      ASSERT_THAT(logs->Open(job).value().log->Append({"1", "2"}), IsOk());
    }
  }
  const std::string sound = ReadFile(DataFile(folder_.path()));
  const auto head = [](const std::string& job, const LmdbLogHead& value) {
    return std::pair(NameKey(job), WithChecksum(NameKey(job), value.Encode()));
  };
  struct Case {
    std::pair<std::string, std::string> stored;
    std::string why;
  };
  for (const Case& each : std::vector<Case>{
           {{LogTailKey(), "x"}, "fails its checksum"},
           {{LogTailKey(), WithChecksum(LogTailKey(), "x")}, "1 bytes in place of 2 numbers"},
           {{NameKey("a"), "x"}, "the head of the log of job 'a': "},
           {{NameKey("a"), WithChecksum(NameKey("a"), std::string(33, '\0'))},
            "33 bytes in place of 4 numbers"},
           {head("a", {1, 3, 2, 0}), "begins at record 3, behind its end at 2"},
           {head("b", {1, 1, 3, 0}), "job 'b': its log is that of another job"},
           {head("c", {1, 1, 3, 0}), "job 'c': its log is that of another job"},
           {head("a", {1, 1, 4, 0}), "job 'a': record 3 is missing, there is nothing more of it"},
           {head("b", {2, 1, 4, 0}), "job 'b': record 3 is missing, there is nothing more of it"},
           {head("a", {1, 1, 2, 0}), "job 'a': record 2 is missing, there is '"},
           {head("a", {1, 2, 3, 0}), "job 'a': record 2 is missing, there is '"},
           {{RecordKey(3, 1), "x"}, "is of no log"},
           {{std::string("zz"), "x"}, "'zz' is of no log"},
           {{std::string("q"), "x"}, "job 'a': record 1 is missing, there is 'q'"},
       }) {
    SCOPED_TRACE(each.why);
    PutRaw(folder_.path(), each.stored.first, each.stored.second);
    EXPECT_THAT(LmdbJobLogs::Open(options),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(HasSubstr(folder_.path()), HasSubstr(each.why))));
    WriteFile(DataFile(folder_.path()), sound);
  }
  EraseKey(folder_.path(), LogTailKey());
  EXPECT_THAT(
      LmdbJobLogs::Open(options),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it does not say which log is the next")));
}

// Who reads all logs can end it; a bad record is named with its job.
TEST_F(LmdbJobLogsTest, AllLogsAreReadUntilSomethingIsWrong) {
  LmdbJobLogs::Options options;
  options.folder = folder_.path();
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto logs, LmdbJobLogs::Open(options));
    for (const std::string job : {"a", "b"}) {
      ASSERT_THAT(logs->Open(job).value().log->Append({"1", "2"}), IsOk());
    }
  }
  PutRaw(folder_.path(), RecordKey(2, 1), "bad record");
  PH_ASSERT_OK_AND_ASSIGN(const auto logs, LmdbJobLogs::Open(options));
  PH_ASSERT_OK_AND_ASSIGN(const LmdbTransaction moment, logs->BeginReading());
  Records seen;
  absl::Status given;
  const auto read = [&] {
    return logs->ForEach(moment, [&](absl::string_view job, absl::string_view record) {
      seen.push_back(absl::StrCat(job, record));
      return given;
    });
  };
  EXPECT_THAT(read(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("job 'b': record 1: ")));
  EXPECT_THAT(seen, ElementsAre("a1", "a2"));
  given = absl::CancelledError("enough");
  EXPECT_EQ(read(), given);
  EXPECT_THAT(seen, ElementsAre("a1", "a2", "a1"));
  EXPECT_THAT(logs->Read("b"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("job 'b': record 1: ")));
}

// A bound may be larger than any disk.
TEST_F(LmdbJobLogsTest, AnyBoundIsTaken) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer has the addresses";
#endif
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path(), UINT64_MAX));
  EXPECT_THAT(log->Append({"a"}), IsOk());
}

// The log never gives a wrong record and never crashes.
TEST_F(LmdbJobLogsTest, FlippedBitsAreFoundOrHarmless) {
  const Records records = BuildLog();
  const std::string good = ReadFile(DataFile(folder_.path()));
  const std::vector<size_t> tree_pages = TreePages(good);
  size_t num_refused = 0;
  size_t num_with_loss = 0;
  size_t num_unharmed = 0;
  for (uint64_t seed = 0; seed < kDamagedFiles; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    std::string bad = good;
    for (size_t flips = random.Between(1, 3); flips != 0; --flips) {
      const size_t page = seed % 2 == 0 ? tree_pages[random.Below(tree_pages.size())]
                                        : random.Below(good.size() / kPage);
      size_t byte = page * kPage + random.Below(kPage);
      while (seed % 2 == 0 && good[byte] == 0) byte = page * kPage + random.Below(kPage);
      bad[byte] = static_cast<char>(bad[byte] ^ (1 << random.Below(8)));
    }
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), bad);
    const auto log = OpenLog(folder.path());
    if (!log.ok()) {
      EXPECT_THAT(log, AnyOf(StatusIs(absl::StatusCode::kDataLoss, HasSubstr(folder.path())),
                             StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("LMDB"))));
      ++num_refused;
      continue;
    }
    const auto read = (*log)->ReadAll();
    if (!read.ok()) {
      EXPECT_THAT(read, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("record")));
      ++num_with_loss;
      continue;
    }
    EXPECT_TRUE(*read == records);
    ++num_unharmed;
  }
  EXPECT_GT(num_refused, kDamagedFiles / 20);
  EXPECT_GT(num_with_loss, kDamagedFiles / 20);
  EXPECT_GT(num_unharmed, kDamagedFiles / 20);
  RecordProperty("refused", static_cast<int>(num_refused));
  RecordProperty("with_loss", static_cast<int>(num_with_loss));
  RecordProperty("unharmed", static_cast<int>(num_unharmed));
}

// LMDB writes data first, then one of the two meta pages: as long as that is not there, whatever
// has come of the data, the old records are there, all of them and nothing else.
TEST_F(LmdbJobLogsTest, ATornReplacementIsWholeOrNotThere) {
  const Records old_records = BuildLog();
  const std::string before = ReadFile(DataFile(folder_.path()));
  Random random(2);
  const Records new_records = RandomLogRecords(random, 200);
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder_.path()));
    ASSERT_THAT(log->Replace(new_records), IsOk());
  }
  const std::string after = ReadFile(DataFile(folder_.path()));
  ASSERT_GE(after.size(), before.size());
  std::vector<size_t> changed;  // Bytes of data pages.
  for (size_t at = 2 * kPage; at < after.size(); ++at) {
    if (at >= before.size() || after[at] != before[at]) changed.push_back(at);
  }
  ASSERT_GT(changed.size(), kTornCommits);
  const auto expect = [](const std::string& bytes, const Records& expected) {
    TemporaryFolder folder(TemporaryFolder::InMemory());
    WriteFile(DataFile(folder.path()), bytes);
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(folder.path()));
    EXPECT_TRUE(log->ReadAll().value() == expected);
  };
  for (size_t cut = 0; cut < changed.size(); cut += changed.size() / kTornCommits) {
    SCOPED_TRACE(testing::Message() << "cut at byte " << changed[cut]);
    // Written up to there, and the other way round: written from there, as a disk may reorder.
    std::string torn = before;
    torn.resize(std::max(before.size(), changed[cut]), '\0');
    std::string reordered = before;
    reordered.resize(after.size(), '\0');
    for (size_t i = 0; i < changed.size(); ++i) {
      (i < cut ? torn : reordered)[changed[i]] = after[changed[i]];
    }
    expect(torn, old_records);
    expect(reordered, old_records);
  }
  expect(after, new_records);
}

TEST_F(LmdbJobLogsTest, AFailedFlushRefusesEverythingUntilReopened) {
  const auto dead = StatusIs(absl::StatusCode::kUnavailable, HasSubstr("until it is opened anew"));
  PH_ASSERT_OK_AND_ASSIGN(auto log, OpenLog(folder_.path()));
  ASSERT_THAT(log->Append({"kept"}), IsOk());
  flushes_left = 0;
  EXPECT_THAT(log->Append({"lost", "or not"}), dead);
  // The disk is well again, or seems so.
  flushes_left = -1;
  EXPECT_THAT(log->Append({"more"}), dead);
  EXPECT_THAT(log->Append({}), dead);
  EXPECT_THAT(log->Replace({"new"}), dead);
  EXPECT_THAT(log->ReadAll(), dead);
  EXPECT_EQ(log->num_records(), 1U);
  log = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(log, OpenLog(folder_.path()));
  PH_ASSERT_OK_AND_ASSIGN(const Records records, log->ReadAll());
  EXPECT_THAT(records, AnyOf(ElementsAre("kept"), ElementsAre("kept", "lost", "or not")));
  ASSERT_THAT(log->Append({"more"}), IsOk());
  EXPECT_EQ(log->ReadAll().value().back(), "more");
}

// The disk fails under many threads: whatever was acknowledged is there after all.
TEST_F(LmdbJobLogsTest, ADiskThatFailsLosesNothingAcknowledged) {
  for (int flushes = 1; flushes < 12; ++flushes) {
    SCOPED_TRACE(testing::Message() << "flushes=" << flushes);
    TemporaryFolder folder(TemporaryFolder::InMemory());
    PH_ASSERT_OK_AND_ASSIGN(auto log, OpenLog(folder.path()));
    constexpr size_t kThreads = 4;
    std::vector<size_t> acknowledged(kThreads);
    flushes_left = flushes;
    std::vector<std::thread> threads;
    for (size_t thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        while (log->Append({absl::StrCat(thread, "/", acknowledged[thread])}).ok()) {
          ++acknowledged[thread];
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    flushes_left = -1;
    const size_t num_acknowledged =
        std::accumulate(acknowledged.begin(), acknowledged.end(), size_t{0});
    EXPECT_GE(num_acknowledged, static_cast<size_t>(flushes));
    EXPECT_EQ(log->num_records(), num_acknowledged);
    log = nullptr;
    PH_ASSERT_OK_AND_ASSIGN(log, OpenLog(folder.path()));
    std::vector<size_t> found(kThreads);
    PH_ASSERT_OK_AND_ASSIGN(const Records records, log->ReadAll());
    for (const std::string& record : records) {
      const size_t thread = record[0] - '0';
      EXPECT_EQ(record, absl::StrCat(thread, "/", found[thread]++));
    }
    for (size_t thread = 0; thread < kThreads; ++thread) {
      EXPECT_GE(found[thread], acknowledged[thread]);
      EXPECT_LE(found[thread], acknowledged[thread] + 1);
    }
  }
}

// Appends until the disk is full.
void Fill(OneLog& log, Records& records) {
  for (size_t i = 0;; ++i) {
    const Records more = {absl::StrCat(i), std::string(1000 + 7 * (i % 100), 'x')};
    const absl::Status status = log.Append(more);
    if (!status.ok()) {
      EXPECT_THAT(status, StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("space")));
      return;
    }
    AppendTo(records, more);
  }
}

TEST_F(LmdbJobLogsTest, AFullDiskLosesNothingAndGoesOnOnceThereIsSpace) {
  SmallDisk disk(3 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  const std::string other = disk.path() + "/other";
  WriteFile(other, std::string(1 << 20, 'o'));
  Records records;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(disk.path() + "/log"));
    Fill(*log, records);
    EXPECT_GT(records.size(), 100U);
    for (int i = 0; i < 3; ++i) {
      EXPECT_THAT(log->Append(Records(100, std::string(3000, 'y'))),
                  StatusIs(absl::StatusCode::kResourceExhausted, _));
      EXPECT_THAT(log->Replace(Records(700, std::string(3000, 'y'))),
                  StatusIs(absl::StatusCode::kResourceExhausted, _));
    }
    EXPECT_TRUE(log->ReadAll().value() == records);
    EXPECT_EQ(log->num_records(), records.size());
    std::filesystem::remove(other);
    const size_t before = records.size();
    Fill(*log, records);
    EXPECT_GT(records.size(), before + 100);
  }
  // Reopening on the full disk, too.
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(disk.path() + "/log"));
  EXPECT_TRUE(log->ReadAll().value() == records);
}

TEST_F(LmdbJobLogsTest, AReadOnlyDiskIsRead) {
  SmallDisk disk(8 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(disk.path()));
    EXPECT_FALSE(log->is_read_only());
    ASSERT_THAT(log->Append({"a", "b"}), IsOk());
  }
  if (!disk.MakeReadOnly()) GTEST_SKIP() << "cannot remount: " << std::strerror(errno);
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OpenLog(disk.path()));
  EXPECT_TRUE(log->is_read_only());
  const auto read_only = StatusIs(absl::StatusCode::kUnavailable, HasSubstr("Read-only"));
  EXPECT_THAT(log->Append({"c"}), read_only);
  EXPECT_THAT(log->Replace({"c"}), read_only);
  EXPECT_THAT(log->ReadAll().value(), ElementsAre("a", "b"));
  EXPECT_THAT(OpenLog(disk.path() + "/none"), StatusIs(absl::StatusCode::kUnavailable, _));
}

// A database that has nothing yet, not even a format, cannot get one.
TEST_F(LmdbJobLogsTest, AReadOnlyDiskGetsNoLogs) {
  SmallDisk disk(8 << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  ASSERT_THAT(LmdbEnvironment::Open(disk.path(), uint64_t{1} << 28), IsOk());
  if (!disk.MakeReadOnly()) GTEST_SKIP() << "cannot remount: " << std::strerror(errno);
  EXPECT_EQ(OpenLog(disk.path()).status(),
            absl::UnavailableError(absl::StrCat("store '", disk.path(),
                                                "': cannot create it: Read-only file system")));
}

}  // namespace
}  // namespace packhouse
