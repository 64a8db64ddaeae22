#include "service/ledger/format_1_events.h"

#include <limits>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "service/base/checked_arithmetic.h"
#include "service/base/status_macros.h"
#include "service/ledger/event_codec.h"

namespace packhouse {
namespace {

constexpr size_t kHeaderBytes = 2;
constexpr size_t kChecksumBytes = 8;

uint64_t Checksum(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash ^= static_cast<uint8_t>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

EpochKey ReadKey(Format1Reader& reader) {
  EpochKey key;
  key.job = reader.Text();
  key.epoch = reader.Number();
  return key;
}

Sharing ReadSharing(Format1Reader& reader) {
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

absl::StatusOr<LedgerEvent> ReadEvent(Format1Reader& reader) {
  switch (reader.kind()) {
    case Format1Kind::kEpochOpened:
      return EpochOpened{reader.Identity()};
    case Format1Kind::kGenerationStarted: {
      GenerationStarted event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.attempt = reader.Text();
      event.sharing = ReadSharing(reader);
      event.base = reader.Batches();
      return event;
    }
    case Format1Kind::kWorkerJoined: {
      WorkerJoined event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.worker = reader.Text();
      return event;
    }
    case Format1Kind::kBatchesAcknowledged: {
      BatchesAcknowledged event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.batches = reader.Batches();
      return event;
    }
    case Format1Kind::kEpochForgotten:
      return EpochForgotten{ReadKey(reader)};
    case Format1Kind::kGenerationsUsed: {
      GenerationsUsed event;
      event.job = reader.Text();
      event.last = reader.Number();
      return event;
    }
    case Format1Kind::kEpochOwned: {
      EpochOwned event;
      event.epoch = ReadKey(reader);
      event.client = reader.Text();
      return event;
    }
    case Format1Kind::kEpochUsed: {
      EpochUsed event;
      event.epoch = ReadKey(reader);
      event.seconds = reader.Number();
      return event;
    }
    case Format1Kind::kEpochExpired: {
      EpochExpired event;
      event.epoch = ReadKey(reader);
      event.generation = reader.Number();
      event.seconds = reader.Number();
      return event;
    }
    case Format1Kind::kCursor:
      break;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("record: of kind ", static_cast<int>(reader.kind()), ", which is no event"));
}

}  // namespace

absl::StatusOr<Format1Reader> Format1Reader::Open(absl::string_view bytes) {
  if (bytes.size() < kHeaderBytes + kChecksumBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "record: ", bytes.size(), " bytes, must have at least ", kHeaderBytes + kChecksumBytes));
  }
  const absl::string_view content = bytes.substr(0, bytes.size() - kChecksumBytes);
  uint64_t checksum = 0;
  for (size_t i = 0; i < kChecksumBytes; ++i) {
    checksum |= uint64_t{static_cast<uint8_t>(bytes[content.size() + i])} << (8 * i);
  }
  if (checksum != Checksum(content)) {
    return absl::InvalidArgumentError("record: its checksum is wrong; the bytes were changed");
  }
  const int version = static_cast<uint8_t>(content[0]);
  if (version != kFormat1Version) {
    return absl::InvalidArgumentError(
        absl::StrCat("record: of format version ", version, ", not of ", int{kFormat1Version}));
  }
  return Format1Reader(static_cast<Format1Kind>(content[1]), content.substr(kHeaderBytes));
}

uint64_t Format1Reader::Number() {
  uint64_t number = 0;
  for (size_t i = 0; i < rest_.size() && i < 10; ++i) {
    const auto byte = static_cast<uint8_t>(rest_[i]);
    // The tenth byte has the highest of 64 bits; a last byte of 0 would not be the shortest form.
    if ((i == 9 && byte > 1) || (i > 0 && byte == 0)) break;
    number |= uint64_t{byte & 0x7fU} << (7 * i);
    if (byte < 0x80) {
      rest_.remove_prefix(i + 1);
      return number;
    }
  }
  Fail();
  return 0;
}

uint64_t Format1Reader::NumberUpTo(uint64_t bound) {
  const uint64_t number = Number();
  if (number <= bound) return number;
  Fail();
  return 0;
}

std::string Format1Reader::Text() {
  const uint64_t size = Number();
  if (size > rest_.size()) {
    Fail();
    return "";
  }
  std::string text(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return text;
}

size_t Format1Reader::Count() { return NumberUpTo(rest_.size()); }

BatchSet Format1Reader::Batches() {
  BatchSet batches;
  uint64_t last = 0;
  for (size_t left = Count(); left != 0 && !failed_; --left) {
    const uint64_t gap = Number();
    const uint64_t length = Number();
    const auto begin = CheckedAdd(last, gap);
    const auto end = begin ? CheckedAdd(*begin, length) : std::nullopt;
    // Each set has one form: runs must not be empty or touch.
    if (!end || length == 0 || (gap == 0 && !batches.empty())) {
      Fail();
      break;
    }
    batches.InsertRun({*begin, *end});
    last = *end;
  }
  return failed_ ? BatchSet() : batches;
}

absl::Status Format1Reader::Finish() const {
  if (failed_) return absl::InvalidArgumentError("record: malformed");
  if (!rest_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("record: ", rest_.size(), " bytes after its end"));
  }
  return absl::OkStatus();
}

EpochIdentity Format1Reader::Identity() {
  EpochIdentity identity;
  identity.key.job = Text();
  identity.key.epoch = Number();
  identity.dataset = Text();
  identity.dataset_version = Number();
  identity.seed = Number();
  for (size_t left = Count(); left != 0; --left) {
    IdentityRankGroup rank_group;
    for (size_t k = Count(); k != 0; --k) rank_group.capacities.push_back(Number());
    rank_group.planned_ranks = Number();
    rank_group.num_batches = Number();
    identity.rank_groups.push_back(std::move(rank_group));
  }
  identity.options = Text();
  return identity;
}

absl::StatusOr<std::string> EventFromFormat1(absl::string_view record) {
  PH_ASSIGN_OR_RETURN(Format1Reader reader, Format1Reader::Open(record));
  PH_ASSIGN_OR_RETURN(const LedgerEvent event, ReadEvent(reader));
  PH_RETURN_IF_ERROR(reader.Finish());
  if (const auto* opened = std::get_if<EpochOpened>(&event)) {
    PH_RETURN_IF_ERROR(CheckIdentity(opened->identity));
  }
  return EncodeEvent(event);
}

}  // namespace packhouse
