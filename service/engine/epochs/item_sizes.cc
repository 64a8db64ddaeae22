#include "service/engine/epochs/item_sizes.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"

namespace packhouse {

absl::StatusOr<ItemSizes> ItemSizes::Create(size_t num_items, size_t num_components,
                                            absl::Span<const uint32_t> counts) {
  if (num_items > kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("items: ", num_items, ", an epoch takes at most ", kMaxItems));
  }
  const auto expected = CheckedMultiply(num_items, num_components);
  if (!expected || *expected != counts.size()) {
    return absl::InvalidArgumentError(absl::StrCat("items: ", counts.size(), " counts for ",
                                                   num_items, " items of ", num_components,
                                                   " components"));
  }
  return ItemSizes(num_items, num_components, counts);
}

ItemSizes SizesOfGraphs(const DatasetReader& reader) {
  return ItemSizes::Create(reader.num_graphs(), reader.info().schema->num_components(),
                           reader.counts())
      .value();
}

}  // namespace packhouse
