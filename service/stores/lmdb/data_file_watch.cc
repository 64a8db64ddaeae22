#include "service/stores/lmdb/data_file_watch.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_status.h"

namespace packhouse {
namespace {

struct MappedFile {
  const void* begin;
  size_t bytes;
};

// The maps of the file with this name, found by its number or its name: if one file system lies
// over another, either may differ from the map's. Reads /proc/self/maps; empty if it cannot.
std::vector<MappedFile> FindMaps(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::canonical(path, error).string();
  struct stat file = {};
  const bool has_inode = ::stat(path.c_str(), &file) == 0;
  std::vector<MappedFile> found;
  std::ifstream maps("/proc/self/maps");
  const std::string inode_word = absl::StrCat(" ", file.st_ino, " ");
  for (std::string line; std::getline(maps, line);) {
    // A process may have thousands.
    if (!absl::StrContains(line, inode_word) && (error || !absl::EndsWith(line, absolute)))
      continue;
    uintptr_t begin = 0;
    uintptr_t end = 0;
    unsigned major_number = 0;
    unsigned minor_number = 0;
    unsigned long long inode = 0;
    int name = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %x:%x %llu %n", &begin, &end,
                    &major_number, &minor_number, &inode, &name) < 5) {
      continue;
    }
    const bool is_inode = has_inode && inode == file.st_ino && major_number == major(file.st_dev) &&
                          minor_number == minor(file.st_dev);
    if (is_inode || (!error && line.substr(name) == absolute)) {
      found.push_back({reinterpret_cast<const void*>(begin), end - begin});
    }
  }
  return found;
}

// The part at the file's end that is searched for holes. More than one commit writes, except for a
// single large append.
constexpr uint64_t kLookedBytes = uint64_t{128} << 20;
// The magic number of ZFS. ZFS makes everything durable before it reports holes.
constexpr unsigned long kZfs = 0x2fc12fc1;

// A file descriptor for finding holes; -1 if the file system does not report holes, or not soon.
absl::StatusOr<int> OpenForHoles(const std::string& path, const std::string& folder) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return LmdbStatus(errno, "cannot open its file", folder);
  struct statfs system = {};
  if (::fstatfs(fd, &system) == 0 && static_cast<unsigned long>(system.f_type) != kZfs) return fd;
  ::close(fd);
  return -1;
}

}  // namespace

DataFileWatch::~DataFileWatch() {
  if (holes_fd_ >= 0) ::close(holes_fd_);
}

void DataFileWatch::BeforeOpening(const StoreFolder* folder) {
  folder_ = folder;
  data_path_ = folder->data_file();
  for (const std::string& file : {folder->data_file(), folder->reader_table()}) {
    for (const MappedFile& map : FindMaps(file)) maps_before_.push_back(map.begin);
  }
}

absl::Status DataFileWatch::Start(int data_fd) {
  data_fd_ = data_fd;
  for (const bool is_data : {true, false}) {
    bool is_found = false;
    for (const MappedFile& map :
         FindMaps(is_data ? folder_->data_file() : folder_->reader_table())) {
      if (std::find(maps_before_.begin(), maps_before_.end(), map.begin) != maps_before_.end()) {
        continue;
      }
      const auto use = is_data ? MapGuard::Use::kRead : MapGuard::Use::kReadAndWrite;
      PH_ASSIGN_OR_RETURN((is_data ? data_guard_ : table_guard_),
                          MapGuard::Create(map.begin, map.bytes, use));
      is_found = true;
    }
    // A store on a read-only file system may have no table.
    if (!is_found && is_data) {
      return absl::UnavailableError(absl::StrCat(
          "store '", folder_->path(), "': /proc/self/maps does not say where its file is mapped"));
    }
  }
  struct stat opened = {};
  struct stat named = {};
  names_tell_files_ = ::fstat(data_fd_, &opened) == 0 &&
                      ::stat(folder_->data_file().c_str(), &named) == 0 &&
                      opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
  file_bytes_.store(opened.st_size);
  PH_ASSIGN_OR_RETURN(holes_fd_, OpenForHoles(folder_->data_file(), folder_->path()));
  return absl::OkStatus();
}

absl::Status DataFileWatch::SetPageBytes(size_t page_bytes) {
  page_bytes_ = page_bytes;
  PH_ASSIGN_OR_RETURN(meta_pages_, ReadMetaPages());
  return absl::OkStatus();
}

void DataFileWatch::StopGuarding() {
  data_guard_ = MapGuard();
  table_guard_ = MapGuard();
}

void DataFileWatch::GuardForEver() {
  data_guard_.LeaveBehind();
  table_guard_.LeaveBehind();
}

absl::Status DataFileWatch::Break(absl::string_view why) const {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok()) {
    failure_ = absl::DataLossError(absl::StrCat("store '", folder_->path(), "': its file '",
                                                folder_->data_file(), "' ", why,
                                                "; nothing more is done until it is opened anew"));
  }
  is_broken_.store(true, std::memory_order_release);
  return failure_;
}

absl::Status DataFileWatch::BreakUnreadable() const {
  struct stat file = {};
  const bool is_known = data_fd_ >= 0 && ::fstat(data_fd_, &file) == 0;
  const uint64_t longest = file_bytes_.load();
  if (is_known && static_cast<uint64_t>(file.st_size) < longest) {
    return Break(absl::StrCat("was cut off while it was open: it has ", file.st_size,
                              " bytes, had ", longest));
  }
  if (table_guard_.has_failed()) return Break("lost its table of readers, 'lock.mdb'");
  return Break("cannot be read, or its pages have been damaged, while it was open");
}

absl::Status DataFileWatch::failure() const {
  if (has_unreadable()) return BreakUnreadable();
  if (!is_broken()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::Status DataFileWatch::Check() const {
  if (absl::Status status = failure(); !status.ok()) return status;
  const std::string& path = data_path_;
  // Read before the file is checked: the file may become longer meanwhile.
  uint64_t longest = file_bytes_.load();
  struct stat opened = {};
  struct stat named = {};
  if (::fstat(data_fd_, &opened) != 0)
    return LmdbStatus(errno, "cannot look at its file", folder_->path());
  if (::stat(path.c_str(), &named) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Break("was removed while it was open");
    return absl::UnavailableError(absl::StrCat("store '", folder_->path(), "': cannot look at '",
                                               path, "': ", std::strerror(errno)));
  }
  if (opened.st_nlink == 0) return Break("was removed while it was open");
  if (names_tell_files_ && (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)) {
    return Break("was replaced by another while it was open");
  }
  const auto bytes = static_cast<uint64_t>(opened.st_size);
  if (bytes < longest) return BreakUnreadable();
  while (bytes > longest && !file_bytes_.compare_exchange_weak(longest, bytes)) continue;
  if (is_committing_.load()) {
    // The present commit may have made the file as long again. That commit may also end here and
    // another begin; a hole that was there earlier is then still the first.
    const uint64_t first_hole = first_hole_.load();
    if (FirstHole() < first_hole) return Break("was cut off while it was written to");
  }
  // The commit may have ended just now and reported the failure.
  return failure();
}

absl::StatusOr<DataFileWatch::MetaPages> DataFileWatch::ReadMetaPages() const {
  // Bytes that are not there count as zero.
  MetaPages pages = {};
  for (size_t i = 0; i < pages.size(); ++i) {
    ssize_t got = -1;
    do {
      got = ::pread(data_fd_, pages[i].data(), kMetaBytes, static_cast<off_t>(i * page_bytes_));
    } while (got < 0 && errno == EINTR);
    if (got < 0) return LmdbStatus(errno, "cannot read its file", folder_->path());
  }
  return pages;
}

void DataFileWatch::PutMetaPagesBack(const MetaPages& written) const {
  if (is_broken()) return;
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i] == meta_pages_[i]) continue;
    // LMDB has failed for good, so this cannot do harm. If it fails as well, the next start may
    // find the page damaged.
    const ssize_t ignored [[maybe_unused]] =
        ::pwrite(data_fd_, meta_pages_[i].data(), kMetaBytes, static_cast<off_t>(i * page_bytes_));
  }
}

uint64_t DataFileWatch::FirstHole() const {
  const uint64_t end = looked_to_.load();
  if (holes_fd_ < 0) return end;
  const off_t hole = ::lseek(holes_fd_, static_cast<off_t>(looked_from_.load()), SEEK_HOLE);
  // There is nothing to find after the end: Check() detects a file that is too short.
  return hole < 0 ? end : std::min(static_cast<uint64_t>(hole), end);
}

absl::Status DataFileWatch::BeforeCommit() const {
  const uint64_t end = file_bytes_.load();
  looked_to_.store(end);
  looked_from_.store(end - std::min(end, kLookedBytes));
  // Read before the length: a cut in between makes the file shorter, and a later cut leaves a hole.
  first_hole_.store(FirstHole());
  PH_RETURN_IF_ERROR(Check());
  PH_ASSIGN_OR_RETURN(const MetaPages pages, ReadMetaPages());
  if (pages != meta_pages_) {
    return Break("was written to by somebody else while it was open");
  }
  is_committing_.store(true);
  return absl::OkStatus();
}

absl::Status DataFileWatch::AfterCommit(absl::Status committed) const {
  const auto check = [&]() -> absl::Status {
    const auto written = ReadMetaPages();
    // What the next commit finds cannot be compared with anything then.
    if (!written.ok()) return Break("cannot be read after a commit");
    if (!committed.ok()) {
      PutMetaPagesBack(*written);
      return committed;
    }
    MetaPages pages = *written;
    std::swap(pages, meta_pages_);
    PH_RETURN_IF_ERROR(Check());
    if (pages[0] == meta_pages_[0] || pages[1] == meta_pages_[1]) return absl::OkStatus();
    return Break("was written to by somebody else while it was open");
  };
  // As long as nothing is wrong it takes no memory.
  absl::Status status = OutOfMemory();
  RunWithinMemory([&] { status = check(); });
  is_committing_.store(false);
  return status;
}

}  // namespace packhouse
