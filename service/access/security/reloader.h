// Reads files again when they have changed, while the server runs.
#ifndef PACKHOUSE_SERVICE_ACCESS_SECURITY_RELOADER_H_
#define PACKHOUSE_SERVICE_ACCESS_SECURITY_RELOADER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/event_log.h"

namespace packhouse::security {

// What is made of one file, or of some that belong together.
class Reloadable {
 public:
  virtual ~Reloadable() = default;

  // Reads the files. True if there is something new, which is in use from now on. With an error,
  // which names the file and what is wrong, everything stays as it was. Called by one thread at a
  // time.
  virtual absl::StatusOr<bool> Reload() = 0;

  // The same every now and then, unasked: somebody may be writing a file in place, and half of it
  // may look whole. So what is new counts once two looks in a row have found it.
  virtual absl::StatusOr<bool> Look() { return Reload(); }
  // Whether that has come to it: if not, the next look tells what is there. Of the same thread.
  virtual bool is_at_rest() const { return true; }

  // What whoever runs the server should know of the content in use; empty: nothing.
  virtual std::string note() const { return ""; }

  // From when the content is good, where it ceases to be so; infinite: always. Thread-safe.
  virtual absl::Time begins() const { return absl::InfinitePast(); }
  // When the content ceases to be good; infinite: never. Thread-safe.
  virtual absl::Time expires() const { return absl::InfiniteFuture(); }
};

// Thread-safe.
class Reloader {
 public:
  // How often somebody should call Tick().
  static constexpr absl::Duration kInterval = absl::Seconds(1);

  // What is known of one Reloadable, for metrics.
  struct Reading {
    std::string name;
    bool is_broken = false;  // What is there now is not in use.
    uint64_t num_reloads = 0;
    uint64_t num_failures = 0;  // Different contents, or reasons, that could not be used.
    absl::Time begins;
    absl::Time expires;
    std::string failure;  // Why, if it is broken.
  };

  // The log must outlive this.
  explicit Reloader(EventLog* log) : log_(log) {}

  // `what` must outlive this; its note is logged. `name`: "certificates". Before the first Tick().
  void Add(std::string name, Reloadable* what);

  // Looks at all. Logs what is new, and once each time that something is wrong in another way.
  void Tick() { Read(/*is_asked=*/false); }
  // The same where somebody asks for it, and so has written what is there.
  void Reload() { Read(/*is_asked=*/true); }

  std::vector<Reading> readings() const;

 private:
  struct Item {
    Reloadable* what = nullptr;
    Reading reading;
  };

  void Read(bool is_asked);
  void LogNote(const Item& item) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  EventLog* const log_;
  absl::Mutex ticking_;
  mutable absl::Mutex mutex_ ABSL_ACQUIRED_AFTER(ticking_);
  std::vector<Item> items_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse::security

#endif  // PACKHOUSE_SERVICE_ACCESS_SECURITY_RELOADER_H_
