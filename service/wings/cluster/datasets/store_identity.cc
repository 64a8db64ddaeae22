#include "service/wings/cluster/datasets/store_identity.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_values.h"

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

// Empty: there is none.
absl::StatusOr<std::string> ReadObjectIdentity(const ObjectEngines& engines) {
  auto object =
      ReadObject(*engines.objects, kStoreIdentityObject, {}, kMaxIdentityBytes, engines.Deadline());
  if (absl::IsNotFound(object.status())) return "";
  if (!object.ok()) return AsUnavailable(object.status());
  return object;
}

absl::StatusOr<Identities> ReadIdentities(const ObjectEngines& engines) {
  Identities read;
  PH_ASSIGN_OR_RETURN(const auto keys, ReadRanges(engines, {KeyRange::Of(kStoreIdentityKey)}));
  if (!keys[0].values.empty()) {
    absl::string_view value = keys[0].values[0].value;
    read.is_bound = !absl::ConsumeSuffix(&value, kNotBound);
    read.of_keys = std::string(value);
    read.revision = keys[0].values[0].mod_revision;
  }
  PH_ASSIGN_OR_RETURN(read.of_objects, ReadObjectIdentity(engines));
  // Another number may have come on the way.
  for (int transfers = 1; transfers < engines.max_transfers; ++transfers) {
    if (read.of_keys.empty() || read.of_objects.empty() || read.of_objects == read.of_keys) break;
    engines.BackOff(transfers - 1);
    PH_ASSIGN_OR_RETURN(read.of_objects, ReadObjectIdentity(engines));
  }
  return read;
}

// Puts the number into the object store, which had none. ABORTED naming the object if another
// cluster is about to do so too.
//
// Of two PUTs of one object the later one wins, whatever the first was answered. So who is about to
// put it first puts an object that nobody else does, its claim, and then lists the claims. Of two
// clusters, at least the one that put its claim last sees the other's, and takes its own away. Who
// has seen no other's reads the object once more: a claim is gone only after the object was put, or
// if its cluster has not tried to.
absl::Status PutIdentity(const ObjectEngines& engines, const std::string& number) {
  const std::string of_number = absl::StrCat(kStoreClaims, number, "-");
  const std::string own = absl::StrCat(of_number, absl::Hex(engines.draw(), absl::kZeroPad16));
  PH_RETURN_IF_ERROR(engines.objects->Put(own, "", engines.Deadline()));
  PH_ASSIGN_OR_RETURN(const ObjectList claims,
                      engines.objects->List(kStoreClaims, "", 0, engines.Deadline()));
  for (const ObjectInfo& claim : claims.objects) {
    if (absl::StartsWith(claim.key, of_number)) continue;
    PH_RETURN_IF_ERROR(engines.objects->Delete(own, engines.Deadline()));
    return absl::AbortedError(absl::StrCat(
        "a server with another key-value store binds the object store, as the object '", claim.key,
        "' says; if it never will, delete that object"));
  }
  PH_ASSIGN_OR_RETURN(const std::string now, ReadObjectIdentity(engines));
  if (now.empty()) {
    // After an error it may still be done, so the claim stays, until a server of this cluster has
    // put the object.
    PH_RETURN_IF_ERROR(engines.objects->Put(kStoreIdentityObject, number, engines.Deadline()));
  }
  PH_RETURN_IF_ERROR(engines.objects->Delete(own, engines.Deadline()));
  // Of servers that have ended meanwhile. Those that go on read the object once more.
  for (const ObjectInfo& claim : claims.objects) {
    PH_RETURN_IF_ERROR(engines.objects->Delete(claim.key, engines.Deadline()));
  }
  return absl::OkStatus();
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
      last = PutIdentity(engines, read.of_keys);
      if (!last.ok() && !absl::IsAborted(last)) return AsUnavailable(last);
      continue;  // Reads it.
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

void BoundObjectStore::Await(std::string number, absl::Status why) {
  absl::MutexLock lock(&mutex_);
  number_ = std::move(number);
  status_ = std::move(why);
  is_known_ = false;
}

absl::Status BoundObjectStore::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

absl::Status BoundObjectStore::Confirm(absl::Time deadline) {
  if (is_known_) return absl::OkStatus();
  std::string number;
  {
    absl::MutexLock lock(&mutex_);
    number = number_;
  }
  auto object = ReadObject(*store_, kStoreIdentityObject, {}, kMaxIdentityBytes, deadline);
  absl::Status found;
  if (object.ok() || absl::IsNotFound(object.status())) {
    Identities read;
    read.of_keys = number;
    if (object.ok()) read.of_objects = *std::move(object);
    if (read.of_objects != read.of_keys) found = AreOthers(read);
  } else {
    found = absl::UnavailableError(
        absl::StrCat("the object store has not answered since this server was started: ",
                     object.status().message()));
  }
  absl::MutexLock lock(&mutex_);
  status_ = found;
  if (found.ok()) is_known_ = true;
  return found;
}

absl::Status BoundObjectStore::Put(absl::string_view key, absl::string_view bytes,
                                   absl::Time deadline) {
  PH_RETURN_IF_ERROR(Confirm(deadline));
  return store_->Put(key, bytes, deadline);
}

absl::Status BoundObjectStore::Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                                   absl::Time deadline) {
  PH_RETURN_IF_ERROR(Confirm(deadline));
  return store_->Get(key, range, sink, deadline);
}

absl::StatusOr<ObjectList> BoundObjectStore::List(absl::string_view prefix, absl::string_view after,
                                                  size_t limit, absl::Time deadline) {
  PH_RETURN_IF_ERROR(Confirm(deadline));
  return store_->List(prefix, after, limit, deadline);
}

absl::Status BoundObjectStore::Delete(absl::string_view key, absl::Time deadline) {
  PH_RETURN_IF_ERROR(Confirm(deadline));
  return store_->Delete(key, deadline);
}

absl::Status BindStoresNowOrLater(const ObjectEngines& engines, BoundObjectStore& objects) {
  const absl::Status read =
      ReadObject(*engines.objects, kStoreIdentityObject, {}, kMaxIdentityBytes, engines.Deadline())
          .status();
  // What it answers, as that it refuses the credentials, is told at once.
  if (!absl::IsUnavailable(read) && !absl::IsDeadlineExceeded(read)) return BindStores(engines);
  PH_ASSIGN_OR_RETURN(const auto keys, ReadRanges(engines, {KeyRange::Of(kStoreIdentityKey)}));
  // Two that are not bound yet are not left to each other.
  if (keys[0].values.empty() || absl::EndsWith(keys[0].values[0].value, kNotBound)) {
    return AsUnavailable(read);
  }
  objects.Await(keys[0].values[0].value, AsUnavailable(read));
  return absl::OkStatus();
}

absl::Status CheckStoresAreBound(const ObjectEngines& engines) {
  PH_ASSIGN_OR_RETURN(const Identities read, ReadIdentities(engines));
  if (read.is_bound && read.of_keys == read.of_objects) return absl::OkStatus();
  return AreOthers(read);
}

}  // namespace packhouse
