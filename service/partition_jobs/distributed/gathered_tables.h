// The arrays of a gathered part, as its files have them: those of PartTables.
#ifndef PACKHOUSE_SERVICE_PARTITION_JOBS_DISTRIBUTED_GATHERED_TABLES_H_
#define PACKHOUSE_SERVICE_PARTITION_JOBS_DISTRIBUTED_GATHERED_TABLES_H_

#include <cstdint>
#include <vector>

#include "service/partition_files/dgl_writer.h"
#include "service/partition_jobs/part_tables.h"
#include "service/partition_jobs/partition_report.h"
#include "service/partition_jobs/rows_by_end.h"
#include "service/partitioning/distributed/part_gatherer.h"

namespace packhouse {

// Views of one part. The arguments must outlive it and the sources that it gives.
class GatheredTables {
 public:
  GatheredTables(const SharedIds* ids, const GatheredPart* part, const GraphForms& forms);
  GatheredTables(const GatheredTables&) = delete;
  GatheredTables& operator=(const GatheredTables&) = delete;

  DglGraphSource Graph() const;
  // TYPE/trainer_id of inner nodes and edges of a type. Requires that the part has trainers.
  ArraySource NodeTrainers(size_t type) const;
  ArraySource EdgeTrainers(size_t type) const;
  // As PartTables has them.
  std::vector<ArraySource> OriginalNodes() const;
  std::vector<ArraySource> OriginalEdges() const;
  // Its bytes are left to the caller.
  ReportedPart Report() const;

 private:
  const SharedIds* const ids_;
  const GatheredPart* const part_;
  const GraphForms forms_;
  // Empty unless the form is asked for.
  RowsByEnd<uint64_t> by_source_;
  RowsByEnd<uint64_t> by_target_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PARTITION_JOBS_DISTRIBUTED_GATHERED_TABLES_H_
