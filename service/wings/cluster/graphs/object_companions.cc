#include "service/wings/cluster/graphs/object_companions.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

std::string WhatIs(const CompanionGraph& graph, absl::string_view name) {
  return absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph.name));
}
std::string WhatIs(const SharedCompanion& companion) {
  return WhatIs(companion.graph, companion.name);
}

absl::Status NoSuchGraph(const CompanionGraph& graph) {
  return absl::NotFoundError(absl::StrCat("source graph ", Quoted(graph.name), ": there is none"));
}

absl::Status NoSuchCompanion(const CompanionGraph& graph, absl::string_view name) {
  return absl::NotFoundError(absl::StrCat(WhatIs(graph, name), ": there is none"));
}

absl::Status IsAnothers(const SharedCompanion& companion) {
  return absl::AbortedError(absl::StrCat(WhatIs(companion), ": another server has changed it"));
}

// The files of a folder, as their places are, read once from the beginning.
class FilesInOrder {
 public:
  FilesInOrder(const std::string& folder, const std::vector<CompanionFile>& files)
      : folder_(folder), files_(files), places_(PlacesOf(files)) {}

  // The next bytes. DATA_LOSS naming a file that is not as it was noted.
  absl::StatusOr<std::string> Read(uint64_t begin, uint64_t end) {
    std::string bytes(end - begin, '\0');
    for (; at_ < files_.size() && places_.offsets[at_] < end; ++at_, crc_ = 0) {
      const CompanionFile& file = files_[at_];
      const uint64_t first = places_.offsets[at_];
      const uint64_t from = std::max(begin, first);
      const uint64_t to = std::max(from, std::min(end, first + file.num_bytes));
      PH_ASSIGN_OR_RETURN(
          const DiskFile opened,
          DiskFile::Open(absl::StrCat(folder_, "/", file.path), DiskFile::Mode::kRead));
      char* const into = bytes.data() + (from - begin);
      PH_ASSIGN_OR_RETURN(const size_t got, opened.ReadAt(from - first, into, to - from));
      crc_ = Crc32c(absl::string_view(into, got), crc_);
      const bool is_over = first + file.num_bytes <= end;
      if (got != to - from || (is_over && crc_ != file.crc32c)) {
        return absl::DataLossError(
            absl::StrCat(folder_, "/", file.path, " is not what was written"));
      }
      if (!is_over) break;
    }
    return bytes;
  }

 private:
  const std::string& folder_;
  const std::vector<CompanionFile>& files_;
  const ArrayPlaces places_;
  size_t at_ = 0;
  uint32_t crc_ = 0;  // Of what was read of the file.
};

}  // namespace

SharedCompanion ObjectCompanions::Shown(SharedCompanion companion) const {
  companion.server_lives =
      companion.server == options_.server || !options_.lives || options_.lives(companion.server);
  return companion;
}

absl::StatusOr<ObjectCompanions::Found> ObjectCompanions::Read(const CompanionGraph& graph,
                                                               absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const auto read,
                      ReadRanges(engines_, {KeyRange::Of(SourceGraphNameKey(graph.name)),
                                            KeyRange::Of(CompanionKey(graph.id, name)),
                                            KeyRange::Of(CompanionProgressKey(graph.id, name))}));
  Found found;
  if (!read[0].values.empty()) {
    found.graph_revision = read[0].values[0].mod_revision;
    PH_ASSIGN_OR_RETURN(const SharedGraph there,
                        DecodeSharedGraph(graph.name, read[0].values[0].value));
    found.has_graph = there.is_sealed() && there.definition.id == graph.id;
  }
  if (read[1].values.empty()) return found;
  found.key = read[1].values[0];
  found.stored = DecodeCompanion(*found.key);
  if (found.stored.ok() && !read[2].values.empty()) {
    found.stored->companion.progress = read[2].values[0].value;
  }
  return found;
}

absl::StatusOr<SharedCompanion> ObjectCompanions::Find(const CompanionGraph& graph,
                                                       absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const Found found, Read(graph, name));
  if (!found.has_graph) return NoSuchGraph(graph);
  if (!found.key) return NoSuchCompanion(graph, name);
  PH_RETURN_IF_ERROR(found.stored.status());
  return Shown(found.stored->companion);
}

absl::StatusOr<std::vector<SharedCompanion>> ObjectCompanions::ListOf(
    absl::string_view prefix) const {
  PH_ASSIGN_OR_RETURN(const std::vector<KeyValue> keys,
                      ReadWholeRange(engines_, KeyRange::Prefix(prefix), 0));
  std::vector<SharedCompanion> list;
  for (const KeyValue& key : keys) {
    auto stored = DecodeCompanion(key);
    if (absl::IsDataLoss(stored.status())) {
      // Who looks for it is told so.
      stored = StoredCompanion();
      stored->companion.name = NameInCompanionKey(key.key);
    }
    PH_RETURN_IF_ERROR(stored.status());
    list.push_back(Shown(std::move(stored->companion)));
  }
  return list;
}

absl::StatusOr<std::vector<SharedCompanion>> ObjectCompanions::List(
    const CompanionGraph& graph) const {
  return ListOf(CompanionKey(graph.id, ""));
}

absl::StatusOr<std::vector<SharedCompanion>> ObjectCompanions::ListAll() const {
  return ListOf(kCompanions);
}

absl::StatusOr<Transaction> ObjectCompanions::Changing(const SharedCompanion& wanted,
                                                       const Found& now,
                                                       const StoredCompanion& into) const {
  const CompanionGraph& graph = wanted.graph;
  if (!now.has_graph) return NoSuchGraph(graph);
  if (!now.key && wanted.revision != 0) return NoSuchCompanion(graph, wanted.name);
  PH_RETURN_IF_ERROR(now.stored.status());
  if (now.revision() != wanted.revision || now.stored->companion.is_whole) {
    return IsAnothers(wanted);
  }
  const std::string key = CompanionKey(graph.id, wanted.name);
  Transaction transaction;
  transaction.compares.push_back(Compare::ModRevision(key, wanted.revision));
  transaction.compares.push_back(
      Compare::ModRevision(SourceGraphNameKey(graph.name), now.graph_revision));
  transaction.then.push_back(Operation::Put(key, EncodeCompanion(into)));
  transaction.then.push_back(
      Operation::Delete(KeyRange::Of(CompanionProgressKey(graph.id, wanted.name))));
  return transaction;
}

absl::StatusOr<uint64_t> ObjectCompanions::Put(const SharedCompanion& wanted) {
  uint64_t revision = 0;
  StoredCompanion into;
  into.companion.graph = wanted.graph;
  into.companion.state = wanted.state;
  into.companion.server = wanted.server;
  const std::string value = EncodeCompanion(into);
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(const Found now, Read(wanted.graph, wanted.name));
    // It is this call's own, whose answer was lost.
    if (may_be_done && now.has_graph && now.revision() > wanted.revision &&
        now.key->value == value) {
      revision = now.revision();
      return std::nullopt;
    }
    return Changing(wanted, now, into);
  };
  PH_RETURN_IF_ERROR(engines_.Change(
      WhatIs(wanted), next, [&](const TransactionResult& done) { revision = done.revision; }));
  return revision;
}

absl::Status ObjectCompanions::Tell(const SharedCompanion& claimed, absl::string_view progress) {
  Transaction transaction;
  transaction.compares.push_back(
      Compare::ModRevision(CompanionKey(claimed.graph.id, claimed.name), claimed.revision));
  transaction.then.push_back(
      Operation::Put(CompanionProgressKey(claimed.graph.id, claimed.name), progress));
  const auto result = engines_.keys->Commit(transaction);
  if (!result.ok()) return AsUnavailable(result.status());
  return result->succeeded ? absl::OkStatus() : IsAnothers(claimed);
}

absl::Status ObjectCompanions::Upload(const SharedCompanion& claimed, const std::string& folder,
                                      const CompanionContents& contents,
                                      absl::FunctionRef<bool()> goes_on) {
  const std::string key = CompanionKey(claimed.graph.id, claimed.name);
  PieceUpload upload(engines_, options_.upload, WhatIs(claimed), {key, claimed.revision},
                     PlacesOf(contents.files).num_bytes);
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(const Found now, Read(claimed.graph, claimed.name));
    if (may_be_done && now.has_graph && now.key && now.stored.ok() &&
        now.stored->companion.is_whole && now.stored->companion.state == claimed.state) {
      return std::nullopt;
    }
    StoredCompanion into;
    into.companion = claimed;
    // Whoever has lost the claim puts nothing.
    PH_RETURN_IF_ERROR(Changing(claimed, now, into).status());
    PH_RETURN_IF_ERROR(upload.CheckRoom());
    PH_ASSIGN_OR_RETURN(const PieceUpload::Begun begun, upload.Begin());
    FilesInOrder files(folder, contents.files);
    PH_RETURN_IF_ERROR(upload.Put(
        begun, [&](uint64_t from, uint64_t to) { return files.Read(from, to); },
        [&](uint64_t /*done*/) { return goes_on(); }));
    PH_ASSIGN_OR_RETURN(
        into.object,
        upload.PutManifest(begun, EncodeCompanionManifest({contents, upload.pieces()})));
    into.companion.num_bytes = upload.pieces().num_bytes;
    PH_ASSIGN_OR_RETURN(Transaction transaction, Changing(claimed, now, into));
    PH_RETURN_IF_ERROR(upload.AddTo(transaction, begun, key));
    return transaction;
  };
  return engines_.Change(WhatIs(claimed), next);
}

absl::Status ObjectCompanions::Remove(const CompanionGraph& graph, absl::string_view name,
                                      bool of_gone_graph) {
  const std::string key = CompanionKey(graph.id, name);
  Revision created = 0;
  const auto next = [&](bool may_be_done) -> absl::StatusOr<std::optional<Transaction>> {
    PH_ASSIGN_OR_RETURN(const Found now, Read(graph, name));
    if (of_gone_graph && now.has_graph) return std::nullopt;
    if (!now.key || (!of_gone_graph && !now.has_graph)) {
      if (may_be_done || of_gone_graph) return std::nullopt;
      return now.has_graph ? NoSuchCompanion(graph, name) : NoSuchGraph(graph);
    }
    // The one that had the name when this began: not one that has taken it since.
    if (std::exchange(created, now.key->create_revision) != now.key->create_revision &&
        may_be_done) {
      return std::nullopt;
    }
    Transaction transaction;
    transaction.compares.push_back(Compare::ModRevision(key, now.revision()));
    transaction.compares.push_back(
        Compare::ModRevision(SourceGraphNameKey(graph.name), now.graph_revision));
    transaction.then.push_back(Operation::Delete(KeyRange::Of(key)));
    transaction.then.push_back(
        Operation::Delete(KeyRange::Of(CompanionProgressKey(graph.id, name))));
    // Of one that is damaged nobody knows the objects: a check names them.
    if (now.stored.ok() && now.stored->companion.is_whole) {
      PH_RETURN_IF_ERROR(ReleasePieces(engines_, options_.upload, now.stored->object.objects, key,
                                       now.stored->companion.num_bytes, transaction));
    }
    return transaction;
  };
  return engines_.Change(WhatIs(graph, name), next);
}

absl::Status ObjectCompanions::Delete(const CompanionGraph& graph, absl::string_view name) {
  return Remove(graph, name, /*of_gone_graph=*/false);
}

absl::Status ObjectCompanions::RemoveGone() {
  PH_ASSIGN_OR_RETURN(const std::vector<SharedCompanion> all, ListAll());
  absl::Status first_failure;
  std::map<uint64_t, bool> has_graph;
  for (const SharedCompanion& companion : all) {
    const CompanionGraph& graph = companion.graph;
    if (graph.name.empty()) continue;  // Damaged.
    const auto [known, is_new] = has_graph.try_emplace(graph.id, true);
    if (is_new) {
      const auto found = Read(graph, companion.name);
      first_failure.Update(found.status());
      if (found.ok()) known->second = found->has_graph;
    }
    if (!known->second) {
      first_failure.Update(Remove(graph, companion.name, /*of_gone_graph=*/true));
    }
  }
  return first_failure;
}

absl::Status ObjectCompanions::Explained(const SharedCompanion& companion,
                                         const absl::Status& status) const {
  if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
  const auto now = Find(companion.graph, companion.name);
  // Not known as long as nobody can say whether it is there.
  if (!now.ok()) return now.status();
  if (now->revision != companion.revision) return NoSuchCompanion(companion.graph, companion.name);
  return absl::DataLossError(absl::StrCat(WhatIs(companion), ": ", status.message()));
}

absl::StatusOr<SharedCompanionManifest> ObjectCompanions::ManifestIn(const StoredCompanion& stored,
                                                                     absl::string_view bytes) {
  PH_ASSIGN_OR_RETURN(SharedCompanionManifest manifest,
                      DecodeCompanionManifest(stored.companion.name, bytes));
  if (manifest.pieces.num_bytes != stored.companion.num_bytes) {
    return absl::DataLossError("its manifest is that of another one");
  }
  manifest.pieces.objects = stored.object.objects;
  return manifest;
}

absl::StatusOr<SharedCompanionManifest> ObjectCompanions::ManifestOf(
    const SharedCompanion& companion) const {
  PH_ASSIGN_OR_RETURN(const Found now, Read(companion.graph, companion.name));
  if (!now.has_graph || now.revision() != companion.revision) {
    return NoSuchCompanion(companion.graph, companion.name);
  }
  PH_RETURN_IF_ERROR(now.stored.status());
  const auto bytes = pieces_.FetchManifest(now.stored->object);
  if (!bytes.ok()) return Explained(companion, bytes.status());
  auto manifest = ManifestIn(*now.stored, (*bytes)->bytes());
  return manifest.ok() ? std::move(manifest) : Explained(companion, manifest.status());
}

absl::StatusOr<CompanionContents> ObjectCompanions::ContentsOf(
    const SharedCompanion& companion) const {
  PH_ASSIGN_OR_RETURN(SharedCompanionManifest manifest, ManifestOf(companion));
  return std::move(manifest.contents);
}

absl::StatusOr<OwnedBytes> ObjectCompanions::Map(const SharedCompanion& companion,
                                                 absl::string_view path, uint64_t offset,
                                                 uint64_t max_bytes) const {
  PH_ASSIGN_OR_RETURN(const SharedCompanionManifest manifest, ManifestOf(companion));
  const std::vector<CompanionFile>& files = manifest.contents.files;
  const auto file = std::find_if(files.begin(), files.end(),
                                 [&](const CompanionFile& each) { return each.path == path; });
  if (file == files.end()) {
    return absl::NotFoundError(absl::StrCat(WhatIs(companion), " has no file ", Quoted(path)));
  }
  const uint64_t from = std::min(offset, file->num_bytes);
  const uint64_t num_bytes = std::min(max_bytes, file->num_bytes - from);
  PH_RETURN_IF_ERROR(pieces_.CheckFits(WhatIs(companion), num_bytes));
  const uint64_t begin = PlacesOf(files).offsets[file - files.begin()] + from;
  auto joined = pieces_.Join(manifest.pieces, begin, begin + num_bytes);
  if (!joined.ok()) return Explained(companion, joined.status());
  const uint64_t before = begin % manifest.pieces.piece_bytes;
  const absl::string_view bytes =
      num_bytes == 0 ? "" : (*joined)->bytes().substr(before, num_bytes);
  return OwnedBytes{bytes, file->num_bytes, *joined};
}

absl::Status ObjectCompanions::Verify(const StoredCompanion& stored) const {
  const SharedCompanion& companion = stored.companion;
  const auto bytes = pieces_.ReadManifest(stored.object);
  if (!bytes.ok()) return Explained(companion, bytes.status());
  const auto manifest = ManifestIn(stored, *bytes);
  if (!manifest.ok()) return Explained(companion, manifest.status());
  for (size_t i = 0; i < manifest->pieces.crcs.size(); ++i) {
    const auto piece = pieces_.Fetch(manifest->pieces, i, /*cached=*/false);
    if (!piece.ok()) return Explained(companion, piece.status());
  }
  return absl::OkStatus();
}

}  // namespace packhouse
