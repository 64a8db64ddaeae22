#include "service/wings/partition/files/dgl_writer.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/dgl_format.h"

namespace packhouse {
namespace {

// Small fields, until they are flushed before the rows of an array.
class Fields {
 public:
  template <typename T>
  Fields& Add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  Fields& AddString(absl::string_view text) {
    Add<uint64_t>(text.size());
    bytes_.append(text.data(), text.size());
    return *this;
  }
  void PadTo(size_t size) { bytes_.resize(size); }
  absl::Status Flush(ByteSink& sink) {
    const absl::Status status = sink.Write(bytes_);
    bytes_.clear();
    return status;
  }

 private:
  std::string bytes_;
};

uint8_t CodeOf(DType dtype) {
  switch (dtype) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return kDglInt;
    case DType::kFloat16:
    case DType::kBfloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return kDglFloat;
    case DType::kBool:
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return kDglUint;
  }
  return kDglUint;
}

absl::Status CheckArray(const ArrayHeader& header) {
  if (header.dtype == DType::kBfloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("array ", Quoted(header.name), " is bfloat16, which DGL's files do not have"));
  }
  return ArrayBytes(header).status();
}

absl::Status CheckDictionary(absl::Span<const ArraySource> arrays) {
  absl::flat_hash_set<absl::string_view> names;
  for (const ArraySource& array : arrays) {
    PH_RETURN_IF_ERROR(CheckArray(array.header));
    if (!names.insert(array.header.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("array ", Quoted(array.header.name), " is there twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status WriteArray(const ArraySource& array, Fields& fields, ByteSink& sink) {
  const ArrayHeader& header = array.header;
  PH_ASSIGN_OR_RETURN(const uint64_t bytes, ArrayBytes(header));
  fields.Add(kDglArray).Add<uint64_t>(0).Add(kDglCpu).Add<int32_t>(0);
  fields.Add(static_cast<int32_t>(header.shape.size())).Add(CodeOf(header.dtype));
  fields.Add(static_cast<uint8_t>(8 * ElementBytes(header.dtype))).Add<uint16_t>(1);
  for (const uint64_t extent : header.shape) fields.Add(extent);
  fields.Add(bytes);
  PH_RETURN_IF_ERROR(fields.Flush(sink));
  return WriteRows(array, sink);
}

absl::Status WriteDictionary(absl::Span<const ArraySource> arrays, Fields& fields, ByteSink& sink) {
  fields.Add<uint64_t>(arrays.size());
  for (const ArraySource& array : arrays) {
    fields.AddString(array.header.name);
    PH_RETURN_IF_ERROR(WriteArray(array, fields, sink));
  }
  return absl::OkStatus();
}

absl::Status WriteCsr(uint64_t num_nodes, const DglCsrSource& csr, Fields& fields, ByteSink& sink) {
  fields.Add(kDglCsr).Add(num_nodes).Add(num_nodes);
  PH_RETURN_IF_ERROR(WriteArray(csr.offsets, fields, sink));
  PH_RETURN_IF_ERROR(WriteArray(csr.neighbours, fields, sink));
  PH_RETURN_IF_ERROR(WriteArray(csr.edges, fields, sink));
  fields.Add<uint8_t>(csr.neighbours_ascend ? 1 : 0);
  return absl::OkStatus();
}

// The graph of types: one node type, joined to itself by one edge type.
absl::Status WriteTypeGraph(Fields& fields, ByteSink& sink) {
  fields.Add(kDglTypeGraph);
  const auto at = [](uint64_t i) { return i; };
  const auto zero = [](uint64_t) { return 0; };
  DglCsrSource csr;
  csr.offsets = MadeArray<int64_t>("offsets", DType::kInt64, 2, at);
  csr.neighbours = MadeArray<int64_t>("neighbours", DType::kInt64, 1, zero);
  csr.edges = MadeArray<int64_t>("edges", DType::kInt64, 1, zero);
  return WriteCsr(1, csr, fields, sink);
}

absl::Status WriteRelation(const DglGraphSource& graph, Fields& fields, ByteSink& sink) {
  const int64_t forms = (graph.coo ? 1 : 0) | (graph.csr ? 2 : 0) | (graph.csc ? 4 : 0);
  fields.Add(kDglRelation).Add(forms | kDglFormFlag).Add(kDglAllForms | kDglFormFlag);
  if (graph.coo) {
    PH_RETURN_IF_ERROR(WriteTypeGraph(fields, sink));
    fields.Add(kDglCoo).Add(graph.num_nodes).Add(graph.num_nodes);
    PH_RETURN_IF_ERROR(WriteArray(graph.coo->sources, fields, sink));
    PH_RETURN_IF_ERROR(WriteArray(graph.coo->targets, fields, sink));
    // No ids: edge i is at place i.
    PH_RETURN_IF_ERROR(WriteArray(
        MadeArray<int64_t>("ids", DType::kInt64, 0, [](uint64_t) { return 0; }), fields, sink));
    fields.Add<uint8_t>(graph.coo->sources_ascend ? 1 : 0);
    fields.Add<uint8_t>(graph.coo->targets_ascend ? 1 : 0);
  }
  if (graph.csr) {
    PH_RETURN_IF_ERROR(WriteTypeGraph(fields, sink));
    PH_RETURN_IF_ERROR(WriteCsr(graph.num_nodes, *graph.csr, fields, sink));
  }
  if (graph.csc) {
    PH_RETURN_IF_ERROR(WriteTypeGraph(fields, sink));
    PH_RETURN_IF_ERROR(WriteCsr(graph.num_nodes, *graph.csc, fields, sink));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteDglTensorFile(absl::Span<const ArraySource> arrays, ByteSink& sink) {
  PH_RETURN_IF_ERROR(CheckDictionary(arrays));
  Fields fields;
  fields.Add(kDglTensorFile).Add<uint64_t>(arrays.size());
  PH_RETURN_IF_ERROR(WriteDictionary(arrays, fields, sink));
  return fields.Flush(sink);
}

absl::Status WriteDglGraphFile(const DglGraphSource& graph, ByteSink& sink) {
  if (!graph.coo && !graph.csr && !graph.csc) {
    return absl::InvalidArgumentError("the graph is in no form: neither coo nor csr nor csc");
  }
  PH_RETURN_IF_ERROR(CheckDictionary(graph.node_data));
  PH_RETURN_IF_ERROR(CheckDictionary(graph.edge_data));
  // The graph stands behind its own position and an empty dictionary of labels.
  const uint64_t position = kDglHeadBytes + 2 * sizeof(uint64_t);
  Fields fields;
  fields.Add(kDglGraphFile).Add(kDglVersion).Add(kDglKind).Add<uint64_t>(1).PadTo(kDglHeadBytes);
  fields.Add(position).Add<uint64_t>(0);
  fields.Add(kDglGraph);
  PH_RETURN_IF_ERROR(WriteTypeGraph(fields, sink));
  fields.Add<uint64_t>(1);
  PH_RETURN_IF_ERROR(WriteRelation(graph, fields, sink));
  fields.Add<uint64_t>(1).Add(graph.num_nodes).Add<uint64_t>(1);
  PH_RETURN_IF_ERROR(WriteDictionary(graph.node_data, fields, sink));
  fields.Add<uint64_t>(1);
  PH_RETURN_IF_ERROR(WriteDictionary(graph.edge_data, fields, sink));
  fields.Add<uint64_t>(1).AddString("_N").Add<uint64_t>(1).AddString("_E");
  // A string that holds the list of positions, and the length of that list again.
  const uint64_t list_bytes = 2 * sizeof(uint64_t);
  fields.Add(list_bytes).Add<uint64_t>(1).Add(position).Add(list_bytes);
  return fields.Flush(sink);
}

}  // namespace packhouse
