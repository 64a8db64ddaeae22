#include "service/wings/graphs/stored/row_log.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr uint64_t kReadBytes = uint64_t{1} << 20;

// The header and the index at `offset`; nullopt if they are not there.
absl::StatusOr<std::optional<RowRecord>> ReadRecord(const DiskFile& file, uint64_t graph,
                                                    uint64_t offset, uint64_t file_bytes) {
  std::string bytes(RowHeader::kBytes, '\0');
  PH_ASSIGN_OR_RETURN(size_t got, file.ReadAt(offset, bytes.data(), bytes.size()));
  bytes.resize(got);
  const auto header = RowHeader::Decode(bytes);
  if (!header || header->graph != graph || header->record_bytes > file_bytes - offset) {
    return std::nullopt;
  }
  bytes.resize(header->index_bytes);
  PH_ASSIGN_OR_RETURN(got, file.ReadAt(offset + RowHeader::kBytes, bytes.data(), bytes.size()));
  bytes.resize(got);
  auto index = DecodeIndex(*header, bytes);
  if (!index) return std::nullopt;
  return RowRecord{offset, *header, *std::move(index)};
}

// Whether the data of a record has its checksum.
absl::StatusOr<bool> HasSoundData(const DiskFile& file, const RowRecord& record) {
  const uint64_t end = record.offset + record.header.record_bytes;
  uint64_t at = record.offset + RowHeader::kBytes + record.header.index_bytes;
  std::string bytes(std::min(kReadBytes, end - at), '\0');
  uint32_t crc = 0;
  while (at < end) {
    PH_ASSIGN_OR_RETURN(const size_t got,
                        file.ReadAt(at, bytes.data(), std::min<uint64_t>(bytes.size(), end - at)));
    if (got == 0) return false;
    crc = Crc32c(absl::string_view(bytes.data(), got), crc);
    at += got;
  }
  return crc == record.header.data_crc;
}

// The most bytes that any sound record from `offset` on says were durable.
absl::StatusOr<uint64_t> DurableBehind(const DiskFile& file, uint64_t graph, uint64_t offset,
                                       uint64_t file_bytes) {
  uint64_t durable = 0;
  std::string bytes;
  for (uint64_t at = offset; at < file_bytes; at += kReadBytes) {
    bytes.resize(kReadBytes);
    PH_ASSIGN_OR_RETURN(const size_t got, file.ReadAt(at, bytes.data(), bytes.size()));
    bytes.resize(got);
    for (size_t p = 0; p + RowHeader::kBytes <= bytes.size(); p += RowHeader::kAlignment) {
      const auto header = RowHeader::Decode(absl::string_view(bytes).substr(p));
      if (header && header->graph == graph) durable = std::max(durable, header->durable_bytes);
    }
  }
  return durable;
}

void Count(const RowIndex& index, RowCounts& counts) {
  for (const RowIndex::Part& part : index.parts) {
    std::vector<uint64_t>& of_sets = part.is_edges ? counts.num_edges : counts.num_nodes;
    if (part.set < of_sets.size()) of_sets[part.set] += part.num_rows;
  }
}

}  // namespace

uint64_t RowCounts::all_nodes() const {
  return std::accumulate(num_nodes.begin(), num_nodes.end(), uint64_t{0});
}

uint64_t RowCounts::all_edges() const {
  return std::accumulate(num_edges.begin(), num_edges.end(), uint64_t{0});
}

std::string BeginningOfRowLog(uint64_t graph) {
  return EncodeRows(SourceGraphChunk(), std::nullopt, graph, 0);
}

absl::StatusOr<uint64_t> ScanRowLog(const DiskFile& file, uint64_t graph,
                                    absl::FunctionRef<absl::Status(const RowRecord&)> visit) {
  PH_ASSIGN_OR_RETURN(const uint64_t file_bytes, file.Size());
  // Records wait here until they are known to be durable, or sound.
  std::vector<RowRecord> waiting;
  uint64_t end = 0;
  const auto see = [&](const RowRecord& record) -> absl::Status {
    const bool is_beginning = record.index.parts.empty() && record.index.producer.empty();
    if (!is_beginning) return visit(record);
    PH_ASSIGN_OR_RETURN(const bool is_sound, HasSoundData(file, record));
    if (is_sound) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(file.path(), ": the record at byte ", record.offset, " is damaged"));
  };
  const auto settle = [&](uint64_t durable) -> absl::Status {
    size_t settled = 0;
    while (settled < waiting.size() &&
           waiting[settled].offset + waiting[settled].header.record_bytes <= durable) {
      PH_RETURN_IF_ERROR(see(waiting[settled++]));
    }
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<ptrdiff_t>(settled));
    return absl::OkStatus();
  };
  while (end < file_bytes) {
    PH_ASSIGN_OR_RETURN(std::optional<RowRecord> record, ReadRecord(file, graph, end, file_bytes));
    if (!record) {
      PH_ASSIGN_OR_RETURN(const uint64_t durable, DurableBehind(file, graph, end, file_bytes));
      if (durable > end) {
        return absl::DataLossError(
            absl::StrCat(file.path(), ": the record at byte ", end, " is damaged"));
      }
      break;
    }
    PH_RETURN_IF_ERROR(settle(record->header.durable_bytes));
    end += record->header.record_bytes;
    waiting.push_back(*std::move(record));
  }
  for (const RowRecord& record : waiting) {
    PH_ASSIGN_OR_RETURN(const bool is_sound, HasSoundData(file, record));
    if (!is_sound) {
      end = record.offset;
      break;
    }
    PH_RETURN_IF_ERROR(see(record));
  }
  if (end == 0) {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": its beginning is ",
                     file_bytes == 0 ? "missing: the file was emptied" : "damaged"));
  }
  return end;
}

RowLog::RowLog(const std::string& path, const GraphDefinition* definition, GraphSpace* space)
    : path_(path),
      definition_(definition),
      space_(space),
      beginning_bytes_(BeginningOfRowLog(definition->id).size()) {
  counts_.num_nodes.resize(definition->schema->node_sets().size());
  counts_.num_edges.resize(definition->schema->edge_sets().size());
}

std::unique_ptr<RowLog> RowLog::New(const std::string& path, const GraphDefinition* definition,
                                    GraphSpace* space) {
  auto log = std::unique_ptr<RowLog>(new RowLog(path, definition, space));
  absl::MutexLock lock(&log->mutex_);
  log->end_ = log->durable_ = log->beginning_bytes_;
  return log;
}

absl::StatusOr<std::unique_ptr<RowLog>> RowLog::Open(const std::string& path,
                                                     const GraphDefinition* definition,
                                                     GraphSpace* space) {
  auto log = std::unique_ptr<RowLog>(new RowLog(path, definition, space));
  absl::MutexLock lock(&log->mutex_);
  const auto file = DiskFile::Open(path, DiskFile::Mode::kRead);
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat(path, ": is missing"));
  }
  PH_RETURN_IF_ERROR(file.status());
  PH_ASSIGN_OR_RETURN(log->end_, ScanRowLog(*file, definition->id, [&](const RowRecord& record) {
                        log->mutex_.AssertHeld();
                        Count(record.index, log->counts_);
                        if (record.index.producer.empty()) return absl::OkStatus();
                        ProducerSequence producer = {record.index.producer, record.header.sequence};
                        if (record.header.forget_seconds != 0) {
                          producer.now = absl::FromUnixSeconds(record.header.forget_seconds);
                          producer.forget_after = absl::ZeroDuration();
                        }
                        log->Remember(producer, record.header.Digest(), 0);
                        if (log->num_made_up_ > 2 * SourceGraphStore::kMaxMadeUpProducers) {
                          log->ForgetMadeUp(SourceGraphStore::kMaxMadeUpProducers);
                        }
                        return absl::OkStatus();
                      }));
  log->durable_ = log->end_;
  PH_ASSIGN_OR_RETURN(const uint64_t file_bytes, file->Size());
  if (file_bytes > log->end_) {
    PH_ASSIGN_OR_RETURN(log->file_, DiskFile::Open(path, DiskFile::Mode::kExisting));
    PH_RETURN_IF_ERROR(log->file_.Truncate(log->end_));
    PH_RETURN_IF_ERROR(log->file_.Sync());
  }
  space->TakeStored(log->end_ - log->beginning_bytes_);
  return log;
}

absl::Status RowLog::AwaitDurable(uint64_t end) {
  while (durable_ < end && failure_.ok()) {
    if (is_flushing_) {
      const auto is_over = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return durable_ >= end || !is_flushing_;
      };
      mutex_.Await(absl::Condition(&is_over));
      continue;
    }
    is_flushing_ = true;
    const uint64_t target = end_;
    mutex_.Unlock();
    absl::Status synced = file_.Sync();
    mutex_.Lock();
    is_flushing_ = false;
    if (synced.ok()) {
      durable_ = target;
    } else {
      failure_ = absl::UnavailableError(absl::StrCat(
          synced.message(), "; nothing more is appended until the store is opened anew"));
    }
  }
  return durable_ >= end ? absl::OkStatus() : failure_;
}

absl::Status RowLog::Write(const std::string& record) {
  if (!file_.is_open()) {
    PH_ASSIGN_OR_RETURN(file_, DiskFile::Open(path_, DiskFile::Mode::kExisting));
  }
  PH_RETURN_IF_ERROR(space_->Take(record.size()));
  absl::Status written = file_.WriteAt(end_, record);
  if (written.ok()) return written;
  space_->Give(record.size());
  if (absl::Status cut = file_.Truncate(end_); !cut.ok()) failure_ = cut;
  return written;
}

SourceAppendResult RowLog::Totals() const {
  SourceAppendResult result;
  result.total_nodes = counts_.all_nodes();
  result.total_edges = counts_.all_edges();
  return result;
}

absl::Status RowLog::CheckNumProducers(const ProducerSequence& added) {
  const size_t num_named = producers_.size() - num_made_up_;
  if (added.is_named()) {
    if (num_named < SourceGraphStore::kMaxProducers) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat("source graph ", Quoted(definition_->name),
                                                     " has ", num_named,
                                                     " producers, the most that it may have"));
  }
  if (num_made_up_ >= sweep_made_up_at_) {
    absl::erase_if(producers_, [&](const auto& each) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (!each.second.history.IsOver(added.now)) return false;
      --num_made_up_;
      return true;
    });
    sweep_made_up_at_ =
        std::clamp<size_t>(2 * num_made_up_, 1024, SourceGraphStore::kMaxMadeUpProducers);
  }
  if (num_made_up_ < SourceGraphStore::kMaxMadeUpProducers) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "source graph ", Quoted(definition_->name), " has ", num_made_up_,
      " producers whose names were made up for one call and whose time for retries is not over, "
      "the most that it may have"));
}

void RowLog::Remember(const ProducerSequence& producer, uint32_t digest, uint64_t end) {
  const auto [found, is_new] = producers_.try_emplace(producer.producer);
  Producer& remembered = found->second;
  if (!is_new && producer.sequence <= remembered.history.last()) return;
  if (!is_new && !remembered.history.is_named()) --num_made_up_;
  remembered.history.Add(producer, digest, SourceGraphStore::kRememberedSequences);
  if (!producer.is_named()) ++num_made_up_;
  remembered.end = end;
}

void RowLog::ForgetMadeUp(size_t most) {
  if (num_made_up_ <= most) return;
  std::vector<uint64_t> times;
  for (const auto& [name, producer] : producers_) {
    if (!producer.history.is_named()) times.push_back(producer.history.forget_seconds());
  }
  const auto last = times.end() - static_cast<ptrdiff_t>(most) - 1;
  std::nth_element(times.begin(), last, times.end());
  // Of those that are forgotten at the same time as the last, some may stay.
  auto num_last = 1 + std::count(times.begin(), last, *last);
  absl::erase_if(producers_, [&](const auto& each) {
    const ProducerHistory& history = each.second.history;
    if (history.is_named() || history.forget_seconds() > *last) return false;
    return history.forget_seconds() < *last || num_last-- > 0;
  });
  num_made_up_ = most;
}

absl::StatusOr<SourceAppendResult> RowLog::Append(const SourceGraphChunk& chunk,
                                                  const std::optional<ProducerSequence>& producer) {
  absl::MutexLock lock(&mutex_);
  if (producer) {
    const auto found = producers_.find(producer->producer);
    bool repeats = false;
    if (found != producers_.end()) {
      PH_ASSIGN_OR_RETURN(repeats, RepeatsRows(definition_->name, definition_->id, chunk, *producer,
                                               found->second.history));
    }
    if (repeats) {
      const absl::Status durable = AwaitDurable(found->second.end);
      if (!durable.ok()) return UnknownOutcome(durable);
      SourceAppendResult result = Totals();
      result.is_repetition = true;
      return result;
    }
    if (found == producers_.end()) PH_RETURN_IF_ERROR(CheckNumProducers(*producer));
  }
  if (is_stopped_) {
    return absl::UnavailableError(
        absl::StrCat("source graph ", Quoted(definition_->name), " is being sealed"));
  }
  PH_RETURN_IF_ERROR(failure_);
  SourceAppendResult added;
  for (const SourceNodeRows& rows : chunk.nodes) added.num_nodes += rows.num_rows;
  for (const SourceEdgeRows& rows : chunk.edges) added.num_edges += rows.num_rows;
  // Without rows only the sequence would be remembered; that needs a record, too.
  if (added.num_nodes + added.num_edges == 0 && !producer) return Totals();
  const std::string record = EncodeRows(chunk, producer, definition_->id, durable_);
  PH_RETURN_IF_ERROR(Write(record));
  end_ += record.size();
  const uint64_t end = end_;
  for (const SourceNodeRows& rows : chunk.nodes) counts_.num_nodes[rows.node_set] += rows.num_rows;
  for (const SourceEdgeRows& rows : chunk.edges) counts_.num_edges[rows.edge_set] += rows.num_rows;
  if (producer) Remember(*producer, RowHeader::Decode(record)->Digest(), end);
  SourceAppendResult result = Totals();
  result.num_nodes = added.num_nodes;
  result.num_edges = added.num_edges;
  const absl::Status durable = AwaitDurable(end);
  if (!durable.ok()) return UnknownOutcome(durable);
  return result;
}

absl::Status RowLog::Stop() {
  absl::MutexLock lock(&mutex_);
  is_stopped_ = true;
  return AwaitDurable(end_);
}

void RowLog::Resume() {
  absl::MutexLock lock(&mutex_);
  is_stopped_ = false;
}

RowCounts RowLog::counts() const {
  absl::MutexLock lock(&mutex_);
  return counts_;
}

ProducerHistories RowLog::producers() const {
  absl::MutexLock lock(&mutex_);
  ProducerHistories histories;
  std::vector<std::pair<uint64_t, std::string>> made_up;
  for (const auto& [name, producer] : producers_) {
    if (producer.history.is_named()) {
      histories.emplace(name, producer.history);
    } else {
      made_up.emplace_back(producer.history.forget_seconds(), name);
    }
  }
  std::sort(made_up.begin(), made_up.end());
  while (!made_up.empty() && histories.size() < SourceGraphStore::kMaxProducers) {
    const std::string& name = made_up.back().second;
    histories.emplace(name, producers_.find(name)->second.history);
    made_up.pop_back();
  }
  return histories;
}

ProducerHistory RowLog::GetProducer(absl::string_view producer) const {
  absl::MutexLock lock(&mutex_);
  const auto found = producers_.find(producer);
  return found == producers_.end() ? ProducerHistory() : found->second.history;
}

uint64_t RowLog::durable_bytes() const {
  absl::MutexLock lock(&mutex_);
  return durable_;
}

uint64_t RowLog::bytes() const {
  absl::MutexLock lock(&mutex_);
  return end_ - beginning_bytes_;
}

}  // namespace packhouse
