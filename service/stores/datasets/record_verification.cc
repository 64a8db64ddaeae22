#include "service/stores/datasets/record_verification.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/algorithms/graphs/graph_chunk.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/chunk_record.h"

namespace packhouse {

RecordVerification::RecordVerification(const StoredDataset* dataset, uint64_t num_records_total,
                                       Progress progress)
    : dataset_(dataset), progress_(progress), recount_(dataset->info.schema->num_components()) {
  done_.num_records_total = num_records_total;
  done_.num_bytes_total = dataset->info.num_bytes;
}

// Checks everything about one record, and adds its sizes to the recount.
absl::Status RecordVerification::VerifyRecord(const StoredRecord& record) {
  PH_ASSIGN_OR_RETURN(const ChunkRecordView view, dataset_->View(record));
  const auto check = [&]() -> absl::Status {
    const GraphSchema& schema = *dataset_->info.schema;
    PH_RETURN_IF_ERROR(view.CheckColumns());
    PH_ASSIGN_OR_RETURN(const GraphChunk chunk, view.ToChunk(&schema, nullptr));
    std::vector<absl::string_view> columns;
    for (size_t t = 0; t < chunk.num_columns(); ++t) columns.push_back(chunk.column(t));
    const auto checked = GraphChunk::Create(&schema, chunk.sizes(), std::move(columns), nullptr);
    if (!checked.ok()) return absl::DataLossError(checked.status().message());
    return recount_.AddTable(chunk.sizes());
  };
  const absl::Status status = check();
  return status.ok() ? status : dataset_->Named(record, status);
}

absl::Status RecordVerification::Check(const StoredRecord& record, uint64_t num_bytes) {
  absl::Status status = VerifyRecord(record);
  ++report_.num_records;
  report_.num_graphs += record.end_graph - record.first_graph;
  report_.num_bytes += num_bytes;
  if (!status.ok()) {
    ++report_.num_damaged;
    if (report_.damaged.size() < VerifyReport::kMaxListed) {
      report_.damaged.push_back({record.number, record.first_graph,
                                 record.end_graph - record.first_graph, std::move(status)});
    }
  }
  done_.num_records = report_.num_records;
  done_.num_bytes = report_.num_bytes;
  if (progress_(done_)) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat("data set '", dataset_->info.name, "': given up after ",
                                           done_.num_records, " of ", done_.num_records_total,
                                           " records"));
}

void RecordVerification::Disagree(absl::Status status) {
  if (!status.ok()) report_.disagreements.push_back(std::move(status));
}

void RecordVerification::Compare(absl::string_view what, uint64_t found, uint64_t expected) {
  if (found == expected) return;
  Disagree(absl::DataLossError(absl::StrCat("data set '", dataset_->info.name, "': there are ",
                                            found, " ", what, ", should be ", expected)));
}

VerifyReport RecordVerification::Finish(const absl::StatusOr<SizeHistogram>& histogram,
                                        absl::Span<const uint64_t> totals) {
  const DatasetInfo& info = dataset_->info;
  Compare("records", report_.num_records, info.num_records);
  Compare("records that belong nowhere", dataset_->num_stray_records, 0);
  Compare("bytes of records", report_.num_bytes, info.num_bytes);
  if (!histogram.ok()) {
    Disagree(histogram.status());
  } else if (report_.num_damaged == 0 && !(recount_ == *histogram)) {
    Disagree(absl::DataLossError(
        absl::StrCat("data set '", info.name, "': its histogram is not that of its records")));
  }
  for (size_t k = 0; report_.num_damaged == 0 && k < totals.size(); ++k) {
    Compare(info.schema->sizes().name(k), recount_.total(k), totals[k]);
  }
  return std::move(report_);
}

}  // namespace packhouse
