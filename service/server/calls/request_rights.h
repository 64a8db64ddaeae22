// The right that each request needs, and where it names what it works on: read off the options of
// the contract (rights.proto). With a method without them, or with a text of which they do not say
// what it names, the service does not build (contract_check_main.cc).
#ifndef PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_RIGHTS_H_
#define PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_RIGHTS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "service/access/authorizer.h"
#include "service/access/policy.h"
#include "service/server/calls/call_context.h"

namespace packhouse {

// A field with the name of something, and the right that the request needs in its namespace.
struct NameField {
  Right right = Right::kView;
  absl::string_view kind;  // For messages: "data set".
  // The last one is the text; the others lead to it.
  std::vector<const google::protobuf::FieldDescriptor*> path;
};

struct MethodRights {
  enum class Kind {
    // Needs `right` on something that it names, or else in any namespace; and of each name the
    // name's own right.
    kNamed,
    kServer,  // Needs `right` on the server.
    kFree,    // Every caller that the server knows may call it.
  };
  std::string method;  // "packhouse.v1.DatasetService.CreateDataset"
  Right right = Right::kAdminister;
  bool changes = false;  // Whether it changes what outlives the call: such calls are audited.
  std::vector<NameField> names;
  Kind kind = Kind::kServer;
  // False: the contract does not say all; nobody may call it once there is a policy.
  bool is_sound = true;
};

// Of all methods that the server knows. Thread-safe.
absl::Span<const MethodRights> AllMethodRights();

enum class RequestKind {
  kOnlyOne,  // Of a call with one answer.
  kBeginsStream,
  kGoesOn,  // A later one of a stream.
};

// Checks the request of a call by the policy, if there is one, and notes in the call's record what
// it works on. A stream's later requests are checked if they name something. PERMISSION_DENIED as
// Authorizer::Check, RESOURCE_EXHAUSTED as EnterStream. O(fields that name something).
absl::Status Authorize(const CallContext& context, const google::protobuf::Message& request,
                       RequestKind kind = RequestKind::kOnlyOne);

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_SERVER_CALLS_REQUEST_RIGHTS_H_
