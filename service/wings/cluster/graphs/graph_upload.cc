#include "service/wings/cluster/graphs/graph_upload.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {

GraphUpload::GraphUpload(const ObjectEngines& engines, const Options& options,
                         const SealedSourceGraph& from, std::string server)
    : engines_(engines),
      from_(from),
      server_(std::move(server)),
      places_(PlacesOf(from.manifest->arrays)),
      pieces_(engines_, options, absl::StrCat("source graph ", Quoted(from.definition.name)),
              {from.definition.name, from.manifest->version}, places_.num_bytes) {}

absl::StatusOr<std::string> GraphUpload::PieceAt(uint64_t begin, uint64_t end) const {
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

absl::StatusOr<Transaction> GraphUpload::End(const PieceUpload::Begun& begun,
                                             Revision name_revision) const {
  const std::string& name = from_.definition.name;
  SharedGraph graph;
  graph.definition = from_.definition;
  // The same for all who go on with this upload, so that all put the same manifest.
  if (server_.empty()) graph.definition.id = begun.objects;
  SharedGraphManifest manifest = {*from_.manifest, pieces_.pieces()};
  manifest.manifest.id = graph.definition.id;
  PH_ASSIGN_OR_RETURN(graph.object, pieces_.PutManifest(begun, EncodeSharedManifest(manifest)));
  graph.version = manifest.manifest.version;
  graph.num_nodes = manifest.manifest.num_nodes;
  graph.num_edges = manifest.manifest.num_edges;
  graph.num_bytes = places_.num_bytes;
  Transaction transaction;
  transaction.compares.push_back(Compare::ModRevision(SourceGraphNameKey(name), name_revision));
  transaction.then.push_back(Operation::Put(SourceGraphNameKey(name), EncodeSharedGraph(graph)));
  PH_RETURN_IF_ERROR(pieces_.AddTo(transaction, begun, name));
  return transaction;
}

absl::StatusOr<SourceGraphCopy> GraphUpload::Run(Progress progress) {
  const std::string& name = from_.definition.name;
  SourceGraphCopy copy = {places_.num_bytes, 0};
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(const auto read,
                        ReadRanges(engines_, {KeyRange::Of(SourceGraphNameKey(name))}));
    Revision name_revision = 0;
    if (!read[0].values.empty()) {
      PH_ASSIGN_OR_RETURN(const SharedGraph there,
                          DecodeSharedGraph(name, read[0].values[0].value));
      if (there.is_sealed() && there.version == from_.manifest->version) {
        if (!may_be_done) copy.num_old_bytes = copy.num_bytes;
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
    PH_RETURN_IF_ERROR(pieces_.CheckRoom());
    PH_ASSIGN_OR_RETURN(const PieceUpload::Begun begun, pieces_.Begin());
    PH_RETURN_IF_ERROR(pieces_.Put(
        begun, [this](uint64_t from, uint64_t to) { return PieceAt(from, to); },
        [&](uint64_t done) {
          return progress({done, places_.num_bytes});
        }));
    copy.num_old_bytes = pieces_.num_old_bytes();
    PH_ASSIGN_OR_RETURN(Transaction transaction, End(begun, name_revision));
    return transaction;
  };
  PH_RETURN_IF_ERROR(engines_.Change(absl::StrCat("source graph ", Quoted(name)), next));
  return copy;
}

}  // namespace packhouse
