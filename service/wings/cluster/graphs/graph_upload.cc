#include "service/wings/cluster/graphs/graph_upload.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/cluster/datasets/object_manifest.h"

namespace packhouse {

GraphUpload::GraphUpload(const ObjectEngines& engines, const Options& options,
                         const SealedSourceGraph& from, std::string server)
    : engines_(engines),
      options_(options),
      from_(from),
      server_(std::move(server)),
      places_(PlacesOf(from.manifest->arrays)) {
  manifest_.manifest = *from.manifest;
  manifest_.piece_bytes = options.piece_bytes;
  copy_.num_bytes = places_.num_bytes;
}

absl::Status GraphUpload::CheckRoom(const ObjectStoreTotals& before) const {
  if (before.num_bytes <= options_.max_bytes &&
      copy_.num_bytes <= options_.max_bytes - before.num_bytes) {
    return absl::OkStatus();
  }
  return absl::ResourceExhaustedError(absl::StrCat("source graph ", Quoted(from_.definition.name),
                                                   ": ", copy_.num_bytes, " bytes more than the ",
                                                   before.num_bytes, " in the store, max_bytes is ",
                                                   options_.max_bytes));
}

absl::StatusOr<GraphUpload::Begun> GraphUpload::Begin() {
  const SharedGraphUpload wanted = {from_.definition.name, from_.manifest->version};
  const std::string value = EncodeGraphUpload(wanted);
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
      absl::StrCat("source graph ", Quoted(from_.definition.name)), next,
      [&](const TransactionResult& done) { begun.create_revision = done.revision; }));
  return begun;
}

absl::StatusOr<std::string> GraphUpload::PieceAt(uint64_t begin) const {
  const uint64_t end = std::min(begin + options_.piece_bytes, places_.num_bytes);
  std::string piece(end - begin, '\0');
  for (size_t a = 0; a < places_.offsets.size(); ++a) {
    const ArrayInfo& array = from_.manifest->arrays[a];
    const uint64_t first = places_.offsets[a];
    if (array.bytes == 0 || first >= end || first + array.bytes <= begin) continue;
    const absl::string_view bytes = from_.graph->array(array.name);
    const uint64_t from = std::max(begin, first) - first;
    const uint64_t to = std::min(end, first + array.bytes) - first;
    std::memcpy(piece.data() + (first + from - begin), bytes.data() + from, to - from);
    // Blocks that begin here; what a block has beyond the piece is read twice.
    uint64_t block = (from + ArrayInfo::kBlockBytes - 1) / ArrayInfo::kBlockBytes;
    for (; block * ArrayInfo::kBlockBytes < to; ++block) {
      const uint64_t at = block * ArrayInfo::kBlockBytes;
      if (Crc32c(bytes.substr(at, ArrayInfo::kBlockBytes)) == array.block_crcs[block]) continue;
      return absl::DataLossError(absl::StrCat(
          "source graph ", Quoted(from_.definition.name), ": array ", array.name, ", bytes ", at,
          " to ", std::min(at + ArrayInfo::kBlockBytes, array.bytes), " fail their checksum"));
    }
  }
  return piece;
}

absl::Status GraphUpload::PutPieces(uint64_t objects, Progress progress) {
  absl::flat_hash_set<std::string> there;
  std::string last;
  while (true) {
    PH_ASSIGN_OR_RETURN(
        const ObjectList list,
        engines_.objects->List(SourceGraphObjects(objects), last, 0, engines_.Deadline()));
    for (const ObjectInfo& info : list.objects) there.insert(info.key);
    if (!list.has_more) break;
    last = list.objects.back().key;
  }
  manifest_.piece_crcs.clear();
  copy_.num_old_bytes = 0;
  SourceGraphProgress now = {0, places_.num_bytes};
  for (uint64_t at = 0; at < places_.num_bytes; at += options_.piece_bytes) {
    if (!progress(now)) return absl::CancelledError("given up");
    MemoryHold hold;
    if (engines_.memory != nullptr) {
      PH_ASSIGN_OR_RETURN(hold,
                          engines_.memory->Hold("a piece of a source graph", options_.piece_bytes));
    }
    PH_ASSIGN_OR_RETURN(const std::string piece, PieceAt(at));
    const uint32_t crc = Crc32c(piece);
    const std::string name = SourceGraphPieceObject(objects, manifest_.piece_crcs.size(), crc);
    // Only whole objects are ever there, and the name says what is in it.
    if (there.contains(name)) {
      copy_.num_old_bytes += piece.size();
    } else {
      PH_RETURN_IF_ERROR(engines_.objects->Put(name, piece, engines_.Deadline()));
    }
    manifest_.piece_crcs.push_back(crc);
    now.done += piece.size();
  }
  return absl::OkStatus();
}

absl::StatusOr<Transaction> GraphUpload::End(const Begun& begun, Revision name_revision) const {
  const std::string& name = from_.definition.name;
  SharedGraph graph;
  graph.definition = from_.definition;
  // The same for all who go on with this upload, so that all put the same manifest.
  if (server_.empty()) graph.definition.id = begun.objects;
  SharedGraphManifest manifest = manifest_;
  manifest.manifest.id = graph.definition.id;
  const std::string object = EncodeSharedManifest(manifest);
  const uint32_t crc = Crc32c(object);
  PH_RETURN_IF_ERROR(engines_.objects->Put(SourceGraphManifestObject(begun.objects, crc), object,
                                           engines_.Deadline()));
  graph.version = manifest.manifest.version;
  graph.num_nodes = manifest.manifest.num_nodes;
  graph.num_edges = manifest.manifest.num_edges;
  graph.num_bytes = places_.num_bytes;
  graph.objects = begun.objects;
  graph.manifest_bytes = object.size();
  graph.manifest_crc = crc;
  Transaction transaction;
  transaction.compares.push_back(Compare::ModRevision(SourceGraphNameKey(name), name_revision));
  transaction.compares.push_back(
      Compare::CreateRevision(SourceGraphUploadKey(begun.objects), begun.create_revision));
  transaction.then.push_back(Operation::Put(SourceGraphNameKey(name), EncodeSharedGraph(graph)));
  transaction.then.push_back(Operation::Put(SourceGraphObjectsKey(begun.objects), name));
  transaction.then.push_back(Operation::Delete(KeyRange::Of(SourceGraphUploadKey(begun.objects))));
  if (options_.max_bytes != 0) {
    PH_RETURN_IF_ERROR(ChangeTotals(engines_, transaction, [&](ObjectStoreTotals& totals) {
      absl::Status room = CheckRoom(totals);
      if (room.ok()) totals.num_bytes += graph.num_bytes;
      return room;
    }));
  }
  return transaction;
}

absl::StatusOr<SourceGraphCopy> GraphUpload::Run(Progress progress) {
  const std::string& name = from_.definition.name;
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(const auto read,
                        ReadRanges(engines_, {KeyRange::Of(SourceGraphNameKey(name)),
                                              KeyRange::Of(kStoreTotalsKey)}));
    Revision name_revision = 0;
    if (!read[0].values.empty()) {
      PH_ASSIGN_OR_RETURN(const SharedGraph there,
                          DecodeSharedGraph(name, read[0].values[0].value));
      if (there.is_sealed() && there.version == from_.manifest->version) {
        if (!may_be_done) copy_.num_old_bytes = copy_.num_bytes;
        return std::nullopt;
      }
      const bool is_built =
          !server_.empty() && there.server == server_ && there.definition.id == from_.definition.id;
      if (!is_built && !server_.empty()) {
        return absl::NotFoundError(absl::StrCat("source graph ", Quoted(name), ": was deleted"));
      }
      if (!is_built) {
        return absl::AlreadyExistsError(
            absl::StrCat("source graph ", Quoted(name), ": there is another one already"));
      }
      name_revision = read[0].values[0].mod_revision;
    } else if (!server_.empty()) {
      return absl::NotFoundError(absl::StrCat("source graph ", Quoted(name), ": was deleted"));
    }
    if (options_.max_bytes != 0) {
      PH_ASSIGN_OR_RETURN(const ObjectStoreTotals totals, TotalsIn(read[1]));
      PH_RETURN_IF_ERROR(CheckRoom(totals));
    }
    PH_ASSIGN_OR_RETURN(const Begun begun, Begin());
    PH_RETURN_IF_ERROR(PutPieces(begun.objects, progress));
    PH_ASSIGN_OR_RETURN(Transaction transaction, End(begun, name_revision));
    return transaction;
  };
  PH_RETURN_IF_ERROR(engines_.Change(absl::StrCat("source graph ", Quoted(name)), next));
  return copy_;
}

}  // namespace packhouse
