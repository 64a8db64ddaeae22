// The audit log and the access log: which calls they have, line by line.
#include "service/program/journal_files.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::FromUnixMillis(1'700'000'000'500);

std::string TextOf(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<std::string> LinesOf(const std::string& path) {
  return absl::StrSplit(TextOf(path), '\n', absl::SkipEmpty());
}

class JournalFilesTest : public ::testing::Test {
 protected:
  void End(JournalFiles& journal, Method method, bool may_change,
           const absl::Status& status = absl::OkStatus()) {
    CallRecord record;
    record.may_change = may_change;
    record.resource = absl::StrCat(num_calls_++);
    journal.OnEnded({record, method, status, absl::ZeroDuration()});
  }
  std::unique_ptr<JournalFiles> Open(const std::string& audit, const std::string& access,
                                     uint64_t every) {
    return JournalFiles::Open(audit, access, every, [this] { return now_; }).value();
  }

  const TemporaryFolder folder_{TemporaryFolder::InMemory()};
  const std::string audit_ = folder_.path() + "/audit";
  const std::string access_ = folder_.path() + "/access";
  absl::Time now_ = kStart;
  int num_calls_ = 0;
};

TEST_F(JournalFilesTest, ALineTellsWhatTheCallHas) {
  CallRecord record;
  const absl::Status ok;
  EXPECT_EQ(JournalLine({record, Method::kGetDataset, ok, absl::Milliseconds(1500)}, kStart, 0),
            R"({"time":"2023-11-14T22:13:20.500Z","event":"call","principal":"","peer":"",)"
            R"("method":"GetDataset","resource":"","outcome":"OK","ms":1500})");
  record.principal = "alice";
  record.peer = "ipv4:1.2.3.4:5";
  record.request_id = "r";
  record.trace = "t";
  record.resource = "team/x";
  const absl::Status refused = absl::PermissionDeniedError("no \"right\"");
  EXPECT_EQ(JournalLine({record, Method::kDeleteDataset, refused, absl::ZeroDuration()}, kStart, 7),
            R"({"time":"2023-11-14T22:13:20.500Z","event":"call","principal":"alice",)"
            R"("peer":"ipv4:1.2.3.4:5","method":"DeleteDataset","resource":"team/x",)"
            R"("outcome":"PERMISSION_DENIED","ms":0,"message":"no \"right\"","request_id":"r",)"
            R"("traceparent":"t","left_out":7})");
}

TEST_F(JournalFilesTest, ChangesAndRefusalsAreAuditedAndOneOfSoManyCallsIsInTheAccessLog) {
  EXPECT_EQ(JournalFiles::Open("", "", 1, nullptr).value(), nullptr);
  const auto journal = Open(audit_, access_, 3);
  End(*journal, Method::kCheck, true);
  End(*journal, Method::kWatch, true, absl::PermissionDeniedError("x"));
  End(*journal, Method::kGetDataset, false);
  End(*journal, Method::kCreateDataset, true);
  End(*journal, Method::kGetDataset, false, absl::NotFoundError("x"));
  End(*journal, Method::kGetDataset, false, absl::PermissionDeniedError("x"));
  End(*journal, Method::kGetDataset, false, absl::UnauthenticatedError("x"));
  End(*journal, Method::kCreateDataset, true, absl::NotFoundError("x"));
  const auto resources = [](const std::string& path) {
    std::string all;
    for (const std::string& line : LinesOf(path)) {
      all += line.substr(line.find("\"resource\":\"") + 12, 1);
    }
    return all;
  };
  EXPECT_EQ(resources(audit_), "3567");
  EXPECT_EQ(resources(access_), "25");
  // Each of them alone.
  const auto only = Open(folder_.path() + "/one", "", 1);
  End(*only, Method::kCreateDataset, true);
  EXPECT_EQ(LinesOf(folder_.path() + "/one").size(), 1U);
  const auto other = Open("", folder_.path() + "/two", 1);
  for (int i = 0; i < 2; ++i) End(*other, Method::kGetDataset, false);
  EXPECT_EQ(LinesOf(folder_.path() + "/two").size(), 2U);
}

TEST_F(JournalFilesTest, StrangersFillNoDisk) {
  const auto journal = Open(audit_, "", 1);
  const auto refuse = [&](int times) {
    for (int i = 0; i < times; ++i) {
      End(*journal, Method::kGetDataset, false, absl::UnauthenticatedError("x"));
    }
    return LinesOf(audit_).size();
  };
  EXPECT_EQ(refuse(150), 100U);
  // Who is known is not left out.
  End(*journal, Method::kGetDataset, false, absl::PermissionDeniedError("x"));
  EXPECT_EQ(refuse(1), 101U);
  EXPECT_THAT(LinesOf(audit_).back(), testing::Not(HasSubstr("left_out")));
  now_ += absl::Milliseconds(250);
  EXPECT_EQ(refuse(5), 103U);
  EXPECT_THAT(LinesOf(audit_)[101], HasSubstr(R"("left_out":51})"));
  EXPECT_THAT(LinesOf(audit_)[102], testing::Not(HasSubstr("left_out")));
  now_ += absl::Hours(1);
  EXPECT_EQ(refuse(150), 203U);
  EXPECT_THAT(LinesOf(audit_)[103], HasSubstr(R"("left_out":3})"));
}

TEST_F(JournalFilesTest, AFileThatIsRenamedIsOpenedAnew) {
  const auto file = AppendedFile::Open(audit_).value();
  EXPECT_TRUE(file->Append("one"));
  EXPECT_THAT(file->Reload(), IsOkAndHolds(false));
  EXPECT_EQ(std::rename(audit_.c_str(), access_.c_str()), 0);
  EXPECT_TRUE(file->Append("two"));
  EXPECT_THAT(file->Reload(), IsOkAndHolds(true));
  EXPECT_TRUE(file->Append("three"));
  EXPECT_EQ(TextOf(access_), "one\ntwo\n");
  EXPECT_EQ(TextOf(audit_), "three\n");
  struct stat there = {};
  EXPECT_EQ(::stat(audit_.c_str(), &there), 0);
  EXPECT_EQ(there.st_mode & 0777 & ~0640, 0U);
  // Another file under its name is another file.
  EXPECT_EQ(std::rename(access_.c_str(), audit_.c_str()), 0);
  EXPECT_THAT(file->Reload(), IsOkAndHolds(true));
}

TEST_F(JournalFilesTest, HalfALineIsEnded) {
  for (const auto& [before, after] :
       {std::pair("", "x\ny\n"), std::pair("whole\n", "whole\nx\ny\n"),
        std::pair("half", "half\nx\ny\n"), std::pair("h", "h\nx\ny\n")}) {
    std::ofstream(audit_) << before;
    const auto file = AppendedFile::Open(audit_).value();
    EXPECT_TRUE(file->Append("x"));
    EXPECT_TRUE(file->Append("y"));
    EXPECT_EQ(TextOf(audit_), after);
  }
}

TEST_F(JournalFilesTest, HalfALineThatFindsNoRoomIsTakenBack) {
  const auto file = AppendedFile::Open(audit_).value();
  EXPECT_TRUE(file->Append("one"));
  const auto before = ::signal(SIGXFSZ, SIG_IGN);
  rlimit all = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &all), 0);
  rlimit six = all;
  six.rlim_cur = 6;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &six), 0);
  const bool is_written = file->Append("two");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &all), 0);
  ::signal(SIGXFSZ, before);
  EXPECT_FALSE(is_written);
  EXPECT_EQ(TextOf(audit_), "one\n");
  EXPECT_TRUE(file->Append("three"));
  EXPECT_EQ(TextOf(audit_), "one\nthree\n");
}

TEST_F(JournalFilesTest, AFileThatCannotBeOpenedAnewIsToldAndTheOneBeforeGoesOn) {
  const std::string path = folder_.path() + "/in/audit";
  std::filesystem::create_directory(folder_.path() + "/in");
  const auto file = AppendedFile::Open(path).value();
  std::filesystem::rename(folder_.path() + "/in", folder_.path() + "/out");
  EXPECT_THAT(file->Reload(), StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  EXPECT_TRUE(file->Append("one"));
  EXPECT_EQ(TextOf(folder_.path() + "/out/audit"), "one\n");
}

TEST_F(JournalFilesTest, WhatCannotBeWrittenIsTold) {
  const auto file = AppendedFile::Open("/dev/full").value();
  EXPECT_FALSE(file->Append("one"));
  EXPECT_THAT(file->Reload(),
              StatusIs(absl::StatusCode::kUnavailable, "'/dev/full': 1 lines are lost"));
  EXPECT_THAT(file->Reload(), IsOkAndHolds(false));
  EXPECT_FALSE(file->Append("two"));
  EXPECT_FALSE(file->Append("three"));
  EXPECT_THAT(file->Reload(),
              StatusIs(absl::StatusCode::kUnavailable, "'/dev/full': 3 lines are lost"));
  EXPECT_THAT(file->Reload(), IsOkAndHolds(false));
  const std::string none = folder_.path() + "/none/x";
  EXPECT_THAT(JournalFiles::Open(none, "", 1, nullptr).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(absl::StrCat("--audit-log: cannot open '", none, "'"))));
  EXPECT_THAT(JournalFiles::Open("", none, 1, nullptr).status(),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr(absl::StrCat("--access-log: cannot open '", none, "'"))));
}

}  // namespace
}  // namespace packhouse
