// Where etcd is, and who asks.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_OPTIONS_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_OPTIONS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace packhouse {

struct EtcdOptions {
  // HOST:PORT each; those of one cluster. At least one.
  std::vector<std::string> endpoints;
  // Begins every key in etcd, and is no part of the keys that callers see. Ends with '/'. Two
  // clusters of packhouse may share an etcd with different prefixes.
  std::string prefix = "packhouse/";
  // Of one call. Shorter than a third of the leases that are kept alive through this store.
  absl::Duration timeout = absl::Seconds(3);
  // PEM. With `roots`, connections are encrypted, and the servers' certificates are checked against
  // them; without, plain text. `certificate` and `key`: what this client shows, or both empty.
  std::string roots;
  std::string certificate;
  std::string key;
  // Of etcd's own users, over encrypted connections only. Empty: none.
  std::string user;
  std::string password;
};

// "etcd://HOST[:PORT][,HOST[:PORT]...][/PREFIX]"; the port is 2379 by default, a host may be an
// IPv6 address in brackets. Sets endpoints and prefix. INVALID_ARGUMENT naming the part that is
// wrong; but a URI with '@' is refused without a word of it, since it may have a password.
absl::StatusOr<EtcdOptions> ParseEtcdUri(absl::string_view uri);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_OPTIONS_H_
