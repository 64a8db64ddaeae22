// Partitions of source graphs: the flags, the jobs, and what is checked of them in a data folder.
#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>

#include "service/program/byte_flag.h"
#include "service/program/wing.h"
#include "service/wings/partition/engines/metis_engine.h"
#include "service/wings/partition/jobs/partition_check.h"
#include "service/wings/partition/jobs/partition_jobs.h"
#include "service/wings/partition/services/partition_server.h"

namespace packhouse {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

class PartitionWing final : public Wing {
 public:
  void AddFlags(Options& /*options*/, CLI::App& app) override {
    app.add_option("--max-running-partitions", jobs_.max_running,
                   "partitionings of source graphs at a time; each has a thread of low priority")
        ->check(CLI::Range(1, 64));
    app.add_option("--max-waiting-partitions", jobs_.max_waiting,
                   "most partitionings that wait for their turn; a client may have half of them")
        ->check(CLI::Range(1, 65'536));
    app.add_option("--max-partition-bytes", jobs_.max_bytes,
                   "most bytes of all partitions of source graphs on the disk")
        ->transform(BytesFrom(kMiB, uint64_t{1} << 45));
  }

  absl::StatusOr<rpc::MakeServerWing> Serve(ServedSources& sources) override {
    FindMetis(*sources.options, *sources.log);
    jobs_.unused_graphs = sources.unused_source_graphs;
    if (sources.stores->shared() != nullptr) {
      jobs_.shared = sources.stores->shared()->companions();
    }
    return rpc::ServePartitions(sources.source_graphs, metis_.get(), jobs_);
  }

 private:
  // Without the program, METIS is asked for in vain, and automatic streams.
  void FindMetis(const Options& options, EventLog& log) {
    auto metis = MakeMetisEngine(MetisProgramHere());
    if (metis.ok()) {
      metis_ = *std::move(metis);
    } else if (!options.data_dir.empty() || options.store.is_shared) {
      log.Log(LogLevel::kWarning, "METIS cannot be called",
              {LogField::Message(metis.status().message())});
    }
  }

  PartitionJobs::Options jobs_;
  std::unique_ptr<AssignmentEngine> metis_;  // Null: it cannot be called.
};

}  // namespace

BuiltWing PartitionInProgram() {
  return {.name = "partition",
          .make = [] { return std::unique_ptr<Wing>(new PartitionWing); },
          .companions = {CheckPartitions, AcceptMissingPartitions}};
}

}  // namespace packhouse
