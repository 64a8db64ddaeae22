#include "service/wings/partition_mpi/runs/chunked_input.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/digest.h"
#include "service/base/file_name.h"
#include "service/base/in_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/text_rows.h"

namespace packhouse {
namespace {

constexpr uint64_t kMaxShared = uint64_t{1} << 62;

absl::Status AddFiles(const std::string& folder, const ChunkedTable& table, Digest& digest) {
  for (const std::string& name : table.files) {
    const std::string path = ChunkPath(folder, name);
    struct stat state = {};
    if (::stat(path.c_str(), &state) != 0) {
      const std::string text = absl::StrCat(path, ": ", std::strerror(errno));
      return errno == ENOENT ? absl::NotFoundError(text) : absl::UnavailableError(text);
    }
    digest.Add(name);
    digest.Add(static_cast<uint64_t>(state.st_size));
    digest.Add(static_cast<uint64_t>(state.st_mtim.tv_sec));
    digest.Add(static_cast<uint64_t>(state.st_mtim.tv_nsec));
  }
  return absl::OkStatus();
}

absl::Status AddFeatures(const std::string& folder, const std::vector<ChunkedTable>& tables,
                         Digest& digest) {
  for (const ChunkedTable& table : tables) {
    if (table.format != ChunkFormat::kNumpy) {
      const std::string where = absl::StrCat("feature ", Quoted(table.name));
      return table.format == ChunkFormat::kParquet
                 ? InFile(where, ParquetIsNotRead())
                 : absl::UnimplementedError(
                       absl::StrCat(where, ": features are read from numpy files, not from csv"));
    }
    PH_RETURN_IF_ERROR(AddFiles(folder, table, digest));
  }
  return absl::OkStatus();
}

absl::Status AddSize(const std::string& path, uint64_t more, uint64_t& total) {
  if (more > kMaxShared || total + more > kMaxShared) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": more than ", kMaxShared, " nodes or edges"));
  }
  total += more;
  return absl::OkStatus();
}

template <typename T>
int64_t NumberAt(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return static_cast<int64_t>(value);
}

}  // namespace

std::string ChunkPath(const std::string& folder, const std::string& file) {
  return absl::StartsWith(file, "/") ? file : absl::StrCat(folder, "/", file);
}

absl::StatusOr<ChunkedInput> ReadChunkedInput(const std::string& folder) {
  const std::string path = folder + "/metadata.json";
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<ChunkedGraph> chunked = ReadChunkedMetadata(file.bytes());
  if (!chunked.ok()) return InFile(path, chunked.status());
  ChunkedInput input;
  input.folder = folder;
  input.node_types = std::move(chunked->node_types);
  input.edge_types = std::move(chunked->edge_types);
  std::sort(input.node_types.begin(), input.node_types.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  // By (source, relation, target); a colon sorts differently than the end of a word.
  const auto words = [](const ChunkedEdgeType& type) {
    return std::vector<std::string>(absl::StrSplit(type.name, ':'));
  };
  std::sort(input.edge_types.begin(), input.edge_types.end(),
            [&words](const auto& a, const auto& b) { return words(a) < words(b); });
  Digest digest;
  digest.Add(file.bytes());
  SharedTypes& types = input.types;
  for (const ChunkedNodeType& type : input.node_types) {
    if (absl::StrContains(type.name, ':')) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": node type ", Quoted(type.name), " has a colon in its name"));
    }
    types.node_types.push_back({type.name, types.num_nodes, type.num_nodes});
    PH_RETURN_IF_ERROR(AddSize(path, type.num_nodes, types.num_nodes));
    PH_RETURN_IF_ERROR(AddFeatures(folder, type.features, digest));
  }
  const auto index_of = [&types](const std::string& name) {
    size_t index = 0;
    while (types.node_types[index].name != name) ++index;
    return index;
  };
  for (const ChunkedEdgeType& type : input.edge_types) {
    const std::vector<std::string> ends = words(type);
    types.edge_types.push_back(
        {type.name, index_of(ends[0]), index_of(ends[2]), types.num_edges, type.num_edges});
    PH_RETURN_IF_ERROR(AddSize(path, type.num_edges, types.num_edges));
    if (type.edges.format == ChunkFormat::kParquet) {
      return InFile(absl::StrCat(path, ": edges of ", Quoted(type.name)), ParquetIsNotRead());
    }
    PH_RETURN_IF_ERROR(AddFiles(folder, type.edges, digest));
    PH_RETURN_IF_ERROR(AddFeatures(folder, type.features, digest));
  }
  if (types.node_types.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": there are no node types"));
  }
  constexpr size_t kVersionBytes = 16;
  input.version = digest.Hex(kVersionBytes);
  return input;
}

absl::StatusOr<FeatureRows> FeatureRows::Open(const std::string& folder, const ChunkedTable& table,
                                              uint64_t num_rows, uint64_t begin, uint64_t end) {
  FeatureRows result;
  uint64_t rows = 0;
  for (size_t i = 0; i < table.files.size(); ++i) {
    const std::string path = ChunkPath(folder, table.files[i]);
    PH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
    if (!array.ok()) return InFile(path, array.status());
    const ArrayHeader& header = array->header;
    if (header.shape.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": must have rows"));
    }
    const std::vector<uint64_t> row_shape(header.shape.begin() + 1, header.shape.end());
    if (i > 0 && (header.dtype != result.dtype_ || row_shape != result.row_shape_)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": its rows are of another type or shape than those before"));
    }
    result.dtype_ = header.dtype;
    result.row_shape_ = row_shape;
    result.row_bytes_ = ElementBytes(header.dtype);
    for (const uint64_t extent : row_shape) result.row_bytes_ *= extent;
    const uint64_t first = rows;
    rows += header.shape[0];
    if (first >= end || rows <= begin || begin == end) continue;
    const char* const data = array->bytes.data();
    result.pieces_.push_back({first, std::move(file), data});
  }
  if (rows == num_rows) return result;
  return absl::InvalidArgumentError(
      absl::StrCat("feature ", Quoted(table.name), " has ", rows, " rows, must have ", num_rows));
}

const char* FeatureRows::Row(uint64_t row) const {
  const auto after = std::upper_bound(pieces_.begin(), pieces_.end(), row,
                                      [](uint64_t at, const Piece& p) { return at < p.first_row; });
  const Piece& piece = *(after - 1);
  return piece.rows + (row - piece.first_row) * row_bytes_;
}

absl::StatusOr<int64_t> FeatureRows::Number(uint64_t row) const {
  if (row_bytes_ == ElementBytes(dtype_)) {
    switch (dtype_) {
      case DType::kBool:
      case DType::kUint8:
        return NumberAt<uint8_t>(Row(row));
      case DType::kInt8:
        return NumberAt<int8_t>(Row(row));
      case DType::kInt16:
        return NumberAt<int16_t>(Row(row));
      case DType::kUint16:
        return NumberAt<uint16_t>(Row(row));
      case DType::kInt32:
        return NumberAt<int32_t>(Row(row));
      case DType::kUint32:
        return NumberAt<uint32_t>(Row(row));
      case DType::kInt64:
      case DType::kUint64:
        return NumberAt<int64_t>(Row(row));
      default:
        break;
    }
  }
  return absl::InvalidArgumentError("cannot be the class of a node: not one integer a node");
}

absl::StatusOr<GivenShare> ReadGivenShare(const std::string& folder, const SharedTypes& types,
                                          uint64_t begin, uint64_t end) {
  const std::string meta_path = folder + "/partition_meta.json";
  PH_ASSIGN_OR_RETURN(const MappedFile meta_file, MappedFile::Open(meta_path));
  const absl::StatusOr<AssignmentMeta> meta = ReadAssignmentMeta(meta_file.bytes());
  if (!meta.ok()) return InFile(meta_path, meta.status());
  GivenShare share;
  share.num_parts = static_cast<uint32_t>(meta->num_parts);
  for (const SharedNodeType& type : types.node_types) {
    const std::string path = absl::StrCat(folder, "/", FileNameOf(type.name), ".txt");
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    TextLines lines(file.bytes());
    uint64_t row = 0;
    for (; const std::optional<absl::string_view> line = lines.Next(); ++row) {
      const uint64_t node = type.start + row;
      if (row >= type.size || node < begin || node >= end) continue;
      TextFields fields(*line);
      const absl::StatusOr<uint64_t> part = fields.Number("the part", share.num_parts - 1);
      if (!part.ok()) return InFile(path, lines.Wrong(part.status().message()));
      if (!fields.AtEnd()) return InFile(path, lines.Wrong("more than one number"));
      share.part.push_back(static_cast<uint32_t>(*part));
    }
    if (row != type.size) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": has ", row, " lines, must have ", type.size));
    }
  }
  return share;
}

}  // namespace packhouse
