package main

import "github.com/anishathalye/porcupine"

// state is the state of a lock: its numbers of exclusive and shared holders, and its newest token.
// If the lock stands for an element of a queue, `done` is true after the element is done.
type state struct {
	exclusive, shared int
	token             int64
	done              bool
}

// step is one operation on a lock: an acquisition, or the end of a hold.
type step struct {
	hold   int64
	leaves bool
	mode   string
	// The token, if the step is a new hold of a fenced lock; otherwise 0.
	token int64
	// Whether the element is done when the claim ends.
	done bool
}

// model is a lock that starts in the state `start` and has a number of permits.
func model(permits int, start state) porcupine.Model {
	return porcupine.Model{
		Init: func() interface{} { return start },
		Step: func(before, input, _ interface{}) (bool, interface{}) {
			s, does := before.(state), input.(step)
			if does.leaves {
				return s.leave(does)
			}
			return s.enter(does, permits)
		},
	}
}

// enter grants a hold. An exclusive hold excludes every other hold. Shared holds exclude only
// exclusive holds. Permits are granted up to their number.
func (s state) enter(does step, permits int) (bool, state) {
	if does.token != 0 {
		if does.token <= s.token {
			return false, s
		}
		s.token = does.token
	}
	if s.done {
		return false, s
	}
	switch does.mode {
	case "exclusive", "claim":
		s.exclusive++
		return s.exclusive == 1 && s.shared == 0, s
	case "shared":
		s.shared++
		return s.exclusive == 0, s
	default:
		s.shared++
		return s.shared <= permits, s
	}
}

// leave ends a hold. If the hold does not exist, leave returns false.
func (s state) leave(does step) (bool, state) {
	s.done = s.done || does.done
	if does.mode == "exclusive" || does.mode == "claim" {
		s.exclusive--
	} else {
		s.shared--
	}
	return s.exclusive >= 0 && s.shared >= 0, s
}
