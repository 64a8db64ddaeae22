#include "service/program/data_folder/folder_contents.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/checked_lines.h"
#include "service/base/digest.h"
#include "service/base/disk_file.h"
#include "service/base/status_macros.h"
#include "service/engine/histograms/histogram_file.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/lmdb/store_format.h"
#include "service/stores/lmdb/stored_keys.h"

namespace packhouse {
namespace {

constexpr absl::string_view kContentsTitle = "packhouse data folder 1";
constexpr absl::string_view kNoIdentity = "-";
constexpr size_t kIdentityBytes = 8;

// What a data folder can have that must not be lost without a word.
struct Item {
  const char* name;
  const char* file;  // In the folder; must not be empty.
  bool never_changes;
  const char* cost;
};
constexpr Item kItems[] = {
    {"datasets", "datasets/data.mdb", false, "all data sets"},
    {"delivery", "delivery/data.mdb", false, "all jobs and measured models"},
    {kHistogramsFile, kHistogramsFile, false, "all named histograms"},
    {kSigningKeyFile, kSigningKeyFile, true, "the cursors that were given out"},
    {"source_graphs", "source_graphs/graphs", false, "all source graphs"},
};

const Item* FindItem(absl::string_view name) {
  const auto* const found =
      absl::c_find_if(kItems, [name](const Item& item) { return item.name == name; });
  return found == std::end(kItems) ? nullptr : found;
}

std::string PathOf(const std::string& data_dir, const Item& item) {
  return absl::StrCat(data_dir, "/", item.file);
}

// Empty if it is there.
std::string WhyMissing(const std::string& data_dir, const Item& item) {
  const std::string path = PathOf(data_dir, item);
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return "is missing";
  return std::filesystem::file_size(path, error) == 0 && !error ? "is empty" : "";
}

std::string IdentityOf(const std::string& data_dir, const Item& item,
                       const StoreIdentities& identities) {
  if (item.never_changes) {
    const auto bytes = ReadWhole(PathOf(data_dir, item));
    if (!bytes.ok()) return std::string(kNoIdentity);
    Digest digest;
    digest.AddBytes(*bytes);
    return digest.Hex(kIdentityBytes);
  }
  const auto found = identities.find(item.name);
  if (found == identities.end() || found->second == 0) return std::string(kNoIdentity);
  return absl::StrCat(absl::Hex(found->second, absl::kZeroPad16));
}

bool IsIdentity(absl::string_view text) {
  return text == kNoIdentity ||
         (text.size() == 2 * kIdentityBytes && absl::c_all_of(text, [](char c) {
            return absl::ascii_isdigit(static_cast<unsigned char>(c)) || (c >= 'a' && c <= 'f');
          }));
}

// Adds what is there to `contents`.
void AddThere(const std::string& data_dir, const StoreIdentities& identities,
              FolderContents& contents) {
  for (const Item& item : kItems) {
    if (!WhyMissing(data_dir, item).empty()) continue;
    std::string& identity = contents.items.try_emplace(item.name, kNoIdentity).first->second;
    if (identity == kNoIdentity) identity = IdentityOf(data_dir, item, identities);
  }
}

}  // namespace

std::string EncodeFolderContents(const FolderContents& contents) {
  std::string lines;
  for (const auto& [name, identity] : contents.items) {
    absl::StrAppend(&lines, name, " ", identity, "\n");
  }
  return WithChecksumLine(kContentsTitle, lines);
}

absl::StatusOr<FolderContents> DecodeFolderContents(absl::string_view text) {
  const absl::Status damaged =
      absl::DataLossError("is damaged, or was written by a later release of packhoused");
  PH_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines, LinesOf(kContentsTitle, text));
  FolderContents contents;
  for (const absl::string_view line : lines) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ');
    if (words.size() != 2 || FindItem(words[0]) == nullptr || !IsIdentity(words[1])) return damaged;
    contents.items.emplace(words[0], words[1]);
  }
  // It is read only if this release would write it so.
  if (EncodeFolderContents(contents) != text) return damaged;
  return contents;
}

absl::StatusOr<FolderContents> ReadFolderContents(const std::string& data_dir) {
  const std::string path = absl::StrCat(data_dir, "/", kContentsFile);
  const auto text = ReadWhole(path);
  if (absl::IsNotFound(text.status())) return FolderContents();
  PH_RETURN_IF_ERROR(text.status());
  auto contents = DecodeFolderContents(*text);
  if (contents.ok()) return contents;
  return absl::DataLossError(absl::StrCat("'", path, "' ", contents.status().message()));
}

void CheckFolderContents(const std::string& data_dir, const FolderContents& contents,
                         const StoreIdentities& identities, DamageVisitor found) {
  for (const auto& [name, identity] : contents.items) {
    const Item& item = *FindItem(name);
    std::string what = WhyMissing(data_dir, item);
    if (what.empty() && identity != kNoIdentity) {
      const std::string now = IdentityOf(data_dir, item, identities);
      if (now != kNoIdentity && now != identity) {
        what = "is another one than this folder had";
      }
    }
    if (!what.empty()) found({PathOf(data_dir, item), "", std::move(what), item.cost});
  }
}

absl::Status VerifyFolderContents(const std::string& data_dir, const StoreIdentities& identities) {
  const auto with_remedy = [&data_dir](absl::string_view what) {
    return absl::DataLossError(absl::StrCat(
        what,
        ". Put it back, or restore a snapshot; or go on without it after packhoused store "
        "repair '",
        data_dir, "' --accept-missing"));
  };
  const auto contents = ReadFolderContents(data_dir);
  if (absl::IsDataLoss(contents.status())) return with_remedy(contents.status().message());
  PH_RETURN_IF_ERROR(contents.status());
  absl::Status first;
  CheckFolderContents(data_dir, *contents, identities, [&](const StoredDamage& damage) {
    if (!first.ok()) return;
    first = with_remedy(absl::StrCat("'", damage.file, "' ", damage.what, ", and it had ",
                                     damage.cost, ": '", data_dir, "/", kContentsFile,
                                     "' says that it must be there"));
  });
  return first;
}

StoreIdentities ReadIdentities(const std::string& data_dir) {
  StoreIdentities identities;
  const auto read = [&](const Item& item, const std::string& key) {
    // Opening would make it.
    if (WhyMissing(data_dir, item).empty()) {
      identities[item.name] = ReadStoreIdentity(absl::StrCat(data_dir, "/", item.name), key);
    }
  };
  read(*FindItem("datasets"), FormatKey());
  read(*FindItem("delivery"), LogFormatKey());
  return identities;
}

absl::Status NoteFolderContents(const std::string& data_dir, const StoreIdentities& identities) {
  PH_ASSIGN_OR_RETURN(const FolderContents before, ReadFolderContents(data_dir));
  FolderContents contents = before;
  AddThere(data_dir, identities, contents);
  if (contents == before) return absl::OkStatus();
  return WriteWhole(data_dir, kContentsFile, EncodeFolderContents(contents));
}

absl::Status RewriteFolderContents(const std::string& data_dir, const StoreIdentities& identities) {
  FolderContents contents;
  AddThere(data_dir, identities, contents);
  return WriteWhole(data_dir, kContentsFile, EncodeFolderContents(contents));
}

}  // namespace packhouse
