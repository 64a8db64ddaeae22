// Kinds of items that wings bring: what an epoch's batches are made of, if not of the graphs of a
// data set as they are. The engine has no kind by itself.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_ITEM_KIND_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_ITEM_KIND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

class DatasetReader;
class EpochTeller;
class LoadableEpoch;
class SamplingObserver;
struct EpochBounds;
struct EpochRequest;
struct EpochRule;

// What a kind keeps of a data set's version, for all its epochs. Immutable; thread-safe.
class KeptOfDataset {
 public:
  virtual ~KeptOfDataset() = default;
  virtual uint64_t bytes() const = 0;
};

// Plans the first window of an epoch, which decides how soon the first batch comes.
using PlanFirstWindow = std::function<absl::Status(std::shared_ptr<const LoadableEpoch> epoch)>;

// What an epoch is made of.
struct KindSources {
  using Kept = absl::StatusOr<std::shared_ptr<const KeptOfDataset>>;

  const EpochBounds& bounds;
  const Making& making;
  SamplingObserver* observer = nullptr;  // May be null.
  const PlanFirstWindow& plan_first;     // May be null.
  // Of the request's data set; shared.
  absl::FunctionRef<absl::StatusOr<std::shared_ptr<const DatasetReader>>()> open_reader;
  // What the kind keeps of that data set, made by `make` if it is not there.
  absl::FunctionRef<Kept(absl::FunctionRef<Kept()> make)> keep;
};

// What a request asks for of a kind. Immutable; thread-safe.
class ItemKind {
 public:
  virtual ~ItemKind() = default;

  // As the field of EpochSpec that asks for it: "samples".
  virtual absl::string_view name() const = 0;
  // A part of EpochRequest::Words().
  virtual std::string Words() const = 0;
  // Whether batches are mixed if nothing is said of it.
  virtual bool mixes() const = 0;
  // What does not go together with it, besides EngineRules().
  virtual absl::Span<const EpochRule> rules() const = 0;

  // What the items are of, if they are not of a data set.
  struct Thing {
    std::string name;
    uint64_t version = 0;
  };
  virtual std::optional<Thing> thing() const { return std::nullopt; }

  // An epoch of `request`, which has this kind. Errors of the kind; RESOURCE_EXHAUSTED and
  // CANCELLED as from.making.
  virtual absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Prepare(
      const EpochRequest& request, const KindSources& from) const = 0;
  // What this request wants of an epoch that another one with the same words may have prepared.
  virtual absl::Status Complete(const EpochRequest& /*request*/, const LoadableEpoch& /*epoch*/,
                                const Making& /*making*/) const {
    return absl::OkStatus();
  }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_ITEM_KIND_H_
