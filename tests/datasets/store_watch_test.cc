#include "service/stores/datasets/store_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/stores/lmdb/datasets_cut.h"
#include "service/stores/lmdb/lmdb_dataset_store.h"
#include "tests/datasets/stored_files.h"
#include "tests/ledger/lmdb/one_log.h"
#include "tests/support/random_graphs.h"
#include "tests/support/recorded_log.h"
#include "tests/support/small_disk.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoreWatchTest : public ::testing::Test {
 protected:
  void End(std::optional<absl::Status> outcome, absl::Status first_failure = absl::OkStatus()) {
    CommitSummary summary;
    summary.outcome = std::move(outcome);
    summary.first_failure = std::move(first_failure);
    watch_.OnCommitBegin();
    watch_.OnCommitEnd(summary);
  }

  RecordedLog lines_;
  LimitedLog log_{&lines_, [] { return absl::UnixEpoch(); }};
  StoreWatch watch_{"datasets", nullptr, &log_};
};

// It fails from the first commit that the disk refuses to the next that it takes.
TEST_F(StoreWatchTest, FailsUntilACommitGoesThrough) {
  EXPECT_THAT(watch_.failure(), IsOk());
  End(absl::OkStatus());
  EXPECT_THAT(lines_.lines(), IsEmpty());
  End(absl::UnavailableError("the disk is gone"));
  EXPECT_THAT(watch_.failure(), StatusIs(absl::StatusCode::kUnavailable, HasSubstr("gone")));
  End(std::nullopt);
  EXPECT_THAT(watch_.failure(), StatusIs(absl::StatusCode::kUnavailable, _));
  End(absl::OkStatus());
  EXPECT_THAT(watch_.failure(), IsOk());
  EXPECT_THAT(
      lines_.lines(),
      ElementsAre(R"(error "event":"commit failed","store":"datasets","code":"UNAVAILABLE",)"
                  R"("message":"the disk is gone")",
                  R"(info "event":"commits go through again","store":"datasets")"));
}

// What it has heard.
class HeardCommits final : public CommitObserver {
 public:
  void OnCommitBegin() override { heard += "begin "; }
  void OnCommitEnd(const CommitSummary& summary) override {
    absl::StrAppend(&heard, "end ", summary.num_changes, " ");
  }
  void OnStoreBytes(uint64_t num_bytes) override { absl::StrAppend(&heard, "bytes ", num_bytes); }
  std::string heard;
};

TEST_F(StoreWatchTest, WhoWatchesBesideItHearsTheSame) {
  HeardCommits next;
  StoreWatch watch("datasets", &next, &log_);
  CommitSummary summary;
  summary.num_changes = 3;
  watch.OnCommitBegin();
  watch.OnCommitEnd(summary);
  watch.OnStoreBytes(70);
  EXPECT_EQ(next.heard, "begin end 3 bytes 70");
}

// The largest change that failed, until one goes through.
TEST_F(StoreWatchTest, RemembersTheLargestChangeThatFailed) {
  EXPECT_EQ(watch_.failed_bytes(), 0U);
  for (const auto& [bytes, most] :
       std::vector<std::pair<uint64_t, uint64_t>>{{5, 5}, {9, 9}, {7, 9}}) {
    CommitSummary summary;
    summary.outcome = absl::UnavailableError("the disk is gone");
    summary.largest_change = bytes;
    watch_.OnCommitEnd(summary);
    EXPECT_EQ(watch_.failed_bytes(), most);
  }
  End(absl::OkStatus());
  EXPECT_EQ(watch_.failed_bytes(), 0U);
}

TEST_F(StoreWatchTest, AChangeThatFindsNoRoomIsLoggedAndNoFailure) {
  End(std::nullopt, absl::ResourceExhaustedError("--max-store-bytes"));
  EXPECT_THAT(watch_.failure(), IsOk());
  EXPECT_THAT(lines_.lines(),
              ElementsAre(R"(warning "event":"change refused","store":"datasets",)"
                          R"("code":"RESOURCE_EXHAUSTED","message":"--max-store-bytes")"));
}

TEST_F(StoreWatchTest, AStoreTriesOnDemand) {
  const TemporaryFolder folder{TemporaryFolder::InMemory()};
  LmdbDatasetStore::Options datasets;
  datasets.folder = folder.path() + "/datasets";
  datasets.max_bytes = uint64_t{1} << 24;
  datasets.observer = &watch_;
  PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(datasets));
  End(absl::UnavailableError("the disk is gone"));
  EXPECT_THAT(store->TryCommit(0), IsOk());
  EXPECT_THAT(watch_.failure(), IsOk());

  LmdbJobLogs::Options ledger;
  ledger.folder = folder.path() + "/ledger";
  ledger.observer = &watch_;
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OneLog::Open(ledger));
  EXPECT_THAT(log->Append({"a"}), IsOk());
  End(absl::UnavailableError("the disk is gone"));
  EXPECT_THAT(log->TryCommit(0), IsOk());
  EXPECT_THAT(watch_.failure(), IsOk());
  EXPECT_THAT(log->ReadAll().value(), ElementsAre("a"));
  EXPECT_EQ(log->num_records(), 1);
}

// Any page of a tree goes bad while the store is open: each call is told, or what it answers is
// right, and never a part of it.
TEST(LmdbDatasetStorePagesTest, APageThatGoesBadIsToldOrNotNeeded) {
  const GraphSchema schema =
      GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}})
          .value();
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  LmdbDatasetStore::Options options;
  options.folder = folder.path();
  options.max_bytes = uint64_t{1} << 28;
  const auto chunk_of = [&](uint64_t seed) {
    Random random(seed);
    return RandomChunk(random, &schema, 3, 9, seed);
  };
  constexpr uint64_t kRecords = 60;
  const auto name_of = [](int i) { return absl::StrCat(std::string(100, 'd'), "/", 100 + i); };
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
    for (int i = 0; i < 60; ++i) ASSERT_THAT(store->Create(name_of(i), schema, {}), IsOk());
    for (uint64_t i = 1; i <= kRecords; ++i) {
      const ProducerSequence producer = {absl::StrCat(std::string(60, 'p'), i), 1};
      ASSERT_THAT(store->Append(name_of(7), chunk_of(i), {}, producer), IsOk());
    }
  }
  const std::string sound = ReadFile(DataFile(folder.path()));
  const std::string zeros(kPage, '\0');
  size_t num_told = 0;
  for (const size_t page : TreePages(sound)) {
    if (page < 2) continue;
    SCOPED_TRACE(page);
    WriteFile(DataFile(folder.path()), sound);
    PH_ASSERT_OK_AND_ASSIGN(const auto store, LmdbDatasetStore::Open(options));
    const int fd = ::open(DataFile(folder.path()).c_str(), O_WRONLY | O_CLOEXEC);
    ASSERT_EQ(::pwrite(fd, zeros.data(), kPage, static_cast<off_t>(page * kPage)),
              static_cast<ssize_t>(kPage));
    ::close(fd);
    const auto is_right = [&](const absl::Status& status) {
      // A transaction that came to a bad page reads nothing more: MDB_BAD_TXN.
      EXPECT_TRUE(status.ok() || absl::IsDataLoss(status) || absl::IsInternal(status)) << status;
      num_told += status.ok() ? 0 : 1;
      return status.ok();
    };
    if (const auto list = store->List(0, ""); is_right(list.status())) {
      EXPECT_EQ(list->datasets.size(), 60U);
    }
    const std::string name = name_of(7);
    if (const auto info = store->Get(name); is_right(info.status())) {
      EXPECT_EQ(info->num_records, kRecords);
    }
    if (const auto sizes = store->GetHistogram(name); is_right(sizes.status())) {
      EXPECT_EQ(sizes->num_graphs(), 3 * kRecords);
    }
    if (const auto report = store->Verify(name, [](const VerifyProgress&) { return true; });
        is_right(report.status()) && report->ok()) {
      EXPECT_EQ(report->num_records, kRecords);
    }
    if (const auto reader = store->OpenReader(name); is_right(reader.status())) {
      EXPECT_EQ((*reader)->num_graphs(), 3 * kRecords);
      EXPECT_THAT((*reader)->unreadable(), IsEmpty());
    }
    uint64_t num_values = 0;
    const auto count = [&](absl::string_view, absl::string_view) {
      ++num_values;
      return absl::OkStatus();
    };
    if (const auto cut = store->TakeCut(count); is_right(cut.status())) {
      // The format, 60 names and states, and the runs and producers of the one.
      EXPECT_EQ(num_values, 1 + 60 + 60 + kRecords + kRecords);
    }
    for (const int i : {7, 8}) {
      const ProducerSequence again = {absl::StrCat(std::string(60, 'p'), 30), 1};
      const auto appended = store->Append(name_of(i), chunk_of(30), {}, again);
      if (is_right(appended.status())) {
        EXPECT_EQ(appended->is_repetition, i == 7);
      }
    }
    if (const auto sealed = store->Seal(name); is_right(sealed.status())) {
      EXPECT_EQ(sealed->num_records, kRecords);
    }
    is_right(store->Delete(name_of(9)));
  }
  EXPECT_GT(num_told, 20U);
}

// A disk that is full, until somebody makes room.
TEST_F(StoreWatchTest, ADiskThatIsFullIsNoticedAndItsRecoveryToo) {
  SmallDisk disk(size_t{3} << 20);
  if (!disk.is_mounted()) GTEST_SKIP() << "cannot mount a tmpfs: " << disk.error();
  const std::string other = disk.path() + "/other";
  std::ofstream(other) << std::string(1 << 20, 'o');
  LmdbJobLogs::Options options;
  options.folder = disk.path() + "/ledger";
  options.observer = &watch_;
  PH_ASSERT_OK_AND_ASSIGN(const auto log, OneLog::Open(options));
  while (log->Append({std::string(100'000, 'x')}).ok()) {
  }
  EXPECT_THAT(watch_.failure(), StatusIs(absl::StatusCode::kResourceExhausted, _));
  EXPECT_THAT(lines_.lines().front(),
              AllOf(HasSubstr("commit failed"), HasSubstr("no space left on the disk")));
  // Small changes may find room yet; one like that which failed would not.
  EXPECT_GE(watch_.failed_bytes(), 100'000);
  EXPECT_THAT(log->TryCommit(watch_.failed_bytes()),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("no room for")));
  EXPECT_THAT(watch_.failure(), StatusIs(absl::StatusCode::kResourceExhausted, _));
  std::filesystem::remove(other);
  EXPECT_THAT(log->TryCommit(watch_.failed_bytes()), IsOk());
  EXPECT_THAT(watch_.failure(), IsOk());
  EXPECT_THAT(lines_.lines().back(), HasSubstr("commits go through again"));
}

}  // namespace
}  // namespace packhouse
