#include "service/engine/epochs/segment_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "service/base/status_macros.h"

namespace packhouse {
namespace {

// Fisher-Yates: every order is equally likely.
template <typename T>
void ShuffleAll(absl::Span<T> values, SeededRandom& random) {
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    std::swap(values[i], values[i + random.Below(values.size() - i)]);
  }
}

// The batches of a rank group, segment by segment.
class Line {
 public:
  // By segment: how many there are, which must outlive this, and the number of the first.
  Line(absl::Span<const uint32_t> counts, std::vector<uint32_t> firsts)
      : counts_(counts), firsts_(std::move(firsts)) {}

  // The next `length` batches; adds the segments that have them.
  std::vector<SegmentPiece> Cut(uint64_t length, std::vector<uint32_t>& segments) {
    std::vector<SegmentPiece> pieces;
    while (length != 0) {
      const auto taken =
          static_cast<uint32_t>(std::min<uint64_t>(length, counts_[segment_] - num_before_));
      if (taken != 0) {
        const uint32_t begin = firsts_[segment_] + num_before_;
        pieces.push_back({segment_, begin, begin + taken});
        segments.push_back(segment_);
      }
      length -= taken;
      num_before_ += taken;
      if (num_before_ == counts_[segment_]) {
        ++segment_;
        num_before_ = 0;
      }
    }
    return pieces;
  }

 private:
  const absl::Span<const uint32_t> counts_;
  const std::vector<uint32_t> firsts_;
  uint32_t segment_ = 0;
  uint32_t num_before_ = 0;  // Batches of the segment that were cut off.
};

}  // namespace

SegmentChunks::SegmentChunks(absl::Span<const uint32_t> graphs_of_chunk, uint64_t graphs_of_segment,
                             uint64_t seed, uint64_t dataset_version, bool in_order) {
  const uint64_t num_graphs =
      std::accumulate(graphs_of_chunk.begin(), graphs_of_chunk.end(), uint64_t{0});
  const uint64_t wanted = num_graphs == 0 ? 1 : (num_graphs - 1) / graphs_of_segment + 1;
  const uint64_t most = std::max<uint64_t>(1, graphs_of_chunk.size() / kMinChunks);
  const uint64_t num_segments = std::min(wanted, most);
  chunks_.resize(graphs_of_chunk.size());
  std::iota(chunks_.begin(), chunks_.end(), uint32_t{0});
  SeededRandom random(SequenceStart({seed, dataset_version}, DrawPurpose::kSegments));
  if (num_segments > 1 && !in_order) ShuffleAll(absl::MakeSpan(chunks_), random);
  // Segment s ends where the graphs so far are the (s + 1)th part of all.
  starts_.reserve(num_segments + 1);
  num_graphs_.reserve(num_segments);
  starts_.push_back(0);
  uint64_t sum = 0;
  uint64_t before = 0;
  for (uint32_t i = 0; i < chunks_.size(); ++i) {
    sum += graphs_of_chunk[chunks_[i]];
    const auto is_full = [&](uint64_t segments) {
      return absl::uint128(sum) * num_segments >= absl::uint128(num_graphs) * segments;
    };
    if (starts_.size() < num_segments && is_full(starts_.size())) {
      starts_.push_back(i + 1);
      num_graphs_.push_back(sum - std::exchange(before, sum));
    }
  }
  starts_.push_back(static_cast<uint32_t>(chunks_.size()));
  num_graphs_.push_back(sum - before);
  for (size_t segment = 0; segment + 1 < starts_.size(); ++segment) {
    std::sort(chunks_.begin() + starts_[segment], chunks_.begin() + starts_[segment + 1]);
  }
}

uint64_t SegmentChunks::max_graphs() const {
  return *std::max_element(num_graphs_.begin(), num_graphs_.end());
}

TrackOrder::TrackOrder(absl::Span<const uint32_t> batches_of_segment, uint32_t num_tracks,
                       const EpochSeed& seed, bool in_order, size_t num_rank_groups)
    : num_tracks_(num_tracks) {
  const size_t num_segments = batches_of_segment.size() / num_rank_groups;
  first_batches_.push_back(0);
  std::vector<Line> lines;
  std::vector<uint32_t> firsts(num_segments);
  for (size_t group = 0; group < num_rank_groups; ++group) {
    const auto counts = batches_of_segment.subspan(group * num_segments, num_segments);
    first_batches_.push_back(std::accumulate(counts.begin(), counts.end(), first_batches_.back()));
    lines.emplace_back(counts, firsts);
    for (size_t i = 0; i < num_segments; ++i) firsts[i] += counts[i];
  }
  SeededRandom random(SequenceStart(seed, DrawPurpose::kTracks));
  // By rank group, then track.
  std::vector<std::vector<SegmentPiece>> sequences(num_rank_groups * num_tracks);
  std::vector<uint32_t> places(num_segments);
  for (uint32_t track = 0; track < num_tracks; ++track) {
    std::vector<uint32_t> segments;
    for (size_t group = 0; group < num_rank_groups; ++group) {
      sequences[group * num_tracks + track] = lines[group].Cut(num_batches(track, group), segments);
    }
    std::sort(segments.begin(), segments.end());
    segments.erase(std::unique(segments.begin(), segments.end()), segments.end());
    if (!in_order) ShuffleAll(absl::MakeSpan(segments), random);
    for (uint32_t i = 0; i < segments.size(); ++i) places[segments[i]] = i;
    for (size_t group = 0; group < num_rank_groups; ++group) {
      auto& sequence = sequences[group * num_tracks + track];
      std::sort(sequence.begin(), sequence.end(),
                [&](const SegmentPiece& a, const SegmentPiece& b) {
                  return places[a.segment] < places[b.segment];
                });
    }
  }
  first_pieces_.push_back(0);
  for (const auto& sequence : sequences) {
    uint64_t end = 0;
    pieces_.insert(pieces_.end(), sequence.begin(), sequence.end());
    for (const SegmentPiece& piece : sequence) ends_.push_back(end += piece.end - piece.begin);
    first_pieces_.push_back(pieces_.size());
  }
}

TrackOrder::Found TrackOrder::Find(uint64_t batch) const {
  const auto group =
      static_cast<size_t>(std::upper_bound(first_batches_.begin(), first_batches_.end(), batch) -
                          first_batches_.begin() - 1);
  const uint64_t of_group = batch - first_batches_[group];
  Found found;
  found.sequence = group * num_tracks_ + of_group % num_tracks_;
  found.index = of_group / num_tracks_;
  const auto end = std::upper_bound(
      ends_.begin() + static_cast<ptrdiff_t>(first_pieces_[found.sequence]),
      ends_.begin() + static_cast<ptrdiff_t>(first_pieces_[found.sequence + 1]), found.index);
  found.piece = static_cast<size_t>(end - ends_.begin());
  return found;
}

SegmentBatch TrackOrder::At(uint64_t batch) const {
  const Found found = Find(batch);
  const SegmentPiece& piece = pieces_[found.piece];
  return {piece.segment, static_cast<uint32_t>(piece.end - (ends_[found.piece] - found.index))};
}

uint64_t TrackOrder::Before(uint32_t segment, size_t rank_group) const {
  uint64_t before = 0;
  for (const SegmentPiece& piece : pieces(0, rank_group)) {
    if (piece.segment == segment) break;
    before += piece.end - piece.begin;
  }
  return before;
}

std::vector<uint32_t> TrackOrder::After(uint64_t batch, size_t count) const {
  const Found found = Find(batch);
  std::vector<uint32_t> after;
  for (size_t piece = found.piece + 1;
       piece < first_pieces_[found.sequence + 1] && after.size() < count; ++piece) {
    after.push_back(pieces_[piece].segment);
  }
  return after;
}

absl::StatusOr<std::vector<uint64_t>> DrawShares(absl::Span<const uint64_t> weights, uint64_t count,
                                                 bool with_replacement, const EpochSeed& seed,
                                                 const Making& making) {
  std::vector<uint64_t> ends(weights.size());
  std::partial_sum(weights.begin(), weights.end(), ends.begin());
  const uint64_t all = ends.empty() ? 0 : ends.back();
  // Of more than half, those that are not drawn are drawn: few draws are then in vain.
  const bool draws_rest = !with_replacement && count > all / 2;
  const uint64_t num_draws = draws_rest ? all - count : count;
  std::vector<uint64_t> shares(weights.size(), 0);
  SeededRandom random(SequenceStart(seed, DrawPurpose::kSegmentShares));
  uint64_t num_drawn = 0;
  for (size_t i = 0; num_drawn < num_draws; ++i) {
    PH_RETURN_IF_ERROR(making.StillWantedAt(i));
    const uint64_t at = random.Below(all);
    const auto segment =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
    // Of like graphs of a segment, those that were drawn before may be taken to be the last.
    if (!with_replacement && ends[segment] - at <= shares[segment]) continue;
    ++shares[segment];
    ++num_drawn;
  }
  for (size_t i = 0; i < shares.size() && draws_rest; ++i) shares[i] = weights[i] - shares[i];
  return shares;
}

}  // namespace packhouse
