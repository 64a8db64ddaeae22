#include "service/wings/tfgnn/tfgnn_format.h"

#include <memory>
#include <utility>

#include "service/base/status_macros.h"
#include "service/wings/tfgnn/export_source.h"
#include "service/wings/tfgnn/wire_examples.h"

namespace packhouse {
namespace {

class Format final : public ExampleFormat {
 public:
  absl::StatusOr<GraphSchema> Schema(const v1::TfgnnSchema& wire) const override {
    return TfgnnSchemaFromWire(wire);
  }
  absl::StatusOr<std::unique_ptr<ExampleReader>> Open(const GraphSchema* schema,
                                                      MemoryBudget* working,
                                                      ExampleObserver observer) const override {
    PH_ASSIGN_OR_RETURN(TfgnnReader reader, TfgnnReader::Create(schema, working, observer));
    return std::make_unique<TfgnnReader>(std::move(reader));
  }
  Export ExportDataset(const v1::ExportDatasetRequest& request, const DatasetStore& datasets,
                       size_t max_response_bytes, MemoryBudget* working) const override {
    return ExportSource::Open(request, datasets, max_response_bytes, working);
  }
  Export ExportEpoch(const v1::ExportEpochRequest& request, std::unique_ptr<Evaluation> pass,
                     size_t max_response_bytes) const override {
    return ExportSource::OpenEpoch(request, std::move(pass), max_response_bytes);
  }
};

}  // namespace

const ExampleFormat& TfgnnFormat() {
  static const Format& format = *new Format;
  return format;
}

}  // namespace packhouse
