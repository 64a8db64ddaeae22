#include "service/server/wire/example_format.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/engine/jobs/evaluation.h"

namespace packhouse {
namespace {

absl::Status NotThere(absl::string_view what, absl::string_view why_not) {
  return absl::UnimplementedError(absl::StrCat(what, ": ", why_not));
}

}  // namespace

const NoExampleFormat& NoExampleFormat::Default() {
  static const NoExampleFormat& none = *new NoExampleFormat("this server has no such format");
  return none;
}

absl::StatusOr<GraphSchema> NoExampleFormat::Schema(const v1::TfgnnSchema& /*wire*/) const {
  return NotThere("tfgnn_schema", why_not_);
}

absl::StatusOr<std::unique_ptr<ExampleReader>> NoExampleFormat::Open(
    const GraphSchema* /*schema*/, MemoryBudget* /*working*/, ExampleObserver /*observer*/) const {
  return NotThere("examples", why_not_);
}

ExampleFormat::Export NoExampleFormat::ExportDataset(const v1::ExportDatasetRequest& /*request*/,
                                                     const DatasetStore& /*datasets*/,
                                                     size_t /*max_response_bytes*/,
                                                     MemoryBudget* /*working*/) const {
  return NotThere("ExportDataset", why_not_);
}

ExampleFormat::Export NoExampleFormat::ExportEpoch(const v1::ExportEpochRequest& /*request*/,
                                                   std::unique_ptr<Evaluation> /*pass*/,
                                                   size_t /*max_response_bytes*/) const {
  return NotThere("ExportEpoch", why_not_);
}

}  // namespace packhouse
