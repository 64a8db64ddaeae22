// Epochs: wire to domain and back. Errors as in wire_sizes.h.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_LOADER_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "packhouse/v1/loader.pb.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/engine/epochs/cost_order.h"
#include "service/engine/epochs/epoch_plan.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/jobs/evaluation.h"
#include "service/engine/jobs/joining.h"
#include "service/engine/jobs/loader.h"

namespace packhouse {

inline constexpr size_t kMaxInFlight = 1024;
inline constexpr size_t kMaxAcknowledged = 65536;
// The longest name of a job, worker or attempt.
inline constexpr size_t kMaxJobNameLength = 128;

absl::Status CheckJobName(absl::string_view job);

// `schema` is the data set's. The job may be empty; otherwise its name is checked.
absl::StatusOr<EpochRequest> EpochRequestFromWire(const v1::EpochSpec& wire,
                                                  const GraphSchema& schema);

// With steps of like cost and one rank group whose ranks are not said: they are those of the load.
void TakeRanks(const v1::LoadRequest& wire, EpochRequest& epoch);

// All ranks that the epoch is asked for; one if it has one rank group.
absl::StatusOr<Sharing> AllRanksOf(const EpochRequest& epoch);

// How a worker joins, without its client and the time; `epoch` is what it asks for, and `cursor`
// the request's, without its signature.
absl::StatusOr<JoinRequest> JoinRequestFromWire(const v1::LoadRequest& wire,
                                                const EpochRequest& epoch,
                                                absl::string_view cursor);
// An evaluation, of an epoch without a job; `wire` says that it is one.
absl::StatusOr<EvaluationRequest> EvaluationFromWire(const v1::LoadRequest& wire,
                                                     const EpochRequest& epoch);
absl::StatusOr<size_t> MaxInFlightFromWire(uint32_t wire);

// Without its company.
void EpochToWire(const LoadableEpoch& epoch, const EpochProgress& progress, v1::Epoch& wire);
// The batches of an epoch without summaries: so many of each rank group.
void ShapesToWire(const LoadableEpoch& epoch, absl::Span<const uint64_t> num_batches,
                  v1::Epoch& wire);
// Items that no batch takes; `schema` is that of the batches.
void RejectionsToWire(uint64_t num_graphs, const std::vector<OversizeItem>& items,
                      const SizeSchema& schema, v1::Epoch& wire);
void CompanyToWire(const Company& company, v1::Company& wire);
void JobToWire(const JobSummary& job, v1::Job& wire);
void LoadOpenedToWire(const LoadSession& session, v1::LoadOpened& wire);
void EvaluationOpenedToWire(const Evaluation& evaluation, v1::LoadOpened& wire);
// Everything except the tensors (batch_reply.h). `epoch` is the epoch's number.
void LoadedBatchToWire(const LoadEvent& event, uint64_t epoch, v1::LoadedBatch& wire);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_WIRE_LOADER_H_
