#include "client/cli/reports/ingest_progress.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/graph/byte_words.h"
#include "service/command_line/table.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kRateWindow = absl::Seconds(10);
constexpr std::size_t kBarWidth = 24;

}  // namespace

IngestProgress::IngestProgress(uint64_t graphs, uint64_t bytes, absl::Time start)
    : graphs_(graphs), bytes_(bytes), samples_({{start, 0}}) {}

void IngestProgress::Update(const IngestTotals& totals, absl::Time now) {
  totals_ = totals;
  samples_.push_back({now, totals.bytes});
  // The first sample that stays is the last one older than the window.
  while (samples_.size() > 2 && now - samples_[1].time >= kRateWindow) samples_.pop_front();
}

double IngestProgress::Share() const {
  return bytes_ == 0 ? 1 : static_cast<double>(totals_.bytes) / static_cast<double>(bytes_);
}

double IngestProgress::Rate() const {
  const double seconds = absl::ToDoubleSeconds(samples_.back().time - samples_.front().time);
  if (seconds <= 0) return 0;
  return static_cast<double>(samples_.back().bytes - samples_.front().bytes) / seconds;
}

std::string IngestProgress::TimeLeft() const {
  const double rate = Rate();
  if (rate <= 0) return "-:--";
  return ClockText(absl::Seconds(static_cast<double>(bytes_ - totals_.bytes) / rate));
}

std::string IngestProgress::Bar() const {
  const auto filled = static_cast<std::size_t>(Share() * kBarWidth);
  return absl::StrFormat("[%s%s] %5.1f %%  %s of %s graphs  %s  %s left", std::string(filled, '#'),
                         std::string(kBarWidth - filled, '-'), 100 * Share(),
                         Grouped(totals_.graphs_stored + totals_.graphs_present), Grouped(graphs_),
                         RateText(Rate()), TimeLeft());
}

std::string IngestProgress::Line() const {
  return absl::StrFormat("%s of %s graphs, %.1f %%, %s, %s left",
                         Grouped(totals_.graphs_stored + totals_.graphs_present), Grouped(graphs_),
                         100 * Share(), RateText(Rate()), TimeLeft());
}

std::string ClockText(absl::Duration duration) {
  const int64_t seconds = absl::ToInt64Seconds(absl::Ceil(duration, absl::Seconds(1)));
  const int64_t minutes = seconds / 60;
  if (minutes < 60) return absl::StrFormat("%d:%02d", minutes, seconds % 60);
  return absl::StrFormat("%d:%02d:%02d", minutes / 60, minutes % 60, seconds % 60);
}

}  // namespace packhouse::client
