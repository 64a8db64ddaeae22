#include "service/datasets/lmdb/lmdb_dataset_verify.h"

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/datasets/chunk_record.h"
#include "service/datasets/lmdb/lmdb_dataset_reader.h"
#include "service/graphs/graph_chunk.h"
#include "service/histograms/size_histogram.h"

namespace packhouse {
namespace {

// Checks everything about one record, and adds its sizes to `recount`.
absl::Status VerifyRecord(const StoredDataset& dataset, const StoredRecord& record,
                          SizeHistogram& recount) {
  PH_ASSIGN_OR_RETURN(const ChunkRecordView view, dataset.View(record));
  const auto check = [&]() -> absl::Status {
    const GraphSchema& schema = *dataset.info.schema;
    PH_RETURN_IF_ERROR(view.CheckColumns());
    PH_ASSIGN_OR_RETURN(const GraphChunk chunk, view.ToChunk(&schema, nullptr));
    std::vector<absl::string_view> columns;
    for (size_t t = 0; t < chunk.num_columns(); ++t) columns.push_back(chunk.column(t));
    const auto checked = GraphChunk::Create(&schema, chunk.sizes(), std::move(columns), nullptr);
    if (!checked.ok()) return absl::DataLossError(checked.status().message());
    return recount.AddTable(chunk.sizes());
  };
  const absl::Status status = check();
  return status.ok() ? status : dataset.Named(record, status);
}

// Checks whether the other values agree with the records.
void CompareTotals(const OpenedDataset& opened, const LmdbEnvironment& environment,
                   const SizeHistogram& recount, VerifyReport& report) {
  const StoredDataset& dataset = opened.dataset;
  const DatasetInfo& info = dataset.info;
  const absl::string_view name = info.name;
  if (absl::Status lost = environment.CheckFiles(); !lost.ok()) {
    report.disagreements.push_back(std::move(lost));
  }
  const auto disagree = [&](absl::string_view what, uint64_t found, uint64_t expected) {
    if (found == expected) return;
    report.disagreements.push_back(absl::DataLossError(absl::StrCat(
        "data set '", name, "': there are ", found, " ", what, ", should be ", expected)));
  };
  disagree("records", report.num_records, info.num_records);
  disagree("records that belong nowhere", dataset.num_stray_records, 0);
  disagree("bytes of records", report.num_bytes, info.num_bytes);
  if (!opened.producers.ok()) report.disagreements.push_back(opened.producers);
  if (!opened.histogram.ok()) {
    report.disagreements.push_back(opened.histogram.status());
  } else if (report.num_damaged == 0 && !(recount == *opened.histogram)) {
    report.disagreements.push_back(absl::DataLossError(
        absl::StrCat("data set '", name, "': its histogram is not that of its records")));
  }
  for (size_t k = 0; report.num_damaged == 0 && k < opened.state.totals.size(); ++k) {
    disagree(info.schema->sizes().name(k), recount.total(k), opened.state.totals[k]);
  }
}

}  // namespace

absl::StatusOr<VerifyReport> VerifyDataset(
    const OpenedDataset& opened, const LmdbEnvironment& environment,
    absl::FunctionRef<bool(const VerifyProgress&)> progress) {
  const StoredDataset& dataset = opened.dataset;
  const DatasetInfo& info = dataset.info;
  SizeHistogram recount(info.schema->num_components());
  VerifyReport report;
  VerifyProgress done;
  done.num_records_total = dataset.records.size();
  done.num_bytes_total = info.num_bytes;
  for (const StoredRecord& record : dataset.records) {
    absl::Status status = VerifyRecord(dataset, record, recount);
    ++report.num_records;
    report.num_graphs += record.end_graph - record.first_graph;
    report.num_bytes += environment.BytesOnDisk(record.bytes.size());
    if (!status.ok()) {
      ++report.num_damaged;
      if (report.damaged.size() < VerifyReport::kMaxListed) {
        report.damaged.push_back({record.number, record.first_graph,
                                  record.end_graph - record.first_graph, std::move(status)});
      }
    }
    done.num_records = report.num_records;
    done.num_bytes = report.num_bytes;
    if (!progress(done)) {
      return absl::CancelledError(absl::StrCat("data set '", info.name, "': given up after ",
                                               done.num_records, " of ", done.num_records_total,
                                               " records"));
    }
  }
  CompareTotals(opened, environment, recount, report);
  return report;
}

}  // namespace packhouse
