#include "service/program/http_admission.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace packhouse {

http::Admission Admit(const HttpAdmission& admission, const http::Caller& caller,
                      const http::Request& request) {
  if (!admission.demands_credentials && request.authorization.empty() && !caller.has_certificate) {
    return {};
  }
  CallCredentials credentials;
  credentials.peer = absl::StrCat("http:", caller.address);
  credentials.authorization = request.authorization;
  credentials.has_certificate = caller.has_certificate;
  credentials.certificate_names = caller.certificate_names;
  absl::StatusOr<Principal> principal = admission.authenticator->Authenticate(credentials);
  if (!principal.ok()) return {401, "", std::string(principal.status().message())};
  if (admission.demands_credentials && admission.authorizer != nullptr) {
    const auto where =
        request.path == "/metrics" ? Demand::Where::kServer : Demand::Where::kSomewhere;
    const absl::Status allowed =
        admission.authorizer->Check(*principal, {Right::kView, where, "", ""});
    if (!allowed.ok()) return {403, "", std::string(allowed.message())};
  }
  return {200, *std::move(principal), ""};
}

}  // namespace packhouse
