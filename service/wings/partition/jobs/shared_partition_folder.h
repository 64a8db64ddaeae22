// A partition of a source graph that servers share.
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_SHARED_PARTITION_FOLDER_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_SHARED_PARTITION_FOLDER_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/access/client_identity.h"
#include "service/wings/graphs/source_graphs/shared_companions.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"
#include "service/wings/partition/jobs/partition_folder.h"

namespace packhouse {

// What was asked for, who works at it and how it ended is in the store of the servers; so are the
// files of one that is whole. The folder is on the disk of the server that works, which claims the
// partition by Create(), RemoveEnd() or GoOn(); it goes once it is not needed any more.
//
// Errors besides those of PartitionFolder: those of SharedCompanions. ABORTED of what changes the
// partition: somebody else has, since State() was called.
class SharedPartitionFolder final : public PartitionFolder {
 public:
  // `shared` must outlive it.
  SharedPartitionFolder(SharedCompanions* shared, const CompanionGraph& graph,
                        uint64_t graph_version, absl::string_view name);

  // Goes on with what this server has claimed before.
  absl::Status GoOn(const SharedCompanion& claimed) const;

  bool is_done() const override { return found_.is_whole; }
  absl::StatusOr<PartitionList> Names() const override;
  absl::Status CheckIsListed() const override { return absl::OkStatus(); }
  std::optional<PartitionWorkElsewhere> work_elsewhere() const override;
  bool IsOf(const StoredSourceGraph& graph) const override { return graph.info().id == graph_id_; }
  absl::Status Settle() const override { return absl::OkStatus(); }
  absl::Status Create(const PartitionPlan& plan, const ClientId& owner) const override;
  absl::StatusOr<PartitionState> State() const override;
  absl::Status WriteEnd(const absl::Status& how) const override;
  absl::Status RemoveEnd() const override;
  bool IsStillOurs(const PartitionProgress& progress) const override;
  absl::Status Publish(absl::FunctionRef<bool()> goes_on) const override;
  absl::StatusOr<PartitionReport> Report() const override;
  absl::StatusOr<std::vector<PartitionJobFile>> Files() const override;
  absl::StatusOr<PartitionBytes> Read(absl::string_view file, uint64_t offset,
                                      uint64_t max_bytes) const override;
  absl::StatusOr<OwnedBytes> Map(absl::string_view file) const override;
  absl::StatusOr<std::string> MoveAway() const override;

  // Removes, of what servers have left in the folder of `shared`, all but the partitions `needed`
  // (ids of graphs, and names).
  using Needed = std::set<std::pair<uint64_t, std::string>>;
  static void RemoveUnneeded(SharedCompanions* shared, const Needed& needed);

 private:
  // The folder with that plan, empty or as it was left.
  absl::Status MakeFolderFor(const PartitionPlan& plan, const ClientId& owner) const;
  absl::Status Claim(const PartitionState& state) const;
  absl::Status RemoveFolderHere() const;
  absl::StatusOr<PartitionState> StateIn(const SharedCompanion& found) const;
  SharedCompanion With(const SharedCompanion& before, const PartitionState& state) const;
  // Of what State() has found, read once.
  absl::StatusOr<const CompanionContents*> ContentsFound() const;

  SharedCompanions* const shared_;
  const uint64_t graph_id_;

  // By State(), and by the claim; a revision of 0: there is none.
  mutable SharedCompanion found_;
  mutable std::optional<CompanionContents> contents_;
  mutable SharedCompanion claimed_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_JOBS_SHARED_PARTITION_FOLDER_H_
