#include "service/wings/partition/files/dgl_reader.h"

#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/files/dgl_format.h"

namespace packhouse {
namespace {

absl::StatusOr<DType> DTypeOf(uint8_t code, uint8_t bits) {
  constexpr std::pair<std::pair<uint8_t, uint8_t>, DType> kTypes[] = {
      {{kDglInt, 8}, DType::kInt8},       {{kDglInt, 16}, DType::kInt16},
      {{kDglInt, 32}, DType::kInt32},     {{kDglInt, 64}, DType::kInt64},
      {{kDglUint, 8}, DType::kUint8},     {{kDglUint, 16}, DType::kUint16},
      {{kDglUint, 32}, DType::kUint32},   {{kDglUint, 64}, DType::kUint64},
      {{kDglFloat, 16}, DType::kFloat16}, {{kDglFloat, 32}, DType::kFloat32},
      {{kDglFloat, 64}, DType::kFloat64},
  };
  for (const auto& [words, dtype] : kTypes) {
    if (words == std::pair(code, bits)) return dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("element type ", code, " of ", bits, " bits is not known"));
}

class DglCursor {
 public:
  explicit DglCursor(absl::string_view file) : file_(file) {}

  size_t at() const { return at_; }
  size_t left() const { return file_.size() - at_; }
  // Requires that the file has this byte.
  void Seek(size_t at) { at_ = at; }

  absl::Status Wrong(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("at byte ", at_, ": ", what));
  }

  absl::StatusOr<absl::string_view> TakeBytes(uint64_t size) {
    if (size > left()) {
      return Wrong(absl::StrCat("the file ends within ", size, " bytes: it has ", left(), " more"));
    }
    const absl::string_view bytes = file_.substr(at_, size);
    at_ += size;
    return bytes;
  }

  template <typename T>
  absl::StatusOr<T> Take() {
    PH_ASSIGN_OR_RETURN(const absl::string_view bytes, TakeBytes(sizeof(T)));
    T value;
    std::memcpy(&value, bytes.data(), sizeof(value));
    return value;
  }

  // `what` names it in the message.
  template <typename T>
  absl::Status Expect(T wanted, absl::string_view what) {
    const size_t before = at_;
    PH_ASSIGN_OR_RETURN(const T value, Take<T>());
    if (value == wanted) return absl::OkStatus();
    at_ = before;
    return Wrong(absl::StrCat(what, ": ", absl::Hex(value), " where ", absl::Hex(wanted),
                              " is expected (hexadecimal)"));
  }

  absl::StatusOr<std::string> TakeString() {
    PH_ASSIGN_OR_RETURN(const uint64_t size, Take<uint64_t>());
    PH_ASSIGN_OR_RETURN(const absl::string_view bytes, TakeBytes(size));
    return std::string(bytes);
  }

  absl::StatusOr<ArrayView> TakeArray(std::string name) {
    PH_RETURN_IF_ERROR(Expect(kDglArray, "the mark of an array"));
    PH_RETURN_IF_ERROR(TakeBytes(sizeof(uint64_t)).status());
    PH_RETURN_IF_ERROR(Expect(kDglCpu, "the device of an array"));
    PH_RETURN_IF_ERROR(TakeBytes(sizeof(int32_t)).status());
    PH_ASSIGN_OR_RETURN(const int32_t rank, Take<int32_t>());
    PH_ASSIGN_OR_RETURN(const uint8_t code, Take<uint8_t>());
    PH_ASSIGN_OR_RETURN(const uint8_t bits, Take<uint8_t>());
    PH_RETURN_IF_ERROR(Expect<uint16_t>(1, "lanes of an array"));
    if (rank < 0 || rank > static_cast<int32_t>(kMaxArrayRank)) {
      return Wrong(absl::StrCat("an array of ", rank, " dimensions, at most ", kMaxArrayRank));
    }
    ArrayView array;
    array.header.name = std::move(name);
    const absl::StatusOr<DType> dtype = DTypeOf(code, bits);
    if (!dtype.ok()) return Wrong(dtype.status().message());
    array.header.dtype = *dtype;
    for (int32_t i = 0; i < rank; ++i) {
      PH_ASSIGN_OR_RETURN(const int64_t extent, Take<int64_t>());
      if (extent < 0) return Wrong(absl::StrCat("an extent of ", extent));
      array.header.shape.push_back(static_cast<uint64_t>(extent));
    }
    const absl::StatusOr<uint64_t> bytes = ArrayBytes(array.header);
    if (!bytes.ok()) return Wrong(bytes.status().message());
    PH_RETURN_IF_ERROR(Expect(*bytes, "the bytes of an array by its shape"));
    PH_ASSIGN_OR_RETURN(array.bytes, TakeBytes(*bytes));
    return array;
  }

  // One dimension of `count` integers; any count if it is nullopt.
  absl::StatusOr<ArrayView> TakeIds(absl::string_view what, std::optional<uint64_t> count) {
    PH_ASSIGN_OR_RETURN(ArrayView array, TakeArray(std::string(what)));
    if (array.header.shape.size() != 1 ||
        (array.header.dtype != DType::kInt64 && array.header.dtype != DType::kInt32)) {
      return Wrong(absl::StrCat(what, " must be one dimension of int64 or int32"));
    }
    if (count && array.header.shape[0] != *count) {
      return Wrong(
          absl::StrCat(what, " has ", array.header.shape[0], " elements, must have ", *count));
    }
    return array;
  }

  absl::StatusOr<std::vector<ArrayView>> TakeDictionary(std::optional<uint64_t> rows) {
    PH_ASSIGN_OR_RETURN(const uint64_t count, Take<uint64_t>());
    std::vector<ArrayView> arrays;
    absl::flat_hash_set<std::string> names;
    for (uint64_t i = 0; i < count; ++i) {
      PH_ASSIGN_OR_RETURN(std::string name, TakeString());
      if (!names.insert(name).second) {
        return Wrong(absl::StrCat("the name ", Quoted(name), " is there twice"));
      }
      PH_ASSIGN_OR_RETURN(ArrayView array, TakeArray(std::move(name)));
      if (rows && (array.header.shape.empty() || array.header.shape[0] != *rows)) {
        return Wrong(
            absl::StrCat("array ", Quoted(array.header.name), " must have ", *rows, " rows"));
      }
      arrays.push_back(std::move(array));
    }
    return arrays;
  }

  absl::StatusOr<DglCsrView> TakeCsr(uint64_t num_nodes, std::optional<uint64_t> num_edges) {
    PH_RETURN_IF_ERROR(Expect(kDglCsr, "the mark of a csr"));
    PH_RETURN_IF_ERROR(Expect(num_nodes, "columns"));
    PH_RETURN_IF_ERROR(Expect(num_nodes, "rows"));
    DglCsrView csr;
    PH_ASSIGN_OR_RETURN(csr.offsets, TakeIds("offsets", num_nodes + 1));
    PH_ASSIGN_OR_RETURN(csr.neighbours, TakeIds("neighbours", num_edges));
    PH_ASSIGN_OR_RETURN(csr.edges, TakeIds("edges", std::nullopt));
    const uint64_t edges = csr.edges.header.shape[0];
    if (edges != 0 && edges != csr.neighbours.header.shape[0]) {
      return Wrong(absl::StrCat("edges has ", edges, " elements, must have as many as neighbours"));
    }
    PH_ASSIGN_OR_RETURN(const uint8_t ascend, Take<uint8_t>());
    csr.neighbours_ascend = ascend != 0;
    return csr;
  }

  absl::Status TakeTypeGraph() {
    PH_RETURN_IF_ERROR(Expect(kDglTypeGraph, "the mark of a type graph"));
    return TakeCsr(1, 1).status();
  }

 private:
  absl::string_view file_;
  size_t at_ = 0;
};

// The number of nodes stands behind the edges that it bounds; each form has it as rows first.
absl::StatusOr<uint64_t> PeekNodes(DglCursor cursor) {
  PH_RETURN_IF_ERROR(cursor.TakeBytes(2 * sizeof(uint64_t)).status());
  PH_ASSIGN_OR_RETURN(const int64_t nodes, cursor.Take<int64_t>());
  if (nodes < 0 || nodes == std::numeric_limits<int64_t>::max()) {
    return cursor.Wrong(absl::StrCat(nodes, " nodes"));
  }
  return static_cast<uint64_t>(nodes);
}

absl::Status TakeRelation(DglCursor& cursor, DglGraphView& graph, uint64_t& num_edges) {
  PH_RETURN_IF_ERROR(cursor.Expect(kDglRelation, "the mark of a relation"));
  PH_ASSIGN_OR_RETURN(const int64_t saved, cursor.Take<int64_t>());
  PH_RETURN_IF_ERROR(cursor.TakeBytes(sizeof(int64_t)).status());
  const int64_t forms = saved & ~kDglFormFlag;
  if (forms <= 0 || forms > kDglAllForms) {
    return cursor.Wrong(absl::StrCat("the forms of the edges are ", forms, ", must be 1 to 7"));
  }
  std::optional<uint64_t> edges;
  bool first = true;
  for (const int64_t form : {1, 2, 4}) {
    if ((forms & form) == 0) continue;
    PH_RETURN_IF_ERROR(cursor.TakeTypeGraph());
    if (std::exchange(first, false)) {
      PH_ASSIGN_OR_RETURN(graph.num_nodes, PeekNodes(cursor));
    }
    if (form == 1) {
      DglCooView coo;
      PH_RETURN_IF_ERROR(cursor.Expect(kDglCoo, "the mark of a coo"));
      PH_RETURN_IF_ERROR(cursor.Expect(graph.num_nodes, "columns"));
      PH_RETURN_IF_ERROR(cursor.Expect(graph.num_nodes, "rows"));
      PH_ASSIGN_OR_RETURN(coo.sources, cursor.TakeIds("sources", std::nullopt));
      edges = coo.sources.header.shape[0];
      PH_ASSIGN_OR_RETURN(coo.targets, cursor.TakeIds("targets", edges));
      PH_ASSIGN_OR_RETURN(coo.edges, cursor.TakeIds("edges", std::nullopt));
      if (coo.edges.header.shape[0] != 0 && coo.edges.header.shape[0] != *edges) {
        return cursor.Wrong("edges must have no elements or one an edge");
      }
      PH_ASSIGN_OR_RETURN(const uint8_t by_source, cursor.Take<uint8_t>());
      PH_ASSIGN_OR_RETURN(const uint8_t by_target, cursor.Take<uint8_t>());
      coo.sources_ascend = by_source != 0;
      coo.targets_ascend = by_target != 0;
      graph.coo = std::move(coo);
    } else {
      PH_ASSIGN_OR_RETURN(DglCsrView csr, cursor.TakeCsr(graph.num_nodes, edges));
      edges = csr.neighbours.header.shape[0];
      (form == 2 ? graph.csr : graph.csc) = std::move(csr);
    }
  }
  num_edges = *edges;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ArrayView>> ReadDglTensorFile(absl::string_view file) {
  DglCursor cursor(file);
  PH_RETURN_IF_ERROR(cursor.Expect(kDglTensorFile, "the mark of a tensor file"));
  PH_ASSIGN_OR_RETURN(const uint64_t count, cursor.Take<uint64_t>());
  PH_ASSIGN_OR_RETURN(std::vector<ArrayView> arrays, cursor.TakeDictionary(std::nullopt));
  if (arrays.size() != count) {
    return cursor.Wrong(absl::StrCat(arrays.size(), " arrays, the file's head says ", count));
  }
  if (cursor.left() != 0) {
    return cursor.Wrong(absl::StrCat(cursor.left(), " bytes too many"));
  }
  return arrays;
}

absl::StatusOr<DglGraphView> ReadDglGraphFile(absl::string_view file) {
  DglCursor cursor(file);
  PH_RETURN_IF_ERROR(cursor.Expect(kDglGraphFile, "the mark of a graph file"));
  PH_RETURN_IF_ERROR(cursor.Expect(kDglVersion, "the version"));
  PH_RETURN_IF_ERROR(cursor.Expect(kDglKind, "the kind of graphs"));
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of graphs"));
  if (file.size() < kDglHeadBytes) return cursor.Wrong("the file ends within its head");
  cursor.Seek(kDglHeadBytes);
  PH_ASSIGN_OR_RETURN(const uint64_t position, cursor.Take<uint64_t>());
  PH_RETURN_IF_ERROR(cursor.TakeDictionary(std::nullopt).status());  // Labels.
  if (cursor.at() != position) {
    return cursor.Wrong(absl::StrCat("the graph begins here, the head says at ", position));
  }
  DglGraphView graph;
  uint64_t num_edges = 0;
  PH_RETURN_IF_ERROR(cursor.Expect(kDglGraph, "the mark of a graph"));
  PH_RETURN_IF_ERROR(cursor.TakeTypeGraph());
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of relations"));
  PH_RETURN_IF_ERROR(TakeRelation(cursor, graph, num_edges));
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of node types"));
  PH_RETURN_IF_ERROR(cursor.Expect(graph.num_nodes, "the number of nodes"));
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of dictionaries of nodes"));
  PH_ASSIGN_OR_RETURN(graph.node_data, cursor.TakeDictionary(graph.num_nodes));
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of dictionaries of edges"));
  PH_ASSIGN_OR_RETURN(graph.edge_data, cursor.TakeDictionary(num_edges));
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of names of node types"));
  PH_RETURN_IF_ERROR(cursor.TakeString().status());
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of names of edge types"));
  PH_RETURN_IF_ERROR(cursor.TakeString().status());
  const uint64_t list_bytes = 2 * sizeof(uint64_t);
  PH_RETURN_IF_ERROR(cursor.Expect(list_bytes, "the bytes of the list of positions"));
  PH_RETURN_IF_ERROR(cursor.Expect<uint64_t>(1, "the number of positions"));
  PH_RETURN_IF_ERROR(cursor.Expect(position, "the position of the graph"));
  PH_RETURN_IF_ERROR(cursor.Expect(list_bytes, "the bytes of the list of positions"));
  if (cursor.left() != 0) {
    return cursor.Wrong(absl::StrCat(cursor.left(), " bytes too many"));
  }
  return graph;
}

const ArrayView* FindArray(const std::vector<ArrayView>& arrays, absl::string_view name) {
  for (const ArrayView& array : arrays) {
    if (array.header.name == name) return &array;
  }
  return nullptr;
}

}  // namespace packhouse
