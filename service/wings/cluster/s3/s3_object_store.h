// Objects in a bucket of an S3 store, by libcurl.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_OBJECT_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_OBJECT_STORE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "service/stores/objects/object_store.h"
#include "service/wings/cluster/s3/s3_credentials.h"

namespace packhouse {

// Whether an endpoint is of this machine: "localhost", "127.0.0.0/8" or "[::1]", with or without a
// port or a path.
bool IsOnThisMachine(absl::string_view endpoint);

// Each call is one request and one attempt (RetryingObjectStore tries again). Requests are signed
// (Signature Version 4), bodies included; addresses are of path style: ENDPOINT/BUCKET/KEY.
// Connections are kept and used again. A request whose caller (base/caller.h) is gone ends
// CANCELLED about a second later. Thread-safe: as many requests go on as there are callers.
class S3ObjectStore final : public ObjectStore {
 public:
  struct Options {
    // "https://HOST[:PORT]" or "http://...". The environment's proxies (http_proxy, https_proxy,
    // all_proxy, no_proxy) are for other machines: a store on this one is reached without them.
    std::string endpoint;
    std::string bucket;
    // Before every key, with a '/' between; may be empty.
    std::string prefix;
    std::string region = "us-east-1";
    S3Credentials credentials;
    // If set, asked for the credentials of each request: those with a session token are good for
    // hours only. `credentials` are then not used. Any thread calls it.
    std::function<S3Credentials()> current_credentials;
    // Certificates, in PEM, of the authorities that vouch for the endpoint; empty: the system's.
    std::string ca_file;
    // A transfer that is slower than 1 KiB/s for this long is given up.
    absl::Duration longest_stall = absl::Seconds(10);
    // Must outlive the store.
    const Clock* clock = nullptr;
  };

  // INVALID_ARGUMENT naming the option. Sends nothing.
  static absl::StatusOr<std::unique_ptr<S3ObjectStore>> Create(const Options& options);
  ~S3ObjectStore() override;

  absl::Status Put(absl::string_view key, absl::string_view bytes, absl::Time deadline) override;
  absl::Status Get(absl::string_view key, const ByteRange& range, ObjectSink sink,
                   absl::Time deadline) override;
  absl::StatusOr<ObjectList> List(absl::string_view prefix, absl::string_view after, size_t limit,
                                  absl::Time deadline) override;
  absl::Status Delete(absl::string_view key, absl::Time deadline) override;

 private:
  struct Request;
  struct Response;

  explicit S3ObjectStore(Options options);

  std::string FullKey(absl::string_view key) const;
  absl::Status Send(const Request& request, Response& response, absl::Time deadline);
  // A connection that nobody uses, or a new one; libcurl's handle.
  absl::StatusOr<void*> TakeHandle();
  void GiveBack(void* handle);

  const Options options_;

  absl::Mutex mutex_;
  std::vector<void*> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_S3_S3_OBJECT_STORE_H_
