// A Pack stream that is watched: finds changes of sizes, and tells what they cost.
#ifndef PACKHOUSE_SERVICE_SERVER_SERVICES_STREAM_DRIFT_H_
#define PACKHOUSE_SERVICE_SERVER_SERVICES_STREAM_DRIFT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "packhouse/v1/packing.pb.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/memory_budget.h"
#include "service/engine/streams/drift_judgement.h"
#include "service/engine/streams/drift_watch.h"
#include "service/engine/streams/pack_observer.h"
#include "service/server/calls/call_planning.h"

namespace packhouse {

// One stream's watch, with one search at a time. Thread-compatible.
class StreamDrift {
 public:
  struct Options {
    uint64_t num_graphs = DriftWatch::kDefaultGraphs;
    double min_loss = 0.02;
  };
  // Nullopt if the stream is not to be watched. INVALID_ARGUMENT naming the field.
  static absl::StatusOr<std::optional<Options>> OptionsFromWire(const v1::PackOpen& open);

  // `allowed`: the profile that the stream's graphs must fit, if it has one. The pointees must
  // outlive this and its searches; `working` and `planning` may be null: memory is not bounded, and
  // searches run within Next(). `observer` must outlive this. RESOURCE_EXHAUSTED if there is no
  // memory for the watch.
  static absl::StatusOr<std::unique_ptr<StreamDrift>> Create(
      const Options& options, std::shared_ptr<const GraphSchema> schema,
      std::optional<DeviceProfile> allowed, MemoryBudget* working,
      std::shared_ptr<StreamPlanning> planning, PackObserver* observer);

  // The stream's shapes, and how others are searched. Called once, before Next().
  void SetShapes(DriftSearch search) { search_ = std::move(search); }
  // What shapes were chosen from, if it was not the first graphs that are observed.
  absl::Status SetReference(DriftReference reference);

  // The next graphs that came, in the order in which they came.
  absl::Status Observe(const SizeTable& sizes);
  // The same before the shapes are chosen. The first `num_counted` of those that the profile allows
  // are in the reference.
  void ObserveWhileChoosing(const SizeTable& sizes, uint64_t num_counted);

  // Begins the search for a change that was found, and ends it. The message to send, if there is
  // one.
  std::optional<v1::PackDrifted> Next();

  double min_loss() const { return options_.min_loss; }
  bool is_searching() const { return search_outcome_ != nullptr; }
  // Changes that are to be judged after the search that goes on. The stream has to wait: what is
  // told depends on the graphs alone.
  bool has_change() const { return watch_.has_change(); }

 private:
  struct Outcome {
    absl::Mutex mutex;
    std::optional<absl::StatusOr<DriftJudgement>> judgement ABSL_GUARDED_BY(mutex);
  };

  StreamDrift(const Options& options, std::shared_ptr<const GraphSchema> schema,
              std::optional<DeviceProfile> allowed, MemoryBudget* working,
              std::shared_ptr<StreamPlanning> planning, PackObserver* observer, MemoryHold memory)
      : options_(options),
        schema_(std::move(schema)),
        allowed_(std::move(allowed)),
        working_(working),
        planning_(std::move(planning)),
        observer_(observer),
        memory_(std::move(memory)),
        watch_(schema_->num_components(), options.num_graphs, allowed_) {}

  void Begin();
  v1::PackDrifted ToWire(const DriftJudgement& judgement) const;

  const Options options_;
  const std::shared_ptr<const GraphSchema> schema_;
  const std::optional<DeviceProfile> allowed_;
  MemoryBudget* const working_;
  const std::shared_ptr<StreamPlanning> planning_;
  PackObserver* const observer_;
  const MemoryHold memory_;

  DriftWatch watch_;
  DriftSearch search_;
  // Graphs that came before the shapes were chosen, and are not in the reference.
  std::optional<SizeTable> later_;
  size_t num_skipped_ = 0;
  uint64_t num_before_ = 0;
  // While a search goes on: its change.
  SizeChange change_;
  std::vector<double> change_means_;
  std::shared_ptr<Outcome> search_outcome_;
  bool has_told_ = false;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_SERVICES_STREAM_DRIFT_H_
