// An epoch as delivery sees it: batches that are asked for by their numbers.
//
// PreparedEpoch (prepared_epoch.h) is one of a data set, whose batches are all known beforehand.
// SegmentedEpoch (segmented_epoch.h) is one of a data set that is larger than memory.
// Wings bring others (item_kind.h).
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_LOADABLE_EPOCH_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_LOADABLE_EPOCH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/planning/step_order.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/fresh_batches.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

class DatasetReader;
class EpochTeller;
class PreparedEpoch;
class SegmentedEpoch;
struct PlannerResult;

// A batch as it is sent.
struct BuiltBatch {
  Batch batch;
  // The index of its shape in the rank group.
  size_t shape = 0;
  // Sub-graphs that were drawn smaller than their spec says: ids and levels.
  std::vector<std::pair<uint64_t, uint32_t>> drawn_smaller;
};

// The graphs of a batch as they were before they became one: places in a reader.
struct GraphsOfBatch {
  std::shared_ptr<const DatasetReader> reader;
  std::vector<uint32_t> places;
};

// The windows of an epoch whose batches are not all known beforehand. Batches of a rank group are
// numbered window by window, from EpochIdentity::first_batches() on; a window is planned by itself,
// and its numbers of batches depend on the epoch's identity and the window's number alone.
// Thread-safe.
class EpochWindows {
 public:
  virtual ~EpochWindows() = default;

  virtual uint64_t num_windows() const = 0;
  // Numbers of batches of the first windows, by window, then rank group, as far as they are known
  // here.
  virtual std::vector<uint32_t> Counts() const = 0;
  // Takes numbers of the first windows that are known from elsewhere. FAILED_PRECONDITION naming
  // the window if they differ from those that are known here.
  virtual absl::Status Learn(absl::Span<const uint32_t> counts) const = 0;
  // The first window that Build() of one of these batches would have to plan first. All batches are
  // of windows whose numbers are known.
  virtual std::optional<uint64_t> FirstMissing(absl::Span<const uint64_t> batches) const = 0;
  // Plans a window, unless it has been planned of late. Those before it must be known. Takes
  // seconds. Errors of draws; RESOURCE_EXHAUSTED and CANCELLED as `making`.
  virtual absl::Status Plan(uint64_t window, const Making& making) const = 0;
};

// Immutable as seen from outside; thread-safe.
class LoadableEpoch {
 public:
  virtual ~LoadableEpoch() = default;

  virtual const EpochIdentity& identity() const = 0;
  // Of the batches' graphs.
  virtual const GraphSchema& schema() const = 0;
  // As EpochShapes: none takes all that an earlier one takes.
  virtual absl::Span<const BatchShape> shapes(size_t rank_group) const = 0;
  // Null if all batches are known: identity().num_batches() of them. Otherwise that is a bound.
  virtual const EpochWindows* windows() const { return nullptr; }
  // Null unless it is one.
  virtual const PreparedEpoch* prepared() const { return nullptr; }
  virtual const SegmentedEpoch* segmented() const { return nullptr; }

  // Tells clients what there is to tell of an epoch of its kind; the engine has it for those above.
  // Null: it is of the engine's own.
  virtual const EpochTeller* teller() const { return nullptr; }
  // What its shapes were found by, for the ledger: another server finds the same with it. Null if
  // the request alone decides them.
  virtual std::shared_ptr<const PlannerResult> planned() const { return nullptr; }
  // As EpochShapes::why().
  virtual std::string why_shapes() const { return {}; }

  // What a cache counts for it, and for what is kept for it alone. Of kinds of wings.
  virtual uint64_t kept_bytes() const { return 0; }

  // How often the graphs of a batch are together in the epoch before, too; of epoch 0, in epoch 1.
  // nullopt where it is not known: of draws, parts that are joined, windows that are planned as
  // they come, and where there is no memory to measure it. As long as the opening of an epoch; of
  // segments, as the first one. CANCELLED as `making`.
  virtual absl::StatusOr<std::optional<Company>> MeasureCompany(const Making& /*making*/) const {
    return std::nullopt;
  }
  // The same, if it has been measured.
  virtual std::optional<Company> known_company() const { return std::nullopt; }
  // How alike the batches of a step are; nullopt unless they are ordered by cost, and as long as
  // that is not known.
  virtual std::optional<StepFigures> steps() const { return std::nullopt; }

  // Of all batches, without padding.
  virtual uint64_t num_graphs() const = 0;
  // For a batch that is known.
  virtual uint64_t NumGraphs(uint64_t number) const = 0;
  // For one that is exported. Cost and errors as Build(). UNIMPLEMENTED for what is not exported.
  virtual absl::StatusOr<GraphsOfBatch> GraphsOf(uint64_t /*number*/) const {
    return absl::UnimplementedError("graphs of a batch: of an epoch that is not exported");
  }
  // Builds a batch that is known, with the same bytes each time. O(bytes of the batch), and the
  // planning of its window, if FirstMissing() gives it.
  virtual absl::StatusOr<BuiltBatch> Build(uint64_t number) const = 0;
  // A batch of padding only; without padding, an empty one.
  virtual absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_LOADABLE_EPOCH_H_
