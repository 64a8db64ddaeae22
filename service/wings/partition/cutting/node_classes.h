// Classes of nodes from what the graph has as features: labels, types, masks.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_NODE_CLASSES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_NODE_CLASSES_H_

#include <cstddef>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/wings/graphs/source_graphs/source_graph.h"
#include "service/wings/partition/cutting/partition_options.h"

namespace packhouse {

// A class for each different value of a column, in ascending order of values. The column must be
// dense, of integers or bytes, and have one number a row.
//
// NOT_FOUND naming the column if there is none. INVALID_ARGUMENT naming it if it has another form,
// or more different values than PartitionOptions::kMaxClasses.
absl::StatusOr<NodeClasses> ClassesFromColumn(const SourceGraph& graph, size_t node_set,
                                              absl::string_view column);

// Nodes that the same of `masks` hold (that are not 0 there) are one class: so each mask is spread
// evenly where each class is, also if masks overlap or lie in each other. The class is the mask's
// number where one holds the node, masks.size() where none does; combinations of several follow,
// with names. Usually the masks are of training, validation and test. Errors as ClassesFromColumn;
// INVALID_ARGUMENT if masks overlap in so many ways that there are more than
// PartitionOptions::kMaxClasses.
absl::StatusOr<NodeClasses> ClassesFromMasks(const SourceGraph& graph, size_t node_set,
                                             absl::Span<const absl::string_view> masks);

// The INVALID_ARGUMENT for masks that overlap in too many ways.
absl::Status TooManyCombinations(absl::string_view node_set,
                                 absl::Span<const absl::string_view> masks);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_CUTTING_NODE_CLASSES_H_
