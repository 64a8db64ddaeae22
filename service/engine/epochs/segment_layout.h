// The arithmetic of epochs in segments: which chunks make a segment, and which batch of which
// segment a batch of the epoch is. No graphs, no memory for them.
//
// DrawSegments() draws the chunks of each segment from the seed and the data set's version.
// SegmentTracks lays the batches of all segments one behind the other and cuts this line into
// tracks of equal lengths; a segment that a cut goes through belongs to two tracks. Neither depends
// on the epoch. TrackOrder is one epoch's: it permutes the pieces of segments within each track.
// Batch b of the epoch is number b / T of track b % T. Of an epoch in order, segments are
// consecutive chunks, and come one after the other.
#ifndef PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENT_LAYOUT_H_
#define PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENT_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "service/engine/epochs/epoch_seed.h"

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

// A batch of a segment.
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

// The pieces of each track, as the epoch goes through them. Immutable; thread-safe. 20 bytes for
// each piece, of which there are at most as many as segments and tracks together.
class TrackOrder {
 public:
  // `batches_of_segment` may have zeros; `num_tracks` is at least 1. With one segment and one track
  // the seed changes nothing, nor does it `in_order`. O(segments + tracks).
  TrackOrder(absl::Span<const uint32_t> batches_of_segment, uint32_t num_tracks,
             const EpochSeed& seed, bool in_order = false);

  uint64_t num_batches() const { return num_batches_; }
  uint32_t num_tracks() const { return static_cast<uint32_t>(first_pieces_.size() - 1); }
  // Equal to within one.
  uint64_t num_batches(uint32_t track) const {
    return (num_batches_ + num_tracks() - 1 - track) / num_tracks();
  }
  absl::Span<const SegmentPiece> pieces(uint32_t track) const {
    return absl::MakeConstSpan(pieces_).subspan(first_pieces_[track],
                                                first_pieces_[track + 1] - first_pieces_[track]);
  }

  // `batch` < num_batches(). O(log pieces).
  SegmentBatch At(uint64_t batch) const;
  // How many batches come before the first one of a segment, in an order of one track. O(segments).
  uint64_t Before(uint32_t segment) const;
  // The segments of the pieces that come after this batch's piece in its track, at most `count`.
  std::vector<uint32_t> After(uint64_t batch, size_t count) const;

  uint64_t bytes() const {
    return sizeof(SegmentPiece) * pieces_.capacity() + sizeof(uint64_t) * ends_.capacity() +
           sizeof(size_t) * first_pieces_.capacity();
  }

 private:
  // The number of a batch's piece in pieces_, and the batch's number in its track.
  size_t PieceOf(uint64_t batch, uint64_t& index) const;

  uint64_t num_batches_ = 0;
  std::vector<SegmentPiece> pieces_;  // Track by track.
  std::vector<uint64_t> ends_;        // Batches of the track up to each piece, that one included.
  std::vector<size_t> first_pieces_;  // By track, and their end.
};

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_ENGINE_EPOCHS_SEGMENT_LAYOUT_H_
