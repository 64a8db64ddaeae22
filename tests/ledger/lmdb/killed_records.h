// What log_until_killed appends: the process that is killed and the test that looks afterwards both
// know it.
#ifndef PACKHOUSE_TESTS_LEDGER_LMDB_KILLED_RECORDS_H_
#define PACKHOUSE_TESTS_LEDGER_LMDB_KILLED_RECORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/random.h"

namespace packhouse {

inline constexpr uint64_t kKilledWriters = 3;

// The records of one append: from one small one to some of many pages. Each says whose it is.
inline std::vector<std::string> KilledRecords(uint64_t writer, uint64_t append) {
  Random random(writer << 32 | append);
  std::vector<std::string> records(random.Between(1, 5));
  for (size_t i = 0; i < records.size(); ++i) {
    const size_t bytes = random.Below(8) == 0 ? random.Below(20000) : random.Below(100);
    records[i] = absl::StrCat(writer, " ", append, " ", i, " ");
    for (size_t j = 0; j < bytes; ++j) records[i].push_back(static_cast<char>(random.Next()));
  }
  return records;
}

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_LEDGER_LMDB_KILLED_RECORDS_H_
