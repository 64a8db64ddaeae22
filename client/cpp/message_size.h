// Graphs that one message does not take, told before they are sent.
#ifndef PACKHOUSE_CLIENT_CPP_MESSAGE_SIZE_H_
#define PACKHOUSE_CLIENT_CPP_MESSAGE_SIZE_H_

#include <cstddef>

#include "absl/status/status.h"
#include "packhouse/v1/graphs.pb.h"
#include "packhouse/v1/sizes.pb.h"

namespace packhouse::client {

// The most bytes of a message that a server takes, and that a channel sends (ChannelOptions).
inline constexpr std::size_t kMaxMessageBytes = 64 << 20;

// Whether a request that has little more than these graphs is within kMaxMessageBytes. Errors:
// INVALID_ARGUMENT naming the first graph that alone is too large, by its id or its number in the
// message, with both sizes; if only all together are, that. With a null `schema` the graphs of a
// chunk are told apart only where there is one. Cost: O(1) if they fit.
absl::Status CheckMessageSize(const v1::GraphChunk& chunk, const v1::GraphSchema* schema);
absl::Status CheckMessageSize(const v1::Examples& examples);
absl::Status CheckMessageSize(const v1::SizeTable& sizes);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_MESSAGE_SIZE_H_
