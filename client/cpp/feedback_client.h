// What batches cost on devices: FeedbackService.
#ifndef PACKHOUSE_CLIENT_CPP_FEEDBACK_CLIENT_H_
#define PACKHOUSE_CLIENT_CPP_FEEDBACK_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/call.h"
#include "grpcpp/channel.h"
#include "packhouse/v1/feedback.grpc.pb.h"
#include "packhouse/v1/feedback.pb.h"

namespace packhouse::client {

// Every call blocks, for at most `call_timeout`, and is made once. Errors are the server's, see
// FeedbackService. Thread-safe.
class FeedbackClient {
 public:
  explicit FeedbackClient(const std::shared_ptr<grpc::Channel>& channel,
                          absl::Duration call_timeout = absl::Minutes(1))
      : once_(Once(channel, call_timeout)) {}

  // The number of reports of the model on the device now. Report many batches at a time: a report
  // waits for the server's disk.
  absl::StatusOr<uint64_t> Report(const v1::ReportRequest& report) const;
  // Models are without shapes in the list.
  absl::StatusOr<std::vector<v1::DeviceModel>> List() const;
  absl::StatusOr<v1::DeviceModel> Get(const std::string& model, const std::string& device) const;
  absl::Status Delete(const std::string& model, const std::string& device) const;

 private:
  using Stub = v1::FeedbackService::Stub;

  const CallWay once_;
};

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_FEEDBACK_CLIENT_H_
