#include "client/cpp/source_graph_appender.h"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_server.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kRequests = 4;

// Number i has i nodes with texts and 2 with numbers, and 3 * i edges.
v1::AppendSourceGraphRequest Rows(uint64_t i) {
  v1::AppendSourceGraphRequest request;
  request.add_nodes()->mutable_ids()->mutable_text()->set_lengths(std::string(4 * i, '\0'));
  request.add_nodes()->mutable_ids()->set_integers(std::string(16, '\0'));
  request.add_edges()->mutable_sources()->set_integers(std::string(8 * 3 * i, '\0'));
  return request;
}

class SourceGraphAppenderTest : public testing::Test {
 protected:
  // As the server, which remembers what it has from `first_remembered_` on; but number `number`
  // gets what `changed` makes of the answer.
  using Change = std::function<void(v1::AppendSourceGraphResponse&, ScriptedServer::Answer&)>;
  void Serve(uint64_t number = UINT64_MAX, Change changed = nullptr) {
    server_.Plays([this, number, changed = std::move(changed)](const auto& asked) {
      v1::AppendSourceGraphRequest request;
      EXPECT_TRUE(request.ParseFromString(asked.request));
      EXPECT_EQ(request.graph(), "graph");
      EXPECT_EQ(request.graph_id(), 77);
      EXPECT_EQ(request.producer_sequence().producer(), "producer");
      const uint64_t sequence = request.producer_sequence().sequence();
      v1::AppendSourceGraphResponse response;
      response.mutable_producer_sequence()->set_sequence(sequence);
      if (sequence == 0) {
        response.mutable_producer_state()->set_first_remembered_sequence(first_remembered_);
      } else {
        EXPECT_EQ(request.producer_sequence().forget_after().seconds(), 60);
        EXPECT_EQ(request.nodes_size(), 2);
        response.set_num_nodes(sequence + 2);
        response.set_num_edges(3 * sequence);
      }
      ScriptedServer::Answer answer = {{}, {}, {}, /*goes_on=*/true};
      if (sequence == number) changed(response, answer);
      if (answer.goes_on) answer.messages.push_back(response.SerializeAsString());
      return answer;
    });
  }
  // Of all requests; how many of them were appended without an error.
  absl::Status AppendAll(uint64_t* appended = nullptr) {
    answers_.clear();
    ChannelOptions channel;
    channel.retries = false;
    channel.secured_by = Credentials();
    SourceGraphAppenderOptions options;
    options.graph = "graph";
    options.graph_id = 77;
    options.producer = "producer";
    options.forget_after = absl::Minutes(1);
    options.retry.patience = absl::ZeroDuration();
    options.on_answer = [this](const SourceGraphAnswer& answer) { answers_.push_back(answer); };
    SourceGraphAppender appender(MakeChannel(server_.address(), channel), options);
    for (uint64_t i = 1; i <= kRequests; ++i) {
      const absl::Status status = appender.Append(Rows(i));
      if (appended != nullptr && status.ok()) ++*appended;
    }
    const absl::Status status = appender.Finish();
    // An error of the server's stays.
    EXPECT_TRUE(status.ok() || absl::IsAlreadyExists(status) || appender.Append(Rows(1)) == status);
    return status;
  }

  ScriptedServer server_;
  uint64_t first_remembered_ = 1;
  std::vector<SourceGraphAnswer> answers_;
};

TEST_F(SourceGraphAppenderTest, EachRequestIsAnsweredOnceWithWhatItHas) {
  for (const uint64_t repeated : {0, 3}) {
    Serve(3, [&](v1::AppendSourceGraphResponse& response, ScriptedServer::Answer&) {
      response.set_is_repetition(repeated == 3);
      if (repeated == 3) response.clear_num_nodes();
    });
    ASSERT_THAT(AppendAll(), IsOk());
    ASSERT_EQ(answers_.size(), kRequests);
    const auto asked = server_.asked();
    ASSERT_EQ(asked.size(), kRequests + 1);
    for (uint64_t i = 1; i <= kRequests; ++i) {
      const SourceGraphAnswer& answer = answers_[i - 1];
      EXPECT_EQ(answer.sequence, i);
      EXPECT_EQ(answer.num_nodes, i + 2);
      EXPECT_EQ(answer.num_edges, 3 * i);
      EXPECT_EQ(answer.bytes, asked[i].request.size());
      EXPECT_EQ(answer.is_repetition, i == repeated);
    }
  }
}

TEST_F(SourceGraphAppenderTest, WhateverFailsIsToldBehindTheAnswersBefore) {
  for (uint64_t number = 0; number <= kRequests; ++number) {
    Serve(number, [](v1::AppendSourceGraphResponse&, ScriptedServer::Answer& answer) {
      answer = {{}, {grpc::StatusCode::PERMISSION_DENIED, "not you"}};
    });
    EXPECT_THAT(AppendAll(), StatusIs(absl::StatusCode::kPermissionDenied, "not you"));
    EXPECT_EQ(answers_.size(), number == 0 ? 0 : number - 1);
    if (number == 0) continue;
    for (const int wrong : {-1, 1}) {
      for (const bool of_nodes : {false, true}) {
        Serve(number, [&](v1::AppendSourceGraphResponse& response, ScriptedServer::Answer&) {
          if (of_nodes) response.set_num_nodes(response.num_nodes() + wrong);
          if (!of_nodes) response.set_num_edges(response.num_edges() + wrong);
        });
        EXPECT_THAT(AppendAll(), StatusIs(absl::StatusCode::kInternal,
                                          HasSubstr(absl::StrCat("of request ", number, ","))));
        EXPECT_EQ(answers_.size(), number - 1);
      }
    }
  }
}

TEST_F(SourceGraphAppenderTest, WhatIsOlderThanTheServerRemembersIsNotSent) {
  for (first_remembered_ = 1; first_remembered_ <= kRequests + 1; ++first_remembered_) {
    Serve();
    uint64_t appended = 0;
    const absl::Status status = AppendAll(&appended);
    EXPECT_EQ(appended, kRequests);
    EXPECT_EQ(status.code(), first_remembered_ <= kRequests ? absl::StatusCode::kOk
                                                            : absl::StatusCode::kAlreadyExists);
    EXPECT_EQ(server_.asked().size(), 1 + kRequests + 1 - first_remembered_);
    ASSERT_EQ(answers_.size(), kRequests);
    for (const SourceGraphAnswer& answer : answers_) {
      EXPECT_EQ(answer.is_repetition, answer.sequence < first_remembered_);
      EXPECT_EQ(answer.num_edges, 3 * answer.sequence);
    }
  }
}

}  // namespace
}  // namespace packhouse::client
