// The arrays of one part, as its files have them.
#ifndef PACKHOUSE_SERVICE_PARTITION_JOBS_PART_TABLES_H_
#define PACKHOUSE_SERVICE_PARTITION_JOBS_PART_TABLES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "service/partition_files/dgl_writer.h"
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

  // In-edges of inner nodes that come from other parts.
  uint64_t CutEdges() const;

 private:
  struct Rows {
    std::vector<uint64_t> offsets;
    std::vector<uint32_t> neighbours;
    std::vector<uint64_t> edges;
  };
  // The edges by `ends`, each row in the order of edges.
  Rows RowsBy(const std::vector<uint32_t>& ends, const std::vector<uint32_t>& others) const;
  DglCsrSource CsrOf(const Rows& rows) const;

  const NewIds* const ids_;
  const Part* const part_;
  const absl::Span<const uint32_t> trainers_;
  const GraphForms forms_;
  // Empty unless the form is asked for.
  Rows by_source_;
  Rows by_target_;
};

// Columns that no file has, each with the reason: rows of different lengths, and names with a
// slash.
std::vector<std::string> LeftOutColumns(const SourceGraph& graph);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PARTITION_JOBS_PART_TABLES_H_
