// The arrays of one part, as its files have them.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_TABLES_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/wings/partition/cutting/homogeneous_graph.h"
#include "service/wings/partition/cutting/new_ids.h"
#include "service/wings/partition/cutting/part_cutter.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition/jobs/part_arrays.h"

namespace packhouse {

inline absl::Span<const HomogeneousNodeType> NodeTypesOf(const HomogeneousGraph& graph) {
  return graph.node_types();
}
inline absl::Span<const HomogeneousEdgeType> EdgeTypesOf(const HomogeneousGraph& graph) {
  return graph.edge_types();
}

// A part of a graph in memory, with its features. The arguments must outlive it and the sources
// that it gives.
class PartTables : public PartArrays<Part, NewIds, HomogeneousGraph> {
 public:
  // `trainers` has the trainer of each homogeneous original node, or is empty.
  PartTables(const NewIds* ids, const Part* part, absl::Span<const uint32_t> trainers,
             const GraphForms& forms)
      : PartArrays(ids, &ids->graph(), part, forms), trainers_(trainers) {}

  // SET/COLUMN of inner nodes, in the order of new ids, and SET/trainer_id if there are trainers.
  std::vector<ArraySource> NodeFeatures() const;
  // SOURCE:SET:TARGET/COLUMN of inner edges, likewise.
  std::vector<ArraySource> EdgeFeatures() const;

 private:
  const absl::Span<const uint32_t> trainers_;
};

// Whether no file has the column: its rows have different lengths, or its name has a slash.
bool IsLeftOutOfFiles(const SourceColumnSpec& column);
// The columns that no file has, each with the reason.
std::vector<std::string> LeftOutColumns(const SourceGraph& graph);

// Rows [first, first + rows) of a column, without a name. bfloat16, which DGL does not have,
// becomes float32.
ArraySource RowsOfColumn(const SourceColumnSpec& spec, const SourceColumn& column, uint64_t first,
                         uint64_t rows);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_PART_TABLES_H_
