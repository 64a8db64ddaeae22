// Arrays of .npy files, or of one .npz archive, as streams of elements.
#ifndef PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_NPY_STREAM_H_
#define PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_NPY_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/graph/files/npz_archive.h"
#include "service/wings/graphs/files/npy_header.h"
#include "service/wings/graphs/source_graphs/source_graph_schema.h"

namespace packhouse::client {

// One array: a .npy file, or an entry of an archive.
struct NpyArray {
  // `FILE`, or `FILE: array 'NAME'`, for messages.
  std::string place;
  NpyHeader header;
  // Either the path of a file, or an archive and its entry.
  std::string path;
  std::shared_ptr<const NpzArchive> archive;
  const NpzArray* entry = nullptr;

  // Its first extent. Requires a dimension.
  uint64_t rows() const { return header.shape[0]; }
};

// Reads the header of a file. NOT_FOUND, INVALID_ARGUMENT naming the file: as ParseNpyHeader, or
// the file has another length than its header says.
absl::StatusOr<NpyArray> OpenNpyFile(const std::string& path);

// The column that rows of the array are: its name is `name`. INVALID_ARGUMENT naming the array if
// it has no dimension, or an extent that a column cannot have.
absl::StatusOr<SourceColumnSpec> ColumnOfArray(const NpyArray& array, const std::string& name);

// The elements of one array after the other. Not thread-safe.
class NpyStream {
 public:
  // Of arrays of one dtype.
  explicit NpyStream(std::vector<NpyArray> arrays) : arrays_(std::move(arrays)) {}

  // Appends exactly `elements`. DATA_LOSS naming the array if it ends too early.
  absl::Status Append(uint64_t elements, std::string* bytes);
  absl::Status Skip(uint64_t elements);
  // The same as int64, of any integer dtype. INVALID_ARGUMENT naming the array and the value beyond
  // int64.
  absl::Status AppendNumbers(uint64_t elements, std::vector<int64_t>* numbers);

 private:
  absl::Status Open();

  std::vector<NpyArray> arrays_;
  size_t next_ = 0;
  // Bytes that are left of the array that is open.
  uint64_t left_ = 0;
  std::ifstream file_;
  std::optional<NpzStream> entry_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_GRAPH_SOURCE_GRAPHS_NPY_STREAM_H_
