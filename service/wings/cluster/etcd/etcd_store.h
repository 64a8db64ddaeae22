// etcd as the store that replicas agree by, over gRPC.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_STORE_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_STORE_H_

#include <atomic>
#include <cstddef>
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
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/etcd/etcd_options.h"

namespace grpc {
class ClientContext;
class Status;
}  // namespace grpc

namespace packhouse {

// Thread-safe. Has a connection to each endpoint and uses one of them, the last that answered; a
// call that is not answered makes the next calls go to the next endpoint. Reads try another
// endpoint themselves. A change is sent once: what its loss means is the caller's to find out.
//
// Errors as KeyValueStore, naming the endpoint. UNAVAILABLE of a change means that no endpoint
// could be connected to, so that nothing was sent. With a user, tokens are asked for as they are
// needed, and again when they have expired.
class EtcdStore final : public KeyValueStore {
 public:
  // Does not wait for a connection. INVALID_ARGUMENT if there is no endpoint, or if
  // credentials would be sent in plain text: a user or certificate without roots.
  static absl::StatusOr<std::unique_ptr<EtcdStore>> Make(EtcdOptions options);
  ~EtcdStore() override;

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override;
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override;
  absl::StatusOr<StoreLease> GrantLease(absl::Duration length) override;
  absl::StatusOr<absl::Duration> KeepAlive(LeaseId lease) override;
  absl::Status RevokeLease(LeaseId lease) override;

 private:
  struct Endpoint;
  using Attempt = std::function<grpc::Status(Endpoint&, grpc::ClientContext&)>;

  explicit EtcdStore(EtcdOptions options);

  // `attempt` on endpoints in turn until one answers, or the time is over.
  absl::Status Read(const Attempt& attempt);
  // `attempt` on one endpoint; again only if it was refused for its token.
  absl::Status Change(const Attempt& attempt);
  // The first endpoint, from the current one on, that has a connection or gets one before
  // `deadline`; null if there is none.
  Endpoint* Connected(absl::Time deadline);
  // UNAVAILABLE: no endpoint has a connection. With the reason of one, if gRPC says any: nothing
  // listens there, its certificate is not trusted, or it does not speak TLS.
  absl::Status NoConnection();
  // Later calls go to the endpoint after `failed`.
  void Avoid(const Endpoint& failed);
  // One call, with the user's token.
  grpc::Status Call(Endpoint& endpoint, absl::Time deadline, const Attempt& attempt);
  absl::StatusOr<std::string> TokenFrom(Endpoint& endpoint, absl::Time deadline);

  // Constant after construction.
  const EtcdOptions options_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;

  std::atomic<size_t> current_ = 0;
  absl::Mutex mutex_;
  std::string token_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_STORE_H_
