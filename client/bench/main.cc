// packhouse-bench: measures servers of its own on this machine, and compares them with gRPC alone.
#include "client/bench/packhouse_bench.h"

int main(int argc, char** argv) { return packhouse::client::RunPackhouseBench(argc, argv); }
