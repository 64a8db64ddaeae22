// The progress of an ingest, in words and as a bar.
#ifndef PACKHOUSE_CLIENT_CLI_REPORTS_INGEST_PROGRESS_H_
#define PACKHOUSE_CLIENT_CLI_REPORTS_INGEST_PROGRESS_H_

#include <cstdint>
#include <deque>
#include <string>

#include "absl/time/time.h"
#include "client/cli/ingest.h"

namespace packhouse::client {

// The rate is that of the last seconds: graphs that were already there would make it too high.
// Times must not go back. Not thread-safe.
class IngestProgress {
 public:
  // `graphs` and `bytes` are those of the source.
  IngestProgress(uint64_t graphs, uint64_t bytes, absl::Time start);

  void Update(const IngestTotals& totals, absl::Time now);

  // `[######------]  50.0 %  16,450 of 32,901 graphs  31.5 MB/s  0:07 left`, for a terminal.
  std::string Bar() const;
  // `16,450 of 32,901 graphs, 50.0 %, 31.5 MB/s, 0:07 left`, for a log.
  std::string Line() const;

 private:
  struct Sample {
    absl::Time time;
    uint64_t bytes;
  };

  // In [0, 1].
  double Share() const;
  // Bytes per second; 0 if not known yet.
  double Rate() const;
  std::string TimeLeft() const;

  const uint64_t graphs_;
  const uint64_t bytes_;
  IngestTotals totals_;
  // Samples of the last seconds, at least one.
  std::deque<Sample> samples_;
};

// `0:07`, `12:30`, `3:05:09`; rounded up to seconds.
std::string ClockText(absl::Duration duration);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CLI_REPORTS_INGEST_PROGRESS_H_
