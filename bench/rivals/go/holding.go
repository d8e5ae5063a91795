package main

import (
	"fmt"
	"sync/atomic"
	"time"
)

// seize acquires with a fixed lease and never releases.
func seize(lib library, asked job) (answer, error) {
	_, err := lib.acquire(asked.Name, time.Duration(asked.LeaseMs)*time.Millisecond)
	return answer{"entered_ns": monotonic()}, err
}

func enter(lib library, asked job) (answer, error) {
	release, err := lib.acquire(asked.Name, ttl)
	if err != nil {
		return nil, err
	}
	entered := monotonic()
	return answer{"entered_ns": entered}, release()
}

// wait starts callers that wait until this process ends.
func wait(lib library, asked job) (answer, error) {
	var ended atomic.Int64
	before := memory()
	for range asked.Tasks {
		go func() {
			_, _ = lib.acquire(asked.Name, ttl)
			ended.Add(1)
		}()
	}
	time.Sleep(time.Second)
	grown := memory() - before
	if ended.Load() > 0 {
		return nil, fmt.Errorf("%d callers did not wait", ended.Load())
	}
	return answer{"bytes": grown}, nil
}
