// What a server's metrics say is what its stores, its files and its cluster say.
#include "service/program/server_readings.h"

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "packhouse/v1/loader.grpc.pb.h"
#include "service/program/wing.h"
#include "service/stores/limits/data_folder.h"
#include "tests/datasets/memory_dataset_store.h"
#include "tests/ledger/ledger_logs.h"
#include "tests/support/openssl_command.h"
#include "tests/support/random_graphs.h"
#include "tests/support/recorded_log.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::IsSupersetOf;

using Numbers = std::map<std::string, double>;

// Logs that are another server's, too.
class SharedLogs final : public JobLogs {
 public:
  absl::StatusOr<JobPlace> Open(const std::string& /*job*/) override {
    JobPlace place;
    place.log = std::make_unique<FailingLog>();
    return place;
  }
  const std::string& address() const override { return address_; }
  std::vector<std::string> members() const override { return {address_}; }
  absl::StatusOr<std::vector<std::string>> Read(const std::string& /*job*/) override {
    return std::vector<std::string>();
  }

 private:
  const std::string address_ = "a:1";
};

class FakeShared final : public SharedStores {
 public:
  explicit FakeShared(std::string disk) : disk_(std::move(disk)) {}
  DatasetStore* datasets() override { return &datasets_; }
  SourceGraphStore* source_graphs() override { return nullptr; }
  SharedCompanions* companions() override { return nullptr; }
  const std::string& disk() const override { return disk_; }
  absl::StatusOr<MakeUses> DatasetUses(const Retention& retention) override {
    if (retention.is_for_ever()) return MakeUses();
    return UsesInFile(disk_ + "/uses", retention, [] { return absl::UnixEpoch(); });
  }
  absl::StatusOr<MakeUses> SourceGraphUses(const Retention& /*retention*/) override {
    return MakeUses();
  }
  security::Reloadable* credentials() override { return nullptr; }
  std::string why_not_ready() const override { return ""; }
  metrics::SharedDatasetsReading Read() const override {
    metrics::SharedDatasetsReading reading;
    reading.hits = 41;
    return reading;
  }
  void StartSweeping(EventLog& /*log*/) override {}

 private:
  const std::string disk_;
  MemoryDatasetStore datasets_{1 << 20};
};

class FakeMembership final : public Membership {
 public:
  explicit FakeMembership(std::string disk) : disk_(std::move(disk)) {}
  JobLogs* logs() const override { return &logs_; }
  std::unique_ptr<HistogramStore> ShareHistograms(HistogramStore::Bounds /*bounds*/,
                                                  MemoryBudget* /*memory*/) override {
    return nullptr;
  }
  absl::Status SweepHistograms(std::vector<Expired>& /*expired*/) override {
    return absl::OkStatus();
  }
  uint64_t num_expired_histograms() const override { return 31; }
  KeyStore* keys() const override { return nullptr; }
  const std::string& replica() const override { return disk_; }
  absl::StatusOr<std::unique_ptr<SharedStores>> OpenStores(const Options& options,
                                                           Clock& /*clock*/) const override {
    if (options.store.uri.empty()) return absl::UnavailableError("--store is away");
    return std::make_unique<FakeShared>(disk_);
  }
  void Start(std::function<void()> /*sweep*/,
             std::function<void(const absl::Status& why)> /*is_over*/) override {}
  void Leave() override {}
  std::string why_not_ready() const override { return ""; }
  std::string why_full() const override { return ""; }
  metrics::ClusterReading Read() const override {
    metrics::ClusterReading reading;
    reading.num_members = 3;
    reading.has_lease = true;
    return reading;
  }

 private:
  const std::string disk_;
  mutable SharedLogs logs_;
};

class WingOfGraphs final : public Wing {
 public:
  void Show(metrics::ServerReading& reading) const override {
    reading.source_graphs.emplace().num_graphs = 21;
  }
};

// Content that cannot be read, or is new each time.
class FakeFile final : public security::Reloadable {
 public:
  explicit FakeFile(bool is_sound) : is_sound_(is_sound) {}
  absl::StatusOr<bool> Reload() override {
    if (!is_sound_) return absl::DataLossError("torn");
    return true;
  }
  absl::Time begins() const override { return absl::FromUnixSeconds(5); }
  absl::Time expires() const override {
    return is_sound_ ? absl::FromUnixSeconds(9) : absl::InfiniteFuture();
  }

 private:
  const bool is_sound_;
};

class ServerReadingsTest : public ::testing::Test {
 protected:
  void Open() {
    options_.server.memory_budget = uint64_t{1} << 30;
    options_.server.lane_address = absl::StrCat("unix:", folder_.path(), "/lane");
    options_.server.max_connections = 77;
    options_.wings = {std::make_shared<WingOfGraphs>()};
    PH_ASSERT_OK_AND_ASSIGN(stores_of_folder_,
                            FolderStores::Open(options_, metrics_, limited_log_, clock_));
    PH_ASSERT_OK_AND_ASSIGN(
        stores_, ServedStores::Open(options_, stores_of_folder_, membership_.get(), clock_));
  }
  void Start() {
    PH_ASSERT_OK_AND_ASSIGN(
        files_, security::SecurityFiles::Open(
                    options_.security, [] { return absl::UnixEpoch(); }, &recorded_log_));
    options_.server.authorizer = files_->authorizer();
    options_.server.job_logs =
        membership_ == nullptr ? stores_of_folder_.ledger.store.get() : membership_->logs();
    PH_ASSERT_OK_AND_ASSIGN(server_, rpc::Server::Start(options_.server, &clock_, &metrics_,
                                                        &metrics_, stores_->datasets()));
    readings_ = std::make_unique<ServerReadings>(
        ServerReadings::Sources{server_.get(), &options_.wings, stores_.get(), files_.get(),
                                membership_.get(), &readiness_},
        &clock_);
    readings_->ShowIn(metrics_);
  }
  ~ServerReadingsTest() override {
    metrics_.SetDelivery([] { return DeliverySnapshot(); });
    metrics_.SetServer([] { return metrics::ServerReading(); });
    metrics_.SetStores([] { return metrics::StoreReading(); });
  }
  // All metrics, by name and labels.
  Numbers Shown() {
    std::string page;
    // What takes long to read is there the next time.
    do {
      page = metrics_.Exposition();
    } while (!absl::StrContains(page, "packhouse_disk_size_bytes"));
    Numbers shown;
    for (const absl::string_view line : absl::StrSplit(page, '\n', absl::SkipEmpty())) {
      const std::pair<std::string, std::string> row = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (absl::SimpleAtod(row.second, &shown[row.first])) continue;
      shown.erase(row.first);
    }
    return shown;
  }
  void Append(const std::string& name, size_t num_graphs) {
    Random random(num_graphs);
    ASSERT_THAT(stores_->datasets()->Create(name, schema_, {}), IsOk());
    ASSERT_THAT(stores_->datasets()->Append(name, RandomChunk(random, &schema_, num_graphs, 9, 0),
                                            {}, std::nullopt),
                IsOk());
  }
  // Roughly: others write, too.
  void ExpectFree(double bytes) const {
    const auto free = static_cast<double>(std::filesystem::space(folder_.path()).available);
    EXPECT_GE(bytes, free / 2);
    EXPECT_LE(bytes, free * 2);
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const GraphSchema schema_ =
      *GraphSchema::Create(SizeSchema::NodesAndEdges(), {{"x", DType::kInt16, {}, 0, {}, {}}});
  SimulatedClock clock_;
  RecordedLog recorded_log_;
  LimitedLog limited_log_{&recorded_log_, [this] { return clock_.Now(); }};
  metrics::Metrics metrics_{"1.2.3"};
  Options options_;
  Readiness readiness_;
  std::unique_ptr<Membership> membership_;
  FolderStores stores_of_folder_;
  std::unique_ptr<ServedStores> stores_;
  std::unique_ptr<security::SecurityFiles> files_;
  std::unique_ptr<rpc::Server> server_;
  std::unique_ptr<ServerReadings> readings_;
};

TEST_F(ServerReadingsTest, OfAServerThatIsAlone) {
  options_.data_dir = folder_.path() + "/data";
  options_.dataset_retention.otherwise = absl::Hours(1);
  options_.security.policy = folder_.path() + "/policy";
  WriteText(options_.security.policy,
            "version: 1\nnamespaces:\n  team: {quotas: {datasets: 7}}\n"
            "roles:\n- {role: admin, principals: [alice], namespaces: ['*']}\n");
  Open();
  EXPECT_TRUE(stores_->may_save());
  Append("team/a", 3);
  Append("team/b", 5);
  ASSERT_THAT(stores_->datasets()->Seal("team/a"), IsOk());
  readiness_.Add("one", [] { return std::string(); });
  readiness_.Add("two", [] { return std::string("why"); });
  FakeFile sound(true);
  FakeFile torn(false);
  Start();
  files_->Add("sound", &sound);
  files_->Add("torn", &torn);
  files_->Reload();
  auto& lanes = const_cast<LaneCounts&>(*server_->lane_counts());
  lanes.num_offered = 9;
  lanes.num_open = 2;
  lanes.num_slots_sent = 11;
  lanes.num_refused = 12;
  lanes.num_batches = 13;
  lanes.num_too_large = 14;
  lanes.num_without_slot = 15;
  lanes.num_chunks = 16;
  while (server_->recent_quotas().empty()) std::this_thread::yield();

  const Numbers shown = Shown();
  const auto bytes_of = [this](const char* name) {
    return static_cast<double>(stores_->datasets()->Get(name)->num_bytes);
  };
  EXPECT_THAT(
      shown,
      IsSupersetOf(Numbers{
          {R"(packhouse_datasets{namespace="team",state="sealed"})", 1},
          {R"(packhouse_datasets{namespace="team",state="open"})", 1},
          {R"(packhouse_dataset_graphs{namespace="team",dataset="team/a"})", 3},
          {R"(packhouse_dataset_bytes{namespace="team",dataset="team/a"})", bytes_of("team/a")},
          {R"(packhouse_dataset_bytes{namespace="team",dataset="team/b"})", bytes_of("team/b")},
          {"packhouse_disk_size_bytes",
           static_cast<double>(std::filesystem::space(folder_.path()).capacity)},
          {R"(packhouse_ready{reason="one"})", 1},
          {R"(packhouse_ready{reason="two"})", 0},
          {"packhouse_draining", 0},
          {"packhouse_connections_bound", 77},
          {R"(packhouse_file_broken{file="sound"})", 0},
          {R"(packhouse_file_broken{file="torn"})", 1},
          {R"(packhouse_file_reloads_total{file="sound"})", 1},
          {R"(packhouse_file_reload_failures_total{file="torn"})", 1},
          {"packhouse_certificate_expiry_timestamp_seconds", 9},
          {"packhouse_certificate_start_timestamp_seconds", 5},
          {R"(packhouse_lane_streams{transport="lane"})", 2},
          {R"(packhouse_lane_streams{transport="grpc"})", 7},
          {"packhouse_lane_slots_in_use", 11},
          {"packhouse_lane_batches_total", 13},
          {"packhouse_lane_chunks_total", 16},
          {R"(packhouse_lane_fallbacks_total{reason="no_memory"})", 12},
          {R"(packhouse_lane_fallbacks_total{reason="too_large"})", 14},
          {R"(packhouse_lane_fallbacks_total{reason="no_slot"})", 15},
          {R"(packhouse_namespace_quota_used{namespace="team",quota="datasets"})", 2},
          {R"(packhouse_namespace_quota_limit{namespace="team",quota="datasets"})", 7},
          {"packhouse_source_graphs", 21},
          {"packhouse_datasets_expired_total", 0},
          {"packhouse_histograms_expired_total", 0},
          {"packhouse_batches_leased_total", 0}}));
  for (const char* const absent : {"packhouse_cluster_members", "packhouse_object_cache_bytes"}) {
    EXPECT_FALSE(shown.contains(absent)) << absent;
  }
  ExpectFree(shown.at("packhouse_disk_free_bytes"));
  std::optional<uint64_t> free;
  while (!free) free = readings_->recent_free_bytes();
  ExpectFree(static_cast<double>(*free));
  EXPECT_EQ(readings_->source_graphs()->num_graphs, 21U);

  lanes.num_offered = 1;
  lanes.num_open = 4;
  clock_.Advance(absl::Hours(10));
  std::vector<Expired> expired;
  ASSERT_THAT(stores_->retained_datasets()->Sweep(expired), IsOk());
  server_->Drain(absl::ZeroDuration());
  EXPECT_THAT(Shown(), IsSupersetOf(Numbers{{"packhouse_datasets_expired_total", 2},
                                            {R"(packhouse_lane_streams{transport="grpc"})", 0},
                                            {"packhouse_draining", 1}}));
}

TEST_F(ServerReadingsTest, OfOneOfACluster) {
  membership_ = std::make_unique<FakeMembership>(folder_.path());
  options_.membership.ledger = "etcd://";
  options_.store = {.uri = "s3://", .is_shared = true};
  Open();
  EXPECT_FALSE(stores_->may_save());
  EXPECT_EQ(stores_->disk(), folder_.path());
  EXPECT_EQ(stores_->datasets(), stores_->shared()->datasets());
  Append("a", 3);
  Start();
  const auto loader =
      v1::LoaderService::NewStub(server_->InProcessChannel(grpc::ChannelArguments()));
  for (const std::string job : {"x", "y"}) {
    v1::GetJobRequest request;
    request.set_job(job);
    grpc::ClientContext context;
    v1::Job response;
    EXPECT_EQ(loader->GetJob(&context, request, &response).error_code(),
              grpc::StatusCode::NOT_FOUND);
  }
  EXPECT_THAT(Shown(), IsSupersetOf(Numbers{
                           {"packhouse_cluster_members", 3},
                           {"packhouse_cluster_has_lease", 1},
                           {"packhouse_cluster_jobs", 2},
                           {"packhouse_cluster_jobs_opened_total", 2},
                           {"packhouse_object_cache_hits_total", 41},
                           {"packhouse_histograms_expired_total", 31},
                           {"packhouse_datasets_expired_total", 0},
                           {R"(packhouse_dataset_graphs{namespace="default",dataset="a"})", 3}}));

  // Where they expire, uses go through what notes them.
  options_.dataset_retention.otherwise = absl::Hours(1);
  PH_ASSERT_OK_AND_ASSIGN(const auto retained, ServedStores::Open(options_, stores_of_folder_,
                                                                  membership_.get(), clock_));
  EXPECT_EQ(retained->datasets(), retained->retained_datasets());
  options_.store.uri = "";
  EXPECT_THAT(ServedStores::Open(options_, stores_of_folder_, membership_.get(), clock_),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::HasSubstr("--store")));
}

// Data sets that each server has a copy of are changed by none.
TEST_F(ServerReadingsTest, ACopyIsOnlyRead) {
  options_.data_dir = folder_.path() + "/data";
  // Where nothing expires any more, it would be too old once something does.
  const std::string uses = LastUsesFile(options_.data_dir);
  std::filesystem::create_directory(options_.data_dir);
  WriteText(uses, "of an earlier server");
  Open();
  EXPECT_FALSE(std::filesystem::exists(uses));
  Append("a", 3);
  EXPECT_EQ(stores_->retained_datasets(), nullptr);
  stores_ = nullptr;
  stores_of_folder_ = {};
  membership_ = std::make_unique<FakeMembership>(folder_.path());
  options_.membership.ledger = "etcd://";
  metrics::Metrics metrics("1");
  PH_ASSERT_OK_AND_ASSIGN(stores_of_folder_,
                          FolderStores::Open(options_, metrics, limited_log_, clock_));
  EXPECT_EQ(stores_of_folder_.ledger.store, nullptr);
  EXPECT_EQ(stores_of_folder_.why_not_healthy(), "");
  PH_ASSERT_OK_AND_ASSIGN(
      stores_, ServedStores::Open(options_, stores_of_folder_, membership_.get(), clock_));
  EXPECT_FALSE(stores_->may_save());
  EXPECT_EQ(stores_->disk(), options_.data_dir);
  EXPECT_EQ(stores_->datasets()->Get("a")->num_graphs, 3U);
  EXPECT_THAT(stores_->datasets()->Delete("a"),
              StatusIs(absl::StatusCode::kFailedPrecondition, ::testing::HasSubstr("--ledger")));
  EXPECT_EQ(stores_->stored_datasets(), stores_of_folder_.datasets.store.get());
}

}  // namespace
}  // namespace packhouse
