#include "service/stores/lmdb/lmdb_dataset_verify.h"

#include "service/base/status_macros.h"
#include "service/stores/datasets/record_dataset_reader.h"
#include "service/stores/datasets/record_verification.h"

namespace packhouse {

absl::StatusOr<VerifyReport> VerifyDataset(
    const OpenedDataset& opened, const LmdbEnvironment& environment,
    absl::FunctionRef<bool(const VerifyProgress&)> progress) {
  const StoredDataset& dataset = opened.dataset;
  RecordVerification verification(&dataset, dataset.records.size(), progress);
  for (const StoredRecord& record : dataset.records) {
    PH_RETURN_IF_ERROR(verification.Check(record, environment.BytesOnDisk(record.bytes.size())));
  }
  // What cannot be read now is no damage.
  const absl::Status files = environment.CheckFiles();
  for (const absl::Status& read : {files, opened.producers, opened.histogram.status()}) {
    if (!read.ok() && !absl::IsDataLoss(read)) return read;
  }
  verification.Disagree(files);
  verification.Disagree(opened.producers);
  return verification.Finish(opened.histogram, opened.state.totals);
}

}  // namespace packhouse
