// Records of a file of CSV, plain or compressed by gzip.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CSV_FILE_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CSV_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/graphs/files/csv_reader.h"

namespace packhouse::client {

// Not thread-safe.
class CsvFile {
 public:
  // NOT_FOUND naming the file.
  static absl::StatusOr<std::unique_ptr<CsvFile>> Open(const std::string& path,
                                                       char delimiter = ',');
  CsvFile(const CsvFile&) = delete;
  CsvFile& operator=(const CsvFile&) = delete;
  ~CsvFile();

  // As CsvReader::Next; false: at the end. Errors name the file, and DATA_LOSS broken compression.
  absl::StatusOr<bool> Next();
  absl::Span<const absl::string_view> fields() const { return reader_.fields(); }
  const std::string& path() const { return path_; }
  uint64_t line() const { return reader_.line(); }

  // `status` with `FILE: line N: ` before its message.
  absl::Status InLine(const absl::Status& status) const;

 private:
  CsvFile(std::string path, char delimiter);

  const std::string path_;
  graph_files::CsvReader reader_;
  // gzFile, which only the implementation sees.
  void* file_ = nullptr;
  std::vector<char> buffer_;
  bool is_ended_ = false;
};

// Rows of a file of numbers (wings/partition/files/number_lines.h), plain or compressed by gzip.
// Not thread-safe.
class NumberFile {
 public:
  // The most bytes of a line: a file without line feeds is found before memory runs out.
  static constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

  // NOT_FOUND naming the file.
  static absl::StatusOr<std::unique_ptr<NumberFile>> Open(const std::string& path, char delimiter);
  NumberFile(const NumberFile&) = delete;
  NumberFile& operator=(const NumberFile&) = delete;
  ~NumberFile();

  // The next line that is not blank; false: at the end. DATA_LOSS for broken compression, and
  // INVALID_ARGUMENT for a line beyond kMaxLineBytes; both name the file.
  absl::StatusOr<bool> Next();
  // Valid until the next Next.
  absl::Span<const absl::string_view> fields() const { return fields_; }
  // `status` with `FILE: line N: ` before its message.
  absl::Status InLine(const absl::Status& status) const;

 private:
  NumberFile(std::string path, char delimiter);

  // Reads on; false at the end of the file.
  absl::StatusOr<bool> Fill();

  const std::string path_;
  const char delimiter_;
  void* file_ = nullptr;  // gzFile, as in CsvFile.
  std::string buffer_;
  std::size_t at_ = 0;  // In buffer_, where the next line begins.
  uint64_t line_ = 0;
  std::vector<absl::string_view> fields_;
};

// All of a file of one column of whole numbers without a header, as OGB has them.
// INVALID_ARGUMENT naming file, line and value.
absl::StatusOr<std::vector<int64_t>> ReadNumbers(const std::string& path);

// All of a small file. INVALID_ARGUMENT beyond 2^20 fields.
absl::StatusOr<std::vector<std::vector<std::string>>> ReadRecords(const std::string& path);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_CSV_FILE_H_
