// Names of files that are made of names that users gave, and paths that others gave.
//
// A name of a set, a column, a graph or a relation is any text: `../x`, `/film/film/genre`, 400
// bytes. Whatever writes or reads a file that is called as such a name asks FileNameOf() first.
#ifndef PACKHOUSE_SERVICE_BASE_FILE_NAME_H_
#define PACKHOUSE_SERVICE_BASE_FILE_NAME_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace packhouse {

// What FileNameOf() gives is not longer: with some letters more it is a name on every file system.
inline constexpr size_t kMaxFileNameBytes = 200;

// One component of a path for `name`: never empty, `.`, `..` or hidden, without a slash. Different
// names give different ones. The name itself if it has none of the bytes below, does not begin with
// a point and is not too long; otherwise
// - control characters, and each of / \ % * ? [ ] @ are %XX, with two capital hexadecimal digits,
// and
//   so is a point at the beginning; "" is "%";
// - of what is then longer than kMaxFileNameBytes, the first bytes, "%-" and 32 hexadecimal digits
//   of the SHA-256 of the name.
// Python's packhouse.partition.file_name() is the same function.
std::string FileNameOf(absl::string_view name);

// Whether `path` names something below a folder, and nothing above or beside it: relative, without
// empty components, `.`, `..` and zero bytes.
bool IsPathBelow(absl::string_view path);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_FILE_NAME_H_
