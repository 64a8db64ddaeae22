// Sub-graphs of a source graph as the items of an epoch (EpochSpec.samples).
#ifndef PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLES_REQUEST_H_
#define PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLES_REQUEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "service/base/memory_budget.h"
#include "service/engine/epochs/item_kind.h"
#include "service/wings/graphs/epochs/sub_graph_source.h"

namespace packhouse {

class SamplesRequest final : public ItemKind {
 public:
  static constexpr absl::string_view kName = "samples";

  std::shared_ptr<const SubGraphSource> source;
  // Checked; and the memory of the list.
  SeedList seeds;
  std::shared_ptr<const MemoryHold> memory;
  // Sub-graphs of a window; 0: the default.
  uint32_t window = 0;
  // All windows are planned before the epoch is loaded; does not change the batches.
  bool exact_steps = false;
  // Sub-graphs beyond the limits are drawn smaller; otherwise they are an error.
  bool draws_smaller = true;
  // LoadableEpoch::teller() of the epoch.
  const EpochTeller* teller = nullptr;

  absl::string_view name() const override { return kName; }
  std::string Words() const override;
  bool mixes() const override { return true; }
  absl::Span<const EpochRule> rules() const override;
  std::optional<Thing> thing() const override;
  // `from.open_reader` is not called.
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Prepare(
      const EpochRequest& request, const KindSources& from) const override;
  // With exact_steps, and for an evaluation or an export, plans all windows.
  absl::Status Complete(const EpochRequest& request, const LoadableEpoch& epoch,
                        const Making& making) const override;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_GRAPHS_EPOCHS_SAMPLES_REQUEST_H_
