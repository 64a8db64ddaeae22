// Parts of a partition, joined in each batch, as the items of an epoch (EpochSpec.join_parts).
#ifndef PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_PARTS_H_
#define PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_PARTS_H_

#include <memory>
#include <string>

#include "service/engine/epochs/item_kind.h"

namespace packhouse {

class JoinedParts final : public ItemKind {
 public:
  static constexpr absl::string_view kName = "join_parts";

  // LoadableEpoch::teller() of the epoch; may be null.
  explicit JoinedParts(const EpochTeller* teller = nullptr) : teller_(teller) {}

  const EpochTeller* teller() const { return teller_; }
  absl::string_view name() const override { return kName; }
  std::string Words() const override { return "parts joined"; }
  bool mixes() const override { return false; }
  absl::Span<const EpochRule> rules() const override;
  absl::StatusOr<std::shared_ptr<const LoadableEpoch>> Prepare(
      const EpochRequest& request, const KindSources& from) const override;

 private:
  const EpochTeller* const teller_;
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_PARTITION_EPOCHS_JOINED_PARTS_H_
