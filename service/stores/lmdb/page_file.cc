#include "service/stores/lmdb/page_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace packhouse {

PageFile::PageFile(const std::string& path) : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}

PageFile::~PageFile() {
  if (fd_ >= 0) ::close(fd_);
}

uint64_t PageFile::size() const {
  struct stat stat = {};
  return ::fstat(fd_, &stat) == 0 ? stat.st_size : 0;
}

absl::Status PageFile::Read(uint64_t offset, size_t bytes, char* out) const {
  while (bytes != 0) {
    const ssize_t got = ::pread(fd_, out, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return DamagedFile("cannot read at ", offset, ": ", std::strerror(errno));
    if (got == 0) return DamagedFile("the file ends at ", offset, ", where more was written");
    offset += got;
    out += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

}  // namespace packhouse
