#include "service/engine/epochs/group_items.h"

#include <algorithm>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Bytes of a group while groups are found: an entry of the table, of which at least an eighth is
// free and which exists twice while it grows; an id and sums, which exist twice too.
uint64_t BytesOfFoundGroup(size_t num_components) {
  return 4 * (sizeof(std::pair<uint64_t, uint32_t>) + 1) +
         3 * sizeof(uint64_t) * (num_components + 2);
}
// Bytes of a group afterwards: its own, and a number and a place while its graphs are found.
uint64_t BytesOfGroup(size_t num_components) {
  return sizeof(uint64_t) + sizeof(uint32_t) * (num_components + 2);
}
constexpr uint64_t kBytesOfPlace = 2 * sizeof(uint32_t);
constexpr size_t kLeastGroups = 1024;

}  // namespace

absl::StatusOr<GroupItems> GroupItems::Create(const ItemSizes& graphs,
                                              absl::Span<const uint64_t> group_ids,
                                              const Limits& limits,
                                              std::optional<absl::Span<const uint32_t>> selection,
                                              size_t most_listed, const Making& making) {
  const size_t l = graphs.num_components();
  if (group_ids.size() != graphs.num_items()) {
    return absl::InvalidArgumentError(
        absl::StrCat("group_ids: ", group_ids.size(), " for ", graphs.num_items(), " graphs"));
  }
  if (limits.num_components() != l) {
    return absl::InvalidArgumentError(
        absl::StrCat("limits: of ", limits.num_components(), " components, graphs have ", l));
  }
  std::vector<uint64_t> capacities(limits.capacities().begin(), limits.capacities().end());
  capacities.push_back(kUnlimited);
  PH_ASSIGN_OR_RETURN(Limits group_limits, Limits::Create(std::move(capacities)));
  GroupItems items(std::move(group_limits));

  const size_t n = selection ? selection->size() : graphs.num_items();
  if (n > ItemSizes::kMaxItems) {
    return absl::InvalidArgumentError(
        absl::StrCat("selection: ", n, " graphs, an epoch takes at most ", ItemSizes::kMaxItems));
  }
  const auto graph_at = [&](size_t i) { return selection ? (*selection)[i] : uint32_t(i); };
  PH_ASSIGN_OR_RETURN(items.memory_, making.Hold(absl::StrCat("places of ", n, " grouped graphs"),
                                                 sizeof(uint32_t) * n));
  PH_ASSIGN_OR_RETURN(MemoryHold finding, making.Hold("groups", 0));
  size_t room = 0;  // Room for this many groups.
  absl::flat_hash_map<uint64_t, uint32_t> numbers;
  std::vector<uint64_t> ids;
  // Below 2^64: fewer than 2^32 summands of 32 bits.
  std::vector<uint64_t> sums;
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    if (ids.size() == room) {
      const size_t more = std::max(kLeastGroups, room);
      PH_RETURN_IF_ERROR(making.Grow(absl::StrCat("more than ", room, " groups of graphs"),
                                     more * BytesOfFoundGroup(l), finding));
      room += more;
    }
    const uint32_t graph = graph_at(i);
    if (graph >= graphs.num_items()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "selection: graph ", graph, ", the data set has ", graphs.num_items(), " graphs"));
    }
    const auto [found, is_new] = numbers.emplace(group_ids[graph], ids.size());
    if (is_new) {
      ids.push_back(group_ids[graph]);
      sums.resize(sums.size() + l + 1, 0);
    }
    uint64_t* const sum = sums.data() + found->second * (l + 1);
    for (size_t k = 0; k < l; ++k) sum[k] += graphs.tuple(graph)[k];
    ++sum[l];
  }

  const std::string what = absl::StrCat(ids.size(), " groups of graphs");
  PH_RETURN_IF_ERROR(making.Grow(what, (ids.size() + 1) * BytesOfGroup(l), items.memory_));
  PH_RETURN_IF_ERROR(making.Grow(what, ids.size() * kBytesOfPlace, finding));
  items.ids_.reserve(ids.size());
  items.sums_.reserve(ids.size() * (l + 1));
  items.starts_.reserve(ids.size() + 1);
  constexpr uint32_t kRejected = std::numeric_limits<uint32_t>::max();
  std::vector<uint32_t> group_of(ids.size(), kRejected);
  std::vector<uint32_t> next;
  next.reserve(ids.size());
  items.starts_.push_back(0);
  for (size_t i = 0; i < ids.size(); ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const auto sum = absl::MakeConstSpan(sums).subspan(i * (l + 1), l + 1);
    std::optional<GroupRejection> rejection;
    for (size_t k = 0; k <= l && !rejection; ++k) {
      // A component without a limit can hold any count.
      const uint64_t bound =
          std::min<uint64_t>(limits.capacity(k), std::numeric_limits<uint32_t>::max());
      if (sum[k] > bound) rejection = {ids[i], sum[l], k, sum[k], bound};
    }
    if (rejection) {
      items.num_rejected_graphs_ += sum[l];
      if (items.rejected_.size() < most_listed) items.rejected_.push_back(*rejection);
      continue;
    }
    group_of[i] = static_cast<uint32_t>(items.ids_.size());
    items.ids_.push_back(ids[i]);
    for (const uint64_t value : sum) items.sums_.push_back(static_cast<uint32_t>(value));
    next.push_back(items.starts_.back());
    items.starts_.push_back(items.starts_.back() + static_cast<uint32_t>(sum[l]));
  }

  items.graphs_.resize(items.starts_.back());
  for (size_t i = 0; i < n; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint32_t graph = graph_at(i);
    const uint32_t group = group_of[numbers.find(group_ids[graph])->second];
    if (group != kRejected) items.graphs_[next[group]++] = graph;
  }
  items.memory_.ShrinkTo(items.bytes());
  return items;
}

std::vector<uint32_t> GroupItems::GraphsOf(absl::Span<const uint32_t> groups) const {
  std::vector<uint32_t> all;
  for (const uint32_t group : groups) {
    const auto own = graphs(group);
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

}  // namespace packhouse
