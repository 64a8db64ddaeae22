#include "client/bench/npz_layout.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/cpp/schema_layout.h"
#include "client/graph/files/npz_numbers.h"

namespace packhouse::client {
namespace {

constexpr absl::string_view kNodeOffsets = "node_offsets";
constexpr absl::string_view kEdgeOffsets = "edge_offsets";
constexpr absl::string_view kEdgeIndex = "edge_index";
constexpr absl::string_view kOffsetsSuffix = ".offsets";
constexpr absl::string_view kGraphs = "graphs";

v1::DataType WireType(DType dtype) {
  // The contract numbers types in the order of DType, from 1.
  return static_cast<v1::DataType>(static_cast<int>(dtype) + 1);
}

// Builds a layout. Messages name file and array.
class LayoutBuilder {
 public:
  explicit LayoutBuilder(const NpzArchive& archive) : archive_(archive) {}

  std::size_t num_components() const { return layout_.offsets.size(); }
  absl::string_view Name(std::size_t component) const {
    return component == num_components() ? kGraphs
                                         : layout_.schema.components(static_cast<int>(component));
  }
  uint64_t Rows(std::size_t component) const {
    return layout_.FirstRow(component, layout_.num_graphs);
  }

  absl::Status AddComponent(const std::string& name, const NpzArray& array) {
    absl::StatusOr<std::vector<uint64_t>> offsets = ReadOffsets(archive_, array);
    if (!offsets.ok()) return offsets.status();
    if (!layout_.offsets.empty() && layout_.offsets.front().size() != offsets->size()) {
      return absl::InvalidArgumentError(absl::StrCat(archive_.path(), ": ", first_offsets_, " has ",
                                                     layout_.offsets.front().size(), " elements, ",
                                                     array.name, " ", offsets->size()));
    }
    if (layout_.offsets.empty()) first_offsets_ = array.name;
    layout_.num_graphs = offsets->size() - 1;
    layout_.schema.add_components(name);
    layout_.offsets.push_back(*std::move(offsets));
    return absl::OkStatus();
  }

  // A tensor of the array's name. Requires that its first extent fits the component.
  absl::Status AddTensor(const NpzArray& array, std::size_t component) {
    v1::TensorSpec& spec = *layout_.schema.add_tensors();
    spec.set_name(array.name);
    spec.set_dtype(WireType(array.header.dtype));
    spec.set_component(std::string(Name(component)));
    for (std::size_t i = 1; i < array.header.shape.size(); ++i) {
      if (array.header.shape[i] > std::numeric_limits<uint32_t>::max()) {
        return WrongShape(array, ", whose rows are too large");
      }
      spec.add_row_shape(static_cast<uint32_t>(array.header.shape[i]));
    }
    NpzColumn& column = layout_.columns.emplace_back();
    column.array = &array;
    column.component = component;
    column.row_bytes = array.header.RowElements() * ElementBytes(array.header.dtype);
    return absl::OkStatus();
  }

  struct End {
    std::string name;
    std::size_t into = 0;
  };
  // Adds two index tensors of the edges `component`.
  absl::Status AddEnds(const NpzArray& array, std::size_t component, const End (&ends)[2]) {
    const uint64_t edges = Rows(component);
    if (array.header.shape.size() != 2 || array.header.shape[0] != 2 ||
        array.header.shape[1] != edges || !IsInteger(array.header.dtype)) {
      return WrongShape(array, "; must be whole numbers [2, ", edges, "]");
    }
    uint64_t first_element = 0;
    for (const End& end : ends) {
      v1::TensorSpec& spec = *layout_.schema.add_tensors();
      spec.set_name(end.name);
      spec.set_dtype(v1::DATA_TYPE_INT32);
      spec.set_component(std::string(Name(component)));
      spec.set_index_into(std::string(Name(end.into)));
      NpzColumn& column = layout_.columns.emplace_back();
      column.array = &array;
      column.component = component;
      column.row_bytes = sizeof(int32_t);
      column.index_into = end.into;
      column.first_element = first_element;
      first_element += edges;
    }
    return absl::OkStatus();
  }

  template <typename... What>
  absl::Status WrongShape(const NpzArray& array, const What&... what) const {
    return absl::InvalidArgumentError(
        absl::StrCat(archive_.Place(array), ": has the shape ", ShapeText(array.header), what...));
  }
  absl::Status WrongRows(const NpzArray& array, std::size_t component) const {
    return WrongShape(array, "; must have one row for each of the ", Rows(component), " ",
                      Name(component));
  }

  absl::StatusOr<NpzLayout> Build() && {
    const absl::Status resolved = ResolveSchema(layout_.schema).status();
    if (!resolved.ok()) {
      return absl::Status(resolved.code(), absl::StrCat(archive_.path(), ": ", resolved.message()));
    }
    return std::move(layout_);
  }

 private:
  const NpzArchive& archive_;
  NpzLayout layout_;
  // The array of the first component.
  std::string first_offsets_;
};

// Graphs of one kind of nodes and edges.
enum : std::size_t { kNodes = 0, kEdges = 1, kWholeGraphs = 2 };

absl::StatusOr<std::size_t> ComponentByRows(const LayoutBuilder& builder, const NpzArray& array) {
  const uint64_t extent = array.header.shape[0];
  for (const auto& [name, component] :
       {std::pair("x", kNodes), {"node_tag", kNodes}, {"edge_attr", kEdges}, {"y", kWholeGraphs}}) {
    if (array.name != name) continue;
    if (extent != builder.Rows(component)) return builder.WrongRows(array, component);
    return component;
  }
  std::optional<std::size_t> fitting;
  bool several = false;
  for (const auto& [prefix, component] :
       {std::pair("node_", kNodes), {"edge_", kEdges}, {"graph_", kWholeGraphs}}) {
    if (extent != builder.Rows(component)) continue;
    if (absl::StartsWith(array.name, prefix)) return component;
    several = fitting.has_value();
    fitting = component;
  }
  if (fitting.has_value() && !several) return *fitting;
  return builder.WrongShape(
      array, "; there are ", builder.Rows(kNodes), " nodes, ", builder.Rows(kEdges), " edges and ",
      builder.Rows(kWholeGraphs), " graphs",
      several ? ": say which by a name that begins with node_, edge_ or graph_" : "");
}

absl::Status AddHomogeneous(const NpzArchive& archive, const std::string& groups,
                            LayoutBuilder& builder) {
  for (const auto& [component, name] :
       {std::pair("nodes", kNodeOffsets), std::pair("edges", kEdgeOffsets)}) {
    const NpzArray* const array = archive.Find(name);
    if (array == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(archive.path(), ": has no array '", name, "', which graphs need"));
    }
    if (absl::Status status = builder.AddComponent(component, *array); !status.ok()) return status;
  }
  for (const NpzArray& array : archive.arrays()) {
    if (array.name == kNodeOffsets || array.name == kEdgeOffsets) continue;
    if (!groups.empty() && array.name == groups) continue;
    absl::Status status;
    if (array.name == kEdgeIndex) {
      status = builder.AddEnds(array, kEdges, {{"senders", kNodes}, {"receivers", kNodes}});
    } else if (array.header.shape.empty()) {
      status = builder.WrongShape(array, ", a single value; a tensor needs rows");
    } else {
      const absl::StatusOr<std::size_t> component = ComponentByRows(builder, array);
      status = component.ok() ? builder.AddTensor(array, *component) : component.status();
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

// Heterogeneous graphs.
bool IsOffsets(const NpzArray& array) {
  return array.name.size() > kOffsetsSuffix.size() && absl::EndsWith(array.name, kOffsetsSuffix);
}

// The component with the longest name that is the part of `name` before a dot, or after one;
// num_components() if there is none.
enum class Side { kBefore, kBehind };
std::size_t ComponentIn(const LayoutBuilder& builder, absl::string_view name, Side side) {
  std::size_t found = builder.num_components();
  for (std::size_t k = 0; k < builder.num_components(); ++k) {
    const absl::string_view part = builder.Name(k);
    const bool is_part = side == Side::kBefore ? absl::StartsWith(name, absl::StrCat(part, "."))
                                               : absl::EndsWith(name, absl::StrCat(".", part));
    if (!is_part) continue;
    if (found == builder.num_components() || part.size() > builder.Name(found).size()) found = k;
  }
  return found;
}

absl::Status AddNamedEnds(const NpzArchive& archive, const NpzArray& array, std::size_t component,
                          LayoutBuilder& builder) {
  const std::string edges(builder.Name(component));
  const std::size_t source = ComponentIn(builder, edges, Side::kBefore);
  const std::size_t target = ComponentIn(builder, edges, Side::kBehind);
  const std::size_t none = builder.num_components();
  // Two dots, and a relation between them.
  if (source == none || target == none ||
      builder.Name(source).size() + builder.Name(target).size() + 2 >= edges.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(archive.Place(array), ": '", edges,
                     "' must be SOURCE.RELATION.TARGET, where SOURCE and TARGET have offsets"));
  }
  return builder.AddEnds(
      array, component,
      {{absl::StrCat(edges, ".source"), source}, {absl::StrCat(edges, ".target"), target}});
}

absl::Status AddHeterogeneous(const NpzArchive& archive, const std::string& groups,
                              LayoutBuilder& builder) {
  for (const NpzArray& array : archive.arrays()) {
    if (!IsOffsets(array)) continue;
    absl::Status status =
        builder.AddComponent(std::string(absl::StripSuffix(array.name, kOffsetsSuffix)), array);
    if (!status.ok()) return status;
  }
  for (const NpzArray& array : archive.arrays()) {
    if (IsOffsets(array) || (!groups.empty() && array.name == groups)) continue;
    const std::size_t component = ComponentIn(builder, array.name, Side::kBefore);
    const bool is_of_graphs = component == builder.num_components();
    absl::Status status;
    if (!is_of_graphs && array.name == absl::StrCat(builder.Name(component), ".", kEdgeIndex)) {
      status = AddNamedEnds(archive, array, component, builder);
    } else if (array.header.shape.empty()) {
      status = builder.WrongShape(array, ", a single value; a tensor needs rows");
    } else if (array.header.shape[0] != builder.Rows(component)) {
      status = builder.WrongRows(array, component);
    } else {
      status = builder.AddTensor(array, component);
    }
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NpzLayout> ReadNpzLayout(const NpzArchive& archive, const std::string& groups) {
  bool is_heterogeneous = false;
  for (const NpzArray& array : archive.arrays()) is_heterogeneous |= IsOffsets(array);
  LayoutBuilder builder(archive);
  const absl::Status status = is_heterogeneous ? AddHeterogeneous(archive, groups, builder)
                                               : AddHomogeneous(archive, groups, builder);
  if (!status.ok()) return status;
  return std::move(builder).Build();
}

}  // namespace packhouse::client
