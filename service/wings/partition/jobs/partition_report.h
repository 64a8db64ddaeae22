// What a partition came to, and its file report.json.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_REPORT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/partition/cutting/assignment.h"

namespace packhouse {

inline constexpr char kPartitionReportFile[] = "report.json";

struct ReportedPart {
  uint64_t num_inner_nodes = 0;
  uint64_t num_halo_nodes = 0;
  uint64_t num_inner_edges = 0;
  uint64_t num_halo_edges = 0;
  uint64_t num_cut_edges = 0;  // In-edges of inner nodes that come from other parts.
  uint64_t num_bytes = 0;      // Of its files.

  friend bool operator==(const ReportedPart&, const ReportedPart&) = default;
};

struct PartitionReport {
  // Its `part` and `trainer` are empty.
  Assignment assignment;
  uint64_t num_nodes = 0;
  uint64_t num_edges = 0;
  std::vector<ReportedPart> parts;
};

// The word of the JSON file and of the command line: metis, random, streaming, automatic.
absl::string_view MethodName(PartMethod method);

// JSON, indented.
std::string ReportText(const PartitionReport& report);
// INVALID_ARGUMENT for a text that ReportText did not make.
absl::StatusOr<PartitionReport> ReportOfText(absl::string_view text);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PARTITION_REPORT_H_
