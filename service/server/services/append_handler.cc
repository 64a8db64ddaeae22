#include "service/server/services/append_handler.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/pieces/graph_pieces.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "service/server/wire/wire_datasets.h"

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
    if (!request.has_graphs() && !request.has_examples()) {
      return absl::InvalidArgumentError(
          "graphs: unset, and so is examples; only the first request of a stream may come without");
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
  if (drifts_ != nullptr) drifts_->Open(info, *datasets_);
  // Other schemas with tensors of pieces have no bounds (NewDatasetFromWire).
  if (info.options.max_counts.empty()) return absl::OkStatus();
  if (std::optional<PieceSchema> pieces = PieceSchema::Of(*info.schema)) {
    pieces_ = std::make_shared<const PieceSchema>(*std::move(pieces));
    schema_ = pieces_->shared_whole();
    for (const uint32_t count : info.options.max_counts) {
      limits_.push_back(count == 0 ? UINT64_MAX : count);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<AppendResult> AppendHandler::Append(
    const std::shared_ptr<const v1::AppendRequest>& request) {
  auto producer = ProducerFromWire(request->has_producer_sequence(), request->producer_sequence(),
                                   clock_ == nullptr ? absl::UnixEpoch() : clock_->Now());
  const bool asks = !request->has_graphs() && !request->has_examples() &&
                    AsksForProducer(request->has_producer_sequence(), request->producer_sequence());
  if (asks) {
    PH_ASSIGN_OR_RETURN(asked_for_, datasets_->GetProducer({name_, id_}, producer->producer));
  } else if (producer) {
    PH_RETURN_IF_ERROR(CheckProducer(*producer));
    producer->counts_ids = request->has_examples()
                               ? request->examples().ids_case() == v1::Examples::IDS_NOT_SET
                               : request->graphs().sizes().ids_case() == v1::SizeTable::IDS_NOT_SET;
  }
  if (request->has_examples()) return AppendExamples(*request, producer);
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
  return AppendChunk(chunk, group_ids, producer);
}

absl::StatusOr<AppendResult> AppendHandler::AppendChunk(
    const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  if (pieces_ == nullptr) return StoreChunk(chunk, group_ids, producer);
  MemoryHold memory;
  if (working_ != nullptr) {
    PH_ASSIGN_OR_RETURN(memory, working_->Hold("graphs that are cut", CuttingBytes(chunk)));
  }
  // A graph that cannot be cut stays whole, and the store refuses it by its name.
  PH_ASSIGN_OR_RETURN(
      const GraphChunk cut, CutOversizeGraphs(*pieces_, chunk, limits_, [&](uint64_t bytes) {
        return working_ == nullptr ? absl::OkStatus() : memory.Grow("pieces of graphs", bytes);
      }));
  return StoreChunk(cut, group_ids, producer);
}

absl::StatusOr<AppendResult> AppendHandler::StoreChunk(
    const GraphChunk& chunk, absl::Span<const uint64_t> group_ids,
    const std::optional<ProducerSequence>& producer) {
  PH_ASSIGN_OR_RETURN(const AppendResult result,
                      datasets_->AppendTo({name_, id_}, chunk, group_ids, producer));
  if (drifts_ != nullptr && result.num_appended != 0) {
    drifts_->Observe(id_, chunk.sizes(), result.first_graph);
  }
  return result;
}

absl::StatusOr<AppendResult> AppendHandler::AppendExamples(
    const v1::AppendRequest& request, const std::optional<ProducerSequence>& producer) {
  if (request.has_graphs()) {
    return absl::InvalidArgumentError("examples: there is a chunk of graphs beside them");
  }
  const v1::Examples& examples = request.examples();
  if (examples_ == nullptr) {
    PH_ASSIGN_OR_RETURN(examples_,
                        format_.Open(schema_.get(), working_, {observer_, Method::kAppend}));
  }
  PH_ASSIGN_OR_RETURN(DecodedExamples decoded, examples_->Read(examples, next_id_));
  PH_ASSIGN_OR_RETURN(std::vector<uint64_t> group_ids,
                      GroupIdsFromWire(request, examples.examples_size()));
  if (!group_ids.empty() && !decoded.left_out.empty()) {
    size_t next = 0;
    size_t number = 0;
    std::erase_if(group_ids, [&](uint64_t /*group*/) {
      const bool is_left_out =
          next < decoded.left_out.size() && decoded.left_out[next].example == number;
      ++number;
      next += is_left_out ? 1 : 0;
      return is_left_out;
    });
  }
  next_id_ += examples.examples_size();
  left_out_ = std::move(decoded.left_out);
  return AppendChunk(decoded.chunk, group_ids, producer);
}

absl::Status AppendHandler::Accept(std::unique_ptr<v1::AppendRequest> request) {
  const std::shared_ptr<const v1::AppendRequest> shared = std::move(request);
  PH_RETURN_IF_ERROR(Describe(*shared));
  left_out_.clear();
  asked_for_.reset();
  PH_ASSIGN_OR_RETURN(const AppendResult result, Append(shared));
  v1::AppendResponse& response = response_.emplace();
  AppendResultToWire(result, *shared, response);
  if (asked_for_) ProducerStateToWire(*asked_for_, *response.mutable_producer_state());
  response.set_num_skipped(left_out_.size());
  for (size_t i = 0; i < std::min(left_out_.size(), LeftOut::kMaxTold); ++i) {
    v1::SkippedExample& skipped = *response.add_skipped();
    skipped.set_example(left_out_[i].example);
    skipped.set_graph_id(left_out_[i].graph_id);
    skipped.set_message(left_out_[i].message);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<v1::AppendResponse>> AppendHandler::Next() {
  // A stream without requests is none that has stored something.
  if (datasets_ == nullptr && is_closed_) return NoDataFolder();
  return std::exchange(response_, std::nullopt);
}

}  // namespace packhouse
