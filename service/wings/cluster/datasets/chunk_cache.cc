#include "service/wings/cluster/datasets/chunk_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/caller.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"

namespace packhouse {

// A mapped range of a file, which needs not to be open.
class CachedFile final : public MappedObject {
 public:
  // `maps` counts it while it is there.
  CachedFile(void* at, size_t size, std::shared_ptr<std::atomic<size_t>> maps)
      : at_(at), size_(size), maps_(std::move(maps)) {
    ++*maps_;
  }
  CachedFile(const CachedFile&) = delete;
  CachedFile& operator=(const CachedFile&) = delete;
  ~CachedFile() override {
    if (size_ != 0) ::munmap(at_, size_);
    --*maps_;
  }
  absl::string_view bytes() const override { return {static_cast<const char*>(at_), size_}; }

 private:
  void* const at_;
  const size_t size_;
  const std::shared_ptr<std::atomic<size_t>> maps_;
};

namespace {

// Maps that somebody else has made.
class CountedMaps {
 public:
  CountedMaps(size_t num_maps, std::shared_ptr<std::atomic<size_t>> maps)
      : num_maps_(num_maps), maps_(std::move(maps)) {
    *maps_ += num_maps_;
  }
  CountedMaps(const CountedMaps&) = delete;
  CountedMaps& operator=(const CountedMaps&) = delete;
  ~CountedMaps() { *maps_ -= num_maps_; }

 private:
  const size_t num_maps_;
  const std::shared_ptr<std::atomic<size_t>> maps_;
};

// Other files of the folder are left alone.
constexpr absl::string_view kFetched = ".chunk";
constexpr absl::string_view kHalfFetched = ".chunk.part";
constexpr absl::string_view kLockFile = "lock";
// Time between two questions whether somebody still waits for the object that another call fetches.
constexpr absl::Duration kAskEvery = absl::Milliseconds(100);

absl::StatusOr<std::shared_ptr<const CachedFile>> MapFile(
    const DiskFile& file, uint64_t num_bytes, const std::shared_ptr<std::atomic<size_t>>& maps) {
  void* at = nullptr;
  if (num_bytes != 0) {
    at = ::mmap(nullptr, num_bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
    if (at == MAP_FAILED) return DiskStatus(errno, "map", file.path());
  }
  absl::Cleanup unmap = [&] {
    if (num_bytes != 0) ::munmap(at, num_bytes);
  };
  auto map = std::make_shared<const CachedFile>(at, num_bytes, maps);
  std::move(unmap).Cancel();
  return map;
}

absl::Status NotTheObject(const ChunkCache::Object& object, uint64_t num_bytes, uint32_t crc) {
  return absl::DataLossError(absl::StrCat("object ", object.name, ": ", num_bytes,
                                          " bytes with checksum ", crc, ", should be ",
                                          object.num_bytes, " with ", object.crc));
}

// Writes what `fetch` gives. DATA_LOSS if that is not the object.
absl::Status FetchInto(const ChunkCache::Object& object, ChunkCache::Fetch fetch,
                       const DiskFile& file) {
  uint64_t size = 0;
  uint32_t crc = 0;
  const auto write = [&](absl::string_view piece) -> absl::Status {
    if (piece.size() > object.num_bytes - size) {
      return NotTheObject(object, size + piece.size(), 0);
    }
    PH_RETURN_IF_ERROR(file.WriteAt(size, piece));
    size += piece.size();
    crc = Crc32c(piece, crc);
    return absl::OkStatus();
  };
  PH_RETURN_IF_ERROR(fetch(write));
  if (size == object.num_bytes && crc == object.crc) return absl::OkStatus();
  return NotTheObject(object, size, crc);
}

}  // namespace

class ChunkCache::State : public std::enable_shared_from_this<ChunkCache::State> {
 public:
  State(Options options, DiskFile lock) : options_(std::move(options)), lock_(std::move(lock)) {}

  absl::Status Load() {
    absl::MutexLock lock(&mutex_);
    std::error_code error;
    std::vector<std::pair<std::filesystem::file_time_type, std::string>> found;
    for (const auto& entry : std::filesystem::directory_iterator(options_.folder, error)) {
      std::string name = entry.path().filename();
      if (absl::EndsWith(name, kHalfFetched)) {
        PH_RETURN_IF_ERROR(RemoveAll(entry.path()));
        continue;
      }
      if (!absl::EndsWith(name, kFetched) || !entry.is_regular_file(error)) continue;
      name.resize(name.size() - kFetched.size());
      const uint64_t size = entry.file_size(error);
      if (error) continue;
      files_[name].num_bytes = size;
      num_bytes_ += size;
      found.emplace_back(entry.last_write_time(error), name);
    }
    if (error) return DiskStatus(error.value(), "read", options_.folder);
    // Those fetched last go last.
    std::sort(found.begin(), found.end());
    for (const auto& [time, name] : found) files_[name].last_use = ++num_uses_;
    Evict(0).IgnoreError();
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<const MappedObject>> Pin(const Object& object, Fetch fetch) {
    File* file = nullptr;
    {
      absl::MutexLock lock(&mutex_);
      const auto is_ready = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        const auto found = files_.find(object.name);
        return found == files_.end() || !found->second.is_filling;
      };
      while (!mutex_.AwaitWithTimeout(absl::Condition(&is_ready), kAskEvery)) {
        PH_RETURN_IF_ERROR(BeginWait());
      }
      if (const auto found = files_.find(object.name); found != files_.end()) {
        file = &found->second;
      }
      if (file != nullptr) {
        file->last_use = ++num_uses_;
        if (auto map = file->map.lock()) {
          ++hits_;
          return Held(std::move(map));
        }
        PH_RETURN_IF_ERROR(CheckMaps());
        // Other calls wait until it is mapped and checked.
        file->is_filling = true;
      } else {
        PH_RETURN_IF_ERROR(CheckMaps());
        PH_RETURN_IF_ERROR(Evict(object.num_bytes));
        file = &files_[object.name];
        file->is_filling = true;
        file->is_new = true;
        file->num_bytes = object.num_bytes;
        file->last_use = ++num_uses_;
        num_bytes_ += object.num_bytes;
        ++misses_;
      }
    }
    // Nobody else touches a file that is being filled; map elements stay where they are.
    std::shared_ptr<const CachedFile> map;
    // After an exception an old file may still be there.
    bool is_gone = file->is_new;
    // Also after an exception: others wait for it.
    const absl::Cleanup is_filled = [&] {
      absl::MutexLock lock(&mutex_);
      file->is_filling = false;
      file->is_new = false;
      if (map != nullptr) {
        file->map = map;
        file->is_checked = true;
      } else if (is_gone) {
        num_bytes_ -= file->num_bytes;
        files_.erase(files_.find(object.name));
      }
    };
    auto filled = file->is_new ? Fill(object, fetch) : Reuse(object, *file, fetch);
    if (!filled.ok()) {
      is_gone = true;
      return filled.status();
    }
    map = *std::move(filled);
    return Held(map);
  }

  Counts counts() const {
    absl::MutexLock lock(&mutex_);
    Counts counts = {num_bytes_, 0, hits_, misses_, evictions_};
    for (const auto& [name, file] : files_) {
      if (!file.map.expired()) counts.in_use += file.num_bytes;
    }
    return counts;
  }

  absl::StatusOr<std::shared_ptr<const void>> CountMaps(size_t num_maps) const {
    // Made first: it gives back what is counted whatever happens.
    const auto counted = std::make_shared<CountedMaps>(num_maps, maps_);
    if (*maps_ <= options_.max_maps) return std::shared_ptr<const void>(counted);
    return TooManyMaps();
  }

  uint64_t max_bytes() const { return options_.max_bytes; }
  const std::string& folder() const { return options_.folder; }
  const std::shared_ptr<std::atomic<size_t>>& maps() const { return maps_; }

 private:
  struct File {
    uint64_t num_bytes = 0;
    uint64_t last_use = 0;
    bool is_new = false;
    bool is_filling = false;
    bool is_checked = false;  // By this process.
    std::weak_ptr<const CachedFile> map;
  };

  // Before anything is fetched. Calls at the same time may go beyond it, each by one.
  absl::Status CheckMaps() const {
    return *maps_ < options_.max_maps ? absl::OkStatus() : TooManyMaps();
  }

  absl::Status TooManyMaps() const {
    return absl::ResourceExhaustedError(absl::StrCat(
        "cache '", options_.folder, "': ", maps_->load(), " objects are mapped, max_maps is ",
        options_.max_maps, ": half of the kernel's vm.max_map_count"));
  }

  std::string PathOf(absl::string_view name) const {
    return absl::StrCat(options_.folder, "/", name, kFetched);
  }

  // Keeps this state too: its lock keeps others out of the folder.
  std::shared_ptr<const MappedObject> Held(std::shared_ptr<const CachedFile> map) {
    const CachedFile* const mapped = map.get();
    return std::shared_ptr<const MappedObject>(
        mapped, [map = std::move(map), self = shared_from_this()](const MappedObject*) {});
  }

  absl::StatusOr<std::shared_ptr<const CachedFile>> Fill(const Object& object, Fetch fetch) {
    const std::string half = absl::StrCat(options_.folder, "/", object.name, kHalfFetched);
    const auto fill = [&]() -> absl::StatusOr<std::shared_ptr<const CachedFile>> {
      PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::Open(half, DiskFile::Mode::kNew));
      PH_RETURN_IF_ERROR(FetchInto(object, fetch, file));
      PH_ASSIGN_OR_RETURN(auto map, MapFile(file, object.num_bytes, maps_));
      PH_RETURN_IF_ERROR(Rename(half, PathOf(object.name)));
      return map;
    };
    auto map = fill();
    if (!map.ok()) RemoveAll(half).IgnoreError();
    return map;
  }

  // A file of an earlier process may have been cut off by a crash of the machine.
  absl::StatusOr<std::shared_ptr<const CachedFile>> Reuse(const Object& object, const File& known,
                                                          Fetch fetch) {
    const auto reuse = [&]() -> absl::StatusOr<std::shared_ptr<const CachedFile>> {
      PH_ASSIGN_OR_RETURN(const DiskFile file,
                          DiskFile::Open(PathOf(object.name), DiskFile::Mode::kRead));
      PH_ASSIGN_OR_RETURN(const uint64_t size, file.Size());
      if (size != object.num_bytes) return NotTheObject(object, size, 0);
      PH_ASSIGN_OR_RETURN(auto map, MapFile(file, size, maps_));
      if (!known.is_checked) {
        const uint32_t crc = Crc32c(map->bytes());
        if (crc != object.crc) return NotTheObject(object, size, crc);
      }
      return map;
    };
    auto map = reuse();
    if (map.ok()) {
      absl::MutexLock lock(&mutex_);
      ++hits_;
      return map;
    }
    {
      absl::MutexLock lock(&mutex_);
      ++misses_;
      File& file = files_.at(object.name);
      num_bytes_ += object.num_bytes - file.num_bytes;
      file.num_bytes = object.num_bytes;
    }
    RemoveAll(PathOf(object.name)).IgnoreError();
    return Fill(object, fetch);
  }

  // Removes files that nobody has until `more` bytes have room.
  absl::Status Evict(uint64_t more) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (num_bytes_ > options_.max_bytes || more > options_.max_bytes - num_bytes_) {
      auto oldest = files_.end();
      for (auto it = files_.begin(); it != files_.end(); ++it) {
        const File& file = it->second;
        if (file.is_filling || !file.map.expired()) continue;
        if (oldest == files_.end() || file.last_use < oldest->second.last_use) oldest = it;
      }
      if (oldest == files_.end()) {
        return absl::ResourceExhaustedError(
            absl::StrCat("cache '", options_.folder, "': ", more, " bytes more than the ",
                         num_bytes_, " in use, max_bytes is ", options_.max_bytes));
      }
      PH_RETURN_IF_ERROR(RemoveAll(PathOf(oldest->first)));
      num_bytes_ -= oldest->second.num_bytes;
      ++evictions_;
      files_.erase(oldest);
    }
    return absl::OkStatus();
  }

  const Options options_;
  const DiskFile lock_;
  const std::shared_ptr<std::atomic<size_t>> maps_ = std::make_shared<std::atomic<size_t>>(0);

  mutable absl::Mutex mutex_;
  std::map<std::string, File> files_ ABSL_GUARDED_BY(mutex_);
  uint64_t num_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_uses_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t hits_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t misses_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t evictions_ ABSL_GUARDED_BY(mutex_) = 0;
};

absl::StatusOr<std::unique_ptr<ChunkCache>> ChunkCache::Open(const Options& options) {
  PH_RETURN_IF_ERROR(MakeFolder(options.folder));
  PH_ASSIGN_OR_RETURN(DiskFile lock, DiskFile::Open(absl::StrCat(options.folder, "/", kLockFile),
                                                    DiskFile::Mode::kAppend));
  if (::flock(lock.fd(), LOCK_EX | LOCK_NB) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cache '", options.folder, "' is open in another process"));
  }
  auto state = std::make_shared<State>(options, std::move(lock));
  PH_RETURN_IF_ERROR(state->Load());
  return std::unique_ptr<ChunkCache>(new ChunkCache(std::move(state)));
}

ChunkCache::~ChunkCache() = default;

absl::StatusOr<std::shared_ptr<const MappedObject>> ChunkCache::Pin(const Object& object,
                                                                    Fetch fetch) {
  return state_->Pin(object, fetch);
}

absl::StatusOr<std::shared_ptr<const MappedObject>> ChunkCache::FetchUncached(const Object& object,
                                                                              Fetch fetch) const {
  PH_ASSIGN_OR_RETURN(const DiskFile file, DiskFile::OpenNameless(state_->folder()));
  PH_RETURN_IF_ERROR(FetchInto(object, fetch, file));
  PH_ASSIGN_OR_RETURN(auto map, MapFile(file, object.num_bytes, state_->maps()));
  return std::shared_ptr<const MappedObject>(std::move(map));
}

absl::StatusOr<std::shared_ptr<const void>> ChunkCache::CountMaps(size_t num_maps) const {
  return state_->CountMaps(num_maps);
}

uint64_t ChunkCache::max_bytes() const { return state_->max_bytes(); }

ChunkCache::Counts ChunkCache::counts() const { return state_->counts(); }

}  // namespace packhouse
