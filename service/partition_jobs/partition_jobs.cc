#include "service/partition_jobs/partition_jobs.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/quoted.h"
#include "service/base/status_macros.h"
#include "service/partition_jobs/durable_files.h"
#include "service/partitioning/assignment.h"
#include "service/partitioning/homogeneous_graph.h"

namespace packhouse {
namespace {

// In the graph's companion folder.
constexpr char kPartitions[] = "/partitions";
// In the folder of each partition.
constexpr char kRequestFile[] = "/request.json";
constexpr char kEndFile[] = "/end";
constexpr char kFilesFolder[] = "/files";
constexpr char kReportFile[] = "/files/report.json";
// Folders that begin with a point are no partitions: names have none.
constexpr char kNewFolder[] = "/.new";
constexpr char kDeletedFolder[] = "/.deleted";

// Calls are served first.
constexpr int kNice = 10;
constexpr absl::Duration kMemoryRetry = absl::Seconds(1);
constexpr uint64_t kBytesPerNode = 32;

std::string FolderOf(const StoredSourceGraph& graph, absl::string_view name) {
  return absl::StrCat(graph.companion_folder(), kPartitions, "/", name);
}

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  PH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return std::string(file.bytes());
}

absl::Status WriteTextFile(const std::string& path, absl::string_view text) {
  PH_RETURN_IF_ERROR(RemoveFolder(path));
  return WriteDurably(path, [text](ByteSink& sink) { return sink.Write(text); }).status();
}

absl::Status NoPartition(absl::string_view graph, absl::string_view name) {
  return absl::NotFoundError(
      absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph), ": there is none"));
}

// Why work ended: the number of a code, and the message.
absl::Status WriteEnd(const std::string& folder, absl::string_view suffix,
                      const absl::Status& why) {
  const std::string path = folder + kEndFile;
  const std::string unfinished = absl::StrCat(path, suffix);
  PH_RETURN_IF_ERROR(
      WriteTextFile(unfinished, absl::StrCat(static_cast<int>(why.code()), "\n", why.message())));
  return RenameDurably(unfinished, path);
}

absl::StatusOr<absl::Status> ReadEnd(const std::string& folder) {
  PH_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(folder + kEndFile));
  const size_t line = std::min(text.find('\n'), text.size());
  int code = 0;
  if (!absl::SimpleAtoi(absl::string_view(text).substr(0, line), &code) || code == 0) {
    return absl::DataLossError(absl::StrCat(folder, kEndFile, " is damaged"));
  }
  return absl::Status(static_cast<absl::StatusCode>(code),
                      absl::string_view(text).substr(std::min(line + 1, text.size())));
}

absl::Status Damaged(const std::string& path, const absl::Status& why) {
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

// Whether it names a file below a folder, and nothing above or beside it.
bool IsPathBelow(absl::string_view path) {
  if (path.empty() || path.find('\0') != absl::string_view::npos) return false;
  const std::filesystem::path parsed{std::string(path)};
  return parsed.is_relative() &&
         std::none_of(parsed.begin(), parsed.end(), [](const std::filesystem::path& part) {
           return part.empty() || part == "." || part == "..";
         });
}

absl::Status CheckColumns(const SourceGraph& graph, const PartitionPlan& plan) {
  for (size_t i = 0; i < plan.classes.size(); ++i) {
    const PlannedClasses& given = plan.classes[i];
    const std::string field = absl::StrCat("balance_node_sets[", i, "]");
    const auto set = graph.schema().NodeSetIndex(given.node_set);
    if (!set) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".node_set: the graph has no node set ", Quoted(given.node_set)));
    }
    if (given.columns.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ".columns: has none, must have at least 1"));
    }
    const auto& columns = graph.schema().node_sets()[*set].columns;
    for (const std::string& name : given.columns) {
      if (std::none_of(columns.begin(), columns.end(),
                       [&name](const auto& column) { return column.name == name; })) {
        return absl::InvalidArgumentError(absl::StrCat(
            field, ".columns: node set ", Quoted(given.node_set), " has no column ", Quoted(name)));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

PartitionJobs::PartitionJobs(SourceGraphStore* graphs, AssignmentEngine* engine, Clock* clock,
                             MemoryBudget* memory, const Options& options)
    : graphs_(graphs), engine_(engine), clock_(clock), memory_(memory), options_(options) {
  for (size_t i = 0; i < std::max(options_.max_running, size_t{1}); ++i) {
    threads_.emplace_back([this, i] { Work(i == 0); });
  }
}

PartitionJobs::~PartitionJobs() {
  {
    absl::MutexLock lock(&mutex_);
    stops_ = true;
  }
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
}

bool PartitionJobs::HasWorkOrStops() const { return stops_ || !waiting_.empty(); }

void PartitionJobs::Work(bool is_first) {
  // Of this thread only; the processes that it starts inherit it.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNice);
  if (is_first) {
    HasMemoryFor([this] { FindUnfinished(); });
    absl::MutexLock lock(&mutex_);
    has_searched_ = true;
  }
  for (;;) {
    Key key;
    std::shared_ptr<Job> job;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &PartitionJobs::HasWorkOrStops));
      if (stops_) return;
      key = std::move(waiting_.front());
      waiting_.pop_front();
      job = active_[key];
      job->running = true;
    }
    RunNext(key, job);
  }
}

void PartitionJobs::FindUnfinished() {
  std::string token;
  do {
    const absl::StatusOr<SourceGraphList> page = graphs_->List(0, token);
    if (!page.ok()) return;
    for (const SourceGraphInfo& info : page->graphs) {
      if (stopping_) return;
      if (info.state == SourceGraphState::kSealed) FindUnfinishedOf(info.name);
    }
    token = page->next_page_token;
  } while (!token.empty());
}

void PartitionJobs::FindUnfinishedOf(const std::string& graph) {
  absl::MutexLock changes(&changes_);
  const auto opened = graphs_->Open(graph);
  if (!opened.ok()) return;
  for (const std::string& name : NamesIn((*opened)->companion_folder() + kPartitions)) {
    const std::string folder = FolderOf(**opened, name);
    if (name[0] == '.') {
      RemoveFolder(folder).IgnoreError();
      continue;
    }
    if (!PathExists(folder + kRequestFile) || PathExists(folder + kFilesFolder) ||
        PathExists(folder + kEndFile)) {
      continue;
    }
    absl::MutexLock lock(&mutex_);
    Enqueue({graph, name});
  }
}

void PartitionJobs::Enqueue(const Key& key) {
  if (!active_.emplace(key, std::make_shared<Job>()).second) return;
  waiting_.push_back(key);
}

void PartitionJobs::RunNext(const Key& key, const std::shared_ptr<Job>& job) {
  MemoryHold hold;
  absl::Status ended = OutOfMemory();
  HasMemoryFor([&] { ended = RunJob(key, *job, hold); });
  hold.Reset();
  if (absl::IsAborted(ended)) {
    // There is no room now. Those behind it wait, too: otherwise large ones would never run.
    absl::MutexLock lock(&mutex_);
    const auto over = [this, &job] { return stops_ || job->cancelled.load(); };
    job->running = over();
    mutex_.AwaitWithTimeout(absl::Condition(&over), kMemoryRetry);
    if (!over()) {
      waiting_.push_front(key);
      return;
    }
  }
  const bool was_told = job->cancelled || stopping_;
  if (!ended.ok() && !was_told) {
    {
      absl::MutexLock lock(&mutex_);
      failed_[key] = ended;
    }
    if (const auto graph = graphs_->Open(key.first); graph.ok()) {
      WriteEnd(FolderOf(**graph, key.second), ".failed", ended).IgnoreError();
    }
  }
  absl::MutexLock lock(&mutex_);
  active_.erase(key);
}

absl::Status PartitionJobs::RunJob(const Key& key, Job& job, MemoryHold& hold) {
  PH_ASSIGN_OR_RETURN(const auto graph, graphs_->Open(key.first));
  const std::string folder = FolderOf(*graph, key.second);
  PH_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(folder + kRequestFile));
  absl::StatusOr<PartitionPlan> plan = PlanOfText(text);
  if (!plan.ok()) return Damaged(folder + kRequestFile, plan.status());
  PH_ASSIGN_OR_RETURN(const Needs needs, NeedsOf(*graph, *plan));
  if (memory_ != nullptr) {
    absl::StatusOr<MemoryHold> held =
        memory_->Hold(absl::StrCat("partition ", Quoted(key.second)), needs.bytes);
    // RunNext() knows ABORTED as this only.
    if (!held.ok()) return absl::AbortedError(held.status().message());
    hold = *std::move(held);
  }
  plan->options.memory_bytes = needs.assignment_bytes;
  // Several processes of METIS would take more than what is held.
  plan->options.parallel = 1;
  RunWatch watch;
  watch.cancelled = [this, &job] { return job.cancelled || stopping_; };
  watch.progress = [this, &job](RunPhase phase, double share) {
    absl::MutexLock lock(&mutex_);
    if (job.began_share < 0) {
      job.began = clock_->Now();
      job.began_share = share;
    }
    job.phase = phase;
    job.share = share;
  };
  const absl::Status made =
      RunPartition(*graph, *plan, folder + kFilesFolder, engine_, watch).status();
  return absl::IsAborted(made) ? absl::InternalError(made.message()) : made;
}

template <typename Holds>
void PartitionJobs::EndWork(const Holds& holds) {
  absl::MutexLock lock(&mutex_);
  for (auto it = active_.begin(); it != active_.end();) {
    if (!holds(it->first)) {
      ++it;
      continue;
    }
    it->second->cancelled = true;
    const auto place = std::find(waiting_.begin(), waiting_.end(), it->first);
    if (place == waiting_.end()) {
      // Its thread takes it out.
      ++it;
    } else {
      waiting_.erase(place);
      it = active_.erase(it);
    }
  }
  const auto gone = [this, &holds] {
    for (const auto& [key, job] : active_) {
      if (holds(key)) return false;
    }
    return true;
  };
  mutex_.Await(absl::Condition(&gone));
}

absl::StatusOr<std::shared_ptr<const StoredSourceGraph>> PartitionJobs::OpenFor(
    absl::string_view graph, absl::string_view name) const {
  auto opened = graphs_->Open(graph);
  // Without a seal there are no partitions.
  if (absl::IsFailedPrecondition(opened.status())) return NoPartition(graph, name);
  if (opened.ok() && !IsPartitionName(name)) return NoPartition(graph, name);
  return opened;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Read(const StoredSourceGraph& graph,
                                                     const std::string& name,
                                                     bool with_files) const {
  PartitionJobInfo info;
  info.graph = graph.info().name;
  info.graph_version = graph.version();
  {
    absl::MutexLock lock(&mutex_);
    const Key key(info.graph, name);
    if (const auto failed = failed_.find(key); failed != failed_.end()) {
      info.state = PartitionJobState::kFailed;
      info.error = failed->second;
    }
    if (const auto active = active_.find(key); active != active_.end()) {
      const Job& job = *active->second;
      info.error = absl::OkStatus();
      info.state = job.running ? PartitionJobState::kRunning : PartitionJobState::kWaiting;
      if (job.running) {
        info.phase = job.phase;
        info.share_done = job.share;
        const double done = job.share - job.began_share;
        if (job.began_share >= 0 && done > 0) {
          info.rest = (clock_->Now() - job.began) * ((1 - job.share) / done);
        }
      }
    }
  }
  // The disk is asked afterwards, and knows better: work may just have ended.
  const std::string folder = FolderOf(graph, name);
  const absl::StatusOr<std::string> text = ReadTextFile(folder + kRequestFile);
  if (absl::IsNotFound(text.status())) return NoPartition(info.graph, name);
  PH_RETURN_IF_ERROR(text.status());
  absl::StatusOr<PartitionPlan> plan = PlanOfText(*text);
  if (!plan.ok()) return Damaged(folder + kRequestFile, plan.status());
  info.plan = *std::move(plan);
  if (PathExists(folder + kFilesFolder)) {
    info.state = PartitionJobState::kDone;
    info.error = absl::OkStatus();
    info.rest.reset();
    PH_ASSIGN_OR_RETURN(const std::string report_text, ReadTextFile(folder + kReportFile));
    absl::StatusOr<PartitionReport> report = ReportOfText(report_text);
    if (!report.ok()) return Damaged(folder + kReportFile, report.status());
    info.report = *std::move(report);
    if (with_files) {
      PH_ASSIGN_OR_RETURN(info.files, FilesBelow(folder + kFilesFolder));
    }
    return info;
  }
  if (PathExists(folder + kEndFile)) {
    PH_ASSIGN_OR_RETURN(const absl::Status why, ReadEnd(folder));
    const bool was_cancelled = absl::IsCancelled(why);
    info.state = was_cancelled ? PartitionJobState::kCancelled : PartitionJobState::kFailed;
    info.error = was_cancelled ? absl::OkStatus() : why;
    info.rest.reset();
  }
  return info;
}

absl::StatusOr<PartitionJobs::Needs> PartitionJobs::NeedsOf(const StoredSourceGraph& graph,
                                                            const PartitionPlan& plan) const {
  PH_ASSIGN_OR_RETURN(const HomogeneousGraph homogeneous, HomogeneousGraph::Create(&graph));
  const uint64_t entries = 2 * homogeneous.num_edges();
  const uint64_t of_nodes = kBytesPerNode * homogeneous.num_nodes();
  const uint64_t whole = kBytesPerEntry * entries + of_nodes;
  // What other methods keep: some bytes a node, and one part while it is written.
  const uint64_t least = whole / std::max(plan.options.num_parts, uint32_t{1}) + of_nodes;
  Needs needs;
  const bool may_call_metis =
      plan.options.method == PartMethod::kMetis || plan.options.method == PartMethod::kAutomatic;
  needs.bytes = may_call_metis ? std::max(whole, least) : least;
  if (memory_ == nullptr) return needs;
  if (plan.options.method == PartMethod::kAutomatic && needs.bytes > memory_->bound() / 2) {
    needs.bytes = std::max(memory_->bound() / 2, least);
    needs.assignment_bytes = needs.bytes;
  }
  if (needs.bytes > memory_->bound()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("partition ", Quoted(plan.name), " needs ", needs.bytes, " bytes for ",
                     entries, " ends of edges, the bound of working memory is ", memory_->bound(),
                     may_call_metis ? " (the streaming method needs less)" : ""));
  }
  return needs;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Partition(absl::string_view graph,
                                                          const PartitionPlan& plan) {
  PH_RETURN_IF_ERROR(CheckPartitionPlan(plan));
  absl::MutexLock changes(&changes_);
  PH_ASSIGN_OR_RETURN(const auto opened, graphs_->Open(graph));
  const Key key(opened->info().name, plan.name);
  const std::string folder = FolderOf(*opened, plan.name);
  const absl::StatusOr<PartitionJobInfo> before = Read(*opened, plan.name, /*with_files=*/true);
  if (before.ok()) {
    if (PlanText(before->plan) != PlanText(plan)) {
      return absl::AlreadyExistsError(
          absl::StrCat("partition ", Quoted(plan.name), " of ", Quoted(graph),
                       ": there is one that was asked for in other words"));
    }
    const bool has_ended = before->state == PartitionJobState::kFailed ||
                           before->state == PartitionJobState::kCancelled;
    if (!has_ended) return before;
  } else if (!absl::IsNotFound(before.status())) {
    return before.status();
  }
  {
    PH_RETURN_IF_ERROR(CheckColumns(*opened, plan));
    PH_ASSIGN_OR_RETURN(const HomogeneousGraph homogeneous, HomogeneousGraph::Create(opened.get()));
    PH_RETURN_IF_ERROR(CheckPartitionOptions(homogeneous, plan.options));
    PH_RETURN_IF_ERROR(NeedsOf(*opened, plan).status());
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() >= options_.max_waiting) {
      return absl::ResourceExhaustedError(
          absl::StrCat(waiting_.size(), " partitions wait, the bound is ", options_.max_waiting));
    }
  }
  if (before.ok()) {
    PH_RETURN_IF_ERROR(RemoveFolder(folder + kEndFile));
    PH_RETURN_IF_ERROR(SyncFolder(folder));
  } else {
    const std::string partitions = opened->companion_folder() + kPartitions;
    const std::string unfinished = partitions + kNewFolder;
    PH_RETURN_IF_ERROR(RemoveFolder(unfinished));
    PH_RETURN_IF_ERROR(MakeFolder(unfinished));
    PH_RETURN_IF_ERROR(SyncFolder(opened->companion_folder()));
    PH_RETURN_IF_ERROR(WriteTextFile(unfinished + kRequestFile, PlanText(plan)));
    PH_RETURN_IF_ERROR(SyncFolder(unfinished));
    PH_RETURN_IF_ERROR(RenameDurably(unfinished, folder));
  }
  {
    absl::MutexLock lock(&mutex_);
    failed_.erase(key);
    Enqueue(key);
  }
  return Read(*opened, plan.name, /*with_files=*/true);
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Get(absl::string_view graph,
                                                    absl::string_view name) const {
  PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(graph, name));
  return Read(*opened, std::string(name), /*with_files=*/true);
}

absl::StatusOr<std::vector<PartitionJobInfo>> PartitionJobs::List(absl::string_view graph) const {
  std::vector<PartitionJobInfo> list;
  const auto opened = graphs_->Open(graph);
  if (absl::IsFailedPrecondition(opened.status())) return list;
  PH_RETURN_IF_ERROR(opened.status());
  for (const std::string& name : NamesIn((*opened)->companion_folder() + kPartitions)) {
    if (name[0] == '.') continue;
    absl::StatusOr<PartitionJobInfo> info = Read(**opened, name, /*with_files=*/false);
    // It may just have been deleted.
    if (absl::IsNotFound(info.status())) continue;
    PH_RETURN_IF_ERROR(info.status());
    list.push_back(*std::move(info));
  }
  return list;
}

absl::StatusOr<PartitionJobInfo> PartitionJobs::Cancel(absl::string_view graph,
                                                       absl::string_view name) {
  absl::MutexLock changes(&changes_);
  PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(graph, name));
  const Key key{graph, name};
  PH_ASSIGN_OR_RETURN(PartitionJobInfo before, Read(*opened, key.second, /*with_files=*/true));
  if (before.state != PartitionJobState::kWaiting && before.state != PartitionJobState::kRunning) {
    return before;
  }
  // First, so that it does not go on after a crash.
  PH_RETURN_IF_ERROR(WriteEnd(FolderOf(*opened, name), ".cancelled",
                              absl::CancelledError("the partition was cancelled")));
  EndWork([&key](const Key& active) { return active == key; });
  {
    absl::MutexLock lock(&mutex_);
    failed_.erase(key);
  }
  return Read(*opened, key.second, /*with_files=*/true);
}

absl::Status PartitionJobs::Delete(absl::string_view graph, absl::string_view name) {
  std::string deleted;
  {
    absl::MutexLock changes(&changes_);
    PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(graph, name));
    const std::string folder = FolderOf(*opened, name);
    if (!PathExists(folder)) return NoPartition(graph, name);
    const Key key{graph, name};
    EndWork([&key](const Key& active) { return active == key; });
    // Its name is free at once; the files are removed without holding up others.
    for (uint64_t n = 0;; ++n) {
      deleted = absl::StrCat(opened->companion_folder(), kPartitions, kDeletedFolder, n);
      if (!PathExists(deleted)) break;
    }
    PH_RETURN_IF_ERROR(RenameDurably(folder, deleted));
    absl::MutexLock lock(&mutex_);
    failed_.erase(key);
  }
  // What cannot be removed now is when the jobs are opened again.
  RemoveFolder(deleted).IgnoreError();
  return absl::OkStatus();
}

absl::StatusOr<PartitionJobs::FileBytes> PartitionJobs::ReadFile(absl::string_view graph,
                                                                 absl::string_view name,
                                                                 absl::string_view path,
                                                                 uint64_t offset,
                                                                 uint64_t max_bytes) const {
  PH_ASSIGN_OR_RETURN(const auto opened, OpenFor(graph, name));
  const std::string folder = FolderOf(*opened, name);
  if (!PathExists(folder + kRequestFile)) return NoPartition(graph, name);
  if (!PathExists(folder + kFilesFolder)) {
    return absl::FailedPreconditionError(
        absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph), " is not done"));
  }
  const auto no_file = [&] {
    return absl::NotFoundError(absl::StrCat("partition ", Quoted(name), " of ", Quoted(graph),
                                            " has no file ", Quoted(path)));
  };
  if (!IsPathBelow(path)) return no_file();
  const std::string file = absl::StrCat(folder, kFilesFolder, "/", path);
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) {
    if (errno == ENOENT || errno == ENOTDIR || errno == ELOOP) return no_file();
    return absl::UnavailableError(absl::StrCat(file, ": cannot be opened, error ", errno));
  }
  struct Closed {
    int descriptor;
    ~Closed() { ::close(descriptor); }
  } const closed{descriptor};
  struct stat state = {};
  if (::fstat(descriptor, &state) != 0 || !S_ISREG(state.st_mode)) return no_file();
  FileBytes bytes;
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
      return absl::UnavailableError(absl::StrCat(file, ": cannot be read, error ", errno));
    }
    done += static_cast<size_t>(got);
  }
  return bytes;
}

absl::Status PartitionJobs::DeleteGraph(absl::string_view graph) {
  absl::Status deleted;
  {
    absl::MutexLock changes(&changes_);
    const auto is_of_graph = [graph](const Key& key) { return key.first == graph; };
    EndWork(is_of_graph);
    deleted = graphs_->Delete(graph);
    absl::MutexLock lock(&mutex_);
    for (auto it = failed_.begin(); deleted.ok() && it != failed_.end();) {
      it = is_of_graph(it->first) ? failed_.erase(it) : std::next(it);
    }
  }
  // The graph is still there: its partitions go on.
  if (!deleted.ok()) FindUnfinishedOf(std::string(graph));
  return deleted;
}

void PartitionJobs::AwaitIdle() const {
  const auto idle = [this] { return has_searched_ && active_.empty(); };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
}

}  // namespace packhouse
