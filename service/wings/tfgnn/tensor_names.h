// How tensors of a schema are called, for the files that make such names and that read them.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_TENSOR_NAMES_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_TENSOR_NAMES_H_

#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace packhouse::tfgnn {

// Ends the name of a tensor of bytes whose innermost lengths are those of strings.
inline constexpr absl::string_view kBytesEnding = ".bytes";

// The lengths of ragged dimension `number` of a feature; the same ending as in a tf.Example.
inline std::string LengthsName(absl::string_view feature, size_t number) {
  return absl::StrCat(feature, ".d", number);
}

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_TENSOR_NAMES_H_
