#include "service/engine/epochs/segment_layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace packhouse {
namespace {

// Fisher-Yates: every order is equally likely.
template <typename T>
void ShuffleAll(absl::Span<T> values, SeededRandom& random) {
  for (size_t i = 0; i + 1 < values.size(); ++i) {
    std::swap(values[i], values[i + random.Below(values.size() - i)]);
  }
}

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
                       const EpochSeed& seed, bool in_order)
    : num_batches_(
          std::accumulate(batches_of_segment.begin(), batches_of_segment.end(), uint64_t{0})) {
  first_pieces_.resize(size_t{num_tracks} + 1, 0);
  SeededRandom random(SequenceStart(seed, DrawPurpose::kTracks));
  pieces_.reserve(batches_of_segment.size() + num_tracks);
  uint32_t segment = 0;
  uint32_t begin = 0;
  for (uint32_t track = 0; track < num_tracks; ++track) {
    for (uint64_t left = num_batches(track); left != 0;) {
      const uint32_t length =
          static_cast<uint32_t>(std::min<uint64_t>(left, batches_of_segment[segment] - begin));
      if (length != 0) pieces_.push_back({segment, begin, begin + length});
      left -= length;
      begin += length;
      if (begin == batches_of_segment[segment]) {
        ++segment;
        begin = 0;
      }
    }
    first_pieces_[track + 1] = pieces_.size();
    const size_t first = first_pieces_[track];
    if (!in_order) ShuffleAll(absl::MakeSpan(pieces_).subspan(first), random);
    uint64_t end = 0;
    for (size_t i = first; i < pieces_.size(); ++i) {
      end += pieces_[i].end - pieces_[i].begin;
      ends_.push_back(end);
    }
  }
}

size_t TrackOrder::PieceOf(uint64_t batch, uint64_t& index) const {
  const auto track = static_cast<uint32_t>(batch % num_tracks());
  index = batch / num_tracks();
  const auto found =
      std::upper_bound(ends_.begin() + static_cast<ptrdiff_t>(first_pieces_[track]),
                       ends_.begin() + static_cast<ptrdiff_t>(first_pieces_[track + 1]), index);
  return static_cast<size_t>(found - ends_.begin());
}

SegmentBatch TrackOrder::At(uint64_t batch) const {
  uint64_t index = 0;
  const size_t piece = PieceOf(batch, index);
  const SegmentPiece& found = pieces_[piece];
  return {found.segment, static_cast<uint32_t>(found.end - (ends_[piece] - index))};
}

uint64_t TrackOrder::Before(uint32_t segment) const {
  uint64_t before = 0;
  for (const SegmentPiece& piece : pieces_) {
    if (piece.segment == segment) break;
    before += piece.end - piece.begin;
  }
  return before;
}

std::vector<uint32_t> TrackOrder::After(uint64_t batch, size_t count) const {
  uint64_t index = 0;
  size_t piece = PieceOf(batch, index);
  const size_t end = first_pieces_[batch % num_tracks() + 1];
  std::vector<uint32_t> after;
  while (++piece < end && after.size() < count) after.push_back(pieces_[piece].segment);
  return after;
}

}  // namespace packhouse
