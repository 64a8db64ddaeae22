#include "client/graph/source_graphs/npy_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/graph/files/npz_numbers.h"
#include "service/base/in_file.h"
#include "service/base/status_macros.h"

namespace packhouse::client {

absl::StatusOr<NpyArray> OpenNpyFile(const std::string& path) {
  const auto fail = [&path](const absl::Status& status) { return InFile(path, status); };
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::string header(kNpyPrefixBytes, '\0');
  file.read(header.data(), static_cast<std::streamsize>(header.size()));
  header.resize(static_cast<size_t>(file.gcount()));
  const absl::StatusOr<std::size_t> header_bytes = NpyHeaderBytes(header);
  if (!header_bytes.ok()) return fail(header_bytes.status());
  header.resize(*header_bytes);
  file.read(header.data() + kNpyPrefixBytes,
            static_cast<std::streamsize>(*header_bytes - kNpyPrefixBytes));
  header.resize(kNpyPrefixBytes + static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  absl::StatusOr<NpyHeader> parsed = ParseNpyHeader(header);
  if (!parsed.ok()) return fail(parsed.status());
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes - *header_bytes != parsed->data_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": has ", bytes - *header_bytes,
                                                   " bytes of elements, its header says ",
                                                   parsed->data_bytes));
  }
  NpyArray array;
  array.place = path;
  array.path = path;
  array.header = *std::move(parsed);
  return array;
}

absl::StatusOr<SourceColumnSpec> ColumnOfArray(const NpyArray& array, const std::string& name) {
  SourceColumnSpec column;
  column.name = name;
  column.dtype = array.header.dtype;
  if (array.header.shape.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(array.place, ": has no dimension; the first one numbers its rows"));
  }
  for (size_t i = 1; i < array.header.shape.size(); ++i) {
    const uint64_t extent = array.header.shape[i];
    if (extent == 0 || extent > std::numeric_limits<uint32_t>::max()) {
      return absl::InvalidArgumentError(
          absl::StrCat(array.place, ": has the shape ", ShapeText(array.header),
                       "; extents of a row must be from 1 to 4294967295"));
    }
    column.row_shape.push_back(static_cast<uint32_t>(extent));
  }
  return column;
}

absl::Status NpyStream::Open() {
  const NpyArray& array = arrays_[next_++];
  left_ = array.header.data_bytes;
  entry_.reset();
  if (array.archive != nullptr) {
    PH_ASSIGN_OR_RETURN(NpzStream stream, array.archive->OpenStream(*array.entry));
    entry_.emplace(std::move(stream));
    return absl::OkStatus();
  }
  file_ = std::ifstream(array.path, std::ios::binary);
  file_.seekg(static_cast<std::streamoff>(array.header.header_bytes));
  if (!file_) return absl::NotFoundError(absl::StrCat(array.path, ": ", std::strerror(errno)));
  return absl::OkStatus();
}

absl::Status NpyStream::Append(uint64_t elements, std::string* bytes) {
  if (arrays_.empty()) return absl::DataLossError("there is no array");
  for (uint64_t wanted = elements * ElementBytes(arrays_[0].header.dtype); wanted > 0;) {
    if (left_ == 0) {
      if (next_ == arrays_.size()) {
        return absl::DataLossError(absl::StrCat(arrays_.back().place, ": ends too soon"));
      }
      PH_RETURN_IF_ERROR(Open());
      continue;
    }
    const uint64_t piece = std::min(wanted, left_);
    if (entry_) {
      PH_RETURN_IF_ERROR(entry_->Append(piece, *bytes));
    } else {
      const size_t begin = bytes->size();
      bytes->resize(begin + piece);
      file_.read(bytes->data() + begin, static_cast<std::streamsize>(piece));
      if (!file_) {
        return absl::DataLossError(absl::StrCat(arrays_[next_ - 1].place, ": ends too soon"));
      }
    }
    left_ -= piece;
    wanted -= piece;
  }
  return absl::OkStatus();
}

absl::Status NpyStream::Skip(uint64_t elements) {
  constexpr uint64_t kPiece = uint64_t{1} << 17;
  std::string ignored;
  for (; elements > 0; elements -= std::min(elements, kPiece)) {
    ignored.clear();
    PH_RETURN_IF_ERROR(Append(std::min(elements, kPiece), &ignored));
  }
  return absl::OkStatus();
}

absl::Status NpyStream::AppendNumbers(uint64_t elements, std::vector<int64_t>* numbers) {
  std::string bytes;
  PH_RETURN_IF_ERROR(Append(elements, &bytes));
  absl::Status status;
  ForEachWholeNumber(arrays_[0].header.dtype, bytes, [&](auto value) {
    if constexpr (std::is_unsigned_v<decltype(value)>) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        status = absl::InvalidArgumentError(
            absl::StrCat(arrays_[next_ - 1].place, ": ", value, " is no int64"));
        return false;
      }
    }
    numbers->push_back(static_cast<int64_t>(value));
    return true;
  });
  return status;
}

}  // namespace packhouse::client
