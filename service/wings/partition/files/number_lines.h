// Lines of numbers without a header, as edges and features are written in text.
//
// Fields stand between delimiters. Blanks (spaces, tabs, a carriage return) around a field do not
// count, nor do double quotes that enclose it; where the delimiter is a space or a tab, any run of
// blanks is one delimiter. Lines of blanks only are no rows, and a byte order mark at the beginning
// of a file is left out. Every reader of such files, here and in clients, splits lines by these
// functions, so that all of them read the same rows.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_NUMBER_LINES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_NUMBER_LINES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace packhouse {

// `text` is the beginning of a file.
absl::string_view WithoutByteOrderMark(absl::string_view text);

// Whether a line has nothing but blanks.
bool IsBlankLine(absl::string_view line);

// How many lines of `text` are not blank. O(bytes).
uint64_t CountRows(absl::string_view text);

// The fields of a line, which has no line feed; they point into it. None for a blank line. An empty
// field between two delimiters that are no blanks is a field.
void SplitNumberLine(absl::string_view line, char delimiter,
                     std::vector<absl::string_view>* fields);

// The node of a set of `num_nodes` that `field` says. INVALID_ARGUMENT naming `what`, the value and
// the bound: for anything but decimal digits, and a number beyond the set.
absl::StatusOr<uint64_t> NodeOfField(absl::string_view field, absl::string_view what,
                                     uint64_t num_nodes);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_FILES_NUMBER_LINES_H_
