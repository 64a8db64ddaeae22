#include "service/stores/objects/object_store.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status BadKey(absl::string_view what, absl::string_view key) {
  return absl::InvalidArgumentError(absl::StrCat(
      "object: ", what, " '", absl::CHexEscape(key.substr(0, ObjectStore::kMaxKeyLength)),
      "' is not 1 to ", ObjectStore::kMaxKeyLength,
      " characters of [A-Za-z0-9_./-] without empty parts, '.' and '..'"));
}

bool HasOnlyKeyCharacters(absl::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.' && c != '/' &&
        c != '-') {
      return false;
    }
  }
  return true;
}

bool IsPart(absl::string_view part) { return !part.empty() && part != "." && part != ".."; }

}  // namespace

absl::Status CheckObjectKey(absl::string_view key) {
  if (key.empty() || key.size() > ObjectStore::kMaxKeyLength || !HasOnlyKeyCharacters(key)) {
    return BadKey("key", key);
  }
  for (const absl::string_view part : absl::StrSplit(key, '/')) {
    if (!IsPart(part)) return BadKey("key", key);
  }
  return absl::OkStatus();
}

absl::Status CheckObjectPrefix(absl::string_view prefix) {
  if (prefix.size() > ObjectStore::kMaxKeyLength || !HasOnlyKeyCharacters(prefix)) {
    return BadKey("prefix", prefix);
  }
  const std::vector<absl::string_view> parts = absl::StrSplit(prefix, '/');
  // The last part may be the beginning of one.
  for (size_t i = 0; i + 1 < parts.size(); ++i) {
    if (!IsPart(parts[i])) return BadKey("prefix", prefix);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadObject(ObjectStore& store, absl::string_view key,
                                       const ByteRange& range, uint64_t max_bytes,
                                       absl::Time deadline) {
  std::string bytes;
  const auto sink = [&](absl::string_view piece) -> absl::Status {
    if (piece.size() > max_bytes - bytes.size()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("object '", key, "': more than ", max_bytes, " bytes"));
    }
    bytes.append(piece.data(), piece.size());
    return absl::OkStatus();
  };
  PH_RETURN_IF_ERROR(store.Get(key, range, sink, deadline));
  return bytes;
}

}  // namespace packhouse
