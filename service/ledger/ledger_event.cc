#include "service/ledger/ledger_event.h"

#include <limits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/epochs/record_codec.h"

namespace packhouse {
namespace {

void WriteKey(const EpochKey& key, RecordWriter& writer) {
  writer.Text(key.job);
  writer.Number(key.epoch);
}

EpochKey ReadKey(RecordReader& reader) {
  EpochKey key;
  key.job = reader.Text();
  key.epoch = reader.Number();
  return key;
}

// Ranks of one rank group are mostly next to each other: runs of (rank group, number of ranks).
void WriteSharing(const Sharing& sharing, RecordWriter& writer) {
  writer.Number(static_cast<uint64_t>(sharing.last_steps));
  const auto& rank_groups = sharing.rank_group_of_rank;
  std::vector<std::pair<uint32_t, uint64_t>> runs;
  for (const uint32_t rank_group : rank_groups) {
    if (runs.empty() || runs.back().first != rank_group) runs.emplace_back(rank_group, 0);
    ++runs.back().second;
  }
  writer.Number(runs.size());
  for (const auto& [rank_group, ranks] : runs) {
    writer.Number(rank_group);
    writer.Number(ranks);
  }
}

Sharing ReadSharing(RecordReader& reader) {
  Sharing sharing;
  sharing.last_steps = static_cast<LastSteps>(reader.NumberUpTo(1));
  for (size_t left = reader.Count(); left != 0; --left) {
    const auto rank_group =
        static_cast<uint32_t>(reader.NumberUpTo(std::numeric_limits<uint32_t>::max()));
    const uint64_t ranks =
        reader.NumberUpTo(Sharing::kMaxRanks - sharing.rank_group_of_rank.size());
    sharing.rank_group_of_rank.insert(sharing.rank_group_of_rank.end(), ranks, rank_group);
  }
  return sharing;
}

struct Encoder {
  std::string operator()(const EpochOpened& event) const {
    RecordWriter writer(RecordKind::kEpochOpened);
    WriteIdentity(event.identity, writer);
    return std::move(writer).Seal();
  }
  std::string operator()(const GenerationStarted& event) const {
    RecordWriter writer(RecordKind::kGenerationStarted);
    WriteKey(event.epoch, writer);
    writer.Number(event.generation);
    writer.Text(event.attempt);
    WriteSharing(event.sharing, writer);
    writer.Batches(event.base);
    return std::move(writer).Seal();
  }
  std::string operator()(const WorkerJoined& event) const {
    RecordWriter writer(RecordKind::kWorkerJoined);
    WriteKey(event.epoch, writer);
    writer.Number(event.generation);
    writer.Text(event.worker);
    return std::move(writer).Seal();
  }
  std::string operator()(const BatchesAcknowledged& event) const {
    RecordWriter writer(RecordKind::kBatchesAcknowledged);
    WriteKey(event.epoch, writer);
    writer.Number(event.generation);
    writer.Batches(event.batches);
    return std::move(writer).Seal();
  }
  std::string operator()(const EpochForgotten& event) const {
    RecordWriter writer(RecordKind::kEpochForgotten);
    WriteKey(event.epoch, writer);
    return std::move(writer).Seal();
  }
  std::string operator()(const GenerationsUsed& event) const {
    RecordWriter writer(RecordKind::kGenerationsUsed);
    writer.Text(event.job);
    writer.Number(event.last);
    return std::move(writer).Seal();
  }
  std::string operator()(const EpochOwned& event) const {
    RecordWriter writer(RecordKind::kEpochOwned);
    WriteKey(event.epoch, writer);
    writer.Text(event.client);
    return std::move(writer).Seal();
  }
  std::string operator()(const EpochUsed& event) const {
    RecordWriter writer(RecordKind::kEpochUsed);
    WriteKey(event.epoch, writer);
    writer.Number(event.seconds);
    return std::move(writer).Seal();
  }
  std::string operator()(const EpochExpired& event) const {
    RecordWriter writer(RecordKind::kEpochExpired);
    WriteKey(event.epoch, writer);
    writer.Number(event.generation);
    writer.Number(event.seconds);
    return std::move(writer).Seal();
  }
};

absl::StatusOr<LedgerEvent> ReadEvent(RecordReader& reader) {
  switch (static_cast<RecordKind>(reader.kind())) {
    case RecordKind::kEpochOpened:
      return EpochOpened{ReadIdentity(reader)};
    case RecordKind::kGenerationStarted: {
      GenerationStarted event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.attempt = reader.Text();
      event.sharing = ReadSharing(reader);
      event.base = reader.Batches();
      return event;
    }
    case RecordKind::kWorkerJoined: {
      WorkerJoined event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.worker = reader.Text();
      return event;
    }
    case RecordKind::kBatchesAcknowledged: {
      BatchesAcknowledged event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.batches = reader.Batches();
      return event;
    }
    case RecordKind::kEpochForgotten:
      return EpochForgotten{ReadKey(reader)};
    case RecordKind::kGenerationsUsed: {
      GenerationsUsed event;
      event.job = reader.Text();
      event.last = reader.Number();
      return event;
    }
    case RecordKind::kEpochOwned: {
      EpochOwned event;
      event.epoch = ReadKey(reader);
      event.client = reader.Text();
      return event;
    }
    case RecordKind::kEpochUsed: {
      EpochUsed event;
      event.epoch = ReadKey(reader);
      event.seconds = reader.Number();
      return event;
    }
    case RecordKind::kEpochExpired: {
      EpochExpired event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.seconds = reader.Number();
      return event;
    }
    case RecordKind::kCursor:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("record: of kind ", reader.kind(), ", which is no event"));
}

}  // namespace

std::string EncodeEvent(const LedgerEvent& event) { return std::visit(Encoder(), event); }

absl::StatusOr<LedgerEvent> DecodeEvent(absl::string_view record) {
  PH_ASSIGN_OR_RETURN(RecordReader reader, RecordReader::Open(record));
  PH_ASSIGN_OR_RETURN(LedgerEvent event, ReadEvent(reader));
  PH_RETURN_IF_ERROR(reader.Finish());
  if (const auto* opened = std::get_if<EpochOpened>(&event)) {
    PH_RETURN_IF_ERROR(CheckIdentity(opened->identity));
  }
  return event;
}

}  // namespace packhouse
