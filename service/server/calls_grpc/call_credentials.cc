#include "service/server/calls_grpc/call_credentials.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/security/auth_context.h"
#include "service/server/calls_grpc/in_process_calls.h"

namespace packhouse::rpc {
namespace {

// Longer ones are dropped: they are for people and tools, and a log has no room for more.
constexpr size_t kLongestId = 128;

// The value of a key that may come once. Several are none: nobody knows which one counts.
std::string ValueOf(const grpc::CallbackServerContext& call, const char* key) {
  const auto [first, last] = call.client_metadata().equal_range(key);
  if (first == last || std::next(first) != last) return "";
  return std::string(first->second.data(), first->second.size());
}

// Printable ASCII that may be sent back as a header.
std::string IdOf(const grpc::CallbackServerContext& call, const char* key) {
  std::string id = ValueOf(call, key);
  const bool fits = id.size() <= kLongestId &&
                    std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f; });
  return fits ? id : "";
}

}  // namespace

CallCredentials CredentialsOf(const grpc::CallbackServerContext& call) {
  CallCredentials credentials;
  credentials.peer = call.peer();
  if (const auto context = call.auth_context();
      context != nullptr && context->IsPeerAuthenticated()) {
    credentials.has_certificate = true;
    for (const char* const kind : {GRPC_PEER_URI_PROPERTY_NAME, GRPC_PEER_DNS_PROPERTY_NAME,
                                   GRPC_PEER_EMAIL_PROPERTY_NAME}) {
      for (const grpc::string_ref& name : context->FindPropertyValues(kind)) {
        credentials.certificate_names.emplace_back(name.data(), name.size());
      }
    }
  }
  // The page's calls, of a viewer whom the HTTP port knows. It counts as a certificate's name.
  if (const std::optional<std::string> viewer =
          ViewerOf(ValueOf(call, kViewerKey), credentials.peer)) {
    credentials.has_certificate = true;
    credentials.certificate_names = {*viewer};
  }
  credentials.authorization = ValueOf(call, "authorization");
  if (credentials.authorization.empty() && call.client_metadata().count("authorization") > 1) {
    credentials.authorization = "several";
  }
  credentials.request_id = IdOf(call, "x-request-id");
  credentials.trace = IdOf(call, "traceparent");
  return credentials;
}

CallContext ContextOf(const CallContext& server, grpc::CallbackServerContext& call) {
  const CallCredentials credentials = CredentialsOf(call);
  if (!credentials.request_id.empty()) {
    call.AddInitialMetadata("x-request-id", credentials.request_id);
  }
  if (!credentials.trace.empty()) call.AddInitialMetadata("traceparent", credentials.trace);
  return server.From(credentials);
}

}  // namespace packhouse::rpc
