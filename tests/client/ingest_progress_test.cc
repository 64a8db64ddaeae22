#include "client/cli/reports/ingest_progress.h"

#include "gtest/gtest.h"

namespace packhouse::client {
namespace {

const absl::Time kStart = absl::UnixEpoch();

TEST(IngestProgressTest, ABarOfWhatIsDurable) {
  IngestProgress progress(2000, 100'000'000, kStart);
  EXPECT_EQ(progress.Bar(),
            "[------------------------]   0.0 %  0 of 2,000 graphs  0.0 MB/s  -:-- left");
  progress.Update({.graphs_stored = 400, .graphs_present = 600, .bytes = 50'000'000},
                  kStart + absl::Seconds(2));
  EXPECT_EQ(progress.Bar(),
            "[############------------]  50.0 %  1,000 of 2,000 graphs  25.0 MB/s  0:02 left");
  EXPECT_EQ(progress.Line(), "1,000 of 2,000 graphs, 50.0 %, 25.0 MB/s, 0:02 left");
  progress.Update({.graphs_stored = 1400, .graphs_present = 600, .bytes = 100'000'000},
                  kStart + absl::Seconds(4));
  EXPECT_EQ(progress.Bar(),
            "[########################] 100.0 %  2,000 of 2,000 graphs  25.0 MB/s  0:00 left");
}

TEST(IngestProgressTest, TheRateForgetsWhatWasFastLongAgo) {
  IngestProgress progress(1, 1'000'000'000, kStart);
  progress.Update({.bytes = 500'000'000}, kStart + absl::Seconds(1));
  for (int second = 2; second <= 30; ++second) {
    progress.Update({.bytes = 500'000'000 + 1'000'000 * static_cast<uint64_t>(second)},
                    kStart + absl::Seconds(second));
  }
  EXPECT_EQ(progress.Line(), "0 of 1 graphs, 53.0 %, 1.0 MB/s, 7:50 left");
}

TEST(IngestProgressTest, NothingToDoIsDone) {
  EXPECT_EQ(IngestProgress(0, 0, kStart).Line(), "0 of 0 graphs, 100.0 %, 0.0 MB/s, -:-- left");
}

TEST(ClockTextTest, RoundsUpAndGrows) {
  EXPECT_EQ(ClockText(absl::ZeroDuration()), "0:00");
  EXPECT_EQ(ClockText(absl::Milliseconds(1)), "0:01");
  EXPECT_EQ(ClockText(absl::Seconds(59)), "0:59");
  EXPECT_EQ(ClockText(absl::Seconds(3599)), "59:59");
  EXPECT_EQ(ClockText(absl::Hours(27) + absl::Seconds(5)), "27:00:05");
}

}  // namespace
}  // namespace packhouse::client
