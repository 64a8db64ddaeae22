// The audit log and the access log: files of JSON lines, one for each call that ended.
#ifndef PACKHOUSE_SERVICE_PROGRAM_JOURNAL_FILES_H_
#define PACKHOUSE_SERVICE_PROGRAM_JOURNAL_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/access/security/reloader.h"
#include "service/access/security/security_files.h"
#include "service/server/calls/call_journal.h"

namespace packhouse {

// A file to which lines are appended, each by one write. If it was renamed or removed, as by
// logrotate, Reload() opens it anew under its name. Thread-safe.
class AppendedFile final : public security::Reloadable {
 public:
  // UNAVAILABLE and the like with the system's reason; names the path.
  static absl::StatusOr<std::unique_ptr<AppendedFile>> Open(std::string path);
  ~AppendedFile() override;

  // Adds the line's end. False if it cannot be written whole, as on a full disk: it is lost and
  // counted, and what was written of it is taken away, or ended by the next line.
  // Never waits for a reader, but may wait for the disk.
  bool Append(std::string line);

  // True if the file was opened anew. An error as long as lines are lost.
  absl::StatusOr<bool> Reload() override;

 private:
  explicit AppendedFile(std::string path) : path_(std::move(path)) {}
  absl::Status OpenLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  absl::Mutex mutex_;
  int file_ ABSL_GUARDED_BY(mutex_) = -1;
  uint64_t num_lost_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t num_reported_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_in_half_a_line_ ABSL_GUARDED_BY(mutex_) = false;
};

// Lines of calls:
// - the audit log has every call that may have changed something, and every one that was refused
//   for want of credentials or rights. Refusals of callers that the server does not know are at
//   most ten a second and a hundred at once: nobody fills the disk without credentials. The next
//   line says how many were left out.
// - the access log has one of `access_every` calls. Health is in neither.
class JournalFiles final : public CallJournal {
 public:
  using Now = std::function<absl::Time()>;

  // Of the flags --audit-log and --access-log, which errors name; null if neither has a path.
  static absl::StatusOr<std::unique_ptr<JournalFiles>> Open(const std::string& audit_path,
                                                            const std::string& access_path,
                                                            uint64_t access_every, Now now);

  // From now on `files` opens them anew when they were renamed. This must outlive it.
  void AddTo(security::SecurityFiles& files);

  void OnEnded(const EndedCall& call) override;

 private:
  JournalFiles(std::unique_ptr<AppendedFile> audit, std::unique_ptr<AppendedFile> access,
               uint64_t access_every, Now now)
      : audit_(std::move(audit)),
        access_(std::move(access)),
        access_every_(access_every),
        now_(std::move(now)) {}
  // Whether there is room for the refusal of somebody unknown, and how many were left out before.
  bool TakeRoom(absl::Time now, uint64_t& left_out);

  const std::unique_ptr<AppendedFile> audit_;
  const std::unique_ptr<AppendedFile> access_;
  const uint64_t access_every_;
  const Now now_;
  absl::Mutex mutex_;
  uint64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  double room_ ABSL_GUARDED_BY(mutex_) = 100;
  absl::Time filled_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  uint64_t left_out_ ABSL_GUARDED_BY(mutex_) = 0;
};

// One line, without its end: time, principal, peer, method, resource, outcome, ms; message, request
// id and trace where there are any; `left_out` if it is not 0.
std::string JournalLine(const EndedCall& call, absl::Time now, uint64_t left_out);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_JOURNAL_FILES_H_
