// The laws of snapshots: what was there at the moment is there after a restore, whatever went on
// meanwhile and wherever it was stopped; and nothing that is damaged is restored.
#include "service/program/data_folder/snapshot.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "service/base/digest.h"
#include "service/base/status_macros.h"
#include "service/program/data_folder/folder_contents.h"
#include "service/program/data_folder/graph_names.h"
#include "service/program/data_folder/maintenance.h"
#include "service/program/data_folder/snapshot_manifest.h"
#include "service/program/data_folder/snapshot_writer.h"
#include "service/program/data_folder/value_file.h"
#include "service/wings/graphs/stored/linked_graphs.h"
#include "service/wings/partition/jobs/partition_folder.h"
#include "service/wings/partition/jobs/partition_list.h"
#include "tests/data_folder/folder_world.h"
#include "tests/support/source_graph_world.h"

namespace packhouse {
namespace {

using ::testing::_;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

constexpr auto kGoOn = [](const SnapshotReport&) { return true; };
const absl::Time kTaken = absl::FromUnixSeconds(1'700'000'000);

std::vector<StoredDamage> DamagesOf(const std::string& data_dir) {
  std::vector<StoredDamage> damages;
  const auto checked = CheckDataFolder(
      data_dir, [&damages](StoredDamage damage) { damages.push_back(std::move(damage)); },
      kSourceGraphs);
  if (!checked.ok()) damages.push_back({data_dir, "", std::string(checked.status().message()), ""});
  return damages;
}

// The folders of all source graphs, below the data folder.
std::set<std::string> GraphFoldersOf(const std::string& data_dir) {
  std::set<std::string> folders;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(SourceGraphsFolder(data_dir))) {
    if (entry.is_directory()) folders.insert(entry.path().string().substr(data_dir.size()));
  }
  return folders;
}

class SnapshotTest : public FolderTest {
 protected:
  absl::StatusOr<SnapshotReport> Take(SnapshotProgress progress = kGoOn) {
    return TakeSnapshotOffline(data_dir_, kSourceGraphs, snapshot_, kTaken, progress);
  }
  void ExpectRestores(const Contents& expected) {
    ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
    EXPECT_THAT(CheckRestored(restored_), IsOk());
    for (const StoredDamage& damage : DamagesOf(restored_)) {
      ADD_FAILURE() << damage.file << ": " << damage.what;
    }
    EXPECT_TRUE(ReadContents(restored_) == expected);
    std::filesystem::remove_all(restored_);
  }

  const std::string snapshot_ = folder_.path() + "/snapshot";
  const std::string restored_ = folder_.path() + "/restored";
};

TEST_F(SnapshotTest, ARestoredFolderHasEverything) {
  PutKey(*OpenStores(data_dir_).ledger, "k/model", "measured");
  const Contents contents = ReadContents(data_dir_);
  EXPECT_EQ(contents.datasets.size(), 2U);
  EXPECT_EQ(contents.jobs->size(), 3U);
  EXPECT_EQ(contents.sealed_graphs.size(), 1U);
  EXPECT_EQ(contents.open_graphs.size(), 1U);
  EXPECT_EQ(contents.histograms.size(), 2U);
  EXPECT_EQ(contents.keys.size(), 1U);
  uint64_t bytes = 0;
  {
    const OpenStores stores(data_dir_);
    bytes = stores.datasets->num_bytes() + stores.ledger->num_bytes() +
            stores.graphs->counts().num_bytes;
  }
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport report, Take());
  EXPECT_EQ(report.folder, snapshot_);
  EXPECT_EQ(report.total_bytes, bytes);
  EXPECT_EQ(report.num_kept_files, 0U);
  EXPECT_EQ(report.num_kept_bytes, 0U);
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest manifest, ReadSnapshotManifest(snapshot_));
  EXPECT_EQ(manifest.files.size(), report.num_files);
  EXPECT_EQ(manifest.taken, "2023-11-14T22:13:20+00:00");
  EXPECT_FALSE(std::filesystem::exists(snapshot_ + "/unfinished"));
  // Everything goes on in it: appends are known as repetitions, too.
  ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
  // Empty ones, too, such as those for partitions that nobody has made.
  EXPECT_THAT(GraphFoldersOf(restored_), IsSupersetOf(GraphFoldersOf(data_dir_)));
  {
    OpenStores stores(restored_);
    const GraphSchema schema = FolderSchema();
    // The last one of AppendGraphs().
    Random random(9);
    const GraphChunk chunk = RandomChunk(random, &schema, 5, 9, uint64_t{9} << 32);
    PH_ASSERT_OK_AND_ASSIGN(const AppendResult repeated,
                            stores.datasets->Append("open", chunk, {}, ProducerSequence{"p", 9}));
    EXPECT_TRUE(repeated.is_repetition);
    AppendGraphs(*stores.datasets, "open", 10, 4);
    AppendNodes(*stores.graphs, "graph/open", 3, 5);
  }
  std::filesystem::remove_all(restored_);
  ExpectRestores(contents);
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kAlreadyExists, HasSubstr(snapshot_)));
}

TEST_F(SnapshotTest, AnEmptyFolderIsASnapshotToo) {
  const std::string empty = folder_.path() + "/empty";
  std::filesystem::create_directory(empty);
  ASSERT_THAT(TakeSnapshotOffline(empty, kSourceGraphs, snapshot_, kTaken, kGoOn), IsOk());
  ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
  EXPECT_TRUE(ReadContents(restored_).datasets.empty());
}

// The moment is the call's: whatever is changed while the snapshot is written is not in it, and
// what is deleted is.
TEST_F(SnapshotTest, ItIsOfOneMoment) {
  const Contents contents = ReadContents(data_dir_);
  {
    OpenStores stores(data_dir_);
    uint64_t num_calls = 0;
    const auto change = [&](const SnapshotReport&) {
      const uint64_t call = ++num_calls;
      AppendGraphs(*stores.datasets, "open", 100 + call, 30);
      const std::string name = absl::StrCat("new/", call);
      EXPECT_THAT(stores.datasets->Create(name, FolderSchema(), {}), IsOk());
      AppendGraphs(*stores.datasets, name, 1, 10);
      AppendEvents(*stores.ledger, "train",
                   {BatchesAcknowledged{{"train", 0}, 5, BatchSet::Of({10 + call})}});
      if (call == 1) {
        EXPECT_THAT(stores.datasets->Delete("sealed"), IsOk());
      }
      if (call == 2) {
        EXPECT_THAT(stores.graphs->Delete("graph/sealed"), IsOk());
        EXPECT_THAT(stores.graphs->Create("graph/sealed", LawSchema(), LawOptions()), IsOk());
        AppendNodes(*stores.graphs, "graph/open", 50, 9);
      }
      return true;
    };
    PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport report,
                            TakeSnapshot(stores.opened(), snapshot_, kTaken, change));
    EXPECT_GE(num_calls, 4U);
    EXPECT_EQ(report.folder, snapshot_);
    // The deleted ones give their space back now.
    EXPECT_THAT(stores.datasets->WaitUntilErased(), IsOk());
  }
  EXPECT_FALSE(ReadContents(data_dir_) == contents);
  EXPECT_TRUE(DamagesOf(data_dir_).empty());
  ExpectRestores(contents);
}

// A server's are those that it has in memory; its file may be a minute old, or missing.
TEST_F(SnapshotTest, HistogramsAreThoseOfTheServer) {
  const std::string elsewhere = folder_.path() + "/elsewhere";
  std::filesystem::create_directory(elsewhere);
  SaveHistograms(elsewhere, 12345);
  const std::string bytes = ReadFile(elsewhere + "/histograms");
  ASSERT_NE(bytes, ReadFile(data_dir_ + "/histograms"));
  for (const bool has_file : {true, false}) {
    if (!has_file) std::filesystem::remove(data_dir_ + "/histograms");
    OpenStores stores(data_dir_);
    OpenedFolder opened = stores.opened();
    opened.histograms = [&](absl::FunctionRef<absl::Status(absl::string_view)> append) {
      PH_RETURN_IF_ERROR(append(bytes.substr(0, 10)));
      return append(bytes.substr(10));
    };
    ASSERT_THAT(TakeSnapshot(opened, snapshot_, kTaken, kGoOn), IsOk());
    ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
    EXPECT_EQ(ReadFile(restored_ + "/histograms"), bytes);
    std::filesystem::remove_all(restored_);
    std::filesystem::remove_all(snapshot_);
    // None is made of half of them.
    opened.histograms = [&](absl::FunctionRef<absl::Status(absl::string_view)> append) {
      append(bytes.substr(0, 10)).IgnoreError();
      return absl::ResourceExhaustedError("no room for a copy");
    };
    EXPECT_THAT(TakeSnapshot(opened, snapshot_, kTaken, kGoOn),
                StatusIs(absl::StatusCode::kResourceExhausted, _));
    EXPECT_THAT(ReadSnapshotManifest(snapshot_), StatusIs(absl::StatusCode::kNotFound, _));
    std::filesystem::remove_all(snapshot_);
  }
}

// A snapshot that is stopped anywhere is no snapshot, goes on, and does not write again what it
// has.
TEST_F(SnapshotTest, AStoppedOneGoesOn) {
  const Contents contents = ReadContents(data_dir_);
  bool has_ended = false;
  uint64_t kept = 0;
  for (uint64_t most = 1; !has_ended; ++most) {
    SCOPED_TRACE(testing::Message() << "stopped at call " << most);
    uint64_t num_calls = 0;
    uint64_t written = 0;
    const auto report = Take([&](const SnapshotReport& now) {
      written = now.num_bytes;
      return ++num_calls != most;
    });
    has_ended = report.ok();
    if (has_ended) {
      // Not a byte that the try before had is written again.
      EXPECT_GE(report->num_kept_bytes, kept);
      break;
    }
    EXPECT_GE(written, kept);
    kept = written;
    EXPECT_THAT(report, StatusIs(absl::StatusCode::kCancelled, HasSubstr("goes on")));
    EXPECT_THAT(ReadSnapshotManifest(snapshot_),
                StatusIs(absl::StatusCode::kNotFound, HasSubstr("stopped")));
    EXPECT_THAT(RestoreSnapshot(snapshot_, restored_), StatusIs(absl::StatusCode::kNotFound, _));
    EXPECT_FALSE(std::filesystem::exists(restored_));
  }
  EXPECT_GT(kept, 10'000U);
  ExpectRestores(contents);
}

TEST_F(SnapshotTest, WhatIsThereAndWholeIsNotWrittenAgain) {
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport first, Take());
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(24);
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest manifest, ReadSnapshotManifest(snapshot_));
  for (const auto& [path, checksum] : manifest.files) {
    std::filesystem::last_write_time(absl::StrCat(snapshot_, "/", path), long_ago);
  }
  // As if it had been killed right before its manifest.
  std::filesystem::rename(snapshot_ + "/manifest", snapshot_ + "/unfinished");
  WriteFile(snapshot_ + "/unfinished", "");
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport again, Take());
  EXPECT_EQ(again.num_kept_files, first.num_files);
  EXPECT_EQ(again.num_kept_bytes, first.num_bytes);
  for (const auto& [path, checksum] : manifest.files) {
    EXPECT_EQ(std::filesystem::last_write_time(absl::StrCat(snapshot_, "/", path)), long_ago)
        << path;
  }
}

// What an earlier try has left that is damaged, longer or of another moment does not stay.
TEST_F(SnapshotTest, WhatIsThereAndWrongIsMended) {
  const Contents contents = ReadContents(data_dir_);
  ASSERT_THAT(Take(), IsOk());
  std::filesystem::rename(snapshot_ + "/manifest", snapshot_ + "/unfinished");
  Random random(1);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(snapshot_)) {
    if (!entry.is_regular_file()) continue;
    std::string bytes = ReadFile(entry.path().string());
    if (bytes.empty()) continue;
    bytes[random.Below(bytes.size())] ^= 1;
    if (random.Below(2) == 0) bytes += "more";
    WriteFile(entry.path().string(), bytes);
  }
  WriteFile(snapshot_ + "/datasets/of another moment", "x");
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport mended, Take());
  EXPECT_EQ(mended.num_kept_files, 0U);
  EXPECT_FALSE(std::filesystem::exists(snapshot_ + "/datasets/of another moment"));
  ExpectRestores(contents);
}

TEST_F(SnapshotTest, OtherFilesAreLeftAlone) {
  std::filesystem::create_directory(snapshot_);
  WriteFile(snapshot_ + "/thesis.tex", "x");
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not empty")));
  EXPECT_EQ(ReadFile(snapshot_ + "/thesis.tex"), "x");
}

// Keys are among the data folder's own files: nobody else may read a copy. What is being written
// there is no file yet.
TEST_F(SnapshotTest, CopiedFilesArePrivateAndWhole) {
  WriteFile(data_dir_ + "/signing.key", "secret");
  WriteFile(data_dir_ + "/last_uses.unfinished", "half");
  // What is large is no file of ours, such as a dump of a process that has died.
  WriteFile(data_dir_ + "/core", "");
  std::filesystem::resize_file(data_dir_ + "/core", (uint64_t{64} << 20) + 1);
  ASSERT_THAT(Take(), IsOk());
  EXPECT_FALSE(std::filesystem::exists(absl::StrCat(snapshot_, "/", kSnapshotFiles, "core")));
  ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
  EXPECT_FALSE(std::filesystem::exists(restored_ + "/last_uses.unfinished"));
  const auto others = std::filesystem::perms::group_all | std::filesystem::perms::others_all;
  const std::string files = snapshot_ + "/" + kSnapshotFiles;
  for (const std::string& path : {files, files + "signing.key", restored_ + "/signing.key"}) {
    EXPECT_EQ(std::filesystem::status(path).permissions() & others, std::filesystem::perms::none)
        << path;
  }
  EXPECT_EQ(ReadFile(restored_ + "/signing.key"), "secret");
}

TEST_F(SnapshotTest, NamesStayBelowTheirFolder) {
  OpenStores stores(data_dir_);
  const std::string longest(63, 'n');
  for (const std::string& name :
       {std::string(), std::string("."), std::string(".."), std::string("../x"), std::string("a/b"),
        std::string(".hidden"), std::string("a\nb"), longest + "n"}) {
    EXPECT_THAT(TakeNamedSnapshot(stores.opened(), snapshot_, name, kTaken, kGoOn),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("must have 1 to 63")))
        << name;
  }
  EXPECT_FALSE(std::filesystem::exists(snapshot_));
  for (const std::string& name : {longest, std::string("a.b-c_D")}) {
    EXPECT_THAT(TakeNamedSnapshot(stores.opened(), snapshot_, name, kTaken, kGoOn), IsOk());
    EXPECT_THAT(ReadSnapshotManifest(snapshot_ + "/" + name), IsOk());
  }
}

// A file that somebody holds a lock on, as another process would.
class Locked {
 public:
  explicit Locked(const std::string& path) : file_(::open(path.c_str(), O_RDWR | O_CREAT, 0600)) {
    EXPECT_EQ(::flock(file_, LOCK_EX | LOCK_NB), 0);
  }
  ~Locked() { ::close(file_); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  const int file_;
};

TEST_F(SnapshotTest, OneProcessWritesAtATime) {
  std::filesystem::create_directory(snapshot_);
  {
    const Locked other(snapshot_ + "/unfinished");
    EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                 HasSubstr("another process is writing")));
  }
  ASSERT_THAT(Take(), IsOk());
  std::filesystem::create_directory(restored_);
  {
    const Locked other(restored_ + "/" + kRestoringMark);
    EXPECT_THAT(
        RestoreSnapshot(snapshot_, restored_),
        StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("another process restores")));
  }
  EXPECT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
}

// What is kept beside a graph may have files of any name.
TEST_F(SnapshotTest, OnlyGraphsHaveCompanions) {
  std::string companion;
  for (const std::string& folder : GraphFoldersOf(data_dir_)) {
    if (absl::EndsWith(folder, absl::StrCat("/", kGraphCompanions))) companion = folder;
  }
  ASSERT_NE(companion, "");
  std::filesystem::create_directory(data_dir_ + companion + "/kept");
  WriteFile(absl::StrCat(data_dir_, companion, "/kept/", kSealedGraphFile), "x");
  ASSERT_THAT(Take(), IsOk());
  ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
  EXPECT_TRUE(
      std::filesystem::exists(absl::StrCat(restored_, companion, "/kept/", kSealedGraphFile)));
  EXPECT_FALSE(
      std::filesystem::exists(absl::StrCat(restored_, companion, "/kept/", kGraphCompanions)));
}

// Of one that was stopped: what is not its, and whether its manifest goes.
TEST_F(SnapshotTest, WhatAStoppedOneHasLeftIsTakenAway) {
  ASSERT_THAT(Take(), IsOk());
  const Contents contents = ReadContents(data_dir_);
  const std::string mark = snapshot_ + "/unfinished";
  const std::string manifest = absl::StrCat(snapshot_, "/", kSnapshotManifest);
  WriteFile(mark, "");
  WriteFile(snapshot_ + "/stray", "x");
  std::filesystem::create_directory(snapshot_ + "/empty");
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotReport report, Take());
  EXPECT_FALSE(std::filesystem::exists(mark));
  EXPECT_FALSE(std::filesystem::exists(snapshot_ + "/stray"));
  EXPECT_GT(report.num_kept_files, 0U);
  ExpectRestores(contents);
  WriteFile(mark, "");
  std::filesystem::remove(manifest);
  std::filesystem::create_directory(manifest);
  EXPECT_EQ(Take().status(), DiskStatus(EISDIR, "cannot remove", manifest));
  std::filesystem::remove(manifest);
  ASSERT_THAT(Take(), IsOk());
  ExpectRestores(contents);
}

TEST_F(SnapshotTest, AFolderThatIsOpenIsRefusedWithItsProcess) {
  const OpenStores stores(data_dir_);
  EXPECT_THAT(Take(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               AllOf(HasSubstr("in use"), HasSubstr(absl::StrCat(::getpid())))));
}

// What is lost with a file of a snapshot.
std::string CostOf(const std::string& path) {
  for (const auto& [begin, cost] :
       {std::pair("manifest", "the snapshot"),
        std::pair("datasets/records/", "data sets' records in this file"),
        std::pair("datasets/", "all data sets of the snapshot"),
        std::pair("delivery/", "all jobs and measured models of the snapshot"),
        std::pair("source_graphs/", "a source graph or a partition of it"),
        std::pair("files/histograms", "all named histograms")}) {
    if (absl::StartsWith(path, begin)) return cost;
  }
  return "this file";
}

// Damage anywhere in a snapshot is found, and then nothing is restored.
TEST_F(SnapshotTest, ADamagedSnapshotIsNotRestored) {
  ASSERT_THAT(Take(), IsOk());
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(snapshot_)) {
    if (entry.is_regular_file() && entry.file_size() != 0) files.push_back(entry.path().string());
  }
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Random random(seed);
    const std::string& file = files[random.Below(files.size())];
    SCOPED_TRACE(testing::Message() << "seed=" << seed << " " << file);
    const std::string bytes = ReadFile(file);
    std::string damaged = bytes;
    switch (random.Below(3)) {
      case 0:
        damaged[random.Below(bytes.size())] ^= static_cast<char>(1 << random.Below(8));
        break;
      case 1:
        damaged.resize(random.Below(bytes.size()));
        break;
      default:
        damaged += '\0';
    }
    WriteFile(file, damaged);
    uint64_t num_found = 0;
    const auto checked = CheckSnapshot(snapshot_, [&](const StoredDamage& damage) {
      EXPECT_EQ(damage.file, file);
      EXPECT_EQ(damage.cost, CostOf(file.substr(snapshot_.size() + 1)));
      ++num_found;
    });
    // A manifest of which one digit is another may be of a version that is not known.
    const auto is_refused =
        testing::AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(num_found, checked.ok() ? 1 : 0);
    if (!checked.ok()) {
      EXPECT_THAT(checked.status().code(), is_refused);
    }
    EXPECT_THAT(RestoreSnapshot(snapshot_, restored_).code(), is_refused);
    EXPECT_FALSE(std::filesystem::exists(restored_));
    WriteFile(file, bytes);
  }
  const std::string manifest = absl::StrCat(snapshot_, "/", kSnapshotManifest);
  const auto other =
      std::find_if(files.begin(), files.end(), [&](const auto& file) { return file != manifest; });
  ASSERT_NE(other, files.end());
  std::filesystem::remove(*other);
  EXPECT_EQ(RestoreSnapshot(snapshot_, restored_).code(), absl::StatusCode::kDataLoss);
  std::filesystem::remove(manifest);
  EXPECT_EQ(RestoreSnapshot(snapshot_, restored_).code(), absl::StatusCode::kNotFound);
}

// Whoever has written the manifest: nothing is begun without what every snapshot has.
TEST_F(SnapshotTest, ASnapshotWithoutAStoreIsNotRestored) {
  ASSERT_THAT(Take(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest whole, ReadSnapshotManifest(snapshot_));
  for (const char* const missing : {kSnapshotValues, kSnapshotLedger}) {
    SnapshotManifest manifest = whole;
    ASSERT_EQ(manifest.files.erase(missing), 1U);
    WriteFile(absl::StrCat(snapshot_, "/", kSnapshotManifest), EncodeSnapshotManifest(manifest));
    EXPECT_THAT(RestoreSnapshot(snapshot_, restored_),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(missing)));
    EXPECT_FALSE(std::filesystem::exists(restored_));
  }
}

// Nor does it end well with what has its checksum and is none.
TEST_F(SnapshotTest, AStoreThatIsNoneIsNotRestored) {
  ASSERT_THAT(Take(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest whole, ReadSnapshotManifest(snapshot_));
  Digest digest;
  digest.AddBytes("junk");
  const std::string checksum = digest.Hex(32);
  for (const char* const store : {kSnapshotValues, kSnapshotLedger}) {
    const std::string path = absl::StrCat(snapshot_, "/", store);
    const std::string sound = ReadFile(path);
    SnapshotManifest manifest = whole;
    manifest.files[store] = checksum;
    WriteFile(path, "junk");
    WriteFile(absl::StrCat(snapshot_, "/", kSnapshotManifest), EncodeSnapshotManifest(manifest));
    EXPECT_EQ(RestoreSnapshot(snapshot_, restored_),
              absl::DataLossError(path + ": ends within a value"));
    EXPECT_FALSE(CheckRestored(restored_).ok());
    WriteFile(path, sound);
    std::filesystem::remove_all(restored_);
  }
}

TEST_F(SnapshotTest, AManifestThatCannotBeReadIsAnError) {
  ASSERT_THAT(Take(), IsOk());
  const std::string manifest = absl::StrCat(snapshot_, "/", kSnapshotManifest);
  std::filesystem::remove(manifest);
  std::filesystem::create_directory(manifest);
  EXPECT_THAT(ReadSnapshotManifest(snapshot_),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr(manifest)));
}

// What changes after the check, while it is read again, is found too.
TEST_F(SnapshotTest, ValuesAreCheckedAsTheyAreRestored) {
  ASSERT_THAT(Take(), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest manifest, ReadSnapshotManifest(snapshot_));
  const std::string path = snapshot_ + "/" + kSnapshotLedger;
  const auto read_all = [&]() -> absl::Status {
    PH_ASSIGN_OR_RETURN(ValueReader reader,
                        ValueReader::Open(path, manifest.files.at(kSnapshotLedger)));
    while (true) {
      absl::string_view key;
      absl::string_view value;
      PH_ASSIGN_OR_RETURN(const bool has_one, reader.Next(key, value));
      if (!has_one) return absl::OkStatus();
    }
  };
  EXPECT_THAT(read_all(), IsOk());
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('~');
  file.close();
  EXPECT_THAT(read_all(), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("checksum")));
}

// Values of all lengths around what is read at a time, so that some lie across the ends of that.
TEST_F(SnapshotTest, LongValuesAreReadAsTheyWereWritten) {
  constexpr size_t kMebibyte = size_t{1} << 20;
  std::vector<std::string> values;
  for (const size_t length :
       {size_t{3}, kMebibyte / 2, kMebibyte - 40, kMebibyte, size_t{0}, 3 * kMebibyte + 1,
        kMebibyte / 3, kMebibyte / 2, 2 * kMebibyte - 1, size_t{7}}) {
    std::string& value = values.emplace_back(length, '\0');
    for (size_t i = 0; i < length; ++i) value[i] = static_cast<char>(i * i + values.size());
  }
  const auto go_on = [](const SnapshotReport&) { return true; };
  const SnapshotProgress progress = go_on;
  PH_ASSERT_OK_AND_ASSIGN(const auto writer, SnapshotWriter::Begin(snapshot_, &progress));
  ASSERT_THAT(writer->Write("values",
                            [&](SnapshotFile& file) -> absl::Status {
                              ValueWriter to(&file);
                              for (const std::string& value : values) {
                                PH_RETURN_IF_ERROR(to.Add(std::to_string(value.size()), value));
                              }
                              return to.Flush();
                            }),
              IsOk());
  ASSERT_THAT(writer->Finish(SnapshotManifest()), IsOk());
  PH_ASSERT_OK_AND_ASSIGN(const SnapshotManifest manifest, ReadSnapshotManifest(snapshot_));
  PH_ASSERT_OK_AND_ASSIGN(ValueReader reader,
                          ValueReader::Open(snapshot_ + "/values", manifest.files.at("values")));
  absl::string_view key;
  absl::string_view value;
  for (const std::string& expected : values) {
    ASSERT_THAT(reader.Next(key, value), IsOkAndHolds(true));
    EXPECT_EQ(key, std::to_string(expected.size()));
    EXPECT_TRUE(value == expected) << expected.size();
  }
  EXPECT_THAT(reader.Next(key, value), IsOkAndHolds(false));
  EXPECT_THAT(reader.Next(key, value), IsOkAndHolds(false));
}

// What was cut off, or says that it is longer than its file.
TEST_F(SnapshotTest, ValuesEndWithTheirFile) {
  const std::string path = folder_.path() + "/values";
  const auto read = [&](const std::string& bytes) {
    WriteFile(path, bytes);
    absl::string_view key;
    absl::string_view value;
    return ValueReader::Open(path, "").value().Next(key, value).status();
  };
  const auto lengths = [](uint32_t of_key, uint64_t of_value) {
    std::string bytes(reinterpret_cast<const char*>(&of_key), sizeof(of_key));
    return bytes.append(reinterpret_cast<const char*>(&of_value), sizeof(of_value));
  };
  for (const std::string& bytes :
       {std::string(11, '\0'), lengths(3, 0) + "ke", lengths(3, 4) + "keyval", lengths(0, 12)}) {
    EXPECT_EQ(read(bytes), absl::DataLossError(path + ": ends within a value"));
  }
  EXPECT_EQ(read(lengths(0, 13)), absl::DataLossError(path + ": a value of 13 bytes"));
  EXPECT_EQ(read(""), absl::DataLossError(path + ": its checksum is not that of the manifest"));
  EXPECT_EQ(ValueReader::Open(path + "s", "").status().code(), absl::StatusCode::kNotFound);
  // A file that is copied has become shorter.
  const SnapshotProgress progress = kGoOn;
  PH_ASSERT_OK_AND_ASSIGN(const auto writer, SnapshotWriter::Begin(snapshot_, &progress));
  WriteFile(path, "abc");
  PH_ASSERT_OK_AND_ASSIGN(const DiskFile source, DiskFile::Open(path, DiskFile::Mode::kRead));
  EXPECT_EQ(writer->Copy("it", source, 5),
            absl::DataLossError("'it' ends at byte 3, it should have 5"));
}

TEST_F(SnapshotTest, AFolderIsOneOfAServer) {
  const std::string other = folder_.path() + "/other";
  std::filesystem::create_directory(other);
  WriteFile(other + "/thesis.tex", "x");
  EXPECT_EQ(TakeSnapshotOffline(other, kSourceGraphs, snapshot_, kTaken, kGoOn).status(),
            absl::NotFoundError(
                absl::StrCat("'", other, "' is no data folder: there is no store in it")));
  EXPECT_FALSE(std::filesystem::exists(snapshot_));
  // What says what is in it is made anew, of what is restored; a file system has a folder of its
  // own.
  ASSERT_THAT(NoteFolderContents(data_dir_, ReadIdentities(data_dir_)), IsOk());
  ASSERT_THAT(Take(), IsOk());
  EXPECT_FALSE(
      std::filesystem::exists(absl::StrCat(snapshot_, "/", kSnapshotFiles, kContentsFile)));
  std::filesystem::create_directories(restored_ + "/lost+found");
  ASSERT_THAT(RestoreSnapshot(snapshot_, restored_), IsOk());
  EXPECT_TRUE(std::filesystem::exists(restored_ + "/lost+found"));
  PH_ASSERT_OK_AND_ASSIGN(const FolderContents contents, ReadFolderContents(restored_));
  for (const char* const name : {"datasets", "delivery", "histograms"}) {
    EXPECT_TRUE(contents.items.contains(name)) << name;
  }
}

TEST_F(SnapshotTest, OnlyAnEmptyFolderIsRestoredInto) {
  ASSERT_THAT(Take(), IsOk());
  const Contents contents = ReadContents(data_dir_);
  EXPECT_THAT(RestoreSnapshot(snapshot_, data_dir_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("not empty")));
  EXPECT_TRUE(ReadContents(data_dir_) == contents);
}

// A restore that was stopped leaves a mark, with which no server starts; another one begins anew.
TEST_F(SnapshotTest, AStoppedRestoreIsKnown) {
  ASSERT_THAT(Take(), IsOk());
  const Contents contents = ReadContents(data_dir_);
  std::filesystem::create_directories(restored_ + "/datasets");
  WriteFile(restored_ + "/datasets/data.mdb", "half of it");
  WriteFile(restored_ + "/" + kRestoringMark, "");
  EXPECT_THAT(CheckRestored(restored_),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("store restore")));
  EXPECT_THAT(
      TakeSnapshotOffline(restored_, kSourceGraphs, folder_.path() + "/other", kTaken, kGoOn),
      StatusIs(absl::StatusCode::kFailedPrecondition, _));
  ExpectRestores(contents);
}

// A file that says what is in the folders beside it is of the same moment as they are, whatever is
// made and deleted meanwhile: each partition that is listed is there.
TEST(LinkedGraphsTest, AListAndWhatItNamesAreOfOneMoment) {
  const TemporaryFolder folder(TemporaryFolder::InMemory());
  const std::string companion = folder.path() + "/companion";
  const OneGraphStore graphs(SmallSourceGraph(3), companion);
  PH_ASSERT_OK_AND_ASSIGN(const auto graph, graphs.Open("g"));
  PartitionPlan plan;
  plan.options.num_parts = 1;
  const auto make = [&](const std::string& name) {
    plan.name = name;
    EXPECT_THAT(PartitionFolder(*graph, name).Create(plan, "me"), IsOk());
  };
  make("stays");
  std::atomic<int> asked = 0;
  std::atomic<int> done = 0;
  constexpr int kRounds = 400;
  // One is deleted and one is made in each round, while all are linked.
  std::thread changes([&] {
    for (int round = 1; round <= kRounds; ++round) {
      while (asked < round) std::this_thread::yield();
      if (round > 1) {
        const auto moved = PartitionFolder(*graph, "moves").MoveAway();
        EXPECT_THAT(moved.status(), IsOk());
        std::filesystem::remove_all(*moved);
      }
      make("moves");
      done = round;
    }
  });
  for (int round = 1; round <= kRounds; ++round) {
    asked = round;
    auto linked = LinkedGraphs::Begin(folder.path());
    EXPECT_THAT(linked.status(), IsOk());
    EXPECT_THAT(linked->LinkFolder(companion, "c"), IsOk());
    PartitionList there;
    std::string list;
    for (const LinkedFile& file : linked->files()) {
      const std::vector<std::string> parts = absl::StrSplit(file.path, '/');
      if (parts.back() == kPartitionStateFile) there.insert(parts[2]);
      if (parts.back() == kPartitionListFile) list = ReadFile(file.link);
    }
    const auto listed = DecodePartitionList(list);
    EXPECT_THAT(listed.status(), IsOk());
    for (const std::string& name : *listed) {
      EXPECT_TRUE(there.contains(name)) << name << " in round " << round;
    }
    while (done < round) std::this_thread::yield();
  }
  changes.join();
}

}  // namespace
}  // namespace packhouse
