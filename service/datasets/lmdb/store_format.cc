#include "service/datasets/lmdb/store_format.h"

#include <cerrno>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/datasets/lmdb/checked_value.h"

namespace packhouse {
namespace {

absl::Status Named(const LmdbEnvironment& environment, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("store '", environment.folder(), "': ", status.message()));
}

absl::Status AnotherVersion(uint64_t found, uint32_t version) {
  const std::string both =
      absl::StrCat("format version ", found, ", this packhoused reads version ", version);
  if (found > version) return absl::FailedPreconditionError(both);
  return absl::FailedPreconditionError(
      absl::StrCat(both,
                   "; to convert it, run packhoused --upgrade-store once with the same "
                   "--data-dir"));
}

}  // namespace

absl::StatusOr<std::optional<uint64_t>> ReadFormat(const LmdbEnvironment& environment,
                                                   absl::string_view key) {
  const auto read = [&]() -> absl::StatusOr<std::optional<uint64_t>> {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                        LmdbTransaction::Begin(environment, LmdbTransaction::Kind::kRead));
    PH_ASSIGN_OR_RETURN(const auto format, transaction.Get(key));
    if (format) return DecodeNumber(*format);
    PH_ASSIGN_OR_RETURN(const LmdbCursor cursor,
                        LmdbCursor::At(transaction, absl::string_view("\0", 1)));
    if (!cursor.valid()) return std::nullopt;
    return absl::FailedPreconditionError(
        absl::StrCat("it is an LMDB database of something else, its first key is '",
                     absl::CHexEscape(cursor.key()), "'"));
  };
  auto result = read();
  if (result.ok()) return result;
  return Named(environment, result.status());
}

absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version) {
  PH_ASSIGN_OR_RETURN(const std::optional<uint64_t> found, ReadFormat(environment, key));
  if (!found) return false;
  if (*found == version) return true;
  return Named(environment, AnotherVersion(*found, version));
}

absl::StatusOr<bool> ConvertFormat(
    const LmdbEnvironment& environment, absl::string_view key, uint32_t version,
    absl::FunctionRef<absl::Status(LmdbTransaction& transaction)> convert) {
  PH_ASSIGN_OR_RETURN(const std::optional<uint64_t> found, ReadFormat(environment, key));
  if (!found || *found == version) return false;
  if (*found > version) return Named(environment, AnotherVersion(*found, version));
  if (environment.is_read_only()) return environment.StatusOf(EROFS, "cannot convert it");
  PH_ASSIGN_OR_RETURN(LmdbTransaction transaction,
                      LmdbTransaction::Begin(environment, LmdbTransaction::Kind::kWrite));
  PH_RETURN_IF_ERROR(convert(transaction));
  PH_RETURN_IF_ERROR(transaction.Put(key, EncodeNumber(version)));
  PH_RETURN_IF_ERROR(transaction.Commit());
  return true;
}

}  // namespace packhouse
