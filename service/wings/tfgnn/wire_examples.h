// TF-GNN's schemas and examples: wire to graphs and back.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_EXAMPLES_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_EXAMPLES_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "packhouse/v1/graphs.pb.h"
#include "service/algorithms/graphs/graph_schema.h"
#include "service/base/memory_budget.h"
#include "service/server/wire/example_format.h"
#include "service/wings/tfgnn/example_decoder.h"
#include "service/wings/tfgnn/graph_sets.h"

namespace packhouse {

// INVALID_ARGUMENT naming the field, the set, the feature and the value.
absl::StatusOr<GraphSchema> TfgnnSchemaFromWire(const v1::TfgnnSchema& wire);

// Movable.
class TfgnnReader final : public ExampleReader {
 public:
  // As ExampleFormat::Open().
  static absl::StatusOr<TfgnnReader> Create(const GraphSchema* schema, MemoryBudget* working,
                                            ExampleObserver observer = {});

  absl::StatusOr<DecodedExamples> Read(const v1::Examples& wire, uint64_t next_id) override;

 private:
  TfgnnReader(const GraphSchema* schema, tfgnn::GraphSets sets, tfgnn::ExampleDecoder decoder,
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

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_WIRE_EXAMPLES_H_
