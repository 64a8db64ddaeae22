#include "client/graph/source_graphs/csv_file.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wings/graphs/files/field_values.h"
#include "service/wings/partition/files/number_lines.h"

namespace packhouse::client {
namespace {

constexpr std::size_t kCsvReadBytes = std::size_t{1} << 18;

}  // namespace

CsvFile::CsvFile(std::string path, char delimiter)
    : path_(std::move(path)), reader_(delimiter), buffer_(kCsvReadBytes) {}

CsvFile::~CsvFile() {
  if (file_ != nullptr) gzclose_r(static_cast<gzFile>(file_));
}

absl::StatusOr<std::unique_ptr<CsvFile>> CsvFile::Open(const std::string& path, char delimiter) {
  std::unique_ptr<CsvFile> file(new CsvFile(path, delimiter));
  // zlib passes uncompressed bytes through.
  const gzFile opened = gzopen(path.c_str(), "rb");
  if (opened == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  gzbuffer(opened, static_cast<unsigned>(kCsvReadBytes));
  file->file_ = opened;
  return file;
}

absl::StatusOr<bool> CsvFile::Next() {
  while (true) {
    const absl::StatusOr<bool> has_record = reader_.Next();
    if (!has_record.ok()) {
      return absl::Status(has_record.status().code(),
                          absl::StrCat(path_, ": ", has_record.status().message()));
    }
    if (*has_record) return true;
    if (is_ended_) return false;
    const auto file = static_cast<gzFile>(file_);
    const int read = gzread(file, buffer_.data(), static_cast<unsigned>(buffer_.size()));
    int error = Z_OK;
    const char* const message = gzerror(file, &error);
    if (read < 0 || (error != Z_OK && error != Z_STREAM_END)) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ", error == Z_ERRNO ? strerror(errno) : message));
    }
    if (read == 0) {
      reader_.End();
      is_ended_ = true;
    } else {
      reader_.Feed(absl::string_view(buffer_.data(), static_cast<std::size_t>(read)));
    }
  }
}

absl::Status CsvFile::InLine(const absl::Status& status) const {
  return absl::Status(status.code(),
                      absl::StrCat(path_, ": line ", line(), ": ", status.message()));
}

NumberFile::NumberFile(std::string path, char delimiter)
    : path_(std::move(path)), delimiter_(delimiter) {}

NumberFile::~NumberFile() {
  if (file_ != nullptr) gzclose_r(static_cast<gzFile>(file_));
}

absl::StatusOr<std::unique_ptr<NumberFile>> NumberFile::Open(const std::string& path,
                                                             char delimiter) {
  std::unique_ptr<NumberFile> file(new NumberFile(path, delimiter));
  const gzFile opened = gzopen(path.c_str(), "rb");
  if (opened == nullptr) return absl::NotFoundError(absl::StrCat(path, ": ", strerror(errno)));
  gzbuffer(opened, static_cast<unsigned>(kCsvReadBytes));
  file->file_ = opened;
  return file;
}

absl::StatusOr<bool> NumberFile::Fill() {
  buffer_.erase(0, at_);
  at_ = 0;
  if (buffer_.size() > kMaxLineBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": line ", line_ + 1, ": has more than ", kMaxLineBytes, " bytes"));
  }
  const std::size_t before = buffer_.size();
  buffer_.resize(before + kCsvReadBytes);
  const auto file = static_cast<gzFile>(file_);
  const int read = gzread(file, buffer_.data() + before, static_cast<unsigned>(kCsvReadBytes));
  int error = Z_OK;
  const char* const message = gzerror(file, &error);
  if (read < 0 || (error != Z_OK && error != Z_STREAM_END)) {
    return absl::DataLossError(
        absl::StrCat(path_, ": ", error == Z_ERRNO ? strerror(errno) : message));
  }
  buffer_.resize(before + static_cast<std::size_t>(read));
  return read > 0;
}

absl::StatusOr<bool> NumberFile::Next() {
  while (true) {
    std::size_t end = buffer_.find('\n', at_);
    while (end == std::string::npos) {
      const std::size_t looked_at = buffer_.size() - at_;
      PH_ASSIGN_OR_RETURN(const bool has_more, Fill());
      end = buffer_.find('\n', looked_at);
      if (has_more || end != std::string::npos) continue;
      if (at_ == buffer_.size()) return false;
      end = buffer_.size();
    }
    absl::string_view line = absl::string_view(buffer_).substr(at_, end - at_);
    if (line_ == 0) line = WithoutByteOrderMark(line);
    ++line_;
    at_ = std::min(end + 1, buffer_.size());
    SplitNumberLine(line, delimiter_, &fields_);
    if (!fields_.empty()) return true;
  }
}

absl::Status NumberFile::InLine(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat(path_, ": line ", line_, ": ", status.message()));
}

absl::StatusOr<std::vector<int64_t>> ReadNumbers(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  std::vector<int64_t> numbers;
  while (true) {
    PH_ASSIGN_OR_RETURN(const bool has_record, file->Next());
    if (!has_record) return numbers;
    if (file->fields().size() != 1) {
      return file->InLine(absl::InvalidArgumentError(
          absl::StrCat("has ", file->fields().size(), " fields, 1 is needed")));
    }
    numbers.emplace_back();
    const absl::Status status = graph_files::ParseInt64(file->fields()[0], &numbers.back());
    if (!status.ok()) return file->InLine(status);
  }
}

absl::StatusOr<std::vector<std::vector<std::string>>> ReadRecords(const std::string& path) {
  constexpr std::size_t kMostFields = std::size_t{1} << 20;
  PH_ASSIGN_OR_RETURN(const std::unique_ptr<CsvFile> file, CsvFile::Open(path));
  std::vector<std::vector<std::string>> records;
  std::size_t fields = 0;
  while (true) {
    PH_ASSIGN_OR_RETURN(const bool has_record, file->Next());
    if (!has_record) return records;
    records.emplace_back(file->fields().begin(), file->fields().end());
    fields += records.back().size();
    if (fields > kMostFields) {
      return file->InLine(
          absl::InvalidArgumentError(absl::StrCat("more than ", kMostFields, " fields")));
    }
  }
}

}  // namespace packhouse::client
