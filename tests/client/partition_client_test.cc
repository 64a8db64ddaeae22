// What PartitionClient does beyond single calls: it waits, and downloads files.
#include "client/cpp/partition_client.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_server.h"
#include "tests/support/openssl_command.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temporary_folder.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kPiece = uint64_t{4} << 20;

class PartitionClientTest : public testing::Test {
 protected:
  PartitionClientTest() {
    job_.mutable_request()->set_graph("graph");
    job_.mutable_request()->set_name("halves");
  }

  // Serves what is in `files_`; the request of this number, from 0 on, has another answer.
  void Serve(int number = -1, const ScriptedServer::Answer& other = {}) {
    job_.clear_files();
    for (const auto& [path, bytes] : files_) {
      v1::PartitionFile& file = *job_.add_files();
      file.set_path(path);
      file.set_num_bytes(bytes.size());
    }
    server_.Plays([this, number, other, asked_for = 0](const auto& asked) mutable {
      v1::ReadPartitionFileRequest request;
      EXPECT_TRUE(request.ParseFromString(asked.request));
      EXPECT_EQ(request.graph(), "graph");
      EXPECT_EQ(request.name(), "halves");
      if (asked_for++ == number) return other;
      const std::string& bytes = files_.at(request.path());
      v1::ReadPartitionFileResponse response;
      response.set_num_bytes(bytes.size());
      EXPECT_EQ(request.max_bytes(), kPiece);
      response.set_data(bytes.substr(request.offset(), request.max_bytes()));
      return ScriptedServer::Answer{{response.SerializeAsString()}, {}};
    });
  }
  static ScriptedServer::Answer Piece(const std::string& data, uint64_t num_bytes) {
    v1::ReadPartitionFileResponse response;
    response.set_data(data);
    response.set_num_bytes(num_bytes);
    return {{response.SerializeAsString()}, {}};
  }
  PartitionClient Client() {
    ChannelOptions channel;
    channel.retries = false;
    channel.secured_by = Credentials();
    PartitionClientOptions options;
    options.retry.patience = absl::ZeroDuration();
    return PartitionClient(MakeChannel(server_.address(), channel), options);
  }

  const TemporaryFolder home_;
  const std::string folder_ = home_.path() + "/parts";
  const std::string partial_ = folder_ + ".partial";
  ScriptedServer server_;
  v1::PartitionJob job_;
  // Up to pieces, exactly, and beyond them.
  std::map<std::string, std::string> files_ = {
      {"empty", ""},
      {"part0/edges", std::string(kPiece - 1, 'a')},
      {"part0/nodes", std::string(kPiece, 'b')},
      {"part1/deep/nodes", std::string(kPiece, 'c') + "d"}};
};

TEST_F(PartitionClientTest, AFolderHasAllFilesOrIsNotThere) {
  Serve();
  // Left by a download that was stopped.
  std::filesystem::create_directories(partial_ + "/left");
  ASSERT_THAT(Client().Download(job_, folder_), IsOk());
  for (const auto& [path, bytes] : files_) EXPECT_EQ(ReadText(folder_ + "/" + path), bytes) << path;
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/left"));
  EXPECT_FALSE(std::filesystem::exists(partial_));
  const size_t num_pieces = server_.asked().size();
  EXPECT_EQ(num_pieces, 4);
  EXPECT_EQ(Client().Download(job_, folder_),
            absl::AlreadyExistsError(folder_ + " is there already"));

  const ScriptedServer::Answer refused = {{}, {grpc::StatusCode::PERMISSION_DENIED, "not you"}};
  for (size_t piece = 0; piece < num_pieces; ++piece) {
    for (const auto& [answer, code] : {std::pair(refused, absl::StatusCode::kPermissionDenied),
                                       std::pair(Piece("", kPiece), absl::StatusCode::kDataLoss),
                                       std::pair(Piece("x", 7), absl::StatusCode::kDataLoss)}) {
      std::filesystem::remove_all(folder_);
      Serve(static_cast<int>(piece), answer);
      EXPECT_EQ(Client().Download(job_, folder_).code(), code) << piece;
      EXPECT_FALSE(std::filesystem::exists(folder_)) << piece;
    }
  }
  // A file that has become longer meanwhile is another one, too.
  files_ = {{"f", "four"}};
  Serve(0, Piece("four", 5));
  EXPECT_EQ(Client().Download(job_, folder_),
            absl::DataLossError("'f' has 5 bytes now, and had 4"));
}

TEST_F(PartitionClientTest, WhatIsAddedToAFolderIsThereOrTheFolderIsNot) {
  Serve();
  EXPECT_THAT(Client().Download(job_, folder_,
                                [&](const std::string& partial) {
                                  EXPECT_EQ(partial, partial_);
                                  EXPECT_TRUE(std::filesystem::exists(partial + "/part0/nodes"));
                                  return absl::DataLossError("the caller's own");
                                }),
              StatusIs(absl::StatusCode::kDataLoss, "the caller's own"));
  EXPECT_FALSE(std::filesystem::exists(folder_));
  ASSERT_THAT(Client().Download(job_, folder_,
                                [](const std::string& partial) {
                                  WriteText(partial + "/added", "more");
                                  return absl::OkStatus();
                                }),
              IsOk());
  EXPECT_EQ(ReadText(folder_ + "/added"), "more");
}

TEST_F(PartitionClientTest, FilesThatCannotBeWrittenAreNamed) {
  Serve();
  WriteText(home_.path() + "/file", "");
  for (const std::string& folder : {home_.path() + "/file/parts", std::string("/proc/parts")}) {
    EXPECT_THAT(Client().Download(job_, folder),
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(folder)));
  }
  // A folder that is a file, too.
  files_ = {{"a/b", "x"}, {"a.", "x"}};
  Serve();
  job_.mutable_files(0)->set_path("a/b");
  job_.mutable_files(1)->set_path("a");
  files_["a"] = "x";
  EXPECT_EQ(Client().Download(job_, folder_),
            absl::UnavailableError(partial_ + "/a: cannot be written"));
}

TEST_F(PartitionClientTest, PathsOutsideTheFolderAreRefused) {
  for (const char* const path : {"", "/tmp/x", "..", "../x", "a/../../x", "a/.."}) {
    files_ = {{path, "x"}};
    Serve();
    EXPECT_THAT(Client().Download(job_, folder_),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("outside the folder")))
        << path;
    EXPECT_TRUE(server_.asked().empty()) << path;
  }
}

TEST_F(PartitionClientTest, AWaitEndsAsTheWorkDoes) {
  for (const auto& [state, code] :
       {std::pair(v1::PARTITION_STATE_DONE, absl::StatusCode::kOk),
        std::pair(v1::PARTITION_STATE_FAILED, absl::StatusCode::kResourceExhausted),
        std::pair(v1::PARTITION_STATE_CANCELLED, absl::StatusCode::kCancelled)}) {
    job_.set_state(state);
    job_.set_error_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
    job_.set_error_message("too large");
    int num_told = 0;
    server_.Plays([&](const auto& /*asked*/) {
      return ScriptedServer::Answer{{job_.SerializeAsString()}, {}};
    });
    const auto ended = Client().Wait("graph", "halves", [&](const v1::PartitionJob& job) {
      EXPECT_EQ(job.state(), state);
      ++num_told;
      return true;
    });
    EXPECT_EQ(ended.status().code(), code);
    EXPECT_EQ(num_told, 1);
    EXPECT_EQ(state == v1::PARTITION_STATE_FAILED, ended.status().message() == "too large");
  }
  job_.set_state(v1::PARTITION_STATE_RUNNING);
  const auto stop = [](const v1::PartitionJob& /*job*/) { return false; };
  EXPECT_EQ(Client().Wait("graph", "halves", stop).status().code(), absl::StatusCode::kAborted);
  server_.Plays([](const auto& /*asked*/) {
    return ScriptedServer::Answer{{}, {grpc::StatusCode::NOT_FOUND, "none"}};
  });
  EXPECT_THAT(Client().Wait("graph", "halves", stop).status(),
              StatusIs(absl::StatusCode::kNotFound, "none"));
}

}  // namespace
}  // namespace packhouse::client
