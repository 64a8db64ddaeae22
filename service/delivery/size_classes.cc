#include "service/delivery/size_classes.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/sizes/status_macros.h"

namespace packhouse {

absl::StatusOr<SizeClasses> SizeClasses::Create(
    const ItemSizes& sizes, std::optional<absl::Span<const uint32_t>> selection) {
  const size_t n = selection ? selection->size() : sizes.num_items();
  if (n > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection: ", n, " items, an epoch takes at most ", ItemSizes::kMaxItems));
  }
  const auto item_at = [&](size_t i) { return selection ? (*selection)[i] : uint32_t(i); };

  // Classes in order of appearance first.
  absl::flat_hash_map<SizeTuple, uint32_t, SizeTupleHash, SizeTupleEq> numbers;
  std::vector<uint32_t> first_items;
  std::vector<uint32_t> counts;
  std::vector<uint32_t> class_of(n);
  for (size_t i = 0; i < n; ++i) {
    const uint32_t item = item_at(i);
    if (item >= sizes.num_items()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "selection: item ", item, ", the data set has ", sizes.num_items(), " items"));
    }
    const auto tuple = sizes.tuple(item);
    auto found = numbers.find(tuple);
    if (found == numbers.end()) {
      found = numbers.emplace(SizeTuple(tuple.begin(), tuple.end()), counts.size()).first;
      first_items.push_back(item);
      counts.push_back(0);
    }
    class_of[i] = found->second;
    ++counts[found->second];
  }

  std::vector<uint32_t> ascending(counts.size());
  std::iota(ascending.begin(), ascending.end(), 0);
  std::sort(ascending.begin(), ascending.end(), [&](uint32_t a, uint32_t b) {
    return sizes.tuple(first_items[a]) < sizes.tuple(first_items[b]);
  });
  SizeClasses classes;
  classes.num_components_ = sizes.num_components();
  classes.starts_.push_back(0);
  std::vector<uint32_t> next(counts.size());
  for (const uint32_t number : ascending) {
    const auto tuple = sizes.tuple(first_items[number]);
    classes.tuples_.insert(classes.tuples_.end(), tuple.begin(), tuple.end());
    next[number] = classes.starts_.back();
    classes.starts_.push_back(classes.starts_.back() + counts[number]);
  }
  classes.items_.resize(n);
  for (size_t i = 0; i < n; ++i) classes.items_[next[class_of[i]]++] = item_at(i);
  return classes;
}

absl::StatusOr<SizeHistogram> SizeClasses::Histogram() const {
  SizeHistogram histogram(num_components_);
  for (size_t number = 0; number < num_classes(); ++number) {
    PH_RETURN_IF_ERROR(histogram.Add(tuple(number), items(number).size()));
  }
  return histogram;
}

}  // namespace packhouse
