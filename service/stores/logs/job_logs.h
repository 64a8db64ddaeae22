// The logs of jobs: each job has a log of its own, which is of the server that owns the job. A
// server that is alone owns all jobs.
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

// Another server, that owns a job or should.
struct JobOwner {
  std::string address;
  // RecordLog::owner_revision(); 0: nobody owns the job, and this server is the one that should.
  uint64_t revision = 0;
};

// Either `log` is set, or another server is named by `owner`.
struct JobPlace {
  std::unique_ptr<RecordLog> log;
  JobOwner owner;
};

// Thread-safe.
class JobLogs {
 public:
  virtual ~JobLogs() = default;

  // Whether this server has all jobs that there are, from the start on and for ever.
  virtual bool is_alone() const { return false; }
  // The jobs that have logs, by name, of a server that is alone.
  virtual absl::StatusOr<std::vector<std::string>> Names() { return std::vector<std::string>(); }

  // Becomes the owner of the job, if nobody is and this server should be. The caller's
  // earlier logs of the job, if there are any, are lost. UNAVAILABLE if that cannot be known now,
  // or this server may own nothing. Other errors as those of the log.
  virtual absl::StatusOr<JobPlace> Open(const std::string& job) = 0;

  // Where clients reach this server; empty for a server that is alone.
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
