#include "service/server/services/pack_lane.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/collation/tensor_framing.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/algorithms/sizes/size_table.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {
namespace {

// Where the columns of some graphs lie in a slot: in the order of the schema, each at the next
// multiple of 64.
struct ColumnPlaces {
  struct Place {
    uint64_t begin = 0;
    uint64_t bytes = 0;
  };
  std::vector<Place> columns;
  uint64_t end = 0;
};

// INVALID_ARGUMENT if they do not fit `room`. O(n * l).
absl::StatusOr<ColumnPlaces> PlacesOf(const GraphSchema& schema, const SizeTable& sizes,
                                      uint64_t room) {
  constexpr uint64_t kAlignment = TensorFraming::kAlignment;
  // Fewer than 2^32 counts below 2^32: these sums do not wrap around.
  std::vector<uint64_t> rows(schema.num_components(), 0);
  for (size_t i = 0; i < sizes.num_graphs(); ++i) {
    const auto tuple = sizes.tuple(i);
    for (size_t k = 0; k < rows.size(); ++k) rows[k] += tuple[k];
  }
  rows.push_back(sizes.num_graphs());
  ColumnPlaces places;
  for (size_t t = 0; t < schema.tensors().size(); ++t) {
    const uint64_t begin = (places.end + kAlignment - 1) / kAlignment * kAlignment;
    const uint64_t num_rows = rows[schema.tensors()[t].component];
    const uint64_t row_bytes = schema.row_bytes(t);
    if (begin > room || (row_bytes != 0 && num_rows > (room - begin) / row_bytes)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "lane: tensor '", schema.tensors()[t].name, "' with ", num_rows, " rows of ", row_bytes,
          " bytes does not fit the slot of ", room, " bytes behind its first ", begin));
    }
    places.columns.push_back({begin, num_rows * row_bytes});
    places.end = begin + num_rows * row_bytes;
  }
  return places;
}

}  // namespace

absl::Status PackLaneHandler::Accept(std::unique_ptr<v1::PackRequest> request) {
  if (graphs_ != nullptr && request->has_slot_graphs()) return AcceptFrom(request->slot_graphs());
  const bool opens = request->has_open();
  PH_RETURN_IF_ERROR(handler_->Accept(std::move(request)));
  if (opens) Opened();
  return absl::OkStatus();
}

void PackLaneHandler::Opened() {
  absl::StatusOr<std::shared_ptr<Lane>> to_client = Offer();
  Offers offers;
  LaneToWire(to_client, door_, offers.to_client);
  if (to_client.ok()) {
    offers.uses_lane = (*to_client)->open_flag();
    replies_.emplace(*to_client, FieldBytes::Of(handler_->packer().schema()), clock_, wake_);
  }
  if (takes_graphs_) {
    // Without the first one there is none, for the same reason.
    absl::StatusOr<std::shared_ptr<Lane>> to_server = to_client;
    if (to_client.ok()) to_server = door_->Offer(kGraphs, wake_, LaneWay::kToServer);
    LaneToWire(to_server, door_, offers.to_server.emplace());
    if (to_server.ok()) graphs_ = *std::move(to_server);
  }
  tell_(offers);
}

absl::Status PackLaneHandler::AcceptFrom(const v1::SlotGraphs& graphs) {
  const GraphSchema& schema = handler_->GivenSchema();
  PH_ASSIGN_OR_RETURN(SizeTable sizes, SizeTableFromWire(graphs.sizes(), schema.num_components(),
                                                         handler_->NextId()));
  PH_ASSIGN_OR_RETURN(const ColumnPlaces places,
                      PlacesOf(schema, sizes, graphs_->size().slot_bytes));
  PH_RETURN_IF_ERROR(graphs_->TakeFilled(graphs.slot()));
  const auto copy = std::make_shared_for_overwrite<char[]>(places.end);
  std::memcpy(copy.get(), graphs_->slot(graphs.slot()), places.end);
  ++door_->counts().num_chunks;
  // If the client has closed the lane, its later graphs come by gRPC.
  graphs_->GiveToFill(graphs.slot()).IgnoreError();
  std::vector<absl::string_view> columns;
  for (const ColumnPlaces::Place& place : places.columns) {
    columns.emplace_back(copy.get() + place.begin, place.bytes);
  }
  PH_ASSIGN_OR_RETURN(GraphChunk chunk,
                      GraphChunk::Create(&schema, std::move(sizes), std::move(columns), copy));
  return handler_->AcceptChunk(std::move(chunk), places.end);
}

absl::StatusOr<std::shared_ptr<Lane>> PackLaneHandler::Offer() {
  if (!handler_->whole_graphs()) {
    return absl::FailedPreconditionError("batches of a stream of sizes have no tensors");
  }
  const StreamPacker& packer = handler_->packer();
  const FieldBytes fields = FieldBytes::Of(packer.schema());
  // Shapes that are chosen later are not known.
  uint64_t bytes = packer.shapes().empty() ? kUsualResponseBytes : 0;
  for (const StreamShape& shape : packer.shapes()) {
    bytes = std::max(bytes, MostResponseBytes(shape.shape, fields));
  }
  return OfferLane(door_, bytes, wake_);
}

absl::StatusOr<std::optional<PackReply>> PackLaneHandler::Next() {
  if (!replies_) return handler_->Next();
  return replies_->Next([this] { return handler_->Next(); });
}

}  // namespace packhouse
