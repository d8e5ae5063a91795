package main

import "github.com/anishathalye/porcupine"

// piece is a part of an object's history that is judged by itself.
type piece struct {
	from, to int64
	// The newest token before it, if tokens must grow from there.
	token int64
	// Whether an element was done before it.
	done bool
	// Those who believe at its beginning, and those whose belief begins in it.
	carried, new []belief
}

// pieces cuts the history of an object at the windows in which holds may overlap, which
// are left out, and then at every so many beliefs, so that each piece is searched quickly.
//
// A belief is a fact at each moment of it. So whoever believes when a piece begins holds
// the lock then, whatever has been before; nothing is forgiven at a cut.
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

// cut makes pieces of what is between two windows. Tokens grow from one to the next;
// behind a window they may have been forgotten, and begin anew.
func cut(beliefs []belief, from, to int64, longest int) []piece {
	var all []piece
	now := piece{from: from, to: to, carried: believing(beliefs, from)}
	for _, b := range beliefs {
		if b.from < from || b.from >= to {
			continue
		}
		if b.asked <= from {
			// It may have been granted in the window, with a token that was forgotten.
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

// next is the empty piece behind this one.
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

// believing are those who believed before this moment, and still do.
func believing(beliefs []belief, at int64) []belief {
	var found []belief
	for _, b := range beliefs {
		if b.from < at && b.to > at {
			found = append(found, b)
		}
	}
	return found
}

// operations are what Porcupine is to put in order. A grant happened between the
// question and the answer, a release as well. A hold that was lost, or whose process
// died, ends at any time from then on.
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

// moments are the same operations, each at one moment: a grant as late and an end as
// early as it may be. Where any order is possible this one is: a hold that is shorter is in
// nobody's way. So the verdict is the same, and there is nothing to search.
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
