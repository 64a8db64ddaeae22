// The streams that are open and the sizes of their graphs, for people who look at a server.
#ifndef PACKHOUSE_SERVICE_ENGINE_STREAMS_LIVE_STREAMS_H_
#define PACKHOUSE_SERVICE_ENGINE_STREAMS_LIVE_STREAMS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/memory_budget.h"
#include "service/base/seeded_random.h"

namespace packhouse {

// The sizes of graphs that come one after the other: of all of them as long as they are few, then
// of as many as there is room for, each set of so many being equally likely (Vitter 1985, R).
// Thread-compatible.
class SizeSample {
 public:
  static constexpr uint64_t kMostBytes = uint64_t{64} << 10;
  // Graphs that it keeps.
  static size_t MostGraphs(size_t num_components);

  // `memory`, which must outlive it, is asked before the sample grows; if there is no room without
  // that others give something up, the sample stays as small as it is. Null: there is room.
  SizeSample(size_t num_components, uint64_t seed, MemoryBudget* memory);

  // O(l) for each graph that is kept, else O(1).
  void Add(const SizesView& sizes);

  uint64_t num_seen() const { return num_seen_; }

  // The graphs that it keeps.
  struct Kept {
    size_t num_components = 0;
    size_t num_graphs = 0;
    std::vector<uint32_t> counts;  // Row-major.

    SizeHistogram Histogram() const;
  };
  // O(kMostBytes).
  Kept kept() const { return {num_components_, num_kept_, counts_}; }

 private:
  // Makes room for one more, if it may.
  void Grow();

  const size_t num_components_;
  SeededRandom random_;
  MemoryBudget* const memory_;
  MemoryHold hold_;
  // Graphs that there is room for, and that there may ever be.
  size_t capacity_ = 0;
  size_t most_;
  size_t num_kept_ = 0;
  uint64_t num_seen_ = 0;
  std::vector<uint32_t> counts_;  // Row-major.
};

// Thread-safe. A stream's thread waits at most until its sample is copied.
class LiveStreams {
 public:
  struct Stream {
    // Of no other stream, also not of an earlier or another server: links have it. Below 2^53, as
    // browsers take it.
    uint64_t number = 0;
    std::string client;
    std::string principal;  // Empty: the client has none.
    std::string name;       // What the stream names, in whose namespace it is; may be empty.
    absl::Time opened;
    std::vector<std::string> components;
    uint64_t num_graphs = 0;  // That have come.
  };
  struct Sizes {
    Stream stream;
    SizeSchema schema;
    SizeHistogram sample;
  };
  struct Caller {
    std::string client;
    std::string principal;
  };

  // A stream, until it is destroyed. The list must outlive it.
  class Place {
   public:
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    void Observe(const SizesView& sizes);

   private:
    friend class LiveStreams;
    struct Entry;
    Place(LiveStreams* all, std::shared_ptr<Entry> entry);

    LiveStreams* const all_;
    const std::shared_ptr<Entry> entry_;
  };

  // `memory` as for SizeSample.
  explicit LiveStreams(MemoryBudget* memory);
  LiveStreams(const LiveStreams&) = delete;
  LiveStreams& operator=(const LiveStreams&) = delete;

  std::unique_ptr<Place> Enter(Caller caller, absl::string_view name, const SizeSchema& schema,
                               absl::Time now);

  // The longest open first.
  std::vector<Stream> List() const;
  // NOT_FOUND if it has ended.
  absl::StatusOr<Sizes> Find(uint64_t number) const;
  // The same answer for a stream that may not be seen.
  static absl::Status NoSuchStream(uint64_t number);

 private:
  static Stream ReadStream(const Place::Entry& entry);

  MemoryBudget* const memory_;
  mutable absl::Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::shared_ptr<Place::Entry>> streams_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_STREAMS_LIVE_STREAMS_H_
