// The arrays of one part, as its files have them.
#ifndef PACKHOUSE_SERVICE_PARTITION_JOBS_PART_TABLES_H_
#define PACKHOUSE_SERVICE_PARTITION_JOBS_PART_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/partition_files/dgl_writer.h"
#include "service/partition_jobs/rows_by_end.h"
#include "service/partitioning/new_ids.h"
#include "service/partitioning/part_cutter.h"

namespace packhouse {

// Forms of the edges in graph.dgl.
struct GraphForms {
  bool coo = true;
  bool csr = false;
  bool csc = false;
};

// Views of one part, which are gathered while they are written. The arguments must outlive it and
// the sources that it gives.
class PartTables {
 public:
  // `trainers` has the trainer of each homogeneous original node, or is empty.
  PartTables(const NewIds* ids, const Part* part, absl::Span<const uint32_t> trainers,
             const GraphForms& forms);
  PartTables(const PartTables&) = delete;
  PartTables& operator=(const PartTables&) = delete;

  // _ID, inner_node and inner_edge, part_id unless there is one part, orig_id, and _TYPE if there
  // are several types. orig_id is the number within the set of the source graph.
  DglGraphSource Graph() const;
  // SET/COLUMN of inner nodes, in the order of new ids, and SET/trainer_id if there are trainers.
  std::vector<ArraySource> NodeFeatures() const;
  // SOURCE:SET:TARGET/COLUMN of inner edges, likewise.
  std::vector<ArraySource> EdgeFeatures() const;

  // By type, under its name: the number in the source graph of each inner node, or inner edge, in
  // the order of new ids.
  std::vector<ArraySource> OriginalNodes() const;
  std::vector<ArraySource> OriginalEdges() const;

  // In-edges of inner nodes that come from other parts.
  uint64_t CutEdges() const;

 private:
  const NewIds* const ids_;
  const Part* const part_;
  const absl::Span<const uint32_t> trainers_;
  const GraphForms forms_;
  // Empty unless the form is asked for.
  RowsByEnd<uint32_t> by_source_;
  RowsByEnd<uint32_t> by_target_;
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

#endif  // PACKHOUSE_SERVICE_PARTITION_JOBS_PART_TABLES_H_
