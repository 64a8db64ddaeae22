// The arithmetic of epochs in segments: which chunks make a segment, and which batch of which
// segment a batch of the epoch is. No graphs, no memory for them.
//
// DrawSegments() draws the chunks of each segment from the seed and the data set's version.
// TrackOrder lays the batches of all segments one behind the other, by rank group, and cuts each
// line into tracks of equal lengths; a segment that a cut goes through belongs to two tracks. That
// does not depend on the epoch. Then it permutes the pieces of segments within each track, in one
// order for all rank groups, which so go through the same segments at about the same time. Batch b
// of a rank group is number b / T of track b % T. Of an epoch in order, segments are consecutive
// chunks, and come one after the other.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENT_LAYOUT_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/engine/epochs/epoch_seed.h"
#include "service/engine/epochs/making.h"

namespace packhouse {

// The chunks of each segment. Immutable; thread-safe. 4 bytes for each chunk, 4 for each segment.
class SegmentChunks {
 public:
  // Fewer would not be a fair draw of a data set that is sorted by size.
  static constexpr size_t kMinChunks = 64;

  // Segments of about `graphs_of_segment` graphs, at least 1: as many as that makes, rounded up;
  // but not so many that they have fewer than kMinChunks chunks on average, and at least one. Every
  // chunk is in one segment; all ways to share them out are equally likely, or the chunks stay in
  // order. O(chunks).
  SegmentChunks(absl::Span<const uint32_t> graphs_of_chunk, uint64_t graphs_of_segment,
                uint64_t seed, uint64_t dataset_version, bool in_order = false);

  size_t num_segments() const { return starts_.size() - 1; }
  // Ascending.
  absl::Span<const uint32_t> chunks(size_t segment) const {
    return absl::MakeConstSpan(chunks_).subspan(starts_[segment],
                                                starts_[segment + 1] - starts_[segment]);
  }
  // Of one segment after the other.
  absl::Span<const uint32_t> all_chunks() const { return chunks_; }
  uint64_t num_graphs(size_t segment) const { return num_graphs_[segment]; }
  uint64_t max_graphs() const;
  uint64_t bytes() const {
    return sizeof(uint32_t) * (chunks_.capacity() + starts_.capacity()) +
           sizeof(uint64_t) * num_graphs_.capacity();
  }

 private:
  std::vector<uint32_t> chunks_;
  std::vector<uint32_t> starts_;  // In chunks_, by segment, and their end.
  std::vector<uint64_t> num_graphs_;
};

// A batch of a segment, by its number in the segment's epoch.
struct SegmentBatch {
  uint32_t segment = 0;
  uint32_t batch = 0;

  friend bool operator==(const SegmentBatch&, const SegmentBatch&) = default;
};

// Batches [begin, end) of a segment, in the order that the epoch gives them.
struct SegmentPiece {
  uint32_t segment = 0;
  uint32_t begin = 0;
  uint32_t end = 0;

  friend bool operator==(const SegmentPiece&, const SegmentPiece&) = default;
};

// The pieces of each track of each rank group, as the epoch goes through them. Immutable;
// thread-safe. 20 bytes for each piece, of which a rank group has at most as many as there are
// segments and tracks together.
class TrackOrder {
 public:
  // `batches_of_segment` is by rank group, then segment, and may have zeros; `num_tracks` and
  // `num_rank_groups` are at least 1. With one segment and one track the seed changes nothing, nor
  // does it `in_order`. O((segments + tracks) * rank groups), and a logarithm.
  TrackOrder(absl::Span<const uint32_t> batches_of_segment, uint32_t num_tracks,
             const EpochSeed& seed, bool in_order = false, size_t num_rank_groups = 1);

  uint64_t num_batches() const { return first_batches_.back(); }
  uint32_t num_tracks() const { return num_tracks_; }
  // Equal to within one.
  uint64_t num_batches(uint32_t track, size_t rank_group = 0) const {
    const uint64_t all = first_batches_[rank_group + 1] - first_batches_[rank_group];
    return (all + num_tracks_ - 1 - track) / num_tracks_;
  }
  absl::Span<const SegmentPiece> pieces(uint32_t track, size_t rank_group = 0) const {
    const size_t sequence = rank_group * num_tracks_ + track;
    return absl::MakeConstSpan(pieces_).subspan(
        first_pieces_[sequence], first_pieces_[sequence + 1] - first_pieces_[sequence]);
  }

  // `batch` < num_batches(). O(log pieces).
  SegmentBatch At(uint64_t batch) const;
  // How many batches of the rank group come before its first one of a segment, in an order of one
  // track. O(segments).
  uint64_t Before(uint32_t segment, size_t rank_group) const;
  // The segments of the pieces that come after this batch's piece in its track, at most `count`.
  std::vector<uint32_t> After(uint64_t batch, size_t count) const;

  uint64_t bytes() const {
    return sizeof(SegmentPiece) * pieces_.capacity() + sizeof(uint64_t) * ends_.capacity() +
           sizeof(size_t) * first_pieces_.capacity();
  }

 private:
  // The track of its rank group that has a batch, the batch's piece, and its number in the track.
  struct Found {
    size_t sequence = 0;
    size_t piece = 0;
    uint64_t index = 0;
  };
  Found Find(uint64_t batch) const;

  const uint32_t num_tracks_;
  std::vector<uint64_t> first_batches_;  // By rank group, and their end.
  std::vector<SegmentPiece> pieces_;     // Track by track of one rank group after the other.
  std::vector<uint64_t> ends_;        // Batches of the track up to each piece, that one included.
  std::vector<size_t> first_pieces_;  // By rank group and track, and their end.
};

// How many of `count` draws fall into each segment, of which `weights` are the sums of what may be
// drawn there. With replacement, all draws are independent; without, weights are numbers of graphs,
// of which each is drawn once at most: `count` is no more than all. So a draw of that many in each
// segment has the law of one draw of all. `count` is 0 if all weights are. CANCELLED as `making`.
// O(count * log segments) expected.
absl::StatusOr<std::vector<uint64_t>> DrawShares(absl::Span<const uint64_t> weights, uint64_t count,
                                                 bool with_replacement, const EpochSeed& seed,
                                                 const Making& making);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENT_LAYOUT_H_
