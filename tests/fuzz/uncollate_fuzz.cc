// Any bytes as a schema and a batch that claims to have it. Whatever comes in: no crash, and what
// un-batching gives is valid.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "packhouse/v1/batch.pb.h"
#include "packhouse/v1/graphs.pb.h"
#include "service/algorithms/collation/uncollate.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"
#include "tests/fuzz/message_stream.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  packhouse::MessageStream messages(data, size);
  const auto schema_bytes = messages.Next();
  const auto batch_bytes = messages.Next();
  if (!schema_bytes || !batch_bytes) return 0;
  packhouse::v1::GraphSchema schema_wire;
  packhouse::v1::Batch wire;
  if (!schema_wire.ParseFromString(*schema_bytes) || !wire.ParseFromString(*batch_bytes)) return 0;
  const auto schema = packhouse::GraphSchemaFromWire(true, schema_wire);
  if (!schema.ok()) return 0;
  packhouse::Batch batch;
  batch.graph_ids = packhouse::Uint64sFromWire(wire.graph_ids());
  batch.sizes = packhouse::Uint32sFromWire(wire.sizes());
  for (const auto& tensor : wire.tensors()) {
    const auto dtype = packhouse::DTypeFromWire(tensor.dtype());
    batch.tensors.push_back({tensor.name(),
                             dtype.value_or(packhouse::DType::kInt8),
                             {},
                             tensor.data(),
                             packhouse::DTypeFromWire(tensor.declared_dtype())});
  }
  const auto graphs = packhouse::Uncollate(&*schema, batch);
  if (!graphs.ok()) {
    if (graphs.status().code() == absl::StatusCode::kInternal) std::abort();
    return 0;
  }
  size_t bytes = 0;
  for (size_t i = 0; i < graphs->num_graphs(); ++i) {
    for (size_t t = 0; t < schema->tensors().size(); ++t) {
      for (size_t plane = 0; plane < schema->num_planes(t); ++plane) {
        bytes += graphs->rows(i, t, plane).size();
      }
    }
  }
  if (bytes != graphs->num_bytes()) std::abort();
  return 0;
}
