// A server with a source graph and a folder for data.
#ifndef PACKHOUSE_TESTS_RPC_SAMPLING_FIXTURE_H_
#define PACKHOUSE_TESTS_RPC_SAMPLING_FIXTURE_H_

#include <memory>
#include <utility>

#include "packhouse/v1/sampling.grpc.pb.h"
#include "service/engine/epochs/sampling_observer.h"
#include "tests/rpc/server_fixture.h"
#include "tests/support/source_graph_world.h"

namespace packhouse::rpc {

class SamplingServerTest : public ServerTest {
 protected:
  static constexpr uint32_t kNodes = 500;

  // The server ends before its source graphs.
  ~SamplingServerTest() override {
    channel_.reset();
    server_.reset();
  }

  void StartWithGraph(ServerOptions options = {}) {
    if (datasets_ == nullptr) OpenDatasets();
    options.address = GetParam() == Transport::kTcp ? "127.0.0.1:0" : "";
    options.sampling_observer = sampling_observer_;
    options.job_logs = ledger_.get();
    options.wings.push_back(ServeGraphs(&graphs_));
    PH_ASSERT_OK_AND_ASSIGN(
        server_, Server::Start(options, &clock_, &observer_, &observer_, datasets_.get()));
    channel_ = NewChannel();
  }

  // A server that went away without a word, and another one on what it left on the disk.
  void Restart() {
    channel_.reset();
    server_.reset();
    StartWithGraph();
  }

  static v1::SubGraphs TwoHops() {
    v1::SubGraphs sub_graphs;
    sub_graphs.set_graph("g");
    sub_graphs.set_text(TwoHopSpec(4, 3));
    return sub_graphs;
  }

  SamplingObserver* sampling_observer_ = nullptr;  // A test may set it.
  OneGraphStore graphs_{SmallSourceGraph(kNodes)};
};

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_TESTS_RPC_SAMPLING_FIXTURE_H_
