#include "client/cpp/job_servers.h"

#include <utility>

#include "client/cpp/channel.h"

namespace packhouse::client {
namespace {

// Trailing metadata of a call that was refused because another server owns the job.
constexpr char kOwner[] = "packhouse-owner";

}  // namespace

std::optional<std::string> OwnerNamedBy(const grpc::Status& status,
                                        const grpc::ClientContext& context) {
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE) return std::nullopt;
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto owner = metadata.find(kOwner);
  if (owner == metadata.end()) return std::nullopt;
  return std::string(owner->second.data(), owner->second.size());
}

JobServers::JobServers(std::shared_ptr<grpc::Channel> any, Connect connect,
                       std::vector<std::string> others)
    : connect_(std::move(connect)),
      others_(std::move(others)),
      any_(MakeServer("", std::move(any))),
      current_(any_) {}

std::shared_ptr<const JobServers::Server> JobServers::MakeServer(
    const std::string& address, std::shared_ptr<grpc::Channel> channel) {
  auto server = std::make_shared<Server>();
  server->address = address;
  server->stub = v1::LoaderService::NewStub(channel);
  server->channel = std::move(channel);
  return server;
}

std::shared_ptr<const JobServers::Server> JobServers::current() const {
  const absl::MutexLock lock(&mutex_);
  return current_;
}

std::shared_ptr<grpc::Channel> JobServers::ConnectToOwner(const std::string& address) {
  ChannelOptions options;
  options.keepalive_time = absl::Seconds(1);
  // While nobody waits for an answer, gRPC looks for those to pings each five seconds only.
  options.keepalive_timeout = absl::Seconds(8);
  // The loader itself tries again, at other servers too.
  options.retries = false;
  // A server that is stopped, or cut off, is given up soon: others have its jobs then.
  options.arguments = {{"grpc.http2.max_pings_without_data", 0},
                       {"grpc.min_reconnect_backoff_ms", 1000}};
  return MakeChannel(address, options);
}

bool JobServers::are_several() const {
  const absl::MutexLock lock(&mutex_);
  return has_owners_ || !others_.empty();
}

void JobServers::GoTo(const std::string& address) {
  const absl::MutexLock lock(&mutex_);
  has_owners_ = true;
  if (current_->address == address) return;
  current_ = MakeServer(address, connect_(address));
  is_given_ = false;
}

void JobServers::Leave(const Server& server) {
  const absl::MutexLock lock(&mutex_);
  if (current_.get() != &server) return;
  // After an owner, the one that was asked before; after that, the next.
  const bool was_owner = !is_given_;
  is_given_ = true;
  if (!was_owner) next_ = (next_ + 1) % (others_.size() + 1);
  current_ = next_ == 0 ? any_ : MakeServer(others_[next_ - 1], connect_(others_[next_ - 1]));
}

grpc::Status JobServers::Call(
    grpc::ClientContext& context,
    absl::FunctionRef<grpc::Status(v1::LoaderService::Stub&, grpc::ClientContext&)> call) {
  const std::shared_ptr<const Server> server = current();
  grpc::Status status = call(*server->stub, context);
  if (status.error_code() != grpc::StatusCode::UNAVAILABLE &&
      status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
    return status;
  }
  if (const auto owner = OwnerNamedBy(status, context)) {
    GoTo(*owner);
  } else {
    Leave(*server);
  }
  return status;
}

}  // namespace packhouse::client
