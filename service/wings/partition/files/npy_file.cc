#include "service/wings/partition/files/npy_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/npy_header.h"

namespace packhouse {

absl::Status WriteNpyFile(const ArraySource& array, ByteSink& sink) {
  PH_RETURN_IF_ERROR(ArrayBytes(array.header).status());
  PH_RETURN_IF_ERROR(sink.Write(MakeNpyHeader(array.header.dtype, array.header.shape)));
  return WriteRows(array, sink);
}

absl::StatusOr<ArrayView> ReadNpyFile(absl::string_view file) {
  PH_ASSIGN_OR_RETURN(NpyHeader header, ParseNpyHeader(file));
  const absl::string_view rows = file.substr(header.header_bytes);
  if (rows.size() != header.data_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", rows.size(), " bytes of rows, its shape needs ", header.data_bytes));
  }
  return ArrayView{{"", header.dtype, std::move(header.shape)}, rows};
}

}  // namespace packhouse
