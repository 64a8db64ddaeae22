// Named histograms in a file, so that they outlive the server.
#ifndef PACKHOUSE_SERVICE_ENGINE_HISTOGRAMS_HISTOGRAM_FILE_H_
#define PACKHOUSE_SERVICE_ENGINE_HISTOGRAMS_HISTOGRAM_FILE_H_

#include <cstdint>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "service/base/memory_budget.h"
#include "service/engine/histograms/histogram_store.h"

namespace packhouse {

// In a data folder. docs/storage-format.md describes the bytes: equal histograms have equal bytes.
inline constexpr char kHistogramsFile[] = "histograms";

// Gives the bytes of the file for all histograms of a store, in parts of at most a few MiB. Each
// histogram is as it was at one moment after the call began; changes wait at most while one is
// copied, or written if there is no memory to reserve for a copy. NOT_FOUND if that one is deleted
// just then; the error of `append`.
absl::Status WriteHistograms(const HistogramStore& store, absl::Time now,
                             absl::FunctionRef<absl::Status(absl::string_view bytes)> append);

// The bytes of a file with this histogram alone; and what they are. `name`: of the file, for
// errors, which are those of ReadHistogramFile().
absl::Status WriteHistogramBytes(const KeptHistogram& kept,
                                 absl::FunctionRef<absl::Status(absl::string_view bytes)> append);
absl::StatusOr<uint64_t> ReadHistogramBytes(
    const std::string& name, absl::string_view bytes, MemoryBudget* memory,
    absl::FunctionRef<absl::Status(KeptHistogram histogram)> take);

// Replaces the file in a folder, as a whole or not at all. Errors as WriteHistograms(), and those
// of the disk, with the three outcomes of disk_file.h.
absl::Status SaveHistogramFile(const HistogramStore& store, const std::string& folder,
                               absl::Time now);

// Calls `take` with each histogram of a file, and gives their number. Memory is reserved from
// `memory`, which may be null, before a histogram is read, and is the histogram's own afterwards.
// What all of them take, and some 6 KiB for each component of the one that is read, is enough: the
// server that wrote the file could start with its own budget.
// NOT_FOUND without a file; DATA_LOSS, naming the file and the place, if it is damaged;
// RESOURCE_EXHAUSTED; the error of `take`.
absl::StatusOr<uint64_t> ReadHistogramFile(
    const std::string& path, MemoryBudget* memory,
    absl::FunctionRef<absl::Status(KeptHistogram histogram)> take);

// Puts the histograms of a folder's file into a store. OK without a file. Other errors as
// ReadHistogramFile(); they say how to start without the file.
absl::Status LoadHistogramFile(const std::string& folder, absl::Time now, MemoryBudget* memory,
                               HistogramStore& store);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_HISTOGRAMS_HISTOGRAM_FILE_H_
