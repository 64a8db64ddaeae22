#include "service/admission/authorizer.h"

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"

namespace packhouse {

absl::Status Authorizer::Check(const Principal& principal, const Demand& demand) const {
  const std::shared_ptr<const Policy> now = policy();
  std::string on;
  bool allowed = false;
  switch (demand.where) {
    case Demand::Where::kNamed:
      allowed = now->Allows(principal, demand.right, NamespaceOf(demand.name));
      if (!allowed) on = absl::StrCat("on ", demand.kind, " ", Quoted(demand.name));
      break;
    case Demand::Where::kSomewhere:
      allowed = now->AllowsSomewhere(principal, demand.right);
      on = "in any namespace";
      break;
    case Demand::Where::kServer:
      allowed = now->Allows(principal, demand.right, kAll);
      on = "on the server";
      break;
  }
  if (allowed) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat("the server's policy gives principal ",
                   Quoted(principal.empty() ? kAnonymous : absl::string_view(principal)),
                   " no right '", NameOf(demand.right), "' ", on));
}

}  // namespace packhouse
