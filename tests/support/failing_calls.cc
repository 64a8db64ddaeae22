#include "tests/support/failing_calls.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace packhouse {
namespace {

std::atomic<FailingCalls*> current = nullptr;

// The calls of this file itself are no steps.
thread_local bool is_inside = false;
class Inside {
 public:
  Inside() { is_inside = true; }
  ~Inside() { is_inside = false; }
};

// Of the last change of a name on this thread.
thread_local uint64_t last_undo = 0;

std::string PathOf(int fd) {
  std::array<char, 4096> path;
  const long got = ::syscall(SYS_readlink, ("/proc/self/fd/" + std::to_string(fd)).c_str(),
                             path.data(), path.size());
  return got > 0 ? std::string(path.data(), static_cast<size_t>(got)) : "";
}

std::string AbsolutePath(int folder, const char* path) {
  if (path[0] == '/') return path;
  return (folder == AT_FDCWD ? std::filesystem::current_path().string() : PathOf(folder)) + "/" +
         path;
}

std::string Above(const std::string& path) { return path.substr(0, path.rfind('/')); }

bool Exists(const std::string& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) == 0;
}

bool IsFolder(const std::string& path) {
  struct stat found = {};
  return ::lstat(path.c_str(), &found) == 0 && S_ISDIR(found.st_mode);
}

bool MayFail(FailingCalls::Kind kind, int error) {
  using Kind = FailingCalls::Kind;
  switch (error) {
    case EMFILE:
      return kind == Kind::kOpen || kind == Kind::kMake;
    case ENOSPC:
      return kind != Kind::kOpen && kind != Kind::kRead && kind != Kind::kCut;
    case EINTR:
      // Files of a disk are opened, made and renamed without interruption.
      return kind == Kind::kRead || kind == Kind::kWrite || kind == Kind::kSync ||
             kind == Kind::kCut;
    default:
      return true;
  }
}

}  // namespace

FailingCalls::FailingCalls(std::string folder, std::optional<Failure> failure)
    : folder_(std::filesystem::absolute(folder).string()),
      kept_(folder_ + ".kept"),
      failure_(failure) {
  std::filesystem::remove_all(kept_);
  std::filesystem::create_directory(kept_);
  current = this;
}

FailingCalls::~FailingCalls() {
  Stop();
  std::error_code ignored;
  std::filesystem::remove_all(kept_, ignored);
}

void FailingCalls::Stop() {
  FailingCalls* self = this;
  current.compare_exchange_strong(self, nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  is_stopped_ = true;
}

bool FailingCalls::has_failed() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return !what_.empty();
}

std::string FailingCalls::what() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return what_;
}

uint64_t FailingCalls::num_steps() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return num_steps_;
}

bool FailingCalls::Concerns(const std::string& path) const {
  return path.compare(0, folder_.size(), folder_) == 0 &&
         (path.size() == folder_.size() || path[folder_.size()] == '/');
}

// The function and the file's name, without what is drawn or counted in it.
std::string FailingCalls::KindOf(const char* function, const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  const auto is_hex = [](unsigned char c) { return std::isxdigit(c) != 0; };
  if (std::all_of(name.begin(), name.end(), is_hex)) name.clear();
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  name.erase(std::remove_if(name.begin(), name.end(), is_digit), name.end());
  return std::string(function) + " " + name;
}

int FailingCalls::Count(Kind kind, const char* function, const std::string& path) {
  if (!Concerns(path)) return 0;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_stopped_) return 0;
  if (failure_ && !MayFail(kind, failure_->error)) return 0;
  const uint64_t step = num_steps_++;
  if (failure_ && failure_->step == kNoStep) kinds_.push_back(KindOf(function, path));
  if (!failure_) return 0;
  const bool fails = step == failure_->step || (failure_->lasts && step > failure_->step) ||
                     step >= failure_->dies;
  if (!fails) return 0;
  if (what_.empty()) what_ = std::string(function) + " " + path;
  return failure_->error;
}

int FailingCalls::ErrorOf(Kind kind, const char* function, const std::string& path) {
  FailingCalls* const calls = current;
  if (calls == nullptr || is_inside) return 0;
  const Inside inside;
  return calls->Count(kind, function, path);
}

int FailingCalls::ErrorOf(Kind kind, const char* function, int fd) {
  FailingCalls* const calls = current;
  if (calls == nullptr || is_inside) return 0;
  const Inside inside;
  return calls->Count(kind, function, PathOf(fd));
}

void FailingCalls::Remember(const std::string& changed, std::function<void()> undo) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (is_stopped_) return;
  last_undo = ++num_undos_;
  undos_.push_back({Above(changed), std::move(undo), last_undo});
}

std::string FailingCalls::Keep(const std::string& path) {
  if (!Exists(path) || IsFolder(path)) return "";
  std::string kept;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    kept = kept_ + "/" + std::to_string(num_kept_++);
  }
  return ::syscall(SYS_link, path.c_str(), kept.c_str()) == 0 ? kept : "";
}

void FailingCalls::BeforeRename(const std::string& from, const std::string& to) {
  FailingCalls* const calls = current;
  last_undo = 0;
  if (calls == nullptr || is_inside || !calls->Concerns(to)) return;
  const Inside inside;
  const std::string replaced = calls->Keep(to);
  const bool was_folder = IsFolder(to);
  calls->Remember(to, [=] {
    std::error_code ignored;
    std::filesystem::rename(to, from, ignored);
    if (!replaced.empty()) std::filesystem::rename(replaced, to, ignored);
    if (was_folder) std::filesystem::create_directory(to, ignored);
  });
}

void FailingCalls::BeforeUnlink(const std::string& path) {
  FailingCalls* const calls = current;
  last_undo = 0;
  if (calls == nullptr || is_inside || !calls->Concerns(path) || !Exists(path)) return;
  const Inside inside;
  const std::string kept = calls->Keep(path);
  calls->Remember(path, [=] {
    std::error_code ignored;
    if (kept.empty()) {
      std::filesystem::create_directory(path, ignored);
    } else if (!Exists(path)) {
      std::filesystem::rename(kept, path, ignored);
    }
  });
}

void FailingCalls::AfterMake(const std::string& path, bool is_folder) {
  FailingCalls* const calls = current;
  if (calls == nullptr || is_inside || !calls->Concerns(path)) return;
  const Inside inside;
  if (!is_folder) {
    const std::lock_guard<std::mutex> lock(calls->mutex_);
    calls->never_synced_.insert(path);
  }
  calls->Remember(path, [=] {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  });
}

void FailingCalls::AfterSync(int fd) {
  FailingCalls* const calls = current;
  if (calls == nullptr || is_inside) return;
  const Inside inside;
  const std::string path = PathOf(fd);
  const std::lock_guard<std::mutex> lock(calls->mutex_);
  if (calls->is_stopped_) return;
  if (!IsFolder(path)) {
    calls->never_synced_.erase(path);
    return;
  }
  std::erase_if(calls->undos_, [&](const Undo& undo) { return undo.folder == path; });
}

void FailingCalls::DidNotHappen() {
  FailingCalls* const calls = current;
  if (calls == nullptr || last_undo == 0) return;
  const std::lock_guard<std::mutex> lock(calls->mutex_);
  std::erase_if(calls->undos_, [](const Undo& undo) { return undo.number == last_undo; });
}

void FailingCalls::LosePower() {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const std::string& path : never_synced_) {
    std::error_code ignored;
    if (std::filesystem::is_regular_file(path, ignored)) {
      std::filesystem::resize_file(path, 0, ignored);
    }
  }
  std::for_each(undos_.rbegin(), undos_.rend(), [](const Undo& undo) { undo.undo(); });
  undos_.clear();
  never_synced_.clear();
}

void ForEachStep(absl::FunctionRef<bool(uint64_t step)> attempt) {
  constexpr uint64_t kTooMany = 1000000;
  for (uint64_t step = 0; attempt(step); ++step) {
    if (step == kTooMany) std::abort();
  }
}

namespace {

using Kind = FailingCalls::Kind;

// The system's own call, unless it is to fail. -1 with errno.
template <typename... Arguments>
long CallUnless(int error, long number, Arguments... arguments) {
  if (error != 0) {
    errno = error;
    return -1;
  }
  return ::syscall(number, arguments...);
}

int OpenAt(const char* function, int folder, const char* path, int flags, mode_t mode) {
  const std::string absolute = AbsolutePath(folder, path);
  const bool makes = (flags & O_CREAT) != 0 && !Exists(absolute);
  const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
  const int error =
      FailingCalls::ErrorOf(makes || is_nameless ? Kind::kMake : Kind::kOpen, function, absolute);
  const int fd = static_cast<int>(CallUnless(error, SYS_openat, folder, path, flags, mode));
  if (fd >= 0 && makes) FailingCalls::AfterMake(absolute, false);
  return fd;
}

int RenameAt(const char* function, int from_folder, const char* from, int to_folder, const char* to,
             unsigned flags) {
  const std::string old_path = AbsolutePath(from_folder, from);
  const std::string new_path = AbsolutePath(to_folder, to);
  if (const int error = FailingCalls::ErrorOf(Kind::kName, function, new_path); error != 0) {
    errno = error;
    return -1;
  }
  FailingCalls::BeforeRename(old_path, new_path);
  const long result = ::syscall(SYS_renameat2, from_folder, from, to_folder, to, flags);
  if (result != 0) FailingCalls::DidNotHappen();
  return static_cast<int>(result);
}

int UnlinkAt(const char* function, int folder, const char* path, int flags) {
  const std::string absolute = AbsolutePath(folder, path);
  if (const int error = FailingCalls::ErrorOf(Kind::kName, function, absolute); error != 0) {
    errno = error;
    return -1;
  }
  FailingCalls::BeforeUnlink(absolute);
  const long result = ::syscall(SYS_unlinkat, folder, path, flags);
  if (result != 0) FailingCalls::DidNotHappen();
  return static_cast<int>(result);
}

int LinkAt(const char* function, int from_folder, const char* from, int to_folder, const char* to,
           int flags) {
  const std::string made = AbsolutePath(to_folder, to);
  const int error = FailingCalls::ErrorOf(Kind::kMake, function, made);
  const long result = CallUnless(error, SYS_linkat, from_folder, from, to_folder, to, flags);
  return static_cast<int>(result);
}

int MkdirAt(const char* function, int folder, const char* path, mode_t mode) {
  const std::string absolute = AbsolutePath(folder, path);
  const int error = FailingCalls::ErrorOf(Kind::kMake, function, absolute);
  const long result = CallUnless(error, SYS_mkdirat, folder, path, mode);
  if (result == 0) FailingCalls::AfterMake(absolute, true);
  return static_cast<int>(result);
}

int Sync(const char* function, int fd, long number) {
  const long result = CallUnless(FailingCalls::ErrorOf(Kind::kSync, function, fd), number, fd);
  if (result == 0) FailingCalls::AfterSync(fd);
  return static_cast<int>(result);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

mode_t ModeOf(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace packhouse

// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
#define PACKHOUSE_OPEN(name)                                      \
  int name(const char* path, int flags, ...) {                    \
    va_list arguments;                                            \
    va_start(arguments, flags);                                   \
    const mode_t mode = packhouse::ModeOf(flags, arguments);      \
    va_end(arguments);                                            \
    return packhouse::OpenAt(#name, AT_FDCWD, path, flags, mode); \
  }
#define PACKHOUSE_OPENAT(name)                                  \
  int name(int folder, const char* path, int flags, ...) {      \
    va_list arguments;                                          \
    va_start(arguments, flags);                                 \
    const mode_t mode = packhouse::ModeOf(flags, arguments);    \
    va_end(arguments);                                          \
    return packhouse::OpenAt(#name, folder, path, flags, mode); \
  }

extern "C" {

PACKHOUSE_OPEN(open)
PACKHOUSE_OPEN(open64)
PACKHOUSE_OPENAT(openat)
PACKHOUSE_OPENAT(openat64)

DIR* opendir(const char* path) {
  const int fd = packhouse::OpenAt("opendir", AT_FDCWD, path,
                                   O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NONBLOCK, 0);
  return fd < 0 ? nullptr : ::fdopendir(fd);
}
// What it makes has no name for long.
int mkostemp(char* path, int flags) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kMake, "mkostemp",
                                                     packhouse::AbsolutePath(AT_FDCWD, path));
  if (error != 0) {
    errno = error;
    return -1;
  }
  return packhouse::Next<int(char*, int)>("mkostemp")(path, flags);
}

ssize_t read(int fd, void* into, size_t bytes) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kRead, "read", fd);
  return packhouse::CallUnless(error, SYS_read, fd, into, bytes);
}
ssize_t pread(int fd, void* into, size_t bytes, off_t offset) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kRead, "pread", fd);
  return packhouse::CallUnless(error, SYS_pread64, fd, into, bytes, offset);
}
ssize_t pread64(int fd, void* into, size_t bytes, off64_t offset) {
  return pread(fd, into, bytes, offset);
}
ssize_t write(int fd, const void* from, size_t bytes) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kWrite, "write", fd);
  return packhouse::CallUnless(error, SYS_write, fd, from, bytes);
}
ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kWrite, "pwrite", fd);
  return packhouse::CallUnless(error, SYS_pwrite64, fd, from, bytes, offset);
}
ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t offset) {
  return pwrite(fd, from, bytes, offset);
}
ssize_t writev(int fd, const iovec* parts, int count) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kWrite, "writev", fd);
  return packhouse::CallUnless(error, SYS_writev, fd, parts, count);
}
ssize_t pwritev(int fd, const iovec* parts, int count, off_t offset) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kWrite, "pwritev", fd);
  return packhouse::CallUnless(error, SYS_pwritev, fd, parts, count, offset, 0L);
}
ssize_t pwritev64(int fd, const iovec* parts, int count, off64_t offset) {
  return pwritev(fd, parts, count, offset);
}

int fsync(int fd) { return packhouse::Sync("fsync", fd, SYS_fsync); }
int fdatasync(int fd) { return packhouse::Sync("fdatasync", fd, SYS_fdatasync); }

int ftruncate(int fd, off_t bytes) noexcept {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kCut, "ftruncate", fd);
  return static_cast<int>(packhouse::CallUnless(error, SYS_ftruncate, fd, bytes));
}
int ftruncate64(int fd, off64_t bytes) noexcept { return ftruncate(fd, bytes); }
// It gives its error, and leaves errno alone.
int posix_fallocate(int fd, off_t offset, off_t bytes) {
  const int error = packhouse::FailingCalls::ErrorOf(packhouse::Kind::kGrow, "fallocate", fd);
  if (error != 0) return error;
  return packhouse::Next<int(int, off_t, off_t)>("posix_fallocate")(fd, offset, bytes);
}
int posix_fallocate64(int fd, off64_t offset, off64_t bytes) {
  return posix_fallocate(fd, offset, bytes);
}

int rename(const char* from, const char* to) noexcept {
  return packhouse::RenameAt("rename", AT_FDCWD, from, AT_FDCWD, to, 0);
}
int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  return packhouse::RenameAt("renameat", from_folder, from, to_folder, to, 0);
}
int renameat2(int from_folder, const char* from, int to_folder, const char* to,
              unsigned flags) noexcept {
  return packhouse::RenameAt("renameat2", from_folder, from, to_folder, to, flags);
}
int unlink(const char* path) noexcept { return packhouse::UnlinkAt("unlink", AT_FDCWD, path, 0); }
int unlinkat(int folder, const char* path, int flags) noexcept {
  return packhouse::UnlinkAt("unlinkat", folder, path, flags);
}
int rmdir(const char* path) noexcept {
  return packhouse::UnlinkAt("rmdir", AT_FDCWD, path, AT_REMOVEDIR);
}
int remove(const char* path) noexcept {
  return packhouse::UnlinkAt("remove", AT_FDCWD, path,
                             packhouse::IsFolder(path) ? AT_REMOVEDIR : 0);
}
int link(const char* from, const char* to) noexcept {
  return packhouse::LinkAt("link", AT_FDCWD, from, AT_FDCWD, to, 0);
}
int linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) noexcept {
  return packhouse::LinkAt("linkat", from_folder, from, to_folder, to, flags);
}
int mkdir(const char* path, mode_t mode) noexcept {
  return packhouse::MkdirAt("mkdir", AT_FDCWD, path, mode);
}
int mkdirat(int folder, const char* path, mode_t mode) noexcept {
  return packhouse::MkdirAt("mkdirat", folder, path, mode);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
