#include "client/graph/files/graph_sizes.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "client/cpp/little_endian.h"

namespace packhouse::client {

absl::StatusOr<v1::Histogram> MakeHistogram(const GraphSizes& sizes) {
  std::map<std::vector<uint32_t>, uint64_t> counts;
  uint64_t total = 0;
  for (std::size_t row = 0; row < sizes.num_rows; ++row) {
    const uint64_t count = sizes.is_histogram() ? sizes.counts[row] : 1;
    if (count > std::numeric_limits<uint64_t>::max() - total) {
      return absl::OutOfRangeError("the counts add up to more than 2^64 - 1 graphs");
    }
    total += count;
    if (count == 0) continue;
    const absl::Span<const uint32_t> tuple = sizes.Row(row);
    counts[std::vector<uint32_t>(tuple.begin(), tuple.end())] += count;
  }
  v1::Histogram histogram;
  histogram.mutable_components()->Add(sizes.components.begin(), sizes.components.end());
  for (const auto& [tuple, count] : counts) {
    AppendLittleEndian(absl::MakeConstSpan(tuple), *histogram.mutable_tuples());
    AppendLittleEndian(absl::MakeConstSpan(&count, 1), *histogram.mutable_counts());
  }
  return histogram;
}

absl::Status WriteHistogramFile(const std::string& path, const GraphSizes& histogram) {
  std::ofstream file(path);
  for (const std::string& component : histogram.components) file << "num_" << component << ',';
  file << "count\n";
  for (std::size_t row = 0; row < histogram.num_rows; ++row) {
    for (const uint32_t value : histogram.Row(row)) file << value << ',';
    file << histogram.counts[row] << '\n';
  }
  file.close();
  if (!file) {
    return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace packhouse::client
