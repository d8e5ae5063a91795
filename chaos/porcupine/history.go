package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"sort"
)

// never is later than every recorded time.
const never = math.MaxInt64

// history is the content of a file, with the holds of each object.
type history struct {
	objects []*object
	// The windows in which holds may overlap: sorted, and without overlaps between them.
	windows []window
	// The number of lines that end a hold which never started.
	strays int
}

// object is one lock, with all times in which a process believed that it held the lock.
type object struct {
	Name string `json:"name"`
	// "lock", "fair", "fenced", "election", "read_write", "semaphore", "permits" or "queue".
	Kind    string `json:"kind"`
	Permits int    `json:"permits"`
	// Whether replicas acknowledge each grant, so that no failover may lose a grant.
	Replicated bool `json:"replicated"`

	beliefs []belief
	writes  []line
}

// belief is a time in which a process believed that it held the lock.
type belief struct {
	hold    int64
	process string
	mode    string
	// The token of the hold of a fenced lock; otherwise 0.
	token int64
	// The element of a claim, and whether the server has confirmed that the element is done.
	element string
	done    bool
	// The request was sent at `asked`. The process believed that it held from `from` until `to`.
	asked, from, to int64
	// When the reply to the release came.
	ended int64
}

// window is a time in which holds may overlap, because a failover may have lost a grant.
type window struct{ from, to int64 }

// line is a line of the file after the header.
type line struct {
	Op       string `json:"op"`
	Hold     int64  `json:"hold"`
	Process  string `json:"process"`
	Name     string `json:"name"`
	Mode     string `json:"mode"`
	Kind     string `json:"kind"`
	Token    int64  `json:"token"`
	Element  string `json:"element"`
	Done     bool   `json:"done"`
	Call     int64  `json:"call"`
	Return   *int64 `json:"return"`
	At       int64  `json:"at"`
	From     int64  `json:"from"`
	To       *int64 `json:"to"`
	Accepted bool   `json:"accepted"`
}

// header is the first line of the file.
type header struct {
	Header  int       `json:"header"`
	Objects []*object `json:"objects"`
}

// read reads a history. The lines after the header may be in any order.
func read(from io.Reader) (*history, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24)
	var head header
	if !lines.Scan() {
		return nil, fmt.Errorf("there is no header: %w", or(lines.Err(), io.ErrUnexpectedEOF))
	}
	if err := json.Unmarshal(lines.Bytes(), &head); err != nil || head.Header != 1 {
		return nil, fmt.Errorf("line 1 is no header of version 1")
	}
	s := newStory(head.Objects)
	for number := 2; lines.Scan(); number++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var l line
		err := json.Unmarshal(lines.Bytes(), &l)
		if err == nil {
			err = s.add(l)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	return s.history()
}

func or(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// story collects the lines of a file while they are read.
type story struct {
	objects []*object
	byName  map[string]*object
	enters  map[int64]line
	// The earliest recorded end of each hold.
	ends    map[int64]end
	deaths  map[string][]int64
	windows []window
}

// end is the end of a hold: the time from which the process no longer believed that it held, the
// time of the reply to the release, and whether the element is done.
type end struct {
	at, answered int64
	done         bool
}

func newStory(objects []*object) *story {
	s := &story{objects: objects, byName: map[string]*object{}, enters: map[int64]line{},
		ends: map[int64]end{}, deaths: map[string][]int64{}}
	for _, o := range objects {
		s.byName[o.Name] = o
	}
	return s
}

func (s *story) add(l line) error {
	switch l.Op {
	case "enter":
		return s.enter(l)
	case "leave":
		s.end(l.Hold, end{l.Call, orNever(l.Return), l.Done})
	case "lost":
		s.end(l.Hold, end{l.At, never, false})
	case "died":
		s.deaths[l.Process] = append(s.deaths[l.Process], l.At)
	case "fault":
		if l.Kind == "failover" {
			s.windows = append(s.windows, window{l.From, orNever(l.To)})
		}
	case "write":
		return s.write(l)
	default:
		return fmt.Errorf("%q is no operation", l.Op)
	}
	return nil
}

// enter keeps an acquisition. It drops an acquisition without a reply, because no process believed
// that it held the lock.
func (s *story) enter(l line) error {
	o, known := s.byName[l.Name]
	if !known {
		return fmt.Errorf("the header has no object %q", l.Name)
	}
	if l.Return == nil {
		return nil
	}
	if _, twice := s.enters[l.Hold]; twice {
		return fmt.Errorf("hold %d begins twice", l.Hold)
	}
	if *l.Return < l.Call {
		return fmt.Errorf("hold %d was answered before it was asked for", l.Hold)
	}
	if err := o.fits(l); err != nil {
		return err
	}
	s.enters[l.Hold] = l
	return nil
}

// modes maps each kind of object to the mode of its holds. A read-write lock also has the mode
// "shared".
var modes = map[string]string{
	"lock":       "exclusive",
	"fair":       "exclusive",
	"fenced":     "exclusive",
	"election":   "exclusive",
	"read_write": "exclusive",
	"semaphore":  "permit",
	"permits":    "permit",
	"queue":      "claim",
}

// fits returns an error if an object of this kind cannot have the acquisition.
func (o *object) fits(l line) error {
	mode, known := modes[o.Kind]
	if !known {
		return fmt.Errorf("%q is no kind of object", o.Kind)
	}
	if l.Mode != mode && !(o.Kind == "read_write" && l.Mode == "shared") {
		return fmt.Errorf("a %s is not held in the mode %q", o.Kind, l.Mode)
	}
	if (o.Kind == "fenced" || o.Kind == "election") && l.Token <= 0 {
		return fmt.Errorf("hold %d of a %s has no token", l.Hold, o.Kind)
	}
	if o.Kind == "queue" && l.Element == "" {
		return fmt.Errorf("hold %d of a queue has no element", l.Hold)
	}
	return nil
}

func (s *story) end(hold int64, e end) {
	if before, known := s.ends[hold]; !known || e.at < before.at {
		s.ends[hold] = e
	}
}

func (s *story) write(l line) error {
	o, known := s.byName[l.Name]
	if !known {
		return fmt.Errorf("the header has no object %q", l.Name)
	}
	o.writes = append(o.writes, l)
	return nil
}

func (s *story) history() (*history, error) {
	h := &history{objects: s.objects, windows: merged(s.windows)}
	for _, times := range s.deaths {
		sort.Slice(times, func(i, j int) bool { return times[i] < times[j] })
	}
	for _, enter := range s.enters {
		b, err := s.belief(enter)
		if err != nil {
			return nil, err
		}
		if o := s.byName[enter.Name]; b.from < b.to {
			o.beliefs = append(o.beliefs, b)
		}
	}
	for hold := range s.ends {
		if _, known := s.enters[hold]; !known {
			h.strays++
		}
	}
	for _, o := range h.objects {
		o.inOrder()
	}
	return h, nil
}

func (o *object) inOrder() {
	sort.Slice(o.beliefs, func(i, j int) bool {
		a, b := o.beliefs[i], o.beliefs[j]
		return a.from < b.from || a.from == b.from && a.hold < b.hold
	})
	sort.SliceStable(o.writes, func(i, j int) bool { return o.writes[i].At < o.writes[j].At })
}

// belief computes the time from the reply until the release, the loss or the death of the process,
// whichever comes first. The time is empty if the process died before the reply.
func (s *story) belief(l line) (belief, error) {
	b := belief{hold: l.Hold, process: l.Process, mode: l.Mode, token: l.Token, element: l.Element,
		asked: l.Call, from: *l.Return, to: never, ended: never}
	if e, known := s.ends[l.Hold]; known {
		b.to, b.ended, b.done = e.at, e.answered, e.done
		if b.ended < b.to {
			return b, fmt.Errorf("the end of hold %d was answered before it was asked for", l.Hold)
		}
	}
	if died := firstAfter(s.deaths[l.Process], b.asked); died < b.to {
		b.to, b.ended, b.done = died, never, false
	}
	return b, nil
}

// firstAfter returns the first of the times that is `at` or later.
func firstAfter(times []int64, at int64) int64 {
	i := sort.Search(len(times), func(i int) bool { return times[i] >= at })
	if i == len(times) {
		return never
	}
	return times[i]
}

func orNever(at *int64) int64 {
	if at == nil {
		return never
	}
	return *at
}

// merged joins windows that overlap, and returns them sorted.
func merged(windows []window) []window {
	sort.Slice(windows, func(i, j int) bool { return windows[i].from < windows[j].from })
	var apart []window
	for _, w := range windows {
		last := len(apart) - 1
		switch {
		case last < 0 || apart[last].to < w.from:
			apart = append(apart, w)
		case apart[last].to < w.to:
			apart[last].to = w.to
		}
	}
	return apart
}
