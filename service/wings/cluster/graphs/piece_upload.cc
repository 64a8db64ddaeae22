#include "service/wings/cluster/graphs/piece_upload.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_manifest.h"

namespace packhouse {

absl::Status PieceUpload::CheckRoomOf(const ObjectStoreTotals& before) const {
  if (before.num_bytes <= options_.max_bytes &&
      num_bytes_ <= options_.max_bytes - before.num_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat(what_, ": ", num_bytes_, " bytes more than the ",
                                                   before.num_bytes, " in the store, max_bytes is ",
                                                   options_.max_bytes));
}

absl::Status PieceUpload::CheckRoom() const {
  if (options_.max_bytes == 0) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines_, {KeyRange::Of(kStoreTotalsKey)}));
  PH_ASSIGN_OR_RETURN(const ObjectStoreTotals totals, TotalsIn(read[0]));
  return CheckRoomOf(totals);
}

absl::StatusOr<PieceUpload::Begun> PieceUpload::Begin() const {
  const std::string value = EncodeUpload(words_);
  Begun begun;
  // A sweep sees that somebody goes on, or finds the key by it.
  const auto mark = [&] {
    return engines_.objects->Put(SourceGraphBegunObject(begun.objects), "", engines_.Deadline());
  };
  const auto next = [&](bool /*may_be_done*/) -> absl::StatusOr<std::optional<Transaction>> {
    KeyRange rest = KeyRange::Prefix(kSourceGraphUploads);
    while (true) {
      PH_ASSIGN_OR_RETURN(const auto read, ReadRanges(engines_, {rest}));
      for (const KeyValue& found : read[0].values) {
        if (found.value != value ||
            !ParseSourceGraphKey(found.key, kSourceGraphUploads, begun.objects)) {
          continue;
        }
        begun.create_revision = found.create_revision;
        PH_RETURN_IF_ERROR(mark());
        return std::nullopt;
      }
      if (!read[0].has_more) break;
      rest.begin = read[0].values.back().key + '\0';
    }
    begun.objects = engines_.draw();
    PH_RETURN_IF_ERROR(mark());
    return Transaction{{Compare::Absent(SourceGraphUploadKey(begun.objects))},
                       {Operation::Put(SourceGraphUploadKey(begun.objects), value)},
                       {}};
  };
  PH_RETURN_IF_ERROR(engines_.Change(
      what_, next, [&](const TransactionResult& done) { begun.create_revision = done.revision; }));
  return begun;
}

bool PieceUpload::AreThere(const Begun& begun,
                           const absl::flat_hash_set<std::string>& there) const {
  if (pieces_.objects != begun.objects || pieces_.crcs.size() * pieces_.piece_bytes < num_bytes_) {
    return false;
  }
  for (size_t i = 0; i < pieces_.crcs.size(); ++i) {
    if (!there.contains(SourceGraphPieceObject(begun.objects, i, pieces_.crcs[i]))) return false;
  }
  return true;
}

absl::Status PieceUpload::Put(
    const Begun& begun,
    absl::FunctionRef<absl::StatusOr<std::string>(uint64_t begin, uint64_t end)> bytes,
    absl::FunctionRef<bool(uint64_t done)> goes_on) {
  absl::flat_hash_set<std::string> there;
  std::string last;
  while (true) {
    PH_ASSIGN_OR_RETURN(
        const ObjectList list,
        engines_.objects->List(SourceGraphObjects(begun.objects), last, 0, engines_.Deadline()));
    for (const ObjectInfo& info : list.objects) there.insert(info.key);
    if (!list.has_more) break;
    last = list.objects.back().key;
  }
  if (AreThere(begun, there)) return absl::OkStatus();
  pieces_ = {begun.objects, num_bytes_, options_.piece_bytes, {}};
  num_old_bytes_ = 0;
  for (uint64_t at = 0; at < num_bytes_; at += options_.piece_bytes) {
    if (!goes_on(at)) return absl::CancelledError("given up");
    MemoryHold hold;
    if (engines_.memory != nullptr) {
      PH_ASSIGN_OR_RETURN(hold, engines_.memory->Hold("a piece of what is put into the store",
                                                      options_.piece_bytes));
    }
    PH_ASSIGN_OR_RETURN(const std::string piece,
                        bytes(at, std::min(at + options_.piece_bytes, num_bytes_)));
    const uint32_t crc = Crc32c(piece);
    const std::string name = SourceGraphPieceObject(begun.objects, pieces_.crcs.size(), crc);
    // Only whole objects are ever there, and the name says what is in it.
    if (there.contains(name)) {
      num_old_bytes_ += piece.size();
    } else {
      PH_RETURN_IF_ERROR(engines_.objects->Put(name, piece, engines_.Deadline()));
    }
    pieces_.crcs.push_back(crc);
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedManifestObject> PieceUpload::PutManifest(const Begun& begun,
                                                              absl::string_view manifest) const {
  const SharedManifestObject object = {begun.objects, manifest.size(), Crc32c(manifest)};
  PH_RETURN_IF_ERROR(engines_.objects->Put(SourceGraphManifestObject(object.objects, object.crc),
                                           manifest, engines_.Deadline()));
  return object;
}

absl::Status PieceUpload::AddTo(Transaction& transaction, const Begun& begun,
                                absl::string_view owner) const {
  transaction.compares.push_back(
      Compare::CreateRevision(SourceGraphUploadKey(begun.objects), begun.create_revision));
  transaction.then.push_back(Operation::Put(SourceGraphObjectsKey(begun.objects), owner));
  transaction.then.push_back(Operation::Delete(KeyRange::Of(SourceGraphUploadKey(begun.objects))));
  if (options_.max_bytes == 0) return absl::OkStatus();
  return ChangeTotals(engines_, transaction, [&](ObjectStoreTotals& totals) {
    absl::Status room = CheckRoomOf(totals);
    if (room.ok()) totals.num_bytes += num_bytes_;
    return room;
  });
}

absl::Status ReleasePieces(const ObjectEngines& engines, const PieceUpload::Options& options,
                           uint64_t objects, absl::string_view owner, uint64_t num_bytes,
                           Transaction& transaction) {
  transaction.then.push_back(Operation::Delete(KeyRange::Of(SourceGraphObjectsKey(objects))));
  transaction.then.push_back(Operation::Put(GoneSourceGraphKey(objects), owner));
  if (options.max_bytes == 0) return absl::OkStatus();
  return ChangeTotals(engines, transaction, [&](ObjectStoreTotals& totals) {
    totals.num_bytes -= std::min(num_bytes, totals.num_bytes);
    return absl::OkStatus();
  });
}

}  // namespace packhouse
