// The laws of every record log. A world of a log opens it, and again after the process that had it
// has ended.
#ifndef PACKHOUSE_TESTS_LEDGER_RECORD_LOG_LAWS_H_
#define PACKHOUSE_TESTS_LEDGER_RECORD_LOG_LAWS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "service/stores/logs/record_log.h"
#include "tests/support/random.h"

namespace packhouse {

using LogRecords = std::vector<std::string>;

// Records of all kinds: empty, small, larger than a page of a disk; each up to `max_bytes`.
LogRecords RandomLogRecords(Random& random, size_t max_records, size_t max_bytes = 20000);

// Opens the log of one place, as the only process that has it. The previous log, if there was one,
// has been destroyed.
using OpenLogAgain = std::function<absl::StatusOr<std::unique_ptr<RecordLog>>()>;

// Against a vector, through appends, replacements, erasures and new processes. `steps`: how many.
void TestIsAListThatLasts(const OpenLogAgain& open, uint64_t seed, int steps = 60);

// Appends of `threads` threads are each whole, and in the order of their thread.
void TestManyThreadsAppend(const OpenLogAgain& open, size_t threads, size_t appends);

// A log that fails now and then, in each way that it may. What it said it has stored is stored,
// what it refused is not, and what it did not know is stored as a whole, once, or not at all.
// `open` may fail, and is then called again.
void TestLosesNothingAcknowledged(const OpenLogAgain& open, uint64_t seed, int steps = 40);

// A new log of at most so many bytes, and how many it has.
struct BoundedLog {
  std::unique_ptr<RecordLog> log;
  std::function<uint64_t()> num_bytes;
};
using OpenBounded = std::function<BoundedLog(uint64_t max_bytes)>;

// It has exactly as many bytes as it may, and refuses one more; what is to come counts, not what
// goes.
void TestHasAsManyBytesAsItMay(const OpenBounded& open);

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_LEDGER_RECORD_LOG_LAWS_H_
