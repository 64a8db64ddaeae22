#include "service/wings/cluster/etcd/etcd_options.h"

#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint32_t kDefaultPort = 2379;

absl::StatusOr<std::string> EndpointOf(absl::string_view text) {
  absl::string_view host = text;
  absl::string_view port;
  const size_t colon = text.rfind(':');
  const bool has_port = colon != absl::string_view::npos && text.find(']', colon) == text.npos;
  if (has_port) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
  }
  uint32_t number = kDefaultPort;
  if (host.empty() ||
      (has_port && (!absl::SimpleAtoi(port, &number) || number == 0 || number > 65535))) {
    return absl::InvalidArgumentError(
        absl::StrCat(Quoted(text), " is not HOST or HOST:PORT with a port of 1 to 65535"));
  }
  const bool is_bracketed = host.front() == '[' && host.back() == ']';
  for (const char c : host) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '-' || c == '_' ||
        (is_bracketed && (c == ':' || c == '[' || c == ']' || c == '%'))) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat(Quoted(text), " is no host"));
  }
  return absl::StrCat(host, ":", number);
}

}  // namespace

absl::StatusOr<EtcdOptions> ParseEtcdUri(absl::string_view uri) {
  if (absl::StrContains(uri, '@')) {
    return absl::InvalidArgumentError(
        "an etcd:// address has an '@': it names hosts and a prefix, never a user or password");
  }
  absl::string_view rest = uri;
  if (!absl::ConsumePrefix(&rest, "etcd://")) {
    return absl::InvalidArgumentError(absl::StrCat(Quoted(uri), " does not begin with etcd://"));
  }
  EtcdOptions options;
  const size_t slash = rest.find('/');
  if (slash != absl::string_view::npos) {
    const absl::string_view prefix = absl::StripSuffix(rest.substr(slash + 1), "/");
    if (!prefix.empty()) options.prefix = absl::StrCat(prefix, "/");
    rest = rest.substr(0, slash);
  }
  for (const absl::string_view endpoint : absl::StrSplit(rest, ',')) {
    PH_ASSIGN_OR_RETURN(options.endpoints.emplace_back(), EndpointOf(endpoint));
  }
  return options;
}

}  // namespace packhouse
