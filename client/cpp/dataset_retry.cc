#include "client/cpp/dataset_retry.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "client/cpp/status.h"

namespace packhouse::client {

Retrier::Retrier(std::shared_ptr<grpc::Channel> channel, RetryOptions options)
    : channel_(std::move(channel)), options_(std::move(options)), next_wait_(options_.first_wait) {}

bool Retrier::WaitAfter(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsCancelled(status)) return false;
  const absl::Duration wait = next_wait_;
  if (waited_ + wait > options_.patience) return false;
  if (options_.on_wait) options_.on_wait(status, wait);
  if (options_.sleep) {
    options_.sleep(wait);
  } else {
    absl::SleepFor(wait);
  }
  waited_ += wait;
  next_wait_ = std::min(2 * next_wait_, options_.longest_wait);
  grpc::experimental::ChannelResetConnectionBackoff(channel_.get());
  // Without a connection the next call fails, and that is counted here too.
  if (!channel_->WaitForConnected(absl::ToChronoTime(absl::Now() + options_.connect_timeout))) {
    waited_ += options_.connect_timeout;
  }
  return true;
}

void Retrier::Reset() {
  next_wait_ = options_.first_wait;
  waited_ = absl::ZeroDuration();
}

absl::Status CallWithRetry(const std::shared_ptr<grpc::Channel>& channel,
                           const RetryOptions& options, absl::Duration timeout,
                           absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call,
                           bool* was_retried) {
  Retrier retrier(channel, options);
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    absl::Status status = ToAbslStatus(call(context));
    if (status.ok() || !retrier.WaitAfter(status)) return status;
    if (was_retried != nullptr) *was_retried = true;
  }
}

}  // namespace packhouse::client
