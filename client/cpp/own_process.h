// gRPC's calls and threads do not survive a fork: they stay those of the process that made them.
#ifndef PACKHOUSE_CLIENT_CPP_OWN_PROCESS_H_
#define PACKHOUSE_CLIENT_CPP_OWN_PROCESS_H_

#include <sys/types.h>
#include <unistd.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse::client {

// The process that made it. Thread-safe.
//
// As a deleter it leaves things as they are in a process that was forked: locks may be held there
// for ever, threads are missing, and what is sent goes to the parent's connections.
class OwnProcess {
 public:
  bool is_forked() const { return ::getpid() != process_; }

  // FAILED_PRECONDITION in a process that was forked. `thing` is what may not be used there.
  absl::Status Check(absl::string_view thing) const {
    if (!is_forked()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "this ", thing, " was made by process ", process_, " before a fork to process ", ::getpid(),
        ", which gRPC does not survive: make channel and ", thing,
        " in the process that uses them"));
  }

  template <typename T>
  void operator()(T* thing) const {
    if (!is_forked()) delete thing;
  }

 private:
  pid_t process_ = ::getpid();
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_OWN_PROCESS_H_
