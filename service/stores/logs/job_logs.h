// Logs of jobs where several servers share the jobs: a log is of the server that owns its job.
#ifndef PACKHOUSE_SERVICE_STORES_LOGS_JOB_LOGS_H_
#define PACKHOUSE_SERVICE_STORES_LOGS_JOB_LOGS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/stores/logs/job_directory.h"
#include "service/stores/logs/record_log.h"

namespace packhouse {

// The log of one job that this server owns. Thread-safe.
class OwnedLog : public RecordLog {
 public:
  // OK as long as this server surely owns the job, and may send what it has for the job's workers.
  // Otherwise UNAVAILABLE, saying why. Without I/O, and quick. It may become OK again, unless
  // is_lost().
  virtual absl::Status ownership() const = 0;
  // The log will never again take anything.
  virtual bool is_lost() const = 0;
  // Gives the job back, so that any server may take it; the log is lost then. Nobody uses it
  // meanwhile. If this fails, the job stays this server's until its lease ends.
  virtual absl::Status Release() = 0;
  // As Release(), to the server at `address`: it is the one that should own the job, for as long as
  // it lives. OK and nothing else if that is this server. NOT_FOUND if no server has the address:
  // then the log is not lost.
  virtual absl::Status MoveTo(const std::string& address) = 0;
  // Larger for each later owner of the job.
  virtual uint64_t owner_revision() const = 0;
};

// Another server, that owns a job or should.
struct JobOwner {
  std::string address;
  // OwnedLog::owner_revision(); 0: nobody owns the job, and this server is the one that should.
  uint64_t revision = 0;
};

// Either `log` is set, or another server is named by `owner`.
struct JobPlace {
  std::unique_ptr<OwnedLog> log;
  JobOwner owner;
};

// Thread-safe.
class JobLogs {
 public:
  virtual ~JobLogs() = default;

  // Becomes the owner of the job, if nobody is and this server should be. The caller's
  // earlier logs of the job, if there are any, are lost. UNAVAILABLE if that cannot be known now,
  // or this server may own nothing. Other errors as those of the log.
  virtual absl::StatusOr<JobPlace> Open(const std::string& job) = 0;

  // Where clients reach this server.
  virtual const std::string& address() const = 0;
  // The addresses of all servers that share the jobs, as they were a second or so ago. Does not
  // wait.
  virtual std::vector<std::string> members() const = 0;

  // Of all jobs; lives as long as this. Null: there is none.
  virtual JobDirectory* directory() { return nullptr; }

  // What a job's log has now, whoever owns it. Changes nothing. For jobs of the directory; a job
  // that is gone has nothing.
  virtual absl::StatusOr<std::vector<std::string>> Read(const std::string& job) = 0;

  // When what the logs lie in was restored from a backup the last time, in seconds since 1970; 0:
  // never. So generations of a job that are of before then may be drawn again.
  virtual uint64_t restored_seconds() const { return 0; }
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_LOGS_JOB_LOGS_H_
