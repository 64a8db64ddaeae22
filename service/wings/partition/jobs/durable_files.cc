#include "service/wings/partition/jobs/durable_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status PathError(const std::string& path, int error) {
  const std::string text = absl::StrCat(path, ": ", std::strerror(error));
  if (error == ENOSPC || error == EDQUOT) return absl::ResourceExhaustedError(text);
  if (error == ENOENT) return absl::NotFoundError(text);
  return absl::UnavailableError(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileSink>> FileSink::Create(std::string path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (descriptor < 0) return PathError(path, errno);
  return std::unique_ptr<FileSink>(new FileSink(std::move(path), descriptor));
}

FileSink::~FileSink() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

absl::Status FileSink::Write(absl::string_view bytes) {
  bytes_ += bytes.size();
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  PH_RETURN_IF_ERROR(Flush());
  if (bytes.size() >= kBufferBytes) return WriteAll(bytes);
  buffer_.append(bytes.data(), bytes.size());
  return absl::OkStatus();
}

absl::Status FileSink::WriteAll(absl::string_view bytes) {
  while (!bytes.empty() && status_.ok()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      status_ = PathError(path_, errno);
    } else {
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }
  return status_;
}

absl::Status FileSink::Flush() {
  const absl::Status status = WriteAll(buffer_);
  buffer_.clear();
  return status;
}

absl::Status FileSink::Finish() {
  PH_RETURN_IF_ERROR(Flush());
  while (::fsync(descriptor_) != 0) {
    if (errno != EINTR) return PathError(path_, errno);
  }
  // Closing does not fail after a sync that did not.
  ::close(std::exchange(descriptor_, -1));
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> WriteDurably(const std::string& path,
                                      absl::FunctionRef<absl::Status(ByteSink&)> write) {
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<FileSink> sink, FileSink::Create(path));
  absl::Status written = write(*sink);
  if (written.ok()) written = sink->Finish();
  if (written.ok()) return sink->bytes();
  ::unlink(path.c_str());
  return written;
}

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return PathError(path, errno);
  struct stat state = {};
  absl::Status status;
  void* data = nullptr;
  if (::fstat(descriptor, &state) != 0) {
    status = PathError(path, errno);
  } else if (!S_ISREG(state.st_mode)) {
    status = absl::NotFoundError(absl::StrCat(path, ": is no file"));
  } else if (state.st_size > 0) {
    data =
        ::mmap(nullptr, static_cast<size_t>(state.st_size), PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (data == MAP_FAILED) status = PathError(path, errno);
  }
  ::close(descriptor);
  if (!status.ok()) return status;
  if (data == nullptr) return MappedFile(absl::string_view());
  return MappedFile({static_cast<const char*>(data), static_cast<size_t>(state.st_size)});
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

absl::Status RemoveFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? PathError(path, error.value()) : absl::OkStatus();
}

bool PathExists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace packhouse
