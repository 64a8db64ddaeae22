// Kinds of epochs that wings bring, as clients ask for them and are told of them.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_EPOCH_KINDS_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_EPOCH_KINDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/jobs/joining.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// Constant; thread-safe.
class EpochTeller {
 public:
  virtual ~EpochTeller() = default;
  // Adds what there is to tell of an epoch of the kind to what is told of all.
  virtual void Tell(const LoadableEpoch& epoch, const EpochProgress& progress,
                    v1::Epoch& wire) const = 0;
};

// What a request is opened with.
struct KindOpening {
  const v1::EpochSpec& spec;
  const DatasetStore& datasets;
  MemoryBudget* working = nullptr;         // Null: nothing is counted.
  MemoryHold& memory;                      // Gets the memory of the spec's lists.
  const MeasuredModels* models = nullptr;  // As OpenEpochRequest() has it.
  // CANCELLED rather than to wait until something is fetched.
  bool at_once = false;
};

// Constant; thread-safe.
class EpochKindReader {
 public:
  virtual ~EpochKindReader() = default;
  // The field of EpochSpec that asks for it: ItemKind::name().
  virtual absl::string_view name() const = 0;
  // What the spec asks for, as OpenEpochRequest().
  virtual absl::StatusOr<EpochRequest> Open(const KindOpening& opening) const = 0;
  // Notes that the spec of a request of another kind asks for this one, too: its rules refuse that.
  virtual void AddTo(EpochRequest& request) const = 0;
  // Of what epochs of the kind are of now, if that is no data set (ItemKind::thing()). NOT_FOUND.
  virtual absl::StatusOr<uint64_t> VersionOf(absl::string_view /*thing*/) const {
    return absl::NotFoundError("its epochs are of data sets");
  }
};

// In the order in which a spec that asks for several is opened.
struct EpochKinds {
  std::vector<const EpochKindReader*> readers;
  // Of kinds that are not there: the field, and why.
  std::vector<std::pair<std::string, std::string>> absent;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_EPOCH_KINDS_H_
