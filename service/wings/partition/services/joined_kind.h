// Epochs of joined parts (EpochSpec.join_parts), for clients.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_JOINED_KIND_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_JOINED_KIND_H_

#include "service/server/wire/epoch_kinds.h"

namespace packhouse {

class JoinedKind final : public EpochKindReader, public EpochTeller {
 public:
  absl::string_view name() const override;
  // FAILED_PRECONDITION for a data set that is not of parts.
  absl::StatusOr<EpochRequest> Open(const KindOpening& opening) const override;
  void AddTo(EpochRequest& request) const override;
  void Tell(const LoadableEpoch& epoch, const EpochProgress& progress,
            v1::Epoch& wire) const override;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_SERVICES_JOINED_KIND_H_
