#include "client/cpp/dataset_client.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_dataset_service.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetClientTest : public testing::Test {
 protected:
  DatasetClient Client(absl::Duration patience = absl::Hours(1)) {
    DatasetClientOptions options;
    options.retry.patience = patience;
    options.retry.sleep = [](absl::Duration) {};
    return DatasetClient(server_.Channel(), options);
  }
  static v1::CreateDatasetRequest Named(const std::string& name) {
    v1::CreateDatasetRequest request;
    request.set_name(name);
    request.set_max_bytes(7);
    return request;
  }

  FakeDatasetServer server_;
};

TEST_F(DatasetClientTest, CreateGetSealDelete) {
  const DatasetClient client = Client();
  PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset created, client.Create(Named("d")));
  EXPECT_EQ(created.max_bytes(), 7);
  EXPECT_EQ(client.Create(Named("d")).status().code(), absl::StatusCode::kAlreadyExists);
  PH_ASSERT_OK_AND_ASSIGN(const v1::Dataset sealed, client.Seal("d"));
  EXPECT_EQ(sealed.state(), v1::DATASET_STATE_SEALED);
  PH_ASSERT_OK_AND_ASSIGN(v1::GetDatasetResponse got, client.Get("d", false));
  EXPECT_EQ(got.dataset().state(), v1::DATASET_STATE_SEALED);
  EXPECT_FALSE(got.has_histogram());
  PH_ASSERT_OK_AND_ASSIGN(got, client.Get("d", true));
  EXPECT_TRUE(got.has_histogram());
  EXPECT_THAT(client.Delete("d"), IsOk());
  for (const absl::Status& status :
       {client.Delete("d"), client.Get("d", false).status(), client.Seal("d").status(),
        client.Verify("d", [](const v1::VerifyDatasetResponse&) {}).status()}) {
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr("'d'")));
  }
}

// Of several servers, calls that are safe to repeat go on at the next; others stay with the first.
TEST_F(DatasetClientTest, SafeCallsGoOnAtTheNextServer) {
  FakeDatasetServer other;
  DatasetClientOptions options;
  options.retry.patience = absl::Hours(1);
  options.retry.connect_timeout = absl::ZeroDuration();
  int num_waits = 0;
  options.retry.sleep = [&](absl::Duration) { ++num_waits; };
  const Servers both({server_.Channel(), other.Channel()});
  const DatasetClient client(both, options);
  PH_ASSERT_OK_AND_ASSIGN(v1::Dataset made, client.Create(Named("d")));
  PH_ASSERT_OK_AND_ASSIGN(made, DatasetClient(other.Channel()).Create(Named("d")));
  const std::shared_ptr<grpc::Channel> gone = server_.Channel();
  server_.Stop();
  EXPECT_THAT(client.Get("d", false).status(), IsOk());
  EXPECT_THAT(client.List().status(), IsOk());
  EXPECT_THAT(client.Seal("d").status(), IsOk());
  // Once left, it is not asked again as long as the other one answers.
  EXPECT_EQ(num_waits, 1);
  options.retry.patience = absl::ZeroDuration();
  EXPECT_EQ(
      DatasetClient(Servers({gone, other.Channel()}), options).Create(Named("e")).status().code(),
      absl::StatusCode::kUnavailable);
  // And back, when it is the other that is away.
  server_.Start();
  other.Stop();
  EXPECT_THAT(client.Get("d", false).status(), IsOk());
}

// A call that breaks goes on where it was.
TEST_F(DatasetClientTest, ExportGivesEachGraphOnce) {
  const std::vector<std::string> examples = {"a", "b", "c", "d", "e", "f", "g"};
  server_.service().set_examples(examples);
  const DatasetClient client = Client();
  for (uint64_t first = 0; first <= examples.size(); ++first) {
    for (uint64_t count = 0; count <= examples.size(); ++count) {
      v1::ExportDatasetRequest request;
      request.set_name("d");
      request.set_first_graph(first);
      request.set_num_graphs(count);
      std::vector<std::string> taken;
      EXPECT_THAT(client.Export(request,
                                [&](v1::ExportDatasetResponse& response) {
                                  EXPECT_EQ(response.first_graph(), first + taken.size());
                                  for (std::string& example : *response.mutable_examples()) {
                                    taken.push_back(std::move(example));
                                  }
                                  return absl::OkStatus();
                                }),
                  IsOk());
      const uint64_t end = count == 0 ? examples.size() : std::min(first + count, examples.size());
      EXPECT_EQ(taken, std::vector<std::string>(examples.begin() + first, examples.begin() + end));
    }
  }
  v1::ExportDatasetRequest request;
  EXPECT_THAT(client.Export(request,
                            [](v1::ExportDatasetResponse&) {
                              return absl::InternalError("the disk is full");
                            }),
              StatusIs(absl::StatusCode::kInternal, "the disk is full"));
}

TEST_F(DatasetClientTest, ListTurnsAllPages) {
  const DatasetClient client = Client();
  EXPECT_EQ(client.List()->size(), 0);
  for (const char* const name : {"e", "a", "c", "b", "d"}) {
    ASSERT_THAT(client.Create(Named(name)), IsOk());
  }
  for (const uint32_t page_size : {0, 1, 2, 4, 5, 6}) {
    PH_ASSERT_OK_AND_ASSIGN(const std::vector<v1::Dataset> datasets, client.List(page_size));
    std::vector<std::string> names;
    for (const v1::Dataset& dataset : datasets) names.push_back(dataset.name());
    EXPECT_THAT(names, ElementsAre("a", "b", "c", "d", "e")) << page_size;
  }
}

TEST_F(DatasetClientTest, LostAnswersAreTriedAgain) {
  const DatasetClient client = Client();
  server_.service().LoseAnswers(2);
  EXPECT_EQ(client.Create(Named("d")).status().code(), absl::StatusCode::kAlreadyExists);
  server_.service().LoseAnswers(2);
  EXPECT_THAT(client.Seal("d"), IsOk());
  server_.service().LoseAnswers(2);
  EXPECT_THAT(client.List(), IsOk());
  // The second try finds nothing, because the first one worked.
  server_.service().LoseAnswers(1);
  EXPECT_THAT(client.Delete("d"), IsOk());
  EXPECT_FALSE(server_.service().has("d"));
}

TEST_F(DatasetClientTest, WithoutPatienceThereIsOneTry) {
  server_.service().LoseAnswers(1);
  EXPECT_THAT(Client(absl::ZeroDuration()).List(),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("lost")));
}

TEST_F(DatasetClientTest, VerifyReportsProgressThenTheResult) {
  const DatasetClient client = Client();
  ASSERT_THAT(client.Create(Named("d")), IsOk());
  std::vector<v1::VerifyDatasetResponse> responses(3);
  for (std::size_t i = 0; i < responses.size(); ++i) responses[i].set_num_records(i + 1);
  responses.back().set_finished(true);
  responses.back().set_num_damaged(1);
  server_.service().set_verification(responses);
  std::vector<uint64_t> seen;
  PH_ASSERT_OK_AND_ASSIGN(const v1::VerifyDatasetResponse result,
                          client.Verify("d", [&](const v1::VerifyDatasetResponse& progress) {
                            seen.push_back(progress.num_records());
                          }));
  EXPECT_THAT(seen, ElementsAre(1, 2));
  EXPECT_EQ(result.num_records(), 3);
  EXPECT_EQ(result.num_damaged(), 1);

  responses.pop_back();
  server_.service().set_verification(responses);
  EXPECT_THAT(client.Verify("d", [](const v1::VerifyDatasetResponse&) {}),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("without a result")));
}

}  // namespace
}  // namespace packhouse::client
