#include "service/server/wire/wire_datasets.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/pieces/piece_schema.h"
#include "service/base/status_macros.h"
#include "service/server/calls/wire_graphs.h"
#include "service/server/calls/wire_sizes.h"

namespace packhouse {
namespace {

v1::DatasetState StateToWire(DatasetState state) {
  switch (state) {
    case DatasetState::kOpen:
      return v1::DATASET_STATE_OPEN;
    case DatasetState::kSealed:
      return v1::DATASET_STATE_SEALED;
    case DatasetState::kDamaged:
      break;
  }
  return v1::DATASET_STATE_DAMAGED;
}

}  // namespace

absl::Status NoDataFolder() {
  return absl::FailedPreconditionError(
      "the server was started without a folder for data (--data-dir), or shares its jobs with "
      "others (--ledger) and keeps nothing else");
}

absl::StatusOr<NewDataset> NewDatasetFromWire(const v1::CreateDatasetRequest& wire,
                                              const ExampleFormat& format) {
  PH_RETURN_IF_ERROR(CheckDatasetName(wire.name()));
  PH_ASSIGN_OR_RETURN(GraphSchema schema, SchemaOf(wire, format));
  DatasetOptions options;
  options.max_bytes = wire.max_bytes();
  PH_ASSIGN_OR_RETURN(options.max_counts,
                      CountsFromWire(wire.max_rows(), schema.sizes(), "max_rows"));
  options.grouped = wire.grouped();
  PH_ASSIGN_OR_RETURN(const OversizeRule oversize, OversizeRuleFromWire(wire.oversize_policy()));
  if (oversize == OversizeRule::kCut) {
    if (options.max_counts.empty()) {
      return absl::InvalidArgumentError(
          "oversize_policy: OVERSIZE_POLICY_PARTITION needs max_rows");
    }
    if (options.grouped) {
      return absl::InvalidArgumentError(
          "oversize_policy: OVERSIZE_POLICY_PARTITION is not for grouped graphs");
    }
    PH_ASSIGN_OR_RETURN(const PieceSchema pieces, PieceSchema::Create(schema));
    schema = pieces.with_pieces();
  } else if (oversize == OversizeRule::kReject &&
             wire.oversize_policy() != v1::OVERSIZE_POLICY_UNSPECIFIED) {
    return absl::InvalidArgumentError(
        "oversize_policy: OVERSIZE_POLICY_REJECT is not for data sets: appends are taken whole");
  } else if (!options.max_counts.empty() && PieceSchema::Of(schema)) {
    return absl::InvalidArgumentError(
        "max_rows: a schema with tensors of pieces and bounds needs OVERSIZE_POLICY_PARTITION, and "
        "then the schema of whole graphs");
  }
  return NewDataset{wire.name(), std::move(schema), std::move(options)};
}

absl::StatusOr<std::vector<uint64_t>> GroupIdsFromWire(const v1::AppendRequest& wire,
                                                       size_t num_graphs) {
  const size_t bytes = wire.group_ids().size();
  if (bytes == 0) return std::vector<uint64_t>();
  if (bytes != num_graphs * sizeof(uint64_t)) {
    return absl::InvalidArgumentError(absl::StrCat("group_ids: ", bytes, " bytes, ", num_graphs,
                                                   " graphs take ", num_graphs * sizeof(uint64_t)));
  }
  return Uint64sFromWire(wire.group_ids());
}

void AppendResultToWire(const AppendResult& result, const v1::AppendRequest& request,
                        v1::AppendResponse& wire) {
  wire.Clear();
  if (request.has_producer_sequence()) {
    *wire.mutable_producer_sequence() = request.producer_sequence();
  }
  wire.set_num_appended(result.num_appended);
  wire.set_is_repetition(result.is_repetition);
  wire.set_num_graphs(result.num_graphs);
}

void DatasetToWire(const DatasetInfo& info, v1::Dataset& wire) {
  wire.set_name(info.name);
  wire.set_state(StateToWire(info.state));
  if (info.state == DatasetState::kDamaged) return;
  GraphSchemaToWire(*info.schema, *wire.mutable_schema());
  wire.set_id(info.id);
  wire.set_version(info.version);
  wire.set_num_graphs(info.num_graphs);
  wire.set_num_records(info.num_records);
  wire.set_num_bytes(info.num_bytes);
  wire.set_max_bytes(info.options.max_bytes);
  for (size_t k = 0; k < info.options.max_counts.size(); ++k) {
    if (info.options.max_counts[k] == 0) continue;
    v1::Capacity& capacity = *wire.add_max_rows();
    capacity.set_component(std::string(info.schema->sizes().name(k)));
    capacity.set_rows(info.options.max_counts[k]);
  }
  wire.set_grouped(info.options.grouped);
}

void DatasetListToWire(const DatasetList& list, v1::ListDatasetsResponse& wire) {
  wire.Clear();
  for (const DatasetInfo& info : list.datasets) DatasetToWire(info, *wire.add_datasets());
  wire.set_next_page_token(list.next_page_token);
}

void VerifyProgressToWire(const VerifyProgress& progress, v1::VerifyDatasetResponse& wire) {
  wire.Clear();
  wire.set_num_records(progress.num_records);
  wire.set_num_records_total(progress.num_records_total);
  wire.set_num_bytes(progress.num_bytes);
  wire.set_num_bytes_total(progress.num_bytes_total);
}

void VerifyReportToWire(const VerifyReport& report, const VerifyProgress& progress,
                        v1::VerifyDatasetResponse& wire) {
  VerifyProgressToWire(progress, wire);
  wire.set_finished(true);
  wire.set_num_damaged(report.num_damaged);
  for (const DamagedRecord& record : report.damaged) {
    v1::DamagedRecord& damaged = *wire.add_damaged();
    damaged.set_record(record.record);
    damaged.set_first_graph(record.first_graph);
    damaged.set_num_graphs(record.num_graphs);
    damaged.set_message(std::string(record.status.message()));
  }
  for (const absl::Status& status : report.disagreements) {
    wire.add_disagreements(std::string(status.message()));
  }
}

}  // namespace packhouse
