// Writes the files of a snapshot into a folder, and does not write again what is there already.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_WRITER_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_WRITER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/digest.h"
#include "service/base/disk_file.h"
#include "service/program/data_folder/snapshot_manifest.h"
#include "service/stores/limits/snapshot_report.h"

namespace packhouse {

// One file while it is written. Bytes that are there already, from the beginning on, are compared
// and not written again.
class SnapshotFile {
 public:
  absl::Status Append(absl::string_view bytes);

 private:
  friend class SnapshotWriter;
  SnapshotFile(DiskFile file, uint64_t existing_bytes, SnapshotReport* report,
               const SnapshotProgress* progress)
      : file_(std::move(file)),
        existing_bytes_(existing_bytes),
        report_(report),
        progress_(progress) {}

  DiskFile file_;
  const uint64_t existing_bytes_;
  SnapshotReport* const report_;
  const SnapshotProgress* const progress_;
  Digest digest_;
  uint64_t num_bytes_ = 0;
  // What is there is equal so far.
  bool is_equal_ = true;
};

// Thread-compatible. One at a time has the folder. Until Finish() has returned OK the folder is no
// snapshot: it has no manifest, and a file that says that it is unfinished. A stopped snapshot goes
// on when it is begun again.
class SnapshotWriter {
 public:
  // ALREADY_EXISTS if the folder has a whole snapshot; FAILED_PRECONDITION if it has something
  // else, or another process is writing a snapshot into it; UNAVAILABLE, RESOURCE_EXHAUSTED.
  // `progress` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<SnapshotWriter>> Begin(const std::string& folder,
                                                               const SnapshotProgress* progress);

  // Writes the file `path`; `write` gives its bytes. Durable when it returns OK.
  absl::Status Write(const std::string& path, absl::FunctionRef<absl::Status(SnapshotFile&)> write);
  // Copies the first bytes of a file.
  absl::Status Copy(const std::string& path, const DiskFile& source, uint64_t num_bytes);

  SnapshotReport& report() { return report_; }

  // Removes what an earlier try has left and this one does not have, and writes the manifest.
  // `manifest.files` is filled in.
  absl::StatusOr<SnapshotReport> Finish(SnapshotManifest manifest);

 private:
  SnapshotWriter(std::string folder, DiskFile lock, const SnapshotProgress* progress)
      : folder_(std::move(folder)), lock_(std::move(lock)), progress_(progress) {
    report_.folder = folder_;
  }
  absl::Status RemoveStrays() const;

  const std::string folder_;
  const DiskFile lock_;
  const SnapshotProgress* const progress_;
  SnapshotReport report_;
  std::map<std::string, std::string> files_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_SNAPSHOT_WRITER_H_
