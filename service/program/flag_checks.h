// What flags of more than one file check of their values.
#ifndef PACKHOUSE_SERVICE_PROGRAM_FLAG_CHECKS_H_
#define PACKHOUSE_SERVICE_PROGRAM_FLAG_CHECKS_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/program/options.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// These give the reason why a value is refused; empty: it is not.

// "30s", "1m30s", "500ms", from `least` to `most`.
std::function<std::string(const std::string&)> DurationFrom(absl::Duration least,
                                                            absl::Duration most = absl::Hours(24));

// "720h", "720h,drafts=24h", as ParseRetention().
std::string IsRetention(const std::string& text);

// Such as a password before the host. It is not shown: a log keeps what it is told.
std::string HasSecret(const std::string& address);

// What servers have a copy of does not expire: the flag is refused by name.
absl::Status CheckRetention(absl::string_view flag, const Retention& retention,
                            const Options& options);

// The same for equal retentions alone.
std::string RetentionText(const Retention& retention);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_FLAG_CHECKS_H_
