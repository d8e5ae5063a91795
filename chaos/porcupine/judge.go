package main

import (
	"fmt"
	"sort"
	"time"

	"github.com/anishathalye/porcupine"
)

// verdict is the result for one object.
type verdict struct {
	name       string
	operations int
	result     porcupine.CheckResult
	complaints []string
}

func (v verdict) good() bool {
	return v.result == porcupine.Ok && len(v.complaints) == 0
}

// said returns the result of Porcupine. If the result is Ok but there are complaints, said adds a
// remark.
func (v verdict) said() string {
	if v.result == porcupine.Ok && !v.good() {
		return "Ok for Porcupine, but"
	}
	return string(v.result)
}

const (
	// The number of beliefs that are judged together.
	longestPiece = 400
	// The time for which Porcupine may search a piece. If the search takes longer, the piece is
	// checked with moments (see pieces.go).
	patience = time.Second
)

func judge(h *history) []verdict {
	var all []verdict
	for _, o := range h.objects {
		all = append(all, judgeObject(o, h.windows))
	}
	return all
}

// judgeObject judges each element of a queue separately. An element counts as a lock that nobody
// may acquire after the element is done.
func judgeObject(o *object, windows []window) verdict {
	if o.Kind != "queue" {
		return judgeLock(o, windows)
	}
	all := verdict{name: o.Name, result: porcupine.Ok}
	for _, element := range o.elements() {
		v := judgeLock(element, windows)
		all.operations += v.operations
		if !v.good() {
			all.result = v.result
			all.complaints = append(all.complaints, element.Name)
			all.complaints = append(all.complaints, v.complaints...)
		}
	}
	return all
}

// elements returns an object for each element of a queue, with the claims of that element.
func (o *object) elements() []*object {
	byName := map[string]*object{}
	var all []*object
	for _, b := range o.beliefs {
		element, known := byName[b.element]
		if !known {
			element = &object{Name: "element " + b.element, Kind: o.Kind, Permits: 1, Replicated: o.Replicated}
			byName[b.element] = element
			all = append(all, element)
		}
		element.beliefs = append(element.beliefs, b)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func judgeLock(o *object, windows []window) verdict {
	v := verdict{name: o.Name, operations: operationsOf(o), result: porcupine.Ok}
	search := true
	for _, p := range pieces(o, windows, longestPiece) {
		result, easy := judgePiece(o, p, search)
		search = search && easy
		if result != porcupine.Ok {
			v.result = result
			v.complaints = append(v.complaints, p.refused(result))
		}
	}
	v.complaints = append(v.complaints, complaints(o, windows)...)
	return v
}

// judgePiece lets Porcupine check a piece. The second result is true if the search ended in time.
func judgePiece(o *object, p piece, search bool) (porcupine.CheckResult, bool) {
	lock := model(o.Permits, state{token: p.token, done: p.done})
	operations := p.operations()
	if search {
		result := porcupine.CheckOperationsTimeout(lock, operations, patience)
		if result != porcupine.Unknown {
			return result, true
		}
	}
	return porcupine.CheckOperationsTimeout(lock, moments(operations), time.Minute), false
}

func (p piece) refused(result porcupine.CheckResult) string {
	return fmt.Sprintf("from %s to %s: %s", shown(p.from), shown(p.to), result)
}

// operationsOf counts the acquisitions of an object, and their ends.
func operationsOf(o *object) int {
	count := len(o.beliefs)
	for _, b := range o.beliefs {
		if b.to < never {
			count++
		}
	}
	return count
}
