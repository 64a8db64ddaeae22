#include "service/stores/lmdb/lmdb_status.h"

#include <lmdb.h>
#include <sys/statvfs.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace packhouse {

absl::Status LmdbStatus(int code, absl::string_view what, const std::string& folder,
                        uint64_t map_bytes) {
  if (code == MDB_SUCCESS) return absl::OkStatus();
  const std::string message =
      absl::StrCat("store '", folder, "': ", what, ": ", mdb_strerror(code));
  switch (code) {
    case EIO: {
      // LMDB returns this for a short write, which happens when the disk becomes full.
      struct statvfs disk = {};
      constexpr uint64_t kFull = uint64_t{16} << 20;
      if (::statvfs(folder.c_str(), &disk) == 0 &&
          static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize < kFull) {
        return absl::ResourceExhaustedError(
            absl::StrCat("store '", folder, "': ", what, ": no space left on the disk, ",
                         disk.f_bavail * disk.f_frsize, " bytes are free"));
      }
      return absl::UnavailableError(message);
    }
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
    case MDB_TXN_FULL:
    case MDB_READERS_FULL:
      return absl::ResourceExhaustedError(message);
    case MDB_MAP_FULL:
      return absl::ResourceExhaustedError(absl::StrCat(message, ", of ", map_bytes, " bytes"));
    case MDB_PANIC:
      return absl::UnavailableError(message);
    case MDB_CORRUPTED:
    case MDB_PAGE_NOTFOUND:
    case MDB_INVALID:
      return absl::DataLossError(message);
    case MDB_VERSION_MISMATCH:
    case EBUSY:
      return absl::FailedPreconditionError(message);
    default:
      // LMDB's own codes are negative; others are the system's, such as "too many open files".
      return code > 0 ? absl::UnavailableError(message) : absl::InternalError(message);
  }
}

}  // namespace packhouse
