// Plans and batches that were made once, made again: ReceiptService.
#ifndef PACKHOUSE_CLIENT_CPP_RECEIPT_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_RECEIPT_CLIENT_H_

#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/job_calls.h"
#include "client/cpp/job_servers.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/receipts.pb.h"

namespace packhouse::client {

// Every call blocks, for at most `call_timeout`, and is made once; where several servers share the
// jobs, once more at the job's owner, if the server that was asked names it. Of several servers
// that were given, Replan() is asked of the next one if one is away. Errors are the server's, see
// ReceiptService. Thread-safe.
class ReceiptClient {
 public:
  explicit ReceiptClient(const Servers& servers, absl::Duration call_timeout = absl::Minutes(1),
                         const JobServers::Connect& connect = &JobServers::ConnectToOwner)
      : safely_(AtOwner(servers, call_timeout, connect, Repeat::kSafe)),
        once_(AtOwner(servers, call_timeout, connect, Repeat::kNever)) {}

  absl::StatusOr<v1::ReplanResponse> Replan(const v1::ReplanRequest& request) const;

  // Calls `take` with each message; an error of it ends the call, and is returned.
  absl::Status RebuildBatches(
      const v1::RebuildBatchesRequest& request,
      absl::FunctionRef<absl::Status(const v1::RebuildBatchesResponse&)> take) const;

 private:
  const CallWay safely_;
  const CallWay once_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_RECEIPT_CLIENT_H_
