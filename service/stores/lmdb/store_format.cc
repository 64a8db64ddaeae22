#include "service/stores/lmdb/store_format.h"

#include <cerrno>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/checked_value.h"

namespace packhouse {
namespace {

absl::Status Named(const LmdbEnvironment& environment, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("store '", environment.folder(), "': ", status.message()));
}

constexpr size_t kNumberBytes = sizeof(uint64_t);

}  // namespace

std::string NewFormat(uint32_t version) {
  std::random_device device;
  uint64_t identity = 0;
  while (identity == 0) identity = uint64_t{device()} << 32 | device();
  return EncodeNumber(version) + EncodeNumber(identity);
}

absl::StatusOr<StoreFormat> DecodeFormat(absl::string_view payload) {
  StoreFormat format;
  PH_ASSIGN_OR_RETURN(format.version, DecodeNumber(payload.substr(0, kNumberBytes)));
  if (payload.size() == kNumberBytes) return format;
  PH_ASSIGN_OR_RETURN(format.identity, DecodeNumber(payload.substr(kNumberBytes)));
  return format;
}

absl::Status TouchFormat(LmdbTransaction& transaction, absl::string_view key, uint32_t version) {
  PH_ASSIGN_OR_RETURN(const auto format, transaction.Get(key));
  return transaction.Put(key, format ? std::string(*format) : NewFormat(version));
}

absl::StatusOr<std::optional<StoreFormat>> ReadFormat(const LmdbEnvironment& environment,
                                                      absl::string_view key) {
  const auto read = [&]() -> absl::StatusOr<std::optional<StoreFormat>> {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                        LmdbTransaction::Begin(environment, LmdbTransaction::Kind::kRead));
    PH_ASSIGN_OR_RETURN(const auto format, transaction.Get(key));
    if (format) return DecodeFormat(*format);
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

uint64_t ReadStoreIdentity(const std::string& folder, absl::string_view key) {
  // The file is mapped as a whole if it is larger.
  constexpr uint64_t kLeastMapOfReader = uint64_t{1} << 28;
  const auto environment = LmdbEnvironment::Open(folder, kLeastMapOfReader);
  if (!environment.ok()) return 0;
  const auto format = ReadFormat(**environment, key);
  return format.ok() && *format ? (*format)->identity : 0;
}

absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version) {
  PH_ASSIGN_OR_RETURN(const std::optional<StoreFormat> found, ReadFormat(environment, key));
  if (!found) return false;
  if (found->version == version) return true;
  return Named(environment, absl::FailedPreconditionError(
                                absl::StrCat("format version ", found->version,
                                             ", this packhoused reads version ", version)));
}

}  // namespace packhouse
