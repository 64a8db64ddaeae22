// A change of keys that others may change at the same time, and whose outcome may be lost: both are
// settled here.
#ifndef PACKHOUSE_SERVICE_STORES_KEYS_SHARED_CHANGE_H_
#define PACKHOUSE_SERVICE_STORES_KEYS_SHARED_CHANGE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {

struct SharedChanges {
  // Transactions of one change that others came before, and those whose outcome is unknown.
  static constexpr int kRaces = 100;
  static constexpr int kUnknowns = 4;
  // Between two tries where others were faster: the first, and the longest.
  static constexpr absl::Duration kFirstPause = absl::Milliseconds(2);
  static constexpr absl::Duration kLongestPause = absl::Milliseconds(100);

  // Others draw other pauses.
  std::string replica;
  // Waits that long: Pause(), or a test's. Null: tries again at once.
  std::function<void(absl::Duration)> sleep = nullptr;

  // Makes one change. `next` reads what it needs, and gives the transaction, whose compares fail if
  // that was changed since; nullopt: there is nothing to do, or nothing more. With `may_be_done` an
  // earlier transaction had an unknown outcome: `next` finds out by what it reads. `done` gets the
  // result of the transaction that succeeded.
  //
  // Errors: those of `next`; CANCELLED between two tries when the caller is gone (base/caller.h);
  // those of the store, but UNAVAILABLE, which says so, where it is not known whether the change is
  // made. `what` names the thing.
  absl::Status Make(
      KeyStore& keys, absl::string_view what,
      absl::FunctionRef<absl::StatusOr<std::optional<Transaction>>(bool may_be_done)> next,
      absl::FunctionRef<void(const TransactionResult& result)> done) const;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_KEYS_SHARED_CHANGE_H_
