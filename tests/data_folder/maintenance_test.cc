// The laws of maintenance: a check finds damage or there is none that matters, a repair costs the
// jobs that are damaged and nothing else, compacting and converting change no content.
#include "service/program/data_folder/maintenance.h"

#include <filesystem>
#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "service/base/checked_lines.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/lmdb_log_repair.h"
#include "service/stores/limits/data_folder.h"
#include "service/stores/lmdb/checked_value.h"
#include "service/stores/lmdb/lmdb_environment.h"
#include "service/stores/lmdb/stored_keys.h"
#include "service/wings/graphs/stored/file_source_graph_store.h"
#include "service/wings/graphs/stored/source_graph_names.h"
#include "tests/data_folder/folder_world.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// All damages; an error of the check is one.
std::vector<std::string> FoundIn(const std::string& data_dir) {
  std::vector<std::string> damages;
  const auto checked = CheckDataFolder(
      data_dir,
      [&damages](const StoredDamage& damage) {
        damages.push_back(
            absl::StrCat(damage.file, "|", damage.place, "|", damage.what, "|", damage.cost));
      },
      kSourceGraphs);
  if (!checked.ok()) damages.push_back(checked.status().ToString());
  return damages;
}

using MaintenanceTest = FolderTest;

// A record of a job's log with its checksum, and its key.
struct RawRecord {
  std::string job;
  uint64_t sequence = 0;
  std::string key;
  std::string value;
};

// Those of all logs, which are numbered in the order in which they were begun.
std::vector<RawRecord> RawRecords(const std::string& data_dir) {
  std::vector<RawRecord> raw;
  const OpenStores stores(data_dir);
  uint64_t log = 0;
  const std::vector<std::string> names = stores.ledger->Names().value();
  for (const std::string& job : names) {
    ++log;
    uint64_t sequence = 0;
    const std::vector<std::string> records = stores.ledger->Read(job).value();
    for (const std::string& record : records) {
      const std::string key = RecordKey(log, ++sequence);
      raw.push_back({job, sequence, key, WithChecksum(key, record)});
    }
  }
  return raw;
}

std::string Named(const RawRecord& record) {
  return absl::StrCat("job '", record.job, "', record ", record.sequence);
}

// The logs as they were at first.
std::vector<NewLog> LogsOf(const std::vector<RawRecord>& raw) {
  std::vector<NewLog> logs;
  for (const RawRecord& record : raw) {
    if (record.sequence == 1) logs.push_back({record.job, logs.size() + 1, 1, {}});
    logs.back().records.push_back(record.value.substr(0, record.value.size() - 4));
  }
  return logs;
}

std::map<std::string, std::vector<std::string>> JobsOf(const std::string& data_dir) {
  std::map<std::string, std::vector<std::string>> jobs;
  const Contents contents = ReadContents(data_dir);
  for (const auto& [job, ledger] : *contents.jobs) jobs[job] = ledger.EpochRecords();
  return jobs;
}

TEST_F(MaintenanceTest, ASoundFolderIsSoundAndStaysAsItIs) {
  std::map<std::string, std::string> before;
  const auto read_all = [&] {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(data_dir_)) {
      const std::string name = entry.path().filename().string();
      if (!entry.is_regular_file() || name == "LOCK" || name == "lock.mdb") continue;
      files[entry.path().string()] = ReadFile(entry.path().string());
    }
    return files;
  };
  before = read_all();
  PH_ASSERT_OK_AND_ASSIGN(
      const StoredCounts counts,
      CheckDataFolder(
          data_dir_, [](const StoredDamage& damage) { ADD_FAILURE() << damage.what; },
          kSourceGraphs));
  EXPECT_EQ(counts.num_datasets, 2U);
  EXPECT_EQ(counts.num_ledger_records, 36U);
  EXPECT_EQ(counts.num_source_graphs, 2U);
  EXPECT_EQ(counts.num_histograms, 2U);
  PH_ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairDataFolder(data_dir_, {}));
  EXPECT_FALSE(report.is_changed);
  EXPECT_TRUE(read_all() == before);
}

// Damage anywhere is found, or everything reads as before. Partitions and keys have no checksums;
// tables of readers and locks have no state.
TEST_F(MaintenanceTest, DamageIsFoundOrDoesNotMatter) {
  const Contents contents = ReadContents(data_dir_);
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_dir_)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || entry.file_size() == 0 || name == "LOCK" ||
        name == "lock.mdb" || name == "key") {
      continue;
    }
    files.push_back(entry.path().string());
    // Most bytes are in these, so they are hit more often.
    if (name == "data.mdb") files.insert(files.end(), 10, entry.path().string());
  }
  ASSERT_GT(files.size(), 40U);
  uint64_t num_found = 0;
  uint64_t num_same = 0;
  const std::string copy = folder_.path() + "/copy";
  for (uint64_t seed = 0; seed < 150; ++seed) {
    Random random(seed);
    const std::string& hit = files[random.Below(files.size())];
    SCOPED_TRACE(testing::Message() << "seed=" << seed << " " << hit);
    std::filesystem::copy(data_dir_, copy, std::filesystem::copy_options::recursive);
    const std::string path = copy + hit.substr(data_dir_.size());
    std::string bytes = ReadFile(path);
    switch (random.Below(8)) {
      case 0:
        bytes.resize(random.Below(bytes.size()));
        break;
      case 1: {
        const size_t begin = random.Below(bytes.size());
        bytes.replace(begin, std::min<size_t>(512, bytes.size() - begin), 512, '\0');
        bytes.resize(std::filesystem::file_size(path));
        break;
      }
      default:
        bytes[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
    }
    WriteFile(path, bytes);
    if (FoundIn(copy).empty()) {
      ++num_same;
      EXPECT_TRUE(ReadContents(copy) == contents);
    } else {
      ++num_found;
    }
    std::filesystem::remove_all(copy);
  }
  EXPECT_GT(num_found, 60U);
  EXPECT_GT(num_same, 3U);
}

absl::StatusOr<std::unique_ptr<FileSourceGraphStore>> OpenGraphs(const std::string& data_dir) {
  FileSourceGraphStore::Options options;
  options.folder = SourceGraphsFolder(data_dir);
  options.min_free_bytes = 0;
  return FileSourceGraphStore::Open(options);
}

TEST_F(MaintenanceTest, ADamagedSourceGraphIsDropped) {
  const auto open = [this] { return OpenGraphs(data_dir_); };
  SourceGraphInfo sealed;
  size_t num_graphs = 0;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, open());
    PH_ASSERT_OK_AND_ASSIGN(const SourceGraphList list, store->List(0, ""));
    num_graphs = list.graphs.size();
    for (const SourceGraphInfo& info : list.graphs) {
      if (info.state == SourceGraphState::kSealed) sealed = info;
    }
  }
  ASSERT_NE(sealed.name, "");
  EXPECT_THAT(DropDamagedGraph(data_dir_, kSourceGraphs, "none"),
              StatusIs(absl::StatusCode::kNotFound, _));
  EXPECT_THAT(DropDamagedGraph(data_dir_, kSourceGraphs, sealed.name),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("is sound")));
  const std::string path = absl::StrCat(SourceGraphsFolder(data_dir_), "/",
                                        SourceGraphFolderName(sealed.id), "/definition");
  std::string bytes = ReadFile(path);
  bytes[30] ^= 1;
  WriteFile(path, bytes);
  EXPECT_FALSE(FoundIn(data_dir_).empty());
  ASSERT_THAT(DropDamagedGraph(data_dir_, kSourceGraphs, sealed.name), IsOk());
  EXPECT_TRUE(FoundIn(data_dir_).empty());
  PH_ASSERT_OK_AND_ASSIGN(const auto store, open());
  EXPECT_EQ(store->List(0, "")->graphs.size(), num_graphs - 1);
  EXPECT_THAT(store->Get(sealed.name).status(), StatusIs(absl::StatusCode::kNotFound, _));
}

// What nobody reads is left alone, and said to be.
TEST_F(MaintenanceTest, WithoutTheWingOfSourceGraphsTheyAreNamed) {
  const GraphFolder none = {.why_not = "built without it"};
  const auto no_damage = [](const StoredDamage& damage) { ADD_FAILURE() << damage.what; };
  const auto whole = [](const SnapshotReport&) { return true; };
  const std::string snapshot = folder_.path() + "/without";
  const auto named = AllOf(HasSubstr("source_graphs"), HasSubstr("built without it"));
  EXPECT_THAT(CheckHasNoGraphs(data_dir_, none.why_not),
              StatusIs(absl::StatusCode::kFailedPrecondition, named));
  EXPECT_THAT(TakeSnapshotOffline(data_dir_, none, snapshot, absl::UnixEpoch(), whole),
              StatusIs(absl::StatusCode::kFailedPrecondition, named));
  EXPECT_FALSE(std::filesystem::exists(snapshot));
  EXPECT_THAT(DropDamagedGraph(data_dir_, none, "graph/sealed"),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("built without it")));
  EXPECT_EQ(CheckDataFolder(data_dir_, no_damage, none)->num_source_graphs, 0U);
  EXPECT_THAT(RepairDataFolder(data_dir_, {.accept_missing = true}, none), IsOk());
  EXPECT_EQ(CheckDataFolder(data_dir_, no_damage, kSourceGraphs)->num_source_graphs, 2U);
  // A store of none is in no one's way.
  for (const char* const name : {"graph/sealed", "graph/open"}) {
    EXPECT_THAT((*OpenGraphs(data_dir_))->Delete(name), IsOk());
  }
  EXPECT_THAT(CheckHasNoGraphs(data_dir_, none.why_not), IsOk());
  EXPECT_THAT(TakeSnapshotOffline(data_dir_, none, snapshot, absl::UnixEpoch(), whole), IsOk());
}

TEST_F(MaintenanceTest, WhatAnAbsentWingKeepsBesideAGraphIsSaidToBeUnchecked) {
  std::vector<std::string> companions;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(data_dir_)) {
    if (entry.path().filename() == "companion") companions.push_back(entry.path());
  }
  ASSERT_THAT(companions, Not(IsEmpty()));
  for (const std::string& companion : companions) WriteFile(companion + "/file", "x");
  testing::internal::CaptureStderr();
  const auto checked = CheckDataFolder(
      data_dir_, [](const StoredDamage&) {}, GraphsInFolder({}));
  EXPECT_EQ(checked->num_source_graphs, 2U);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("/companion"),
                    HasSubstr("what is kept beside source graph 'graph/sealed' is not checked")));
}

// A graph whose folder is gone is no graph that never was.
TEST_F(MaintenanceTest, ASourceGraphThatIsMissingIsDamaged) {
  const std::string name = "graph/sealed";
  std::string folder;
  {
    PH_ASSERT_OK_AND_ASSIGN(const auto store, OpenGraphs(data_dir_));
    PH_ASSERT_OK_AND_ASSIGN(const SourceGraphInfo info, store->Get(name));
    folder = absl::StrCat(SourceGraphsFolder(data_dir_), "/", SourceGraphFolderName(info.id));
  }
  const std::string sound = folder_.path() + "/sound";
  std::filesystem::rename(folder, sound);
  const auto is_missing = [&] {
    EXPECT_THAT(FoundIn(data_dir_),
                ElementsAre(absl::StrCat(folder, "||is missing|source graph '", name, "'")));
    const auto store = OpenGraphs(data_dir_);
    EXPECT_EQ((*store)->List(0, "")->graphs.size(), 2U);
    EXPECT_THAT((*store)->Get(name), StatusIs(absl::StatusCode::kDataLoss, HasSubstr(name)));
    EXPECT_THAT((*store)->Create(name, LawSchema(), LawOptions()),
                StatusIs(absl::StatusCode::kAlreadyExists, _));
  };
  is_missing();
  // It can be put back.
  std::filesystem::rename(sound, folder);
  EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
  EXPECT_THAT((*OpenGraphs(data_dir_))->Get(name), IsOk());
  std::filesystem::remove_all(folder);
  is_missing();
  // Or given up, in three ways.
  const std::string list = SourceGraphsFolder(data_dir_) + "/graphs";
  const std::string listed = ReadFile(list);
  for (int way = 0; way < 3; ++way) {
    WriteFile(list, listed);
    is_missing();
    if (way == 0) {
      EXPECT_THAT((*OpenGraphs(data_dir_))->Delete(name), IsOk());
    } else if (way == 1) {
      EXPECT_THAT(DropDamagedGraph(data_dir_, kSourceGraphs, name), IsOk());
    } else {
      EXPECT_THAT(RepairDataFolder(data_dir_, {}), IsOk());
      is_missing();
      EXPECT_THAT(RepairDataFolder(data_dir_, {.accept_missing = true}, kSourceGraphs), IsOk());
    }
    EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
    EXPECT_EQ((*OpenGraphs(data_dir_))->List(0, "")->graphs.size(), 1U);
  }
  // The list itself: every byte counts.
  const std::string sound_list = ReadFile(list);
  for (size_t at = 0; at < sound_list.size(); ++at) {
    std::string damaged = sound_list;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    WriteFile(list, damaged);
    EXPECT_THAT(OpenGraphs(data_dir_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("--accept-missing")))
        << at;
  }
  EXPECT_THAT(FoundIn(data_dir_), Contains(HasSubstr("source_graphs/graphs")));
  ASSERT_THAT(RepairDataFolder(data_dir_, {.accept_missing = true}, kSourceGraphs), IsOk());
  EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
  EXPECT_EQ((*OpenGraphs(data_dir_))->List(0, "")->graphs.size(), 1U);
  EXPECT_EQ(ReadFile(list), sound_list);
}

// One flipped bit of a record is put right: nothing is lost.
TEST_F(MaintenanceTest, AFlippedBitIsPutRight) {
  const Contents contents = ReadContents(data_dir_);
  const std::vector<RawRecord> raw = RawRecords(data_dir_);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const RawRecord& hit = raw[random.Below(raw.size())];
    std::string damaged = hit.value;
    damaged[random.Below(damaged.size())] ^= static_cast<char>(1 << random.Below(8));
    PutRaw(DeliveryFolder(data_dir_), hit.key, damaged);
    EXPECT_FALSE(ReadContents(data_dir_).jobs.has_value());
    EXPECT_THAT(FoundIn(data_dir_), Contains(AllOf(HasSubstr(Named(hit)), HasSubstr("data.mdb"),
                                                   HasSubstr("one bit"))));
    PH_ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairDataFolder(data_dir_, {}));
    EXPECT_TRUE(report.is_changed);
    EXPECT_THAT(report.lost_jobs, IsEmpty());
    EXPECT_TRUE(FoundIn(data_dir_).empty());
    EXPECT_TRUE(ReadContents(data_dir_).jobs == contents.jobs);
    ASSERT_THAT(RewriteLogs(DeliveryFolder(data_dir_), {4, 0}, LogsOf(raw)), IsOk());
  }
  EXPECT_TRUE(ReadContents(data_dir_) == contents);
}

// A damaged record, or one that is missing, costs the job that it belongs to, and no other job
// changes.
TEST_F(MaintenanceTest, ADamagedRecordCostsItsJobAlone) {
  const auto jobs = JobsOf(data_dir_);
  const Contents contents = ReadContents(data_dir_);
  const std::vector<RawRecord> raw = RawRecords(data_dir_);
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const RawRecord& hit = raw[random.Below(raw.size())];
    if (seed % 3 == 0) {
      EraseKey(DeliveryFolder(data_dir_), hit.key);
      EXPECT_THAT(FoundIn(data_dir_), Contains(AllOf(HasSubstr(Named(hit)), HasSubstr("missing"))));
    } else {
      std::string damaged = hit.value;
      const size_t begin = random.Below(damaged.size() - 2);
      damaged[begin] ^= 0x15;
      damaged[begin + 1] ^= 0x2a;
      PutRaw(DeliveryFolder(data_dir_), hit.key, damaged);
      EXPECT_FALSE(ReadContents(data_dir_).jobs.has_value());
    }
    PH_ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairDataFolder(data_dir_, {}));
    EXPECT_TRUE(report.is_changed);
    EXPECT_THAT(report.lost_jobs, ElementsAre(hit.job));
    EXPECT_THAT(report.done, ElementsAre(HasSubstr(Named(hit))));
    auto expected = jobs;
    expected.erase(hit.job);
    EXPECT_TRUE(JobsOf(data_dir_) == expected);
    EXPECT_TRUE(FoundIn(data_dir_).empty());
    const Contents after = ReadContents(data_dir_);
    // Generations of the lost job are not used again.
    EXPECT_GE(after.mark, contents.jobs->at(hit.job).last_generation());
    EXPECT_TRUE(after.datasets == contents.datasets);
    EXPECT_TRUE(after.sealed_graphs == contents.sealed_graphs);
    EXPECT_TRUE(after.open_graphs == contents.open_graphs);
    ASSERT_THAT(RewriteLogs(DeliveryFolder(data_dir_), {4, 0}, LogsOf(raw)), IsOk());
  }
}

// Heads, and what all logs have together, can be made again, and a record under a damaged key is
// known by its checksum.
TEST_F(MaintenanceTest, DamageBesideTheRecordsIsPutRight) {
  const Contents contents = ReadContents(data_dir_);
  const std::string delivery = DeliveryFolder(data_dir_);
  const auto num_bytes = [&] { return OpenStores(data_dir_).ledger->num_bytes(); };
  const uint64_t bytes = num_bytes();
  const std::string no_head = "the log of job 'third/job' has no head";
  const auto of_no_log = [](const std::string& key) {
    return absl::StrCat("the key '", absl::CHexEscape(key), "' is of no log");
  };
  enum class What { kErased, kNoChecksum, kNoContent };
  using enum What;
  struct Law {
    std::string key;
    What what;
    std::vector<std::string> told;
  };
  const std::string head_is_damaged = "the head of the log of job 'third/job' is damaged";
  const std::string tail_is_damaged = "the numbers of the next log and generation are damaged";
  const std::string short_key = RecordKey(7, 3).substr(0, 4);
  for (const Law& law :
       std::vector<Law>{{LogFormatKey(), kNoChecksum, {"the number of the format is damaged"}},
                        {LogFormatKey(), kErased, {"it has no format"}},
                        {LogTailKey(), kNoChecksum, {tail_is_damaged}},
                        {LogTailKey(), kNoContent, {tail_is_damaged}},
                        {LogTailKey(), kErased, {"it does not say which log is the next"}},
                        {NameKey("third/job"), kNoChecksum, {head_is_damaged, no_head}},
                        {NameKey("third/job"), kNoContent, {head_is_damaged, no_head}},
                        {NameKey("third/job"), kErased, {no_head}},
                        {RecordKey(7, 3), kNoChecksum, {of_no_log(RecordKey(7, 3))}},
                        {RecordKey(7, 3), kNoContent, {of_no_log(RecordKey(7, 3))}},
                        {short_key, kNoContent, {of_no_log(short_key)}},
                        {RecordKey(1, 99), kNoContent, {of_no_log(RecordKey(1, 99))}},
                        {RecordKey(1, 0), kNoContent, {of_no_log(RecordKey(1, 0))}},
                        {"zzz", kNoChecksum, {of_no_log("zzz")}}}) {
    SCOPED_TRACE(absl::CHexEscape(law.key));
    const StoreIdentities identities = ReadIdentities(data_dir_);
    if (law.what == kErased) {
      EraseKey(delivery, law.key);
    } else {
      PutRaw(delivery, law.key,
             law.what == kNoChecksum ? "not its checksum" : WithChecksum(law.key, "x"));
    }
    std::vector<std::string> damages;
    for (const std::string& each : law.told) {
      damages.push_back(absl::StrCat(DataFile(delivery), "||", each,
                                     "|nothing: packhoused store repair puts it right"));
    }
    EXPECT_EQ(FoundIn(data_dir_), damages);
    PH_ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairDataFolder(data_dir_, {}));
    EXPECT_TRUE(report.is_changed);
    EXPECT_EQ(report.done, law.told);
    EXPECT_THAT(report.lost_jobs, IsEmpty());
    EXPECT_TRUE(FoundIn(data_dir_).empty());
    EXPECT_TRUE(ReadContents(data_dir_).jobs == contents.jobs);
    EXPECT_GE(ReadContents(data_dir_).mark, 6U);
    EXPECT_EQ(num_bytes(), bytes);
    EXPECT_EQ(ReadIdentities(data_dir_) == identities, law.key != LogFormatKey());
  }
  const std::vector<RawRecord> raw = RawRecords(data_dir_);
  for (const std::string& key : {RecordKey(9, 5), std::string("x")}) {
    EraseKey(DeliveryFolder(data_dir_), raw[7].key);
    PutRaw(DeliveryFolder(data_dir_), key, raw[7].value);
    PH_ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairDataFolder(data_dir_, {}));
    EXPECT_THAT(report.lost_jobs, IsEmpty());
    EXPECT_THAT(report.done, ElementsAre(HasSubstr("that of a record, damaged")));
    EXPECT_TRUE(ReadContents(data_dir_).jobs == contents.jobs);
  }
  // What is no record is not taken for one that is missing.
  EraseKey(delivery, raw[7].key);
  PutRaw(delivery, "x", "not its checksum");
  PH_ASSERT_OK_AND_ASSIGN(const RepairReport lost, RepairDataFolder(data_dir_, {}));
  EXPECT_THAT(lost.lost_jobs, ElementsAre(raw[7].job));
  EXPECT_THAT(lost.done, ElementsAre(of_no_log("x"),
                                     AllOf(HasSubstr(Named(raw[7])), HasSubstr("is missing"))));
  ASSERT_THAT(RewriteLogs(delivery, {4, 6}, LogsOf(raw)), IsOk());
  // The log of a new job is one of its own, whatever was lost.
  EraseKey(delivery, LogTailKey());
  EXPECT_THAT(RepairDataFolder(data_dir_, {}), IsOk());
  AppendEvents(*OpenStores(data_dir_).ledger, "new", EventsOf("new", 20));
  auto jobs = *ReadContents(data_dir_).jobs;
  EXPECT_EQ(jobs.erase("new"), 1U);
  EXPECT_TRUE(jobs == *contents.jobs);
}

// What is kept beside the jobs is lost as a whole, and no job with it.
TEST_F(MaintenanceTest, ADamagedRecordOfTheKeysCostsAllOfThemAlone) {
  for (int i = 0; i < 3; ++i) {
    PutKey(*OpenStores(data_dir_).ledger, absl::StrCat("k", i), std::string(100, 'v'));
  }
  const Contents contents = ReadContents(data_dir_);
  ASSERT_EQ(contents.keys.size(), 3U);
  const auto expect_keys = [&](const std::map<std::string, std::string>& keys) {
    const Contents now = ReadContents(data_dir_);
    EXPECT_EQ(now.keys, keys);
    EXPECT_TRUE(now.jobs == contents.jobs);
    EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
  };
  // The fourth log of the folder.
  const std::vector<std::string> records = OpenStores(data_dir_).ledger->Read(kKeysLog).value();
  const std::string key = RecordKey(4, 2);
  const std::string sound = WithChecksum(key, records[1]);
  std::string damaged = sound;
  damaged[20] ^= 0x10;
  PutRaw(DeliveryFolder(data_dir_), key, damaged);
  EXPECT_THAT(FoundIn(data_dir_), ElementsAre(AllOf(HasSubstr("|measured models, record 2|"),
                                                    HasSubstr("one bit"), HasSubstr("|nothing"))));
  ASSERT_THAT(RepairDataFolder(data_dir_, {}), IsOk());
  expect_keys(contents.keys);
  // Its head can be made again.
  PutRaw(DeliveryFolder(data_dir_), NameKey(kKeysLog), "not its checksum");
  ASSERT_THAT(RepairDataFolder(data_dir_, {}), IsOk());
  expect_keys(contents.keys);

  damaged[21] ^= 0x10;
  PutRaw(DeliveryFolder(data_dir_), key, damaged);
  EXPECT_THAT(FoundIn(data_dir_), ElementsAre(AllOf(HasSubstr("|measured models, record 2|"),
                                                    HasSubstr("|all measured models"))));
  PH_ASSERT_OK_AND_ASSIGN(const RepairReport report, RepairDataFolder(data_dir_, {}));
  EXPECT_THAT(report.done, ElementsAre(HasSubstr("all measured models")));
  EXPECT_THAT(report.lost_jobs, IsEmpty());
  expect_keys({});
}

TEST_F(MaintenanceTest, CompactingGivesSpaceBack) {
  {
    OpenStores stores(data_dir_);
    ASSERT_THAT(stores.datasets->Create("large", FolderSchema(), {}), IsOk());
    for (uint64_t seed = 1; seed < 9; ++seed) {
      AppendGraphs(*stores.datasets, "large", seed, 2000);
    }
    ASSERT_THAT(stores.datasets->Delete("large"), IsOk());
  }
  const Contents contents = ReadContents(data_dir_);
  const uint64_t before = std::filesystem::file_size(DataFile(DatasetsFolder(data_dir_)));
  PH_ASSERT_OK_AND_ASSIGN(const auto stores, CompactDataFolder(data_dir_));
  ASSERT_EQ(stores.size(), 2U);
  EXPECT_EQ(stores[0].folder, DatasetsFolder(data_dir_));
  // What was still to be erased may have taken a page more.
  EXPECT_GE(stores[0].bytes_before, before);
  EXPECT_LT(stores[0].bytes_after, before / 4);
  EXPECT_EQ(stores[0].bytes_after, std::filesystem::file_size(DataFile(DatasetsFolder(data_dir_))));
  EXPECT_TRUE(FoundIn(data_dir_).empty());
  EXPECT_TRUE(ReadContents(data_dir_) == contents);
  // A folder without stores stays so.
  const std::string none = folder_.path() + "/none";
  std::filesystem::create_directory(none);
  EXPECT_TRUE(CompactDataFolder(none)->empty());
  EXPECT_TRUE(std::filesystem::is_empty(none));
  // Compact already, and still writable.
  ASSERT_THAT(CompactDataFolder(data_dir_), IsOk());
  OpenStores again(data_dir_);
  AppendGraphs(*again.datasets, "open", 77, 5);
}

TEST_F(MaintenanceTest, AFolderThatIsNoneOrIsNotWholeIsLeftAlone) {
  const std::string snapshot = folder_.path() + "/snapshot";
  const auto expect_refused = [&](const std::string& data_dir, bool reads, absl::StatusCode code,
                                  const std::string& why) {
    std::vector<absl::Status> ended = {
        CompactDataFolder(data_dir).status(),
        TakeSnapshotOffline(data_dir, kSourceGraphs, snapshot, absl::UnixEpoch(),
                            [](const SnapshotReport&) { return true; })
            .status()};
    if (!reads) {
      ended.push_back(CheckDataFolder(
                          data_dir, [](const StoredDamage&) {}, kSourceGraphs)
                          .status());
      ended.push_back(RepairDataFolder(data_dir, {}, kSourceGraphs).status());
      ended.push_back(DropDamagedGraph(data_dir, kSourceGraphs, "graph/sealed"));
    }
    for (const absl::Status& status : ended) EXPECT_THAT(status, StatusIs(code, HasSubstr(why)));
    EXPECT_FALSE(std::filesystem::exists(snapshot));
  };
  const std::string missing = folder_.path() + "/missing";
  expect_refused(missing, false, absl::StatusCode::kNotFound,
                 absl::StrCat("there is no data folder '", missing, "'"));
  EXPECT_FALSE(std::filesystem::exists(missing));
  const std::string mark = absl::StrCat(data_dir_, "/", kRestoringMark);
  WriteFile(mark, "");
  expect_refused(data_dir_, false, absl::StatusCode::kFailedPrecondition,
                 absl::StrCat("a restore into '", data_dir_, "' was stopped"));
  std::filesystem::remove(mark);
  ASSERT_THAT(NoteFolderContents(data_dir_, ReadIdentities(data_dir_)), IsOk());
  const std::string histograms = data_dir_ + "/histograms";
  std::filesystem::remove(histograms);
  expect_refused(data_dir_, true, absl::StatusCode::kDataLoss,
                 absl::StrCat("'", histograms, "' is missing, and it had all named histograms"));
}

TEST_F(MaintenanceTest, EachFileSaysWhatItsDamageCosts) {
  const std::string key = data_dir_ + "/signing.key";
  WriteFile(key, "none");
  EXPECT_THAT(FoundIn(data_dir_),
              ElementsAre(absl::StrCat(key, "||'", key, "' is no key of 64 hexadecimal digits",
                                       "|the cursors that were given out")));
  WriteFile(key, std::string(64, 'a') + "\n");
  EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
  // It never changes, once it is noted.
  ASSERT_THAT(NoteFolderContents(data_dir_, {}), IsOk());
  ASSERT_THAT(NoteFolderContents(data_dir_, ReadIdentities(data_dir_)), IsOk());
  const std::string contents = absl::StrCat(data_dir_, "/", kContentsFile);
  const std::string noted = ReadFile(contents);
  WriteFile(key, std::string(64, 'b') + "\n");
  std::filesystem::remove(contents + ".link");
  std::filesystem::create_hard_link(contents, contents + ".link");
  ASSERT_THAT(NoteFolderContents(data_dir_, {{"datasets", 1}, {"delivery", 2}}), IsOk());
  EXPECT_EQ(ReadFile(contents), noted);
  // It is not even written.
  EXPECT_TRUE(std::filesystem::equivalent(contents, contents + ".link"));
  EXPECT_THAT(FoundIn(data_dir_),
              ElementsAre(absl::StrCat(key,
                                       "||is another one than this folder had|the cursors that "
                                       "were given out")));
  std::filesystem::remove(key);
  std::filesystem::create_directory(key);
  const std::string histograms = data_dir_ + "/histograms";
  const std::string sound = ReadFile(histograms);
  std::filesystem::remove(histograms);
  const std::string remedy = absl::StrCat(
      ". Put it back, or restore a snapshot; or go on without it after packhoused store repair '",
      data_dir_, "' --accept-missing");
  std::filesystem::remove(key);
  // The first of two.
  EXPECT_EQ(VerifyFolderContents(data_dir_, {}),
            absl::DataLossError(absl::StrCat("'", histograms,
                                             "' is missing, and it had all named "
                                             "histograms: '",
                                             contents, "' says that it must be there", remedy)));
  WriteFile(contents, "none");
  const std::string damaged =
      absl::StrCat("'", contents, "' is damaged, or was written by a later release of packhoused");
  EXPECT_EQ(VerifyFolderContents(data_dir_, {}), absl::DataLossError(damaged + remedy));
  EXPECT_EQ(NoteFolderContents(data_dir_, {}), absl::DataLossError(damaged));
  std::filesystem::remove(contents);
  std::filesystem::remove(contents + ".link");
  WriteFile(histograms, "none");
  EXPECT_THAT(FoundIn(data_dir_), ElementsAre(AllOf(testing::StartsWith(histograms + "||"),
                                                    testing::EndsWith("|all named histograms"))));
  WriteFile(histograms, sound);
  EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
  const std::string ledger = DataFile(DeliveryFolder(data_dir_));
  WriteFile(ledger, std::string(std::filesystem::file_size(ledger), 'x'));
  EXPECT_THAT(
      FoundIn(data_dir_),
      ElementsAre(
          AllOf(testing::StartsWith(ledger + "||"),
                testing::EndsWith("|all jobs and measured models, until a snapshot is restored"))));
  EXPECT_THAT(RepairDataFolder(data_dir_, {}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr(absl::StrCat(
                           "this cannot be repaired, restore a snapshot, or move '",
                           DeliveryFolder(data_dir_), "' away and say --accept-missing"))));
}

TEST_F(MaintenanceTest, WhatIsOpenIsRefusedWithItsProcess) {
  const OpenStores stores(data_dir_);
  const auto refused =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("in use by process"));
  EXPECT_THAT(CheckDataFolder(data_dir_, [](const StoredDamage&) {}), refused);
  EXPECT_THAT(RepairDataFolder(data_dir_, {}), refused);
  EXPECT_THAT(CompactDataFolder(data_dir_), refused);
}

// What a folder must have is known by what it is, so that an empty store is no store of nothing.
TEST_F(MaintenanceTest, WhatIsMissingIsFoundAndCanBeGivenUp) {
  ASSERT_THAT(NoteFolderContents(data_dir_, ReadIdentities(data_dir_)), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const FolderContents contents, ReadFolderContents(data_dir_));
  EXPECT_THAT(contents.items, testing::SizeIs(4));
  EXPECT_NE(contents.items.at("delivery"), contents.items.at("datasets"));
  ASSERT_THAT(FoundIn(data_dir_), IsEmpty());
  const std::string other = folder_.path() + "/other";
  MakeDataFolder(other);
  for (const std::string file : {"datasets/data.mdb", "delivery/data.mdb", "histograms"}) {
    for (const std::string damage : {"missing", "empty", "another"}) {
      // Histograms change as a whole.
      if (file == "histograms" && damage == "another") continue;
      const std::string copy = folder_.path() + "/copy";
      std::filesystem::remove_all(copy);
      std::filesystem::copy(data_dir_, copy, std::filesystem::copy_options::recursive);
      const std::string path = absl::StrCat(copy, "/", file);
      std::filesystem::remove(path);
      if (damage == "empty") std::ofstream(path).close();
      if (damage == "another") std::filesystem::copy_file(absl::StrCat(other, "/", file), path);
      SCOPED_TRACE(absl::StrCat(file, ", ", damage));
      EXPECT_THAT(FoundIn(copy), Contains(AllOf(HasSubstr(file), HasSubstr(damage))));
      EXPECT_THAT(VerifyFolderContents(copy, ReadIdentities(copy)),
                  StatusIs(absl::StatusCode::kDataLoss, HasSubstr("--accept-missing")));
      EXPECT_THAT(RepairDataFolder(copy, {}),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           AllOf(HasSubstr(file), HasSubstr("Nothing was changed"))));
      PH_ASSERT_OK_AND_ASSIGN(const RepairReport report,
                              RepairDataFolder(copy, {.accept_missing = true}, kSourceGraphs));
      EXPECT_THAT(report.done, Contains(HasSubstr(file)));
      EXPECT_THAT(FoundIn(copy), IsEmpty());
      EXPECT_THAT(VerifyFolderContents(copy, ReadIdentities(copy)), IsOk());
    }
  }
  // The file itself: every byte counts.
  const std::string path = absl::StrCat(data_dir_, "/", kContentsFile);
  const std::string sound = ReadFile(path);
  for (size_t at = 0; at <= sound.size(); ++at) {
    std::string damaged = sound;
    if (at < sound.size()) damaged[at] = static_cast<char>(damaged[at] ^ 1);
    if (at == sound.size()) damaged.clear();
    WriteFile(path, damaged);
    EXPECT_THAT(ReadFolderContents(data_dir_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("contents")))
        << at;
  }
  EXPECT_THAT(FoundIn(data_dir_), Contains(HasSubstr("/contents")));
  ASSERT_THAT(RepairDataFolder(data_dir_, {.accept_missing = true}, kSourceGraphs), IsOk());
  EXPECT_EQ(ReadFile(path), sound);
}

TEST_F(MaintenanceTest, AStoreThatHasJustBeenBegunIsSound) {
  const std::string delivery = DeliveryFolder(data_dir_);
  std::filesystem::remove_all(delivery);
  std::filesystem::create_directory(delivery);
  ASSERT_THAT(LmdbEnvironment::Open(delivery, 1 << 20).status(), IsOk());
  ASSERT_GT(std::filesystem::file_size(DataFile(delivery)), 0U);
  EXPECT_THAT(FoundIn(data_dir_), IsEmpty());
  EXPECT_FALSE(RepairDataFolder(data_dir_, {})->is_changed);
}

TEST_F(MaintenanceTest, AFormatThatIsNotKnownIsNeitherCheckedNorRepaired) {
  const std::string delivery = DeliveryFolder(data_dir_);
  PutRaw(delivery, LogFormatKey(), WithChecksum(LogFormatKey(), "x"));
  const std::vector<std::string> found = FoundIn(data_dir_);
  const absl::Status repaired = RepairDataFolder(data_dir_, {}).status();
  EXPECT_FALSE(repaired.ok());
  EXPECT_THAT(found, ElementsAre(HasSubstr(delivery)));
  EXPECT_THAT(repaired.message(), HasSubstr(delivery));
}

TEST_F(MaintenanceTest, WhetherThereAreSourceGraphsIsReadOrSaidNotToBe) {
  const std::string other = folder_.path() + "/other";
  std::filesystem::create_directory(other);
  const std::string folder = SourceGraphsFolder(other);
  EXPECT_THAT(CheckHasNoGraphs(other, "why"), IsOk());
  WriteFile(folder, "no folder");
  EXPECT_EQ(CheckHasNoGraphs(other, "why"), DiskStatus(ENOTDIR, "cannot list", folder));
}

// Whoever has made its checksum.
TEST(FolderContentsTest, WhatNoServerWritesIsDamaged) {
  const std::string sound(16, '0');
  const std::string title = "packhouse data folder 1";
  EXPECT_THAT(DecodeFolderContents(WithChecksumLine(title, "datasets -\ndelivery -\n")), IsOk());
  for (const char* const lines : {"delivery -\ndatasets -\n", "datasets -\ndatasets -\n"}) {
    EXPECT_EQ(DecodeFolderContents(WithChecksumLine(title, lines)).status(),
              absl::DataLossError("is damaged, or was written by a later release of packhoused"))
        << lines;
  }
  EXPECT_THAT(
      DecodeFolderContents(EncodeFolderContents({{{"datasets", sound}, {"delivery", "-"}}})),
      IsOk());
  for (const auto& [name, identity] :
       {std::pair(std::string("nothing"), sound), std::pair(std::string("datasets"), sound + "0"),
        std::pair(std::string("datasets"), sound.substr(1)),
        std::pair(std::string("datasets"), sound.substr(1) + "g"),
        std::pair(std::string("datasets"), sound.substr(1) + "A"),
        std::pair(std::string("datasets"), std::string("- -")),
        std::pair(std::string("datasets"), std::string())}) {
    EXPECT_THAT(DecodeFolderContents(EncodeFolderContents({{{name, identity}}})),
                StatusIs(absl::StatusCode::kDataLoss,
                         "is damaged, or was written by a later release of packhoused"))
        << name << " " << identity;
  }
}

TEST(MendOneBitTest, WhatIsSoundOrTooShortStays) {
  for (const std::string& value : {std::string("abc"), WithChecksum("key", "value")}) {
    std::string mended = value;
    EXPECT_FALSE(MendOneBit("key", mended));
    EXPECT_EQ(mended, value);
  }
}

TEST(WithRemedyTest, DamageHasARemedyAndOtherErrorsAreAsTheyAre) {
  EXPECT_THAT(WithRemedy("/data", absl::DataLossError("a page is damaged")),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("a page is damaged; "), HasSubstr("store check '/data'"),
                             HasSubstr("store repair '/data'"))));
  const absl::Status other = absl::UnavailableError("another server has it");
  EXPECT_EQ(WithRemedy("/data", other), other);
}

}  // namespace
}  // namespace packhouse
