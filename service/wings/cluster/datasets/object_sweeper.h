// Deletes objects that no data set has: of deleted data sets, and of appends that were given up.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_SWEEPER_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_SWEEPER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "service/wings/cluster/datasets/object_engines.h"

namespace packhouse {

// Any replica may sweep, several at once too. An object that an append is about to commit is never
// lost, whatever the clocks say: before objects of a living data set are deleted, its state is
// written anew with a higher number of sweeps. Every append that read the state before is refused
// by its compare, sees the number, and puts its object again. Thread-compatible.
class ObjectSweeper {
 public:
  struct Options {
    // Younger objects are left alone, so that appends are not disturbed for nothing.
    absl::Duration min_age = absl::Hours(1);
    // Of one step.
    size_t max_listed = 10'000;
    size_t max_deleted = 1'000;
    // Counts what it would delete, but for what deleted data sets have left lately, and changes
    // nothing. Passes over data sets whose manifest is damaged.
    bool only_counts = false;
  };
  struct Step {
    uint64_t num_listed = 0;
    uint64_t num_deleted = 0;
    uint64_t num_bytes = 0;  // Of the deleted objects.
    // Of the deleted objects, those that were not of a data set that somebody had deleted: a server
    // has ended between its PUT and its transaction.
    uint64_t num_orphans = 0;
    // The step came to the end of all objects; the next one begins anew.
    bool is_round_over = false;
  };

  ObjectSweeper(const ObjectEngines& engines, const Options& options)
      : engines_(engines), options_(options) {}

  // Deletes objects of deleted data sets, then goes on through all objects where the last step
  // ended. FAILED_PRECONDITION, and nothing is deleted, unless the stores are bound to each other
  // (store_identity.h); other errors are those of the engines. The next step goes on.
  absl::StatusOr<Step> Run();

 private:
  struct Found;

  absl::Status SweepGone(Step& step);
  // `objects` are those of one data set. False if the step's bound is reached.
  absl::StatusOr<bool> SweepDataset(uint64_t id, const std::vector<Found>& objects, Step& step);
  // The same, counted.
  absl::StatusOr<bool> SweepOrphans(uint64_t id, const std::vector<Found>& objects, Step& step);
  absl::StatusOr<bool> Delete(const std::vector<Found>& objects, Step& step);

  const ObjectEngines engines_;
  const Options options_;
  // The last object that was looked at; empty: none of this round.
  std::string after_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_DATASETS_OBJECT_SWEEPER_H_
