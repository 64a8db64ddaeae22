// The windows of gRPC's connections: how many bytes their clients may send unasked.
#ifndef PACKHOUSE_SERVICE_SERVER_LISTEN_FIXED_WINDOWS_H_
#define PACKHOUSE_SERVICE_SERVER_LISTEN_FIXED_WINDOWS_H_

namespace packhouse::rpc {

// Gives every connection of this process that begins from now on and probes
// (GRPC_ARG_HTTP2_BDP_PROBE) windows of `bytes`: the connection as a whole, and each of its
// streams.
//
// gRPC by itself has two kinds of connections. Those that do not probe have 64 KiB as a whole,
// whatever their streams have, so that a client waits for the server every 32 KiB. Those that probe
// give each stream 4 MiB at once, and up to 32 MiB as they find the connection fast; no option
// bounds that. Windows of one size have the speed of the latter and the bound of the former.
//
// Connections that the process makes, as to etcd, have them, too. A larger answer takes two round
// trips more, whatever its size, with windows of 64 KiB as without probing: nothing in one place.
// 256 KiB of an etcd that is 20 ms away came in 60 ms, and with gRPC's own windows in 25.
//
// The first call decides for the process. False if windows are not of `bytes`: they were fixed to
// other bytes, or this gRPC is not 1.51, in which they are fixed by a hook of its own tests.
// Thread-safe.
bool FixWindows(int bytes);

}  // namespace packhouse::rpc

#endif  // PACKHOUSE_SERVICE_SERVER_LISTEN_FIXED_WINDOWS_H_
