// Transactions and answers of the store as etcd's messages.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_MESSAGES_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_MESSAGES_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "etcd/rpc.pb.h"
#include "service/stores/keys/key_value_store.h"

namespace packhouse {

// `prefix` begins every key in etcd and ends with '/'; it is put before keys here, and taken from
// those of answers.
etcdserverpb::RangeRequest ToRangeRequest(const std::string& prefix, const KeyRange& range,
                                          size_t limit, Revision revision);
etcdserverpb::TxnRequest ToTxnRequest(const std::string& prefix, const Transaction& transaction);

// INTERNAL unless the answer is one to the question: keys of the range in ascending order, not more
// than `limit`, and at least one if there are more; an answer of its kind for each step.
absl::StatusOr<RangeResult> FromRangeResponse(const std::string& prefix, const KeyRange& range,
                                              size_t limit, etcdserverpb::RangeResponse& response);
absl::StatusOr<TransactionResult> FromTxnResponse(const std::string& prefix,
                                                  const Transaction& transaction,
                                                  etcdserverpb::TxnResponse& response);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_ETCD_ETCD_MESSAGES_H_
