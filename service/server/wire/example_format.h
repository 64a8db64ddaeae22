// Graphs in the form of another library, TF-GNN's examples: how they come in and go out. A wing
// brings it.
#ifndef PACKHOUSE_SERVICE_SERVER_WIRE_EXAMPLE_FORMAT_H_
#define PACKHOUSE_SERVICE_SERVER_WIRE_EXAMPLE_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "packhouse/v1/dataset.pb.h"
#include "packhouse/v1/graphs.pb.h"
#include "packhouse/v1/loader.pb.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/response_source.h"
#include "service/server/calls/rpc_observer.h"
#include "service/server/calls/wire_graphs.h"

namespace packhouse {

class DatasetStore;
class Evaluation;
struct Sharing;

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

// Makes graphs of one stream's examples. Not thread-safe.
class ExampleReader {
 public:
  virtual ~ExampleReader() = default;

  // Graphs without ids are numbered from `next_id`. `wire` is not needed afterwards.
  //
  // INVALID_ARGUMENT naming the number of the example, the key and the value if one is malformed
  // and none may be left out, and for bad ids; RESOURCE_EXHAUSTED if there is no room for the rows.
  virtual absl::StatusOr<DecodedExamples> Read(const v1::Examples& wire, uint64_t next_id) = 0;
};

// Constant; thread-safe. `working` is where memory is counted; null: nowhere. `max_response_bytes`
// bounds a response.
class ExampleFormat {
 public:
  virtual ~ExampleFormat() = default;

  // INVALID_ARGUMENT naming the field, the set, the feature and the value.
  virtual absl::StatusOr<GraphSchema> Schema(const v1::TfgnnSchema& wire) const = 0;

  // `schema` must outlive the reader and its chunks. Rows are counted while they grow.
  // INVALID_ARGUMENT naming the tensor for a schema that no example can fill.
  virtual absl::StatusOr<std::unique_ptr<ExampleReader>> Open(const GraphSchema* schema,
                                                              MemoryBudget* working,
                                                              ExampleObserver observer) const = 0;

  using Export = absl::StatusOr<std::unique_ptr<ResponseSource<v1::ExportDatasetResponse>>>;
  // NOT_FOUND; OUT_OF_RANGE for a first graph beyond the end; FAILED_PRECONDITION for a schema that
  // the format has nothing for; RESOURCE_EXHAUSTED if there is no room. O(graphs of the data set).
  virtual Export ExportDataset(const v1::ExportDatasetRequest& request,
                               const DatasetStore& datasets, size_t max_response_bytes,
                               MemoryBudget* working) const = 0;
  // The same for the epoch of a pass over the batches of all ranks. O(batches).
  virtual Export ExportEpoch(const v1::ExportEpochRequest& request,
                             std::unique_ptr<Evaluation> pass, size_t max_response_bytes) const = 0;
};

// Where no wing brings one: everything is UNIMPLEMENTED.
class NoExampleFormat final : public ExampleFormat {
 public:
  // "this packhoused was built without the wing NAME"
  explicit NoExampleFormat(std::string why_not) : why_not_(std::move(why_not)) {}
  // For a server that knows of no wing.
  static const NoExampleFormat& Default();

  absl::StatusOr<GraphSchema> Schema(const v1::TfgnnSchema& wire) const override;
  absl::StatusOr<std::unique_ptr<ExampleReader>> Open(const GraphSchema* schema,
                                                      MemoryBudget* working,
                                                      ExampleObserver observer) const override;
  Export ExportDataset(const v1::ExportDatasetRequest& request, const DatasetStore& datasets,
                       size_t max_response_bytes, MemoryBudget* working) const override;
  Export ExportEpoch(const v1::ExportEpochRequest& request, std::unique_ptr<Evaluation> pass,
                     size_t max_response_bytes) const override;

 private:
  const std::string why_not_;
};

// The schema of a request that has a GraphSchema, one of the format, or neither (as
// GraphSchemaFromWire()). INVALID_ARGUMENT naming the field, the set, the feature and the value;
// and for both at once.
template <typename Request>
absl::StatusOr<GraphSchema> SchemaOf(const Request& request, const ExampleFormat& format) {
  if (!request.has_tfgnn_schema()) {
    return GraphSchemaFromWire(request.has_schema(), request.schema());
  }
  if (request.has_schema()) {
    return absl::InvalidArgumentError("tfgnn_schema: there is a schema beside it");
  }
  return format.Schema(request.tfgnn_schema());
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_WIRE_EXAMPLE_FORMAT_H_
