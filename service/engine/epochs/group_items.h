// Groups of graphs that stay together: queries of learning to rank, conformers of a molecule.
//
// A group is an item whose size is the sum over its graphs. The number of its graphs is one more
// component, which is planned like any other, with the capacity of `graphs`. So groups of graphs
// with l components are items with l + 1 components.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_GROUP_ITEMS_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_GROUP_ITEMS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/algorithms/planning/limits.h"
#include "service/base/memory_budget.h"
#include "service/engine/epochs/item_sizes.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// A group that no batch can hold. Component l is `graphs`.
struct GroupRejection {
  uint64_t group_id;
  uint64_t num_graphs;
  size_t component;
  uint64_t value;
  uint64_t bound;

  friend bool operator==(const GroupRejection&, const GroupRejection&) = default;
};

// Immutable; thread-safe. 4 bytes for each graph and 4 * l + 16 for each group, reserved as long as
// it lives.
class GroupItems {
 public:
  // `group_ids` has an entry for each graph of `graphs`; graphs with the same id are a group, next
  // to each other or not. Groups are in the order of their first graphs. With a selection, other
  // graphs are ignored.
  //
  // INVALID_ARGUMENT if the numbers of ids or components disagree, naming both, or for a selected
  // graph that does not exist; RESOURCE_EXHAUSTED and CANCELLED as `making`. O(n * l) expected. No
  // more than `most_listed` rejections are listed.
  static absl::StatusOr<GroupItems> Create(
      const ItemSizes& graphs, absl::Span<const uint64_t> group_ids, const Limits& limits,
      std::optional<absl::Span<const uint32_t>> selection = std::nullopt,
      size_t most_listed = SIZE_MAX, const Making& making = {});

  size_t num_groups() const { return ids_.size(); }
  // The memory that it takes.
  uint64_t bytes() const {
    return sizeof(uint64_t) * ids_.capacity() +
           sizeof(uint32_t) * (sums_.capacity() + starts_.capacity() + graphs_.capacity());
  }
  // With l + 1 components. Valid as long as this object.
  ItemSizes sizes() const {
    return ItemSizes::Create(num_groups(), num_components_, sums_).value();
  }
  // The limits for sizes(): the capacities of all components, with `graphs`. The number of groups
  // has no limit.
  const Limits& limits() const { return limits_; }

  // By group, for DrawEpoch().
  absl::Span<const uint64_t> group_ids() const { return ids_; }
  // The graphs of a group, in the order of the data set or of the selection.
  absl::Span<const uint32_t> graphs(size_t group) const {
    return absl::MakeConstSpan(graphs_).subspan(starts_[group],
                                                starts_[group + 1] - starts_[group]);
  }
  // The graphs of a batch of groups, group by group.
  std::vector<uint32_t> GraphsOf(absl::Span<const uint32_t> groups) const;

  // Groups that are left out because they alone exceed the limits; groups are never split. The
  // first of them, in the order of their first graphs; and the number of graphs of all.
  const std::vector<GroupRejection>& rejected() const { return rejected_; }
  uint64_t num_rejected_graphs() const { return num_rejected_graphs_; }

 private:
  explicit GroupItems(Limits limits)
      : num_components_(limits.num_components()), limits_(std::move(limits)) {}

  MemoryHold memory_;
  size_t num_components_;  // l + 1.
  Limits limits_;
  std::vector<uint64_t> ids_;
  std::vector<uint32_t> sums_;    // Row-major.
  std::vector<uint32_t> starts_;  // In graphs_, by group, and their end.
  std::vector<uint32_t> graphs_;
  std::vector<GroupRejection> rejected_;
  uint64_t num_rejected_graphs_ = 0;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_GROUP_ITEMS_H_
