// TF-GNN's schemas and examples.
#include <memory>

#include "service/program/wing.h"
#include "service/wings/tfgnn/tfgnn_server.h"

namespace packhouse {
namespace {

class TfgnnWing final : public Wing {
 public:
  absl::StatusOr<rpc::MakeServerWing> Serve(ServedSources& /*sources*/) override {
    return rpc::ServeTfgnn();
  }
};

}  // namespace

BuiltWing TfgnnInProgram() {
  return {.name = "tfgnn", .make = [] { return std::unique_ptr<Wing>(new TfgnnWing); }};
}

}  // namespace packhouse
