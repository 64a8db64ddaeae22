// An epoch of a data set of parts, in which the parts of a batch are one graph: Cluster-GCN's
// stochastic multiple partitions (Chiang et al. 2019).
//
// The parts are shuffled by (seed, epoch) and packed to the limits, with the edges that joining
// brings back counted exactly (joined_packing.h). All batches are known when the epoch is made;
// Build() reads the parts of one and joins them (part_joiner.h).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_EPOCH_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_EPOCH_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/collation/batch_shape.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/epoch_items.h"
#include "service/engine/epochs/epoch_request.h"
#include "service/engine/epochs/epoch_shapes.h"
#include "service/engine/epochs/loadable_epoch.h"
#include "service/engine/epochs/making.h"
#include "service/engine/epochs/option_rules.h"
#include "service/stores/datasets/dataset_store.h"
#include "service/wings/partition/epochs/joined_packing.h"
#include "service/wings/partition/epochs/joined_parts.h"
#include "service/wings/partition/epochs/part_links.h"
#include "service/wings/partition/epochs/parts_schema.h"

namespace packhouse {

namespace options {
inline constexpr EpochOption kJoinParts = {
    JoinedParts::kName, [](const EpochRequest& r) { return r.Find<JoinedParts>() != nullptr; }};
}  // namespace options

// Besides the reader and the links: 12 bytes a part.
class JoinedEpoch final : public LoadableEpoch {
 public:
  // Gives the links of the reader's parts, which epochs of a data set share.
  using LinksOf = absl::FunctionRef<absl::StatusOr<std::shared_ptr<const PartLinks>>(
      const PartsSchema& schema)>;

  // What does not go with join_parts, besides EngineRules().
  static absl::Span<const EpochRule> Rules();
  // That of the first row: a mixture is refused before the schema of its parts is looked for.
  static constexpr absl::string_view kNotOfMixtures =
      "join_parts: not together with a mixture of data sets";

  // `request` is of JoinedParts.
  //
  // INVALID_ARGUMENT for options that do not go with it, and as BatchShape::Resolve; OUT_OF_RANGE
  // naming a part that exceeds the limits, if that is an error; errors as PartsSchema and `links`;
  // RESOURCE_EXHAUSTED and CANCELLED as `making`, whose memory must outlive the epoch.
  static absl::StatusOr<std::shared_ptr<const JoinedEpoch>> Prepare(
      std::shared_ptr<const DatasetReader> reader, const EpochRequest& request,
      const EpochBounds& bounds, const Making& making, LinksOf links);

  // Edges within the parts of the epoch, those that the partition has cut and that end there, and
  // those of them that are in a batch.
  struct Edges {
    uint64_t inner = 0;
    uint64_t cut = 0;
    uint64_t restored = 0;
  };
  const Edges& edges() const { return edges_; }
  uint64_t num_parts() const { return packs_.parts.size(); }
  // Parts that no batch can hold.
  const Oversize& oversize() const { return oversize_; }
  const PartLinks& links() const { return *links_; }
  uint64_t bytes() const;
  const DatasetInfo& dataset() const { return reader_->info(); }
  absl::Span<const uint32_t> PartsOf(uint64_t number) const { return packs_.batch(number); }

  const EpochIdentity& identity() const override { return identity_; }
  const GraphSchema& schema() const override { return parts_.joined(); }
  absl::Span<const BatchShape> shapes(size_t rank_group) const override {
    return shapes_.rank_group(rank_group);
  }
  const EpochTeller* teller() const override { return teller_; }
  uint64_t kept_bytes() const override;
  uint64_t num_graphs() const override { return num_parts(); }
  uint64_t NumGraphs(uint64_t number) const override { return packs_.batch(number).size(); }
  // DATA_LOSS naming the record that fails its checksum.
  absl::StatusOr<BuiltBatch> Build(uint64_t number) const override;
  absl::StatusOr<BuiltBatch> BuildPadding(size_t rank_group) const override;

 private:
  JoinedEpoch(std::shared_ptr<const DatasetReader> reader, PartsSchema parts,
              const EpochBounds& bounds, MemoryBudget* memory, const EpochTeller* teller)
      : reader_(std::move(reader)),
        parts_(std::move(parts)),
        bounds_(bounds),
        budget_(memory),
        teller_(teller) {}

  // The rows of a part without cut edges are added to `rows`, by joined component.
  void AddTuple(uint32_t part, absl::Span<uint64_t> rows) const;
  bool Fits(absl::Span<const uint64_t> rows) const;
  uint64_t BatchBytes(absl::Span<const uint64_t> rows) const;
  // Of a part that does not fit by itself.
  OversizeItem WhyOversize(uint32_t part, absl::Span<const uint64_t> rows) const;
  // The parts that fit by themselves, in the order of the epoch.
  absl::StatusOr<std::vector<uint32_t>> Order(const EpochRequest& request, const Making& making);

  const std::shared_ptr<const DatasetReader> reader_;
  const PartsSchema parts_;
  const EpochBounds bounds_;
  MemoryBudget* const budget_;
  const EpochTeller* const teller_;
  // Constant after Prepare().
  EpochShapes shapes_;
  std::shared_ptr<const PartLinks> links_;
  MemoryHold memory_;
  JoinedPacks packs_;
  Edges edges_;
  Oversize oversize_;
  EpochIdentity identity_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_EPOCH_H_
