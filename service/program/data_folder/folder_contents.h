// What a data folder must have, in a file of its own: so that a store that was deleted or emptied
// is not taken for one in which nothing was ever stored.
//
// It is one of checked_lines.h; each line is NAME " " IDENTITY. NAME is that of a file or folder
// below; they are in ascending order. IDENTITY is that of a store, or what a file that never
// changes has in it, as 16 hexadecimal digits; "-" if there is none.
//
// A name is added once what it names is durable, and taken out by packhoused store repair alone.
#ifndef PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_FOLDER_CONTENTS_H_
#define PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_FOLDER_CONTENTS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/base/stored_damage.h"

namespace packhouse {

inline constexpr char kContentsFile[] = "contents";

// Identities of stores, by the names of their folders; 0 if it is not known.
using StoreIdentities = std::map<std::string, uint64_t>;

struct FolderContents {
  // By name; identities as in the file.
  std::map<std::string, std::string> items;

  friend bool operator==(const FolderContents&, const FolderContents&) = default;
};

std::string EncodeFolderContents(const FolderContents& contents);
// DATA_LOSS unless EncodeFolderContents() wrote the text.
absl::StatusOr<FolderContents> DecodeFolderContents(absl::string_view text);

// That of a data folder; nothing if it has no such file, such as a new one. DATA_LOSS naming the
// file if it is damaged; errors of the disk.
absl::StatusOr<FolderContents> ReadFolderContents(const std::string& data_dir);

// Calls `found` for each thing that must be there and is missing, empty or another one. Of stores
// the identities are compared that are known. Opens nothing but small files.
void CheckFolderContents(const std::string& data_dir, const FolderContents& contents,
                         const StoreIdentities& identities, DamageVisitor found);
// Reads and checks: DATA_LOSS naming the first that is wrong, and what helps.
absl::Status VerifyFolderContents(const std::string& data_dir, const StoreIdentities& identities);

// Of a folder that no server has open.
StoreIdentities ReadIdentities(const std::string& data_dir);

// Adds what is there and not in the file yet, durably; nothing is taken out.
absl::Status NoteFolderContents(const std::string& data_dir, const StoreIdentities& identities);
// Writes the file anew from what is there.
absl::Status RewriteFolderContents(const std::string& data_dir, const StoreIdentities& identities);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_PROGRAM_DATA_FOLDER_FOLDER_CONTENTS_H_
