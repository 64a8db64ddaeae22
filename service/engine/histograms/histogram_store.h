// Named size histograms, shared by all clients of a server. In memory; histogram_file.h keeps them.
#ifndef PACKHOUSE_SERVICE_ENGINE_HISTOGRAMS_HISTOGRAM_STORE_H_
#define PACKHOUSE_SERVICE_ENGINE_HISTOGRAMS_HISTOGRAM_STORE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/policy.h"
#include "service/algorithms/histograms/decaying_histogram.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/memory_budget.h"
#include "service/base/producer.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

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
  // Where servers share their histograms, of the store: it grows with each change. Else 0.
  uint64_t revision = 0;
};

struct KeptProducer {
  std::string name;
  ProducerHistory history;
};

// All of a histogram, for who stores it.
struct KeptHistogram {
  std::string name;
  SizeSchema schema;
  std::variant<SizeHistogram, DecayingHistogram> histogram;
  // What is remembered of producers, by name.
  std::vector<KeptProducer> producers;
  // How long nobody had used it.
  absl::Duration unused;
  // The memory of all this.
  MemoryHold memory = {};
};

// The effect of a change.
struct CountedGraphs {
  uint64_t counted = 0;     // 0 for a repetition.
  uint64_t num_graphs = 0;  // In the histogram now.
};

// Memory of histograms is reserved from a budget before they grow, and given back when they are
// deleted. Thread-safe; histograms do not wait for each other. Time comes from the caller.
//
// Those of a server that is alone. Where servers share them (wings/cluster/histograms),
// it is the server's copy of some, and the virtual calls wait for the store of the cluster.
class HistogramStore {
 public:
  struct Bounds {
    size_t max_histograms = 4096;
    size_t max_distinct = size_t{1} << 20;  // Per histogram.
    size_t max_producers = 4096;            // Per histogram: named ones.
    QuotasOf quotas_of = nullptr;           // Of namespaces; null: they have none.
  };
  static constexpr size_t kMaxNameLength = 128;
  // Of each producer. A client may wait until 1024 requests are answered by one response.
  static constexpr size_t kRememberedSequences = 1280;
  // Per histogram: producers whose names were made up for one call. They are forgotten when their
  // time is over and another one comes. Of each, fewer sequences are remembered.
  static constexpr size_t kMaxMadeUpProducers = size_t{1} << 16;
  static constexpr size_t kRememberedOfMadeUp = 128;

  // `memory` must outlive the store and every copy from Get(). Null: memory is not bounded.
  explicit HistogramStore(Bounds bounds, MemoryBudget* memory = nullptr)
      : bounds_(std::move(bounds)), memory_(memory) {}
  virtual ~HistogramStore() = default;
  HistogramStore(const HistogramStore&) = delete;
  HistogramStore& operator=(const HistogramStore&) = delete;

  // Components of a histogram; NOT_FOUND if there is none of this name.
  virtual absl::StatusOr<SizeSchema> SchemaOf(absl::string_view name) const;

  // Counts a table: all of it or, with an error, nothing. With an error, no histogram is created
  // either.
  //
  // INVALID_ARGUMENT for a bad name, half-life, producer name or table; FAILED_PRECONDITION if the
  // histogram has other components or another half-life; ALREADY_EXISTS as
  // ProducerHistory::IsRepetition(); RESOURCE_EXHAUSTED for a bound, which it names. For
  // --memory-budget it also names the histogram, the bytes that it would need more, and the bytes
  // that are held. Only new sizes need more memory.
  virtual absl::StatusOr<CountedGraphs> Observe(const HistogramKey& key, const SizesView& table,
                                                const std::optional<ProducerSequence>& producer,
                                                absl::Time now);
  // The same for who waits for nothing, and need not know the result: what is refused later may be
  // lost.
  virtual absl::Status ObserveSoon(const HistogramKey& key, const SizesView& table,
                                   absl::Time now) {
    return Observe(key, table, std::nullopt, now).status();
  }

  // Makes what ObserveSoon() has put off. The first error.
  virtual absl::Status Flush() { return absl::OkStatus(); }

  // Counts a histogram. Errors as Observe.
  virtual absl::StatusOr<CountedGraphs> Merge(const HistogramKey& key, const SizeHistogram& addend,
                                              const std::optional<ProducerSequence>& producer,
                                              absl::Time now);

  // Subtracts a histogram. Errors as Observe; NOT_FOUND if there is none of this name; OUT_OF_RANGE
  // if there are fewer graphs of some size; FAILED_PRECONDITION if the histogram has a half-life.
  virtual absl::StatusOr<CountedGraphs> Subtract(const HistogramKey& key,
                                                 const SizeHistogram& subtrahend,
                                                 const std::optional<ProducerSequence>& producer,
                                                 absl::Time now);

  // What is remembered of a producer; an empty history if nothing is, or there is no histogram.
  virtual absl::StatusOr<ProducerHistory> GetProducer(absl::string_view name,
                                                      absl::string_view producer) const;

  // A copy, decayed to `now`. Its memory stays reserved as long as it lives. NOT_FOUND;
  // RESOURCE_EXHAUSTED as Observe.
  virtual absl::StatusOr<HistogramSnapshot> Get(absl::string_view name, absl::Time now) const;

  // A copy of all of it, which is no use of it. Its memory stays reserved as long as it lives.
  // Errors as Get.
  absl::StatusOr<KeptHistogram> Keep(absl::string_view name, absl::Time now) const;
  // As Keep(), without a copy and its memory: other calls about this histogram wait until `use`
  // returns. NOT_FOUND; the error of `use`.
  absl::Status UseKept(absl::string_view name, absl::Time now,
                       absl::FunctionRef<absl::Status(const KeptHistogram& kept)> use) const;

  // Adds one that Keep() gave, maybe in another process. It goes on as the first one would have:
  // repetitions are known, and counts have decayed since; but the time in between is none in which
  // nobody used it. Bounds and quotas do not apply. INVALID_ARGUMENT for a bad name;
  // ALREADY_EXISTS; RESOURCE_EXHAUSTED as Observe.
  absl::Status PutBack(KeptHistogram kept, absl::Time now);

  // Grows with each change of a histogram, after it, and with each histogram that comes or goes.
  // What was put back is no change; a use after ten minutes without one is.
  uint64_t num_changes() const { return num_changes_.load(); }

  // NOT_FOUND.
  virtual absl::Status Delete(absl::string_view name);

  // Deletes each histogram that was neither changed nor read for as long as the retention of its
  // namespace says; none that a call is at work on. Gives what was deleted. O(histograms).
  std::vector<Expired> DeleteUnused(const Retention& retention, absl::Time now);

  size_t num_histograms() const;
  // The names of all of them, ascending. O(n log n).
  virtual absl::StatusOr<std::vector<std::string>> Names() const;
  // Of all namespaces that have any; of none where Names() fails.
  std::map<std::string, uint64_t> CountByNamespace() const;

 protected:
  // For stores that keep copies here.

  static absl::Status CheckKey(const HistogramKey& key);
  static absl::Status CheckProducer(const std::optional<ProducerSequence>& producer);
  // The sizes of a table for this histogram. INVALID_ARGUMENT.
  absl::StatusOr<SizeHistogram> SizesOf(const HistogramKey& key, const SizesView& table) const;
  // Why a change of the histogram, which may not be there, would be refused: errors of Observe()
  // and Subtract() within these bounds, except for memory. A repetition is for the caller to find.
  absl::Status CheckChange(const HistogramKey& key, const SizeHistogram& sizes, bool subtracts,
                           const std::optional<ProducerSequence>& producer, absl::Time now,
                           const Bounds& bounds) const;
  // The digests by which repetitions of a change are known.
  static uint32_t DigestOf(const SizesView& table);
  static uint32_t DigestOf(const SizeHistogram& sizes, bool subtracts);
  // Remembers a producer's change that was made without it. The histogram must be there. Errors as
  // Observe for memory.
  absl::Status Remember(absl::string_view name, const ProducerSequence& producer, uint32_t digest);
  // What is remembered of a producer, and all graphs.
  ProducerHistory HistoryOf(absl::string_view name, absl::string_view producer) const;
  uint64_t NumGraphsOf(absl::string_view name, absl::Time now) const;
  MemoryBudget* memory() const { return memory_; }

 private:
  struct Entry {
    Entry(const HistogramKey& key, absl::Time now);

    const SizeSchema schema;
    const absl::Duration half_life;
    mutable absl::Mutex mutex;
    std::variant<SizeHistogram, DecayingHistogram> histogram ABSL_GUARDED_BY(mutex);
    absl::flat_hash_map<std::string, ProducerHistory> producers ABSL_GUARDED_BY(mutex);
    // Those whose names were made up, by when they may be forgotten.
    std::set<std::pair<uint64_t, std::string>> made_up ABSL_GUARDED_BY(mutex);
    // The bytes of everything except the sizes; the hold is for all.
    uint64_t bytes_besides ABSL_GUARDED_BY(mutex) = 0;
    MemoryHold memory ABSL_GUARDED_BY(mutex);
    absl::Time used ABSL_GUARDED_BY(mutex);
  };

  absl::StatusOr<std::shared_ptr<Entry>> Find(absl::string_view name) const;

  // A producer, and the digest of its change.
  struct Sender {
    const std::optional<ProducerSequence>& producer;
    uint32_t digest = 0;
  };

  // Runs change(histogram variant, hold) once for each (producer, sequence). hold(num_distinct)
  // reserves the histogram's memory while it grows to that many sizes.
  template <typename Change>
  absl::StatusOr<CountedGraphs> Apply(absl::string_view name, Entry& entry, uint64_t num_graphs,
                                      const Sender& sender, absl::Time now, Change change);

  // The same for the histogram that `key` names. A missing histogram is created, unless the change
  // is refused. `change` may first run on a histogram that nobody sees, and then run again.
  template <typename Change>
  absl::StatusOr<CountedGraphs> ApplyTo(const HistogramKey& key, uint64_t num_graphs,
                                        const Sender& sender, absl::Time now, Change change);

  // Whether there is room for a new histogram. O(1), and O(histograms) with a quota.
  absl::Status CheckRoom(absl::string_view name) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status CheckMatches(const HistogramKey& key, const Entry& entry);

  // The caller has the entry's mutex.
  static std::vector<KeptProducer> ProducersByName(const Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);
  // RESOURCE_EXHAUSTED if there are too many for one more.
  static absl::Status CheckRoomFor(const Entry& entry, const ProducerSequence& producer,
                                   size_t max_named) ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);
  // The bytes that the producer takes more, once it is remembered.
  static uint64_t BytesToAdd(const Entry& entry, const ProducerSequence& producer)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);
  static void Add(const ProducerSequence& producer, uint32_t digest, Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);
  // Somebody uses the entry now, which is kept with it.
  void MarkUsed(Entry& entry, absl::Time now) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.mutex);

  // Reserves memory before an entry takes `bytes` in all. RESOURCE_EXHAUSTED, naming the entry.
  absl::Status HoldAll(absl::string_view name, uint64_t bytes, MemoryHold& memory) const;

  const Bounds bounds_;
  MemoryBudget* const memory_;
  mutable std::atomic<uint64_t> num_changes_ = 0;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Entry>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_HISTOGRAMS_HISTOGRAM_STORE_H_
