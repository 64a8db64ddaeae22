// The format of a folder: a version alone under a key of its own, in a form that all versions
// share.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_STORE_FORMAT_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_STORE_FORMAT_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/datasets/lmdb/lmdb_transaction.h"

namespace packhouse {

// Versions before 2 had other values (format_1_values.h; format_1_events.h in ledger).
// LmdbDatasetStore::Upgrade() and LmdbRecordLog::Upgrade() convert them.
inline constexpr uint32_t kStoreFormatVersion = 2;
inline constexpr uint32_t kLogFormatVersion = 2;

// The version of an environment; nullopt if it is empty. FAILED_PRECONDITION naming the first key
// for a database of something else.
absl::StatusOr<std::optional<uint64_t>> ReadFormat(const LmdbEnvironment& environment,
                                                   absl::string_view key);

// Whether the environment has content, with this version. FAILED_PRECONDITION for another version,
// naming both; for an older one also the flag with which packhoused converts it.
absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version);

// Converts an environment in one transaction: after a crash it is either unchanged or converted.
// `convert` writes everything except the version. False if there was nothing to do: the environment
// is empty, or already has `version`. FAILED_PRECONDITION for a newer version, UNAVAILABLE for an
// older one that can only be read; errors of `convert`.
absl::StatusOr<bool> ConvertFormat(
    const LmdbEnvironment& environment, absl::string_view key, uint32_t version,
    absl::FunctionRef<absl::Status(LmdbTransaction& transaction)> convert);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_STORE_FORMAT_H_
