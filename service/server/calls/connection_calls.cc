#include "service/server/calls/connection_calls.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace packhouse {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);

}  // namespace

std::string ConnectionCalls::NameOf(absl::string_view peer) {
  if (!absl::StartsWith(peer, "ipv4:") && !absl::StartsWith(peer, "ipv6:")) return "";
  // Versions of gRPC differ in what they escape.
  return absl::StrReplaceAll(peer, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

std::shared_ptr<ConnectionCalls::Call> ConnectionCalls::Begin(absl::string_view peer) {
  std::string connection = NameOf(peer);
  if (connection.empty()) return nullptr;
  bool has_too_many = false;
  {
    absl::MutexLock lock(&mutex_);
    Counts& counts = by_connection_[connection];
    if (++counts.open > bounds_.most_open) has_too_many = IsNew(counts);
  }
  if (has_too_many) {
    end_(connection, absl::ResourceExhaustedError(
                         absl::StrCat("more than ", bounds_.most_open, " calls at once")));
  }
  return std::make_shared<Call>(this, std::move(connection));
}

void ConnectionCalls::Leave(const std::string& connection, bool is_wasted) {
  const absl::Time now = clock_->Now();
  bool has_too_many = false;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = by_connection_.find(connection);
    Counts& counts = found->second;
    --counts.open;
    if (is_wasted) {
      if (now >= counts.since + kInterval || counts.wasted == 0) {
        counts.since = now;
        counts.wasted = 0;
      }
      if (++counts.wasted > bounds_.most_wasted) has_too_many = IsNew(counts);
    } else if (counts.open == 0 && counts.wasted == 0) {
      by_connection_.erase(found);
    }
    if (now >= next_look_) {
      ForgetQuiet(now);
      next_look_ = now + 10 * kInterval;
    }
  }
  if (has_too_many) {
    end_(connection, absl::ResourceExhaustedError(
                         absl::StrCat("more than ", bounds_.most_wasted,
                                      " calls within a second that ended without a request")));
  }
}

void ConnectionCalls::ForgetQuiet(absl::Time now) {
  for (auto it = by_connection_.begin(); it != by_connection_.end();) {
    if (it->second.open == 0 && now >= it->second.since + kInterval) {
      by_connection_.erase(it++);
    } else {
      ++it;
    }
  }
}

}  // namespace packhouse
