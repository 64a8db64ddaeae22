// LmdbDatasetStore::Upgrade().
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "service/base/status_macros.h"
#include "service/datasets/lmdb/checked_value.h"
#include "service/datasets/lmdb/format_1_values.h"
#include "service/datasets/lmdb/lmdb_dataset_store.h"
#include "service/datasets/lmdb/lmdb_environment.h"
#include "service/datasets/lmdb/lmdb_transaction.h"
#include "service/datasets/lmdb/store_format.h"
#include "service/datasets/lmdb/stored_keys.h"

namespace packhouse {
namespace {

// The keys of all values that are converted; records, which are most of a store, stay as they are.
absl::StatusOr<std::vector<std::string>> KeysOfValues(const LmdbTransaction& transaction) {
  std::vector<std::string> keys;
  for (const absl::string_view prefix :
       {kNamePrefix, kStatePrefix, kHistogramPrefix, kProducerPrefix, kTombstonePrefix}) {
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
    while (cursor.valid() && absl::StartsWith(cursor.key(), prefix)) {
      keys.emplace_back(cursor.key());
      PH_RETURN_IF_ERROR(cursor.Next());
    }
  }
  return keys;
}

}  // namespace

absl::StatusOr<bool> LmdbDatasetStore::Upgrade(const Options& options) {
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<LmdbEnvironment> environment,
                      LmdbEnvironment::Open(options.folder, MapBytes(options.max_bytes)));
  return ConvertFormat(*environment, FormatKey(), kStoreFormatVersion,
                       [&](LmdbTransaction& transaction) -> absl::Status {
                         PH_ASSIGN_OR_RETURN(const std::vector<std::string> keys,
                                             KeysOfValues(transaction));
                         for (const std::string& key : keys) {
                           const auto payload = transaction.Get(key);
                           // A damaged value stays damaged: calls that need it still get DATA_LOSS.
                           if (absl::IsDataLoss(payload.status()) && environment->failure().ok())
                             continue;
                           PH_RETURN_IF_ERROR(payload.status());
                           if (!*payload) continue;
                           auto converted = FromFormat1(key, **payload);
                           if (absl::IsDataLoss(converted.status())) continue;
                           PH_RETURN_IF_ERROR(converted.status());
                           if (*converted)
                             PH_RETURN_IF_ERROR(transaction.Put(key, **std::move(converted)));
                         }
                         return absl::OkStatus();
                       });
}

}  // namespace packhouse
