package main

import (
	"sync/atomic"
	"time"
)

// inside counts the acquisitions, hand-overs and overlaps of all tasks of this process.
type inside struct {
	occupied                           atomic.Bool
	last, entries, handOvers, overlaps atomic.Int64
	longestWait                        atomic.Int64
}

// contend lets many tasks contend for one name. A task is a goroutine.
func contend(lib library, asked job) (answer, error) {
	time.Sleep(time.Duration(asked.StartNs - monotonic()))
	used, end := cpu(), monotonic()+asked.Millis*int64(time.Millisecond)
	var seen inside
	log, err := together(asked.Tasks, func(task int) ([][3]int64, error) {
		return visit(lib, asked, &seen, int64(task+1), end)
	})
	if err != nil {
		return nil, err
	}
	return answer{
		"entries":         seen.entries.Load(),
		"hand_overs":      seen.handOvers.Load(),
		"overlaps":        seen.overlaps.Load(),
		"longest_wait_ns": seen.longestWait.Load(),
		"cpu_ns":          cpu() - used,
		"log":             append([][3]int64{}, log...),
	}, nil
}

// visit acquires and releases repeatedly. A lock that is granted after the end is released and not
// counted.
func visit(lib library, asked job, seen *inside, task, end int64) ([][3]int64, error) {
	var log [][3]int64
	for {
		began := monotonic()
		release, err := lib.acquire(asked.Name, ttl)
		if err != nil {
			return nil, err
		}
		entered := monotonic()
		if entered >= end {
			return log, release()
		}
		seen.waited(entered - began)
		seen.stay(task, entered+asked.HoldUs*1000)
		if asked.Log {
			log = append(log, [3]int64{task, entered, monotonic()})
		}
		if err := release(); err != nil {
			return nil, err
		}
	}
}

func (seen *inside) stay(task, until int64) {
	if seen.occupied.Swap(true) {
		seen.overlaps.Add(1)
	}
	seen.entries.Add(1)
	if last := seen.last.Swap(task); last != 0 && last != task {
		seen.handOvers.Add(1)
	}
	for monotonic() < until {
	}
	seen.occupied.Store(false)
}

func (seen *inside) waited(nanos int64) {
	for longest := seen.longestWait.Load(); nanos > longest; longest = seen.longestWait.Load() {
		if seen.longestWait.CompareAndSwap(longest, nanos) {
			return
		}
	}
}
