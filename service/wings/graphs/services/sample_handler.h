// One stream of SamplingService.Sample.
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLE_HANDLER_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLE_HANDLER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "packhouse/v1/sampling.pb.h"
#include "service/base/memory_budget.h"
#include "service/server/calls/batch_reply.h"
#include "service/server/calls/stream_handler.h"
#include "service/server/services/pack_handler.h"
#include "service/wings/graphs/epochs/seed_counter.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"
#include "service/wings/graphs/source_graphs/source_graph_store.h"

namespace packhouse {

using SampleReply = BatchReply<v1::SampleResponse>;

// Draws sub-graphs and gives them to a PackHandler or, in a stream that does not pack, back as they
// are. They are drawn when the packer, or the client, takes more. The pointees must outlive it.
class SampleHandler final : public StreamHandler<v1::SampleRequest, SampleReply> {
 public:
  // `packer` is that of a stream that has not been opened. `graphs` and `observer` may be null.
  // `working`: the memory of draws; null: it has no bound.
  SampleHandler(const SourceGraphStore* graphs, std::unique_ptr<PackHandler> packer,
                MemoryBudget* working, SamplingObserver* observer)
      : graphs_(graphs), working_(working), observer_(observer), packer_(std::move(packer)) {}

  absl::Status Accept(std::unique_ptr<v1::SampleRequest> request) override;
  // The graph may have to be fetched.
  bool OpensOnStore(const v1::SampleRequest& request) const override {
    return source_ == nullptr && request.has_open();
  }
  void HalfClose() override { half_closed_ = true; }
  absl::StatusOr<std::optional<SampleReply>> Next() override;
  bool IsBusy() const override;
  bool IsWaiting() const override { return packer_ != nullptr && packer_->IsWaiting(); }
  // The pages of the graph may have to be read from the disk.
  bool MayBlock() const override { return true; }
  absl::Time NextDeadline() const override;

 private:
  // Sub-graphs of a request that are not drawn yet.
  struct Pending {
    SeedList seeds;
    // Of each sub-graph; empty: consecutive, from first_id.
    std::vector<uint64_t> ids;
    uint64_t first_id = 0;
    uint64_t next = 0;
    uint64_t num_graphs = 0;
    MemoryHold memory;
  };

  absl::Status Open(const v1::SampleOpen& open);
  absl::Status HoldCounter();
  absl::Status AcceptSeeds(const v1::SampleSeeds& seeds);
  // Draws some of the pending sub-graphs into `chunk_`, until there are enough bytes, or for a
  // moment. The number of the chunk's graphs.
  absl::Status DrawSome();
  absl::Status PackSome();
  SampleReply Converted(PackReply reply);
  // What is left after an error of a draw is delivered before it.
  void EndWith(const absl::Status& status);

  const SourceGraphStore* const graphs_;
  MemoryBudget* const working_;
  SamplingObserver* const observer_;

  std::shared_ptr<const SubGraphSource> source_;  // Null until `open`.
  std::optional<SubGraphDrawer> drawer_;
  // Of one sub-graph; empty: none.
  std::vector<uint32_t> limits_;
  SeedReadout readout_;
  std::optional<SeedCounter> counter_;  // Of all seeds of the stream.
  MemoryHold counter_memory_;
  uint64_t seed_ = 0;
  uint64_t epoch_ = 0;
  bool whole_graphs_ = true;
  std::optional<Pending> pending_;
  uint64_t num_drawn_ = 0;
  // Set by Next(), and used up before it returns.
  std::optional<SampledChunk> chunk_;
  std::vector<uint32_t> sizes_;
  std::vector<uint64_t> chunk_ids_;
  // Levels of sub-graphs that were drawn smaller and are in no batch yet.
  absl::flat_hash_map<uint64_t, uint32_t> smaller_;

  // Views rows of source_'s schema. Null in a stream that does not pack, once it is open.
  std::unique_ptr<PackHandler> packer_;
  std::optional<SampleReply> opened_;
  std::optional<uint64_t> flush_token_;
  bool half_closed_ = false;
  bool packer_closed_ = false;
  absl::Status failure_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_SERVICES_SAMPLE_HANDLER_H_
