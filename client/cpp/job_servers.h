// Which of several servers that share jobs a loader's calls go to.
#ifndef PACKHOUSE_CLIENT_CPP_JOB_SERVERS_H_
#define PACKHOUSE_CLIENT_CPP_JOB_SERVERS_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"
#include "packhouse/v1/loader.grpc.pb.h"

namespace packhouse::client {

// The owner of the job (HOST:PORT), if a call failed since another server has it, and named it.
std::optional<std::string> OwnerNamedBy(const grpc::Status& status,
                                        const grpc::ClientContext& context);

// Begins with the channel that the loader was given, which may lead to any of the servers. Once a
// server has named the job's owner, calls go to the owner; after that failed, to the given channel
// again. Thread-safe.
class JobServers {
 public:
  struct Server {
    // Empty: the given channel's.
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
    std::unique_ptr<v1::LoaderService::Stub> stub;
  };
  using Connect = std::function<std::shared_ptr<grpc::Channel>(const std::string& address)>;

  // MakeChannel(), with pings by which calls notice after 9 s that a server is stopped or cut off.
  // It does not retry by itself.
  static std::shared_ptr<grpc::Channel> ConnectToOwner(const std::string& address);

  // `connect` makes channels to owners.
  JobServers(std::shared_ptr<grpc::Channel> any, Connect connect);

  // Where the next call goes.
  std::shared_ptr<const Server> current() const;
  // A server has named the owner.
  void GoTo(const std::string& address);
  // Whether an owner was ever named: then several servers share the jobs.
  bool has_owners() const;
  // The server did not answer, or is no longer the owner.
  void Leave(const Server& server);

  // `call` on the present server; learns from its failure where the next call should go.
  grpc::Status Call(
      grpc::ClientContext& context,
      absl::FunctionRef<grpc::Status(v1::LoaderService::Stub&, grpc::ClientContext&)> call);

 private:
  static std::shared_ptr<const Server> MakeServer(const std::string& address,
                                                  std::shared_ptr<grpc::Channel> channel);

  const Connect connect_;
  const std::shared_ptr<const Server> any_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Server> current_ ABSL_GUARDED_BY(mutex_);
  bool has_owners_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOB_SERVERS_H_
