#include "tests/ledger/record_log_laws.h"

#include <algorithm>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

void AddTo(LogRecords& records, const LogRecords& more) {
  records.insert(records.end(), more.begin(), more.end());
}

// Numbered, so that no two are equal.
LogRecords NumberedRecords(Random& random, uint64_t& next) {
  LogRecords records(random.Below(4) + 1);
  for (std::string& record : records)
    record = absl::StrCat(next++, std::string(random.Below(50), 'x'));
  return records;
}

std::unique_ptr<RecordLog> OpenPatiently(const OpenLogAgain& open) {
  for (int i = 0; i < 1000; ++i) {
    auto log = open();
    if (log.ok()) return *std::move(log);
  }
  ADD_FAILURE() << "the log does not open";
  return nullptr;
}

}  // namespace

LogRecords RandomLogRecords(Random& random, size_t max_records, size_t max_bytes) {
  LogRecords records(random.Below(max_records + 1));
  for (std::string& record : records) {
    record.resize(random.Below(random.Below(10) == 0 ? max_bytes : 100));
    for (char& c : record) c = static_cast<char>(random.Next());
  }
  return records;
}

void TestIsAListThatLasts(const OpenLogAgain& open, uint64_t seed, int steps) {
  Random random(seed);
  PH_ASSERT_OK_AND_ASSIGN(auto log, open());
  LogRecords model;
  // Logs of other jobs that are gone may have raised it.
  PH_ASSERT_OK_AND_ASSIGN(uint64_t mark, log->mark());
  for (int step = 0; step < steps; ++step) {
    const uint64_t choice = random.Below(11);
    if (choice < 7) {
      const LogRecords more = RandomLogRecords(random, 12);
      ASSERT_THAT(log->Append(more), IsOk());
      AddTo(model, more);
    } else if (choice < 8) {
      model = RandomLogRecords(random, model.size() + 1);
      ASSERT_THAT(log->Replace(model), IsOk());
    } else if (choice < 9) {
      const uint64_t of_log = random.Below(1000);
      ASSERT_THAT(log->Erase(of_log), IsOk());
      model.clear();
      mark = std::max(mark, of_log);
      log = nullptr;
      PH_ASSERT_OK_AND_ASSIGN(log, open());
      ASSERT_EQ(log->mark().value(), mark);
    } else {
      log = nullptr;
      PH_ASSERT_OK_AND_ASSIGN(log, open());
    }
    PH_ASSERT_OK_AND_ASSIGN(const LogRecords records, log->ReadAll());
    ASSERT_TRUE(records == model) << step;
  }
}

void TestManyThreadsAppend(const OpenLogAgain& open, size_t threads, size_t appends) {
  PH_ASSERT_OK_AND_ASSIGN(auto log, open());
  std::vector<std::thread> running;
  for (size_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      for (size_t i = 0; i < appends; ++i) {
        LogRecords records;
        for (size_t part = 0; part <= i % 3; ++part) {
          records.push_back(absl::StrCat(thread, "/", i, "/", part));
        }
        ASSERT_THAT(log->Append(records), IsOk());
        if (i % 8 == 0) {
          ASSERT_THAT(log->ReadAll(), IsOk());
        }
      }
    });
  }
  for (std::thread& thread : running) thread.join();
  log = nullptr;
  PH_ASSERT_OK_AND_ASSIGN(log, open());
  PH_ASSERT_OK_AND_ASSIGN(const LogRecords records, log->ReadAll());
  std::vector<size_t> next(threads);
  for (size_t at = 0; at < records.size();) {
    const size_t thread = static_cast<size_t>(records[at][0] - '0');
    const size_t i = next[thread]++;
    for (size_t part = 0; part <= i % 3; ++part) {
      ASSERT_EQ(records[at++], absl::StrCat(thread, "/", i, "/", part));
    }
  }
  EXPECT_THAT(next, testing::Each(appends));
}

void TestLosesNothingAcknowledged(const OpenLogAgain& open, uint64_t seed, int steps) {
  Random random(seed);
  std::unique_ptr<RecordLog> log = OpenPatiently(open);
  uint64_t next = 0;
  uint64_t mark = 0;
  LogRecords model;
  for (int step = 0; step < steps && log != nullptr; ++step) {
    LogRecords changed = model;
    absl::Status status;
    if (random.Below(12) == 0) {
      changed.clear();
      const uint64_t of_log = mark + random.Below(3);
      status = log->Erase(of_log);
      if (status.ok()) {
        mark = of_log;
        log = nullptr;
        log = OpenPatiently(open);
        if (log == nullptr) return;
      }
    } else if (random.Below(8) != 0) {
      const LogRecords more = NumberedRecords(random, next);
      AddTo(changed, more);
      status = log->Append(more);
    } else {
      const auto first = static_cast<ptrdiff_t>(random.Below(changed.size() + 1));
      changed.erase(changed.begin(), changed.begin() + first);
      status = log->Replace(changed);
    }
    if (status.ok()) {
      model = changed;
    } else if (log->Append({}).ok()) {
      // It goes on: then it was a refusal, and nothing has changed.
      changed = model;
    }
    if (status.ok() && random.Below(6) != 0) continue;
    LogRecords records;
    for (bool is_read = false; !is_read && log != nullptr;) {
      if (!status.ok() || random.Below(2) == 0) {
        log = nullptr;
        log = OpenPatiently(open);
        if (log == nullptr) return;
      }
      const auto read = log->ReadAll();
      is_read = read.ok();
      if (is_read) records = *read;
    }
    ASSERT_GE(log->mark().value(), mark) << step;
    ASSERT_TRUE(records == model || records == changed)
        << step << ": " << records.size() << " records, neither the " << model.size()
        << " before nor the " << changed.size() << " after " << status;
    model = std::move(records);
  }
}

void TestHasAsManyBytesAsItMay(const OpenBounded& open) {
  const LogRecords three(3, std::string(1000, 'x'));
  const BoundedLog large = open(1 << 20);
  ASSERT_THAT(large.log->Append(three), IsOk());
  const uint64_t needed = large.num_bytes();
  for (const bool fits : {true, false}) {
    const uint64_t bound = fits ? needed : needed - 1;
    const BoundedLog bounded = open(bound);
    RecordLog& log = *bounded.log;
    const auto is_refused = StatusIs(absl::StatusCode::kResourceExhausted,
                                     ::testing::HasSubstr(absl::StrCat("at most ", bound)));
    EXPECT_EQ(log.Append(three).ok(), fits);
    const LogRecords kept = fits ? three : LogRecords();
    EXPECT_THAT(log.Append(three), is_refused);
    EXPECT_THAT(log.ReadAll(), IsOkAndHolds(kept));
    EXPECT_EQ(log.Replace(three).ok(), fits);
    EXPECT_THAT(log.Replace(LogRecords(4, three[0])), is_refused);
    EXPECT_THAT(log.ReadAll(), IsOkAndHolds(kept));
    EXPECT_THAT(log.Replace({three[0]}), IsOk());
    EXPECT_THAT(log.Append({"", three[0]}), IsOk());
    EXPECT_THAT(log.ReadAll(), IsOkAndHolds(LogRecords{three[0], "", three[0]}));
  }
}

}  // namespace packhouse
