// Checks the records of a data set against everything else that is stored of it.
#ifndef PACKHOUSE_SERVICE_STORES_DATASETS_RECORD_VERIFICATION_H_
#define PACKHOUSE_SERVICE_STORES_DATASETS_RECORD_VERIFICATION_H_

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/algorithms/histograms/size_histogram.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/stores/datasets/record_dataset_reader.h"

namespace packhouse {

// Thread-compatible.
class RecordVerification {
 public:
  using Progress = absl::FunctionRef<bool(const VerifyProgress&)>;

  // `dataset` must outlive it; its records may still be coming.
  RecordVerification(const StoredDataset* dataset, uint64_t num_records_total, Progress progress);

  // Checks a record with its checksums and values, and tells the progress; records in their order.
  // `num_bytes`: what it takes in the store. CANCELLED, naming how far the check came, if it was
  // given up. O(bytes).
  absl::Status Check(const StoredRecord& record, uint64_t num_bytes);

  // Adds a disagreement unless `status` is OK.
  void Disagree(absl::Status status);

  // The report, after comparing all records with what is stored of them together: the data set's
  // numbers, the histogram and the totals of its components.
  VerifyReport Finish(const absl::StatusOr<SizeHistogram>& histogram,
                      absl::Span<const uint64_t> totals);

 private:
  absl::Status VerifyRecord(const StoredRecord& record);
  void Compare(absl::string_view what, uint64_t found, uint64_t expected);

  const StoredDataset* const dataset_;
  const Progress progress_;
  VerifyProgress done_;
  SizeHistogram recount_;
  VerifyReport report_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_STORES_DATASETS_RECORD_VERIFICATION_H_
