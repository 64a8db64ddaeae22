// Whether the file of an open environment is still what it was, and in its place.
//
// It may be removed, replaced or cut off while it is open, and a page of it may turn out to be
// unreadable. None of this ends the process (MapGuard), and nothing is made durable in a file that
// is not there any more: from then on it is broken, for good, and whoever asks is told DATA_LOSS
// naming the file.
//
// A file that is cut off while a commit is written may be made as long again by it: the hole that
// is left tells. What is not seen: that no more was cut off meanwhile than the commit wrote, or
// part of a page; and any such cut on a file system that does not tell of holes at once, as ZFS.
#ifndef PACKHOUSE_SERVICE_DATASETS_LMDB_DATA_FILE_WATCH_H_
#define PACKHOUSE_SERVICE_DATASETS_LMDB_DATA_FILE_WATCH_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/datasets/lmdb/map_guard.h"
#include "service/datasets/lmdb/store_folder.h"

namespace packhouse {

// Thread-safe once it has started, but for BeforeCommit() and AfterCommit(), which belong to the
// one thread that commits.
class DataFileWatch {
 public:
  DataFileWatch() = default;
  ~DataFileWatch();
  DataFileWatch(const DataFileWatch&) = delete;
  DataFileWatch& operator=(const DataFileWatch&) = delete;

  // Before LMDB maps the files of `folder`, which must outlive this.
  void BeforeOpening(const StoreFolder* folder);
  // After that; `data_fd` is LMDB's own. UNAVAILABLE if the maps are not found.
  absl::Status Start(int data_fd);
  // LMDB has told how large its pages are.
  void SetPageBytes(size_t page_bytes);

  // DATA_LOSS naming the file if it is not what it was: the one under its name is another or none,
  // it has become shorter, or some of it could not be read. UNAVAILABLE if that cannot be told. Two
  // system calls.
  absl::Status Check() const;
  // DATA_LOSS once the above has been noticed by any call, or by reading; no system call.
  absl::Status failure() const;
  bool is_broken() const { return is_broken_.load(std::memory_order_acquire); }
  // A page could not be read. Never false again.
  bool has_unreadable() const { return data_guard_.has_failed() || table_guard_.has_failed(); }
  // Breaks it, since something of LMDB's could not be brought to an end; returns why.
  absl::Status BreakUnreadable() const;

  // Around a commit: nobody else has written to the meta pages, of which a commit leaves one as it
  // was, and no hole has come where the file was. `committed`: what came of the commit, which is
  // returned if it is an error.
  absl::Status BeforeCommit() const;
  absl::Status AfterCommit(absl::Status committed) const;

  // Before LMDB's maps go. Or, of a broken file, whose maps stay: for ever.
  void StopGuarding();
  void GuardForEver();

 private:
  // All that LMDB writes of a meta page.
  static constexpr size_t kMetaBytes = 160;
  // In place: what is read after a commit, which is durable by then, may not fail for want of
  // memory.
  using MetaPages = std::array<std::array<char, kMetaBytes>, 2>;

  // The first to notice says why; all others are told the same.
  absl::Status Break(absl::string_view why) const;
  MetaPages ReadMetaPages() const;
  // In what is looked at of the file; the end of that if there is none.
  uint64_t FirstHole() const;

  // Constant after Start().
  const StoreFolder* folder_ = nullptr;
  std::string data_path_;  // Of the folder.
  std::vector<const void*> maps_before_;
  int data_fd_ = -1;
  int holes_fd_ = -1;  // Ours, where the file system tells of holes.
  size_t page_bytes_ = 0;
  // Where one file system lies over another, the file under the name may seem to be another.
  bool names_tell_files_ = true;
  MapGuard data_guard_;
  MapGuard table_guard_;

  // The longest that the file was.
  mutable std::atomic<uint64_t> file_bytes_ = 0;
  // Of the one thread that commits.
  mutable MetaPages meta_pages_ = {};
  // Set by that thread before a commit. What is looked at for holes is the file's last part as it
  // was then: whatever is cut off, that is part of it.
  mutable std::atomic<uint64_t> looked_from_ = 0;
  mutable std::atomic<uint64_t> looked_to_ = 0;
  mutable std::atomic<uint64_t> first_hole_ = 0;
  // Until it has been looked at again.
  mutable std::atomic<bool> is_committing_ = false;

  mutable std::atomic<bool> is_broken_ = false;
  mutable absl::Mutex mutex_;
  mutable absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_DATASETS_LMDB_DATA_FILE_WATCH_H_
