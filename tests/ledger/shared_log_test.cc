// The laws of a log that several servers write, over both stores of keys: a cluster's, and that of
// a server that is alone.
#include "service/stores/logs/shared_log.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/base/status_macros.h"
#include "service/stores/logs/logged_keys.h"
#include "tests/ledger/test_disk.h"
#include "tests/support/fake_key_value_store.h"
#include "tests/support/random.h"
#include "tests/support/simulated_clock.h"
#include "tests/support/status_matchers.h"

namespace packhouse {
namespace {

using Lines = std::vector<std::string>;

constexpr size_t kEntryBytes = 16;

std::vector<StoreFault> AllFaults() {
  return {StoreFault::kUnreachable, StoreFault::kRequestLost, StoreFault::kReplyLost,
          StoreFault::kDoneLater,   StoreFault::kCrashBefore, StoreFault::kCrashAfter};
}

SharedLogKeys LogKeys() { return {"head", "log/"}; }

// With one writer, or for all.
SharedLog LogIn(KeyStore& keys, bool is_fenced = false) {
  SharedLog::Options options = {
      .name = "the log", .keys = LogKeys(), .max_entry_bytes = kEntryBytes};
  if (is_fenced) options.fence = Compare::Absent("nothing");
  return SharedLog(&keys, options);
}

// Calls `hook` before each call.
class HookedKeys final : public KeyStore {
 public:
  HookedKeys(std::function<KeyStore&()> keys, std::function<void()> hook)
      : keys_(std::move(keys)), hook_(std::move(hook)) {}

  absl::StatusOr<RangeResult> Range(const KeyRange& range, size_t limit,
                                    Revision revision) override {
    hook_();
    return keys_().Range(range, limit, revision);
  }
  absl::StatusOr<TransactionResult> Commit(const Transaction& transaction) override {
    hook_();
    return keys_().Commit(transaction);
  }

 private:
  const std::function<KeyStore&()> keys_;
  const std::function<void()> hook_;
};

// What becomes of a write's contents if parts of two are mixed would be found: "NUMBER xxx", as
// many of these as the number says.
std::string LineOf(uint64_t number) {
  return absl::StrCat(number, " ", std::string(number * 37 % (5 * kEntryBytes), 'x'));
}

absl::StatusOr<Lines> ReadLines(const SharedLog& log, const SharedLogHead& head) {
  std::string all;
  PH_RETURN_IF_ERROR(log.Read(head, head.begin, head.as_of, [&](const SharedLog::Written& written) {
    all += written.contents;
    return absl::OkStatus();
  }));
  return Lines(absl::StrSplit(all, '\n', absl::SkipEmpty()));
}

struct Writer {
  std::unique_ptr<HookedKeys> keys;
  SharedLogHead head;
  // Of the head; nullopt: it must read.
  std::optional<Lines> lines;
};

// What is acknowledged is there once and whole, behind all that was acknowledged before it began;
// what is refused is not, neither now nor later. Readers see no less, whoever writes or folds
// meanwhile. `connect` gives a writer's connection, whose next call may fail; `heal`: nothing fails
// from now on, and what was under way has been done.
void TestWritersFollowEachOther(uint64_t seed, size_t num_writers,
                                const std::function<KeyStore&(size_t writer)>& connect,
                                const std::function<void()>& heal) {
  Random random(seed);
  std::vector<Writer> writers(num_writers);
  bool is_nested = false;
  uint64_t next = 0;
  // With how many there were when it began.
  std::vector<std::pair<std::string, size_t>> acknowledged;
  std::set<std::string> refused;
  const auto step = [&](size_t number) {
    Writer& writer = writers[number];
    const SharedLog log = LogIn(*writer.keys, num_writers == 1);
    if (!writer.lines || random.Below(4) == 0) {
      const auto before = acknowledged;
      writer.lines = std::nullopt;
      auto head = log.Head();
      if (!head.ok()) return;
      auto lines = ReadLines(log, *head);
      if (!lines.ok()) {
        ASSERT_FALSE(absl::IsDataLoss(lines.status())) << lines.status();
        return;
      }
      for (const auto& each : before) ASSERT_THAT(*lines, testing::Contains(each.first));
      writer.head = *std::move(head);
      writer.lines = *std::move(lines);
      return;
    }
    const std::string name = absl::StrCat("w", next);
    if (random.Below(4) == 0) {
      ++next;
      std::string all;
      for (const std::string& line : *writer.lines) absl::StrAppend(&all, line, "\n");
      const absl::Status done =
          log.Write({.name = name, .contents = all, .replaces = true}, writer.head);
      if (OutcomeIsUnknown(done) || absl::IsAborted(done)) writer.lines = std::nullopt;
      return;
    }
    const std::string line = LineOf(next++);
    const std::string contents = line + "\n";
    const size_t num_before = acknowledged.size();
    const absl::Status done = log.Write({.name = name, .contents = contents}, writer.head);
    if (done.ok()) {
      acknowledged.emplace_back(line, num_before);
      writer.lines->push_back(line);
      return;
    }
    if (!OutcomeIsUnknown(done)) refused.insert(line);
    // Where nobody else has come first, it goes on from the same head.
    if (OutcomeIsUnknown(done) || absl::IsAborted(done)) writer.lines = std::nullopt;
  };
  for (size_t i = 0; i < writers.size(); ++i) {
    writers[i].keys = std::make_unique<HookedKeys>(
        [&connect, i]() -> KeyStore& { return connect(i); },
        [&, i] {
          if (is_nested || num_writers == 1 || random.Below(4) != 0) return;
          is_nested = true;
          for (uint64_t steps = random.Between(1, 4); steps > 0; --steps) {
            step((i + 1) % writers.size());
          }
          is_nested = false;
        });
  }
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
    step(random.Below(writers.size()));
  }
  heal();
  is_nested = true;
  const SharedLog log = LogIn(*writers[0].keys);
  PH_ASSERT_OK_AND_ASSIGN(const SharedLogHead head, log.Head());
  PH_ASSERT_OK_AND_ASSIGN(const Lines lines, ReadLines(log, head));
  std::map<std::string, size_t> places;
  for (const std::string& line : lines) ASSERT_TRUE(places.try_emplace(line, places.size()).second);
  // The last of those that were acknowledged before this one began.
  std::vector<size_t> last = {0};
  for (const auto& [line, num_before] : acknowledged) {
    ASSERT_TRUE(places.contains(line)) << "lost: " << line;
    ASSERT_GE(places[line], last[num_before]) << line;
    last.push_back(std::max(last.back(), places[line] + 1));
  }
  for (const std::string& line : lines) {
    uint64_t number = 0;
    ASSERT_TRUE(absl::SimpleAtoi(line.substr(0, line.find(' ')), &number)) << line;
    ASSERT_EQ(line, LineOf(number));
    ASSERT_FALSE(refused.contains(line)) << line;
  }
}

TEST(SharedLogTest, WritersFollowEachOtherInACluster) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock, seed);
    Random random(seed);
    const uint64_t percent = seed / 3 % 4 * 10;
    bool is_well = false;
    std::vector<std::unique_ptr<FakeConnection>> processes(3);
    const auto connect = [&](size_t writer) -> KeyStore& {
      auto& process = processes[writer];
      if (process == nullptr || process->crashed()) {
        process = std::make_unique<FakeConnection>(
            &servers, RandomFaults(random.Next(), percent, AllFaults()));
      }
      if (is_well) process->SetFaults(nullptr);
      return *process;
    };
    const auto heal = [&] {
      servers.DoLateRequests();
      servers.SetForgetful(false);
      is_well = true;
    };
    const size_t num_writers = seed % 3 + 1;
    ASSERT_NO_FATAL_FAILURE(TestWritersFollowEachOther(seed, num_writers, connect, heal));
  }
}

TEST(SharedLogTest, WritersFollowEachOtherOnAServerAlone) {
  using Fault = TestDisk::Fault;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    TestDisk disk;
    std::unique_ptr<LoggedKeys> keys;
    bool is_well = false;
    const auto connect = [&](size_t /*writer*/) -> KeyStore& {
      // Once it does not know, the server is started anew.
      if (disk.is_lost) keys = nullptr;
      if (keys == nullptr) {
        disk.is_lost = false;
        keys = LoggedKeys::Open(std::make_unique<TestLog>(&disk)).value();
      }
      const bool fails = !is_well && random.Below(5) == 0;
      disk.fault = fails ? static_cast<Fault>(random.Below(4)) : Fault::kNone;
      return *keys;
    };
    const auto heal = [&] { is_well = true; };
    ASSERT_NO_FATAL_FAILURE(TestWritersFollowEachOther(seed, 3, connect, heal));
  }
}

// Each fault at each call of one writer: what it was told is true, whatever comes late, and the
// next writer goes on from there. What a write that did not happen has left goes with the next
// fold.
TEST(SharedLogTest, EveryCallMayFailInEveryWay) {
  struct Step {
    std::string contents;
    bool replaces;
  };
  const std::vector<Step> script = {{"a\n", false},
                                    {LineOf(17) + "\n", false},
                                    {LineOf(19) + "\n", true},
                                    {"d\n", false},
                                    {"", true}};
  size_t num_failed = 0;
  for (const StoreFault fault : AllFaults()) {
    for (int at = 0; at < 20; ++at) {
      SCOPED_TRACE(testing::Message() << "fault " << static_cast<int>(fault) << " at call " << at);
      SimulatedClock clock;
      FakeKeyValueServers servers(&clock);
      servers.SetForgetful(false);
      FakeConnection process(
          &servers, [&, calls = 0]() mutable { return calls++ == at ? fault : StoreFault::kNone; });
      const SharedLog log = LogIn(process);
      SharedLogHead head;
      std::set<std::string> may_be = {""};
      for (size_t i = 0; i < script.size(); ++i) {
        const Step& step = script[i];
        const std::string before = *may_be.begin();
        const std::string after = step.replaces ? step.contents : before + step.contents;
        const absl::Status done = log.Write(
            {.name = absl::StrCat("w", i), .contents = step.contents, .replaces = step.replaces},
            head);
        if (done.ok()) {
          may_be = {after};
          continue;
        }
        // What can be known is known.
        ASSERT_NE(fault, StoreFault::kRequestLost) << done;
        ASSERT_NE(fault, StoreFault::kReplyLost) << done;
        if (OutcomeIsUnknown(done)) may_be = {before, after};
        ++num_failed;
        break;
      }
      FakeConnection other(&servers);
      const SharedLog same = LogIn(other);
      const auto all = [&](const SharedLogHead& of) {
        return absl::StrJoin(ReadLines(same, of).value(), "", [](std::string* out, auto& line) {
          absl::StrAppend(out, line, "\n");
        });
      };
      for (const bool is_late : {false, true}) {
        if (is_late) servers.DoLateRequests();
        PH_ASSERT_OK_AND_ASSIGN(SharedLogHead now, same.Head());
        const std::string there = all(now);
        ASSERT_TRUE(may_be.contains(there)) << there;
        const std::string more = is_late ? "y\n" : "x\n";
        ASSERT_THAT(same.Write({.name = more.substr(0, 1), .contents = more}, now), IsOk());
        may_be = {there + more};
      }
      PH_ASSERT_OK_AND_ASSIGN(SharedLogHead now, same.Head());
      EXPECT_TRUE(may_be.contains(all(now)));
      ASSERT_THAT(same.Write({.name = "z", .contents = "z", .replaces = true}, now), IsOk());
      EXPECT_EQ(other.Range(KeyRange::Prefix("log/"), 0, 0)->values.size(), 1U);
    }
  }
  EXPECT_GT(num_failed, 12U);
}

// Others write between a write whose answer is lost and its next try: it is known that it happened,
// unless they have taken the place of it.
TEST(SharedLogTest, WhatOthersFoldedIsUnknown) {
  for (const bool fold : {false, true}) {
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock);
    FakeConnection other(&servers);
    FakeConnection process(&servers, [&, calls = 0]() mutable {
      if (calls++ == 0) return StoreFault::kReplyLost;
      SharedLogHead head = LogIn(other).Head().value();
      EXPECT_THAT(LogIn(other).Write({.name = "b", .contents = "b", .replaces = fold}, head),
                  IsOk());
      return StoreFault::kNone;
    });
    SharedLogHead head;
    const absl::Status done = LogIn(process).Write({.name = "a", .contents = "a"}, head);
    EXPECT_EQ(done.code(), fold ? absl::StatusCode::kUnknown : absl::StatusCode::kOk) << done;
  }
}

// What was put ahead for a write that failed comes late, between the parts of the next one.
TEST(SharedLogTest, WhatComesLateIsNotMixed) {
  size_t num_aborted = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    SimulatedClock clock;
    FakeKeyValueServers servers(&clock, seed);
    servers.SetForgetful(false);
    FakeConnection process(&servers, [&, calls = 0]() mutable {
      const int call = calls++;
      if (call == 4) servers.DoLateRequests();
      if (call == 0) return StoreFault::kDoneLater;
      return call == 2 ? StoreFault::kUnreachable : StoreFault::kNone;
    });
    const SharedLog log = LogIn(process, true);
    SharedLogHead head;
    std::string all;
    for (const char* const name : {"a", "b", "c"}) {
      const std::string contents(kEntryBytes + 1, *name);
      const absl::Status done = log.Write({.name = name, .contents = contents}, head);
      if (done.ok()) all += contents;
      num_aborted += absl::IsAborted(done) ? 1 : 0;
    }
    EXPECT_THAT(ReadLines(log, log.Head().value()), IsOkAndHolds(Lines{all}));
  }
  EXPECT_GT(num_aborted, 1U);
}

// A head or an entry that is not as it was written is named; so is a format that is not known.
TEST(SharedLogTest, DamageIsNamed) {
  const auto keys = LoggedKeys::InMemory();
  const SharedLog log = LogIn(*keys);
  const auto put = [&](const std::string& key, const std::string& value) {
    ASSERT_THAT(keys->Commit({{}, {Operation::Put(key, value)}, {}}), IsOk());
  };
  for (const char* const bad :
       {"", "x", "2", "2 w 1 2 3 4 4", "2 w 2 1 3 4 4 v", "2 w 1 3 2 4 4 v", "2 w 1 2 3 4 5 v",
        "2 w 1 x 3 4 4 v", "2 w -1 2 3 4 4 v", "y w 1 2 3 4 4 v"}) {
    put("head", bad);
    EXPECT_THAT(log.Head(), StatusIs(absl::StatusCode::kDataLoss,
                                     testing::HasSubstr("the log: the log's head is damaged")))
        << bad;
  }
  for (const char* const other : {"3 w 1 2 3 4 4 v", "22"}) {
    put("head", other);
    EXPECT_THAT(log.Head(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                     testing::HasSubstr("the log: the log's head has format")));
  }
  put("head", "2 w 1 1 1 0 0 v w");
  EXPECT_EQ(log.Head()->value, "v w");
  SharedLogHead head;
  ASSERT_THAT(keys->Commit({{}, {Operation::Delete(KeyRange::Of("head"))}, {}}), IsOk());
  for (const char* const name : {"a", "b", "c"}) {
    ASSERT_THAT(log.Write({.name = name, .contents = name}, head), IsOk());
  }
  const std::string second = LogKeys().Entry(1);
  const std::string sound = keys->Get(second).value()->value;
  const auto read = [&](int* num_visited) {
    return log.Read(*log.Head(), 0, 0, [&](const SharedLog::Written&) {
      if (num_visited != nullptr) ++*num_visited;
      return absl::OkStatus();
    });
  };
  for (const std::string& bad :
       {std::string(), sound.substr(0, 8),
        std::string(sound[0] == '0' ? "1" : "0") + sound.substr(1), sound + "x"}) {
    put(second, bad);
    EXPECT_EQ(read(nullptr),
              absl::DataLossError("the log, entry 1 of its log: its checksum is wrong"))
        << bad;
  }
  ASSERT_THAT(keys->Commit({{}, {Operation::Delete(KeyRange::Of(second))}, {}}), IsOk());
  EXPECT_EQ(read(nullptr), absl::DataLossError("the log, entry 1 of its log: it is missing"));
  put(second, sound);
  int num_visited = 0;
  EXPECT_THAT(read(&num_visited), IsOk());
  EXPECT_EQ(num_visited, 3);
  ASSERT_THAT(keys->Commit({{}, {Operation::Delete(KeyRange::Of(LogKeys().Entry(2)))}, {}}),
              IsOk());
  EXPECT_EQ(read(nullptr), absl::DataLossError("the log, entry 2 of its log: it is missing"));
}

// Who visits can end it; who is fenced writes nothing.
TEST(SharedLogTest, ErrorsOfOthersAreTold) {
  const auto keys = LoggedKeys::InMemory();
  const SharedLog log = LogIn(*keys);
  SharedLogHead head;
  for (const char* const name : {"a", "b"}) {
    ASSERT_THAT(log.Write({.name = name, .contents = name}, head), IsOk());
  }
  int num_visited = 0;
  EXPECT_THAT(log.Read(head, 0, head.revision,
                       [&](const SharedLog::Written& written) {
                         ++num_visited;
                         return absl::CancelledError(written.contents);
                       }),
              StatusIs(absl::StatusCode::kCancelled, "a"));
  EXPECT_EQ(num_visited, 1);
  SharedLog::Options options = {
      .name = "the log", .keys = LogKeys(), .max_entry_bytes = kEntryBytes};
  options.fence = Compare::Value("owner", "me");
  const SharedLog fenced(keys.get(), options);
  EXPECT_THAT(fenced.Write({.name = "c", .contents = "c"}, head),
              StatusIs(absl::StatusCode::kAborted, testing::_));
  EXPECT_EQ(log.Head()->end, 2U);
  ASSERT_THAT(keys->Commit({{}, {Operation::Put("owner", "me")}, {}}), IsOk());
  EXPECT_THAT(fenced.Write({.name = "c", .contents = "c"}, head), IsOk());
  EXPECT_EQ(log.Head()->end, 3U);
}

// Names, numbers and bytes as docs/storage-format.md has them.
TEST(SharedLogTest, TheFormatIsAsDescribed) {
  const auto keys = LoggedKeys::InMemory();
  const SharedLog log(keys.get(), {.name = "the log", .keys = {"head", "log/"}});
  SharedLogHead head;
  ASSERT_THAT(log.Write({.name = "w1", .contents = "some"}, head), IsOk());
  ASSERT_THAT(log.Write({.name = "w2", .contents = "all", .replaces = true, .value = "v 1"}, head),
              IsOk());
  ASSERT_THAT(log.Write({.name = "w3", .contents = "more", .value = "v 2"}, head), IsOk());
  EXPECT_EQ(keys->Get("head").value()->value, "2 w3 1 2 3 7 3 v 2");
  EXPECT_EQ(keys->Get("log/0000000000000001").value()->value, EncodeSharedLogEntry("w2", "all"));
  EXPECT_EQ(EncodeSharedLogEntry("w2", "all").substr(8), " w2 all");
  EXPECT_EQ(log.Head()->value, "v 2");
}

}  // namespace
}  // namespace packhouse
