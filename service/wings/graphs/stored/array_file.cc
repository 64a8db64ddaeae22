#include "service/wings/graphs/stored/array_file.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"

namespace packhouse {

ArrayWriter::ArrayWriter(DiskFile file, std::string name, GraphSpace* space)
    : file_(std::move(file)), space_(space) {
  info_.name = std::move(name);
  block_.reserve(ArrayInfo::kBlockBytes);
}

absl::StatusOr<ArrayWriter> ArrayWriter::Create(const std::string& folder, const std::string& name,
                                                GraphSpace* space) {
  PH_ASSIGN_OR_RETURN(DiskFile file,
                      DiskFile::Open(absl::StrCat(folder, "/", name), DiskFile::Mode::kNew));
  return ArrayWriter(std::move(file), name, space);
}

absl::Status ArrayWriter::WriteBlock() {
  if (block_.empty()) return absl::OkStatus();
  PH_RETURN_IF_ERROR(space_->Take(block_.size()));
  if (absl::Status written = file_.WriteAt(info_.bytes, block_); !written.ok()) {
    space_->Give(block_.size());
    return written;
  }
  info_.block_crcs.push_back(Crc32c(block_));
  info_.bytes += block_.size();
  block_.clear();
  return absl::OkStatus();
}

absl::Status ArrayWriter::AppendLong(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t fits = std::min<size_t>(bytes.size(), ArrayInfo::kBlockBytes - block_.size());
    block_.append(bytes.data(), fits);
    bytes.remove_prefix(fits);
    if (block_.size() == ArrayInfo::kBlockBytes) PH_RETURN_IF_ERROR(WriteBlock());
  }
  return absl::OkStatus();
}

absl::Status ArrayWriter::AppendZeros(uint64_t bytes) {
  while (bytes > 0) {
    const uint64_t fits = std::min<uint64_t>(bytes, ArrayInfo::kBlockBytes - block_.size());
    block_.append(fits, '\0');
    bytes -= fits;
    if (block_.size() == ArrayInfo::kBlockBytes) PH_RETURN_IF_ERROR(WriteBlock());
  }
  return absl::OkStatus();
}

absl::StatusOr<ArrayInfo> ArrayWriter::Finish() {
  PH_RETURN_IF_ERROR(WriteBlock());
  PH_RETURN_IF_ERROR(file_.Sync());
  file_ = DiskFile();
  block_ = std::string();
  return std::move(info_);
}

absl::StatusOr<FileMap> FileMap::Open(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(path, DiskFile::Mode::kRead));
  PH_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
  FileMap map;
  if (size == 0) return map;
  void* const data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd(), 0);
  if (data == MAP_FAILED) return DiskStatus(errno, "cannot map", path);
  map.data_ = static_cast<const char*>(data);
  map.bytes_ = size;
  return map;
}

FileMap::~FileMap() {
  if (data_ != nullptr) ::munmap(const_cast<char*>(data_), bytes_);
}

}  // namespace packhouse
