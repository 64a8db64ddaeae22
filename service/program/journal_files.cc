#include "service/program/journal_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/event_log.h"
#include "service/base/log_line.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr double kMostRefusals = 100;
constexpr double kRefusalsEachSecond = 10;

bool IsRefusal(absl::StatusCode code) {
  return code == absl::StatusCode::kUnauthenticated || code == absl::StatusCode::kPermissionDenied;
}

absl::StatusOr<std::unique_ptr<AppendedFile>> OpenOf(const char* flag, const std::string& path) {
  if (path.empty()) return nullptr;
  auto file = AppendedFile::Open(path);
  if (file.ok()) return file;
  return absl::Status(file.status().code(), absl::StrCat(flag, ": ", file.status().message()));
}

// As a process leaves it that ended while it wrote.
bool EndsInHalfALine(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return false;
  struct stat there = {};
  char last = '\n';
  const bool is_read = ::fstat(file, &there) == 0 && S_ISREG(there.st_mode) && there.st_size > 0 &&
                       ::pread(file, &last, 1, there.st_size - 1) == 1;
  ::close(file);
  return is_read && last != '\n';
}

}  // namespace

absl::StatusOr<std::unique_ptr<AppendedFile>> AppendedFile::Open(std::string path) {
  auto file = std::unique_ptr<AppendedFile>(new AppendedFile(std::move(path)));
  absl::MutexLock lock(&file->mutex_);
  PH_RETURN_IF_ERROR(file->OpenLocked());
  return file;
}

AppendedFile::~AppendedFile() {
  absl::MutexLock lock(&mutex_);
  if (file_ >= 0) ::close(file_);
}

absl::Status AppendedFile::OpenLocked() {
  const int opened = ::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
  if (opened < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open '", path_, "'"));
  if (file_ >= 0) ::close(file_);
  file_ = opened;
  ends_in_half_a_line_ = EndsInHalfALine(path_);
  return absl::OkStatus();
}

bool AppendedFile::Append(std::string line) {
  line.push_back('\n');
  absl::MutexLock lock(&mutex_);
  if (ends_in_half_a_line_) line.insert(line.begin(), '\n');
  ssize_t written = 0;
  do {
    written = ::write(file_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  // Half a line is lost too: nobody can read it.
  const bool is_written = written == static_cast<ssize_t>(line.size());
  if (!is_written) ++num_lost_;
  if (is_written) ends_in_half_a_line_ = false;
  if (!is_written && written > 0) {
    struct stat there = {};
    ends_in_half_a_line_ = ::fstat(file_, &there) != 0 || !S_ISREG(there.st_mode) ||
                           ::ftruncate(file_, there.st_size - written) != 0;
  }
  return is_written;
}

absl::StatusOr<bool> AppendedFile::Reload() {
  absl::MutexLock lock(&mutex_);
  struct stat here = {};
  struct stat named = {};
  const bool is_same = ::fstat(file_, &here) == 0 && ::stat(path_.c_str(), &named) == 0 &&
                       here.st_ino == named.st_ino && here.st_dev == named.st_dev;
  if (!is_same) PH_RETURN_IF_ERROR(OpenLocked());
  if (num_lost_ != std::exchange(num_reported_, num_lost_)) {
    return absl::UnavailableError(absl::StrCat("'", path_, "': ", num_lost_, " lines are lost"));
  }
  return !is_same;
}

absl::StatusOr<std::unique_ptr<JournalFiles>> JournalFiles::Open(const std::string& audit_path,
                                                                 const std::string& access_path,
                                                                 uint64_t access_every, Now now) {
  if (audit_path.empty() && access_path.empty()) return nullptr;
  PH_ASSIGN_OR_RETURN(auto audit, OpenOf("--audit-log", audit_path));
  PH_ASSIGN_OR_RETURN(auto access, OpenOf("--access-log", access_path));
  return std::unique_ptr<JournalFiles>(
      new JournalFiles(std::move(audit), std::move(access), access_every, std::move(now)));
}

void JournalFiles::AddTo(security::SecurityFiles& files) {
  if (audit_ != nullptr) files.Add("audit log", audit_.get());
  if (access_ != nullptr) files.Add("access log", access_.get());
}

void JournalFiles::OnEnded(const EndedCall& call) {
  if (call.method == Method::kCheck || call.method == Method::kWatch) return;
  const absl::Time now = now_();
  const bool is_refused = IsRefusal(call.status.code());
  const bool is_unknown = call.status.code() == absl::StatusCode::kUnauthenticated;
  RunWithinMemory([&] {
    uint64_t left_out = 0;
    if (audit_ != nullptr && (call.record.may_change || is_refused) &&
        (!is_unknown || TakeRoom(now, left_out))) {
      audit_->Append(JournalLine(call, now, left_out));
    }
    if (access_ == nullptr) return;
    {
      absl::MutexLock lock(&mutex_);
      if (num_calls_++ % access_every_ != 0) return;
    }
    access_->Append(JournalLine(call, now, 0));
  });
}

bool JournalFiles::TakeRoom(absl::Time now, uint64_t& left_out) {
  absl::MutexLock lock(&mutex_);
  if (filled_ != absl::InfinitePast()) {
    room_ =
        std::min(kMostRefusals, room_ + kRefusalsEachSecond * absl::ToDoubleSeconds(now - filled_));
  }
  filled_ = now;
  if (room_ < 1) {
    ++left_out_;
    return false;
  }
  room_ -= 1;
  left_out = std::exchange(left_out_, 0);
  return true;
}

std::string JournalLine(const EndedCall& call, absl::Time now, uint64_t left_out) {
  const CallRecord& record = call.record;
  const std::string code = absl::StatusCodeToString(call.status.code());
  std::vector<LogField> fields = {{"principal", record.principal},
                                  {"peer", record.peer},
                                  {"method", kMethodNames[static_cast<size_t>(call.method)]},
                                  {"resource", record.resource},
                                  {"outcome", code},
                                  {"ms", call.elapsed}};
  if (!call.status.ok()) fields.push_back(LogField::Message(call.status.message()));
  if (!record.request_id.empty()) fields.emplace_back("request_id", record.request_id);
  if (!record.trace.empty()) fields.emplace_back("traceparent", record.trace);
  if (left_out != 0) fields.emplace_back("left_out", left_out);
  return absl::StrCat("{\"time\":\"",
                      absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone()), "\",",
                      JsonMembers("call", fields), "}");
}

}  // namespace packhouse
