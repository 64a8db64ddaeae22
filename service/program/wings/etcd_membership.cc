#include "service/program/wings/etcd_membership.h"

#include <netdb.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "service/base/out_of_memory.h"
#include "service/base/status_macros.h"
#include "service/base/steady_waits.h"
#include "service/program/flag_checks.h"
#include "service/program/options.h"
#include "service/server/http/host_port.h"
#include "service/stores/keys/shared_uses.h"
#include "service/wings/cluster/datasets/object_engines.h"
#include "service/wings/cluster/shared/store_uri.h"

namespace packhouse {
namespace {

// Of one job's log in etcd, whose whole database is 2 GiB by default.
constexpr uint64_t kMaxLogBytes = uint64_t{256} << 20;

// Goes on while the machine sleeps, as the lease does.
absl::Time BootTime() {
  timespec now = {};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::UnixEpoch() + absl::DurationFromTimespec(now);
}

// Between two looks whether etcd is full, where nothing else is written.
constexpr int kProbePeriods = 10;

std::string ProbeKey(const std::string& replica) { return absl::StrCat("probe/", replica); }

// Whether anything accepts a connection at HOST:PORT within a second.
bool Listens(const std::string& address) {
  const auto host_port = http::ParseHostPort(address);
  if (!host_port.ok()) return false;
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host_port->host.c_str(), std::to_string(host_port->port).c_str(), &hints,
                  &found) != 0) {
    return false;
  }
  const absl::Cleanup free = [found] { freeaddrinfo(found); };
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    const int connection =
        socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC, each->ai_protocol);
    if (connection < 0) continue;
    const absl::Cleanup close_it = [connection] { close(connection); };
    const timeval longest = {.tv_sec = 1, .tv_usec = 0};
    setsockopt(connection, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
    if (connect(connection, each->ai_addr, each->ai_addrlen) == 0) return true;
  }
  return false;
}

// Another one each time that a server starts.
std::string NewReplicaName() {
  std::random_device random;
  std::string name;
  for (int i = 0; i < 4; ++i) absl::StrAppend(&name, absl::Hex(random(), absl::kZeroPad8));
  return name;
}

// Between two looks for an object store that is away.
constexpr absl::Duration kAskAgain = absl::Seconds(1);

// Every server does; at random times, so that they seldom do it together.
void StartSweepingObjects(SharedDatasets& shared, EventLog& log) {
  Thread([&shared, &log] {
    // What was away when the server started is asked for until it answers.
    if (const absl::Status away = shared.objects_status(); !away.ok()) {
      log.Log(LogLevel::kWarning, "started without the object store",
              {LogField::Message(away.message())});
      for (absl::Status now = away; !now.ok(); Pause(kAskAgain)) {
        RunWithinMemory([&] { now = shared.ConfirmObjects(); });
      }
      log.Log(LogLevel::kInfo, "the object store answers", {});
    }
    const absl::Duration period = shared.sweep_period();
    Pause(period * (static_cast<double>(DrawUniqueNumber() >> 11) * 0x1p-53));
    for (;;) {
      RunWithinMemory([&] {
        const auto step = shared.Sweep();
        if (!step.ok()) {
          log.Log(LogLevel::kWarning, "cannot sweep objects",
                  {LogField::Message(step.status().message())});
        } else if (step->num_deleted != 0) {
          log.Log(LogLevel::kInfo, "swept objects",
                  {{"count", step->num_deleted}, {"bytes", step->num_bytes}});
        }
      });
      Pause(period);
    }
  }).Detach();
}

class StoresInS3 final : public SharedStores {
 public:
  // OK if all servers have that value of that flag.
  using Agree = std::function<absl::Status(const std::string& flag, const std::string& value)>;

  StoresInS3(std::unique_ptr<SharedDatasets> shared, std::string disk, Agree agree)
      : shared_(std::move(shared)), disk_(std::move(disk)), agree_(std::move(agree)) {}

  DatasetStore* datasets() override { return shared_->store(); }
  SourceGraphStore* source_graphs() override { return shared_->source_graphs(); }
  SharedCompanions* companions() override { return shared_->companions(); }
  const std::string& disk() const override { return disk_; }
  absl::StatusOr<MakeUses> DatasetUses(const Retention& retention) override {
    return shared_->DatasetUses(UsesBy("--dataset-retention", retention));
  }
  absl::StatusOr<MakeUses> SourceGraphUses(const Retention& retention) override {
    return shared_->SourceGraphUses(UsesBy("--source-graph-retention", retention));
  }
  security::Reloadable* credentials() override { return shared_->credentials(); }
  std::string why_not_ready() const override {
    const absl::Status objects = shared_->objects_status();
    return absl::IsFailedPrecondition(objects) ? std::string(objects.message()) : "";
  }
  metrics::SharedDatasetsReading Read() const override {
    const SharedDatasets::Counts counts = shared_->counts();
    return {.cached_bytes = counts.cache.num_bytes,
            .in_use_bytes = counts.cache.in_use,
            .max_cached_bytes = counts.max_cache_bytes,
            .hits = counts.cache.hits,
            .misses = counts.cache.misses,
            .evictions = counts.cache.evictions,
            .num_retries = counts.num_retries,
            .swept_objects = counts.swept_objects,
            .swept_bytes = counts.swept_bytes,
            .orphaned_objects = counts.orphaned_objects,
            .failed_sweeps = counts.failed_sweeps};
  }
  void StartSweeping(EventLog& log) override { StartSweepingObjects(*shared_, log); }

 private:
  SharedUses::Options UsesBy(const std::string& flag, const Retention& retention) const {
    SharedUses::Options uses;
    uses.retention = retention;
    uses.now = SteadyTime;
    uses.agree = [agree = agree_, flag, value = RetentionText(retention)] {
      return agree(flag, value);
    };
    return uses;
  }

  const std::unique_ptr<SharedDatasets> shared_;
  const std::string disk_;
  const Agree agree_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Membership>> EtcdMembership::Join(
    const Options& all_options, const SharedDatasetsOptions& shared, const MemberSettings& settings,
    LimitedLog* log) {
  const MembershipOptions& options = all_options.membership;
  auto store = ConnectLedger({.uri = options.ledger,
                              .roots_file = options.roots_file,
                              .certificate_file = options.certificate_file,
                              .key_file = options.key_file,
                              .user = options.user,
                              .timeout = std::min(absl::Seconds(3), options.lease / 3)});
  if (!store.ok()) {
    return absl::Status(store.status().code(),
                        absl::StrCat("--ledger: ", store.status().message()));
  }
  const auto about = [&](absl::string_view flag, const absl::Status& status) {
    return absl::Status(status.code(), absl::StrCat(flag, ": ", status.message()));
  };
  const std::string ledger = absl::StrCat("--ledger ", options.ledger);
  auto living = LivingStore::Join(*std::move(store));
  if (!living.ok()) return about(ledger, living.status());
  auto member = std::unique_ptr<EtcdMembership>(new EtcdMembership(shared));
  member->log_ = log;
  member->store_ = *std::move(living);
  member->histogram_retention_ = all_options.histogram_retention;
  if (member->histogram_retention_.is_for_ever()) {
    PH_RETURN_IF_ERROR(SharedUses::RemoveAll(*member->store_, SharedHistogramStore::kUses));
  }
  ReplicaLease::Options lease;
  lease.replica = member->replica_ = NewReplicaName();
  lease.address = options.advertise;
  lease.length = options.lease;
  lease.margin = options.lease / 10;
  lease.settings = settings.must_be_equal;
  lease.settings.insert(settings.should_be_equal.begin(), settings.should_be_equal.end());
  member->lease_ = std::make_unique<ReplicaLease>(member->store_.get(), lease, BootTime);
  if (const absl::Status joined = member->lease_->Tick(); !joined.ok()) {
    return about(ledger, joined);
  }
  if (const absl::Status alone = member->lease_->CheckIsAlone(Listens, Pause); !alone.ok()) {
    return about("--advertise", alone);
  }
  PH_RETURN_IF_ERROR(member->CheckSettings(settings));
  member->logs_ =
      std::make_unique<EtcdJobLogs>(member->store_.get(), member->lease_.get(), lease.replica,
                                    kMaxLogBytes, BootTime, member->store_->began());
  return member;
}

EtcdMembership::~EtcdMembership() {
  keeper_ = nullptr;
  sweeper_ = nullptr;
  // A server that could not start: the others are not to send anybody here.
  if (lease_ != nullptr) Leave();
}

absl::Status EtcdMembership::CheckSettings(const MemberSettings& settings) {
  for (const ClusterMember& other : lease_->members()) {
    if (other.replica == replica_) continue;
    const auto differs = [&other](const auto& setting) {
      const auto theirs = other.settings.find(setting.first);
      return theirs != other.settings.end() && theirs->second != setting.second;
    };
    for (const auto& setting : settings.must_be_equal) {
      if (!differs(setting)) continue;
      return absl::FailedPreconditionError(
          absl::StrCat(setting.first, ": is not that of the server ", other.address,
                       ": all servers of a cluster must have the same"));
    }
    for (const auto& setting : settings.should_be_equal) {
      if (!differs(setting)) continue;
      log_->Log("settings", LogLevel::kWarning, "servers of the cluster differ",
                {{"setting", setting.first},
                 {"here", setting.second},
                 {"server", other.address},
                 {"there", other.settings.at(setting.first)}});
    }
  }
  return absl::OkStatus();
}

absl::Status EtcdMembership::AllHave(const std::string& setting, const std::string& value) const {
  PH_ASSIGN_OR_RETURN(const std::vector<ClusterMember> members, lease_->ReadMembers());
  for (const ClusterMember& member : members) {
    const auto there = member.settings.find(setting);
    if (there != member.settings.end() && there->second == value) continue;
    return absl::FailedPreconditionError(
        absl::StrCat(setting, ": is not that of the server ", member.address,
                     ": nothing is deleted until all servers have the same"));
  }
  return absl::OkStatus();
}

uint64_t EtcdMembership::num_expired_histograms() const {
  return histograms_ == nullptr ? 0 : histograms_->num_expired();
}

void EtcdMembership::Probe() {
  const std::optional<LeaseId> lease = lease_->lease();
  // What is refused is known by the store.
  if (lease)
    store_->Commit({{}, {Operation::Put(ProbeKey(replica_), "", *lease)}, {}}).IgnoreError();
}

void EtcdMembership::Start(std::function<void()> sweep,
                           std::function<void(const absl::Status& why)> is_over) {
  keeper_ =
      AtEveryPeriod([this, is_over = std::move(is_over), periods = 0, has_told = false]() mutable {
        if (!store_->room().ok() || periods++ % kProbePeriods == 0) Probe();
        if (const absl::Status life = store_->life(); !life.ok()) {
          if (!std::exchange(has_told, true)) is_over(life);
          return;
        }
        const absl::Status kept = lease_->Tick();
        if (lease_->is_replaced()) {
          if (!std::exchange(has_told, true)) {
            is_over(absl::Status(kept.code(), absl::StrCat("--advertise: ", kept.message())));
          }
          return;
        }
        if (!kept.ok()) {
          log_->Log("lease", LogLevel::kWarning, "the lease in the cluster was not kept",
                    {LogField::Message(kept.message())});
        }
      });
  sweeper_ = AtEveryPeriod(std::move(sweep));
}

std::unique_ptr<Repeating> EtcdMembership::AtEveryPeriod(std::function<void()> work) const {
  return std::make_unique<Repeating>([this] { return lease_->Period(); }, std::move(work));
}

void EtcdMembership::Leave() {
  if (const absl::Status left = lease_->Leave(); !left.ok()) {
    log_->Log("lease", LogLevel::kWarning, "the lease in the cluster was not given back",
              {LogField::Message(left.message())});
  }
}

std::string EtcdMembership::why_not_ready() const {
  if (const absl::Status life = store_->life(); !life.ok()) return std::string(life.message());
  return lease_->lease() ? "" : "no lease in the cluster: etcd does not answer";
}

std::string EtcdMembership::why_full() const {
  const absl::Status room = store_->room();
  return room.ok() ? "" : absl::StrCat("etcd takes nothing more: ", room.message());
}

metrics::ClusterReading EtcdMembership::Read() const {
  const EtcdJobLogs::Commits commits = logs_->commits();
  metrics::ClusterReading read;
  read.num_members = lease_->members().size();
  read.has_lease = lease_->lease().has_value();
  read.num_commits = commits.num_done;
  read.num_failed_commits = commits.num_failed;
  read.commit_time = commits.time;
  return read;
}

std::unique_ptr<HistogramStore> EtcdMembership::ShareHistograms(HistogramStore::Bounds bounds,
                                                                MemoryBudget* memory) {
  SharedHistogramStore::Options options = {replica_, std::move(bounds), log_, histogram_retention_,
                                           SteadyTime};
  options.agree = [this, value = RetentionText(histogram_retention_)] {
    return AllHave("--histogram-retention", value);
  };
  auto shared = std::make_unique<SharedHistogramStore>(store_.get(), options, memory);
  histograms_ = shared.get();
  shared->Start();
  return shared;
}

absl::StatusOr<std::unique_ptr<SharedStores>> EtcdMembership::OpenStores(const Options& options,
                                                                         Clock& clock) const {
  SharedDatasetsOptions shared = shared_;
  shared.server = options.membership.advertise;
  shared.max_building_bytes = options.max_source_graph_bytes;
  shared.max_building = options.max_source_graphs;
  shared.lives = [lease = lease_.get()](absl::string_view server) {
    const std::vector<ClusterMember> members = lease->members();
    return std::any_of(members.begin(), members.end(),
                       [server](const ClusterMember& each) { return each.address == server; });
  };
  auto opened =
      SharedDatasets::Open(shared, store_.get(), &clock, SharedDatasets::Binding::kNowOrLater);
  if (!opened.ok()) {
    return absl::Status(opened.status().code(), absl::StrCat("--store ", options.store.uri, ": ",
                                                             opened.status().message()));
  }
  return std::make_unique<StoresInS3>(
      *std::move(opened), shared.cache_folder,
      [this](const std::string& flag, const std::string& value) { return AllHave(flag, value); });
}

}  // namespace packhouse
