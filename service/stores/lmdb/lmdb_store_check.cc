#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/stores/datasets/store_check.h"
#include "service/stores/datasets/stored_values.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_dataset_values.h"
#include "service/stores/lmdb/lmdb_dataset_verify.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/lmdb_maintenance.h"
#include "service/stores/lmdb/lmdb_shared_store.h"
#include "service/stores/lmdb/lmdb_transaction.h"
#include "service/stores/lmdb/store_folder.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
namespace {

// The file is mapped as a whole if it is larger.
constexpr uint64_t kLeastMapBytes = uint64_t{1} << 28;

// The number of the data set that a key belongs to: the first one in it.
std::optional<uint64_t> NumberInKey(absl::string_view key) {
  return NumberAtEnd(key.substr(0, 1 + sizeof(uint64_t)));
}

class FolderCheck {
 public:
  FolderCheck(std::string file, std::shared_ptr<LmdbSharedStore> shared, DamageVisitor found)
      : file_(std::move(file)), shared_(std::move(shared)), found_(found) {}

  absl::StatusOr<uint64_t> Run() {
    PH_RETURN_IF_ERROR(ReadNames());
    PH_RETURN_IF_ERROR(CheckKeys());
    for (const std::string& name : names_) PH_RETURN_IF_ERROR(CheckDataset(name));
    return names_.size();
  }

 private:
  void Found(std::string place, absl::string_view what, std::string cost) {
    found_({file_, std::move(place), std::string(what), std::move(cost)});
  }

  absl::Status ReadNames() {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
    return ForEachKey(transaction, kNamePrefix, [&](absl::string_view key, absl::string_view raw) {
      const absl::string_view name = key.substr(kNamePrefix.size());
      const auto payload = CheckedPayload(key, raw);
      const auto definition = payload.ok() ? DecodeDefinition(*payload)
                                           : absl::StatusOr<StoredDefinition>(payload.status());
      if (definition.ok()) {
        names_.emplace_back(name);
        numbers_.insert(definition->dataset);
      } else {
        Found(absl::StrCat("the definition of ", NamedDataset(name)), definition.status().message(),
              NamedDataset(name));
      }
      return true;
    });
  }

  // What no data set looks at: keys that belong to none, and values beside those of data sets.
  absl::Status CheckKeys() {
    PH_ASSIGN_OR_RETURN(const LmdbTransaction transaction, shared_->Read());
    PH_RETURN_IF_ERROR(ForEachKey(
        transaction, kTombstonePrefix, [&](absl::string_view key, absl::string_view raw) {
          const auto payload = CheckedPayload(key, raw);
          const auto number = NumberInKey(key);
          if (payload.ok() && number) {
            numbers_.insert(*number);
          } else {
            Found(absl::StrCat("the tombstone '", absl::CHexEscape(key), "'"),
                  payload.status().message(), "space of a deleted data set stays taken");
          }
          return true;
        }));
    std::map<uint64_t, uint64_t> strays;
    PH_ASSIGN_OR_RETURN(LmdbCursor cursor, LmdbCursor::At(transaction, absl::string_view("\0", 1)));
    for (; cursor.valid();) {
      const absl::string_view key = cursor.key();
      const absl::string_view kind = key.substr(0, 1);
      if (kind == kStatePrefix || kind == kRecordPrefix || kind == kHistogramPrefix ||
          kind == kProducerPrefix) {
        const auto number = NumberInKey(key);
        if (!number || !numbers_.contains(*number)) ++strays[number.value_or(0)];
      } else if (kind != kNamePrefix && kind != kTombstonePrefix && key != FormatKey()) {
        Found(absl::StrCat("the key '", absl::CHexEscape(key), "'"), "is no key of this store",
              "what had been under the key that it was");
      }
      PH_RETURN_IF_ERROR(cursor.Next());
    }
    for (const auto& [number, count] : strays) {
      Found(absl::StrCat(count, " values of data set number ", number),
            "belong to no data set that has a name",
            "the data set whose name or key was damaged; if there is none, only their space");
    }
    return shared_->environment().CheckFiles();
  }

  absl::Status CheckDataset(const std::string& name) {
    const auto opened = LmdbSharedStore::OpenDataset(shared_, name);
    PH_RETURN_IF_ERROR(shared_->environment().CheckFiles());
    if (absl::IsDataLoss(opened.status())) {
      Found(NamedDataset(name), opened.status().message(), NamedDataset(name));
      return absl::OkStatus();
    }
    PH_RETURN_IF_ERROR(opened.status());
    PH_ASSIGN_OR_RETURN(
        const VerifyReport report,
        VerifyDataset(*opened, shared_->environment(), [](const VerifyProgress&) { return true; }));
    TellDamage(file_, name, report, found_);
    return absl::OkStatus();
  }

  const std::string file_;
  const std::shared_ptr<LmdbSharedStore> shared_;
  const DamageVisitor found_;
  std::vector<std::string> names_;
  // Of data sets that have a name or are being erased.
  std::set<uint64_t> numbers_;
};

}  // namespace

absl::StatusOr<uint64_t> CheckDatasetFolder(const std::string& folder, DamageVisitor found,
                                            uint64_t* identity) {
  const std::string file = folder + StoreFolder::kDataFile;
  std::error_code error;
  if (std::filesystem::file_size(file, error) == 0 || error) return 0;
  auto environment = LmdbEnvironment::Open(folder, kLeastMapBytes);
  if (absl::IsDataLoss(environment.status())) {
    found({file, "the pages of the trees", std::string(environment.status().message()),
           "all data sets, until a snapshot is restored"});
    return 0;
  }
  PH_RETURN_IF_ERROR(environment.status());
  const auto format = CheckFormat(**environment, FormatKey(), kStoreFormatVersion);
  if (absl::IsDataLoss(format.status())) {
    found({file, "the format", std::string(format.status().message()),
           "all data sets, until a snapshot is restored"});
    return 0;
  }
  PH_RETURN_IF_ERROR(format.status());
  if (!*format) return 0;
  auto shared = std::make_shared<LmdbSharedStore>(*std::move(environment), nullptr);
  PH_RETURN_IF_ERROR(shared->Load());
  if (identity != nullptr) *identity = shared->identity();
  return FolderCheck(file, std::move(shared), found).Run();
}

}  // namespace packhouse
