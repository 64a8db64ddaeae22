#include "service/datasets/object/store_identity.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/datasets/object/object_values.h"

namespace packhouse {
namespace {

// Behind the number in the key until the object is known to be there.
constexpr absl::string_view kNotBound = " not bound";
constexpr uint64_t kMaxIdentityBytes = 64;

struct Identities {
  std::string of_keys;  // Empty: none.
  bool is_bound = false;
  Revision revision = 0;
  std::string of_objects;  // Empty: none.
};

absl::StatusOr<Identities> ReadIdentities(const ObjectEngines& engines) {
  Identities read;
  PH_ASSIGN_OR_RETURN(const auto keys, ReadRanges(engines, {KeyRange::Of(kStoreIdentityKey)}));
  if (!keys[0].values.empty()) {
    absl::string_view value = keys[0].values[0].value;
    read.is_bound = !absl::ConsumeSuffix(&value, kNotBound);
    read.of_keys = std::string(value);
    read.revision = keys[0].values[0].mod_revision;
  }
  auto object =
      ReadObject(*engines.objects, kStoreIdentityObject, {}, kMaxIdentityBytes, engines.Deadline());
  if (object.ok()) {
    read.of_objects = *std::move(object);
  } else if (!absl::IsNotFound(object.status())) {
    return AsUnavailable(object.status());
  }
  return read;
}

absl::Status AreOthers(const Identities& read) {
  const auto named = [](const std::string& identity) {
    return identity.empty() ? "none" : absl::CHexEscape(identity);
  };
  return absl::FailedPreconditionError(
      absl::StrCat("the object store and the key-value store do not belong together: the object '",
                   kStoreIdentityObject, "' has the number ", named(read.of_objects), ", the key '",
                   kStoreIdentityKey, "' has ", named(read.of_keys)));
}

}  // namespace

absl::Status BindStores(const ObjectEngines& engines) {
  absl::Status last;
  for (int failures = 0; failures <= engines.max_attempts; ++failures) {
    if (failures != 0) engines.BackOff(failures - 1);
    PH_ASSIGN_OR_RETURN(const Identities read, ReadIdentities(engines));
    if (read.is_bound && read.of_keys == read.of_objects) return absl::OkStatus();
    // The key is always written first: who finds the object alone has lost the key.
    if (read.is_bound || (!read.of_objects.empty() && read.of_objects != read.of_keys)) {
      return AreOthers(read);
    }
    std::string value = read.of_keys;
    if (read.of_keys.empty()) {
      value = absl::StrCat(absl::Hex(engines.draw(), absl::kZeroPad16), kNotBound);
    } else if (read.of_objects.empty()) {
      PH_RETURN_IF_ERROR(AsUnavailable(
          engines.objects->Put(kStoreIdentityObject, read.of_keys, engines.Deadline())));
      continue;  // Reads it: servers with another key-value store may do the same now.
    }
    Transaction transaction;
    transaction.compares.push_back(Compare::ModRevision(kStoreIdentityKey, read.revision));
    transaction.then.push_back(Operation::Put(kStoreIdentityKey, value));
    last = engines.keys->Commit(transaction).status();
    if (!last.ok() && !absl::IsUnavailable(last) && !OutcomeIsUnknown(last)) {
      return AsUnavailable(last);
    }
  }
  return absl::UnavailableError(
      absl::StrCat("the object store and the key-value store were not bound: ", last.message()));
}

absl::Status CheckStoresAreBound(const ObjectEngines& engines) {
  PH_ASSIGN_OR_RETURN(const Identities read, ReadIdentities(engines));
  if (read.is_bound && read.of_keys == read.of_objects) return absl::OkStatus();
  return AreOthers(read);
}

}  // namespace packhouse
