#include "service/access/policy.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kLongestNamespace = 63;
constexpr std::array<absl::string_view, 5> kRights = {"view", "train", "produce", "own",
                                                      "administer"};
constexpr std::array<absl::string_view, 5> kRoles = {"viewer", "trainer", "producer", "owner",
                                                     "admin"};

}  // namespace

absl::string_view NameOf(Right right) { return kRights[static_cast<size_t>(right)]; }
absl::string_view NameOf(Role role) { return kRoles[static_cast<size_t>(role)]; }

std::optional<Role> RoleNamed(absl::string_view name) {
  const auto* const found = std::find(kRoles.begin(), kRoles.end(), name);
  if (found == kRoles.end()) return std::nullopt;
  return static_cast<Role>(found - kRoles.begin());
}

bool Includes(Role role, Right right) {
  switch (role) {
    case Role::kViewer:
      return right == Right::kView;
    case Role::kTrainer:
      return right == Right::kView || right == Right::kTrain;
    case Role::kProducer:
      return right == Right::kView || right == Right::kProduce;
    case Role::kOwner:
      return right != Right::kAdminister;
    case Role::kAdmin:
      return true;
  }
  return false;
}

absl::string_view NamespaceOf(absl::string_view name) {
  const size_t slash = name.find('/');
  return slash == absl::string_view::npos ? kDefaultNamespace : name.substr(0, slash);
}

absl::Status CheckNamespace(absl::string_view name) {
  const bool valid = !name.empty() && name.size() <= kLongestNamespace &&
                     std::all_of(name.begin(), name.end(), [](char c) {
                       return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' ||
                              c == '.' || c == '-';
                     });
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("namespace '", absl::CHexEscape(name.substr(0, kLongestNamespace + 1)),
                   "' is not 1 to ", kLongestNamespace, " characters of [A-Za-z0-9_.-]"));
}

absl::Status BeyondQuota(absl::string_view where, absl::string_view quota, uint64_t value,
                         uint64_t most) {
  return absl::ResourceExhaustedError(absl::StrCat("namespace '", where, "': the quota '", quota,
                                                   "' is ", most, ", it would become ", value));
}

absl::StatusOr<Policy> Policy::Create(std::vector<Grant> grants,
                                      absl::flat_hash_map<std::string, Quotas> quotas) {
  Policy policy;
  for (Grant& grant : grants) {
    if (grant.principals.empty() || grant.namespaces.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("a grant of the role ", NameOf(grant.role), " has no ",
                       grant.principals.empty() ? "principals" : "namespaces"));
    }
    for (const std::string& where : grant.namespaces) {
      if (where != kAll) PH_RETURN_IF_ERROR(CheckNamespace(where));
      for (const std::string& principal : grant.principals) {
        if (principal.empty()) {
          return absl::InvalidArgumentError(absl::StrCat("a grant of the role ", NameOf(grant.role),
                                                         " names an empty principal"));
        }
        policy.roles_[principal].push_back({grant.role, where});
      }
    }
  }
  for (auto& [where, bounds] : quotas) {
    if (where == kAll) {
      policy.others_ = bounds;
      continue;
    }
    PH_RETURN_IF_ERROR(CheckNamespace(where));
    policy.quotas_.emplace(where, bounds);
  }
  return policy;
}

bool Policy::Allows(const Principal& principal, Right right, absl::string_view where) const {
  for (const absl::string_view name :
       {principal.empty() ? kAnonymous : absl::string_view(principal), kAll}) {
    const auto found = roles_.find(name);
    if (found == roles_.end()) continue;
    for (const RoleIn& each : found->second) {
      if ((each.where == where || each.where == kAll) && Includes(each.role, right)) return true;
    }
  }
  return false;
}

bool Policy::AllowsSomewhere(const Principal& principal, Right right) const {
  for (const absl::string_view name :
       {principal.empty() ? kAnonymous : absl::string_view(principal), kAll}) {
    const auto found = roles_.find(name);
    if (found == roles_.end()) continue;
    for (const RoleIn& each : found->second) {
      if (Includes(each.role, right)) return true;
    }
  }
  return false;
}

const Quotas& Policy::QuotasOf(absl::string_view where) const {
  const auto found = quotas_.find(where);
  return found == quotas_.end() ? others_ : found->second;
}

}  // namespace packhouse
