// Appends to a log with several threads until it is killed: log_until_killed FOLDER. Writes a line
// "WRITER APPEND" for each append once it is acknowledged. Goes on where the log says it was, and
// now and then puts all records in the place of themselves.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/ledger/lmdb/killed_records.h"
#include "tests/ledger/lmdb/one_log.h"

namespace {

constexpr uint64_t kAppendsToReplace = 5;

void Expect(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::_Exit(3);
}

void Replace(packhouse::RecordLog& log) {
  const auto records = log.ReadAll();
  Expect(records.status());
  Expect(log.Replace(*records));
}

void Append(packhouse::RecordLog& log, absl::Mutex& replacing, uint64_t writer,
            uint64_t next_append) {
  for (uint64_t append = next_append;; ++append) {
    if (writer == 0 && append % kAppendsToReplace == 0) {
      absl::WriterMutexLock lock(&replacing);
      Replace(log);
    }
    {
      absl::ReaderMutexLock lock(&replacing);
      Expect(log.Append(packhouse::KilledRecords(writer, append)));
    }
    const std::string line = absl::StrCat(writer, " ", append, "\n");
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) std::_Exit(4);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  packhouse::LmdbJobLogs::Options options;
  options.folder = argv[1];
  const auto log = packhouse::OneLog::Open(options);
  Expect(log.status());
  const auto records = (*log)->ReadAll();
  Expect(records.status());
  std::array<uint64_t, packhouse::kKilledWriters> next_append = {};
  for (const std::string& record : *records) {
    char* end = nullptr;
    const uint64_t writer = std::strtoull(record.c_str(), &end, 10);
    next_append.at(writer) = std::strtoull(end, nullptr, 10) + 1;
  }
  absl::Mutex replacing;
  std::vector<std::thread> threads;
  for (uint64_t writer = 0; writer < packhouse::kKilledWriters; ++writer) {
    threads.emplace_back([&, writer] { Append(**log, replacing, writer, next_append[writer]); });
  }
  for (std::thread& thread : threads) thread.join();
  return 0;
}
