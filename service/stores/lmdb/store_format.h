// The format of a folder, under a key of its own: a version, in a form that all versions share, and
// behind it the store's identity.
#ifndef PACKHOUSE_SERVICE_STORES_LMDB_STORE_FORMAT_H_
#define PACKHOUSE_SERVICE_STORES_LMDB_STORE_FORMAT_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_transaction.h"

namespace packhouse {

// Of the data sets, and of the logs. No release has written another version.
inline constexpr uint32_t kStoreFormatVersion = 2;
inline constexpr uint32_t kLogFormatVersion = 3;

struct StoreFormat {
  uint64_t version = 0;
  // A random number, never 0, drawn when the store is made, by which it is known from every other
  // one. 0 in stores that were made without.
  uint64_t identity = 0;
};

// The value of a new store, with an identity of its own.
std::string NewFormat(uint32_t version);
// DATA_LOSS if it has another length.
absl::StatusOr<StoreFormat> DecodeFormat(absl::string_view payload);
// Writes the format that is there once more, or a new one.
absl::Status TouchFormat(LmdbTransaction& transaction, absl::string_view key, uint32_t version);

// That of an environment; nullopt if it is empty. FAILED_PRECONDITION naming the first key for a
// database of something else.
absl::StatusOr<std::optional<StoreFormat>> ReadFormat(const LmdbEnvironment& environment,
                                                      absl::string_view key);

// The identity of the store in a folder that nobody has open; 0 if it cannot be read.
uint64_t ReadStoreIdentity(const std::string& folder, absl::string_view key);

// Whether the environment has content, with this version. FAILED_PRECONDITION for another version,
// naming both.
absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LMDB_STORE_FORMAT_H_
