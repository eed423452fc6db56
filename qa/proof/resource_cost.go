package main

import (
	"fmt"
	goruntime "runtime"
	"runtime/metrics"
	"syscall"
	"time"
)

// A resourceCost is one call's CPU time and memory.
type resourceCost struct {
	time   time.Duration
	memory uint64
	err    error
}

// measureCost measures a call on one thread. A panic becomes an error.
func measureCost(do func() error) (s resourceCost) {
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	timeBefore, memoryBefore := threadTime(), allocatedBytes()
	defer func() {
		s.time, s.memory = threadTime()-timeBefore, allocatedBytes()-memoryBefore
		if r := recover(); r != nil {
			s.err = fmt.Errorf("panic: %v", r)
		}
	}()
	return resourceCost{err: do()}
}

// threadTime returns the thread's CPU time.
func threadTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allocatedBytes returns all memory ever allocated, including freed memory.
func allocatedBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
