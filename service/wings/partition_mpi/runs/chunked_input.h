// A graph in chunked files, as one of several ranks reads it: never more than a share of it.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_CHUNKED_INPUT_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_CHUNKED_INPUT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/graphs/dtype.h"
#include "service/wings/partition/files/chunked_layout.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition_mpi/shares/graph_share.h"

namespace packhouse {

// What FOLDER/metadata.json says, in the order of homogeneous types.
struct ChunkedInput {
  std::string folder;
  SharedTypes types;
  std::vector<ChunkedNodeType> node_types;
  std::vector<ChunkedEdgeType> edge_types;
  // A digest of the metadata and of the name, size and time of change of each file.
  std::string version;
};

// Errors: NOT_FOUND naming a file that is not there; INVALID_ARGUMENT naming file and field, also
// for more than 2^62 nodes or edges. UNIMPLEMENTED for parquet, and for features as csv.
absl::StatusOr<ChunkedInput> ReadChunkedInput(const std::string& folder);

// `file` as the metadata has it, relative to the folder unless it is absolute.
std::string ChunkPath(const std::string& folder, const std::string& file);

// Rows [begin, end) of a feature, mapped: files that have none of them are only looked at.
class FeatureRows {
 public:
  // Errors naming file: not `num_rows` rows in all files together, rows of different types or
  // shapes.
  static absl::StatusOr<FeatureRows> Open(const std::string& folder, const ChunkedTable& table,
                                          uint64_t num_rows, uint64_t begin, uint64_t end);

  DType dtype() const { return dtype_; }
  absl::Span<const uint64_t> row_shape() const { return row_shape_; }
  uint64_t row_bytes() const { return row_bytes_; }
  // Requires begin <= row < end.
  const char* Row(uint64_t row) const;
  // Of integers and booleans, one a row.
  absl::StatusOr<int64_t> Number(uint64_t row) const;

 private:
  struct Piece {
    uint64_t first_row;
    MappedFile file;
    const char* rows;
  };

  DType dtype_ = DType::kInt64;
  std::vector<uint64_t> row_shape_;
  uint64_t row_bytes_ = 0;
  std::vector<Piece> pieces_;
};

// The parts that FOLDER/TYPE.txt and FOLDER/partition_meta.json say, of the nodes [begin, end).
struct GivenShare {
  uint32_t num_parts = 0;
  std::vector<uint32_t> part;
};
absl::StatusOr<GivenShare> ReadGivenShare(const std::string& folder, const SharedTypes& types,
                                          uint64_t begin, uint64_t end);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_CHUNKED_INPUT_H_
