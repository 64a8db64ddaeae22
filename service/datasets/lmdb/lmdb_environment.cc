#include "service/datasets/lmdb/lmdb_environment.h"

#include <fcntl.h>
#include <lmdb.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <type_traits>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/datasets/lmdb/lmdb_page_check.h"
#include "service/datasets/lmdb/stored_values.h"

namespace packhouse {
namespace {

static_assert(std::is_same_v<MDB_dbi, unsigned>);

constexpr char kDataFile[] = "/data.mdb";
constexpr char kLockFile[] = "/LOCK";
constexpr char kReaderTable[] = "/lock.mdb";
constexpr mode_t kFileMode = 0640;
// Readers are transactions of microseconds; their places are taken again at once.
constexpr unsigned kMaxReaders = 4096;
// Of LMDB's table: a cache line a reader, and what comes before them.
constexpr size_t kReaderTableBytes = size_t{kMaxReaders + 16} * 64;
constexpr size_t kPageHeaderBytes = 16;

MDB_val ToVal(absl::string_view bytes) { return {bytes.size(), const_cast<char*>(bytes.data())}; }
absl::string_view FromVal(const MDB_val& value) {
  return absl::string_view(static_cast<const char*>(value.mv_data), value.mv_size);
}

// What LMDB never returns.
constexpr int kBroken = MDB_LAST_ERRCODE + 1000;
// Of a meta page: all that LMDB writes of it.
constexpr size_t kMetaBytes = 160;

// Of the file's end, what is looked at for holes: more than is written in one commit, but for a
// single large append.
constexpr uint64_t kLookedBytes = uint64_t{128} << 20;
// The magic number of ZFS, which makes everything durable before it tells of holes.
constexpr unsigned long kZfs = 0x2fc12fc1;

// A file descriptor that holes can be asked of; -1 if the file system does not tell, or not soon.
int OpenForHoles(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct statfs system = {};
  if (fd < 0 ||
      (::fstatfs(fd, &system) == 0 && static_cast<unsigned long>(system.f_type) != kZfs)) {
    return fd;
  }
  ::close(fd);
  return -1;
}

// Where a file is mapped, as the kernel tells it.
struct MappedFile {
  const void* begin;
  size_t bytes;
};
std::vector<MappedFile> FindMaps(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::canonical(path, error).string();
  struct stat file = {};
  const bool has_inode = ::stat(path.c_str(), &file) == 0;
  std::vector<MappedFile> found;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
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

// What a broken environment leaves: LMDB cannot be asked to free it any more. Kept where those who
// look for leaks find it.
void LeaveBehind(void* what) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const left = new std::vector<void*>();
  absl::MutexLock lock(&mutex);
  left->push_back(what);
}

// LMDB's last word before it ends the process: it has found a page that cannot be.
void OnAssertion(MDB_env*, const char*) { EscapeIfPossible(); }

// So that names of new files are on the disk, not only their contents.
absl::Status SyncFolder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("store '", folder, "': cannot open: ", std::strerror(errno)));
  }
  const int result = ::fsync(fd);
  const int error = errno;
  ::close(fd);
  // Some file systems have no such thing as a folder's fsync.
  if (result == 0 || error == EINVAL || error == EROFS) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("store '", folder, "': cannot sync: ", std::strerror(error)));
}

// LMDB makes the table of readers as a file with holes and writes to it through a map, which on a
// full disk ends the process. So it is made here, without holes.
int ReserveReaderTable(const std::string& folder) {
  const int fd = ::open((folder + kReaderTable).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (fd < 0) return errno;
  const int error = ::posix_fallocate(fd, 0, kReaderTableBytes);
  ::close(fd);
  return error;
}

}  // namespace

template <typename Call>
int LmdbEnvironment::Run(const Call& call) const {
  if (is_broken()) return kBroken;
  int code = 0;
  const bool has_ended = RunOrEscape([&] { code = call(); });
  if (has_ended && !data_guard_.has_failed() && !table_guard_.has_failed()) return code;
  BreakUnreadable().IgnoreError();
  return kBroken;
}

absl::Status LmdbEnvironment::StatusOf(int code, absl::string_view what) const {
  if (code == MDB_SUCCESS) return absl::OkStatus();
  if (is_broken()) return failure();
  const std::string message =
      absl::StrCat("store '", folder_, "': ", what, ": ", mdb_strerror(code));
  switch (code) {
    case EIO: {
      // LMDB calls a short write so, which is how a disk that fills up shows.
      struct statvfs disk = {};
      constexpr uint64_t kFull = uint64_t{16} << 20;
      if (::statvfs(folder_.c_str(), &disk) == 0 &&
          static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize < kFull) {
        return absl::ResourceExhaustedError(
            absl::StrCat("store '", folder_, "': ", what, ": no space left on the disk, ",
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
    case MDB_MAP_FULL: {
      MDB_envinfo info = {};
      if (env_ != nullptr) mdb_env_info(env_, &info);
      return absl::ResourceExhaustedError(
          absl::StrCat(message, ", of ", info.me_mapsize, " bytes"));
    }
    case EROFS:
    case EACCES:
    case EPERM:
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
      return absl::InternalError(message);
  }
}

absl::Status LmdbEnvironment::CheckRoom(uint64_t bytes) const {
  const int fd = ::open(folder_.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, kFileMode);
  // Some file systems have no files without a name.
  if (fd < 0) return absl::OkStatus();
  const int error = bytes == 0 ? 0 : ::posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  ::close(fd);
  if (error != ENOSPC && error != EDQUOT) return absl::OkStatus();
  return StatusOf(error, absl::StrCat("no room for ", bytes, " bytes"));
}

absl::Status LmdbEnvironment::TakeLock() {
  const std::string path = folder_ + kLockFile;
  lock_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
  if (lock_fd_ < 0 && errno == EROFS) {
    is_read_only_ = true;
    lock_fd_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  }
  if (lock_fd_ < 0) return StatusOf(is_read_only_ ? EROFS : errno, "cannot open its lock file");
  if (::flock(lock_fd_, LOCK_EX | LOCK_NB) != 0) {
    char holder[32] = {};
    const ssize_t got = ::pread(lock_fd_, holder, sizeof(holder) - 1, 0);
    return absl::FailedPreconditionError(absl::StrCat("store '", folder_, "' is in use by process ",
                                                      got > 0 ? holder : "(unknown)"));
  }
  if (is_read_only_) return absl::OkStatus();
  // Only for the message above; on a full disk it stays empty.
  const std::string holder = absl::StrCat(::getpid());
  if (::ftruncate(lock_fd_, 0) == 0 && ::pwrite(lock_fd_, holder.data(), holder.size(), 0) < 0 &&
      errno == EIO) {
    return StatusOf(errno, "cannot write its lock file");
  }
  return absl::OkStatus();
}

absl::Status LmdbEnvironment::GuardMaps(const std::vector<const void*>& maps_before) {
  for (const bool is_data : {true, false}) {
    bool is_found = false;
    for (const MappedFile& map : FindMaps(folder_ + (is_data ? kDataFile : kReaderTable))) {
      if (std::find(maps_before.begin(), maps_before.end(), map.begin) != maps_before.end())
        continue;
      const auto use = is_data ? MapGuard::Use::kRead : MapGuard::Use::kReadAndWrite;
      PH_ASSIGN_OR_RETURN((is_data ? data_guard_ : table_guard_),
                          MapGuard::Create(map.begin, map.bytes, use));
      is_found = true;
    }
    // A store on a file system that is read-only may have no table.
    if (!is_found && is_data) {
      return absl::UnavailableError(absl::StrCat("store '", folder_,
                                                 "': /proc/self/maps does not say where its file "
                                                 "is mapped"));
    }
  }
  return absl::OkStatus();
}

absl::Status LmdbEnvironment::Break(absl::string_view why) const {
  absl::MutexLock lock(&mutex_);
  if (failure_.ok()) {
    failure_ = absl::DataLossError(absl::StrCat("store '", folder_, "': its file '", folder_,
                                                kDataFile, "' ", why,
                                                "; nothing more is done until it is opened anew"));
  }
  is_broken_.store(true, std::memory_order_release);
  return failure_;
}

absl::Status LmdbEnvironment::BreakUnreadable() const {
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

absl::Status LmdbEnvironment::failure() const {
  if (data_guard_.has_failed() || table_guard_.has_failed()) return BreakUnreadable();
  if (!is_broken()) return absl::OkStatus();
  absl::MutexLock lock(&mutex_);
  return failure_;
}

absl::Status LmdbEnvironment::CheckFiles() const {
  if (absl::Status status = failure(); !status.ok()) return status;
  const std::string path = folder_ + kDataFile;
  // Before the file is looked at: it may become longer meanwhile.
  uint64_t longest = file_bytes_.load();
  struct stat opened = {};
  struct stat named = {};
  if (::fstat(data_fd_, &opened) != 0) return StatusOf(errno, "cannot look at its file");
  if (::stat(path.c_str(), &named) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return Break("was removed while it was open");
    return absl::UnavailableError(
        absl::StrCat("store '", folder_, "': cannot look at '", path, "': ", std::strerror(errno)));
  }
  if (opened.st_nlink == 0) return Break("was removed while it was open");
  if (names_tell_files_ && (opened.st_dev != named.st_dev || opened.st_ino != named.st_ino)) {
    return Break("was replaced by another while it was open");
  }
  const auto bytes = static_cast<uint64_t>(opened.st_size);
  if (bytes < longest) return BreakUnreadable();
  while (bytes > longest && !file_bytes_.compare_exchange_weak(longest, bytes)) continue;
  if (is_committing_.load()) {
    // The commit that is under way may have made it as long again. It may also end here and another
    // begin: of what is looked at then, no hole is before the one that was there earlier.
    const uint64_t first_hole = first_hole_.load();
    if (FirstHole() < first_hole) return Break("was cut off while it was written to");
  }
  // The commit may have ended just now, and told.
  return failure();
}

LmdbEnvironment::MetaPages LmdbEnvironment::ReadMetaPages() const {
  MetaPages pages;
  for (size_t i = 0; i < pages.size(); ++i) {
    pages[i].resize(kMetaBytes);
    const ssize_t got =
        ::pread(data_fd_, pages[i].data(), kMetaBytes, static_cast<off_t>(i * page_bytes_));
    pages[i].resize(std::max<ssize_t>(got, 0));
  }
  return pages;
}

uint64_t LmdbEnvironment::FirstHole() const {
  const uint64_t end = looked_to_.load();
  if (holes_fd_ < 0) return end;
  const off_t hole = ::lseek(holes_fd_, static_cast<off_t>(looked_from_.load()), SEEK_HOLE);
  // Behind the end there is nothing to be found: of a file that is so short, CheckFiles() tells.
  return hole < 0 ? end : std::min(static_cast<uint64_t>(hole), end);
}

absl::Status LmdbEnvironment::CheckBeforeCommit() const {
  const uint64_t end = file_bytes_.load();
  looked_to_.store(end);
  looked_from_.store(end - std::min(end, kLookedBytes));
  // Before the length is looked at: what is cut off in between makes the file shorter, and what is
  // cut off later, a hole.
  first_hole_.store(FirstHole());
  PH_RETURN_IF_ERROR(CheckFiles());
  if (ReadMetaPages() != meta_pages_) {
    return Break("was written to by somebody else while it was open");
  }
  is_committing_.store(true);
  return absl::OkStatus();
}

absl::Status LmdbEnvironment::CheckAfterCommit(int code) const {
  const auto check = [&]() -> absl::Status {
    MetaPages pages = ReadMetaPages();
    std::swap(pages, meta_pages_);
    if (code != 0) return StatusOf(code, "cannot commit");
    PH_RETURN_IF_ERROR(CheckFiles());
    if (pages[0] == meta_pages_[0] || pages[1] == meta_pages_[1]) return absl::OkStatus();
    return Break("was written to by somebody else while it was open");
  };
  absl::Status status = check();
  is_committing_.store(false);
  return status;
}

absl::StatusOr<std::unique_ptr<LmdbEnvironment>> LmdbEnvironment::Open(const std::string& folder,
                                                                       uint64_t map_bytes) {
  auto environment = std::unique_ptr<LmdbEnvironment>(new LmdbEnvironment());
  environment->folder_ = folder;
  std::error_code error;
  const bool is_new = std::filesystem::create_directories(folder, error);
  if (error) return environment->StatusOf(error.value(), "cannot create the folder");
  PH_RETURN_IF_ERROR(environment->TakeLock());
  const absl::Status pages = CheckLmdbPages(folder + kDataFile);
  if (!pages.ok() && pages.code() != absl::StatusCode::kNotFound) {
    return absl::Status(pages.code(), absl::StrCat("store '", folder, "': ", pages.message()));
  }
  if (!pages.ok() && environment->is_read_only_) {
    return environment->StatusOf(EROFS, "cannot create it");
  }

  int code = environment->is_read_only_ ? 0 : ReserveReaderTable(folder);
  if (code != 0) return environment->StatusOf(code, "cannot make the table of readers");
  code = mdb_env_create(&environment->env_);
  if (code != 0) return environment->StatusOf(code, "cannot open");
  mdb_env_set_mapsize(environment->env_, map_bytes);
  mdb_env_set_maxreaders(environment->env_, kMaxReaders);
  const unsigned flags = MDB_NOTLS | (environment->is_read_only_ ? MDB_RDONLY : 0);
  mdb_env_set_assert(environment->env_, OnAssertion);
  std::vector<const void*> maps_before;
  for (const char* const file : {kDataFile, kReaderTable}) {
    for (const MappedFile& map : FindMaps(folder + file)) maps_before.push_back(map.begin);
  }
  code = mdb_env_open(environment->env_, folder.c_str(), flags, kFileMode);
  if (code != 0) return environment->StatusOf(code, "cannot open");
  PH_RETURN_IF_ERROR(environment->GuardMaps(maps_before));
  mdb_env_get_fd(environment->env_, &environment->data_fd_);
  struct stat opened = {};
  struct stat named = {};
  environment->names_tell_files_ = ::fstat(environment->data_fd_, &opened) == 0 &&
                                   ::stat((folder + kDataFile).c_str(), &named) == 0 &&
                                   opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
  environment->file_bytes_.store(opened.st_size);
  environment->holes_fd_ = OpenForHoles(folder + kDataFile);

  code = environment->Run([&] {
    MDB_txn* txn = nullptr;
    const int begun = mdb_txn_begin(environment->env_, nullptr, MDB_RDONLY, &txn);
    if (begun != 0) return begun;
    const int opened_database = mdb_dbi_open(txn, nullptr, 0, &environment->database_);
    mdb_txn_abort(txn);
    return opened_database;
  });
  if (code != 0) return environment->StatusOf(code, "cannot open");
  MDB_stat stat = {};
  mdb_env_stat(environment->env_, &stat);
  environment->page_bytes_ = stat.ms_psize;
  environment->meta_pages_ = environment->ReadMetaPages();
  if (!environment->is_read_only_) {
    PH_RETURN_IF_ERROR(SyncFolder(folder));
    const std::string parent = std::filesystem::absolute(folder).parent_path().string();
    if (is_new) PH_RETURN_IF_ERROR(SyncFolder(parent));
  }
  return environment;
}

LmdbEnvironment::~LmdbEnvironment() {
  // A broken one may have locks that nobody frees, and others' pages in its maps.
  if (is_broken() || !failure().ok()) {
    LeaveBehind(env_);
    data_guard_.LeaveBehind();
    table_guard_.LeaveBehind();
  } else if (env_ != nullptr) {
    data_guard_ = MapGuard();
    table_guard_ = MapGuard();
    mdb_env_close(env_);
  }
  if (holes_fd_ >= 0) ::close(holes_fd_);
  if (lock_fd_ >= 0) ::close(lock_fd_);
}

uint64_t LmdbEnvironment::BytesOnDisk(uint64_t value_bytes) const {
  return (value_bytes + kPageHeaderBytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
}

absl::StatusOr<bool> CheckFormat(const LmdbEnvironment& environment, absl::string_view key,
                                 uint32_t version) {
  const auto check = [&]() -> absl::StatusOr<bool> {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction,
                        LmdbTransaction::Begin(environment, LmdbTransaction::Kind::kRead));
    PH_ASSIGN_OR_RETURN(const auto format, transaction.Get(key));
    if (!format) {
      PH_ASSIGN_OR_RETURN(const LmdbCursor cursor,
                          LmdbCursor::At(transaction, absl::string_view("\0", 1)));
      if (!cursor.valid()) return false;
      return absl::FailedPreconditionError(
          absl::StrCat("it is an LMDB database of something else, its first key is '",
                       absl::CHexEscape(cursor.key()), "'"));
    }
    PH_ASSIGN_OR_RETURN(const uint64_t found, DecodeNumber(*format));
    if (found == version) return true;
    return absl::FailedPreconditionError(
        absl::StrCat("format version ", found, ", this packhoused reads version ", version));
  };
  absl::StatusOr<bool> result = check();
  if (result.ok()) return result;
  return absl::Status(result.status().code(), absl::StrCat("store '", environment.folder(),
                                                           "': ", result.status().message()));
}

absl::StatusOr<LmdbTransaction> LmdbTransaction::Begin(const LmdbEnvironment& environment,
                                                       Kind kind) {
  MDB_txn* txn = nullptr;
  const unsigned flags = kind == Kind::kRead ? MDB_RDONLY : 0;
  PH_RETURN_IF_ERROR(environment.CheckFiles());
  const int code =
      environment.Run([&] { return mdb_txn_begin(environment.env_, nullptr, flags, &txn); });
  if (code != 0) {
    const bool writes = kind == Kind::kWrite;
    // LMDB says "permission denied" when asked to write what was opened for reading.
    return environment.StatusOf(writes && environment.is_read_only_ ? EROFS : code,
                                writes ? "cannot write" : "cannot read");
  }
  return LmdbTransaction(&environment, txn);
}

LmdbTransaction::LmdbTransaction(LmdbTransaction&& other) noexcept
    : environment_(other.environment_),
      txn_(std::exchange(other.txn_, nullptr)),
      num_writes_(other.num_writes_) {}

LmdbTransaction::~LmdbTransaction() {
  if (txn_ == nullptr) return;
  const auto abort = [this] {
    mdb_txn_abort(txn_);
    return 0;
  };
  if (environment_->Run(abort) != 0) LeaveBehind(txn_);
}

absl::StatusOr<std::optional<absl::string_view>> LmdbTransaction::GetRaw(
    absl::string_view key) const {
  MDB_val key_val = ToVal(key);
  MDB_val value;
  const int code =
      environment_->Run([&] { return mdb_get(txn_, environment_->database_, &key_val, &value); });
  if (code == MDB_NOTFOUND) return std::nullopt;
  if (code != 0) return environment_->StatusOf(code, "cannot read");
  return FromVal(value);
}

absl::StatusOr<std::optional<absl::string_view>> LmdbTransaction::Get(absl::string_view key) const {
  PH_ASSIGN_OR_RETURN(const auto raw, GetRaw(key));
  if (!raw) return std::nullopt;
  const auto payload = CheckedPayload(key, *raw);
  if (payload.ok()) return *payload;
  PH_RETURN_IF_ERROR(environment_->failure());
  return payload.status();
}

absl::Status LmdbTransaction::Put(absl::string_view key, std::string payload) {
  ++num_writes_;
  const std::string checked = WithChecksum(key, std::move(payload));
  MDB_val key_val = ToVal(key);
  MDB_val value = ToVal(checked);
  const int code = environment_->Run(
      [&] { return mdb_put(txn_, environment_->database_, &key_val, &value, 0); });
  return environment_->StatusOf(code, "cannot write");
}

absl::StatusOr<char*> LmdbTransaction::PutRaw(absl::string_view key, size_t bytes) {
  ++num_writes_;
  MDB_val key_val = ToVal(key);
  MDB_val value = {bytes, nullptr};
  const int code = environment_->Run([&] {
    return mdb_put(txn_, environment_->database_, &key_val, &value, MDB_RESERVE | MDB_NOOVERWRITE);
  });
  if (code != 0) return environment_->StatusOf(code, "cannot write");
  return static_cast<char*>(value.mv_data);
}

absl::Status LmdbTransaction::Erase(absl::string_view key) {
  ++num_writes_;
  MDB_val key_val = ToVal(key);
  const int code =
      environment_->Run([&] { return mdb_del(txn_, environment_->database_, &key_val, nullptr); });
  return code == MDB_NOTFOUND ? absl::OkStatus() : environment_->StatusOf(code, "cannot erase");
}

absl::Status LmdbTransaction::Commit() {
  PH_RETURN_IF_ERROR(environment_->CheckBeforeCommit());
  MDB_txn* const txn = std::exchange(txn_, nullptr);
  return environment_->CheckAfterCommit(environment_->Run([&] { return mdb_txn_commit(txn); }));
}

absl::StatusOr<LmdbCursor> LmdbCursor::At(const LmdbTransaction& transaction,
                                          absl::string_view key) {
  MDB_cursor* cursor = nullptr;
  const LmdbEnvironment* const environment = transaction.environment_;
  const int code = environment->Run(
      [&] { return mdb_cursor_open(transaction.txn_, environment->database_, &cursor); });
  if (code != 0) return environment->StatusOf(code, "cannot read");
  LmdbCursor result(environment, cursor);
  PH_RETURN_IF_ERROR(result.Move(key, MDB_SET_RANGE));
  return result;
}

LmdbCursor::LmdbCursor(LmdbCursor&& other) noexcept
    : environment_(other.environment_),
      cursor_(std::exchange(other.cursor_, nullptr)),
      valid_(other.valid_),
      key_(other.key_),
      value_(other.value_) {}

LmdbCursor::~LmdbCursor() {
  if (cursor_ == nullptr) return;
  const auto close = [this] {
    mdb_cursor_close(cursor_);
    return 0;
  };
  if (environment_->Run(close) != 0) LeaveBehind(cursor_);
}

absl::Status LmdbCursor::Next() { return Move("", MDB_NEXT); }

absl::Status LmdbCursor::Move(absl::string_view key, int operation) {
  MDB_val key_val = ToVal(key);
  MDB_val value;
  const int code = environment_->Run([&] {
    return mdb_cursor_get(cursor_, &key_val, &value, static_cast<MDB_cursor_op>(operation));
  });
  valid_ = code == 0;
  if (code == MDB_NOTFOUND) return absl::OkStatus();
  if (code != 0) return environment_->StatusOf(code, "cannot read");
  key_ = FromVal(key_val);
  value_ = FromVal(value);
  return absl::OkStatus();
}

}  // namespace packhouse
