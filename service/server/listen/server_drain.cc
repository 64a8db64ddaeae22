#include "service/server/listen/server_drain.h"

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "service/base/execution.h"
#include "service/base/steady_waits.h"
#include "service/server/calls_grpc/steady_deadline.h"
#include "service/server/listen/goaway.h"

namespace packhouse::rpc {
namespace {

// Time for clients without calls to receive a GOAWAY and to close their connections.
constexpr absl::Duration kGoawayGrace = absl::Seconds(1);
constexpr absl::Duration kConnectionPoll = absl::Milliseconds(2);
// Time for statuses to be sent before remaining calls are cancelled.
constexpr absl::Duration kCancelGrace = absl::Milliseconds(40);

// Whether all calls have ended and all clients have disconnected by `deadline`, or a moment after
// the last call.
bool WaitUntilLeft(const DrainedParts& parts, absl::Time deadline) {
  if (!parts.gate->WaitUntilEmpty(deadline)) return false;
  if (parts.connections == nullptr) return true;
  // Calls that were on their way may still arrive. gRPC does not report when a connection closes.
  const absl::Time enough = std::min(deadline, SteadyTime() + kGoawayGrace);
  while (HasConnections(*parts.server) && SteadyTime() < enough) {
    Pause(kConnectionPoll);
    if (!parts.gate->WaitUntilEmpty(deadline)) return false;
  }
  return true;
}

}  // namespace

void DrainServer(const DrainedParts& parts, const DrainOptions& options) {
  parts.health->StopServing();
  if (options.lame_duck > absl::ZeroDuration()) {
    // The clock keeps it if the callback comes late.
    const auto over = std::make_shared<absl::Notification>();
    parts.clock->CallAt(parts.clock->Now() + options.lame_duck, [over] { over->Notify(); });
    over->WaitForNotification();
  }
  const absl::Time deadline = SteadyTime() + options.timeout;
  if (parts.page_calls != nullptr) parts.page_calls->Close();
  if (parts.connections == nullptr) {
    parts.gate->Close();
  } else {
    parts.connections->Stop();
    // First, so that clients whose streams end do not come back on the same connection.
    SendGoaway(*parts.server);
  }
  parts.health->EndWatches(absl::UnavailableError("the server is draining: watch another"));
  parts.loads->EndLoads(absl::UnavailableError(
      "the server is draining: load again, from another or when it is back; what was not "
      "acknowledged comes again"));
  if (parts.leave_cluster) parts.leave_cluster();
  const bool all_left = WaitUntilLeft(parts, deadline);
  parts.gate->Close();
  // gRPC's own shutdown comes only now: earlier, it would answer calls with CANCELLED that clients
  // had begun before they received the GOAWAY.
  if (!all_left && !parts.gate->WaitUntilEmpty(deadline)) {
    parts.gate->AbortStreams(absl::UnavailableError(
        absl::StrCat("the server is draining and the stream did not end within ",
                     absl::FormatDuration(options.timeout), "; try another")));
    parts.gate->WaitUntilEmpty(SteadyTime() + kCancelGrace);
  }
  if (parts.admin_connections != nullptr) parts.admin_connections->Stop();
  // Cancels what still cannot end.
  for (grpc::Server* const server : {parts.server, parts.admin_server}) {
    if (server != nullptr) server->Shutdown(SteadyDeadline(kCancelGrace));
  }
  // Calls that were cancelled have left when this returns: nobody is on the pools.
  parts.gate->WaitUntilEmpty(absl::InfiniteFuture());
}

}  // namespace packhouse::rpc
