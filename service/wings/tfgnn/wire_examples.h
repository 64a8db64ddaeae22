// TF-GNN's schemas and examples: wire to graphs and back.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_EXAMPLES_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_EXAMPLES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "packhouse/v1/graphs.pb.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/rpc_observer.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse {

// The schema of a request that has a GraphSchema, a TfgnnSchema, or neither (as
// GraphSchemaFromWire()). INVALID_ARGUMENT naming the field, the set, the feature and the value;
// and for both at once.
template <typename Request>
absl::StatusOr<GraphSchema> SchemaOf(const Request& request);
absl::StatusOr<GraphSchema> TfgnnSchemaFromWire(const v1::TfgnnSchema& wire);

// A malformed example that was left out.
struct LeftOut {
  // Among the examples of the request.
  uint32_t example;
  uint64_t graph_id;
  // Empty beyond the first kMaxTold of a request.
  std::string message;

  static constexpr size_t kMaxTold = 100;
};

// The graphs of a request.
struct DecodedExamples {
  // Owns its rows.
  GraphChunk chunk;
  // The memory of the rows.
  uint64_t bytes;
  // As long as the caller does not account for `bytes` itself.
  MemoryHold memory;
  // In the order of the request.
  std::vector<LeftOut> left_out;
};

// Who is told of malformed examples, and by which method they came. Null: nobody.
struct ExampleObserver {
  RpcObserver* rpcs = nullptr;
  Method method = Method::kAppend;
};

// Makes graphs of one stream's examples. Movable; not thread-safe.
class ExampleReader {
 public:
  // `schema` must outlive the reader and its chunks. Rows are counted in `working` (null: nowhere)
  // while they grow. INVALID_ARGUMENT naming the tensor for a schema that no example can fill.
  static absl::StatusOr<ExampleReader> Create(const GraphSchema* schema, MemoryBudget* working,
                                              ExampleObserver observer = {});

  // Graphs without ids are numbered from `next_id`. `wire` is not needed afterwards.
  //
  // INVALID_ARGUMENT naming the number of the example, the key and the value if one is malformed
  // and none may be left out, and for bad ids; RESOURCE_EXHAUSTED if there is no room for the rows.
  absl::StatusOr<DecodedExamples> Read(const v1::Examples& wire, uint64_t next_id);

 private:
  ExampleReader(const GraphSchema* schema, tfgnn::GraphSets sets, tfgnn::ExampleDecoder decoder,
                MemoryBudget* working, ExampleObserver observer)
      : schema_(schema),
        sets_(std::move(sets)),
        decoder_(std::move(decoder)),
        working_(working),
        observer_(observer) {}

  void Tell(uint64_t skipped, uint64_t refused);

  const GraphSchema* schema_;
  tfgnn::GraphSets sets_;
  tfgnn::ExampleDecoder decoder_;
  MemoryBudget* working_;
  ExampleObserver observer_;
};

// Internal to SchemaOf().
absl::StatusOr<GraphSchema> SchemaOfEither(bool has_schema, const v1::GraphSchema& schema,
                                           bool has_tfgnn, const v1::TfgnnSchema& tfgnn);

template <typename Request>
absl::StatusOr<GraphSchema> SchemaOf(const Request& request) {
  return SchemaOfEither(request.has_schema(), request.schema(), request.has_tfgnn_schema(),
                        request.tfgnn_schema());
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_EXAMPLES_H_
