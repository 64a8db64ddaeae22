#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_maintenance.h"
#include "service/stores/lmdb/lmdb_page_check.h"
#include "service/stores/lmdb/store_folder.h"

namespace packhouse {
namespace {

// The file is mapped as a whole if it is larger.
constexpr uint64_t kLeastMapOfCopy = uint64_t{1} << 28;
constexpr char kCopyFile[] = "/data.mdb.compact";

absl::Status SyncPath(const LmdbEnvironment& environment, const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const int error = fd < 0 || ::fsync(fd) != 0 ? errno : 0;
  if (fd >= 0) ::close(fd);
  return environment.StatusOf(error, absl::StrCat("cannot sync '", path, "'"));
}

absl::Status Replace(const LmdbEnvironment& environment, const std::string& file,
                     const std::string& copy) {
  PH_RETURN_IF_ERROR(environment.CopyCompactly(copy));
  PH_RETURN_IF_ERROR(environment.CheckFiles());
  PH_RETURN_IF_ERROR(SyncPath(environment, copy));
  PH_RETURN_IF_ERROR(CheckLmdbPages(copy));
  return RenameDurably(copy, file);
}

}  // namespace

absl::StatusOr<CompactedFile> CompactLmdbFolder(const std::string& folder) {
  const std::string file = folder + StoreFolder::kDataFile;
  const std::string copy = folder + kCopyFile;
  std::error_code error;
  CompactedFile compacted;
  compacted.bytes_before = std::filesystem::file_size(file, error);
  if (error) return absl::NotFoundError(absl::StrCat("store: there is no '", file, "'"));
  // It keeps the folder locked until the end.
  PH_ASSIGN_OR_RETURN(const auto environment, LmdbEnvironment::Open(folder, kLeastMapOfCopy));
  std::filesystem::remove(copy, error);
  const absl::Status replaced = Replace(*environment, file, copy);
  if (!replaced.ok()) {
    // Of unknown outcome is the last step alone: then there is none.
    std::filesystem::remove(copy, error);
    return replaced;
  }
  compacted.bytes_after = std::filesystem::file_size(file, error);
  return compacted;
}

}  // namespace packhouse
