// Puts bytes into an object store in pieces, for one transaction that makes them somebody's.
#ifndef PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_PIECE_UPLOAD_H_
#define PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_PIECE_UPLOAD_H_

#include <cstdint>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"

namespace packhouse {

// One way into the store: Begin(), Put(), PutManifest(), then the caller's transaction with what
// AddTo() adds. One that was stopped is gone on with by the next one with the same words, also by
// another process: what is there is not sent again, unless nobody has gone on for so long that it
// was swept. Thread-compatible.
class PieceUpload {
 public:
  struct Options {
    uint64_t piece_bytes = uint64_t{64} << 20;
    // Of all that is in the store together; 0: no bound.
    uint64_t max_bytes = 0;
  };
  // Who puts pieces: a key that a sweep deletes before it deletes the pieces.
  struct Begun {
    uint64_t objects = 0;
    Revision create_revision = 0;
  };

  // What is passed must outlive it. `what` is put, in words: "source graph 'g'". `words` tell this
  // upload from others.
  PieceUpload(const ObjectEngines& engines, const Options& options, std::string what,
              SharedUpload words, uint64_t num_bytes)
      : engines_(engines),
        options_(options),
        what_(std::move(what)),
        words_(std::move(words)),
        num_bytes_(num_bytes) {}

  // RESOURCE_EXHAUSTED beyond the bound of the options, if there is one.
  absl::Status CheckRoom() const;
  // The upload that somebody has begun, or a new one.
  absl::StatusOr<Begun> Begin() const;
  // Puts the pieces that are not there. `bytes` gives [begin, end), ascending; `goes_on` is asked
  // before each piece: CANCELLED if it says no. What this has put before, all of which is still
  // there, is not read again: others may win the transaction many times.
  absl::Status Put(
      const Begun& begun,
      absl::FunctionRef<absl::StatusOr<std::string>(uint64_t begin, uint64_t end)> bytes,
      absl::FunctionRef<bool(uint64_t done)> goes_on);
  const SharedPieces& pieces() const { return pieces_; }
  // Of Put().
  uint64_t num_old_bytes() const { return num_old_bytes_; }
  absl::StatusOr<SharedManifestObject> PutManifest(const Begun& begun,
                                                   absl::string_view manifest) const;
  // By the transaction the pieces are `owner`'s. It fails if they were swept meanwhile. Errors as
  // CheckRoom().
  absl::Status AddTo(Transaction& transaction, const Begun& begun, absl::string_view owner) const;

 private:
  // Whether Put() has put all pieces, which are among the objects `there`.
  bool AreThere(const Begun& begun, const absl::flat_hash_set<std::string>& there) const;
  absl::Status CheckRoomOf(const ObjectStoreTotals& before) const;

  const ObjectEngines& engines_;
  const Options options_;
  const std::string what_;
  const SharedUpload words_;
  const uint64_t num_bytes_;
  SharedPieces pieces_;
  uint64_t num_old_bytes_ = 0;
};

// Adds to a transaction that `owner` has the objects, of so many bytes, no more: a sweep deletes
// them.
absl::Status ReleasePieces(const ObjectEngines& engines, const PieceUpload::Options& options,
                           uint64_t objects, absl::string_view owner, uint64_t num_bytes,
                           Transaction& transaction);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_CLUSTER_GRAPHS_PIECE_UPLOAD_H_
