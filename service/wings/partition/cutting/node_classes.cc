#include "service/wings/partition/cutting/node_classes.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/cutting/mask_classes.h"

namespace packhouse {
namespace {

using NumberAt = std::function<int64_t(uint64_t row)>;

template <typename T>
NumberAt Reader(const char* data) {
  return [data](uint64_t row) {
    T value;
    std::memcpy(&value, data + row * sizeof(T), sizeof(T));
    return static_cast<int64_t>(value);
  };
}

// The numbers of a column: unsigned ones of 64 bits as signed ones, which keeps them apart.
absl::StatusOr<NumberAt> NumbersOf(const SourceGraph& graph, size_t node_set,
                                   absl::string_view column) {
  const SourceNodeSetSpec& set = graph.schema().node_sets()[node_set];
  const auto found = std::find_if(set.columns.begin(), set.columns.end(),
                                  [column](const auto& c) { return c.name == column; });
  if (found == set.columns.end()) {
    return absl::NotFoundError(
        absl::StrCat("node set \"", set.name, "\" has no column \"", column, "\""));
  }
  size_t numbers = 1;
  for (const uint32_t extent : found->row_shape) numbers *= extent;
  if (found->ragged || found->text || numbers != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("column \"", column, "\" of \"", set.name,
                     "\" cannot be the class of a node: it has not one number a node"));
  }
  const SourceColumn values =
      graph.NodeColumn(node_set, static_cast<size_t>(found - set.columns.begin()));
  PH_RETURN_IF_ERROR(values.CheckAll());
  const char* data = values.data;
  switch (found->dtype) {
    case DType::kInt8:
      return Reader<int8_t>(data);
    case DType::kUint8:
    case DType::kBool:
      return Reader<uint8_t>(data);
    case DType::kInt16:
      return Reader<int16_t>(data);
    case DType::kInt32:
      return Reader<int32_t>(data);
    case DType::kInt64:
      return Reader<int64_t>(data);
    case DType::kUint16:
      return Reader<uint16_t>(data);
    case DType::kUint32:
      return Reader<uint32_t>(data);
    case DType::kUint64:
      return Reader<uint64_t>(data);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("column \"", column, "\" of \"", set.name,
                       "\" cannot be the class of a node: it has no integers"));
  }
}

}  // namespace

absl::Status TooManyCombinations(absl::string_view node_set,
                                 absl::Span<const absl::string_view> masks) {
  return absl::InvalidArgumentError(
      absl::StrCat("the masks \"", absl::StrJoin(masks, "\", \""), "\" of \"", node_set,
                   "\" overlap in so many ways that there are more than ",
                   PartitionOptions::kMaxClasses, " classes; give fewer masks"));
}

absl::StatusOr<NodeClasses> ClassesFromColumn(const SourceGraph& graph, size_t node_set,
                                              absl::string_view column) {
  PH_ASSIGN_OR_RETURN(const NumberAt number, NumbersOf(graph, node_set, column));
  const uint64_t nodes = graph.num_nodes(node_set);
  absl::btree_map<int64_t, uint16_t> classes;
  for (uint64_t node = 0; node < nodes; ++node) {
    classes.try_emplace(number(node), 0);
    if (classes.size() > PartitionOptions::kMaxClasses) {
      return absl::InvalidArgumentError(
          absl::StrCat("column \"", column, "\" of \"", graph.schema().node_sets()[node_set].name,
                       "\" has more than ", PartitionOptions::kMaxClasses, " different values"));
    }
  }
  uint16_t next = 0;
  for (auto& [value, number_of_class] : classes) number_of_class = next++;
  NodeClasses result{node_set, std::vector<uint16_t>(nodes), std::max<uint32_t>(next, 1)};
  for (uint64_t node = 0; node < nodes; ++node) {
    result.class_of[node] = classes.find(number(node))->second;
  }
  return result;
}

absl::StatusOr<NodeClasses> ClassesFromMasks(const SourceGraph& graph, size_t node_set,
                                             absl::Span<const absl::string_view> masks) {
  if (masks.size() >= PartitionOptions::kMaxClasses) {
    return absl::InvalidArgumentError(
        absl::StrCat(masks.size(), " masks, beyond ", PartitionOptions::kMaxClasses - 1));
  }
  const uint64_t nodes = graph.num_nodes(node_set);
  MaskClasses found(masks.size(), nodes);
  for (uint16_t m = 0; m < masks.size(); ++m) {
    PH_ASSIGN_OR_RETURN(const NumberAt number, NumbersOf(graph, node_set, masks[m]));
    for (uint64_t node = 0; node < nodes; ++node) {
      if (number(node) == 0 || found.Add(m, node)) continue;
      return TooManyCombinations(graph.schema().node_sets()[node_set].name, masks);
    }
  }
  const absl::btree_set<MaskClasses::Combination> combinations = found.Combinations();
  NodeClasses result{node_set, found.Classes(combinations),
                     static_cast<uint32_t>(masks.size() + 1 + combinations.size())};
  if (result.num_classes > PartitionOptions::kMaxClasses) {
    return TooManyCombinations(graph.schema().node_sets()[node_set].name, masks);
  }
  result.names.resize(masks.size() + 1);
  for (const MaskClasses::Combination& combination : combinations) {
    result.names.push_back(CombinationName(combination, masks));
  }
  return result;
}

}  // namespace packhouse
