// The name of a mixture of data sets.
#ifndef PACKHOUSE_SERVICE_BASE_MIXTURE_NAME_H_
#define PACKHOUSE_SERVICE_BASE_MIXTURE_NAME_H_

#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// It is the names of the data sets with this between; no data set's name has it.
inline constexpr char kMixtureSeparator = '+';

inline bool IsMixture(absl::string_view name) {
  return name.find(kMixtureSeparator) != absl::string_view::npos;
}

// No mixture has more data sets.
inline constexpr int kMaxMixedDatasets = 16;

// The names of a mixture's data sets, in order; of any other name, itself. They view `name`. Of a
// name with too many, which nothing has, the last one is all that follows kMaxMixedDatasets others:
// a client that sends a message full of separators costs no more than its message.
inline std::vector<absl::string_view> NamesInMixture(absl::string_view name) {
  return absl::StrSplit(name, absl::MaxSplits(kMixtureSeparator, kMaxMixedDatasets));
}

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_MIXTURE_NAME_H_
