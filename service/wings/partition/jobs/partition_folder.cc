#include "service/wings/partition/jobs/partition_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/checksum.h"
#include "service/base/disk_file.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/wings/partition/jobs/durable_files.h"

namespace packhouse {
namespace {

// In the folder of each partition.
constexpr char kStartsFile[] = "/starts";
constexpr char kFilesFolder[] = "/files";
// Folders that begin with a point are no partitions: names have none.
constexpr char kNewFolder[] = "/.new";
constexpr char kDeletedFolder[] = "/.deleted";

absl::StatusOr<std::string> TextOf(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return std::string(file.bytes());
}

absl::Status WriteTextOf(const std::string& path, absl::string_view text) {
  PH_RETURN_IF_ERROR(RemoveFolder(path));
  return WriteDurably(path, [text](ByteSink& sink) { return sink.Write(text); }).status();
}

// Empty if the folder is not there.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  return names;
}

// Says in the name of the list which list it is.
absl::Status ListIsDamaged(const std::string& graph, const absl::Status& why) {
  if (!absl::IsDataLoss(why)) return why;
  return absl::DataLossError(absl::StrCat("the list of partitions of source graph ", Quoted(graph),
                                          ", its file ", kPartitionListFile, ", ", why.message(),
                                          "; packhoused store repair --accept-missing writes it "
                                          "anew, of the partitions that are there"));
}

// Of a file that has another content than when it was noted; empty if it may be the same.
std::string LengthDiffers(uint64_t num_bytes, const PartitionFileContent& noted) {
  if (num_bytes == noted.num_bytes) return "";
  return absl::StrCat("has ", num_bytes, " bytes, had ", noted.num_bytes);
}

}  // namespace

PartitionFolder::PartitionFolder(std::string companion, std::string graph, uint64_t graph_version,
                                 absl::string_view name)
    : companion_(std::move(companion)),
      partitions_(absl::StrCat(companion_, "/", kPartitionsFolder)),
      graph_(std::move(graph)),
      graph_version_(graph_version),
      name_(name),
      path_(absl::StrCat(partitions_, "/", name)) {}

absl::StatusOr<PartitionList> PartitionFolder::Names() const {
  // First: what is deleted meanwhile is not in the list that is read then.
  PartitionList names = PartitionsThere(companion_);
  PH_ASSIGN_OR_RETURN(PartitionList list, List());
  names.merge(list);
  return names;
}

void PartitionFolder::RemoveRemains(const std::string& companion) {
  const std::string partitions = absl::StrCat(companion, "/", kPartitionsFolder);
  for (const std::string& name : NamesIn(partitions)) {
    if (name[0] == '.') RemoveFolder(absl::StrCat(partitions, "/", name)).IgnoreError();
  }
}

std::string PartitionFolder::files() const { return path_ + kFilesFolder; }
bool PartitionFolder::exists() const {
  return PathExists(absl::StrCat(path_, "/", kPartitionStateFile));
}
bool PartitionFolder::has_files() const { return PathExists(path_ + kFilesFolder); }

absl::Status PartitionFolder::Damaged(absl::string_view file, absl::string_view what) const {
  return absl::DataLossError(
      absl::StrCat("partition ", Quoted(name_), " of ", Quoted(graph_), ": its file ", file, " ",
                   what, "; delete the partition and ask for it anew, or restore a snapshot"));
}

absl::StatusOr<PartitionList> PartitionFolder::List() const {
  auto list = ReadPartitionList(companion_);
  return list.ok() ? list : ListIsDamaged(graph_, list.status());
}

absl::Status PartitionFolder::Enlist() const {
  PH_ASSIGN_OR_RETURN(PartitionList list, List());
  if (!list.insert(name_).second) return SyncFolder(companion_);
  return WritePartitionList(companion_, list);
}

absl::Status PartitionFolder::Settle() const {
  PH_RETURN_IF_ERROR(SyncFolder(partitions_));
  PH_RETURN_IF_ERROR(SyncFolder(path_));
  const absl::Status listed = Enlist();
  // What comes after it has not begun.
  return {listed.code(), listed.message()};
}

absl::Status PartitionFolder::Create(const PartitionPlan& plan, const ClientId& owner) const {
  PH_ASSIGN_OR_RETURN(const PartitionList list, List());
  if (!PathExists(absl::StrCat(companion_, "/", kPartitionListFile))) {
    const absl::Status begun = WritePartitionList(companion_, list);
    // Of a list without partitions nothing depends on the outcome.
    if (!begun.ok()) return {begun.code(), begun.message()};
  }
  const std::string unfinished = partitions_ + kNewFolder;
  PH_RETURN_IF_ERROR(RemoveFolder(unfinished));
  PH_RETURN_IF_ERROR(MakeFolder(unfinished));
  PH_RETURN_IF_ERROR(SyncFolder(companion_));
  PH_RETURN_IF_ERROR(WriteTextOf(absl::StrCat(unfinished, "/", kPartitionStateFile),
                                 StateText({plan, owner, std::nullopt})));
  PH_RETURN_IF_ERROR(SyncFolder(unfinished));
  PH_RETURN_IF_ERROR(RenameDurably(unfinished, path_));
  const absl::Status listed = Enlist();
  // The partition is there, and nobody would miss it.
  return listed.ok() ? listed : UnknownOutcome(listed);
}

absl::StatusOr<PartitionState> PartitionFolder::State() const {
  std::string before;
  for (;;) {
    if (!exists()) {
      PH_ASSIGN_OR_RETURN(const PartitionList list, List());
      // Looked for once more: others may make it, or delete it, meanwhile.
      if (list.contains(name_)) {
        if (exists()) continue;
        PH_ASSIGN_OR_RETURN(const PartitionList again, List());
        if (again.contains(name_)) return Damaged(kPartitionStateFile, "is missing");
      }
      return absl::NotFoundError(
          absl::StrCat("partition ", Quoted(name_), " of ", Quoted(graph_), ": there is none"));
    }
    auto text = TextOf(absl::StrCat(path_, "/", kPartitionStateFile));
    if (absl::IsNotFound(text.status())) continue;
    PH_RETURN_IF_ERROR(text.status());
    absl::StatusOr<PartitionState> state = StateOfText(*text);
    if (!state.ok()) return Damaged(kPartitionStateFile, state.status().message());
    if (state->plan.name != name_) {
      return Damaged(kPartitionStateFile,
                     absl::StrCat("is that of partition ", Quoted(state->plan.name)));
    }
    if (!state->end || !state->end->ok() || has_files()) return state;
    // Once more: it may just be deleted.
    if (*text == before) return Damaged(kFilesFolder + 1, "is missing");
    before = *std::move(text);
  }
}

absl::StatusOr<uint64_t> PartitionFolder::CountStart() const {
  uint64_t starts = 0;
  // A torn one counts as none.
  (void)absl::SimpleAtoi(TextOf(path_ + kStartsFile).value_or(""), &starts);
  PH_RETURN_IF_ERROR(WriteTextOf(path_ + kStartsFile, absl::StrCat(starts + 1)));
  PH_RETURN_IF_ERROR(SyncFolder(path_));
  return starts;
}

absl::Status PartitionFolder::RestartCount() const {
  PH_RETURN_IF_ERROR(WriteTextOf(path_ + kStartsFile, "1"));
  return SyncFolder(path_);
}

absl::Status PartitionFolder::RemoveCount() const { return RemoveFolder(path_ + kStartsFile); }

absl::Status PartitionFolder::WriteState(const PartitionState& state, absl::string_view why) const {
  const std::string path = absl::StrCat(path_, "/", kPartitionStateFile);
  // Two calls may write at the same time, for two reasons.
  const std::string unfinished = absl::StrCat(path, ".", why, ".unfinished");
  absl::Status written = WriteTextOf(unfinished, StateText(state));
  if (written.ok()) written = RenameDurably(unfinished, path);
  if (!written.ok() && !DiskOutcomeIsUnknown(written)) RemoveFolder(unfinished).IgnoreError();
  return written;
}

absl::Status PartitionFolder::WriteEnd(const absl::Status& how) const {
  PH_ASSIGN_OR_RETURN(PartitionState state, State());
  state.end = how;
  return WriteState(state, how.ok() ? "whole" : absl::IsCancelled(how) ? "cancelled" : "failed");
}

absl::Status PartitionFolder::RemoveEnd() const {
  PH_ASSIGN_OR_RETURN(PartitionState state, State());
  // Also if it was removed: an earlier try may not have synced.
  if (!state.end) return SyncFolder(path_);
  state.end.reset();
  return WriteState(state, "again");
}

absl::Status PartitionFolder::NoteFiles(const std::string& folder,
                                        absl::FunctionRef<bool()> goes_on) const {
  PH_ASSIGN_OR_RETURN(const PartitionContents contents, ReadPartitionContents(folder, goes_on));
  return WriteTextOf(absl::StrCat(folder, "/", kPartitionContentsFile),
                     EncodePartitionContents(contents));
}

absl::StatusOr<PartitionContents> PartitionFolder::Contents() const {
  const std::string file = absl::StrCat(kFilesFolder + 1, "/", kPartitionContentsFile);
  const auto text = TextOf(absl::StrCat(path_, "/", file));
  if (absl::IsNotFound(text.status())) return Damaged(file, "is missing");
  PH_RETURN_IF_ERROR(text.status());
  auto contents = DecodePartitionContents(*text);
  return contents.ok() ? contents : Damaged(file, contents.status().message());
}

absl::StatusOr<PartitionReport> PartitionFolder::Report() const {
  const std::string file = absl::StrCat(kFilesFolder + 1, "/", kPartitionReportFile);
  PH_ASSIGN_OR_RETURN(const PartitionContents contents, Contents());
  const auto text = TextOf(absl::StrCat(path_, "/", file));
  if (absl::IsNotFound(text.status())) return Damaged(file, "is missing");
  PH_RETURN_IF_ERROR(text.status());
  const auto noted = contents.find(kPartitionReportFile);
  if (noted == contents.end() ||
      noted->second != PartitionFileContent{text->size(), Crc32c(*text)}) {
    return Damaged(file, "is not what was written");
  }
  absl::StatusOr<PartitionReport> report = ReportOfText(*text);
  return report.ok() ? report : Damaged(file, report.status().message());
}

absl::StatusOr<std::vector<PartitionJobFile>> PartitionFolder::Files() const {
  PH_ASSIGN_OR_RETURN(const PartitionContents contents, Contents());
  std::vector<PartitionJobFile> files;
  for (const auto& [path, content] : contents) {
    std::error_code error;
    const uint64_t bytes =
        std::filesystem::file_size(absl::StrCat(path_, kFilesFolder, "/", path), error);
    const std::string differs = error ? "is missing" : LengthDiffers(bytes, content);
    if (!differs.empty()) return Damaged(absl::StrCat(kFilesFolder + 1, "/", path), differs);
    files.push_back({path, bytes});
  }
  return files;
}

absl::StatusOr<PartitionBytes> PartitionFolder::Read(absl::string_view path, uint64_t offset,
                                                     uint64_t max_bytes) const {
  const auto no_file = [&] {
    return absl::NotFoundError(absl::StrCat("partition ", Quoted(name_), " of ", Quoted(graph_),
                                            " has no file ", Quoted(path)));
  };
  // Clients see the error: it shows no path of the server.
  const auto cannot_read = [&](int error) {
    return absl::UnavailableError(absl::StrCat("file ", Quoted(path), " of partition ",
                                               Quoted(name_), " of ", Quoted(graph_),
                                               " cannot be read: ", std::strerror(error)));
  };
  PH_ASSIGN_OR_RETURN(const PartitionContents contents, Contents());
  const auto noted = contents.find(std::string(path));
  if (noted == contents.end()) return no_file();
  const auto is_damaged = [&](absl::string_view what) {
    return Damaged(absl::StrCat(kFilesFolder + 1, "/", path), what);
  };
  const std::string file = absl::StrCat(path_, kFilesFolder, "/", path);
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR || error == ELOOP) return is_damaged("is missing");
    return cannot_read(error);
  }
  struct Closed {
    int descriptor;
    ~Closed() { ::close(descriptor); }
  } const closed{descriptor};
  struct stat state = {};
  if (::fstat(descriptor, &state) != 0 || !S_ISREG(state.st_mode)) return is_damaged("is no file");
  PartitionBytes bytes;
  bytes.num_bytes = static_cast<uint64_t>(state.st_size);
  const std::string differs = LengthDiffers(bytes.num_bytes, noted->second);
  if (!differs.empty()) return is_damaged(differs);
  if (offset > bytes.num_bytes) return BeyondEnd(path, offset, bytes.num_bytes);
  bytes.data.resize(std::min(max_bytes, bytes.num_bytes - offset));
  for (size_t done = 0; done < bytes.data.size();) {
    const ssize_t got = ::pread(descriptor, bytes.data.data() + done, bytes.data.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return cannot_read(errno);
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

absl::Status PartitionFolder::BeyondEnd(absl::string_view file, uint64_t offset,
                                        uint64_t num_bytes) {
  return absl::OutOfRangeError(absl::StrCat("offset ", offset, " of file ", Quoted(file),
                                            " is beyond its end, ", num_bytes));
}

absl::StatusOr<OwnedBytes> PartitionFolder::Map(absl::string_view file) const {
  const std::string path = absl::StrCat(kFilesFolder + 1, "/", file);
  auto opened = MappedFile::Open(absl::StrCat(path_, "/", path));
  if (absl::IsNotFound(opened.status())) return Damaged(path, "is missing");
  PH_RETURN_IF_ERROR(opened.status());
  auto mapped = std::make_shared<const MappedFile>(*std::move(opened));
  return OwnedBytes{mapped->bytes(), mapped->bytes().size(), mapped};
}

uint64_t PartitionFolder::NumBytes() const {
  const absl::StatusOr<std::vector<PartitionJobFile>> files = FilesInFolder(path_);
  uint64_t bytes = 0;
  if (files.ok()) {
    for (const PartitionJobFile& file : *files) bytes += file.num_bytes;
  }
  return bytes;
}

absl::StatusOr<std::string> PartitionFolder::MoveAway() const {
  PH_ASSIGN_OR_RETURN(PartitionList list, List());
  if (list.erase(name_) != 0) PH_RETURN_IF_ERROR(WritePartitionList(companion_, list));
  // Of one that was missing nothing is left.
  if (!PathExists(path_)) return "";
  std::string to;
  for (uint64_t n = 0; to.empty() || PathExists(to); ++n) {
    to = absl::StrCat(partitions_, kDeletedFolder, n);
  }
  const absl::Status moved = RenameDurably(path_, to);
  // It is there as before.
  if (!moved.ok() && !DiskOutcomeIsUnknown(moved)) Enlist().IgnoreError();
  PH_RETURN_IF_ERROR(moved);
  return to;
}

}  // namespace packhouse
