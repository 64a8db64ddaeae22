#include "service/engine/epochs/size_classes.h"

#include <algorithm>
#include <numeric>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/algorithms/histograms/tuple_index.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr size_t kLeastClasses = 1024;

// Bytes while so many classes are found: the index, and three numbers for each, which exist twice
// while their lists grow.
uint64_t BytesOfClasses(size_t num_classes, size_t num_components) {
  return TupleIndex::BytesFor(num_classes, num_components) +
         3 * 3 * sizeof(uint32_t) * uint64_t{num_classes};
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
  const size_t l = sizes.num_components();
  TupleIndex numbers(l);
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
    if (counts.size() == room) {
      const size_t more = std::max(kLeastClasses, room);
      const uint64_t now = room == 0 ? 0 : BytesOfClasses(room, l);
      PH_RETURN_IF_ERROR(making.Grow(absl::StrCat("more than ", room, " sizes of graphs"),
                                     BytesOfClasses(room + more, l) - now, sorting));
      room += more;
    }
    const uint32_t number = numbers.FindOrInsert(sizes.tuple(item));
    if (number == counts.size()) {
      first_items.push_back(item);
      counts.push_back(0);
    }
    class_of[i] = number;
    ++counts[number];
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
