#include "client/cpp/dataset_client.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/client/fake_dataset_service.h"
#include "tests/support/status_matchers.h"

namespace packhouse::client {
namespace {

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

}  // namespace
}  // namespace packhouse::client
