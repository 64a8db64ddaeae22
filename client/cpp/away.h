// What counts as away: the failures that pass by themselves, and what they mean.
#ifndef PACKHOUSE_CLIENT_CPP_AWAY_H_
#define PACKHOUSE_CLIENT_CPP_AWAY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

// Whether a call that is safe to repeat may succeed if it is made again. Which calls are safe is
// said by RetryServiceConfig() (channel.h), and by the numbers of producers for those that append
// and observe.
bool Passes(const absl::Status& status);

// What gRPC's words about the end of a call mean, to be put behind them: that a proxy did it, or
// that the server ended a connection by its age. Empty if they say nothing about that.
std::string MeaningOfEnd(absl::string_view message);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_AWAY_H_
