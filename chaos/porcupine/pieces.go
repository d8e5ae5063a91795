package main

import "github.com/anishathalye/porcupine"

// piece is a part of an object's history that is judged separately.
type piece struct {
	from, to int64
	// The newest token before this piece, or 0. Every token of the piece must be higher.
	token int64
	// Whether the element was done before this piece.
	done bool
	// The beliefs that have started before the piece and have not ended, and the beliefs that start in
	// the piece.
	carried, new []belief
}

// pieces cuts the history of an object. It leaves out the windows in which holds may overlap, and
// cuts the rest after every `longest` beliefs, because the search in a short piece is quick.
//
// A cut hides no violation. If a process believes that it holds when a piece starts, the process
// counts as a holder in this piece.
func pieces(o *object, windows []window, longest int) []piece {
	if o.Replicated {
		windows = nil
	}
	var all []piece
	from := int64(-never)
	for _, w := range append(windows[:len(windows):len(windows)], window{never, never}) {
		all = append(all, cut(o.beliefs, from, w.from, longest)...)
		from = w.to
	}
	return all
}

// cut makes pieces of the time between two windows. Tokens must grow from one piece to the next.
// After a window, tokens may start again, because the new server may have lost them.
func cut(beliefs []belief, from, to int64, longest int) []piece {
	var all []piece
	now := piece{from: from, to: to, carried: believing(beliefs, from)}
	for _, b := range beliefs {
		if b.from < from || b.from >= to {
			continue
		}
		if b.asked <= from {
			// The grant may lie in the window, and the new server may have lost the token of this grant. So
			// the token is not checked.
			b.token = 0
		}
		if len(now.new) >= longest && b.from > now.new[len(now.new)-1].from {
			all = append(all, now.until(b.from))
			now = now.next(b.from, to)
		}
		now.new = append(now.new, b)
	}
	return append(all, now)
}

func (p piece) until(to int64) piece {
	p.to = to
	return p
}

// next returns the piece after this one, without new beliefs.
func (p piece) next(from, to int64) piece {
	known := append(p.carried[:len(p.carried):len(p.carried)], p.new...)
	behind := piece{from: from, to: to, token: p.token, done: p.done, carried: believing(known, from)}
	for _, b := range known {
		behind.done = behind.done || b.done && b.to <= from
	}
	for _, b := range p.new {
		if b.token > behind.token {
			behind.token = b.token
		}
	}
	return behind
}

// believing returns the beliefs that start before `at` and end after `at`.
func believing(beliefs []belief, at int64) []belief {
	var found []belief
	for _, b := range beliefs {
		if b.from < at && b.to > at {
			found = append(found, b)
		}
	}
	return found
}

// operations returns the operations for which Porcupine searches an order. A grant takes effect
// between its request and its reply, and so does a release. A hold that was lost, or whose process
// died, may end at any time after the loss or the death.
func (p piece) operations() []porcupine.Operation {
	var all []porcupine.Operation
	for _, b := range p.carried {
		held := step{hold: b.hold, mode: b.mode}
		all = append(all, operation(held, p.from, p.from))
	}
	for _, b := range p.new {
		enters := step{hold: b.hold, mode: b.mode, token: b.token}
		all = append(all, operation(enters, later(b.asked, p.from), b.from))
	}
	for _, b := range append(p.carried[:len(p.carried):len(p.carried)], p.new...) {
		if b.to < p.to {
			leaves := step{hold: b.hold, leaves: true, mode: b.mode, done: b.done}
			all = append(all, operation(leaves, b.to, b.ended))
		}
	}
	return all
}

// moments returns the same operations, each at one moment: a grant at its reply, and an end at its
// request. Each hold is then as short as possible, and excludes as few other holds as possible. So
// if any order is possible, the order of these moments is possible, too, and no search is
// necessary.
func moments(operations []porcupine.Operation) []porcupine.Operation {
	short := append([]porcupine.Operation(nil), operations...)
	for i := range short {
		if short[i].Input.(step).leaves {
			short[i].Return = short[i].Call
		} else {
			short[i].Call = short[i].Return
		}
	}
	return short
}

func operation(does step, from, to int64) porcupine.Operation {
	return porcupine.Operation{Input: does, Call: from, Return: to}
}

func later(a, b int64) int64 {
	if a > b {
		return a
	}
	return b
}
