// Deletes objects that no source graph has: of deleted graphs, and of uploads that were given up.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_GRAPH_SWEEPER_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_GRAPH_SWEEPER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/datasets/object_sweeper.h"

namespace packhouse {

// Any server may sweep, several at once too. An upload that goes on is left alone, since it puts
// objects; and one that is about to commit never loses any, whatever the clocks say: its key is
// deleted before its objects are, and every commit compares the key. Thread-compatible.
class SourceGraphSweeper {
 public:
  using Step = ObjectSweeper::Step;

  // `min_age` is that of the youngest object of an upload.
  SourceGraphSweeper(const ObjectEngines& engines, const ObjectSweeper::Options& options)
      : engines_(engines), options_(options) {}

  // As ObjectSweeper::Run().
  absl::StatusOr<Step> Run();

 private:
  absl::Status SweepGone(Step& step);
  // Those of one number. False if the step's bound is reached.
  absl::StatusOr<bool> SweepObjects(uint64_t objects, const std::vector<ObjectInfo>& infos,
                                    Step& step);
  absl::StatusOr<bool> Delete(const std::vector<ObjectInfo>& infos, Step& step);

  const ObjectEngines engines_;
  const ObjectSweeper::Options options_;
  // The last object that was looked at; empty: none of this round.
  std::string after_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_GRAPH_SWEEPER_H_
