package main

import (
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// monotonic returns nanoseconds of the monotonic clock, which all processes share.
func monotonic() int64 { return clock(unix.CLOCK_MONOTONIC) }

// cpu returns the processor time that this process has used, in nanoseconds.
func cpu() int64 { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }

func clock(id int32) int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(id, &now); err != nil {
		panic(err)
	}
	return now.Nano()
}

// memory returns the bytes of heap and stacks that are in use.
func memory() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc + stats.StackInuse)
}

func percentile(values []int64, q float64) int64 {
	slices.Sort(values)
	if len(values) == 0 {
		return 0
	}
	return values[min(int(float64(len(values))*q), len(values)-1)]
}
