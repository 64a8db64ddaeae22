#include "service/partition_jobs/partition_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/file_name.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/partition_jobs/durable_files.h"

namespace packhouse {
namespace {

// In the graph's companion folder.
constexpr char kPartitions[] = "/partitions";
// In the folder of each partition.
constexpr char kRequestFile[] = "/request.json";
constexpr char kOwnerFile[] = "/owner";
constexpr char kEndFile[] = "/end";
constexpr char kStartsFile[] = "/starts";
constexpr char kFilesFolder[] = "/files";
constexpr char kReportFile[] = "/files/report.json";
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

absl::Status IsDamaged(const std::string& path, const absl::Status& why) {
  return absl::DataLossError(absl::StrCat(path, " is damaged: ", why.message()));
}

// Empty if the folder is not there.
std::vector<std::string> NamesIn(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::StatusOr<std::vector<PartitionJobFile>> FilesBelow(const std::string& folder) {
  std::vector<PartitionJobFile> files;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error) || error) continue;
    const uint64_t bytes = entry->file_size(error);
    if (!error) files.push_back({entry->path().string().substr(folder.size() + 1), bytes});
  }
  if (error) return absl::UnavailableError(absl::StrCat(folder, ": ", error.message()));
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return files;
}

}  // namespace

PartitionFolder::PartitionFolder(const StoredSourceGraph& graph, absl::string_view name)
    : partitions_(graph.companion_folder() + kPartitions),
      graph_(graph.info().name),
      name_(name),
      path_(absl::StrCat(partitions_, "/", name)) {}

std::vector<std::string> PartitionFolder::NamesOf(const StoredSourceGraph& graph) {
  std::vector<std::string> names = NamesIn(graph.companion_folder() + kPartitions);
  std::erase_if(names, [](const std::string& name) { return name[0] == '.'; });
  return names;
}

void PartitionFolder::RemoveRemains(const StoredSourceGraph& graph) {
  const std::string partitions = graph.companion_folder() + kPartitions;
  for (const std::string& name : NamesIn(partitions)) {
    if (name[0] == '.') RemoveFolder(absl::StrCat(partitions, "/", name)).IgnoreError();
  }
}

std::string PartitionFolder::files() const { return path_ + kFilesFolder; }
bool PartitionFolder::exists() const { return PathExists(path_ + kRequestFile); }
bool PartitionFolder::is_done() const { return PathExists(path_ + kFilesFolder); }
bool PartitionFolder::has_end() const { return PathExists(path_ + kEndFile); }

absl::Status PartitionFolder::Settle() const {
  PH_RETURN_IF_ERROR(SyncFolder(partitions_));
  return SyncFolder(path_);
}

absl::Status PartitionFolder::Create(const PartitionPlan& plan, const ClientId& owner) const {
  const std::string unfinished = partitions_ + kNewFolder;
  PH_RETURN_IF_ERROR(RemoveFolder(unfinished));
  PH_RETURN_IF_ERROR(MakeFolder(unfinished));
  PH_RETURN_IF_ERROR(SyncFolder(std::filesystem::path(partitions_).parent_path().string()));
  PH_RETURN_IF_ERROR(WriteTextOf(unfinished + kRequestFile, PlanText(plan)));
  PH_RETURN_IF_ERROR(WriteTextOf(unfinished + kOwnerFile, owner));
  PH_RETURN_IF_ERROR(SyncFolder(unfinished));
  return RenameDurably(unfinished, path_);
}

absl::StatusOr<PartitionPlan> PartitionFolder::Request() const {
  const absl::StatusOr<std::string> text = TextOf(path_ + kRequestFile);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat("partition ", Quoted(name_), " of ", Quoted(graph_), ": there is none"));
  }
  PH_RETURN_IF_ERROR(text.status());
  absl::StatusOr<PartitionPlan> plan = PlanOfText(*text);
  if (!plan.ok()) return IsDamaged(path_ + kRequestFile, plan.status());
  return plan;
}

ClientId PartitionFolder::Owner() const { return TextOf(path_ + kOwnerFile).value_or(""); }

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

// The number of a code, and the message.
absl::Status PartitionFolder::WriteEnd(const absl::Status& why) const {
  const std::string unfinished =
      absl::StrCat(path_, kEndFile, absl::IsCancelled(why) ? ".cancelled" : ".failed");
  PH_RETURN_IF_ERROR(
      WriteTextOf(unfinished, absl::StrCat(static_cast<int>(why.code()), "\n", why.message())));
  return RenameDurably(unfinished, path_ + kEndFile);
}

absl::StatusOr<absl::Status> PartitionFolder::End() const {
  PH_ASSIGN_OR_RETURN(const std::string text, TextOf(path_ + kEndFile));
  const size_t line = std::min(text.find('\n'), text.size());
  int code = 0;
  if (!absl::SimpleAtoi(absl::string_view(text).substr(0, line), &code) || code == 0) {
    return absl::DataLossError(absl::StrCat(path_, kEndFile, " is damaged"));
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::string_view(text).substr(std::min(line + 1, text.size())));
}

absl::Status PartitionFolder::RemoveEnd() const { return RemoveDurably(path_ + kEndFile); }

absl::StatusOr<PartitionReport> PartitionFolder::Report() const {
  PH_ASSIGN_OR_RETURN(const std::string text, TextOf(path_ + kReportFile));
  absl::StatusOr<PartitionReport> report = ReportOfText(text);
  if (!report.ok()) return IsDamaged(path_ + kReportFile, report.status());
  return report;
}

absl::StatusOr<std::vector<PartitionJobFile>> PartitionFolder::Files() const {
  return FilesBelow(path_ + kFilesFolder);
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
  if (!IsPathBelow(path)) return no_file();
  const std::string file = absl::StrCat(path_, kFilesFolder, "/", path);
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    const int error = errno;
    if (error == ENOENT || error == ENOTDIR || error == ELOOP || error == ENAMETOOLONG) {
      return no_file();
    }
    return cannot_read(error);
  }
  struct Closed {
    int descriptor;
    ~Closed() { ::close(descriptor); }
  } const closed{descriptor};
  struct stat state = {};
  if (::fstat(descriptor, &state) != 0 || !S_ISREG(state.st_mode)) return no_file();
  PartitionBytes bytes;
  bytes.num_bytes = static_cast<uint64_t>(state.st_size);
  if (offset > bytes.num_bytes) {
    return absl::OutOfRangeError(absl::StrCat("offset ", offset, " of file ", Quoted(path),
                                              " is beyond its end, ", bytes.num_bytes));
  }
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

uint64_t PartitionFolder::NumBytes() const {
  const absl::StatusOr<std::vector<PartitionJobFile>> files = FilesBelow(path_);
  uint64_t bytes = 0;
  if (files.ok()) {
    for (const PartitionJobFile& file : *files) bytes += file.num_bytes;
  }
  return bytes;
}

absl::StatusOr<std::string> PartitionFolder::MoveAway() const {
  std::string to;
  for (uint64_t n = 0; to.empty() || PathExists(to); ++n) {
    to = absl::StrCat(partitions_, kDeletedFolder, n);
  }
  PH_RETURN_IF_ERROR(RenameDurably(path_, to));
  return to;
}

}  // namespace packhouse
