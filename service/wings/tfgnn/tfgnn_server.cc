#include "service/wings/tfgnn/tfgnn_server.h"

#include <memory>
#include <vector>

#include "service/wings/tfgnn/tfgnn_format.h"

namespace packhouse::rpc {
namespace {

class TfgnnServer final : public ServerWing {
 public:
  std::vector<Service> services() override { return {}; }
  const ExampleFormat* example_format() const override { return &TfgnnFormat(); }
};

}  // namespace

MakeServerWing ServeTfgnn() {
  return [](const WingSources& /*sources*/) { return std::make_unique<TfgnnServer>(); };
}

}  // namespace packhouse::rpc
