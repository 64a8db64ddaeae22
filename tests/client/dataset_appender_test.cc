#include "client/cpp/dataset_appender.h"

#include <cstdint>
#include <string>
#include <vector>

#include "client/cpp/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_dataset_service.h"
#include "tests/client/scripted_server.h"
#include "tests/support/random.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class DatasetAppenderTest : public testing::Test {
 protected:
  DatasetAppenderTest() {
    v1::CreateDatasetRequest request;
    request.set_name("d");
    v1::Dataset dataset;
    server_.service().CreateDataset(nullptr, &request, &dataset);
  }

  DatasetAppenderOptions Options() {
    DatasetAppenderOptions options;
    options.dataset = "d";
    options.producer = "p";
    options.retry.sleep = [](absl::Duration) {};
    options.on_answer = [this](const AppendAnswer& answer) { answers_.push_back(answer); };
    return options;
  }

  static v1::GraphChunk Chunk(uint64_t graphs) {
    v1::GraphChunk chunk;
    chunk.mutable_sizes()->set_num_graphs(graphs);
    return chunk;
  }

  std::vector<uint64_t> StoredSequences() {
    std::vector<uint64_t> sequences;
    for (const v1::AppendRequest& request : server_.service().stored("d").records) {
      sequences.push_back(request.producer_sequence().sequence());
    }
    return sequences;
  }

  FakeDatasetServer server_;
  std::vector<AppendAnswer> answers_;
};

TEST_F(DatasetAppenderTest, ChunksAreStoredInOrderAndAnswered) {
  DatasetAppender appender(server_.Channel(), Options());
  EXPECT_THAT(appender.Append(1, Chunk(5), "groups"), IsOk());
  EXPECT_THAT(appender.Append(7, Chunk(6)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_THAT(StoredSequences(), ElementsAre(1, 7));
  const FakeDatasetService::Stored stored = server_.service().stored("d");
  EXPECT_EQ(stored.records[0].group_ids(), "groups");
  EXPECT_EQ(stored.records[0].producer_sequence().producer(), "p");
  ASSERT_EQ(answers_.size(), 2);
  EXPECT_EQ(answers_[1].sequence, 7);
  EXPECT_EQ(answers_[1].num_graphs, 6);
  EXPECT_EQ(answers_[1].num_graphs_of_dataset, 11);
  EXPECT_FALSE(answers_[1].is_repetition);
}

// A program that was killed begins again. What is older than the server can compare is not sent,
// and what may be something else altogether is an error.
TEST_F(DatasetAppenderTest, WhatTheServerCannotCompareIsNotSent) {
  server_.service().set_remembered(3);
  const auto append = [this](uint64_t chunks) {
    answers_.clear();
    DatasetAppender appender(server_.Channel(), Options());
    for (uint64_t i = 1; i <= chunks; ++i) EXPECT_THAT(appender.Append(i, Chunk(i)), IsOk());
    return appender.Finish();
  };
  ASSERT_THAT(append(10), IsOk());
  std::vector<uint64_t> sent;
  server_.service().set_fault([&sent](const v1::AppendRequest& request) {
    sent.push_back(request.producer_sequence().sequence());
    return AppendFault::kNone;
  });
  EXPECT_THAT(append(12), IsOk());
  EXPECT_THAT(sent, ElementsAre(8, 9, 10, 11, 12));
  ASSERT_EQ(answers_.size(), 12);
  for (const AppendAnswer& answer : answers_) {
    EXPECT_EQ(answer.is_repetition, answer.sequence <= 10) << answer.sequence;
    EXPECT_EQ(answer.num_graphs, answer.sequence);
    const uint64_t added = answer.sequence <= 10 ? 0 : answer.sequence == 11 ? 11 : 11 + 12;
    EXPECT_EQ(answer.num_graphs_of_dataset, 55 + added);
  }
  EXPECT_EQ(append(9),
            absl::AlreadyExistsError(
                "all sequences up to 9 of producer 'p' are older than those of which the server "
                "remembers what they held, from 10 on: nothing was sent"));
  EXPECT_THAT(append(10), IsOk());
  EXPECT_EQ(server_.service().stored("d").records.size(), 12);
}

// Chunks and examples, of a data set with an id, with all that an answer says.
TEST_F(DatasetAppenderTest, WhatIsSentAndAnsweredIsWhole) {
  ScriptedServer server;
  v1::AppendResponse told;
  told.set_num_skipped(2);
  told.set_num_appended(9);
  told.set_num_graphs(70);
  told.add_skipped()->set_example(1);
  told.add_skipped()->set_example(3);
  const auto script = [&](const ScriptedServer::Asked& asked) {
    v1::AppendRequest request;
    EXPECT_TRUE(request.ParseFromString(asked.request));
    v1::AppendResponse response;
    if (request.producer_sequence().sequence() != 0) response = told;
    *response.mutable_producer_sequence() = request.producer_sequence();
    return ScriptedServer::Answer{{response.SerializeAsString()}, {}, {}, /*goes_on=*/true};
  };
  server.Plays(script);
  ChannelOptions channel;
  channel.retries = false;
  channel.secured_by = Credentials();
  DatasetAppenderOptions options = Options();
  options.dataset_id = 77;
  const auto append = [&](uint64_t num_graphs) {
    answers_.clear();
    server.Plays(script);
    DatasetAppender appender(MakeChannel(server.address(), channel), options);
    v1::Examples examples;
    for (uint64_t i = 0; i < num_graphs; ++i) examples.add_examples("x");
    absl::Status status = appender.Append(4, Chunk(num_graphs), "groups of 4");
    if (status.ok()) status = appender.AppendExamples(5, examples, "groups of 5");
    return status.ok() ? appender.Finish() : status;
  };
  EXPECT_THAT(append(11), IsOk());
  std::vector<v1::AppendRequest> expected(3);
  for (v1::AppendRequest& request : expected) {
    request.set_dataset("d");
    request.set_dataset_id(77);
    request.mutable_producer_sequence()->set_producer("p");
  }
  expected[1].mutable_producer_sequence()->set_sequence(4);
  *expected[1].mutable_graphs() = Chunk(11);
  expected[1].set_group_ids("groups of 4");
  expected[2].mutable_producer_sequence()->set_sequence(5);
  for (int i = 0; i < 11; ++i) expected[2].mutable_examples()->add_examples("x");
  expected[2].set_group_ids("groups of 5");
  const auto asked = server.asked();
  ASSERT_EQ(asked.size(), expected.size());
  for (size_t i = 0; i < asked.size(); ++i) {
    EXPECT_EQ(asked[i].request, expected[i].SerializeAsString()) << i;
  }
  ASSERT_EQ(answers_.size(), 2);
  for (const AppendAnswer& answer : answers_) {
    EXPECT_EQ(answer.num_graphs, 9);
    EXPECT_EQ(answer.num_stored, 9);
    EXPECT_EQ(answer.num_skipped, 2);
    ASSERT_EQ(answer.skipped.size(), 2);
    EXPECT_EQ(answer.skipped[1].example(), 3);
    EXPECT_EQ(answer.num_graphs_of_dataset, 70);
  }
  // Of 12 without 2, one is missing; more are pieces; what was stored before is not stored again.
  EXPECT_THAT(append(12),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("stored 9 of 10 graphs")));
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_THAT(append(3), IsOk());
  EXPECT_EQ(answers_.at(0).num_graphs, 1);
  told.set_num_appended(0);
  told.set_is_repetition(true);
  EXPECT_THAT(append(12), IsOk());
  EXPECT_TRUE(answers_.at(0).is_repetition);
  options.on_answer = nullptr;
  EXPECT_THAT(append(12), IsOk());
}

// By the server's deadline or the client's: behind an answer it is no failure.
TEST_F(DatasetAppenderTest, AStreamThatEndsByItsTimeBehindAnAnswerIsFollowedByAnother) {
  ScriptedServer server;
  server.Plays([](const ScriptedServer::Asked& asked) -> ScriptedServer::Answer {
    v1::AppendRequest request;
    EXPECT_TRUE(request.ParseFromString(asked.request));
    v1::AppendResponse response;
    *response.mutable_producer_sequence() = request.producer_sequence();
    response.set_num_appended(1);
    return {{response.SerializeAsString()}, {grpc::StatusCode::DEADLINE_EXCEEDED, "its time"}};
  });
  ChannelOptions channel;
  channel.retries = false;
  channel.secured_by = Credentials();
  DatasetAppenderOptions options = Options();
  options.retry.patience = absl::ZeroDuration();
  DatasetAppender appender(MakeChannel(server.address(), channel), options);
  for (uint64_t i = 1; i <= 3; ++i) EXPECT_THAT(appender.Append(i, Chunk(1)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_EQ(answers_.size(), 3);
}

TEST_F(DatasetAppenderTest, AMadeUpNameIsSentAsSuch) {
  DatasetAppenderOptions options = Options();
  options.forget_after = absl::Hours(24);
  DatasetAppender appender(server_.Channel(), options);
  EXPECT_THAT(appender.Append(1, Chunk(5)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  const v1::AppendRequest stored = server_.service().stored("d").records.at(0);
  EXPECT_EQ(stored.producer_sequence().forget_after().seconds(), 24 * 3600);
}

TEST_F(DatasetAppenderTest, ItGoesOnAfterFinish) {
  DatasetAppender appender(server_.Channel(), Options());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_EQ(server_.service().num_streams(), 0);
  EXPECT_THAT(appender.Append(1, Chunk(5)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_THAT(appender.Append(2, Chunk(5)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_THAT(StoredSequences(), ElementsAre(1, 2));
}

TEST_F(DatasetAppenderTest, WhatNoMessageTakesIsNamedAndTheNextIsTaken) {
  DatasetAppender appender(server_.Channel(), Options());
  v1::GraphChunk large = Chunk(1);
  large.add_tensors()->set_data(std::string(67'043'328, 'x'));
  EXPECT_THAT(appender.Append(1, large), StatusIs(absl::StatusCode::kInvalidArgument,
                                                  HasSubstr("graph 0 of the message: it has ")));
  v1::Examples examples;
  examples.add_examples(std::string(67'043'329, 'x'));
  EXPECT_THAT(
      appender.AppendExamples(1, examples),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("message: it has 67043329 bytes")));
  EXPECT_THAT(appender.Append(1, Chunk(1)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_THAT(StoredSequences(), ElementsAre(1));
}

// At its end, or as it breaks.
TEST_F(DatasetAppenderTest, AnAnswerToNothingIsInternal) {
  for (const bool breaks : {false, true}) {
    ScriptedServer server;
    server.Plays([&](const ScriptedServer::Asked& asked) -> ScriptedServer::Answer {
      v1::AppendRequest request;
      EXPECT_TRUE(request.ParseFromString(asked.request));
      v1::AppendResponse response;
      *response.mutable_producer_sequence() = request.producer_sequence();
      response.set_num_appended(1);
      const std::string answer = response.SerializeAsString();
      if (request.producer_sequence().sequence() == 0) return {{answer}, {}, {}, true};
      return {{answer, answer}, {grpc::StatusCode::UNAVAILABLE, "away"}, {}, !breaks};
    });
    ChannelOptions channel;
    channel.retries = false;
    channel.secured_by = Credentials();
    DatasetAppender appender(MakeChannel(server.address(), channel), Options());
    EXPECT_THAT(appender.Append(1, Chunk(1)), IsOk());
    EXPECT_EQ(appender.Finish(),
              absl::InternalError("the server answered a chunk that was not sent"));
    EXPECT_EQ(answers_.size(), 1);
    answers_.clear();
  }
}

TEST_F(DatasetAppenderTest, NumbersMustAscend) {
  DatasetAppender appender(server_.Channel(), Options());
  EXPECT_THAT(appender.Append(0, Chunk(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 0 comes after")));
  EXPECT_THAT(appender.Append(3, Chunk(1)), IsOk());
  EXPECT_THAT(appender.Append(3, Chunk(1)),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("chunk 3 comes after")));
  EXPECT_THAT(appender.Finish(), IsOk());
}

// The server need not answer a chunk before it has a window of them; nor can it demand more.
TEST_F(DatasetAppenderTest, AWindowOfChunksIsSentWithoutAnswers) {
  for (const std::size_t window : {1, 2, 5}) {
    DatasetAppenderOptions options = Options();
    options.producer = std::to_string(window);
    options.max_unanswered = window;
    std::size_t sent = 0;
    std::size_t most = 0;
    answers_.clear();
    options.on_answer = [&](const AppendAnswer& answer) {
      answers_.push_back(answer);
      most = std::max(most, sent - answers_.size() + 1);
    };
    DatasetAppender appender(server_.Channel(), options);
    for (uint64_t i = 1; i <= 20; ++i) {
      ++sent;
      EXPECT_THAT(appender.Append(i, Chunk(1)), IsOk());
    }
    EXPECT_EQ(answers_.size(), 20 - window + 1);
    EXPECT_EQ(most, window);
    EXPECT_THAT(appender.Finish(), IsOk());
    EXPECT_EQ(answers_.size(), 20);
  }
}

TEST_F(DatasetAppenderTest, TheWindowIsBoundedInBytesToo) {
  DatasetAppenderOptions options = Options();
  options.max_unanswered_bytes = 1;
  DatasetAppender appender(server_.Channel(), options);
  for (uint64_t i = 1; i <= 5; ++i) {
    EXPECT_THAT(appender.Append(i, Chunk(1)), IsOk());
    EXPECT_EQ(answers_.size(), i);
  }
  EXPECT_THAT(appender.Finish(), IsOk());
  // Those that are answered count no more.
  v1::AppendRequest request = server_.service().stored("d").records.at(0);
  options.producer = "q";
  options.max_unanswered_bytes = 3 * request.ByteSizeLong();
  DatasetAppender other(server_.Channel(), options);
  answers_.clear();
  for (uint64_t i = 1; i <= 9; ++i) {
    EXPECT_THAT(other.Append(i, Chunk(1)), IsOk());
    EXPECT_EQ(answers_.size(), i < 3 ? 0 : i - 2);
  }
}

// Whatever breaks, and however often: every chunk is stored once, in order.
TEST_F(DatasetAppenderTest, BrokenStreamsLoseNothingAndRepeatNothing) {
  constexpr uint64_t kChunks = 40;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed=" << seed);
    Random random(seed);
    const uint64_t odds = random.Between(2, 20);
    server_.service().set_fault([&random, odds](const v1::AppendRequest&) {
      if (random.Below(odds) != 0) return AppendFault::kNone;
      return random.Below(2) == 0 ? AppendFault::kBreakBefore : AppendFault::kBreakAfter;
    });
    DatasetAppenderOptions options = Options();
    options.producer = std::to_string(seed);
    options.max_unanswered = 1 + seed % 7;
    options.retry.patience = absl::InfiniteDuration();
    answers_.clear();
    DatasetAppender appender(server_.Channel(), options);
    for (uint64_t i = 1; i <= kChunks; ++i) ASSERT_THAT(appender.Append(i, Chunk(i)), IsOk());
    ASSERT_THAT(appender.Finish(), IsOk());

    std::vector<uint64_t> stored;
    for (const v1::AppendRequest& request : server_.service().stored("d").records) {
      if (request.producer_sequence().producer() != options.producer) continue;
      stored.push_back(request.producer_sequence().sequence());
      ASSERT_EQ(request.graphs().sizes().num_graphs(), stored.back());
    }
    ASSERT_EQ(stored.size(), kChunks);
    ASSERT_EQ(answers_.size(), kChunks);
    for (uint64_t i = 0; i < kChunks; ++i) {
      ASSERT_EQ(stored[i], i + 1);
      ASSERT_EQ(answers_[i].sequence, i + 1);
    }
  }
}

TEST_F(DatasetAppenderTest, AServerThatComesBackIsWaitedFor) {
  DatasetAppenderOptions options = Options();
  // The first chunk must be answered before the server ends.
  options.max_unanswered = 1;
  int waits = 0;
  options.retry.connect_timeout = absl::Milliseconds(1);
  options.retry.sleep = [&](absl::Duration) {
    if (++waits == 3) server_.Start();
  };
  DatasetAppender appender(server_.Channel(), options);
  EXPECT_THAT(appender.Append(1, Chunk(5)), IsOk());
  EXPECT_EQ(answers_.size(), 1);
  server_.Stop();
  EXPECT_THAT(appender.Append(2, Chunk(6)), IsOk());
  EXPECT_THAT(appender.Finish(), IsOk());
  EXPECT_GE(waits, 3);
  EXPECT_THAT(StoredSequences(), ElementsAre(1, 2));
}

TEST_F(DatasetAppenderTest, PatienceEnds) {
  DatasetAppenderOptions options = Options();
  std::vector<absl::Duration> waits;
  options.retry.sleep = [&](absl::Duration wait) { waits.push_back(wait); };
  options.retry.connect_timeout = absl::ZeroDuration();
  options.retry.first_wait = absl::Seconds(1);
  options.retry.longest_wait = absl::Seconds(4);
  options.retry.patience = absl::Seconds(15);
  DatasetAppender appender(server_.Channel(), options);
  server_.Stop();
  const absl::Status first = appender.Append(1, Chunk(5));
  const absl::Status status = first.ok() ? appender.Finish() : first;
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnavailable, HasSubstr("")));
  EXPECT_THAT(waits, ElementsAre(absl::Seconds(1), absl::Seconds(2), absl::Seconds(4),
                                 absl::Seconds(4), absl::Seconds(4)));
  EXPECT_EQ(appender.Append(2, Chunk(5)), status);
  EXPECT_EQ(appender.Finish(), status);
}

TEST_F(DatasetAppenderTest, ARefusedChunkEndsItBehindTheAnswersBefore) {
  server_.service().set_fault([](const v1::AppendRequest& request) {
    return request.producer_sequence().sequence() == 3 ? AppendFault::kRefuse : AppendFault::kNone;
  });
  DatasetAppender appender(server_.Channel(), Options());
  absl::Status status;
  for (uint64_t i = 1; i <= 5 && status.ok(); ++i) status = appender.Append(i, Chunk(i));
  if (status.ok()) status = appender.Finish();
  EXPECT_EQ(status, absl::OutOfRangeError("graph 7"));
  EXPECT_EQ(appender.Finish(), status);
  EXPECT_EQ(answers_.size(), 2);
  EXPECT_EQ(server_.service().num_streams(), 1);
}

// The first request asks what the server knows of the producer.
TEST_F(DatasetAppenderTest, ARefusedQuestionEndsIt) {
  DatasetAppenderOptions options = Options();
  options.dataset = "other";
  DatasetAppender appender(server_.Channel(), options);
  const absl::Status refused = absl::NotFoundError("data set 'other'");
  EXPECT_EQ(appender.Append(1, Chunk(5)), refused);
  EXPECT_EQ(appender.Append(2, Chunk(5)), refused);
  EXPECT_EQ(appender.Finish(), refused);
  EXPECT_THAT(answers_, IsEmpty());
  EXPECT_EQ(server_.service().num_streams(), 1);
}

TEST_F(DatasetAppenderTest, WhatAServerMustNotAnswerIsInternal) {
  const std::pair<AppendFault, std::string> cases[] = {
      {AppendFault::kWrongAnswer, "answered chunk 2, awaited was 1"},
      {AppendFault::kStoreLess, "stored 4 of 5 graphs of chunk 1"},
      {AppendFault::kEndEarly, "ended the stream with 1 chunks unanswered"}};
  for (const auto& [fault, says] : cases) {
    SCOPED_TRACE(says);
    server_.service().set_fault([fault = fault](const v1::AppendRequest&) { return fault; });
    DatasetAppenderOptions options = Options();
    options.producer = says;
    DatasetAppender appender(server_.Channel(), options);
    EXPECT_THAT(appender.Append(1, Chunk(5)), IsOk());
    EXPECT_THAT(appender.Finish(), StatusIs(absl::StatusCode::kInternal, HasSubstr(says)));
  }
  EXPECT_THAT(answers_, IsEmpty());
}

TEST_F(DatasetAppenderTest, AStreamThatLastsTooLongIsFollowedByAnother) {
  DatasetAppenderOptions options = Options();
  options.stream_time = -absl::Seconds(1);
  DatasetAppender appender(server_.Channel(), options);
  const absl::Status first = appender.Append(1, Chunk(5));
  EXPECT_THAT(first.ok() ? appender.Finish() : first,
              StatusIs(absl::StatusCode::kDeadlineExceeded, HasSubstr("")));
}

TEST_F(DatasetAppenderTest, ItMayBeDroppedAtAnyTime) {
  DatasetAppender appender(server_.Channel(), Options());
  EXPECT_THAT(appender.Append(1, Chunk(5)), IsOk());
}

}  // namespace
}  // namespace packhouse::client
