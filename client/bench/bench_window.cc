#include "client/bench/bench_window.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/bench/process_usage.h"

namespace packhouse::client {
namespace {

constexpr absl::Duration kBeginTimeout = absl::Minutes(1);
constexpr absl::Duration kPoll = absl::Milliseconds(1);

// The clock ends the window, not a count: slow and fast measures take the same time.
void CountWindow(const BenchStream& stream, int64_t begin, int64_t end, RunSample& sample) {
  const int64_t* before = nullptr;
  double bytes = 0;
  for (const Arrival& arrival : stream.arrivals()) {
    if (arrival.nanos >= end) break;
    if (arrival.nanos >= begin) {
      ++sample.messages;
      sample.bytes += arrival.bytes;
      sample.graphs += arrival.graphs;
      bytes += arrival.bytes;
      if (before != nullptr) {
        sample.gap_milliseconds.push_back(static_cast<double>(arrival.nanos - *before) /
                                          kNanosPerMillisecond);
      }
    }
    before = &arrival.nanos;
  }
  sample.stream_bytes.push_back(bytes);
  for (const int64_t nanos : stream.opening_nanos()) {
    sample.opening_milliseconds.push_back(static_cast<double>(nanos) / kNanosPerMillisecond);
  }
}

}  // namespace

Window::Window(pid_t server)
    : server_(server),
      machine_cpu_(MachineCpuTime()),
      server_cpu_(CpuTimeOf(server)),
      own_cpu_(OwnCpuTime()),
      begin_(MonotonicNanos()) {}

int64_t Window::End(RunSample& sample) const {
  const int64_t end = MonotonicNanos();
  sample.seconds = static_cast<double>(end - begin_) / 1e9;
  sample.client_cpu_seconds = absl::ToDoubleSeconds(OwnCpuTime() - own_cpu_);
  sample.server_cpu_seconds = absl::ToDoubleSeconds(CpuTimeOf(server_) - server_cpu_);
  sample.server_peak_bytes = PeakMemoryOf(server_);
  const double others = absl::ToDoubleSeconds(MachineCpuTime() - machine_cpu_) -
                        sample.client_cpu_seconds - sample.server_cpu_seconds;
  const double cores = std::max(1U, std::thread::hardware_concurrency());
  sample.others_share = std::max(0.0, others / cores / sample.seconds);
  return end;
}

absl::StatusOr<RunSample> RunStreams(pid_t server, std::size_t num_streams, absl::Duration seconds,
                                     MakeStream make) {
  std::vector<std::unique_ptr<BenchStream>> streams;
  for (std::size_t i = 0; i < num_streams; ++i) streams.push_back(make(i));
  ResetPeakMemory(server);
  for (const auto& stream : streams) stream->Start();
  const absl::Time deadline = absl::Now() + kBeginTimeout;
  bool is_late = false;
  for (const auto& stream : streams) {
    while (!is_late && !stream->has_begun() && !stream->has_ended()) {
      absl::SleepFor(kPoll);
      is_late = absl::Now() > deadline;
    }
  }
  // Buffers and windows grow at first.
  absl::SleepFor(std::min(seconds / 4, absl::Milliseconds(200)));

  RunSample sample;
  const Window window(server);
  absl::SleepFor(seconds);
  const int64_t end = window.End(sample);

  for (const auto& stream : streams) stream->Cancel();
  absl::Status failure;
  for (const auto& stream : streams) failure.Update(stream->Wait());
  if (!failure.ok()) return failure;
  if (is_late) {
    return absl::DeadlineExceededError(
        absl::StrCat("a stream had not begun after ", absl::FormatDuration(kBeginTimeout)));
  }
  for (const auto& stream : streams) CountWindow(*stream, window.begin(), end, sample);
  return sample;
}

absl::StatusOr<RunSample> RunQuietly(double max_others, absl::Duration patience,
                                     absl::FunctionRef<absl::StatusOr<RunSample>()> run) {
  const absl::Time end = absl::Now() + patience;
  absl::StatusOr<RunSample> best = run();
  while (best.ok() && best->others_share > max_others && absl::Now() < end) {
    absl::StatusOr<RunSample> again = run();
    if (!again.ok() || again->others_share < best->others_share) best = std::move(again);
  }
  return best;
}

}  // namespace packhouse::client
