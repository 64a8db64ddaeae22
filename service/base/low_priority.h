// Threads whose work nobody waits for, or that work for long.
#ifndef PACKHOUSE_SERVICE_BASE_LOW_PRIORITY_H_
#define PACKHOUSE_SERVICE_BASE_LOW_PRIORITY_H_

namespace packhouse {

// From now on the calling thread, and the processes that it starts, have about a tenth of the time
// of other threads where the processors are busy (a niceness larger by 10). There is no way back.
void LowerPriority();

}  // namespace packhouse

#endif  // PACKHOUSE_SERVICE_BASE_LOW_PRIORITY_H_
