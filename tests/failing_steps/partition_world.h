// A partition that is to be made.
#ifndef PACKHOUSE_TESTS_FAILING_STEPS_PARTITION_WORLD_H_
#define PACKHOUSE_TESTS_FAILING_STEPS_PARTITION_WORLD_H_

#include <filesystem>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "service/wings/partition/jobs/partition_plan.h"
#include "service/wings/partition/jobs/partition_run.h"
#include "tests/support/failing_steps.h"
#include "tests/support/files_below.h"
#include "tests/support/source_graph_world.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {

inline PartitionPlan ThreeParts() {
  PartitionPlan plan;
  plan.name = "p";
  plan.options.num_parts = 3;
  return plan;
}

class PartitionWorld final : public StepsWorld {
 public:
  explicit PartitionWorld(const SourceGraph& graph, RunWatch watch,
                          PartitionPlan plan = ThreeParts())
      : graph_(graph), watch_(std::move(watch)), plan_(std::move(plan)) {
    std::filesystem::create_directory(folder());
  }
  absl::Status Attempt() override {
    return RunPartition(graph_, plan_, output_, nullptr, watch_).status();
  }
  // Bytes and all: a run that was interrupted gives those of one that was not.
  std::string State() override {
    if (!std::filesystem::exists(output_)) return "none";
    EXPECT_FALSE(std::filesystem::exists(PartialFolder(output_)));
    std::string state;
    for (const auto& [path, bytes] : FilesBelow(output_)) state += path + "=" + bytes + "\n";
    return state;
  }
  std::string folder() const override { return folder_.path() + "/w"; }

 private:
  const SourceGraph& graph_;
  const RunWatch watch_;
  const PartitionPlan plan_;
  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string output_ = folder() + "/p";
};

}  // namespace packhouse

#endif  // PACKHOUSE_TESTS_FAILING_STEPS_PARTITION_WORLD_H_
