// The way of a Pack stream's graphs to a server on this host (docs/lane.md). Does not use gRPC.
#ifndef PACKHOUSE_CLIENT_CPP_LANE_WRITER_H_
#define PACKHOUSE_CLIENT_CPP_LANE_WRITER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/lane_slots.h"
#include "client/cpp/schema_layout.h"
#include "packhouse/v1/graphs.pb.h"
#include "packhouse/v1/loader.pb.h"

namespace packhouse::client {

// Place() from one thread at a time; Cancel() from any.
class LaneWriter {
 public:
  // As LaneSlots::Open(). `schema` is that of the graphs.
  static absl::StatusOr<std::unique_ptr<LaneWriter>> Open(const v1::Lane& offer,
                                                          SchemaLayout schema);

  // Copies the tensors of a chunk into a slot, and gives its number; waits for one, which the
  // server gives when it takes requests. nullopt: the chunk is to be sent, since it has few bytes,
  // does not fit a slot, or is not as the schema says, or the lane has ended.
  std::optional<uint32_t> Place(const v1::GraphChunk& chunk);

  // Ends the lane, and what waits for a slot.
  void Cancel() { slots_->Cancel(); }

 private:
  LaneWriter(std::unique_ptr<LaneSlots> slots, SchemaLayout schema)
      : slots_(std::move(slots)), schema_(std::move(schema)) {}

  bool AwaitFree();

  const std::unique_ptr<LaneSlots> slots_;
  const SchemaLayout schema_;
  std::vector<uint32_t> free_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_LANE_WRITER_H_
