// Threads that work little and should not wait for others.
#ifndef PACKHOUSE_SERVICE_BASE_SHORT_SLICES_H_
#define PACKHOUSE_SERVICE_BASE_SHORT_SLICES_H_

namespace packhouse {

// From now on the calling thread, once it has something to do, waits less for threads that are at
// work, and works for 0.1 ms before others come instead of some 3 ms. Its share of the processor is
// the same. For threads that usually work for less than that. On two processors with four busy
// threads, the 99th percentile of how late a timer is fell from 3.8 ms to between 0.2 and 3 ms.
//
// Needs no privileges. Linux before 6.12, and systems that forbid it, ignore it. Cheap after the
// first call of a thread.
void AskForShortSlices();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_SHORT_SLICES_H_
