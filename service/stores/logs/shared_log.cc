#include "service/stores/logs/shared_log.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/checksum.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"

namespace packhouse {
namespace {

constexpr absl::string_view kHeadVersion = "2";
constexpr size_t kChecksumDigits = 8;

// Of one answer with entries, about.
constexpr uint64_t kPageBytes = uint64_t{2} << 20;
constexpr uint64_t kMaxPage = 1000;

const KeyValue* OnlyOne(const RangeResult& read) {
  return read.values.empty() ? nullptr : &read.values.front();
}

std::string Encode(const SharedLogHead& head) {
  return absl::StrCat(kHeadVersion, " ", head.write, " ", head.begin, " ", head.base_end, " ",
                      head.end, " ", head.num_bytes, " ", head.base_bytes, " ", head.value);
}

struct Entry {
  absl::string_view write;
  absl::string_view contents;
};

// nullopt: it is damaged.
std::optional<Entry> DecodeEntry(absl::string_view value) {
  uint32_t crc = 0;
  if (value.size() <= kChecksumDigits ||
      !absl::SimpleHexAtoi(value.substr(0, kChecksumDigits), &crc) ||
      crc != Crc32c(value.substr(kChecksumDigits))) {
    return std::nullopt;
  }
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(value.substr(kChecksumDigits + 1), absl::MaxSplits(' ', 1));
  return Entry{parts.first, parts.second};
}

// How many entries an answer has. The base may be of few that are large, and what follows it of
// many that are small.
size_t PageOf(const SharedLogHead& head, bool is_base) {
  const uint64_t entries = is_base ? head.base_end - head.begin : head.end - head.base_end;
  const uint64_t bytes = is_base ? head.base_bytes : head.num_bytes - head.base_bytes;
  return std::clamp<uint64_t>(kPageBytes * entries / std::max<uint64_t>(bytes, 1), 2, kMaxPage);
}

}  // namespace

std::string SharedLogKeys::Entry(uint64_t number) const {
  return absl::StrCat(entries, absl::Hex(number, absl::kZeroPad16));
}

KeyRange SharedLogKeys::EntriesFrom(uint64_t number) const {
  return {Entry(number), KeyRange::Prefix(entries).end};
}

absl::StatusOr<SharedLogHead> SharedLogHead::Decode(const KeyValue& stored) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(stored.value, absl::MaxSplits(' ', 7));
  if (words.front() != kHeadVersion && !words.front().empty() &&
      absl::ascii_isdigit(static_cast<unsigned char>(words.front().front()))) {
    return absl::FailedPreconditionError(
        absl::StrCat("the log's head has format ", Quoted(words.front()), ", not ", kHeadVersion));
  }
  SharedLogHead head;
  const std::array<uint64_t*, 5> numbers = {&head.begin, &head.base_end, &head.end, &head.num_bytes,
                                            &head.base_bytes};
  bool is_good = words.front() == kHeadVersion && words.size() == numbers.size() + 3;
  for (size_t i = 0; is_good && i < numbers.size(); ++i) {
    is_good = absl::SimpleAtoi(words[i + 2], numbers[i]);
  }
  if (!is_good || head.begin > head.base_end || head.base_end > head.end ||
      head.base_bytes > head.num_bytes) {
    return absl::DataLossError(absl::StrCat("the log's head is damaged: ", Quoted(stored.value)));
  }
  head.write = std::string(words[1]);
  head.value = std::string(words.back());
  head.text = stored.value;
  head.revision = stored.mod_revision;
  head.created = stored.create_revision;
  return head;
}

std::string EncodeSharedLogEntry(absl::string_view write, absl::string_view contents) {
  const std::string checked = absl::StrCat(" ", write, " ", contents);
  return absl::StrCat(absl::Hex(Crc32c(checked), absl::kZeroPad8), checked);
}

absl::Status SharedLog::Damaged(uint64_t number, absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat(options_.name, ", entry ", number, " of its log: ", what));
}

Compare SharedLog::Is(const SharedLogHead& head) const {
  // Not by its revision: that names other states once the store was restored.
  return head.is_there() ? Compare::Value(options_.keys.head, head.text)
                         : Compare::Absent(options_.keys.head);
}

std::vector<Operation> SharedLog::Erasure() const {
  return {Operation::Delete(KeyRange::Of(options_.keys.head)),
          Operation::Delete(options_.keys.EntriesFrom(0))};
}

absl::StatusOr<SharedLogHead> SharedLog::Head() const {
  PH_ASSIGN_OR_RETURN(const RangeResult now, store_->Range(KeyRange::Of(options_.keys.head)));
  const KeyValue* const stored = OnlyOne(now);
  if (stored == nullptr) return SharedLogHead();
  auto head = SharedLogHead::Decode(*stored);
  if (!head.ok()) {
    return absl::Status(head.status().code(),
                        absl::StrCat(options_.name, ": ", head.status().message()));
  }
  head->as_of = now.revision;
  return head;
}

absl::StatusOr<RangeResult> SharedLog::ReadPage(const SharedLogHead& head, const KeyRange& range,
                                                size_t limit, Revision as_of) const {
  if (as_of != 0) return store_->Range(range, limit, as_of);
  // There is no older state to ask for, which the store may have dropped: the head says that the
  // entries are still its own.
  Transaction read;
  read.compares = {Is(head)};
  read.then = {Operation::Read(range, limit)};
  PH_ASSIGN_OR_RETURN(TransactionResult done, store_->Commit(read));
  if (done.succeeded) return std::move(done.reads[0]);
  return absl::AbortedError(absl::StrCat(options_.name, ": somebody else has written its log"));
}

absl::Status SharedLog::Read(const SharedLogHead& head, uint64_t from, Revision as_of,
                             absl::FunctionRef<absl::Status(const Written&)> visit) const {
  Written written;
  for (uint64_t next = from; next < head.end;) {
    const bool is_base = next < head.base_end;
    const std::string until = options_.keys.Entry(is_base ? head.base_end : head.end);
    PH_ASSIGN_OR_RETURN(const RangeResult page, ReadPage(head, {options_.keys.Entry(next), until},
                                                         PageOf(head, is_base), as_of));
    if (page.values.empty()) return Damaged(next, "it is missing");
    for (const KeyValue& value : page.values) {
      if (value.key != options_.keys.Entry(next)) return Damaged(next, "it is missing");
      const std::optional<Entry> entry = DecodeEntry(value.value);
      if (!entry) return Damaged(next, "its checksum is wrong");
      if (entry->write != written.name) {
        if (next != from) PH_RETURN_IF_ERROR(visit(written));
        written = {std::string(entry->write), "", 0};
      }
      written.contents.append(entry->contents.data(), entry->contents.size());
      written.end = ++next;
    }
  }
  return from < head.end ? visit(written) : absl::OkStatus();
}

absl::Status SharedLog::Write(const SharedLogWrite& write, SharedLogHead& head) const {
  const SharedLogKeys& keys = options_.keys;
  std::vector<std::string> entries;
  for (absl::string_view left = write.contents; !left.empty();) {
    const absl::string_view part = left.substr(0, options_.max_entry_bytes);
    entries.push_back(EncodeSharedLogEntry(write.name, part));
    left.remove_prefix(part.size());
  }
  SharedLogHead next = head;
  next.write = write.name;
  next.value = write.value;
  next.end = head.end + entries.size();
  next.num_bytes = (write.replaces ? 0 : head.num_bytes) + write.contents.size();
  if (write.replaces) {
    next.begin = head.end;
    next.base_end = next.end;
    next.base_bytes = next.num_bytes;
  }
  next.text = Encode(next);
  if (next.num_bytes > options_.max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        options_.name, ": its log has ", next.num_bytes, " bytes, at most ", options_.max_bytes));
  }
  std::vector<Compare> compares = {Is(head)};
  if (options_.fence) compares.push_back(*options_.fence);
  for (size_t i = 0; i + 1 < entries.size(); ++i) {
    const std::string key = keys.Entry(head.end + i);
    const auto put = Send({compares, {Operation::Put(key, entries[i])}, {}}, nullptr);
    // No head reaches it.
    if (OutcomeIsUnknown(put.status())) return absl::UnavailableError(put.status().message());
    PH_RETURN_IF_ERROR(put.status());
    // What else is put ahead on this head, by others or late, begins with the same entry: from then
    // on this write puts nothing.
    if (i == 0) compares.push_back(Compare::ModRevision(key, *put));
  }
  Transaction last;
  last.compares = std::move(compares);
  if (!entries.empty()) {
    last.then.push_back(Operation::Put(keys.Entry(next.end - 1), entries.back()));
  }
  if (write.replaces) {
    if (next.begin != 0) {
      last.then.push_back(Operation::Delete({keys.Entry(0), keys.Entry(next.begin)}));
    }
    last.then.push_back(Operation::Delete(keys.EntriesFrom(next.end)));
  }
  last.then.push_back(Operation::Put(keys.head, next.text));
  PH_ASSIGN_OR_RETURN(next.revision, Send(std::move(last), &next));
  if (!head.is_there()) next.created = next.revision;
  head = std::move(next);
  return absl::OkStatus();
}

absl::StatusOr<Revision> SharedLog::Send(Transaction transaction, const SharedLogHead* next) const {
  const SharedLogKeys& keys = options_.keys;
  if (next != nullptr) {
    transaction.otherwise = {
        Operation::Read(KeyRange::Of(keys.head)),
        Operation::Read(KeyRange::Of(keys.Entry(std::max<uint64_t>(next->end, 1) - 1)))};
  }
  const auto not_known = [&](absl::string_view why) {
    return absl::UnknownError(absl::StrCat(options_.name, ": after ", kTries,
                                           " tries it is not known what is stored: ", why));
  };
  bool is_uncertain = false;
  absl::Status failed;
  for (int i = 0; i < kTries; ++i) {
    const auto done = store_->Commit(transaction);
    if (!done.ok()) {
      failed = done.status();
      if (OutcomeIsUnknown(failed)) is_uncertain = true;
      // This try was not done; an earlier one may have been.
      if (!is_uncertain) return failed;
      continue;
    }
    if (done->succeeded) return done->revision;
    if (next != nullptr && is_uncertain) {
      const KeyValue* const head = OnlyOne(done->reads[0]);
      if (head != nullptr && head->value == next->text) return head->mod_revision;
      // Others have written; behind this write, if it is there.
      const KeyValue* const stored = OnlyOne(done->reads[1]);
      const auto entry = stored == nullptr ? std::nullopt : DecodeEntry(stored->value);
      if (entry && entry->write == next->write) return stored->mod_revision;
      const auto now = head == nullptr ? SharedLogHead() : SharedLogHead::Decode(*head);
      if (!now.ok() || !now->is_there() || now->begin >= next->end) {
        return not_known("others have taken the place of it");
      }
    }
    return absl::AbortedError(absl::StrCat(options_.name, ": somebody else has written its log"));
  }
  return not_known(failed.message());
}

}  // namespace packhouse
