// When things were last used, by a server that is alone or by any of several.
#ifndef PACKHOUSE_SERVICE_STORES_KEYS_USES_H_
#define PACKHOUSE_SERVICE_STORES_KEYS_USES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/all_listed.h"
#include "service/base/status_macros.h"
#include "service/stores/keys/shared_uses.h"
#include "service/stores/limits/retention.h"

namespace packhouse {

// One of the two is there. Thread-safe as they are.
class Uses {
 public:
  explicit Uses(std::unique_ptr<LastUses> alone) : alone_(std::move(alone)) {}
  explicit Uses(std::unique_ptr<SharedUses> shared) : shared_(std::move(shared)) {}

  // Null: servers share them.
  LastUses* alone() const { return alone_.get(); }
  SharedUses* shared() const { return shared_.get(); }

  void Add(const std::string& name, uint64_t id) {
    alone_ != nullptr ? alone_->Add(name) : shared_->Add(name, id);
  }
  void Forget(absl::string_view name) {
    alone_ != nullptr ? alone_->Forget(name) : shared_->Forget(name);
  }
  // An error: nobody else knows of the use, which must not be.
  absl::Status Use(absl::string_view name) {
    if (alone_ == nullptr) return shared_->Use(name);
    alone_->Use(name);
    return absl::OkStatus();
  }
  absl::Status Save() { return alone_ != nullptr ? alone_->Save() : shared_->Save(); }
  uint64_t num_expired() const {
    return alone_ != nullptr ? alone_->num_expired() : shared_->num_expired();
  }

 private:
  std::unique_ptr<LastUses> alone_;
  std::unique_ptr<SharedUses> shared_;
};

// Of a store that says what is in use.
using MakeUses = std::function<Uses(LastUses::InUse in_use)>;

// In a file of this server's: as LastUses.
inline MakeUses UsesInFile(std::string path, Retention retention, std::function<absl::Time()> now) {
  return [=](LastUses::InUse in_use) {
    return Uses(std::make_unique<LastUses>(path, retention, now, std::move(in_use)));
  };
}

// As that of LastUses.
template <typename Store, typename Page, typename Info>
absl::Status DeleteUnused(Store& store, std::vector<Info> Page::*things, Uses& uses,
                          std::vector<Expired>& expired) {
  if (uses.alone() != nullptr) return DeleteUnused(store, things, *uses.alone(), expired);
  SharedUses& shared = *uses.shared();
  PH_RETURN_IF_ERROR(shared.BeginSweep());
  absl::Status first_error;
  PH_RETURN_IF_ERROR(ForAllListed(store, things, [&](const Info& info) {
    if (info.state == decltype(info.state)::kDamaged) return;
    const auto unused = shared.RemoveIfUnused(info.name, info.id);
    first_error.Update(unused.status());
    if (unused.ok() && *unused) expired.push_back({info.name, **unused, info.num_bytes});
  }));
  first_error.Update(shared.EndSweep());
  return first_error;
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_KEYS_USES_H_
