// Named size histograms, shared by all clients of a server. In memory.
#ifndef PACKHOUSE_SERVICE_HISTOGRAMS_HISTOGRAM_STORE_H_
#define PACKHOUSE_SERVICE_HISTOGRAMS_HISTOGRAM_STORE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/admission/memory_budget.h"
#include "service/histograms/decaying_histogram.h"
#include "service/histograms/size_histogram.h"
#include "service/sizes/size_schema.h"
#include "service/sizes/size_table.h"

namespace packhouse {

// Makes a retry harmless: a change is not counted again if its sequence number is not above the
// largest one counted for its producer.
struct ProducerSequence {
  std::string producer;
  uint64_t sequence = 0;
};

// Which histogram, and its properties. A missing histogram is created with these.
struct HistogramKey {
  std::string name;
  SizeSchema schema;
  // Infinite: observations count forever. Unset: that of the histogram; in a new one, observations
  // count forever.
  std::optional<absl::Duration> half_life = std::nullopt;
};

struct HistogramSnapshot {
  SizeSchema schema;
  SizeHistogram histogram;
  absl::Duration half_life;
  // The memory of the copy.
  MemoryHold memory = {};
};

// The effect of a change.
struct CountedGraphs {
  uint64_t counted = 0;     // 0 for a repetition.
  uint64_t num_graphs = 0;  // In the histogram now.
};

// Memory of histograms is reserved from a budget before they grow, and given back when they are
// deleted. Thread-safe; histograms do not wait for each other. Time comes from the caller.
class HistogramStore {
 public:
  struct Bounds {
    size_t max_histograms = 4096;
    size_t max_distinct = size_t{1} << 20;  // Per histogram.
    size_t max_producers = 4096;            // Per histogram.
  };
  static constexpr size_t kMaxNameLength = 128;

  // `memory` must outlive the store and every copy from Get(). Null: memory is not bounded.
  explicit HistogramStore(Bounds bounds, MemoryBudget* memory = nullptr)
      : bounds_(bounds), memory_(memory) {}

  // Components of a histogram; nullopt if there is none of this name.
  std::optional<SizeSchema> SchemaOf(absl::string_view name) const;

  // Counts a table: all of it or, with an error, nothing. With an error, no histogram is created
  // either.
  //
  // INVALID_ARGUMENT for a bad name, half-life, producer name or table; FAILED_PRECONDITION if the
  // histogram has other components or another half-life; RESOURCE_EXHAUSTED for a bound, which it
  // names. For --memory-budget it also names the histogram, the bytes that it would need more, and
  // the bytes that are held. Only new sizes need more memory.
  absl::StatusOr<CountedGraphs> Observe(const HistogramKey& key, const SizesView& table,
                                        const std::optional<ProducerSequence>& producer,
                                        absl::Time now);

  // Counts a histogram. Errors as Observe.
  absl::StatusOr<CountedGraphs> Merge(const HistogramKey& key, const SizeHistogram& addend,
                                      const std::optional<ProducerSequence>& producer,
                                      absl::Time now);

  // Subtracts a histogram. Errors as Observe; NOT_FOUND if there is none of this name; OUT_OF_RANGE
  // if there are fewer graphs of some size; FAILED_PRECONDITION if the histogram has a half-life.
  absl::StatusOr<CountedGraphs> Subtract(const HistogramKey& key, const SizeHistogram& subtrahend,
                                         const std::optional<ProducerSequence>& producer,
                                         absl::Time now);

  // A copy, decayed to `now`. Its memory stays reserved as long as it lives. NOT_FOUND;
  // RESOURCE_EXHAUSTED as Observe.
  absl::StatusOr<HistogramSnapshot> Get(absl::string_view name, absl::Time now) const;

  // NOT_FOUND.
  absl::Status Delete(absl::string_view name);

  size_t num_histograms() const;

 private:
  struct Entry {
    Entry(const HistogramKey& key, absl::Time now);

    const SizeSchema schema;
    const absl::Duration half_life;
    mutable absl::Mutex mutex;
    std::variant<SizeHistogram, DecayingHistogram> histogram ABSL_GUARDED_BY(mutex);
    absl::flat_hash_map<std::string, uint64_t> last_sequence ABSL_GUARDED_BY(mutex);
    // The bytes of everything except the sizes; the hold is for all.
    uint64_t bytes_besides ABSL_GUARDED_BY(mutex) = 0;
    MemoryHold memory ABSL_GUARDED_BY(mutex);
  };

  absl::StatusOr<std::shared_ptr<Entry>> Find(absl::string_view name) const;

  // Runs change(histogram variant, hold) once for each (producer, sequence). hold(num_distinct)
  // reserves the histogram's memory while it grows to that many sizes.
  template <typename Change>
  absl::StatusOr<CountedGraphs> Apply(absl::string_view name, Entry& entry, uint64_t num_graphs,
                                      const std::optional<ProducerSequence>& producer,
                                      absl::Time now, Change change);

  // The same for the histogram that `key` names. A missing histogram is created, unless the change
  // is refused. `change` may first run on a histogram that nobody sees, and then run again.
  template <typename Change>
  absl::StatusOr<CountedGraphs> ApplyTo(const HistogramKey& key, uint64_t num_graphs,
                                        const std::optional<ProducerSequence>& producer,
                                        absl::Time now, Change change);

  static absl::Status CheckMatches(const HistogramKey& key, const Entry& entry);

  // Reserves memory before an entry takes `bytes` in all. RESOURCE_EXHAUSTED, naming the entry.
  absl::Status HoldAll(absl::string_view name, uint64_t bytes, MemoryHold& memory) const;

  const Bounds bounds_;
  MemoryBudget* const memory_;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_HISTOGRAMS_HISTOGRAM_STORE_H_
