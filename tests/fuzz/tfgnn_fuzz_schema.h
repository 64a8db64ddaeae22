// A schema with features of every kind, for the fuzzer of tf.Examples and its seeds.
#ifndef PACKHOUSE_TESTS_FUZZ_TFGNN_FUZZ_SCHEMA_H_
#define PACKHOUSE_TESTS_FUZZ_TFGNN_FUZZ_SCHEMA_H_

namespace packhouse::tfgnn {

inline constexpr char kFuzzSchema[] = R"(
    context { features { key: "c" value { dtype: DT_STRING shape { dim { size: -1 } } } } }
    node_sets { key: "a" value {
      features { key: "b" value { dtype: DT_BOOL } }
      features { key: "f" value { dtype: DT_FLOAT shape { dim { size: 2 } } } }
      features { key: "h" value { dtype: DT_HALF } }
      features { key: "i" value { dtype: DT_INT8 shape { dim { size: -1 } dim { size: 2 }
                                                         dim { size: -1 } } } }
      features { key: "s" value { dtype: DT_STRING } } } }
    node_sets { key: "z" value { } }
    edge_sets { key: "e" value { source: "a" target: "z"
      features { key: "u" value { dtype: DT_UINT64 } } } })";

}  // namespace packhouse::tfgnn

#endif  // PACKHOUSE_TESTS_FUZZ_TFGNN_FUZZ_SCHEMA_H_
