#include "service/wings/cluster/graphs/piece_reader.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/chunk_fetcher.h"
#include "service/wings/cluster/datasets/helping_threads.h"

namespace packhouse {

uint64_t PieceReader::BytesOf(const SharedPieces& pieces, size_t piece) const {
  return std::min(pieces.piece_bytes, pieces.num_bytes - piece * pieces.piece_bytes);
}

absl::StatusOr<std::shared_ptr<const MappedObject>> PieceReader::Fetch(const SharedPieces& pieces,
                                                                       size_t piece,
                                                                       bool cached) const {
  const uint32_t crc = pieces.crcs[piece];
  const ChunkCache::Object object = {
      absl::StrCat("g", absl::Hex(pieces.objects, absl::kZeroPad16), "-", piece),
      BytesOf(pieces, piece), crc};
  return FetchObject(engines_, *cache_, SourceGraphPieceObject(pieces.objects, piece, crc), object,
                     cached);
}

absl::Status PieceReader::CheckFits(absl::string_view what, uint64_t num_bytes) const {
  if (num_bytes <= max_cache_bytes_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      what, " has ", num_bytes,
      " bytes, which must be in the cache of this server to be read: its bound (--cache-bytes) is ",
      max_cache_bytes_));
}

absl::StatusOr<std::shared_ptr<const JoinedObjects>> PieceReader::Join(const SharedPieces& pieces,
                                                                       uint64_t begin,
                                                                       uint64_t end) const {
  const size_t first = begin / pieces.piece_bytes;
  const size_t last = (end + pieces.piece_bytes - 1) / pieces.piece_bytes;
  JoinedObjects::Objects fetched(begin < end ? last - first : 0);
  std::vector<absl::Status> failures(fetched.size());
  std::atomic<size_t> next = 0;
  std::atomic<bool> has_failed = false;
  WorkTogether(std::min(at_once_, fetched.size()), [&] {
    for (size_t i = next++; i < fetched.size() && !has_failed; i = next++) {
      const auto fetch = [&] {
        auto piece = Fetch(pieces, first + i, /*cached=*/true);
        failures[i] = piece.status();
        if (piece.ok()) fetched[i] = *std::move(piece);
      };
      if (!RunWithinMemory(fetch)) failures[i] = OutOfMemory();
      if (!failures[i].ok()) has_failed = true;
    }
  });
  for (const absl::Status& failure : failures) PH_RETURN_IF_ERROR(failure);
  return JoinedObjects::Join(std::move(fetched), *cache_);
}

absl::StatusOr<std::string> PieceReader::ReadManifest(const SharedManifestObject& object) const {
  return ReadWholeObject(engines_, SourceGraphManifestObject(object.objects, object.crc),
                         object.num_bytes, object.crc);
}

absl::StatusOr<std::shared_ptr<const MappedObject>> PieceReader::FetchManifest(
    const SharedManifestObject& object) const {
  const ChunkCache::Object cached = {
      absl::StrCat("g", absl::Hex(object.objects, absl::kZeroPad16), "-m"), object.num_bytes,
      object.crc};
  return FetchObject(engines_, *cache_, SourceGraphManifestObject(object.objects, object.crc),
                     cached, /*cached=*/true);
}

}  // namespace packhouse
