// A call with one answer, and a list that comes page by page: each is written once, for all
// services and for all ways in which calls are made.
#ifndef PACKHOUSE_CLIENT_CPP_CALL_H_
#define PACKHOUSE_CLIENT_CPP_CALL_H_

#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/dataset_retry.h"
#include "client/cpp/servers.h"
#include "google/protobuf/repeated_field.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/support/status.h"

namespace packhouse::client {

// Makes a call, once or more often, and returns the status of the last try. `was_retried`, if not
// null, becomes true if there were several. Thread-safe if the functions in its options are.
using CallWay = std::function<absl::Status(CallOnChannel call, bool* was_retried)>;

// Once, for at most `timeout`.
CallWay Once(std::shared_ptr<grpc::Channel> channel, absl::Duration timeout);
// As CallWithRetry().
CallWay WithRetry(Servers servers, RetryOptions options, std::string name, absl::Duration timeout);

// A method of a generated stub with one answer: `&v1::DatasetService::Stub::GetDataset`.
template <typename Stub, typename Request, typename Response>
using UnaryMethod = grpc::Status (Stub::*)(grpc::ClientContext*, const Request&, Response*);

// The answer. Errors: the server's, and those of the way.
template <typename Stub, typename Request, typename Response>
absl::StatusOr<Response> Call(const CallWay& way, UnaryMethod<Stub, Request, Response> method,
                              const std::type_identity_t<Request>& request,
                              bool* was_retried = nullptr) {
  Response response;
  const absl::Status status = way(
      [&](const std::shared_ptr<grpc::Channel>& channel, grpc::ClientContext& context) {
        Stub stub(channel);
        return (stub.*method)(&context, request, &response);
      },
      was_retried);
  if (!status.ok()) return status;
  return response;
}

// A call that deletes something. A retry that finds nothing, since an earlier try worked, is OK.
template <typename Stub, typename Request, typename Response>
absl::Status CallToDelete(const CallWay& way, UnaryMethod<Stub, Request, Response> method,
                          const std::type_identity_t<Request>& request) {
  bool was_retried = false;
  const absl::Status status = Call(way, method, request, &was_retried).status();
  return was_retried && absl::IsNotFound(status) ? absl::OkStatus() : status;
}

// All items, page by page; `request` says how many are on one, and `items` takes them out of an
// answer: `&v1::ListDatasetsResponse::mutable_datasets`. Memory grows with their number.
//
// Errors: as Call; INTERNAL if a page names itself as the next one.
template <typename Stub, typename Request, typename Response, typename Item>
absl::StatusOr<std::vector<Item>> ListAll(
    const CallWay& way, UnaryMethod<Stub, Request, Response> method,
    std::type_identity_t<Request> request,
    google::protobuf::RepeatedPtrField<Item>* (Response::*items)()) {
  std::vector<Item> all;
  do {
    absl::StatusOr<Response> page = Call(way, method, request);
    if (!page.ok()) return page.status();
    if (!page->next_page_token().empty() && page->next_page_token() == request.page_token()) {
      return absl::InternalError("the server's next page is the one that it has just sent");
    }
    google::protobuf::RepeatedPtrField<Item>& found = *((*page).*items)();
    all.insert(all.end(), std::make_move_iterator(found.begin()),
               std::make_move_iterator(found.end()));
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return all;
}

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_CPP_CALL_H_
