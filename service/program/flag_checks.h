// What flags of more than one file check of their values.
#ifndef PACKHOUSE_SERVICE_PROGRAM_FLAG_CHECKS_H_
#define PACKHOUSE_SERVICE_PROGRAM_FLAG_CHECKS_H_

#include <functional>
#include <string>

#include "absl/time/time.h"

namespace packhouse {

// Both give the reason why a value is refused; empty: it is not.

// "30s", "1m30s", "500ms", from `least` to `most`.
std::function<std::string(const std::string&)> DurationFrom(absl::Duration least,
                                                            absl::Duration most = absl::Hours(24));

// Such as a password before the host. It is not shown: a log keeps what it is told.
std::string HasSecret(const std::string& address);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_FLAG_CHECKS_H_
