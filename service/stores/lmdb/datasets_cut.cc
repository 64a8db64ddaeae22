#include "service/stores/lmdb/datasets_cut.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_shared_store.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_folder.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
namespace {

// Each try lists the data sets anew, which takes microseconds each.
constexpr int kMaxTries = 1000;
constexpr size_t kMaxRecordsAtOnce = 65536;
constexpr uint64_t kBytesInTransaction = uint64_t{64} << 20;
// Room in the map for trees and half-full pages.
constexpr uint64_t kMapRoom = uint64_t{256} << 20;

// Numbers of the data sets that are not deleted.
absl::StatusOr<std::set<uint64_t>> LivingNumbers(const LmdbTransaction& transaction) {
  std::set<uint64_t> numbers;
  for (const absl::string_view prefix : {kStatePrefix, kTombstonePrefix}) {
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
    for (; cursor.valid() && absl::StartsWith(cursor.key(), prefix);) {
      if (const auto number = NumberAtEnd(cursor.key())) {
        if (prefix == kStatePrefix) {
          numbers.insert(*number);
        } else {
          numbers.erase(*number);
        }
      }
      PH_RETURN_IF_ERROR(cursor.Next());
    }
  }
  return numbers;
}

absl::Status VisitPrefix(const LmdbTransaction& transaction, absl::string_view prefix,
                         StoredValueVisitor visit) {
  PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, prefix));
  for (; cursor.valid() && absl::StartsWith(cursor.key(), prefix);) {
    PH_RETURN_IF_ERROR(visit(cursor.key(), cursor.raw_value()));
    PH_RETURN_IF_ERROR(cursor.Next());
  }
  return absl::OkStatus();
}

absl::Status VisitValues(const LmdbTransaction& transaction, const std::set<uint64_t>& numbers,
                         StoredValueVisitor visit) {
  PH_RETURN_IF_ERROR(VisitPrefix(transaction, FormatKey(), visit));
  for (const uint64_t number : numbers) {
    PH_RETURN_IF_ERROR(VisitPrefix(transaction, HistogramPrefix(number), visit));
  }
  PH_RETURN_IF_ERROR(VisitPrefix(transaction, kNamePrefix, visit));
  for (const uint64_t number : numbers) {
    PH_RETURN_IF_ERROR(VisitPrefix(transaction, ProducerPrefix(number), visit));
  }
  for (const uint64_t number : numbers) {
    PH_RETURN_IF_ERROR(VisitPrefix(transaction, StateKey(number), visit));
  }
  return absl::OkStatus();
}

uint64_t GraphsOf(const LmdbTransaction& transaction, uint64_t number) {
  const auto payload = transaction.Get(StateKey(number));
  if (!payload.ok() || !*payload) return UINT64_MAX;
  const auto state = DecodeState(**payload);
  return state.ok() ? state->num_graphs : UINT64_MAX;
}

}  // namespace

absl::StatusOr<std::unique_ptr<DatasetsCut>> DatasetsCut::Take(
    std::shared_ptr<LmdbSharedStore> store, StoredValueVisitor visit) {
  auto cut = std::unique_ptr<DatasetsCut>(new DatasetsCut(std::move(store)));
  LmdbSharedStore& shared = *cut->store_;
  // A pin helps only if the data set is still there afterwards (LmdbSharedStore::OpenDataset()). So
  // the moment of the cut is one at which everything that is there had been pinned before.
  std::set<uint64_t> pinned;
  for (int i = 0; i < kMaxTries; ++i) {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared.Read());
    PH_ASSIGN_OR_RETURN(const std::set<uint64_t> numbers, LivingNumbers(transaction));
    if (std::includes(pinned.begin(), pinned.end(), numbers.begin(), numbers.end())) {
      PH_RETURN_IF_ERROR(VisitValues(transaction, numbers, visit));
      for (const uint64_t number : numbers) {
        cut->datasets_.push_back({number, GraphsOf(transaction, number)});
      }
      PH_RETURN_IF_ERROR(shared.environment().CheckFiles());
      return cut;
    }
    for (const uint64_t number : numbers) {
      if (!pinned.insert(number).second) continue;
      shared.eraser().Pin(number);
      cut->pinned_.push_back(number);
    }
  }
  return absl::UnavailableError(absl::StrCat("store '", shared.environment().folder(),
                                             "': ", kMaxTries,
                                             " times data sets were created while they "
                                             "were listed"));
}

DatasetsCut::~DatasetsCut() {
  for (const uint64_t number : pinned_) store_->eraser().Unpin(number);
}

size_t DatasetsCut::page_bytes() const { return store_->environment().page_bytes(); }

absl::StatusOr<uint64_t> DatasetsCut::VisitRecords(const Dataset& dataset, uint64_t from,
                                                   uint64_t max_bytes,
                                                   StoredValueVisitor visit) const {
  // Views of records outlive the transaction.
  std::vector<std::pair<std::string, absl::string_view>> records;
  uint64_t next = dataset.num_graphs;
  {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, store_->Read());
    const std::string prefix = RecordPrefix(dataset.number);
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor,
                        LmdbCursor::At(transaction, RecordKey(dataset.number, from)));
    uint64_t bytes = 0;
    for (; cursor.valid() && absl::StartsWith(cursor.key(), prefix);) {
      const uint64_t first_graph = NumberAtEnd(cursor.key()).value_or(UINT64_MAX);
      if (first_graph >= dataset.num_graphs) break;
      if (bytes >= max_bytes || records.size() >= kMaxRecordsAtOnce) {
        next = first_graph;
        break;
      }
      bytes += cursor.raw_value().size();
      records.emplace_back(cursor.key(), cursor.raw_value());
      PH_RETURN_IF_ERROR(cursor.Next());
    }
  }
  for (const auto& [key, value] : records) PH_RETURN_IF_ERROR(visit(key, value));
  PH_RETURN_IF_ERROR(store_->environment().CheckFiles());
  return next;
}

absl::Status RestoreDatasetFolder(
    const std::string& folder, size_t page_bytes, uint64_t value_bytes,
    absl::FunctionRef<absl::StatusOr<bool>(absl::string_view& key, absl::string_view& raw_value)>
        next) {
  std::error_code error;
  if (std::filesystem::exists(folder + StoreFolder::kDataFile, error)) {
    return absl::AlreadyExistsError(absl::StrCat("store '", folder, "': there is one already"));
  }
  PH_ASSIGN_OR_RETURN(
      const auto environment,
      // Pages of trees are half full at the least, and a small value takes a page. A map is
      // addresses.
      LmdbEnvironment::Open(folder, (4 * value_bytes + 2 * kMapRoom) / kMapRoom * kMapRoom));
  if (environment->page_bytes() != page_bytes) {
    return absl::FailedPreconditionError(
        absl::StrCat("store '", folder, "': pages of ", environment->page_bytes(),
                     " bytes, the copy was made of a store with pages of ", page_bytes));
  }
  absl::string_view key;
  absl::string_view value;
  PH_ASSIGN_OR_RETURN(bool has_more, next(key, value));
  while (has_more) {
    PH_ASSIGN_OR_RETURN(LmdbTransaction transaction,
                        LmdbTransaction::Begin(*environment, LmdbTransaction::Kind::kWrite));
    for (uint64_t bytes = 0; has_more && bytes < kBytesInTransaction;) {
      if (key.empty() || key.size() > LmdbEnvironment::kMaxKeyBytes) {
        return absl::DataLossError(
            absl::StrCat("store '", folder, "': a key of ", key.size(), " bytes"));
      }
      PH_ASSIGN_OR_RETURN(char* const out, transaction.PutRaw(key, value.size()));
      std::memcpy(out, value.data(), value.size());
      bytes += key.size() + value.size();
      PH_ASSIGN_OR_RETURN(has_more, next(key, value));
    }
    PH_RETURN_IF_ERROR(transaction.Commit());
  }
  return absl::OkStatus();
}

}  // namespace packhouse
