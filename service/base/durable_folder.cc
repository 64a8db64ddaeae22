#include "service/base/durable_folder.h"

#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"

namespace packhouse {

std::string DurableFolder::PathOf(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

absl::Status DurableFolder::SettleLocked() {
  if (is_known_) return absl::OkStatus();
  if (const absl::Status synced = SyncFolder(path_); !synced.ok()) {
    // Without the mark: what the caller wants was not tried.
    return absl::UnavailableError(absl::StrCat(
        synced.message(),
        "; it is not known whether an earlier change is on the disk: nothing goes on until it is"));
  }
  is_known_ = true;
  return absl::OkStatus();
}

absl::Status DurableFolder::Settle() {
  if (is_known_) return absl::OkStatus();
  absl::MutexLock lock(&changing_);
  return SettleLocked();
}

absl::Status DurableFolder::Sync() {
  absl::MutexLock lock(&changing_);
  is_known_ = false;
  return SettleLocked();
}

absl::Status DurableFolder::Change(absl::FunctionRef<absl::Status()> change) {
  absl::MutexLock lock(&changing_);
  PH_RETURN_IF_ERROR(SettleLocked());
  absl::Status changed = change();
  if (DiskOutcomeIsUnknown(changed)) is_known_ = false;
  return changed;
}

absl::Status DurableFolder::Put(absl::string_view name, absl::string_view bytes) {
  return Change([&] { return WriteWhole(path_, std::string(name), bytes); });
}

absl::Status DurableFolder::Rename(absl::string_view from, absl::string_view to) {
  return Change([&] { return RenameDurably(PathOf(from), PathOf(to)); });
}

absl::Status DurableFolder::Remove(absl::string_view name) {
  return Change([&] { return RemoveDurably(PathOf(name)); });
}

}  // namespace packhouse
