#include "service/program/wings/cluster_snapshot.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/program/data_folder/snapshot.h"
#include "service/program/data_folder/snapshot_writer.h"
#include "service/program/data_folder/value_file.h"
#include "service/stores/keys/cluster_life.h"
#include "service/stores/keys/key_value_store.h"
#include "service/wings/cluster/datasets/object_values.h"
#include "service/wings/cluster/datasets/store_identity.h"
#include "service/wings/cluster/graphs/shared_graph_values.h"

namespace packhouse {
namespace {

constexpr absl::string_view kObjectsFolder = "cluster/objects/";
// As long as sweeps wait for a snapshot that was killed.
constexpr absl::Duration kHold = absl::Minutes(2);
constexpr absl::Duration kKeepPeriod = absl::Seconds(5);
// Of one answer: keys, and about how many bytes. Entries of logs have up to 1 MiB each.
constexpr size_t kMaxPage = 64;
constexpr uint64_t kPageBytes = uint64_t{3} << 20;
// Of all keys, of which the revision is compacted before the last page is read.
constexpr int kReadings = 10;
// Of one transaction.
constexpr size_t kPutsAtOnce = 100;
constexpr size_t kBytesAtOnce = size_t{1} << 20;
// Before the digest of the snapshot, in the key of the life.
constexpr absl::string_view kRestoring = "restoring ";

// All keys: none begins with another byte.
KeyRange AllKeys() { return {"!", "~"}; }

bool MayBeTriedAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || OutcomeIsUnknown(status);
}

// Keeps sweeps away.
class Hold {
 public:
  // `engines` must outlive it.
  static absl::StatusOr<Hold> Take(const ObjectEngines& engines) {
    const auto lease = engines.keys->GrantLease(kHold);
    if (!lease.ok()) return AsUnavailable(lease.status());
    Hold hold(&engines, lease->id);
    const auto taken = engines.keys->Commit(
        {{Compare::Absent(kSnapshotKey)}, {Operation::Put(kSnapshotKey, "", lease->id)}, {}});
    if (!taken.ok()) return AsUnavailable(taken.status());
    if (taken->succeeded) return hold;
    return absl::UnavailableError(
        absl::StrCat("another snapshot is being taken, or was stopped less than ",
                     absl::FormatDuration(kHold), " ago"));
  }
  ~Hold() {
    if (lease_ != 0) engines_->keys->RevokeLease(lease_).IgnoreError();
  }
  Hold(Hold&& other) noexcept
      : engines_(other.engines_),
        lease_(std::exchange(other.lease_, 0)),
        next_keep_(other.next_keep_) {}
  Hold& operator=(Hold&&) = delete;

  // An error if sweeps may have begun again.
  absl::Status Keep() const {
    for (int failures = 0;; ++failures) {
      const absl::Status kept = engines_->keys->KeepAlive(lease_).status();
      if (absl::IsNotFound(kept)) return Lost();
      if (!MayBeTriedAgain(kept) || failures >= engines_->max_attempts) return AsUnavailable(kept);
      engines_->BackOff(failures);
    }
  }
  // Once in a while. Whether it was kept all the time, the last Keep() tells.
  absl::Status KeepOn() {
    const absl::Time now = engines_->clock->Now();
    if (now < next_keep_) return absl::OkStatus();
    next_keep_ = now + kKeepPeriod;
    return absl::IsNotFound(engines_->keys->KeepAlive(lease_).status()) ? Lost() : absl::OkStatus();
  }

 private:
  Hold(const ObjectEngines* engines, LeaseId lease)
      : engines_(engines), lease_(lease), next_keep_(engines->clock->Now() + kKeepPeriod) {}
  static absl::Status Lost() {
    return absl::UnavailableError("the snapshot was held up for too long: take it again");
  }

  const ObjectEngines* engines_;
  LeaseId lease_;
  absl::Time next_keep_;
};

// OUT_OF_RANGE if the revision is gone before the last page is read.
absl::StatusOr<std::vector<KeyValue>> ReadKeysOnce(const ObjectEngines& engines, Hold& hold) {
  std::vector<KeyValue> values;
  KeyRange rest = AllKeys();
  Revision revision = 0;
  size_t page = kMaxPage;
  int failures = 0;
  while (true) {
    PH_RETURN_IF_ERROR(hold.KeepOn());
    auto read = engines.keys->Range(rest, page, revision);
    if (!read.ok()) {
      if (!MayBeTriedAgain(read.status()) || failures >= engines.max_attempts) {
        return AsUnavailable(read.status());
      }
      engines.BackOff(failures++);
      // It may be too much for one answer.
      page = std::max<size_t>(page / 2, 1);
      continue;
    }
    failures = 0;
    if (revision == 0) revision = read->revision;
    uint64_t bytes = 1;
    for (KeyValue& value : read->values) {
      bytes += value.key.size() + value.value.size();
      values.push_back(std::move(value));
    }
    if (!read->has_more || read->values.empty()) return values;
    page = std::clamp<uint64_t>(kPageBytes * read->values.size() / bytes, 1, kMaxPage);
    rest.begin = values.back().key + '\0';
  }
}

// At one revision.
absl::StatusOr<std::vector<KeyValue>> ReadKeys(const ObjectEngines& engines, Hold& hold) {
  absl::Status dropped;
  for (int reading = 0; reading < kReadings; ++reading) {
    auto values = ReadKeysOnce(engines, hold);
    if (!absl::IsOutOfRange(values.status())) return values;
    dropped = values.status();
  }
  return absl::UnavailableError(dropped.message());
}

// An object, as a key says that it is.
struct NamedObject {
  uint64_t num_bytes = 0;
  uint32_t crc = 0;
};
using NamedObjects = std::map<std::string, NamedObject>;

// Whether it is of what is stored: not of servers that run, of deleted things or of this store.
absl::StatusOr<bool> IsStored(const KeyValue& value) {
  if (value.lease != 0 || value.key == kClusterLifeKey || value.key == kStoreIdentityKey) {
    return false;
  }
  for (const absl::string_view of_servers :
       {absl::string_view("member"), kGoneDatasets, kGoneSourceGraphs, kSourceGraphUploads,
        kCompanionProgress}) {
    if (absl::StartsWith(value.key, of_servers)) return false;
  }
  // What is not whole is on the disk of the server that makes it.
  if (absl::StartsWith(value.key, kCompanions)) {
    PH_ASSIGN_OR_RETURN(const StoredCompanion companion, DecodeCompanion(value));
    return companion.companion.is_whole;
  }
  absl::string_view name = value.key;
  if (!absl::ConsumePrefix(&name, kSourceGraphNames)) return true;
  PH_ASSIGN_OR_RETURN(const SharedGraph graph, DecodeSharedGraph(name, value.value));
  return graph.is_sealed();
}

void AddPieces(const SharedManifestObject& manifest, const SharedPieces& pieces,
               NamedObjects& objects) {
  objects[SourceGraphManifestObject(manifest.objects, manifest.crc)] = {manifest.num_bytes,
                                                                        manifest.crc};
  for (size_t i = 0; i < pieces.crcs.size(); ++i) {
    objects[SourceGraphPieceObject(manifest.objects, i, pieces.crcs[i])] = {
        std::min(pieces.piece_bytes, pieces.num_bytes - i * pieces.piece_bytes), pieces.crcs[i]};
  }
}

absl::StatusOr<std::string> ReadManifest(const ObjectEngines& engines,
                                         const SharedManifestObject& manifest) {
  return ReadWholeObject(engines, SourceGraphManifestObject(manifest.objects, manifest.crc),
                         manifest.num_bytes, manifest.crc);
}

absl::Status AddGraph(const ObjectEngines& engines, absl::string_view name, const KeyValue& value,
                      NamedObjects& objects) {
  PH_ASSIGN_OR_RETURN(const SharedGraph graph, DecodeSharedGraph(name, value.value));
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadManifest(engines, graph.object));
  PH_ASSIGN_OR_RETURN(const SharedGraphManifest manifest, DecodeSharedManifest(name, bytes));
  AddPieces(graph.object, manifest.pieces, objects);
  return absl::OkStatus();
}

absl::Status AddCompanion(const ObjectEngines& engines, const KeyValue& value,
                          NamedObjects& objects) {
  PH_ASSIGN_OR_RETURN(const StoredCompanion companion, DecodeCompanion(value));
  PH_ASSIGN_OR_RETURN(const std::string bytes, ReadManifest(engines, companion.object));
  PH_ASSIGN_OR_RETURN(const SharedCompanionManifest manifest,
                      DecodeCompanionManifest(companion.companion.name, bytes));
  AddPieces(companion.object, manifest.pieces, objects);
  return absl::OkStatus();
}

// The objects that a key names. Those of pages are read from their manifests.
absl::Status AddObjects(const ObjectEngines& engines, const KeyValue& value,
                        NamedObjects& objects) {
  absl::string_view rest = value.key;
  if (absl::ConsumePrefix(&rest, kSourceGraphNames)) return AddGraph(engines, rest, value, objects);
  if (absl::StartsWith(rest, kCompanions)) return AddCompanion(engines, value, objects);
  uint64_t id = 0;
  if (!absl::ConsumePrefix(&rest, kDatasetIds) ||
      !ParseDatasetNumber(rest.substr(0, rest.find('/')), id)) {
    return absl::OkStatus();
  }
  const auto add_chunk = [&](const ObjectChunk& chunk) {
    objects[ChunkObject(id, chunk.object)] = {chunk.num_bytes, chunk.crc};
  };
  if (absl::StartsWith(value.key, DatasetTailKeys(id))) {
    PH_ASSIGN_OR_RETURN(const ObjectChunk chunk, DecodeObjectChunk(value.value));
    add_chunk(chunk);
  }
  if (!absl::StartsWith(value.key, DatasetPageKeys(id))) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const ObjectPage page, DecodeObjectPage(value.value));
  objects[RunObject(id, page.object)] = {page.run_bytes, page.run_crc};
  const std::string manifest = ManifestObject(id, page.object);
  objects[manifest] = {page.manifest_bytes, page.manifest_crc};
  PH_ASSIGN_OR_RETURN(const std::string bytes,
                      ReadWholeObject(engines, manifest, page.manifest_bytes, page.manifest_crc));
  PH_ASSIGN_OR_RETURN(const std::vector<ObjectChunk> chunks, DecodeManifestPage(bytes));
  for (const ObjectChunk& chunk : chunks) add_chunk(chunk);
  return absl::OkStatus();
}

absl::Status Named(absl::string_view what, const absl::Status& status) {
  return status.ok() ? status
                     : absl::Status(status.code(), absl::StrCat(what, ": ", status.message()));
}

// In parts of some keys each, while the life is `mark`: none is done after the end, however late.
class Puts {
 public:
  // `life`: what the last part writes.
  Puts(const ObjectEngines& engines, absl::string_view mark, absl::string_view life)
      : engines_(engines), life_(life) {
    next_.compares = {Compare::Value(kClusterLifeKey, mark)};
    next_.otherwise = {Operation::Read(KeyRange::Of(kClusterLifeKey))};
  }

  absl::Status Add(absl::string_view key, absl::string_view value) {
    Operation put = Operation::Put(key, value);
    const size_t bytes = Transaction{{}, {put}, {}}.NumBytes();
    if (next_.then.size() >= kPutsAtOnce || next_.NumBytes() + bytes > kBytesAtOnce) {
      PH_RETURN_IF_ERROR(Flush());
    }
    next_.then.push_back(std::move(put));
    return absl::OkStatus();
  }
  // Where it is not known whether it is done, the same is done again.
  absl::Status Flush() {
    if (next_.then.empty()) return absl::OkStatus();
    for (int failures = 0;; ++failures) {
      const auto done = engines_.keys->Commit(next_);
      if (done.ok()) {
        PH_RETURN_IF_ERROR(CheckLife(*done));
        break;
      }
      if (!MayBeTriedAgain(done.status()) || failures >= engines_.max_attempts) {
        return AsUnavailable(done.status());
      }
      engines_.BackOff(failures);
    }
    next_.then.clear();
    return absl::OkStatus();
  }

 private:
  absl::Status CheckLife(const TransactionResult& done) const {
    if (done.succeeded) return absl::OkStatus();
    // An earlier try was the end.
    const std::vector<KeyValue>& now = done.reads[0].values;
    if (!now.empty() && now[0].value == life_) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "another restore, or a server, has the stores: their life is ",
        now.empty() ? "not there" : Quoted(now[0].value), ", and was that of this restore"));
  }

  const ObjectEngines& engines_;
  const std::string life_;
  Transaction next_;
};

// That both stores are empty, or that this restore was stopped.
absl::Status BeginRestore(const ObjectEngines& engines, const std::string& mark) {
  PH_ASSIGN_OR_RETURN(const auto life, ReadRanges(engines, {KeyRange::Of(kClusterLifeKey)}));
  if (!life[0].values.empty() && life[0].values[0].value == mark) return absl::OkStatus();
  PH_ASSIGN_OR_RETURN(const RangeResult keys, engines.keys->Range(AllKeys(), 1));
  if (!keys.values.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("etcd has the key ", Quoted(keys.values[0].key),
                     ": a snapshot is restored into an empty prefix only"));
  }
  PH_ASSIGN_OR_RETURN(const ObjectList objects,
                      engines.objects->List("", "", 1, engines.Deadline()));
  if (!objects.objects.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the bucket has the object ", Quoted(objects.objects[0].key),
                     ": a snapshot is restored into an empty prefix only"));
  }
  return engines.Change(
      "the restore", [&](bool /*may_be_done*/) -> absl::StatusOr<std::optional<Transaction>> {
        PH_ASSIGN_OR_RETURN(const auto now, ReadRanges(engines, {KeyRange::Of(kClusterLifeKey)}));
        if (now[0].values.empty()) {
          return Transaction{
              {Compare::Absent(kClusterLifeKey)}, {Operation::Put(kClusterLifeKey, mark)}, {}};
        }
        if (now[0].values[0].value == mark) return std::nullopt;
        return absl::FailedPreconditionError("etcd has got another life meanwhile");
      });
}

}  // namespace

absl::StatusOr<SnapshotReport> TakeClusterSnapshot(const ObjectEngines& engines,
                                                   const std::string& folder, absl::Time now,
                                                   SnapshotProgress progress) {
  PH_RETURN_IF_ERROR(CheckStoresAreBound(engines));
  PH_ASSIGN_OR_RETURN(const auto writer, SnapshotWriter::Begin(folder, &progress));
  PH_ASSIGN_OR_RETURN(Hold hold, Hold::Take(engines));
  SnapshotManifest manifest;
  manifest.taken = absl::FormatTime(absl::RFC3339_sec, now, absl::UTCTimeZone());
  PH_ASSIGN_OR_RETURN(std::vector<KeyValue> all, ReadKeys(engines, hold));
  std::vector<KeyValue> stored;
  NamedObjects objects;
  for (KeyValue& value : all) {
    PH_RETURN_IF_ERROR(hold.KeepOn());
    const auto is_stored = IsStored(value);
    PH_RETURN_IF_ERROR(Named(value.key, is_stored.status()));
    if (!*is_stored) continue;
    PH_RETURN_IF_ERROR(Named(value.key, AddObjects(engines, value, objects)));
    stored.push_back(std::move(value));
  }
  for (const auto& [name, object] : objects) writer->report().total_bytes += object.num_bytes;
  const auto write_keys = [&](SnapshotFile& file) -> absl::Status {
    ValueWriter values(&file);
    for (const KeyValue& value : stored) PH_RETURN_IF_ERROR(values.Add(value.key, value.value));
    return values.Flush();
  };
  PH_RETURN_IF_ERROR(writer->Write(kSnapshotKeys, write_keys));
  for (const auto& [name, object] : objects) {
    PH_RETURN_IF_ERROR(hold.KeepOn());
    PH_ASSIGN_OR_RETURN(const std::string bytes,
                        ReadWholeObject(engines, name, object.num_bytes, object.crc));
    PH_RETURN_IF_ERROR(writer->Write(absl::StrCat(kObjectsFolder, name),
                                     [&](SnapshotFile& file) { return file.Append(bytes); }));
  }
  PH_RETURN_IF_ERROR(hold.Keep());
  return writer->Finish(std::move(manifest));
}

absl::StatusOr<SnapshotReport> RestoreClusterSnapshot(const std::string& folder,
                                                      const ObjectEngines& engines,
                                                      absl::string_view life) {
  std::optional<StoredDamage> first;
  PH_ASSIGN_OR_RETURN(const SnapshotManifest manifest,
                      CheckSnapshot(folder, [&](StoredDamage damage) {
                        if (!first) first = std::move(damage);
                      }));
  if (first) {
    return absl::DataLossError(
        absl::StrCat("'", first->file, "': ", first->what, "; nothing was restored"));
  }
  const auto keys = manifest.files.find(kSnapshotKeys);
  if (keys == manifest.files.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", folder,
                     "' is a snapshot of a data folder, not of a cluster: restore it by "
                     "packhoused store restore ",
                     folder, " DIR"));
  }
  const std::string mark = absl::StrCat(kRestoring, keys->second);
  PH_RETURN_IF_ERROR(BeginRestore(engines, mark));
  SnapshotReport report;
  report.folder = folder;
  for (const auto& [path, digest] : manifest.files) {
    absl::string_view name = path;
    if (!absl::ConsumePrefix(&name, kObjectsFolder)) continue;
    PH_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(absl::StrCat(folder, "/", path)));
    PH_RETURN_IF_ERROR(engines.objects->Put(name, bytes, engines.Deadline()));
    ++report.num_files;
    report.num_bytes += bytes.size();
  }
  PH_ASSIGN_OR_RETURN(ValueReader values,
                      ValueReader::Open(absl::StrCat(folder, "/", kSnapshotKeys), keys->second));
  Puts puts(engines, mark, life);
  while (true) {
    absl::string_view key;
    absl::string_view value;
    PH_ASSIGN_OR_RETURN(const bool has_one, values.Next(key, value));
    if (!has_one) break;
    PH_RETURN_IF_ERROR(puts.Add(key, value));
  }
  PH_RETURN_IF_ERROR(puts.Flush());
  PH_RETURN_IF_ERROR(puts.Add(kClusterLifeKey, life));
  PH_RETURN_IF_ERROR(puts.Flush());
  return report;
}

}  // namespace packhouse
