// The process that has the log is killed (-9) at random moments, appending and replacing.
// Afterwards everything it acknowledged is there, in order, and nothing is there by half or twice.
#include <cstdio>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/datasets/killed_process.h"
#include "tests/ledger/lmdb/killed_records.h"
#include "tests/ledger/lmdb/one_log.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

constexpr int kKills = 40;

TEST(LogCrashTest, WhatWasAcknowledgedSurvivesEveryKill) {
  TemporaryFolder folder;
  std::set<std::pair<uint64_t, uint64_t>> acknowledged;  // (writer, append).
  Random random(1);
  for (int round = 0; round < kKills; ++round) {
    SCOPED_TRACE(testing::Message() << "kill " << round);
    std::vector<std::string> lines;
    RunAndKill(PACKHOUSE_LOG_UNTIL_KILLED, folder.path(), round == 0 ? 0 : random.Below(16), lines);
    for (const std::string& line : lines) {
      unsigned long long writer = 0;
      unsigned long long append = 0;
      ASSERT_EQ(std::sscanf(line.c_str(), "%llu %llu", &writer, &append), 2) << line;
      EXPECT_TRUE(acknowledged.emplace(writer, append).second) << line << "acknowledged twice";
    }

    LmdbJobLogs::Options options;
    options.folder = folder.path();
    PH_ASSERT_OK_AND_ASSIGN(const auto log, OneLog::Open(options));
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<std::string> records, log->ReadAll());
    EXPECT_EQ(log->num_records(), records.size());
    std::vector<uint64_t> next_append(kKilledWriters);
    for (size_t i = 0; i < records.size();) {
      unsigned long long writer = 0;
      ASSERT_EQ(std::sscanf(records[i].c_str(), "%llu", &writer), 1);
      ASSERT_LT(writer, kKilledWriters);
      // The whole append that this writer's turn it was.
      for (const std::string& expected : KilledRecords(writer, next_append[writer])) {
        ASSERT_LT(i, records.size());
        ASSERT_TRUE(records[i] == expected) << "record " << i;
        ++i;
      }
      ++next_append[writer];
    }
    for (const auto& [writer, append] : acknowledged) {
      ASSERT_LT(append, next_append[writer]) << "of writer " << writer << " is lost";
    }
  }
  EXPECT_GT(acknowledged.size(), 100U);
  RecordProperty("kills", kKills);
  RecordProperty("acknowledged", static_cast<int>(acknowledged.size()));
}

}  // namespace
}  // namespace packhouse
