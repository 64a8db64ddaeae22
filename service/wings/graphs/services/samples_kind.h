// Epochs of sub-graphs (EpochSpec.samples), for clients.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLES_KIND_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLES_KIND_H_

#include "service/server/wire/epoch_kinds.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

class SamplesKind final : public EpochKindReader, public EpochTeller {
 public:
  // `graphs` must outlive it. Null: every request is FAILED_PRECONDITION.
  explicit SamplesKind(const SourceGraphStore* graphs) : graphs_(graphs) {}

  absl::string_view name() const override;
  // Errors also as OpenSubGraphs().
  absl::StatusOr<EpochRequest> Open(const KindOpening& opening) const override;
  void AddTo(EpochRequest& request) const override;
  absl::StatusOr<uint64_t> VersionOf(absl::string_view graph) const override;
  void Tell(const LoadableEpoch& epoch, const EpochProgress& progress,
            v1::Epoch& wire) const override;

 private:
  const SourceGraphStore* const graphs_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLES_KIND_H_
