#include "service/wire/append_handler.h"

#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/graphs/graph_chunk.h"
#include "service/wire/wire_datasets.h"
#include "service/wire/wire_graphs.h"
#include "service/wire/wire_sizes.h"

namespace packhouse {

absl::Status AppendHandler::Describe(const v1::AppendRequest& request) {
  if (schema_ != nullptr) {
    if (!request.dataset().empty() && request.dataset() != name_) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset: '", absl::CHexEscape(request.dataset().substr(0, 128)),
                       "', the stream appends to '", name_, "'"));
    }
    if (request.dataset_id() != 0 && request.dataset_id() != id_) {
      return absl::InvalidArgumentError(
          absl::StrCat("dataset_id: ", request.dataset_id(), ", the stream appends to ", id_));
    }
    if (!request.has_graphs()) {
      return absl::InvalidArgumentError(
          "graphs: unset; only the first request of a stream may come without");
    }
    return absl::OkStatus();
  }
  if (request.dataset().empty()) {
    return absl::InvalidArgumentError("dataset: must be named in the first request");
  }
  PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets_->Get(request.dataset()));
  PH_RETURN_IF_ERROR(CheckDatasetId(request.dataset(), info.id, request.dataset_id()));
  name_ = request.dataset();
  id_ = info.id;
  schema_ = info.schema;
  return absl::OkStatus();
}

absl::StatusOr<AppendResult> AppendHandler::Append(
    const std::shared_ptr<const v1::AppendRequest>& request) {
  const auto producer =
      ProducerFromWire(request->has_producer_sequence(), request->producer_sequence());
  if (producer) PH_RETURN_IF_ERROR(CheckProducer(*producer));
  if (!request->has_graphs()) {
    PH_RETURN_IF_ERROR(GroupIdsFromWire(*request, 0).status());
    PH_ASSIGN_OR_RETURN(const DatasetInfo info, datasets_->Get(name_));
    AppendResult result;
    result.num_graphs = info.num_graphs;
    return result;
  }
  PH_ASSIGN_OR_RETURN(const GraphChunk chunk,
                      GraphChunkFromWire(request->graphs(), schema_.get(), next_id_, request));
  PH_ASSIGN_OR_RETURN(const std::vector<uint64_t> group_ids,
                      GroupIdsFromWire(*request, chunk.num_graphs()));
  next_id_ += chunk.num_graphs();
  return datasets_->AppendTo({name_, id_}, chunk, group_ids, producer);
}

absl::Status AppendHandler::Accept(std::unique_ptr<v1::AppendRequest> request) {
  const std::shared_ptr<const v1::AppendRequest> shared = std::move(request);
  PH_RETURN_IF_ERROR(Describe(*shared));
  PH_ASSIGN_OR_RETURN(const AppendResult result, Append(shared));
  AppendResultToWire(result, *shared, response_.emplace());
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::AppendResponse>> AppendHandler::Next() {
  if (datasets_ == nullptr) return NoDataFolder();
  return std::exchange(response_, std::nullopt);
}

}  // namespace packhouse
