// Classes of nodes from what the graph has as features: labels, types, masks.
#ifndef PACKHOUSE_SERVICE_PARTITIONING_NODE_CLASSES_H_
#define PACKHOUSE_SERVICE_PARTITIONING_NODE_CLASSES_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/partitioning/partition_options.h"
#include "service/source_graphs/source_graph.h"

namespace packhouse {

// A class for each different value of a column, in ascending order of values. The column must be
// dense, of integers or bytes, and have one number a row.
//
// NOT_FOUND naming the column if there is none. INVALID_ARGUMENT naming it if it has another form,
// or more different values than PartitionOptions::kMaxClasses.
absl::StatusOr<NodeClasses> ClassesFromColumn(const SourceGraph& graph, size_t node_set,
                                              absl::string_view column);

// The class of a node is the number of the first of `masks` that is not 0 there; masks.size() if
// none is. Usually the masks are of training, validation and test. Errors as ClassesFromColumn.
absl::StatusOr<NodeClasses> ClassesFromMasks(const SourceGraph& graph, size_t node_set,
                                             absl::Span<const absl::string_view> masks);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PARTITIONING_NODE_CLASSES_H_
