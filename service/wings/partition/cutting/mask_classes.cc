#include "service/wings/partition/cutting/mask_classes.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace packhouse {
namespace {

// While masks are taken one after the other: later ones may leave some without nodes.
constexpr size_t kMostCombinations = 8192;

}  // namespace

MaskClasses::MaskClasses(size_t num_masks, uint64_t num_nodes)
    : none_(static_cast<uint16_t>(num_masks)), own_(num_nodes, none_) {
  for (uint16_t mask = 0; mask < none_; ++mask) held_.push_back({mask});
  held_.emplace_back();
}

bool MaskClasses::Add(uint16_t mask, uint64_t node) {
  uint16_t& own = own_[node];
  if (own == none_) {
    own = mask;
    return true;
  }
  const auto [found, is_new] =
      joined_.try_emplace(std::make_pair(own, mask), static_cast<uint16_t>(held_.size()));
  if (is_new) {
    if (held_.size() == kMostCombinations) return false;
    Combination more = held_[own];
    more.push_back(mask);
    held_.push_back(std::move(more));
  }
  own = found->second;
  return true;
}

absl::btree_set<MaskClasses::Combination> MaskClasses::Combinations() const {
  std::vector<bool> is_used(held_.size());
  for (const uint16_t own : own_) is_used[own] = true;
  absl::btree_set<Combination> used;
  for (size_t c = 0; c < held_.size(); ++c) {
    if (is_used[c] && held_[c].size() > 1) used.insert(held_[c]);
  }
  return used;
}

std::vector<uint16_t> MaskClasses::Classes(const absl::btree_set<Combination>& all) const {
  std::vector<uint16_t> class_of_held(held_.size());
  for (size_t c = 0; c < held_.size(); ++c) {
    const auto found = held_[c].size() > 1 ? all.find(held_[c]) : all.end();
    class_of_held[c] = static_cast<uint16_t>(
        found == all.end() ? c : none_ + 1 + std::distance(all.begin(), found));
  }
  std::vector<uint16_t> classes;
  classes.reserve(own_.size());
  for (const uint16_t own : own_) classes.push_back(class_of_held[own]);
  return classes;
}

std::string CombinationName(const MaskClasses::Combination& combination,
                            absl::Span<const absl::string_view> masks) {
  return absl::StrJoin(combination, " and ", [&masks](std::string* out, uint16_t mask) {
    absl::StrAppend(out, "\"", masks[mask], "\"");
  });
}

}  // namespace packhouse
