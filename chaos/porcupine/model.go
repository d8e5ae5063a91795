package main

import "github.com/anishathalye/porcupine"

// state is all that a lock knows: how many hold it, its newest token, and whether it is an element
// that is done.
type state struct {
	exclusive, shared int
	token             int64
	done              bool
}

// step is what can be done with a lock.
type step struct {
	hold   int64
	leaves bool
	mode   string
	// Of a hold of a fenced lock that is new; else 0.
	token int64
	// Its element is done when it leaves.
	done bool
}

// model is a lock of which so many may have permits at once. It is found as `start`.
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

// enter: exclusive beside nobody, shared beside those who share, so many permits.
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

// leave: what is given back, lost or forgotten was held.
func (s state) leave(does step) (bool, state) {
	s.done = s.done || does.done
	if does.mode == "exclusive" || does.mode == "claim" {
		s.exclusive--
	} else {
		s.shared--
	}
	return s.exclusive >= 0 && s.shared >= 0, s
}
