// The calls of SourceGraphService except AppendSourceGraph; for that there is SourceGraphAppender.
#ifndef PACKHOUSE_CLIENT_CPP_SOURCE_GRAPH_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_SOURCE_GRAPH_CLIENT_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/servers.h"
#include "packhouse/v1/source_graph.grpc.pb.h"
#include "packhouse/v1/source_graph.pb.h"

namespace packhouse::client {

struct SourceGraphClientOptions {
  // The time of each try of a call: a hanging server ends it with DEADLINE_EXCEEDED.
  absl::Duration call_timeout = absl::Minutes(1);
  // The time of sealing and of a verification, which read all of a graph.
  absl::Duration long_timeout = absl::Hours(24);
  // How every call is retried. If the first try worked and its answer was lost, a retry gets an
  // error such as ALREADY_EXISTS.
  RetryOptions retry;
};

// Every call blocks. Errors are the server's, see SourceGraphService. Of several servers, reads and
// Seal() go on at the next one while one is away; Create() and Delete() stay with the first.
// Thread-safe if the functions in RetryOptions are.
class SourceGraphClient {
 public:
  // Work that is done, and all work.
  using Progress = absl::FunctionRef<void(uint64_t done, uint64_t total)>;

  explicit SourceGraphClient(Servers servers, SourceGraphClientOptions options = {});

  // ALREADY_EXISTS may be caused by this very call, if its first try worked and the answer was
  // lost. Get shows the existing graph.
  absl::StatusOr<v1::SourceGraph> Create(const v1::CreateSourceGraphRequest& request) const;
  absl::StatusOr<v1::SourceGraph> Get(const std::string& name) const;
  // All graphs in ascending order of names, read page by page. Memory grows with their number.
  absl::StatusOr<std::vector<v1::SourceGraph>> List(uint32_t page_size = 0) const;
  // A retry that finds nothing, since the first try worked, is OK.
  absl::Status Delete(const std::string& name) const;
  // The sealed graph. If the call breaks off, the server goes on, and a retry joins it.
  absl::StatusOr<v1::SourceGraph> Seal(const v1::SealSourceGraphRequest& request,
                                       Progress progress) const;
  // The last response, which reports damage; that is not an error. A verification that breaks off
  // begins again.
  absl::StatusOr<v1::VerifySourceGraphResponse> Verify(const std::string& name,
                                                       Progress progress) const;
  absl::StatusOr<v1::LookupNodesResponse> Lookup(const v1::LookupNodesRequest& request) const;
  absl::StatusOr<v1::ReadEdgesResponse> ReadEdges(const v1::ReadEdgesRequest& request) const;

 private:
  using Stub = v1::SourceGraphService::Stub;

  const CallWay anywhere_;
  // For what is not safe to repeat at another server.
  const CallWay at_home_;
  const CallWay slowly_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_SOURCE_GRAPH_CLIENT_H_
