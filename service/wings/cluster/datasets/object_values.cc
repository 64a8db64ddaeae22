#include "service/wings/cluster/datasets/object_values.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "packhouse/internal/object_dataset.pb.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_message.h"

namespace packhouse {
namespace {

std::string Hex(uint64_t number) { return absl::StrCat(absl::Hex(number, absl::kZeroPad16)); }

bool ParseHex(absl::string_view text, uint64_t& number) {
  return text.size() == 16 && absl::SimpleHexAtoi(text, &number);
}

}  // namespace

std::string DatasetNameKey(absl::string_view name) { return absl::StrCat(kDatasetNames, name); }
std::string DatasetKeys(uint64_t id) { return absl::StrCat(kDatasetIds, Hex(id), "/"); }
bool ParseDatasetNumber(absl::string_view digits, uint64_t& id) { return ParseHex(digits, id); }
std::string DatasetStateKey(uint64_t id) { return absl::StrCat(DatasetKeys(id), "state"); }
std::string DatasetProducerKeys(uint64_t id) { return absl::StrCat(DatasetKeys(id), "producer/"); }
std::string DatasetProducerKey(uint64_t id, absl::string_view producer) {
  return absl::StrCat(DatasetProducerKeys(id), producer);
}

std::string DatasetMadeUpProducerKey(uint64_t id, absl::string_view producer) {
  return absl::StrCat(DatasetKeys(id), "made-up/", producer);
}
std::string DatasetTailKeys(uint64_t id) { return absl::StrCat(DatasetKeys(id), "tail/"); }
std::string DatasetTailKey(uint64_t id, uint64_t first_graph) {
  return absl::StrCat(DatasetTailKeys(id), Hex(first_graph));
}
std::string DatasetPageKeys(uint64_t id) { return absl::StrCat(DatasetKeys(id), "page/"); }
std::string DatasetPageKey(uint64_t id, uint64_t page) {
  return absl::StrCat(DatasetPageKeys(id), Hex(page));
}
std::string GoneDatasetKey(uint64_t id) { return absl::StrCat(kGoneDatasets, Hex(id)); }

std::string DatasetObjects(uint64_t id) { return absl::StrCat(kAllDatasetObjects, Hex(id), "/"); }
std::string ChunkObject(uint64_t id, uint64_t object) {
  return absl::StrCat(DatasetObjects(id), "c/", Hex(object));
}
std::string ManifestObject(uint64_t id, uint64_t object) {
  return absl::StrCat(DatasetObjects(id), "m/", Hex(object));
}
std::string RunObject(uint64_t id, uint64_t object) {
  return absl::StrCat(DatasetObjects(id), "i/", Hex(object));
}

bool ParseDatasetObject(absl::string_view name, uint64_t& id, uint64_t& object) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  return parts.size() == 4 && parts[0] == "d" && ParseHex(parts[1], id) &&
         (parts[2] == "c" || parts[2] == "m" || parts[2] == "i") && ParseHex(parts[3], object);
}

uint64_t ObjectChunk::num_graphs() const {
  uint64_t sum = 0;
  for (const Record& record : records) sum += record.num_graphs;
  return sum;
}

std::string EncodeObjectState(const ObjectDatasetState& state) {
  internal::ObjectDatasetState stored;
  SetCommonState(state, stored);
  stored.set_num_pages(state.num_pages);
  stored.set_num_tail(state.num_tail);
  stored.set_sweeps(state.sweeps);
  return stored.SerializeAsString();
}

absl::StatusOr<ObjectDatasetState> DecodeObjectState(absl::string_view bytes) {
  internal::ObjectDatasetState stored;
  if (!ParseStored(bytes, stored)) return MalformedValue("state of a data set");
  ObjectDatasetState state;
  ReadCommonState(stored, state);
  state.num_pages = stored.num_pages();
  state.num_tail = stored.num_tail();
  state.sweeps = stored.sweeps();
  const std::string encoded = EncodeObjectState(state);
  return IfExact(std::move(state), encoded, bytes, "state of a data set");
}

std::string EncodeObjectChunk(const ObjectChunk& chunk) {
  internal::ObjectChunk stored;
  stored.set_object(chunk.object);
  stored.set_num_bytes(chunk.num_bytes);
  stored.set_crc(chunk.crc);
  stored.set_first_graph(chunk.first_graph);
  for (const ObjectChunk::Record& record : chunk.records) {
    stored.add_offsets(record.offset);
    stored.add_lengths(record.num_bytes);
    stored.add_num_graphs(record.num_graphs);
  }
  stored.set_run_offset(chunk.run_offset);
  stored.set_run_bytes(chunk.run_bytes);
  stored.set_run(chunk.run);
  stored.set_run_crc(chunk.run_crc);
  return stored.SerializeAsString();
}

absl::StatusOr<ObjectChunk> DecodeObjectChunk(absl::string_view bytes) {
  internal::ObjectChunk stored;
  if (!ParseStored(bytes, stored) || stored.lengths_size() != stored.offsets_size() ||
      stored.num_graphs_size() != stored.offsets_size()) {
    return MalformedValue("chunk of a data set");
  }
  ObjectChunk chunk;
  chunk.object = stored.object();
  chunk.num_bytes = stored.num_bytes();
  chunk.crc = stored.crc();
  chunk.first_graph = stored.first_graph();
  uint64_t end = 0;
  for (int i = 0; i < stored.offsets_size(); ++i) {
    const ObjectChunk::Record record = {stored.offsets(i), stored.lengths(i), stored.num_graphs(i)};
    if (record.offset < end || record.offset > chunk.num_bytes || record.num_graphs == 0 ||
        record.num_bytes > chunk.num_bytes - record.offset) {
      return MalformedValue("chunk of a data set");
    }
    end = record.offset + record.num_bytes;
    chunk.records.push_back(record);
  }
  chunk.run_offset = stored.run_offset();
  chunk.run_bytes = stored.run_bytes();
  chunk.run_crc = stored.run_crc();
  chunk.run = std::move(*stored.mutable_run());
  if (chunk.run_offset > chunk.num_bytes || chunk.run_bytes > chunk.num_bytes - chunk.run_offset) {
    return MalformedValue("chunk of a data set");
  }
  const std::string encoded = EncodeObjectChunk(chunk);
  return IfExact(std::move(chunk), encoded, bytes, "chunk of a data set");
}

std::string EncodeObjectPage(const ObjectPage& page) {
  internal::ObjectPage stored;
  stored.set_object(page.object);
  stored.set_first_graph(page.first_graph);
  stored.set_end_graph(page.end_graph);
  stored.set_num_chunks(page.num_chunks);
  stored.set_manifest_bytes(page.manifest_bytes);
  stored.set_manifest_crc(page.manifest_crc);
  stored.set_run_bytes(page.run_bytes);
  stored.set_run_crc(page.run_crc);
  return stored.SerializeAsString();
}

absl::StatusOr<ObjectPage> DecodeObjectPage(absl::string_view bytes) {
  internal::ObjectPage stored;
  if (!ParseStored(bytes, stored)) return MalformedValue("page of a data set");
  ObjectPage page = {stored.object(),     stored.first_graph(),    stored.end_graph(),
                     stored.num_chunks(), stored.manifest_bytes(), stored.manifest_crc(),
                     stored.run_bytes(),  stored.run_crc()};
  return IfExact(page, EncodeObjectPage(page), bytes, "page of a data set");
}

std::string EncodeManifestPage(const std::vector<ObjectChunk>& chunks) {
  internal::ObjectManifestPage stored;
  for (const ObjectChunk& chunk : chunks) {
    ObjectChunk without_run = chunk;
    without_run.run.clear();
    stored.add_chunks(EncodeObjectChunk(without_run));
  }
  return stored.SerializeAsString();
}

absl::StatusOr<std::vector<ObjectChunk>> DecodeManifestPage(absl::string_view bytes) {
  internal::ObjectManifestPage stored;
  if (!ParseStored(bytes, stored)) return MalformedValue("manifest of a data set");
  std::vector<ObjectChunk> chunks;
  for (const std::string& encoded : stored.chunks()) {
    PH_ASSIGN_OR_RETURN(ObjectChunk chunk, DecodeObjectChunk(encoded));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

std::string EncodeObjectTotals(const ObjectStoreTotals& totals) {
  internal::ObjectStoreTotals stored;
  stored.set_num_datasets(totals.num_datasets);
  stored.set_num_bytes(totals.num_bytes);
  return stored.SerializeAsString();
}

absl::StatusOr<ObjectStoreTotals> DecodeObjectTotals(absl::string_view bytes) {
  internal::ObjectStoreTotals stored;
  if (!ParseStored(bytes, stored)) return MalformedValue("totals of the store");
  const ObjectStoreTotals totals = {stored.num_datasets(), stored.num_bytes()};
  return IfExact(totals, EncodeObjectTotals(totals), bytes, "totals of the store");
}

}  // namespace packhouse
