// What every call needs from the server, and the client that it comes from.
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_CALL_CONTEXT_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_CALL_CONTEXT_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/authorizer.h"
#include "service/access/client_identity.h"
#include "service/access/fair_bound.h"
#include "service/access/job_pool.h"
#include "service/access/planning_pool.h"
#include "service/access/policy.h"
#include "service/access/principal.h"
#include "service/access/text_signer.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/base/out_of_memory.h"
#include "service/base/unsent_budget.h"
#include "service/server/calls/call_log.h"
#include "service/server/calls/call_record.h"
#include "service/server/calls/connection_calls.h"
#include "service/server/calls/gate.h"
#include "service/server/calls/open_calls.h"
#include "service/server/calls/rpc_observer.h"

namespace packhouse {

// The pointees are thread-safe and outlive all calls.
struct CallContext {
  Clock* clock = nullptr;
  JobPool* stream_pool = nullptr;
  JobPool* call_pool = nullptr;  // For unary calls that are quick, and to begin others.
  // For requests that open a stream and wait for another machine; null: they wait for none.
  JobPool* opening_pool = nullptr;
  PlanningPool* planning_pool = nullptr;
  // A separate pool, so that waiting for the disk holds up no other calls. Appends that wait at the
  // same time share one flush: at most as many as there are threads.
  JobPool* append_pool = nullptr;
  Gate* gate = nullptr;
  size_t max_response_bytes = 0;
  RpcObserver* observer = nullptr;
  UnsentBudget* unsent_budget = nullptr;
  const ClientIdentity* identity = nullptr;
  CallLog log;
  ClientId client;  // The client of the call; empty until From().
  // The memory of calls at work. Null: nothing is counted.
  MemoryBudget* working = nullptr;
  // Calls and streams from their headers until they have gone. Also counts those whose request has
  // not come, that the gate refused, or whose answer is not read. Null: they are not counted.
  FairBound* open_calls = nullptr;
  // Null: connections are not looked at.
  ConnectionCalls* connections = nullptr;
  // The call among those of its connection, until nothing holds its context any more. Null before
  // From(), and if nobody counts it.
  std::shared_ptr<ConnectionCalls::Call> of_connection = nullptr;
  // Null: nobody asks callers who they are.
  const Authenticator* authenticator = nullptr;
  // Null: everybody may do everything.
  const Authorizer* authorizer = nullptr;
  // Whether the call came in where nobody comes who may not administer the server: over the socket
  // of ServerOptions::admin_address.
  bool is_administrators = false;
  // Signs cursors and page tokens; null: they are not signed.
  const TextSigner* signer = nullptr;
  // Null: nobody keeps a list of calls.
  OpenCalls* call_table = nullptr;
  // Of the call; null before From().
  std::shared_ptr<CallRecord> record = nullptr;
  // Why the call must end before anything is done for it; OK before From().
  absl::Status refusal = absl::OkStatus();

  // The context of a call from `peer`, as gRPC names it. To be called once for each call.
  CallContext From(absl::string_view peer) const {
    CallContext context = *this;
    context.client = identity->Of(peer);
    if (connections != nullptr) context.of_connection = connections->Begin(peer);
    return context;
  }

  // The same for a call with credentials. Its client is its principal, or its address if it has
  // none or may not be served; then `refusal` says why.
  CallContext From(const CallCredentials& credentials) const {
    CallContext context = From(credentials.peer);
    absl::StatusOr<Principal> principal = PrincipalOf(credentials);
    context.record = std::make_shared<CallRecord>(
        CallRecord{principal.value_or(""), credentials.peer, credentials.request_id,
                   credentials.trace, "", false});
    if (!principal.ok()) {
      context.refusal = principal.status();
    } else if (!principal->empty()) {
      context.client = *std::move(principal);
    }
    return context;
  }

  // The client that From() finds, without counting a call.
  ClientId ClientOf(const CallCredentials& credentials) const {
    const absl::StatusOr<Principal> principal = PrincipalOf(credentials);
    return principal.ok() && !principal->empty() ? *principal : identity->Of(credentials.peer);
  }
  absl::StatusOr<Principal> PrincipalOf(const CallCredentials& credentials) const {
    return authenticator == nullptr ? Principal() : authenticator->Authenticate(credentials);
  }
  // The principal of the call.
  const Principal& principal() const {
    static const Principal kNobody;
    return record == nullptr ? kNobody : record->principal;
  }

  // The namespace of what the call's first request names; "default" if it names nothing, or before
  // it has come.
  absl::string_view ResourceNamespace() const {
    return NamespaceOf(record == nullptr ? absl::string_view() : record->resource);
  }

  // To be called once, after From(): observers hear of the call, and it is one of the open calls
  // from now on, until its record is gone.
  void OnStarted(Method method) const {
    observer->OnStarted(method);
    if (record == nullptr || call_table == nullptr) return;
    RunWithinMemory([&] {
      record->entry =
          call_table->Enter({method, IsStream(method), client, !record->principal.empty(),
                             record->peer, record->request_id, record->trace, clock->Now(), ""});
    });
  }

  // Paired with it: observers, the log and the journal hear how the call has ended.
  void OnFinished(Method method, const absl::Status& status, absl::Time started) const {
    const absl::Duration elapsed = clock->Now() - started;
    observer->OnFinished(method, status.code(), elapsed);
    LogCall(log, client, record.get(), method, status, elapsed);
  }

  // The call's place among the open calls. RESOURCE_EXHAUSTED if there is none; then the call is to
  // be cut off: nothing of it may stay, even until its client has read the reason.
  absl::Status TakePlace(FairBound::Place& place) const {
    if (open_calls == nullptr) return absl::OkStatus();
    absl::StatusOr<FairBound::Place> taken = open_calls->Enter(client);
    if (taken.ok()) place = *std::move(taken);
    return taken.status();
  }

  // Lists the call as one whose batches go by a lane while that is true.
  void ListLane(std::shared_ptr<const std::atomic<bool>> uses_lane) const {
    if (record != nullptr && record->entry != nullptr) record->entry->SetLane(std::move(uses_lane));
  }

  // A request of the call has come.
  void OnRequest() const {
    if (of_connection != nullptr) of_connection->OnRequest();
  }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_CALL_CONTEXT_H_
