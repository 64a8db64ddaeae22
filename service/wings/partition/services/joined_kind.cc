#include "service/wings/partition/services/joined_kind.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "service/base/mixture_name.h"
#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/jobs/cursor.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_memory.h"
#include "service/wings/partition/epochs/joined_epoch.h"
#include "service/wings/partition/epochs/joined_parts.h"
#include "service/wings/partition/epochs/parts_schema.h"

namespace packhouse {

absl::string_view JoinedKind::name() const { return JoinedParts::kName; }

absl::StatusOr<EpochRequest> JoinedKind::Open(const KindOpening& opening) const {
  const v1::EpochSpec& spec = opening.spec;
  if (IsMixture(spec.dataset())) {
    return absl::InvalidArgumentError(JoinedEpoch::kNotOfMixtures);
  }
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, opening.datasets.Get(spec.dataset()));
  PH_ASSIGN_OR_RETURN(
      opening.memory,
      Making(opening.working, nullptr).Hold("a subset and weights", BytesOfRequest(spec)));
  PH_ASSIGN_OR_RETURN(const PartsSchema parts, PartsSchema::Of(*info.schema));
  PH_ASSIGN_OR_RETURN(EpochRequest request, EpochRequestFromWire(spec, parts.joined()));
  AddTo(request);
  return request;
}

void JoinedKind::AddTo(EpochRequest& request) const {
  request.kinds.push_back(std::make_shared<JoinedParts>(this));
}

void JoinedKind::Tell(const LoadableEpoch& any, const EpochProgress& progress,
                      v1::Epoch& wire) const {
  const auto& epoch = static_cast<const JoinedEpoch&>(any);
  ShapesToWire(epoch, {epoch.identity().num_batches()}, wire);
  wire.set_num_graphs(epoch.num_parts());
  RejectionsToWire(epoch.oversize().num_graphs, epoch.oversize().items, epoch.schema().sizes(),
                   wire);
  v1::JoinedParts& parts = *wire.mutable_joined_parts();
  parts.set_num_inner_edges(epoch.edges().inner);
  parts.set_num_cut_edges(epoch.edges().cut);
  parts.set_num_restored_edges(epoch.edges().restored);
  wire.set_start_cursor(EncodeCursor({epoch.identity(), progress.generation, {}, {}}));
}

}  // namespace packhouse
