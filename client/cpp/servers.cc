#include "client/cpp/servers.h"

#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/addresses.h"

namespace packhouse::client {

struct Servers::State {
  State(std::vector<std::shared_ptr<grpc::Channel>> all, std::size_t first)
      : channels(std::move(all)), current(first) {}

  const std::vector<std::shared_ptr<grpc::Channel>> channels;
  absl::Mutex mutex;
  std::size_t current ABSL_GUARDED_BY(mutex);
};

Servers::Servers(std::shared_ptr<grpc::Channel> channel)
    : Servers(std::vector<std::shared_ptr<grpc::Channel>>{std::move(channel)}) {}

Servers::Servers(std::vector<std::shared_ptr<grpc::Channel>> channels, std::size_t first)
    : state_(std::make_shared<State>(std::move(channels), first)) {}

std::shared_ptr<grpc::Channel> Servers::current() const {
  const absl::MutexLock lock(&state_->mutex);
  return state_->channels[state_->current];
}

void Servers::Leave(const std::shared_ptr<grpc::Channel>& channel) const {
  const absl::MutexLock lock(&state_->mutex);
  if (state_->channels[state_->current] != channel) return;
  state_->current = (state_->current + 1) % state_->channels.size();
}

std::size_t Servers::size() const { return state_->channels.size(); }

absl::StatusOr<Servers> ConnectToServers(const std::string& addresses, absl::Duration timeout,
                                         const ChannelOptions& options) {
  const std::vector<std::string> each = AddressesOf(addresses);
  std::vector<std::shared_ptr<grpc::Channel>> channels;
  absl::Status failed;
  for (std::size_t i = 0; i < each.size(); ++i) {
    auto channel = Connect(each[i], timeout / static_cast<int64_t>(each.size()), options);
    if (channel.ok()) {
      channels.push_back(*std::move(channel));
      // The others connect when they are needed.
      for (std::size_t j = i + 1; j < each.size(); ++j) {
        channels.push_back(MakeChannel(each[j], options));
      }
      return Servers(std::move(channels), i);
    }
    channels.push_back(MakeChannel(each[i], options));
    failed = failed.ok()
                 ? channel.status()
                 : absl::Status(channel.status().code(),
                                absl::StrCat(failed.message(), "; ", channel.status().message()));
  }
  return failed;
}

}  // namespace packhouse::client
