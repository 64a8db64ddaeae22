#include "service/server/http/own_page.h"

#include <arpa/inet.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/quoted.h"

namespace packhouse::http {
namespace {

// "Host.Example.:80" is "host.example", "[::1]:80" is "::1".
std::string NameOfHost(absl::string_view host) {
  if (absl::ConsumePrefix(&host, "[")) return std::string(host.substr(0, host.find(']')));
  host = host.substr(0, host.rfind(':'));
  absl::ConsumeSuffix(&host, ".");
  return absl::AsciiStrToLower(host);
}

bool IsNumeric(const std::string& name) {
  in_addr ipv4 = {};
  in6_addr ipv6 = {};
  return ::inet_pton(AF_INET, name.c_str(), &ipv4) == 1 ||
         ::inet_pton(AF_INET6, name.c_str(), &ipv6) == 1;
}

}  // namespace

OwnPage::OwnPage(std::vector<std::string> names) : names_(std::move(names)) {
  for (std::string& name : names_) name = NameOfHost(name);
}

bool OwnPage::Knows(absl::string_view name) const {
  return name == "localhost" || absl::EndsWith(name, ".localhost") ||
         IsNumeric(std::string(name)) ||
         std::any_of(names_.begin(), names_.end(),
                     [&](const std::string& each) { return each == "*" || each == name; });
}

std::string OwnPage::WhyNot(const CameFrom& request, bool is_proven) const {
  const std::string& site = request.fetch_site;
  if (!site.empty() && site != "same-origin" && site != "none") {
    return absl::StrCat("only this server's own page may ask this: Sec-Fetch-Site is ",
                        Quoted(site));
  }
  if (!request.origin.empty() && request.origin != absl::StrCat("http://", request.host) &&
      request.origin != absl::StrCat("https://", request.host)) {
    return absl::StrCat("only this server's own page may ask this: Origin is ",
                        Quoted(request.origin), ", Host is ", Quoted(request.host));
  }
  // Browsers always say it.
  if (is_proven || request.host.empty()) return "";
  const std::string name = NameOfHost(request.host);
  if (Knows(name)) return "";
  return absl::StrCat("this server does not know the name ", Quoted(name),
                      " as its own; ask its numeric address, or start it with --http-names ", name);
}

}  // namespace packhouse::http
