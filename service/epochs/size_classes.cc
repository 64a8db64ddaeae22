#include "service/epochs/size_classes.h"

#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Bytes of a class while classes are found: an entry of the table, of which at least an eighth is
// free and which exists twice while it grows; the tuple, if it does not fit into the entry; and
// three numbers, which exist twice too.
constexpr size_t kLeastClasses = 1024;
uint64_t BytesOfClass(size_t num_components) {
  const uint64_t entry = sizeof(std::pair<const SizeTuple, uint32_t>) + 1;
  const uint64_t outside = num_components > 4 ? 4 * num_components + 16 : 0;
  return 4 * entry + outside + 3 * 3 * sizeof(uint32_t);
}

}  // namespace

absl::StatusOr<SizeClasses> SizeClasses::Create(const ItemSizes& sizes,
                                                std::optional<absl::Span<const uint32_t>> selection,
                                                const Making& making) {
  const size_t n = selection ? selection->size() : sizes.num_items();
  if (n > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection: ", n, " items, an epoch takes at most ", ItemSizes::kMaxItems));
  }
  const auto item_at = [&](size_t i) { return selection ? (*selection)[i] : uint32_t(i); };

  SizeClasses classes;
  PH_ASSIGN_OR_RETURN(classes.memory_,
                      making.Hold(absl::StrCat("places of ", n, " graphs"), sizeof(uint32_t) * n));
  PH_ASSIGN_OR_RETURN(
      MemoryHold sorting,
      making.Hold(absl::StrCat("sorting ", n, " graphs by size"), sizeof(uint32_t) * n));
  // At first, classes are in order of appearance. There is room for this many.
  size_t room = 0;
  absl::flat_hash_map<SizeTuple, uint32_t, SizeTupleHash, SizeTupleEq> numbers;
  std::vector<uint32_t> first_items;
  std::vector<uint32_t> counts;
  std::vector<uint32_t> class_of(n);
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint32_t item = item_at(i);
    if (item >= sizes.num_items()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "selection: item ", item, ", the data set has ", sizes.num_items(), " items"));
    }
    const auto tuple = sizes.tuple(item);
    auto found = numbers.find(tuple);
    if (found == numbers.end()) {
      if (counts.size() == room) {
        const size_t more = std::max(kLeastClasses, room);
        PH_RETURN_IF_ERROR(making.Grow(absl::StrCat("more than ", room, " sizes of graphs"),
                                       more * BytesOfClass(sizes.num_components()), sorting));
        room += more;
      }
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
  classes.num_components_ = sizes.num_components();
  const size_t counts_of_classes = counts.size() * (sizes.num_components() + 1) + 1;
  PH_RETURN_IF_ERROR(making.Grow(absl::StrCat(counts.size(), " sizes of graphs"),
                                 sizeof(uint32_t) * counts_of_classes, classes.memory_));
  classes.tuples_.reserve(counts.size() * sizes.num_components());
  classes.starts_.reserve(counts.size() + 1);
  classes.starts_.push_back(0);
  std::vector<uint32_t> next(counts.size());
  for (const uint32_t number : ascending) {
    const auto tuple = sizes.tuple(first_items[number]);
    classes.tuples_.insert(classes.tuples_.end(), tuple.begin(), tuple.end());
    next[number] = classes.starts_.back();
    classes.starts_.push_back(classes.starts_.back() + counts[number]);
  }
  classes.items_.resize(n);
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    classes.items_[next[class_of[i]]++] = item_at(i);
  }
  return classes;
}

absl::StatusOr<SizeHistogram> SizeClasses::Histogram(const Making& making) const {
  SizeHistogram histogram(num_components_);
  for (size_t number = 0; number < num_classes(); ++number) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(number));
    PH_RETURN_IF_ERROR(histogram.Add(tuple(number), items(number).size()));
  }
  return histogram;
}

}  // namespace packhouse
