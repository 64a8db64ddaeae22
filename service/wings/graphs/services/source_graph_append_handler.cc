#include "service/wings/graphs/services/source_graph_append_handler.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_datasets.h"
#include "service/wings/graphs/services/wire_source_graphs.h"

namespace packhouse {

absl::Status SourceGraphAppendHandler::Describe(const v1::AppendSourceGraphRequest& request) {
  if (schema_ != nullptr) {
    if (!request.graph().empty() && request.graph() != name_) {
      return absl::InvalidArgumentError(absl::StrCat("graph: ", Quoted(request.graph()),
                                                     ", the stream appends to ", Quoted(name_)));
    }
    if (request.graph_id() != 0 && request.graph_id() != id_) {
      return absl::InvalidArgumentError(
          absl::StrCat("graph_id: ", request.graph_id(), ", the stream appends to ", id_));
    }
    return absl::OkStatus();
  }
  if (request.graph().empty()) {
    return absl::InvalidArgumentError("graph: must be named in the first request");
  }
  PH_ASSIGN_OR_RETURN(const SourceGraphInfo info, graphs_->Get(request.graph()));
  if (request.graph_id() != 0 && request.graph_id() != info.id) {
    return absl::NotFoundError(
        absl::StrCat("source graph ", Quoted(request.graph()), ": its id is ", info.id,
                     ", asked for is ", request.graph_id(), ", which was deleted, or never was"));
  }
  name_ = request.graph();
  id_ = info.id;
  schema_ = info.schema;
  return absl::OkStatus();
}

absl::Status SourceGraphAppendHandler::Accept(
    std::unique_ptr<v1::AppendSourceGraphRequest> request) {
  PH_RETURN_IF_ERROR(Describe(*request));
  auto producer = ProducerFromWire(request->has_producer_sequence(), request->producer_sequence(),
                                   clock_ == nullptr ? absl::UnixEpoch() : clock_->Now());
  std::optional<ProducerHistory> asked_for;
  if (request->nodes().empty() && request->edges().empty() &&
      AsksForProducer(request->has_producer_sequence(), request->producer_sequence())) {
    PH_ASSIGN_OR_RETURN(asked_for, graphs_->GetProducer({name_, id_}, producer->producer));
    producer.reset();
  }
  PH_ASSIGN_OR_RETURN(const SourceGraphChunk chunk, SourceGraphChunkFromWire(*request, *schema_));
  MemoryHold hold;
  if (working_ != nullptr) {
    PH_ASSIGN_OR_RETURN(hold, working_->Hold("rows that are appended to a source graph",
                                             request->ByteSizeLong() + 4096));
  }
  PH_ASSIGN_OR_RETURN(const SourceAppendResult result,
                      graphs_->Append({name_, id_}, chunk, producer));
  SourceAppendResultToWire(result, *request, response_.emplace());
  if (asked_for) ProducerStateToWire(*asked_for, *response_->mutable_producer_state());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::AppendSourceGraphResponse>> SourceGraphAppendHandler::Next() {
  return std::exchange(response_, std::nullopt);
}

}  // namespace packhouse
