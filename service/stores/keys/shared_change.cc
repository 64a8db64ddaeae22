#include "service/stores/keys/shared_change.h"

#include <algorithm>
#include <cstddef>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/status_macros.h"

namespace packhouse {

absl::Status SharedChanges::Make(
    KeyStore& keys, absl::string_view what,
    absl::FunctionRef<absl::StatusOr<std::optional<Transaction>>(bool may_be_done)> next,
    absl::FunctionRef<void(const TransactionResult& result)> done) const {
  int num_unknown = 0;
  const auto may_be_done = [&](absl::string_view why) {
    return absl::UnavailableError(
        absl::StrCat(what, ": it is not known whether the change is stored: ", why));
  };
  for (int race = 0; race < kRaces; ++race) {
    const int num_lost = race - num_unknown;
    if (num_lost > 0 && sleep != nullptr) {
      const absl::Duration longest = std::min(
          kLongestPause, kFirstPause * static_cast<double>(1 << std::min(num_lost - 1, 10)));
      // Somewhere in the second half, so that servers that met do not meet again.
      const size_t drawn = absl::HashOf(replica, what, num_lost) % 1024;
      sleep(longest * (0.5 + static_cast<double>(drawn) / 2048));
    }
    PH_RETURN_IF_ERROR(BeginWait());
    const auto transaction = next(num_unknown > 0);
    if (num_unknown > 0 && absl::IsUnavailable(transaction.status())) {
      return may_be_done(transaction.status().message());
    }
    PH_RETURN_IF_ERROR(transaction.status());
    if (!*transaction) return absl::OkStatus();
    const auto result = keys.Commit(**transaction);
    if (OutcomeIsUnknown(result.status())) {
      if (++num_unknown == kUnknowns) return may_be_done(result.status().message());
      continue;
    }
    if (!result.ok() && num_unknown > 0) return may_be_done(result.status().message());
    PH_RETURN_IF_ERROR(result.status());
    if (!result->succeeded) continue;
    done(*result);
    return absl::OkStatus();
  }
  return num_unknown > 0
             ? may_be_done("other servers are faster")
             : absl::UnavailableError(absl::StrCat(what, ": other servers are faster; try again"));
}

}  // namespace packhouse
