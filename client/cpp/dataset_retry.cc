#include "client/cpp/dataset_retry.h"

#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/away.h"
#include "client/cpp/status.h"

namespace packhouse::client {
namespace {

// A failing that nobody is told of: a server that is started anew, or that ends a connection by its
// age, is back by then.
constexpr absl::Duration kSilent = absl::Seconds(1);

}  // namespace

Retrier::Retrier(Servers servers, RetryOptions options, std::string call)
    : servers_(std::move(servers)),
      options_(std::move(options)),
      call_(std::move(call)),
      next_wait_(options_.first_wait) {}

bool Retrier::WaitAfter(absl::Status& status) {
  if (!Passes(status)) return false;
  servers_.Leave(tried_);
  began_ = std::min(began_, absl::Now());
  const absl::Duration wait = next_wait_;
  // Calls that wait for an answer in vain take time, too.
  const absl::Duration failing = std::max(waited_, absl::Now() - began_);
  if (failing + wait > options_.patience) {
    if (options_.patience > absl::ZeroDuration()) {
      status =
          absl::Status(status.code(),
                       absl::StrCat(status.message(), "; ", call_, " was tried again for ",
                                    absl::FormatDuration(absl::Trunc(failing, absl::Seconds(1)))));
    }
    return false;
  }
  if (options_.on_wait) {
    options_.on_wait(status, wait);
  } else if (!is_told_ && (failing >= kSilent || absl::IsDeadlineExceeded(status))) {
    is_told_ = true;
    std::cerr << absl::StrCat(
        "packhouse: ", call_, " fails, and is tried again for ",
        absl::FormatDuration(absl::Trunc(options_.patience - failing, absl::Seconds(1))), ": ",
        status.ToString(), "\n");
  }
  if (options_.sleep) {
    options_.sleep(wait);
  } else {
    absl::SleepFor(wait);
  }
  waited_ += wait;
  next_wait_ = std::min(2 * next_wait_, options_.longest_wait);
  const std::shared_ptr<grpc::Channel> next = channel();
  grpc::experimental::ChannelResetConnectionBackoff(next.get());
  // Without a connection the next call fails, and that is counted here too.
  if (!next->WaitForConnected(absl::ToChronoTime(absl::Now() + options_.connect_timeout))) {
    waited_ += options_.connect_timeout;
  }
  return true;
}

void Retrier::Reset() {
  next_wait_ = options_.first_wait;
  waited_ = absl::ZeroDuration();
  began_ = absl::InfiniteFuture();
  is_told_ = false;
}

absl::Status CallWithRetry(const Servers& servers, const RetryOptions& options,
                           absl::string_view name, absl::Duration timeout, CallOnChannel call,
                           bool* was_retried) {
  Retrier retrier(servers, options, std::string(name));
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    absl::Status status = ToAbslStatus(call(retrier.channel(), context));
    if (status.ok()) return status;
    // A long call that the caller bounds is not made twice for it.
    if (absl::IsDeadlineExceeded(status) && timeout > options.patience) return status;
    if (Passes(status) && !context.peer().empty()) {
      status = absl::Status(status.code(), absl::StrCat(context.peer(), ": ", status.message()));
    }
    if (!retrier.WaitAfter(status)) return status;
    if (was_retried != nullptr) *was_retried = true;
  }
}

absl::Status CallWithRetry(const std::shared_ptr<grpc::Channel>& channel,
                           const RetryOptions& options, absl::string_view name,
                           absl::Duration timeout,
                           absl::FunctionRef<grpc::Status(grpc::ClientContext&)> call,
                           bool* was_retried) {
  return CallWithRetry(
      Servers(channel), options, name, timeout,
      [&](const auto& /*channel*/, grpc::ClientContext& context) { return call(context); },
      was_retried);
}

}  // namespace packhouse::client
