// Where the calls of a client go, if there are several servers with the same data sets and jobs.
#ifndef PACKHOUSE_CLIENT_CPP_SERVERS_H_
#define PACKHOUSE_CLIENT_CPP_SERVERS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/channel.h"
#include "grpcpp/channel.h"

namespace packhouse::client {

// Calls go to one server, until a client has found it away (Passes() in away.h); then to the next,
// and after the last to the first. What is made again for it are the calls that are safe to repeat,
// and no others. Copies go to the same server. Thread-safe.
class Servers {
 public:
  // One server, for good. Implicit: a client of one server is made with its channel.
  Servers(std::shared_ptr<grpc::Channel> channel);  // NOLINT(google-explicit-constructor)
  // Of several, first to channels[first]. There is at least one.
  explicit Servers(std::vector<std::shared_ptr<grpc::Channel>> channels, std::size_t first = 0);

  // Where the next call goes.
  std::shared_ptr<grpc::Channel> current() const;
  // The server was away; does nothing if another client of these has noticed it before.
  void Leave(const std::shared_ptr<grpc::Channel>& channel) const;
  std::size_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// As Connect(), with all addresses: begins with the first that answers.
absl::StatusOr<Servers> ConnectToServers(const std::string& addresses, absl::Duration timeout,
                                         const ChannelOptions& options = {});

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_SERVERS_H_
