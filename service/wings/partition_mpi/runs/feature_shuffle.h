// Features of nodes and edges, from where they are read to the ranks that write their parts.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_FEATURE_SHUFFLE_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_FEATURE_SHUFFLE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/partition/files/array.h"
#include "service/wings/partition_mpi/runs/chunked_input.h"
#include "service/wings/partition_mpi/runs/spooled_rows.h"
#include "service/wings/partition_mpi/shares/part_gatherer.h"
#include "service/wings/partition_mpi/shares/shared_ids.h"

namespace packhouse {

// All ranks make the same calls together. Each rank reads a run of the rows of each column, once
// for each wave; no rank needs memory for the rows themselves.
class FeatureShuffle {
 public:
  // The arguments must outlive it. 16 bytes for each own row of a type that has columns. Errors,
  // the same on all ranks: those of FeatureRows::Open().
  static absl::StatusOr<FeatureShuffle> Open(Ranks& ranks, const ChunkedInput& input,
                                             const SharedIds* ids);

  // Columns that are left out, each with the reason.
  const std::vector<std::string>& notes() const { return notes_; }

  // The rows of one part, in files of this rank.
  struct OfPart {
    std::vector<SpoolFile> nodes;
    std::vector<SpoolFile> edges;
  };
  // Of the part that this rank has in the wave, if it has one. `folder` is this rank's own. Errors,
  // the same on all ranks: those of SpoolFile.
  absl::StatusOr<OfPart> Gather(Ranks& ranks, const PartGatherer::Wave& wave,
                                const std::string& folder) const;

  // As arrays, type after type; `add(type, arrays)` may add others of a type behind them. Views of
  // `of_part`.
  using Add = std::function<void(size_t type, std::vector<ArraySource>& arrays)>;
  std::vector<ArraySource> NodeArrays(const OfPart& of_part, uint32_t part, const Add& add) const {
    return Arrays(nodes_, ids_->node_map(), of_part.nodes, part, add);
  }
  std::vector<ArraySource> EdgeArrays(const OfPart& of_part, uint32_t part, const Add& add) const {
    return Arrays(edges_, ids_->edge_map(), of_part.edges, part, add);
  }

 private:
  struct Column {
    size_t type;
    std::string name;  // TYPE/COLUMN
    FeatureRows rows;
  };
  struct Features {
    std::vector<Column> columns;
    absl::btree_map<size_t, RowPlan> plans;  // By type, if it has columns.

    bool Has(size_t type) const;
  };
  using Ranges = std::vector<std::vector<IdRange>>;

  explicit FeatureShuffle(const SharedIds* ids) : ids_(ids) {}

  absl::Status OpenColumns(const std::string& folder, const std::string& type_name, size_t type,
                           const std::vector<ChunkedTable>& tables, uint64_t num_rows,
                           uint64_t begin, uint64_t end, Features& features);
  void PlanNodeRows();
  void PlanEdgeRows(Ranks& ranks, size_t type, const Blocks& blocks);
  static absl::Status GatherRows(Ranks& ranks, const PartGatherer::Wave& wave,
                                 const Features& features, const Ranges& map,
                                 const std::string& path, std::vector<SpoolFile>& spools);
  static std::vector<ArraySource> Arrays(const Features& features, const Ranges& map,
                                         const std::vector<SpoolFile>& spools, uint32_t part,
                                         const Add& add);

  const SharedIds* ids_;
  Features nodes_;
  Features edges_;
  std::vector<std::string> notes_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_MPI_RUNS_FEATURE_SHUFFLE_H_
