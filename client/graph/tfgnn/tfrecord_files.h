// Reads and writes TFRecord files: several as one, plain or compressed by gzip.
#ifndef PACKHOUSE_CLIENT_GRAPH_TFGNN_TFRECORD_FILES_H_
#define PACKHOUSE_CLIENT_GRAPH_TFGNN_TFRECORD_FILES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/wings/tfgnn/record_framing.h"

namespace packhouse::client {

// The files that a pattern means, in the order of their names: a file; a glob, as in
// `train-*.tfrecord`; or `train.tfrecord@10`, which is train.tfrecord-00000-of-00010 and the nine
// others.
//
// Errors: NOT_FOUND naming the pattern if nothing matches, or the first shard that is missing;
// INVALID_ARGUMENT for a number of shards that is not in [1, 99999].
absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& pattern);

// The names of the files to write: `name` itself, or all shards of `name@N`. Errors: as FilesOf.
absl::StatusOr<std::vector<std::string>> FilesToWrite(const std::string& name);

// The records of some files, one after the other. Not thread-safe.
class TfrecordReader {
 public:
  explicit TfrecordReader(std::vector<std::string> paths);
  TfrecordReader(const TfrecordReader&) = delete;
  TfrecordReader& operator=(const TfrecordReader&) = delete;
  ~TfrecordReader();

  // The next record, valid until the next call; nullopt after the last one.
  //
  // Errors: NOT_FOUND if a file cannot be opened; DATA_LOSS naming file and offset for damage (see
  // RecordReader), and naming the file if its compressed data is broken.
  absl::StatusOr<std::optional<absl::string_view>> Next();

  // Where the record that Next gave last is: its file, and its number there.
  const std::string& file() const { return paths_[next_path_ - 1]; }
  uint64_t record_of_file() const { return records_of_file_ - 1; }

 private:
  struct File;

  absl::Status Open();
  // Feeds the next bytes of the file; false at its end.
  absl::StatusOr<bool> Feed();

  const std::vector<std::string> paths_;
  std::size_t next_path_ = 0;
  // Null between files.
  std::unique_ptr<File> file_;
  std::vector<char> buffer_;
  uint64_t records_of_file_ = 0;
};

// Writes records to files in turn, so that shards differ by one record at most. A file has the
// ending `.part` until Finish. Not thread-safe.
class TfrecordWriter {
 public:
  // Files whose names end in `.gz`, before the number of the shard, are compressed. UNAVAILABLE
  // naming a file that cannot be made.
  static absl::StatusOr<std::unique_ptr<TfrecordWriter>> Create(std::vector<std::string> paths);
  TfrecordWriter(const TfrecordWriter&) = delete;
  TfrecordWriter& operator=(const TfrecordWriter&) = delete;
  // Removes files that are not finished.
  ~TfrecordWriter();

  // UNAVAILABLE naming the file.
  absl::Status Write(absl::string_view record);
  // Gives all files their names. UNAVAILABLE naming the file. Nothing can be written afterwards.
  absl::Status Finish();

 private:
  struct File;
  TfrecordWriter() = default;

  std::vector<std::unique_ptr<File>> files_;
  std::size_t next_ = 0;
  std::string framed_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_TFGNN_TFRECORD_FILES_H_
