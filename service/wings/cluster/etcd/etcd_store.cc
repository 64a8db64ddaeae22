#include "service/wings/cluster/etcd/etcd_store.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "etcd/rpc.grpc.pb.h"
#include "service/base/status_macros.h"
#include "service/base/steady_waits.h"
#include "service/server/calls_grpc/steady_deadline.h"
#include "service/wings/cluster/etcd/etcd_messages.h"

namespace packhouse {
namespace {

namespace etcd = ::etcdserverpb;

// gRPC's statuses have their numbers from Abseil's.
absl::StatusCode CodeOf(const grpc::Status& status) {
  return static_cast<absl::StatusCode>(status.error_code());
}

// The server read the request and refused it: nothing was changed.
bool IsRefusal(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::INVALID_ARGUMENT:
    case grpc::StatusCode::NOT_FOUND:
    case grpc::StatusCode::ALREADY_EXISTS:
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
    case grpc::StatusCode::FAILED_PRECONDITION:
    case grpc::StatusCode::OUT_OF_RANGE:
    case grpc::StatusCode::UNIMPLEMENTED:
      return true;
    default:
      return false;
  }
}

// The token has expired, or the users have changed since.
bool WantsToken(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
         absl::StrContains(status.error_message(), "auth store is old");
}

// For gRPC to say why it has no connection.
constexpr absl::Duration kLongestAsking = absl::Milliseconds(500);

// What gRPC's words mean; with them, since they may say more.
std::string WhyNoConnection(absl::string_view words, bool wants_tls) {
  if (words.empty()) return "";
  const std::string plain = absl::StrReplaceAll(absl::AsciiStrToLower(words), {{"_", " "}});
  absl::string_view meaning;
  if (absl::StrContains(plain, "certificate verify failed")) {
    meaning = ": its certificate is not signed by those of the CA that was given";
  } else if (absl::StrContains(plain, "is not in peer certificate")) {
    meaning = ": its certificate is for another name";
  } else if (absl::StrContains(plain, "wrong version number")) {
    meaning = ": it speaks plain text, and a CA was given for TLS";
  } else if (absl::StrContains(plain, "socket closed") ||
             absl::StrContains(plain, "connection reset") ||
             absl::StrContains(plain, "connection closed") ||
             // What gRPC may say of a handshake whose peer has gone.
             absl::StrContains(plain, "fd shutdown")) {
    meaning = wants_tls
                  ? ": it ends connections with TLS: perhaps it speaks plain text"
                  : ": it ends connections in plain text: it may want TLS, for which a CA must be "
                    "given";
  }
  return absl::StrCat(meaning, " (", words, ")");
}

std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address, const EtcdOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // A cluster's own traffic goes through no proxy.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A peer that went without a word is noticed. etcd takes no more than one ping in 5 s.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 3'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 1'000);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.roots.empty()) {
    credentials = grpc::SslCredentials({options.roots, options.key, options.certificate});
  }
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

}  // namespace

struct EtcdStore::Endpoint {
  Endpoint(size_t number, std::string at, std::shared_ptr<grpc::Channel> over)
      : index(number), address(std::move(at)), channel(std::move(over)) {}

  // The status as KeyValueStore has it, of a call that changes something or not.
  absl::Status StatusOf(const grpc::Status& status, bool changes) const {
    if (status.ok()) return absl::OkStatus();
    absl::StatusCode code = CodeOf(status);
    if (!IsRefusal(status)) {
      code = changes ? absl::StatusCode::kUnknown : absl::StatusCode::kUnavailable;
    }
    return absl::Status(code, absl::StrCat("etcd at ", address, ": ", status.error_message()));
  }

  const size_t index;
  const std::string address;
  const std::shared_ptr<grpc::Channel> channel;
  etcd::KV::Stub values{channel};
  etcd::Lease::Stub leases{channel};
  etcd::Auth::Stub users{channel};
};

absl::StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::Make(EtcdOptions options) {
  if (options.endpoints.empty()) return absl::InvalidArgumentError("etcd: no endpoint");
  if (options.roots.empty() && !(options.user.empty() && options.password.empty() &&
                                 options.certificate.empty() && options.key.empty())) {
    return absl::InvalidArgumentError(
        "etcd: a user, password, certificate or key without roots: all would be sent in plain "
        "text");
  }
  return std::unique_ptr<EtcdStore>(new EtcdStore(std::move(options)));
}

EtcdStore::EtcdStore(EtcdOptions options) : options_(std::move(options)) {
  for (const std::string& address : options_.endpoints) {
    endpoints_.push_back(
        std::make_unique<Endpoint>(endpoints_.size(), address, ChannelTo(address, options_)));
  }
}

EtcdStore::~EtcdStore() = default;

EtcdStore::Endpoint* EtcdStore::Connected(absl::Time deadline) {
  const size_t first = current_.load(std::memory_order_relaxed);
  const size_t count = endpoints_.size();
  for (size_t i = 0; i < count; ++i) {
    Endpoint& endpoint = *endpoints_[(first + i) % count];
    // Each gets its part of the time that is left; the first gets it all if it is the only one.
    const absl::Duration part = (deadline - SteadyTime()) / static_cast<double>(count - i);
    if (endpoint.channel->WaitForConnected(SteadyDeadline(part))) {
      if (i != 0) current_.store(endpoint.index, std::memory_order_relaxed);
      return &endpoint;
    }
  }
  return nullptr;
}

void EtcdStore::Avoid(const Endpoint& failed) {
  size_t index = failed.index;
  current_.compare_exchange_strong(index, (failed.index + 1) % endpoints_.size(),
                                   std::memory_order_relaxed);
}

absl::StatusOr<std::string> EtcdStore::TokenFrom(Endpoint& endpoint, absl::Time deadline) {
  if (options_.user.empty()) return "";
  {
    absl::MutexLock lock(&mutex_);
    if (!token_.empty()) return token_;
  }
  // Calls that come meanwhile ask too: none waits longer than its own deadline.
  etcd::AuthenticateRequest request;
  request.set_name(options_.user);
  request.set_password(options_.password);
  etcd::AuthenticateResponse response;
  grpc::ClientContext context;
  context.set_deadline(SteadyDeadline(deadline - SteadyTime()));
  const grpc::Status status = endpoint.users.Authenticate(&context, request, &response);
  if (!status.ok()) {
    // A wrong password is INVALID_ARGUMENT to etcd.
    const auto code =
        IsRefusal(status) ? absl::StatusCode::kUnauthenticated : absl::StatusCode::kUnavailable;
    return absl::Status(code, absl::StrCat("etcd at ", endpoint.address, ": user '", options_.user,
                                           "': ", status.error_message()));
  }
  absl::MutexLock lock(&mutex_);
  token_ = response.token();
  return token_;
}

grpc::Status EtcdStore::Call(Endpoint& endpoint, absl::Time deadline, const Attempt& attempt) {
  for (bool is_first = true;; is_first = false) {
    const auto token = TokenFrom(endpoint, deadline);
    if (!token.ok()) {
      // UNAVAILABLE here too means that the call itself was not sent.
      return {static_cast<grpc::StatusCode>(token.status().code()),
              std::string(token.status().message())};
    }
    grpc::ClientContext context;
    context.set_deadline(SteadyDeadline(deadline - SteadyTime()));
    if (!token->empty()) context.AddMetadata("token", *token);
    grpc::Status status = attempt(endpoint, context);
    if (status.ok() || token->empty() || !is_first || !WantsToken(status)) return status;
    absl::MutexLock lock(&mutex_);
    if (token_ == *token) token_.clear();
  }
}

absl::Status EtcdStore::Read(const Attempt& attempt) {
  const absl::Time deadline = SteadyTime() + options_.timeout;
  const size_t count = endpoints_.size();
  // Each endpoint once, and one of them again: a connection may have broken since it was used.
  const size_t tries = count + 1;
  absl::Status last;
  for (size_t i = 0; i < tries; ++i) {
    Endpoint* const endpoint = Connected(deadline);
    if (endpoint == nullptr) break;
    // A server that is cut off from the others accepts reads and does not answer.
    const absl::Duration part = (deadline - SteadyTime()) / static_cast<double>(tries - i);
    const grpc::Status status = Call(*endpoint, SteadyTime() + part, attempt);
    if (status.ok()) return absl::OkStatus();
    last = endpoint->StatusOf(status, /*changes=*/false);
    if (IsRefusal(status)) return last;
    Avoid(*endpoint);
  }
  return last.ok() ? NoConnection() : last;
}

absl::Status EtcdStore::NoConnection() {
  // A call that does not wait for a connection says why there is none.
  Endpoint& endpoint = *endpoints_[current_.load(std::memory_order_relaxed)];
  const etcd::RangeRequest request =
      ToRangeRequest(options_.prefix, KeyRange::Of("life"), /*limit=*/1, /*revision=*/0);
  etcd::RangeResponse response;
  grpc::ClientContext context;
  context.set_deadline(SteadyDeadline(kLongestAsking));
  const grpc::Status status = endpoint.values.Range(&context, request, &response);
  return absl::UnavailableError(
      absl::StrCat("etcd: no connection to ", endpoint.address,
                   endpoints_.size() == 1 ? "" : " or the other endpoints",
                   WhyNoConnection(status.error_message(), !options_.roots.empty())));
}

absl::Status EtcdStore::Change(const Attempt& attempt) {
  const absl::Time deadline = SteadyTime() + options_.timeout;
  // What is left is for the answer.
  Endpoint* const endpoint = Connected(SteadyTime() + options_.timeout / 2);
  if (endpoint == nullptr) return NoConnection();
  const grpc::Status status = Call(*endpoint, deadline, attempt);
  if (!status.ok() && !IsRefusal(status)) Avoid(*endpoint);
  return endpoint->StatusOf(status, /*changes=*/true);
}

absl::StatusOr<RangeResult> EtcdStore::Range(const KeyRange& range, size_t limit,
                                             Revision revision) {
  const etcd::RangeRequest request = ToRangeRequest(options_.prefix, range, limit, revision);
  etcd::RangeResponse response;
  PH_RETURN_IF_ERROR(Read([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.values.Range(&context, request, &response);
  }));
  return FromRangeResponse(options_.prefix, range, limit, response);
}

absl::StatusOr<TransactionResult> EtcdStore::Commit(const Transaction& transaction) {
  PH_RETURN_IF_ERROR(transaction.Check());
  const etcd::TxnRequest request = ToTxnRequest(options_.prefix, transaction);
  etcd::TxnResponse response;
  const absl::Status status = Change([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.values.Txn(&context, request, &response);
  });
  if (OutcomeIsUnknown(status) && !transaction.ChangesSomething()) {
    return absl::UnavailableError(status.message());
  }
  PH_RETURN_IF_ERROR(status);
  auto result = FromTxnResponse(options_.prefix, transaction, response);
  if (!result.ok() && transaction.ChangesSomething()) {
    return absl::UnknownError(result.status().message());
  }
  return result;
}

absl::StatusOr<StoreLease> EtcdStore::GrantLease(absl::Duration length) {
  if (length <= absl::ZeroDuration()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lease: ", absl::FormatDuration(length), " is not positive"));
  }
  etcd::LeaseGrantRequest request;
  request.set_ttl(absl::ToInt64Seconds(absl::Ceil(length, absl::Seconds(1))));
  etcd::LeaseGrantResponse response;
  PH_RETURN_IF_ERROR(Change([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.leases.LeaseGrant(&context, request, &response);
  }));
  return StoreLease{static_cast<LeaseId>(response.id()), absl::Seconds(response.ttl())};
}

absl::StatusOr<absl::Duration> EtcdStore::KeepAlive(LeaseId lease) {
  etcd::LeaseKeepAliveRequest request;
  request.set_id(static_cast<int64_t>(lease));
  etcd::LeaseKeepAliveResponse response;
  // Twice is as good as once: it can be sent again where an answer was lost.
  PH_RETURN_IF_ERROR(Read([&](Endpoint& endpoint, grpc::ClientContext& context) {
    const auto stream = endpoint.leases.LeaseKeepAlive(&context);
    const bool answered = stream->Write(request) && stream->Read(&response);
    if (!answered) return stream->Finish();
    // etcd ends the stream late, if it is asked to; nobody waits for that.
    context.TryCancel();
    (void)stream->Finish();
    return grpc::Status::OK;
  }));
  if (response.ttl() <= 0) return absl::NotFoundError(absl::StrCat("etcd: no lease ", lease));
  return absl::Seconds(response.ttl());
}

absl::Status EtcdStore::RevokeLease(LeaseId lease) {
  etcd::LeaseRevokeRequest request;
  request.set_id(static_cast<int64_t>(lease));
  etcd::LeaseRevokeResponse response;
  const absl::Status status = Change([&](Endpoint& endpoint, grpc::ClientContext& context) {
    return endpoint.leases.LeaseRevoke(&context, request, &response);
  });
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace packhouse
