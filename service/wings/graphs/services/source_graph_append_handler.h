// One stream of SourceGraphService.AppendSourceGraph.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SOURCE_GRAPH_APPEND_HANDLER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SOURCE_GRAPH_APPEND_HANDLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "packhouse/v1/source_graph.pb.h"
#include "service/base/clock.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/stream_handler.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

// Accept() blocks until the rows are durable, so the stream must run on the append pool.
//
// Memory: the record that is written is made from the received message, and is about as large; it
// is reserved while it is there.
class SourceGraphAppendHandler final
    : public StreamHandler<v1::AppendSourceGraphRequest, v1::AppendSourceGraphResponse> {
 public:
  // The pointees must outlive the handler. Without `graphs` there may be no request. `working`
  // counts records; null: nothing is counted. `clock` says when producers may be forgotten; null:
  // it is always 1970.
  explicit SourceGraphAppendHandler(SourceGraphStore* graphs, MemoryBudget* working = nullptr,
                                    const Clock* clock = nullptr)
      : graphs_(graphs), working_(working), clock_(clock) {}

  absl::Status Accept(std::unique_ptr<v1::AppendSourceGraphRequest> request) override;
  void HalfClose() override {}
  absl::StatusOr<std::optional<v1::AppendSourceGraphResponse>> Next() override;
  bool MayBlock() const override { return true; }

 private:
  // Sets the stream's graph from the first request; later requests must not change it.
  absl::Status Describe(const v1::AppendSourceGraphRequest& request);

  SourceGraphStore* const graphs_;
  MemoryBudget* const working_;
  const Clock* const clock_;
  std::string name_;
  uint64_t id_ = 0;
  std::shared_ptr<const SourceGraphSchema> schema_;  // Null before the first request.
  std::optional<v1::AppendSourceGraphResponse> response_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SOURCE_GRAPH_APPEND_HANDLER_H_
