#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/dgl_reader.h"
#include "service/wings/partition/files/npy_file.h"
#include "service/wings/partition/files/partition_json.h"
#include "service/wings/partition/jobs/durable_files.h"
#include "service/wings/partition/jobs/original_order.h"

namespace packhouse {
namespace {

// Where the rows of one type are in each part, and how to find their original numbers.
struct RestoredType {
  PartitionJson json;
  bool of_nodes = true;
  size_t type = 0;

  const std::vector<TypeRanges>& map() const { return of_nodes ? json.node_map : json.edge_map; }
  const PartRange& range(uint64_t part) const { return map()[type].parts[part]; }
  uint64_t rows(uint64_t part) const { return range(part).end - range(part).begin; }
  // The local number of the type's first row in a part.
  uint64_t first(uint64_t part) const { return range(part).begin - map()[0].parts[part].begin; }
  uint64_t num_rows() const {
    uint64_t sum = 0;
    for (uint64_t part = 0; part < json.parts.size(); ++part) sum += rows(part);
    return sum;
  }
};

absl::StatusOr<RestoredType> FindType(const RestoreRequest& request) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(request.json));
  absl::StatusOr<PartitionJson> json = ReadPartitionJson(file.bytes());
  if (!json.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(request.json, ": ", json.status().message()));
  }
  RestoredType type;
  type.json = *std::move(json);
  if (request.type.empty() && type.json.node_map.size() == 1) return type;
  for (const bool of_nodes : {true, false}) {
    type.of_nodes = of_nodes;
    for (type.type = 0; type.type < type.map().size(); ++type.type) {
      if (type.map()[type.type].name == request.type) return type;
    }
  }
  std::string known;
  for (const TypeRanges& of : type.json.node_map) absl::StrAppend(&known, " ", of.name);
  for (const TypeRanges& of : type.json.edge_map) absl::StrAppend(&known, " ", of.name);
  return absl::InvalidArgumentError(
      absl::StrCat("type ", Quoted(request.type), " must be one of", known));
}

// Rows of part p, from the whole file or its own.
struct InputRows {
  std::vector<MappedFile> files;
  std::vector<ArrayView> arrays;
};

absl::StatusOr<InputRows> ReadInputs(const RestoreRequest& request, const RestoredType& type) {
  InputRows inputs;
  for (const std::string& path : request.inputs) {
    PH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
    if (!array.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", array.status().message()));
    }
    const uint64_t part = request.part.value_or(inputs.files.size());
    const uint64_t rows =
        request.part || request.inputs.size() > 1 ? type.rows(part) : type.num_rows();
    const ArrayHeader& header = array->header;
    const bool fits = !header.shape.empty() && header.shape[0] == rows;
    const bool same =
        inputs.arrays.empty() || (header.dtype == inputs.arrays[0].header.dtype &&
                                  std::equal(header.shape.begin() + 1, header.shape.end(),
                                             inputs.arrays[0].header.shape.begin() + 1,
                                             inputs.arrays[0].header.shape.end()));
    if (!fits || !same) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": must have ", rows, " rows of the type and shape of all files"));
    }
    inputs.arrays.push_back(*array);
    inputs.files.push_back(std::move(file));
  }
  return inputs;
}

// The output, mapped for writing.
class OutputRows {
 public:
  OutputRows() = default;
  OutputRows(const OutputRows&) = delete;
  OutputRows& operator=(const OutputRows&) = delete;
  ~OutputRows() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }

  absl::Status Open(const std::string& path) {
    PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
    const absl::StatusOr<ArrayView> array = ReadNpyFile(file.bytes());
    if (!array.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": ", array.status().message()));
    }
    header_ = array->header;
    head_bytes_ = file.bytes().size() - array->bytes.size();
    bytes_ = file.bytes().size();
    const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    void* const data =
        descriptor < 0 ? MAP_FAILED
                       : ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    const int error = errno;
    if (descriptor >= 0) ::close(descriptor);
    if (data == MAP_FAILED) {
      return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(error)));
    }
    data_ = static_cast<char*>(data);
    return absl::OkStatus();
  }
  char* rows() { return data_ + head_bytes_; }
  const ArrayHeader& header() const { return header_; }
  absl::Status Finish(const std::string& path) {
    if (::msync(data_, bytes_, MS_SYNC) == 0) return absl::OkStatus();
    return absl::UnavailableError(absl::StrCat(path, ": ", std::strerror(errno)));
  }

 private:
  ArrayHeader header_;
  size_t head_bytes_ = 0;
  size_t bytes_ = 0;
  char* data_ = nullptr;
};

absl::Status MakeZeros(const std::string& path, const ArrayHeader& header) {
  ArraySource zeros;
  zeros.header = header;
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, ArrayBytes(header));
  zeros.write = [bytes](ByteSink& sink) {
    const std::string block(size_t{1} << 20, '\0');
    for (uint64_t left = bytes; left > 0;) {
      const uint64_t here = std::min<uint64_t>(left, block.size());
      PH_RETURN_IF_ERROR(sink.Write(absl::string_view(block).substr(0, here)));
      left -= here;
    }
    return absl::OkStatus();
  };
  return WriteDurably(path, [&zeros](ByteSink& sink) { return WriteNpyFile(zeros, sink); })
      .status();
}

// Copies the rows of one part to their places.
absl::Status ScatterPart(const RestoredType& type, const std::string& folder, uint64_t part,
                         absl::string_view rows, uint64_t row_bytes, std::vector<bool>& seen,
                         char* out) {
  const std::string path = absl::StrCat(folder, "/", type.json.parts[part].graph);
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::StatusOr<DglGraphView> graph = ReadDglGraphFile(file.bytes());
  if (!graph.ok()) return absl::DataLossError(absl::StrCat(path, ": ", graph.status().message()));
  const ArrayView* const ids =
      FindArray(type.of_nodes ? graph->node_data : graph->edge_data, "orig_id");
  if (ids == nullptr || ids->header.dtype != DType::kInt64 ||
      ids->header.shape[0] < type.first(part) + type.rows(part)) {
    return absl::DataLossError(absl::StrCat(path, ": has no orig_id of its inner rows"));
  }
  for (uint64_t row = 0; row < type.rows(part); ++row) {
    int64_t id;
    std::memcpy(&id, ids->bytes.data() + (type.first(part) + row) * sizeof(id), sizeof(id));
    const uint64_t to = static_cast<uint64_t>(id);
    if (to >= seen.size() || seen[to]) {
      return absl::DataLossError(
          absl::StrCat(path, ": orig_id ", id, " is there twice, or not below ", seen.size()));
    }
    seen[to] = true;
    std::memcpy(out + to * row_bytes, rows.data() + row * row_bytes, row_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> RestoreRows(const RestoreRequest& request) {
  PH_ASSIGN_OR_RETURN(const RestoredType type, FindType(request));
  const uint64_t num_parts = type.json.parts.size();
  if (request.part && *request.part >= num_parts) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", *request.part, ", there are ", num_parts));
  }
  const uint64_t wanted = request.part ? 1 : num_parts;
  if (request.inputs.size() != 1 && request.inputs.size() != wanted) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.inputs.size(), " files of rows, must be 1 or ", wanted));
  }
  PH_ASSIGN_OR_RETURN(const InputRows inputs, ReadInputs(request, type));
  const std::vector<ArrayView>& arrays = inputs.arrays;
  ArrayHeader header = arrays[0].header;
  header.shape[0] = type.num_rows();
  uint64_t row_bytes = ElementBytes(header.dtype);
  for (size_t i = 1; i < header.shape.size(); ++i) row_bytes *= header.shape[i];
  const std::string partial = request.part ? request.output : request.output + ".partial";
  if (!request.part && PathExists(request.output)) {
    return absl::AlreadyExistsError(absl::StrCat(request.output, " is there already"));
  }
  if (!request.part) PH_RETURN_IF_ERROR(RemoveFolder(partial));
  if (!PathExists(partial)) PH_RETURN_IF_ERROR(MakeZeros(partial, header));
  OutputRows output;
  PH_RETURN_IF_ERROR(output.Open(partial));
  if (output.header().shape != header.shape || output.header().dtype != header.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat(request.output, ": is there with other rows than these"));
  }
  const std::string folder = std::filesystem::path(request.json).parent_path().string();
  std::vector<bool> seen(type.num_rows(), false);
  uint64_t done = 0;
  for (uint64_t part = 0; part < num_parts; ++part) {
    if (request.part && part != *request.part) continue;
    const bool is_whole = !request.part && arrays.size() == 1;
    const ArrayView& array = arrays[is_whole || request.part ? 0 : part];
    const absl::string_view rows = array.bytes.substr(is_whole ? done * row_bytes : 0);
    PH_RETURN_IF_ERROR(ScatterPart(type, folder.empty() ? "." : folder, part, rows, row_bytes, seen,
                                   output.rows()));
    done += type.rows(part);
  }
  PH_RETURN_IF_ERROR(output.Finish(partial));
  if (!request.part) PH_RETURN_IF_ERROR(RenameDurably(partial, request.output));
  return done;
}

}  // namespace packhouse
