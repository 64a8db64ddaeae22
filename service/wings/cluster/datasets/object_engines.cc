#include "service/wings/cluster/datasets/object_engines.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/caller.h"
#include "service/base/checksum.h"
#include "service/base/status_macros.h"
#include "service/stores/keys/shared_change.h"

namespace packhouse {
namespace {

// Values of a page of a range: the answer must stay below the store's largest message.
constexpr size_t kValuesOfPage = 500;

bool MayBeTriedAgain(const absl::Status& status) {
  return absl::IsUnavailable(status) || OutcomeIsUnknown(status);
}

// A transaction that was not done is tried again while the store is away.
class PatientKeys final : public KeyStore {
 public:
  explicit PatientKeys(const ObjectEngines& engines) : engines_(engines) {}

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    return engines_.keys->Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    for (int failures = 0;; ++failures) {
      auto result = engines_.keys->Commit(transaction);
      if (!absl::IsUnavailable(result.status()) || failures >= engines_.max_attempts) return result;
      engines_.BackOff(failures);
      PH_RETURN_IF_ERROR(BeginWait());
    }
  }

 private:
  const ObjectEngines& engines_;
};

}  // namespace

size_t SharedThreads::Take(size_t wanted) {
  size_t num_free = num_free_;
  size_t taken = 0;
  do {
    taken = std::min(wanted, (num_free + 1) / 2);
  } while (!num_free_.compare_exchange_weak(num_free, num_free - taken));
  return taken;
}

void ObjectEngines::BackOff(int failures) const {
  // 1 ms, 2, 4, ... to a second, half of it random: who came at once does not come so again.
  const auto longest = static_cast<uint64_t>(1000) << std::min(failures, 10);
  sleep(absl::Microseconds(static_cast<int64_t>(longest / 2 + draw() % (longest / 2 + 1))));
}

absl::Status ObjectEngines::Change(
    absl::string_view what,
    absl::FunctionRef<absl::StatusOr<std::optional<Transaction>>(bool may_be_done)> next,
    absl::FunctionRef<void(const TransactionResult& result)> done) const {
  PatientKeys patient(*this);
  return AsUnavailable(SharedChanges{absl::StrCat(draw()), sleep}.Make(patient, what, next, done));
}

uint64_t DrawUniqueNumber() {
  std::random_device device;
  uint64_t drawn = 0;
  while (drawn == 0) drawn = static_cast<uint64_t>(device()) << 32 | device();
  return drawn;
}

absl::Status AsUnavailable(const absl::Status& status) {
  if (OutcomeIsUnknown(status)) {
    return absl::UnavailableError(
        absl::StrCat("whether the change happened is not known: ", status.message()));
  }
  if (absl::IsDeadlineExceeded(status) || absl::IsPermissionDenied(status) ||
      absl::IsUnauthenticated(status)) {
    return absl::UnavailableError(absl::StrCat("the data sets' store: ", status.message()));
  }
  return status;
}

absl::StatusOr<std::vector<RangeResult>> ReadRanges(const ObjectEngines& engines,
                                                    const std::vector<KeyRange>& ranges) {
  Transaction transaction;
  for (const KeyRange& range : ranges) transaction.then.push_back(Operation::Read(range, 128));
  for (int failures = 0;; ++failures) {
    PH_RETURN_IF_ERROR(BeginWait());
    auto result = engines.keys->Commit(transaction);
    if (result.ok()) return std::move(result->reads);
    if (!MayBeTriedAgain(result.status()) || failures >= engines.max_attempts) {
      return AsUnavailable(result.status());
    }
    engines.BackOff(failures);
  }
}

absl::StatusOr<std::vector<KeyValue>> ReadWholeRange(const ObjectEngines& engines,
                                                     const KeyRange& range, Revision revision) {
  std::vector<KeyValue> values;
  KeyRange rest = range;
  int failures = 0;
  while (true) {
    PH_RETURN_IF_ERROR(BeginWait());
    auto page = engines.keys->Range(rest, kValuesOfPage, revision);
    if (!page.ok()) {
      if (!MayBeTriedAgain(page.status()) || failures >= engines.max_attempts) {
        return AsUnavailable(page.status());
      }
      engines.BackOff(failures++);
      continue;
    }
    for (KeyValue& value : page->values) values.push_back(std::move(value));
    if (!page->has_more) return values;
    rest.begin = values.back().key + '\0';
  }
}

absl::StatusOr<std::string> CheckedPart(const ObjectEngines& engines, absl::string_view key,
                                        uint64_t begin, uint64_t num_bytes, uint32_t crc,
                                        absl::StatusOr<std::string> read) {
  for (int transfers = 1;; ++transfers) {
    if (!read.ok()) {
      if (!absl::IsNotFound(read.status())) return AsUnavailable(read.status());
      return absl::DataLossError(read.status().message());
    }
    if (read->size() == num_bytes && Crc32c(*read) == crc) return read;
    if (transfers >= engines.max_transfers) {
      return absl::DataLossError(absl::StrCat("object '", key, "': ", read->size(),
                                              " bytes that are not the ", num_bytes,
                                              " that were written, in ", transfers, " transfers"));
    }
    PH_RETURN_IF_ERROR(BeginWait());
    engines.BackOff(transfers - 1);
    read = ReadObject(*engines.objects, key, {begin, begin + num_bytes}, num_bytes,
                      engines.Deadline());
  }
}

absl::StatusOr<std::string> ReadWholeObject(const ObjectEngines& engines, absl::string_view key,
                                            uint64_t num_bytes, uint32_t crc) {
  return CheckedPart(
      engines, key, 0, num_bytes, crc,
      ReadObject(*engines.objects, key, {0, num_bytes}, num_bytes, engines.Deadline()));
}

}  // namespace packhouse
