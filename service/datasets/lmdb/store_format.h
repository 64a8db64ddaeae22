// Which format a folder has: a version by itself, under a key of its own, in a form that all
// versions share.
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

// Versions before 2 had values of their own making (format_1_values.h, format_1_events.h in
// ledger); LmdbDatasetStore::Upgrade() and LmdbRecordLog::Upgrade() convert them.
inline constexpr uint32_t kStoreFormatVersion = 2;
inline constexpr uint32_t kLogFormatVersion = 2;

// The version that an environment has; nothing if it is empty. FAILED_PRECONDITION naming the first
// key for a database of something else.
absl::StatusOr<std::optional<uint64_t>> ReadFormat(const LmdbEnvironment& environment,
                                                   absl::string_view key);

// Whether there is something in the environment: then it has this version. FAILED_PRECONDITION
// naming both for another one, and, for an older one, the flag by which packhoused converts it.
absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version);

// Converts an environment in one transaction: after a crash it is as it was, or done. `convert`
// writes all but the version. False if there was nothing to do: it is empty, or has `version`
// already. FAILED_PRECONDITION for a newer version, UNAVAILABLE for an older one that can only be
// read; errors of `convert`.
absl::StatusOr<bool> ConvertFormat(
    const LmdbEnvironment& environment, absl::string_view key, uint32_t version,
    absl::FunctionRef<absl::Status(LmdbTransaction& transaction)> convert);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_STORE_FORMAT_H_
