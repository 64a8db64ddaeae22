// Which tensors are text.
#ifndef PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_TEXT_FEATURES_H_
#define PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_TEXT_FEATURES_H_

#include <cstddef>
#include <optional>

#include "service/algorithms/graphs/graph_schema.h"

namespace packhouse {

// The most bytes of a padding value (TensorSpec::padding_value) that is a text: that of the bytes
// of a text feature may have more than one element. Padding rows of the feature then have this
// text, as BatchLayout says.
inline constexpr size_t kMaxPaddingText = 4096;

// If tensor t has the bytes of a text feature `F` that is not ragged otherwise: the tensor of the
// lengths. They are called `F.bytes` and `F.bytes.d1`, and there is no `F.bytes.d2`. O(tensors).
std::optional<size_t> LengthsOfText(const GraphSchema& schema, size_t t);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ALGORITHMS_GRAPHS_TEXT_FEATURES_H_
