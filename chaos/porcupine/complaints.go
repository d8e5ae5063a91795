package main

import (
	"fmt"
	"sort"
	"strings"
	"time"
)

// Porcupine reports only that no order of the operations is possible. These complaints name the
// holds that caused this result.

// most is the number of complaints of one kind that are printed for one object.
const most = 10

func complaints(o *object, windows []window) []string {
	if o.Replicated {
		windows = nil
	}
	var all []string
	all = append(all, few(overlaps(o, windows))...)
	all = append(all, few(fallingTokens(o.beliefs, windows))...)
	all = append(all, few(claimedAgain(o.beliefs, windows))...)
	return append(all, few(lateWrites(o.writes))...)
}

func few(all []string) []string {
	if len(all) <= most {
		return all
	}
	return append(all[:most:most], fmt.Sprintf("and %d more like these", len(all)-most))
}

// overlaps lists the times at which too many processes believed that they held the object. Times in
// a window are not listed, because holds may overlap in a window.
func overlaps(o *object, windows []window) []string {
	var found []string
	var active []belief
	times := moreTimes(o.beliefs, windows)
	next := 0
	for i, at := range times {
		active = stillActive(active, at)
		for ; next < len(o.beliefs) && o.beliefs[next].from <= at; next++ {
			active = append(active, o.beliefs[next])
		}
		if !inside(windows, at) && tooMany(o, active) {
			found = append(found, together(active, at, times[i+1]))
		}
	}
	return found
}

// moreTimes returns, in order, all times at which a belief or a window begins or ends.
func moreTimes(beliefs []belief, windows []window) []int64 {
	var times []int64
	for _, b := range beliefs {
		times = append(times, b.from, b.to)
	}
	for _, w := range windows {
		times = append(times, w.from, w.to)
	}
	sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	var apart []int64
	for _, at := range append(times, never) {
		if len(apart) == 0 || at > apart[len(apart)-1] {
			apart = append(apart, at)
		}
	}
	return apart
}

func stillActive(active []belief, at int64) []belief {
	var still []belief
	for _, b := range active {
		if b.to > at {
			still = append(still, b)
		}
	}
	return still
}

func inside(windows []window, at int64) bool {
	i := sort.Search(len(windows), func(i int) bool { return windows[i].to > at })
	return i < len(windows) && windows[i].from <= at
}

func tooMany(o *object, active []belief) bool {
	exclusive, permits := 0, 0
	for _, b := range active {
		switch b.mode {
		case "exclusive", "claim":
			exclusive++
		case "permit":
			permits++
		}
	}
	return exclusive > 0 && len(active) > 1 || permits > o.Permits
}

func together(active []belief, from, to int64) string {
	var holds []string
	for _, b := range active {
		holds = append(holds, b.String())
	}
	return fmt.Sprintf("from %s to %s, %v, at once: %s",
		shown(from), shown(to), time.Duration(to-from), strings.Join(holds, "; "))
}

func (b belief) String() string {
	return fmt.Sprintf("hold %d of %s (%s, asked at %d, believed from %d to %s)",
		b.hold, b.process, b.mode, b.asked, b.from, shown(b.to))
}

// fallingTokens lists the tokens that are not higher than the token of the hold before. After a
// window, tokens may start again, so the first token after a window is not listed.
func fallingTokens(beliefs []belief, windows []window) []string {
	var found []string
	var newest belief
	for _, b := range beliefs {
		if b.token == 0 || mayBeGrantedIn(windows, b) {
			continue
		}
		if between(windows, newest.from, b.from) {
			newest = belief{}
		}
		if b.token <= newest.token {
			found = append(found, fmt.Sprintf("the token %d of %s is not above %d of %s",
				b.token, b, newest.token, newest))
			continue
		}
		newest = b
	}
	return found
}

// claimedAgain lists the claims of an element that was already done. If a window lies between the
// end of the element and the claim, the claim is not listed.
func claimedAgain(beliefs []belief, windows []window) []string {
	var found []string
	var done *belief
	for i, b := range beliefs {
		if done != nil && !reaches(windows, done.to, b.from) {
			found = append(found, fmt.Sprintf("%s was granted after %s had done its element", b, done))
		}
		if b.done {
			done = &beliefs[i]
		}
	}
	return found
}

// reaches tells whether a window contains some of the time from `from` to `to`.
func reaches(windows []window, from, to int64) bool {
	i := sort.Search(len(windows), func(i int) bool { return windows[i].to >= from })
	return i < len(windows) && windows[i].from <= to
}

// mayBeGrantedIn tells whether the hold may have been granted in a window. In this case, its
// request was sent before the end of the window, and its reply came after the start.
func mayBeGrantedIn(windows []window, b belief) bool {
	i := sort.Search(len(windows), func(i int) bool { return windows[i].to >= b.asked })
	return i < len(windows) && windows[i].from <= b.from
}

// between tells whether a window started after `from` and ended at `to` or earlier.
func between(windows []window, from, to int64) bool {
	i := sort.Search(len(windows), func(i int) bool { return windows[i].from > from })
	return i < len(windows) && windows[i].to <= to
}

// lateWrites lists the writes that were accepted after a write with a higher token.
func lateWrites(writes []line) []string {
	var found []string
	var newest line
	for _, w := range writes {
		if !w.Accepted {
			continue
		}
		if w.Token < newest.Token {
			found = append(found, fmt.Sprintf(
				"the write of hold %d with the token %d at %d was accepted behind %d of hold %d at %d",
				w.Hold, w.Token, w.At, newest.Token, newest.Hold, newest.At))
			continue
		}
		newest = w
	}
	return found
}

// shown prints a time. The first and the last possible time are printed as "the beginning" and "the
// end".
func shown(at int64) string {
	switch at {
	case never:
		return "the end"
	case -never:
		return "the beginning"
	}
	return fmt.Sprint(at)
}
