#include "service/access/security/policy_file.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "service/access/security/small_file.h"
#include "service/access/security/static_tokens.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse::security {
namespace {

absl::Status At(const YAML::Node& node, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("line ", node.Mark().line + 1, ": ", what));
}

// Whether the node is a map whose keys are different, and among `known` if that is not empty.
absl::Status CheckKeys(const YAML::Node& node, absl::string_view what,
                       const std::vector<std::string>& known) {
  if (!node.IsMap()) return At(node, absl::StrCat(what, " is no map"));
  std::set<std::string> seen;
  for (const auto& each : node) {
    const auto key = each.first.as<std::string>();
    if (!known.empty() && std::find(known.begin(), known.end(), key) == known.end()) {
      return At(each.first, absl::StrCat(what, " has an unknown key ", Quoted(key), "; there are ",
                                         absl::StrJoin(known, ", ")));
    }
    if (!seen.insert(key).second) {
      return At(each.first, absl::StrCat(what, " has the key ", Quoted(key), " twice"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> NamesIn(const YAML::Node& parent, const char* key) {
  const YAML::Node node = parent[key];
  if (!node || !node.IsSequence() || node.size() == 0) {
    return At(parent, absl::StrCat("a role has no list '", key, "'"));
  }
  std::vector<std::string> names;
  for (const YAML::Node& each : node) {
    if (!each.IsScalar()) return At(each, absl::StrCat("a name in '", key, "' is no text"));
    names.push_back(each.as<std::string>());
  }
  return names;
}

// "10", "64MiB".
absl::StatusOr<uint64_t> NumberIn(const YAML::Node& node, const std::string& key, bool is_bytes) {
  std::string text = node.IsScalar() ? node.as<std::string>() : "";
  uint64_t unit = 1;
  if (is_bytes) {
    for (const auto& [suffix, bytes] :
         {std::pair("KiB", uint64_t{1} << 10), std::pair("MiB", uint64_t{1} << 20),
          std::pair("GiB", uint64_t{1} << 30), std::pair("TiB", uint64_t{1} << 40)}) {
      absl::string_view number = text;
      if (!absl::ConsumeSuffix(&number, suffix)) continue;
      text = std::string(number);
      unit = bytes;
      break;
    }
  }
  uint64_t number = 0;
  if (!absl::SimpleAtoi(text, &number) || number > std::numeric_limits<uint64_t>::max() / unit) {
    return At(node, absl::StrCat("quota '", key, "' is no whole number",
                                 is_bytes ? " of bytes, such as 1048576 or 10GiB" : ""));
  }
  return number * unit;
}

absl::StatusOr<Policy::Grant> GrantIn(const YAML::Node& node) {
  PH_RETURN_IF_ERROR(CheckKeys(node, "a role", {"role", "principals", "namespaces"}));
  Policy::Grant grant;
  const std::string name =
      node["role"] && node["role"].IsScalar() ? node["role"].as<std::string>() : "";
  const std::optional<Role> role = RoleNamed(name);
  if (!role) {
    return At(node, absl::StrCat("role ", Quoted(name),
                                 " is none of viewer, trainer, producer, owner, admin"));
  }
  grant.role = *role;
  PH_ASSIGN_OR_RETURN(grant.principals, NamesIn(node, "principals"));
  PH_ASSIGN_OR_RETURN(grant.namespaces, NamesIn(node, "namespaces"));
  for (const std::string& principal : grant.principals) {
    if (const absl::Status status = CheckPrincipal(principal); !status.ok()) {
      return At(node, status.message());
    }
    if (principal != kAll && absl::StrContains(principal, '*')) {
      return At(node, absl::StrCat("principal ", Quoted(principal),
                                   " has a '*', which means all principals, and only by itself"));
    }
  }
  for (const std::string& where : grant.namespaces) {
    if (where == kAll) continue;
    if (const absl::Status status = CheckNamespace(where); !status.ok()) {
      return At(node, status.message());
    }
  }
  return grant;
}

// "25%", "0.25".
absl::StatusOr<double> ShareIn(const YAML::Node& node, const std::string& key) {
  const std::string text = node.IsScalar() ? node.as<std::string>() : "";
  absl::string_view number = text;
  const double unit = absl::ConsumeSuffix(&number, "%") ? 100 : 1;
  double share = 0;
  if (!absl::SimpleAtod(number, &share) || !(share > 0) || !(share <= unit)) {
    return At(node,
              absl::StrCat("quota '", key, "' is no share above 0 and at most 1, such as 25%"));
  }
  return share / unit;
}

absl::StatusOr<Quotas> QuotasIn(const YAML::Node& node) {
  Quotas quotas;
  const std::pair<const char*, std::optional<uint64_t>*> known[] = {
      {"disk_bytes", &quotas.disk_bytes},
      {"datasets", &quotas.datasets},
      {"source_graphs", &quotas.source_graphs},
      {"histograms", &quotas.histograms},
      {"epochs", &quotas.epochs},
      {"streams", &quotas.streams},
      {"pending_bytes", &quotas.pending_bytes}};
  std::vector<std::string> names = {"planning"};
  for (const auto& [name, _] : known) names.emplace_back(name);
  PH_RETURN_IF_ERROR(CheckKeys(node, "quotas", names));
  for (const auto& [name, value] : known) {
    if (!node[name]) continue;
    PH_ASSIGN_OR_RETURN(*value, NumberIn(node[name], name, absl::EndsWith(name, "_bytes")));
  }
  if (node["planning"]) {
    PH_ASSIGN_OR_RETURN(quotas.planning, ShareIn(node["planning"], "planning"));
  }
  return quotas;
}

absl::StatusOr<Policy> PolicyIn(const YAML::Node& root) {
  PH_RETURN_IF_ERROR(CheckKeys(root, "the policy", {"version", "roles", "namespaces"}));
  if (!root["version"] || !root["version"].IsScalar() || root["version"].as<std::string>() != "1") {
    return At(root, "the policy has no 'version: 1'");
  }
  std::vector<Policy::Grant> grants;
  if (const YAML::Node roles = root["roles"]) {
    if (!roles.IsSequence()) return At(roles, "'roles' is no list");
    for (const YAML::Node& each : roles) {
      PH_ASSIGN_OR_RETURN(Policy::Grant grant, GrantIn(each));
      grants.push_back(std::move(grant));
    }
  }
  absl::flat_hash_map<std::string, Quotas> quotas;
  if (const YAML::Node namespaces = root["namespaces"]) {
    PH_RETURN_IF_ERROR(CheckKeys(namespaces, "'namespaces'", {}));
    for (const auto& each : namespaces) {
      const auto name = each.first.as<std::string>();
      if (name != kAll) {
        if (const absl::Status status = CheckNamespace(name); !status.ok()) {
          return At(each.first, status.message());
        }
      }
      PH_RETURN_IF_ERROR(CheckKeys(each.second, absl::StrCat("namespace ", name), {"quotas"}));
      if (!each.second["quotas"]) continue;
      PH_ASSIGN_OR_RETURN(quotas[name], QuotasIn(each.second["quotas"]));
    }
  }
  return Policy::Create(std::move(grants), std::move(quotas));
}

}  // namespace

absl::StatusOr<Policy> ParsePolicy(const std::string& yaml) {
  // The library reports by exceptions.
  try {
    PH_RETURN_IF_ERROR(CheckUtf8(yaml));
    // Load() would leave the others unread.
    std::vector<YAML::Node> documents = YAML::LoadAll(yaml);
    std::erase_if(documents, [](const YAML::Node& each) { return each.IsNull(); });
    if (documents.size() > 1) {
      return At(documents[1], "a second document begins; a policy is one");
    }
    return PolicyIn(documents.empty() ? YAML::Node() : documents.front());
  } catch (const YAML::Exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", error.mark.line + 1, ": it is no YAML: ", error.msg));
  }
}

absl::StatusOr<std::unique_ptr<PolicyFile>> PolicyFile::Open(std::string path) {
  auto file = std::unique_ptr<PolicyFile>(new PolicyFile(std::move(path)));
  PH_RETURN_IF_ERROR(file->Reload().status());
  return file;
}

absl::StatusOr<bool> PolicyFile::Read(bool is_asked) {
  PH_ASSIGN_OR_RETURN(std::string text, ReadSmallFile(path_));
  const bool is_at_rest = resting_.IsAtRest(text);
  if (text == text_ || !(is_asked || is_at_rest)) return false;
  absl::StatusOr<Policy> policy = ParsePolicy(text);
  if (!policy.ok()) {
    return absl::Status(policy.status().code(),
                        absl::StrCat("'", path_, "': ", policy.status().message()));
  }
  authorizer_.Set(std::make_shared<const Policy>(*std::move(policy)));
  text_ = std::move(text);
  return true;
}

}  // namespace packhouse::security
