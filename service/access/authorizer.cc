#include "service/access/authorizer.h"

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"

namespace packhouse {

class Authorizer::StreamPlace {
 public:
  StreamPlace(const Authorizer* authorizer, std::string where)
      : authorizer_(authorizer), where_(std::move(where)) {}
  ~StreamPlace() {
    absl::MutexLock lock(&authorizer_->mutex_);
    const auto found = authorizer_->streams_.find(where_);
    if (--found->second == 0) authorizer_->streams_.erase(found);
  }
  StreamPlace(const StreamPlace&) = delete;
  StreamPlace& operator=(const StreamPlace&) = delete;

 private:
  const Authorizer* const authorizer_;
  const std::string where_;
};

absl::StatusOr<std::shared_ptr<const void>> Authorizer::EnterStream(absl::string_view where) const {
  const std::optional<uint64_t> most = policy()->QuotasOf(where).streams;
  if (!most) return nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = streams_.find(where);
    const uint64_t open = found == streams_.end() ? 0 : found->second;
    if (open >= *most) {
      return absl::ResourceExhaustedError(
          absl::StrCat("namespace '", where, "': the quota 'streams' is ", *most, ", ", open,
                       " are open; try again when one has ended"));
    }
    ++streams_[std::string(where)];
  }
  return std::make_shared<const StreamPlace>(this, std::string(where));
}

uint64_t Authorizer::StreamsIn(absl::string_view where) const {
  absl::MutexLock lock(&mutex_);
  const auto found = streams_.find(where);
  return found == streams_.end() ? 0 : found->second;
}

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
