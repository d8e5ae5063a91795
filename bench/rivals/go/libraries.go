package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// release releases one lock.
type release func() error

// A library waits for a lock without a timeout.
type library interface {
	acquire(name string, lease time.Duration) (release, error)
}

// ttl is the default lease of Redisson and of Leasehold.
const ttl = 30 * time.Second

func connect(name, url string) (library, error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(options)
	switch name {
	case "redislock":
		return polite{redislock.New(client)}, nil
	case "redsync":
		return sync{redsync.New(goredis.NewPool(client))}, nil
	}
	return nil, fmt.Errorf("no library %s", name)
}

// sync is redsync. One call gives up after 32 attempts with pauses of 50 to 250 ms.
type sync struct{ redsync *redsync.Redsync }

func (s sync) acquire(name string, lease time.Duration) (release, error) {
	mutex := s.redsync.NewMutex(name, redsync.WithExpiry(lease))
	for {
		err := mutex.Lock()
		var taken *redsync.ErrTaken
		switch {
		case err == nil:
			return func() error { _, err := mutex.Unlock(); return err }, nil
		case !errors.Is(err, redsync.ErrFailed) && !errors.As(err, &taken):
			return nil, err
		}
	}
}

// polite is redislock with the strategy of its documentation: a retry every 10 ms.
type polite struct{ client *redislock.Client }

func (p polite) acquire(name string, lease time.Duration) (release, error) {
	ctx := context.Background()
	options := &redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)}
	for {
		lock, err := p.client.Obtain(ctx, name, lease, options)
		switch {
		case err == nil:
			return func() error { return lock.Release(ctx) }, nil
		case !errors.Is(err, redislock.ErrNotObtained) && !errors.Is(err, context.DeadlineExceeded):
			return nil, err
		}
	}
}
