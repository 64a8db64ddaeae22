// Decides when a failed call is worth another try, and how long to wait before it.
#ifndef PACKHOUSE_CLIENT_CPP_DATASET_RETRY_H_
#define PACKHOUSE_CLIENT_CPP_DATASET_RETRY_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/servers.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace packhouse::client {

// For waiting for a server that restarts, drains, stands still, or cannot write for a while, and
// for a proxy that ends a call: see Passes() in away.h.
struct RetryOptions {
  // The first wait; each further one is twice as long, up to longest_wait.
  absl::Duration first_wait = absl::Milliseconds(100);
  absl::Duration longest_wait = absl::Seconds(5);
  // The most time of consecutive failures; after it the caller gets the error, with the call and
  // this time in its message. Zero: no retries.
  absl::Duration patience = absl::Minutes(5);
  // How long each try waits for the connection, after the wait.
  absl::Duration connect_timeout = absl::Seconds(1);
  // Called before each wait with the error and the length of the wait, to tell the user. Null: a
  // failing that lasts for a second is told in one line on stderr.
  std::function<void(const absl::Status& status, absl::Duration wait)> on_wait;
  // Waits. Null: absl::SleepFor.
  std::function<void(absl::Duration)> sleep;
};

// Counts the waits of consecutive calls. Not thread-safe.
class Retrier {
 public:
  // `call` says what is tried, for people: "Append to 'd'".
  Retrier(Servers servers, RetryOptions options, std::string call);

  // Where the next try goes.
  std::shared_ptr<grpc::Channel> channel() { return tried_ = servers_.current(); }
  // Whether to try again after `status`, as Passes() says. If so, goes on to the next server if
  // there are several, waits, and makes the channel connect at once instead of after gRPC's own
  // back-off, which grows to minutes. If not since it has taken too long, the status says so from
  // now on.
  bool WaitAfter(absl::Status& status);
  // To be called when the server answered: the next wait is as short as the first again.
  void Reset();

 private:
  const Servers servers_;
  std::shared_ptr<grpc::Channel> tried_;
  const RetryOptions options_;
  const std::string call_;
  absl::Duration next_wait_;
  // When the first of the consecutive calls had failed.
  absl::Time began_ = absl::InfiniteFuture();
  bool is_told_ = false;
  absl::Duration waited_ = absl::ZeroDuration();
};

// Calls `call` with a channel and a fresh context, each time for at most `timeout`, until it is OK
// or fails for good. It must be safe to repeat. `name` says what is called, for people; messages
// also have the server's address. `was_retried`, if not null, becomes true if it was tried more
// than once. Thread-safe if the functions in `options` are.
using CallOnChannel = absl::FunctionRef<grpc::Status(const std::shared_ptr<grpc::Channel>& channel,
                                                     grpc::ClientContext& context)>;
absl::Status CallWithRetry(const Servers& servers, const RetryOptions& options,
                           absl::string_view name, absl::Duration timeout, CallOnChannel call,
                           bool* was_retried = nullptr);
// The same at one server, where `call` knows its channel.
absl::Status CallWithRetry(const std::shared_ptr<grpc::Channel>& channel,
                           const RetryOptions& options, absl::string_view name,
                           absl::Duration timeout,
                           absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call,
                           bool* was_retried = nullptr);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_DATASET_RETRY_H_
