#include "service/wings/cluster/graphs/joined_objects.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CannotMap(uint64_t num_bytes, int error) {
  return absl::ResourceExhaustedError(
      absl::StrCat("cannot map ", num_bytes,
                   " bytes of objects (the kernel's vm.max_map_count, or "
                   "a bound of the process): ",
                   std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::shared_ptr<const JoinedObjects>> JoinedObjects::Join(Objects objects,
                                                                         const ChunkCache& cache) {
  const auto joined = std::shared_ptr<JoinedObjects>(new JoinedObjects(std::move(objects)));
  PH_ASSIGN_OR_RETURN(joined->counted_, cache.CountMaps(joined->objects_.size()));
  uint64_t num_bytes = 0;
  for (const auto& object : joined->objects_) num_bytes += object->bytes().size();
  if (num_bytes == 0) return joined;
  // Addresses only, over which the objects are laid.
  void* const begin =
      ::mmap(nullptr, num_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (begin == MAP_FAILED) return CannotMap(num_bytes, errno);
  joined->begin_ = static_cast<char*>(begin);
  joined->num_bytes_ = num_bytes;
  uint64_t at = 0;
  for (const auto& object : joined->objects_) {
    const absl::string_view bytes = object->bytes();
    if (bytes.empty()) continue;
    // An old size of 0 makes a second map of the same pages, for shared maps only.
    void* const placed = ::mremap(const_cast<char*>(bytes.data()), 0, bytes.size(),
                                  MREMAP_MAYMOVE | MREMAP_FIXED, joined->begin_ + at);
    if (placed == MAP_FAILED) return CannotMap(num_bytes, errno);
    at += bytes.size();
  }
  return joined;
}

JoinedObjects::~JoinedObjects() {
  if (begin_ != nullptr) ::munmap(begin_, num_bytes_);
}

}  // namespace packhouse
