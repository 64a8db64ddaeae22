#include "service/engine/epochs/dealing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

absl::Status CheckArguments(absl::Span<const uint64_t> first_batches, const Sharing& sharing) {
  if (first_batches.size() < 2 || first_batches.front() != 0 ||
      !std::is_sorted(first_batches.begin(), first_batches.end())) {
    return absl::InvalidArgumentError(
        "first_batches: must begin with 0, ascend, and end with the "
        "number of batches");
  }
  if (first_batches.back() > std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_batches: ", first_batches.back(), " batches, at most 2^32 - 1"));
  }
  if (sharing.rank_group_of_rank.size() > Sharing::kMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("ranks: ", sharing.rank_group_of_rank.size(),
                                                   ", at most ", Sharing::kMaxRanks));
  }
  for (size_t rank = 0; rank < sharing.rank_group_of_rank.size(); ++rank) {
    if (sharing.rank_group_of_rank[rank] >= first_batches.size() - 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("rank ", rank, ": of rank group ", sharing.rank_group_of_rank[rank],
                       ", the epoch has ", first_batches.size() - 1, " rank groups"));
    }
  }
  return absl::OkStatus();
}

struct GroupCounts {
  uint64_t left = 0;  // Batches.
  uint64_t ranks = 0;
};

// Of all ranks.
uint64_t StepsOf(absl::Span<const GroupCounts> rank_groups, LastSteps last_steps) {
  const bool padded = last_steps == LastSteps::kPadded;
  uint64_t steps = padded ? 0 : std::numeric_limits<uint64_t>::max();
  for (const auto& [left, ranks] : rank_groups) {
    if (ranks == 0) continue;
    steps = padded ? std::max(steps, (left + ranks - 1) / ranks) : std::min(steps, left / ranks);
  }
  return steps;
}

}  // namespace

absl::StatusOr<Dealing> Dealing::Create(absl::Span<const uint64_t> first_batches,
                                        const BatchSet& done, Sharing sharing) {
  PH_RETURN_IF_ERROR(CheckArguments(first_batches, sharing));
  Dealing dealing;
  dealing.sharing_ = std::move(sharing);
  dealing.num_batches_ = first_batches.back();
  dealing.first_batches_.assign(first_batches.begin(), first_batches.end());
  dealing.rank_groups_.resize(first_batches.size() - 1);
  for (size_t j = 0; j < dealing.rank_groups_.size(); ++j) {
    RankGroup& rank_group = dealing.rank_groups_[j];
    rank_group.num_known = first_batches[j + 1] - first_batches[j];
    rank_group.left = done.Missing(first_batches[j], first_batches[j + 1]);
    rank_group.num_dealt = rank_group.left.size();
  }
  if (!dealing.sharing_.ranked()) {
    for (const RankGroup& rank_group : dealing.rank_groups_) {
      dealing.queue_lengths_.push_back(rank_group.left.size());
    }
    return dealing;
  }
  for (uint32_t rank = 0; rank < dealing.sharing_.rank_group_of_rank.size(); ++rank) {
    RankGroup& rank_group = dealing.rank_groups_[dealing.sharing_.rank_group_of_rank[rank]];
    dealing.rank_in_group_.push_back(static_cast<uint32_t>(rank_group.ranks.size()));
    rank_group.ranks.push_back(rank);
  }
  for (size_t j = 0; j < dealing.rank_groups_.size(); ++j) {
    const RankGroup& rank_group = dealing.rank_groups_[j];
    if (rank_group.ranks.empty() && !rank_group.left.empty()) {
      return absl::FailedPreconditionError(absl::StrCat("rank group ", j, ": has ",
                                                        rank_group.left.size(),
                                                        " batches left, and no rank takes them"));
    }
  }
  dealing.DealToRanks();
  return dealing;
}

absl::StatusOr<Dealing> Dealing::CreateGrowing(absl::Span<const uint64_t> first_batches,
                                               const BatchSet& done, Sharing sharing) {
  // With everything done nothing is dealt yet, and all arguments are checked.
  BatchSet all;
  if (!first_batches.empty()) all.InsertRun({0, first_batches.back()});
  PH_ASSIGN_OR_RETURN(Dealing dealing, Create(first_batches, all, std::move(sharing)));
  for (size_t j = 0; j < dealing.rank_groups_.size(); ++j) {
    RankGroup& rank_group = dealing.rank_groups_[j];
    rank_group.num_known = 0;
    if (dealing.sharing_.ranked() && rank_group.ranks.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank group ", j, ": no rank takes its batches"));
    }
  }
  dealing.is_growing_ = true;
  dealing.done_ = done;
  return dealing;
}

void Dealing::Grow(absl::Span<const uint64_t> num_batches, bool is_all) {
  if (!is_growing_) return;
  uint64_t steps = std::numeric_limits<uint64_t>::max();
  for (size_t j = 0; j < rank_groups_.size(); ++j) {
    RankGroup& rank_group = rank_groups_[j];
    if (num_batches[j] > rank_group.num_known) {
      const std::vector<uint32_t> more = done_.Missing(first_batches_[j] + rank_group.num_known,
                                                       first_batches_[j] + num_batches[j]);
      rank_group.left.insert(rank_group.left.end(), more.begin(), more.end());
      rank_group.num_known = num_batches[j];
    }
    if (sharing_.ranked()) {
      steps = std::min<uint64_t>(steps, rank_group.left.size() / rank_group.ranks.size());
    } else {
      rank_group.num_dealt = rank_group.left.size();
      queue_lengths_[j] = rank_group.left.size();
    }
  }
  is_growing_ = !is_all;
  if (!sharing_.ranked()) return;
  if (is_all) return DealToRanks();
  for (RankGroup& rank_group : rank_groups_) rank_group.num_dealt = steps * rank_group.ranks.size();
  queue_lengths_.assign(queue_lengths_.size(), steps);
}

size_t Dealing::RankGroupOf(uint64_t batch) const {
  const auto next = std::upper_bound(first_batches_.begin(), first_batches_.end(), batch);
  return static_cast<size_t>(next - first_batches_.begin()) - 1;
}

bool Dealing::Knows(uint64_t batch) const {
  if (IsPadding(batch)) return false;
  const size_t j = RankGroupOf(batch);
  return batch - first_batches_[j] < rank_groups_[j].num_known;
}

absl::StatusOr<uint64_t> Dealing::QueueLength(absl::Span<const uint64_t> first_batches,
                                              const BatchSet& done, const Sharing& sharing,
                                              size_t queue,
                                              absl::Span<const uint64_t> num_batches) {
  PH_RETURN_IF_ERROR(CheckArguments(first_batches, sharing));
  std::vector<GroupCounts> rank_groups(first_batches.size() - 1);
  const size_t num_queues =
      sharing.ranked() ? sharing.rank_group_of_rank.size() : rank_groups.size();
  if (queue >= num_queues) {
    return absl::InvalidArgumentError(absl::StrCat("queue ", queue, ": there are ", num_queues));
  }
  for (size_t j = 0; j < rank_groups.size(); ++j) {
    const uint64_t begin = first_batches[j];
    const uint64_t end = num_batches.empty() ? first_batches[j + 1] : begin + num_batches[j];
    rank_groups[j].left = end - begin - (done.SizeBelow(end) - done.SizeBelow(begin));
  }
  if (!sharing.ranked()) return rank_groups[queue].left;
  for (const uint32_t rank_group : sharing.rank_group_of_rank) ++rank_groups[rank_group].ranks;
  return StepsOf(rank_groups, sharing.last_steps);
}

uint64_t Dealing::MostBytes(uint64_t num_batches, size_t num_rank_groups, const Sharing& sharing) {
  // Three numbers of a rank, and its queue's length.
  constexpr uint64_t kBytesPerRank = 3 * sizeof(uint32_t) + sizeof(uint64_t);
  const bool may_drop = sharing.last_steps == LastSteps::kDropped;
  return 512 + num_batches * (sizeof(uint32_t) + (may_drop ? sizeof(uint64_t) : 0)) +
         num_rank_groups * (sizeof(RankGroup) + sizeof(uint64_t)) +
         2 * sharing.rank_group_of_rank.size() * kBytesPerRank;
}

void Dealing::DealToRanks() {
  std::vector<GroupCounts> counts;
  for (const RankGroup& rank_group : rank_groups_) {
    counts.push_back({rank_group.left.size(), rank_group.ranks.size()});
  }
  const uint64_t steps = StepsOf(counts, sharing_.last_steps);
  uint64_t next_padding = num_batches_;
  for (RankGroup& rank_group : rank_groups_) {
    const uint64_t places = steps * rank_group.ranks.size();
    rank_group.num_dealt = std::min<uint64_t>(places, rank_group.left.size());
    rank_group.num_padding = places - rank_group.num_dealt;
    rank_group.first_padding = next_padding;
    next_padding += rank_group.num_padding;
    dropped_.insert(dropped_.end(),
                    rank_group.left.begin() + static_cast<ptrdiff_t>(rank_group.num_dealt),
                    rank_group.left.end());
  }
  queue_lengths_.assign(sharing_.rank_group_of_rank.size(), steps);
}

uint64_t Dealing::num_places() const {
  return std::accumulate(queue_lengths_.begin(), queue_lengths_.end(), uint64_t{0});
}

uint64_t Dealing::BatchAt(const Place& place) const {
  if (!sharing_.ranked()) return rank_groups_[place.queue].left[place.position];
  const RankGroup& rank_group = rank_groups_[sharing_.rank_group_of_rank[place.queue]];
  const uint64_t dealt_before =
      place.position * rank_group.ranks.size() + rank_in_group_[place.queue];
  if (dealt_before < rank_group.num_dealt) return rank_group.left[dealt_before];
  return rank_group.first_padding + (dealt_before - rank_group.num_dealt);
}

std::optional<Place> Dealing::PlaceOf(uint64_t batch) const {
  for (uint32_t j = 0; j < rank_groups_.size(); ++j) {
    const RankGroup& rank_group = rank_groups_[j];
    uint64_t dealt_before = 0;
    if (IsPadding(batch)) {
      if (batch < rank_group.first_padding) return std::nullopt;
      if (batch - rank_group.first_padding >= rank_group.num_padding) continue;
      dealt_before = rank_group.num_dealt + (batch - rank_group.first_padding);
    } else {
      if (batch >= first_batches_[j + 1]) continue;
      const auto found = std::lower_bound(rank_group.left.begin(), rank_group.left.end(), batch);
      if (found == rank_group.left.end() || *found != batch) return std::nullopt;
      dealt_before = static_cast<uint64_t>(found - rank_group.left.begin());
      if (dealt_before >= rank_group.num_dealt) return std::nullopt;
    }
    if (!sharing_.ranked()) return Place{j, dealt_before};
    const uint64_t ranks = rank_group.ranks.size();
    return Place{rank_group.ranks[dealt_before % ranks], dealt_before / ranks};
  }
  return std::nullopt;
}

BatchSet Dealing::BatchesOfSteps(uint64_t steps) const {
  BatchSet batches;
  steps = std::min(steps, queue_lengths_.empty() ? 0 : queue_lengths_[0]);
  for (const RankGroup& rank_group : rank_groups_) {
    const uint64_t dealt =
        std::min<uint64_t>(steps * rank_group.ranks.size(), rank_group.num_dealt);
    for (uint64_t i = 0; i < dealt; ++i) batches.Insert(rank_group.left[i]);
  }
  return batches;
}

}  // namespace packhouse
