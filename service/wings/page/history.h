// The last hour of a server, in samples.
#ifndef PACKHOUSE_SERVICE_WINGS_PAGE_HISTORY_H_
#define PACKHOUSE_SERVICE_WINGS_PAGE_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/engine/jobs/delivery_snapshot.h"
#include "service/wings/page/json.h"

namespace packhouse::page {

// Totals of batches handed out since the server started.
struct ServedTotals {
  struct Rows {
    std::string component;
    uint64_t real = 0;
    uint64_t padding = 0;
  };

  uint64_t batches = 0;
  uint64_t graphs = 0;
  uint64_t bytes = 0;
  std::vector<Rows> components;
};

// Keeps samples of the last hour: some 150 KiB, and some KiB for each epoch that is loaded.
// Thread-safe; no clock of its own.
class History {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(5);
  static constexpr size_t kMostSamples = 720;
  // The components that are remembered, in the order in which they came.
  static constexpr size_t kMostComponents = 8;
  // The epochs whose pace is known, and the samples of it: of the last five minutes.
  static constexpr size_t kMostEpochs = 64;
  static constexpr size_t kMostPaceSamples = 60;
  // The points of a series.
  static constexpr size_t kMostPoints = 120;

  // To be called every kInterval. `progress`: of the epochs that somebody loads now.
  void Add(absl::Time now, const ServedTotals& totals, const std::vector<EpochProgress>& progress);

  // Batches of an epoch that became done, a second, lately; nullopt if that is not known.
  std::optional<double> BatchesPerSecond(const EpochKey& key) const;

  // {"rates": {"batches", "graphs", "bytes"} a second in the last 15 seconds, "components":
  // [{"component", "efficiency_now", "efficiency_hour"}] (null: no rows), "series": {"seconds":
  // [ends of the intervals, before `now`, at most 0], "batches", "graphs", "bytes": [a second],
  // "efficiency": {component: [...]}}, "span_seconds"}. `totals` are those of now, which come after
  // the last sample.
  Json ToJson(absl::Time now, const ServedTotals& totals) const;

 private:
  struct Rows {
    uint64_t real = 0;
    uint64_t padding = 0;
  };
  struct Sample {
    absl::Time time;
    uint64_t batches = 0;
    uint64_t graphs = 0;
    uint64_t bytes = 0;
    std::array<Rows, kMostComponents> components = {};
  };
  struct PaceSample {
    absl::Time time;
    uint64_t done = 0;
  };

  // Null: no rows.
  static Json EfficiencyJson(const Sample& from, const Sample& to, size_t component);
  // `components` gets those that were not known.
  static Sample SampleOf(absl::Time now, const ServedTotals& totals,
                         std::vector<std::string>& components);

  mutable absl::Mutex mutex_;
  std::vector<std::string> components_ ABSL_GUARDED_BY(mutex_);
  std::deque<Sample> samples_ ABSL_GUARDED_BY(mutex_);
  std::map<EpochKey, std::deque<PaceSample>> paces_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::page

#endif  // PACKHOUSE_SERVICE_WINGS_PAGE_HISTORY_H_
