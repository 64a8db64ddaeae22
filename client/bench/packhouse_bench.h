// The program packhouse-bench, all of it but main.
#ifndef PACKHOUSE_CLIENT_BENCH_PACKHOUSE_BENCH_H_
#define PACKHOUSE_CLIENT_BENCH_PACKHOUSE_BENCH_H_

namespace packhouse::client {

// Measures as `argv` says. The result is the exit code of the process.
int RunPackhouseBench(int argc, char** argv);

}  // namespace packhouse::client

#endif  // PACKHOUSE_CLIENT_BENCH_PACKHOUSE_BENCH_H_
