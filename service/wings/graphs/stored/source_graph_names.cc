#include "service/wings/graphs/stored/source_graph_names.h"

#include <sys/file.h>
#include <unistd.h>

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {

std::string SourceGraphFolderName(uint64_t id) {
  return absl::StrCat(absl::Hex(id, absl::kZeroPad16));
}

bool IsSourceGraphFolderName(absl::string_view name) {
  constexpr size_t kFolderNameBytes = 16;
  return name.size() == kFolderNameBytes &&
         name.find_first_not_of("0123456789abcdef") == absl::string_view::npos;
}

absl::StatusOr<DiskFile> LockSourceGraphs(const std::string& folder) {
  PH_ASSIGN_OR_RETURN(DiskFile lock, DiskFile::Open(folder + "/LOCK", DiskFile::Mode::kAppend));
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    std::string holder(32, '\0');
    PH_ASSIGN_OR_RETURN(const size_t got, lock.ReadAt(0, holder.data(), holder.size()));
    holder.resize(got);
    return absl::FailedPreconditionError(
        absl::StrCat("store '", folder, "' is in use by process ", got > 0 ? holder : "(unknown)"));
  }
  // Only for the message above; it may stay empty on a full disk.
  PH_RETURN_IF_ERROR(lock.Truncate(0));
  lock.WriteAt(0, absl::StrCat(::getpid())).IgnoreError();
  return lock;
}

}  // namespace packhouse
