// Whichever call of a loader fails, and when, its caller gets the server's error.
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "client/cpp/loader.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::EndsWith;

class LoaderErrorsTest : public testing::Test {
 protected:
  static std::string Opened() {
    v1::LoadResponse response;
    response.mutable_opened()->set_num_steps(9);
    response.mutable_opened()->set_generation(3);
    return response.SerializeAsString();
  }
  static std::string Batch(uint64_t number) {
    v1::LoadResponse response;
    response.mutable_batch()->mutable_batch()->set_id(number);
    response.mutable_batch()->mutable_batch()->set_step(number);
    return response.SerializeAsString();
  }
  // A call that is not named is answered well.
  void Answer(std::map<std::string, ScriptedServer::Answer> answers) {
    server_.Plays([answers = std::move(answers)](const ScriptedServer::Asked& asked) {
      const auto found = answers.find(asked.method.substr(asked.method.find('/') + 1));
      return found == answers.end() ? ScriptedServer::Answer{{""}, {}} : found->second;
    });
  }
  std::unique_ptr<Loader> Load(bool is_dynamic = false) {
    ChannelOptions channel;
    channel.retries = false;
    channel.secured_by = Credentials();
    LoaderOptions options;
    options.spec.set_job("job");
    options.retry.patience = absl::ZeroDuration();
    options.lane = LaneUse::kOff;
    if (is_dynamic) options.dynamic.emplace().set_worker("worker");
    return std::make_unique<Loader>(MakeChannel(server_.address(), channel), options);
  }

  ScriptedServer server_;
};

TEST_F(LoaderErrorsTest, ErrorsPassThroughWithCodeAndMessage) {
  for (const auto code : {grpc::StatusCode::NOT_FOUND, grpc::StatusCode::FAILED_PRECONDITION,
                          grpc::StatusCode::PERMISSION_DENIED, grpc::StatusCode::DATA_LOSS,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::UNAVAILABLE}) {
    const std::string why = absl::StrCat("since ", code);
    const grpc::Status failed(code, why);
    const auto is_told = StatusIs(static_cast<absl::StatusCode>(code), EndsWith(why));
    SCOPED_TRACE(why);

    // Load, from its begin on, then behind `opened`, then behind a batch.
    Answer({{"Load", {{}, failed}}});
    EXPECT_THAT(Load()->Next().status(), is_told);
    EXPECT_THAT(Load()->Opened().status(), is_told);
    EXPECT_THAT(Load()->State().status(), is_told);
    Answer({{"Load", {{Opened()}, failed}}});
    auto loader = Load();
    EXPECT_EQ(loader->Opened()->generation(), 3);
    EXPECT_THAT(loader->Next().status(), is_told);
    Answer({{"Load", {{Opened(), Batch(0)}, failed}}});
    loader = Load();
    EXPECT_THAT(loader->Next(), IsOk());
    EXPECT_THAT(loader->Next().status(), is_told);

    // An acknowledgement: whatever comes behind it says so.
    using Use = absl::Status (*)(Loader&);
    for (const Use use : {Use([](Loader& of) { return of.Flush(); }),
                          Use([](Loader& of) { return of.SetEpoch(7); }),
                          Use([](Loader& of) { return of.State().status(); })}) {
      Answer({{"Load", {{Opened(), Batch(0)}, failed}}, {"Acknowledge", {{}, failed}}});
      loader = Load();
      PH_ASSERT_OK_AND_ASSIGN(const auto batch, loader->Next());
      EXPECT_THAT(loader->Acknowledge(*batch), IsOk());
      EXPECT_THAT(use(*loader), is_told);
    }

    // Unary calls.
    Answer({{"Load", {{Opened()}, {}}}, {"GetEpoch", {{}, failed}}, {"ReportStep", {{}, failed}}});
    EXPECT_THAT(Load()->Describe().status(), is_told);
    EXPECT_THAT(Load()->State().status(), is_told);
    Answer({{"Load", {{Opened()}, {}}}, {"Acknowledge", {{}, failed}}});
    EXPECT_THAT(Load(/*is_dynamic=*/true)->State().status(), is_told);
  }
}

TEST_F(LoaderErrorsTest, AStreamThatEndsBeforeItsEpochIsAnError) {
  for (const auto& messages : {std::vector<std::string>(), {Opened()}, {Opened(), Batch(0)}}) {
    Answer({{"Load", {messages, {}}}});
    const auto loader = Load();
    for (size_t i = 1; i < messages.size(); ++i) EXPECT_THAT(loader->Next(), IsOk());
    EXPECT_EQ(loader->Next().status().code(), absl::StatusCode::kUnavailable);
  }
  Answer({{"Load", {{Batch(0)}, {}}}});
  EXPECT_EQ(Load()->Next().status().code(), absl::StatusCode::kInternal);
  Answer({{"Load", {{"no message"}, {}}}});
  EXPECT_EQ(Load()->Next().status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace packhouse::client
