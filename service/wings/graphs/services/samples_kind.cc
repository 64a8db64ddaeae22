#include "service/wings/graphs/services/samples_kind.h"

#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "service/base/status_macros.h"
#include "service/engine/epochs/making.h"
#include "service/engine/jobs/cursor.h"
#include "service/server/wire/epoch_words.h"
#include "service/server/wire/wire_loader.h"
#include "service/server/wire/wire_memory.h"
#include "service/wings/graphs/epochs/sampled_epoch.h"
#include "service/wings/graphs/epochs/samples_request.h"
#include "service/wings/graphs/services/wire_sampling.h"

namespace packhouse {

absl::string_view SamplesKind::name() const { return SamplesRequest::kName; }

absl::StatusOr<EpochRequest> SamplesKind::Open(const KindOpening& opening) const {
  const v1::SampleSpec& spec = opening.spec.samples();
  PH_ASSIGN_OR_RETURN(auto source, OpenSubGraphs(spec.sub_graphs(), graphs_, opening.at_once));
  PH_ASSIGN_OR_RETURN(
      opening.memory,
      Making(opening.working, nullptr).Hold("a subset and weights", BytesOfRequest(opening.spec)));
  PH_ASSIGN_OR_RETURN(EpochRequest request, EpochRequestFromWire(opening.spec, source->schema()));
  TakeMeasured(source->schema().sizes(), opening.models, request);
  const auto samples = std::make_shared<SamplesRequest>();
  MemoryHold hold;
  if (opening.working != nullptr) {
    PH_ASSIGN_OR_RETURN(hold, opening.working->Hold("seeds", BytesOfSeeds(spec.seeds())));
  }
  samples->memory = std::make_shared<const MemoryHold>(std::move(hold));
  PH_ASSIGN_OR_RETURN(samples->seeds, SeedsFromWire(spec.has_seeds(), spec.seeds(), *source));
  samples->window = spec.window() == 0 ? SampledEpoch::kDefaultWindow : spec.window();
  samples->exact_steps = spec.exact_steps();
  PH_ASSIGN_OR_RETURN(samples->draws_smaller, DrawsSmaller(spec.beyond_limits()));
  samples->source = std::move(source);
  samples->teller = this;
  request.kinds.push_back(samples);
  return request;
}

// The first of all kinds.
void SamplesKind::AddTo(EpochRequest& /*request*/) const {}

absl::StatusOr<uint64_t> SamplesKind::VersionOf(absl::string_view graph) const {
  if (graphs_ == nullptr) return absl::NotFoundError("there are no source graphs");
  PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs_->Get(graph));
  return info.version;
}

void SamplesKind::Tell(const LoadableEpoch& any, const EpochProgress& progress,
                       v1::Epoch& wire) const {
  const auto& epoch = static_cast<const SampledEpoch&>(any);
  const EpochIdentity& identity = epoch.identity();
  const std::vector<uint32_t> counts = epoch.Counts();
  const uint64_t known = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
  ShapesToWire(epoch, GuessBatches(identity, counts), wire);
  wire.set_num_graphs(epoch.num_graphs());
  v1::SampledEpoch& samples = *wire.mutable_samples();
  samples.set_num_seeds(epoch.num_seeds());
  samples.set_num_windows(epoch.num_windows());
  samples.set_num_planned_windows(counts.size() / identity.rank_groups.size());
  samples.set_num_planned_batches(known);
  wire.set_start_cursor(EncodeCursor({identity, progress.generation, {}, counts}));
}

}  // namespace packhouse
