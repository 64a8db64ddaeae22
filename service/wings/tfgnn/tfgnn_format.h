// TF-GNN's examples in requests and responses.
#ifndef PACKHOUSE_SERVICE_WINGS_TFGNN_TFGNN_FORMAT_H_
#define PACKHOUSE_SERVICE_WINGS_TFGNN_TFGNN_FORMAT_H_

#include "service/server/wire/example_format.h"

namespace packhouse {

// By wire_examples.h and export_source.h. Thread-safe.
const ExampleFormat& TfgnnFormat();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_WINGS_TFGNN_TFGNN_FORMAT_H_
