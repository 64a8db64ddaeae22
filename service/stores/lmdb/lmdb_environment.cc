#include "service/stores/lmdb/lmdb_environment.h"

#include <fcntl.h>
#include <lmdb.h>
#include <unistd.h>

#include <cerrno>
#include <type_traits>
#include <vector>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/status_macros.h"
#include "service/stores/lmdb/lmdb_page_check.h"
#include "service/stores/lmdb/lmdb_status.h"

namespace packhouse {
namespace {

static_assert(std::is_same_v<MDB_dbi, unsigned>);

constexpr size_t kPageHeaderBytes = 16;

// Called by LMDB before it ends the process because it has found an impossible page.
void OnAssertion(MDB_env*, const char*) { EscapeIfPossible(); }

}  // namespace

void LmdbEnvironment::LeaveBehind(void* what) {
  static absl::Mutex mutex(absl::kConstInit);
  static auto* const left = new std::vector<void*>();
  absl::MutexLock lock(&mutex);
  left->push_back(what);
}

absl::Status LmdbEnvironment::StatusOf(int code, absl::string_view what) const {
  if (code != 0 && file_.is_broken()) return failure();
  return LmdbStatus(code, what, folder(), map_bytes_);
}

absl::StatusOr<std::unique_ptr<LmdbEnvironment>> LmdbEnvironment::Open(const std::string& folder,
                                                                       uint64_t map_bytes) {
  auto environment = std::unique_ptr<LmdbEnvironment>(new LmdbEnvironment());
  PH_ASSIGN_OR_RETURN(environment->folder_, StoreFolder::Lock(folder));
  const absl::Status pages = CheckLmdbPages(environment->folder_.data_file());
  if (!pages.ok() && !absl::IsNotFound(pages)) {
    return absl::Status(pages.code(), absl::StrCat("store '", folder, "': ", pages.message()));
  }
  if (environment->is_read_only()) {
    if (!pages.ok()) return environment->StatusOf(EROFS, "cannot create it");
  } else {
    PH_RETURN_IF_ERROR(environment->folder_.ReserveReaderTable());
  }
  PH_RETURN_IF_ERROR(environment->OpenIn(map_bytes));
  if (!environment->is_read_only()) PH_RETURN_IF_ERROR(environment->folder_.Sync());
  return environment;
}

absl::Status LmdbEnvironment::OpenIn(uint64_t map_bytes) {
  PH_RETURN_IF_ERROR(StatusOf(mdb_env_create(&env_), "cannot open"));
  mdb_env_set_mapsize(env_, map_bytes);
  mdb_env_set_maxreaders(env_, StoreFolder::kMaxReaders);
  mdb_env_set_assert(env_, OnAssertion);
  file_.BeforeOpening(&folder_);
  const unsigned flags = MDB_NOTLS | (is_read_only() ? MDB_RDONLY : 0);
  PH_RETURN_IF_ERROR(
      StatusOf(mdb_env_open(env_, folder().c_str(), flags, StoreFolder::kFileMode), "cannot open"));
  // Larger than requested if the file is larger.
  MDB_envinfo info = {};
  mdb_env_info(env_, &info);
  map_bytes_ = info.me_mapsize;
  int data_fd = -1;
  mdb_env_get_fd(env_, &data_fd);
  PH_RETURN_IF_ERROR(file_.Start(data_fd));
  const int code = Run([&] {
    MDB_txn* txn = nullptr;
    const int begun = mdb_txn_begin(env_, nullptr, MDB_RDONLY, &txn);
    if (begun != 0) return begun;
    const int opened = mdb_dbi_open(txn, nullptr, 0, &database_);
    mdb_txn_abort(txn);
    return opened;
  });
  PH_RETURN_IF_ERROR(StatusOf(code, "cannot open"));
  MDB_stat stat = {};
  mdb_env_stat(env_, &stat);
  page_bytes_ = stat.ms_psize;
  return file_.SetPageBytes(page_bytes_);
}

LmdbEnvironment::~LmdbEnvironment() {
  if (env_ == nullptr) return;
  // A broken environment may have locks that nobody frees, and foreign pages in its maps.
  if (!failure().ok()) {
    LeaveBehind(env_);
    file_.GuardForEver();
  } else {
    file_.StopGuarding();
    mdb_env_close(env_);
  }
}

absl::Status LmdbEnvironment::CopyCompactly(const std::string& path) const {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, StoreFolder::kFileMode);
  if (fd < 0) return StatusOf(errno, absl::StrCat("cannot make '", path, "'"));
  // A page that cannot be read is copied as zeros, which CheckFiles() tells.
  const int code = mdb_env_copyfd2(env_, fd, MDB_CP_COMPACT);
  ::close(fd);
  return StatusOf(code, absl::StrCat("cannot write '", path, "'"));
}

uint64_t LmdbEnvironment::BytesOnDisk(uint64_t value_bytes) const {
  return (value_bytes + kPageHeaderBytes + page_bytes_ - 1) / page_bytes_ * page_bytes_;
}

}  // namespace packhouse
