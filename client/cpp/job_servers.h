// Which of several servers that share jobs a loader's calls go to.
#ifndef PACKHOUSE_CLIENT_CPP_JOB_SERVERS_H_
#define PACKHOUSE_CLIENT_CPP_JOB_SERVERS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

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
// again. Where other servers were given, each failure moves on to the next of them. Thread-safe.
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

  // `connect` makes channels to owners, and to the `others` that are asked in turn while `any` is
  // away.
  JobServers(std::shared_ptr<grpc::Channel> any, Connect connect,
             std::vector<std::string> others = {});

  // Where the next call goes.
  std::shared_ptr<const Server> current() const;
  // A server has named the owner.
  void GoTo(const std::string& address);
  // Whether several servers share the jobs: an owner was named, or others were given.
  bool are_several() const;
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
  const std::vector<std::string> others_;
  const std::shared_ptr<const Server> any_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const Server> current_ ABSL_GUARDED_BY(mutex_);
  bool has_owners_ ABSL_GUARDED_BY(mutex_) = false;
  // Of those that were given, whichever is asked: 0 for any_, and whether it is the present one.
  size_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  bool is_given_ ABSL_GUARDED_BY(mutex_) = true;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_JOB_SERVERS_H_
