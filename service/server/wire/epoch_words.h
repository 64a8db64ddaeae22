// The words with which an epoch is asked for: opened, kept by the ledger, read again.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_EPOCH_WORDS_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_EPOCH_WORDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "service/algorithms/planning/feedback/measured_model.h"
#include "service/algorithms/sizes/size_schema.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_identity.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/server/wire/epoch_kinds.h"
#include "service/stores/datasets/dataset_store.h"

namespace packhouse {

// What the spec asks for. The schema of the data set, or of what one of `kinds` opens, names the
// components; null: there are none. `memory` holds the memory of the spec's lists. Devices of a job
// are as `models` has measured them; null: nothing is measured. `at_once` as KindOpening has it.
// Errors: NOT_FOUND, INVALID_ARGUMENT, those of the kind, UNIMPLEMENTED naming one that there is
// not, and RESOURCE_EXHAUSTED as `working`.
absl::StatusOr<EpochRequest> OpenEpochRequest(const v1::EpochSpec& spec,
                                              const DatasetStore& datasets, const EpochKinds* kinds,
                                              MemoryBudget* working, MemoryHold& memory,
                                              const MeasuredModels* models = nullptr,
                                              bool at_once = false);

// Devices of a job are as `models`, which may be null, has measured them; others are left.
void TakeMeasured(const SizeSchema& schema, const MeasuredModels* models, EpochRequest& request);

// EpochWorded::words of a spec; empty if they are too long to be kept.
std::string WordsOf(const v1::EpochSpec& spec);

// The spec of an epoch of these words, by a job, with another number if need be. INVALID_ARGUMENT
// if they are no spec.
absl::StatusOr<v1::EpochSpec> SpecOfWords(absl::string_view words, const EpochKey& key);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_EPOCH_WORDS_H_
