// Texts of fields to elements of columns.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_FIELD_VALUES_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_FIELD_VALUES_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "service/algorithms/graphs/dtype.h"

namespace packhouse::graph_files {

// Appends the element that `text` says, little-endian. Floats are decimals, `nan` and `inf`, and
// are rounded to the nearest; integers are decimal, without a point; bool is 0 or 1 (or `true`,
// `false`, in any case). Nothing may stand around them: no spaces.
//
// INVALID_ARGUMENT naming the value and the dtype: "'1.5' is no int64". Then nothing is appended.
absl::Status AppendElement(absl::string_view text, DType dtype, std::string* bytes);

// The same for an int64, as node ids are.
absl::Status ParseInt64(absl::string_view text, int64_t* value);

// Appends one element of `dtype`, an integer or bool, from an int64. False if it is no value of it.
bool AppendInteger(uint64_t bits, DType dtype, std::string* bytes);
// The same for a float dtype: rounds.
void AppendFloat(double value, DType dtype, std::string* bytes);

}  // namespace packhouse::graph_files

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_FILES_FIELD_VALUES_H_
