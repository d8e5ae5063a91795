package main

import (
	"fmt"
	"time"
)

// pairs acquires and releases without contention. A task is a goroutine.
func pairs(lib library, asked job) (answer, error) {
	shares := make([][]string, asked.Tasks)
	for number := range asked.Names {
		task := number % asked.Tasks
		shares[task] = append(shares[task], fmt.Sprintf("%s-%d", asked.Prefix, number))
	}
	used, began := cpu(), monotonic()
	end := began + asked.Millis*int64(time.Millisecond)
	durations, err := together(asked.Tasks, func(task int) ([]int64, error) {
		return goRound(lib, shares[task], end)
	})
	if err != nil {
		return nil, err
	}
	wall := monotonic() - began
	return answer{
		"pairs":   len(durations),
		"wall_ns": wall,
		"cpu_ns":  cpu() - used,
		"p50_ns":  percentile(durations, 0.5),
		"p99_ns":  percentile(durations, 0.99),
	}, nil
}

func goRound(lib library, share []string, end int64) ([]int64, error) {
	var durations []int64
	for asked := monotonic(); asked < end; {
		release, err := lib.acquire(share[len(durations)%len(share)], ttl)
		if err != nil {
			return nil, err
		}
		if err := release(); err != nil {
			return nil, err
		}
		now := monotonic()
		durations = append(durations, now-asked)
		asked = now
	}
	return durations, nil
}

// together runs tasks at the same time, and joins their results.
func together[T any](tasks int, run func(task int) ([]T, error)) ([]T, error) {
	type outcome struct {
		found []T
		err   error
	}
	done := make(chan outcome, tasks)
	for task := range tasks {
		go func() {
			found, err := run(task)
			done <- outcome{found, err}
		}()
	}
	var all []T
	var failure error
	for range tasks {
		one := <-done
		all = append(all, one.found...)
		if one.err != nil {
			failure = one.err
		}
	}
	return all, failure
}
