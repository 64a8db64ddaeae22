#include "service/wings/partition_mpi/runs/gathered_tables.h"

#include "absl/strings/str_cat.h"

namespace packhouse {

ArraySource GatheredTables::NodeTrainers(size_t type) const {
  const IdRange range = ids_->node_map()[type][part_->number];
  const uint64_t first = range.begin - ids_->NodesOfPart(part_->number).begin;
  const GatheredPart* const part = part_;
  return MadeArray<int64_t>(absl::StrCat(types_->node_types[type].name, "/trainer_id"),
                            DType::kInt64, range.size(),
                            [part, first](uint64_t row) { return part->trainers[first + row]; });
}

ArraySource GatheredTables::EdgeTrainers(size_t type) const {
  const IdRange range = ids_->edge_map()[type][part_->number];
  const uint64_t first = range.begin - ids_->EdgesOfPart(part_->number).begin;
  const GatheredPart* const part = part_;
  return MadeArray<int64_t>(
      absl::StrCat(types_->edge_types[type].name, "/trainer_id"), DType::kInt64, range.size(),
      [part, first](uint64_t row) { return part->trainers[part->targets[first + row]]; });
}

}  // namespace packhouse
