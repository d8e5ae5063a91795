package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// judged returns the verdict about a history of one object.
func judged(t *testing.T, object string, lines ...string) verdict {
	t.Helper()
	head := `{"header":1,"seed":1,"on":"single","objects":[` + object + `]}`
	h, err := read(strings.NewReader(head + "\n" + strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return judge(h)[0]
}

func passes(t *testing.T, object string, lines ...string) {
	t.Helper()
	if v := judged(t, object, lines...); !v.good() {
		t.Errorf("%s: %q", v.result, v.complaints)
	}
}

// fails expects that Porcupine rejects the history, and that a complaint contains these words.
func fails(t *testing.T, words, object string, lines ...string) {
	t.Helper()
	v := judged(t, object, lines...)
	if v.result != porcupine.Illegal {
		t.Errorf("%s: %q", v.result, v.complaints)
	}
	complains(t, words, v)
}

func complains(t *testing.T, words string, v verdict) {
	t.Helper()
	if !strings.Contains(strings.Join(v.complaints, "\n"), words) {
		t.Errorf("no %q in %q", words, v.complaints)
	}
}

const (
	lock      = `{"name":"a","kind":"lock","permits":1}`
	fenced    = `{"name":"a","kind":"fenced","permits":1}`
	readWrite = `{"name":"a","kind":"read_write","permits":1}`
	fair      = `{"name":"a","kind":"fair","permits":1}`
	election  = `{"name":"a","kind":"election","permits":1}`
	queue     = `{"name":"a","kind":"queue","permits":1}`
	two       = `{"name":"a","kind":"semaphore","permits":2}`
)

func enters(hold int, mode string, call, answer int) string {
	return entersWith(hold, mode, call, answer, 0)
}

func entersWith(hold int, mode string, call, answer, token int) string {
	return fmt.Sprintf(`{"op":"enter","hold":%d,"process":"p-%d","name":"a","mode":"%s","call":%d,"return":%d,"token":%d}`,
		hold, hold, mode, call, answer, token)
}

func claims(hold int, element string, call, answer int) string {
	return fmt.Sprintf(`{"op":"enter","hold":%d,"process":"p-%d","name":"a","mode":"claim","element":"%s","call":%d,"return":%d}`,
		hold, hold, element, call, answer)
}

func done(hold, call, answer int) string {
	return fmt.Sprintf(`{"op":"leave","hold":%d,"call":%d,"return":%d,"done":true}`, hold, call, answer)
}

func leaves(hold, call, answer int) string {
	return fmt.Sprintf(`{"op":"leave","hold":%d,"call":%d,"return":%d}`, hold, call, answer)
}

func lost(hold, at int) string {
	return fmt.Sprintf(`{"op":"lost","hold":%d,"at":%d}`, hold, at)
}

func died(hold, at int) string {
	return fmt.Sprintf(`{"op":"died","process":"p-%d","at":%d}`, hold, at)
}

func failover(from, to int) string {
	return fmt.Sprintf(`{"op":"fault","kind":"failover","from":%d,"to":%d}`, from, to)
}

func writes(hold, token, at int, accepted bool) string {
	return fmt.Sprintf(`{"op":"write","name":"a","token":%d,"hold":%d,"at":%d,"accepted":%v}`,
		token, hold, at, accepted)
}

func TestConsecutiveHoldsPass(t *testing.T) {
	passes(t, lock,
		enters(1, "exclusive", 0, 10), leaves(1, 20, 30),
		// The second process waits from 5 on. It gets the lock at 25, before the first process gets the
		// reply to its release at 30.
		enters(2, "exclusive", 5, 25), leaves(2, 40, 50))
}

func TestTheOrderOfLinesDoesNotMatter(t *testing.T) {
	passes(t, lock, leaves(1, 20, 30), enters(2, "exclusive", 5, 25), enters(1, "exclusive", 0, 10))
}

func TestTwoHoldersAtOnceFail(t *testing.T) {
	fails(t, "from 15 to 20, 5ns, at once: hold 1 of p-1", lock,
		enters(1, "exclusive", 0, 10), leaves(1, 20, 30),
		enters(2, "exclusive", 5, 15), leaves(2, 40, 50))
}

func TestAHoldWithoutAnEndExcludesLaterHolds(t *testing.T) {
	fails(t, "from 25 to the end", lock, enters(1, "exclusive", 0, 10), enters(2, "exclusive", 20, 25))
}

func TestALostHoldEndsAtItsLoss(t *testing.T) {
	passes(t, lock, enters(1, "exclusive", 0, 10), lost(1, 15), enters(2, "exclusive", 0, 16))
	fails(t, "from 14 to 15", lock, enters(1, "exclusive", 0, 10), lost(1, 15), enters(2, "exclusive", 0, 14))
}

func TestADeathEndsTheHoldsOfTheProcess(t *testing.T) {
	passes(t, lock, enters(1, "exclusive", 0, 10), died(1, 15), enters(2, "exclusive", 0, 16))
	fails(t, "from 14 to 15", lock, enters(1, "exclusive", 0, 10), died(1, 15), enters(2, "exclusive", 0, 14))
}

func TestADeathEndsNoLaterHoldOfARestartedProcess(t *testing.T) {
	fails(t, "at once", lock, died(1, 5), enters(1, "exclusive", 6, 10), enters(2, "exclusive", 0, 14))
}

func TestAReplyAfterTheDeathMakesNoBelief(t *testing.T) {
	passes(t, lock, enters(1, "exclusive", 0, 10), died(1, 5), enters(2, "exclusive", 6, 14))
}

func TestReadersShareAndWritersDoNot(t *testing.T) {
	passes(t, readWrite,
		enters(1, "shared", 0, 10), enters(2, "shared", 0, 11), leaves(1, 20, 21), leaves(2, 22, 23),
		enters(3, "exclusive", 1, 22), leaves(3, 30, 31), enters(4, "shared", 1, 30))
	fails(t, "from 21 to 22", readWrite,
		enters(1, "shared", 0, 10), enters(2, "shared", 0, 11), leaves(1, 20, 21), leaves(2, 22, 23),
		enters(3, "exclusive", 1, 21))
	fails(t, "from 5 to 6", readWrite,
		enters(1, "exclusive", 0, 1), leaves(1, 6, 7), enters(2, "shared", 0, 5), leaves(2, 8, 9))
}

func TestTwoPermitsHaveAtMostTwoHolders(t *testing.T) {
	passes(t, two,
		enters(1, "permit", 0, 10), enters(2, "permit", 0, 11), leaves(1, 20, 30), enters(3, "permit", 0, 21))
	fails(t, "from 19 to 20", two,
		enters(1, "permit", 0, 10), enters(2, "permit", 0, 11), leaves(1, 20, 30), enters(3, "permit", 0, 19))
}

func TestTokensGrowInTheOrderOfTheGrants(t *testing.T) {
	of := func(tokens ...int) (lines []string) {
		for i, token := range tokens {
			lines = append(lines, entersWith(i, "exclusive", 0, 10*i+1, token), leaves(i, 10*i+5, 10*i+6))
		}
		return
	}
	passes(t, fenced, of(3, 4, 9)...)
	fails(t, "the token 3 of hold 2", fenced, of(3, 4, 3)...)
	fails(t, "the token 4 of hold 2", fenced, of(3, 4, 4)...)
}

func TestAFairLockHasOneHolder(t *testing.T) {
	first := []string{enters(1, "exclusive", 0, 10), leaves(1, 20, 30)}
	passes(t, fair, append(first, enters(2, "exclusive", 5, 25))...)
	fails(t, "from 15 to 20", fair, append(first, enters(2, "exclusive", 5, 15))...)
}

func TestAnElectionHasOneLeaderInATermAndTermsGrow(t *testing.T) {
	first := []string{entersWith(1, "exclusive", 0, 10, 4), leaves(1, 20, 30)}
	passes(t, election, append(first, entersWith(2, "exclusive", 5, 25, 5))...)
	fails(t, "from 15 to 20", election, append(first, entersWith(2, "exclusive", 5, 15, 5))...)
	fails(t, "the token 4 of hold 2", election, append(first, entersWith(2, "exclusive", 5, 25, 4))...)
}

func TestTwoHaveTwoElementsAndNotTheSame(t *testing.T) {
	first := []string{claims(1, "x", 0, 10), leaves(1, 20, 30)}
	passes(t, queue, append(first, claims(2, "y", 0, 15), done(2, 40, 41))...)
	fails(t, "from 15 to 20", queue, append(first, claims(2, "x", 0, 15))...)
}

func TestAnElementThatWentBackIsClaimedAgainAndOneThatIsDoneIsNot(t *testing.T) {
	again := claims(2, "x", 21, 40)
	passes(t, queue, claims(1, "x", 0, 10), leaves(1, 20, 30), again)
	passes(t, queue, claims(1, "x", 0, 10), lost(1, 15), again)
	// The worker died before the reply came.
	passes(t, queue, claims(1, "x", 0, 10), died(1, 15), done(1, 20, 30), again)
	fails(t, "had done its element", queue, claims(1, "x", 0, 10), done(1, 20, 30), again)
	// The new server has not received that the element is done.
	passes(t, queue, failover(25, 35), claims(1, "x", 0, 10), done(1, 20, 30), again)
}

func TestTokensMayFallOnlyDuringAFailover(t *testing.T) {
	first := []string{failover(10, 20), entersWith(1, "exclusive", 0, 5, 7), leaves(1, 8, 9)}
	passes(t, fenced, append(first,
		entersWith(2, "exclusive", 21, 22, 6), leaves(2, 23, 24), entersWith(3, "exclusive", 21, 25, 7))...)
	// The lock is granted in the window, but the reply comes after the window.
	passes(t, fenced, append(first,
		entersWith(2, "exclusive", 21, 22, 7), leaves(2, 23, 24), entersWith(3, "exclusive", 20, 25, 6))...)
	fails(t, "the token 6 of hold 3", fenced, append(first,
		entersWith(2, "exclusive", 21, 22, 7), leaves(2, 23, 24), entersWith(3, "exclusive", 21, 25, 6))...)
}

func TestAnOverlapWithinAFailoverIsAllowed(t *testing.T) {
	passes(t, lock, failover(10, 20), enters(1, "exclusive", 0, 5), lost(1, 19), enters(2, "exclusive", 6, 12))
}

func TestAnOverlapOutsideAFailoverIsAnError(t *testing.T) {
	fails(t, "from 9 to 10, 1ns", lock,
		failover(10, 20), enters(1, "exclusive", 0, 5), lost(1, 19), enters(2, "exclusive", 6, 9))
	fails(t, "from 20 to 21, 1ns", lock,
		failover(10, 20), enters(1, "exclusive", 0, 5), lost(1, 21), enters(2, "exclusive", 6, 12))
}

func TestAReplicatedObjectMayNotOverlapInAFailover(t *testing.T) {
	fails(t, "from 12 to 19", `{"name":"a","kind":"lock","permits":1,"replicated":true}`,
		failover(10, 20), enters(1, "exclusive", 0, 5), lost(1, 19), enters(2, "exclusive", 6, 12))
}

func TestOtherFaultsAllowNoOverlap(t *testing.T) {
	fails(t, "from 12 to 19", lock, `{"op":"fault","kind":"stop","from":10,"to":20}`,
		enters(1, "exclusive", 0, 5), lost(1, 19), enters(2, "exclusive", 6, 12))
}

func TestALateWriteMustBeRefused(t *testing.T) {
	passes(t, fenced, writes(1, 7, 10, true), writes(2, 8, 20, true), writes(1, 7, 30, false))
	v := judged(t, fenced, writes(1, 7, 10, true), writes(2, 8, 20, true), writes(1, 7, 30, true))
	if v.good() {
		t.Error("the late write was not seen")
	}
	complains(t, "the write of hold 1 with the token 7 at 30", v)
}

func TestAnInvalidFileIsAnError(t *testing.T) {
	head := `{"header":1,"objects":[` + fenced + `]}` + "\n"
	for words, text := range map[string]string{
		"no header":                  "",
		"line 1 is no header":        enters(1, "exclusive", 0, 1),
		"line 2":                     head + `{"op":"enter","hold`,
		`"dance" is no operation`:    head + `{"op":"dance"}`,
		"begins twice":               head + entersWith(1, "exclusive", 0, 1, 1) + "\n" + entersWith(1, "exclusive", 0, 1, 1),
		"queue has no element":       `{"header":1,"objects":[` + queue + `]}` + "\n" + enters(1, "claim", 0, 1),
		"has no token":               head + enters(1, "exclusive", 0, 1),
		"not held in the mode":       head + enters(1, "shared", 0, 1),
		"answered before it was ask": head + entersWith(1, "exclusive", 5, 1, 1),
		`no object "b"`:              head + strings.Replace(enters(1, "exclusive", 0, 1), `"a"`, `"b"`, 1),
	} {
		if _, err := read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestTheReportNamesTheErrorsAndCountsThem(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	text := strings.Join([]string{`{"header":1,"objects":[` + lock + `]}`,
		enters(1, "exclusive", 0, 10), leaves(1, 20, 30), enters(2, "exclusive", 5, 15), leaves(3, 1, 2)}, "\n")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := check(path, &out); err != errWrong {
		t.Error(err)
	}
	for _, words := range []string{"a: 3 operations: Illegal\n", "  from 15 to 20",
		"1 lines end holds that never began", "1 objects, 3 operations, in ", ": 1 of them wrong\n"} {
		if !strings.Contains(out.String(), words) {
			t.Errorf("no %q in %s", words, out.String())
		}
	}
}

// For every history, Porcupine must give the same result with a search and with moments, in short
// pieces and as one piece. The checks that write the complaints must agree.
func TestAllWaysOfJudgingAgree(t *testing.T) {
	wrong := 0
	for seed := int64(0); seed < 6000; seed++ {
		chance := rand.New(rand.NewSource(seed))
		o := anything(chance)
		windows := merged([]window{{20, 20 + chance.Int63n(20)}, {50, 50 + chance.Int63n(20)}})
		looked := len(overlaps(o, windows))+len(fallingTokens(o.beliefs, windows))+len(claimedAgain(o.beliefs, windows)) == 0
		if !looked {
			wrong++
		}
		for _, longest := range []int{2, 1000} {
			for _, search := range []bool{true, false} {
				if agreed := porcupineAgrees(o, windows, longest, search); agreed != looked {
					t.Fatalf("seed %d, pieces of %d, search %v: %v, but %q %q\n%v\n%v", seed, longest, search, agreed,
						overlaps(o, windows), fallingTokens(o.beliefs, windows), o, windows)
				}
			}
		}
	}
	if wrong < 600 || wrong > 5400 {
		t.Errorf("%d of 6000 are wrong: that shows little", wrong)
	}
}

func porcupineAgrees(o *object, windows []window, longest int, search bool) bool {
	for _, p := range pieces(o, windows, longest) {
		if result, _ := judgePiece(o, p, search); result != porcupine.Ok {
			return false
		}
	}
	return true
}

// anything returns a few random beliefs, most of them one after the other.
func anything(chance *rand.Rand) *object {
	kinds := []object{{Kind: "queue", Permits: 1}, {Kind: "fenced", Permits: 1}, {Kind: "read_write", Permits: 1}, {Kind: "semaphore", Permits: 2}}
	o := kinds[chance.Intn(len(kinds))]
	at, token := int64(0), int64(1)
	for hold := int64(0); hold < 7; hold++ {
		b := belief{hold: hold, mode: modes[o.Kind], from: at + 1 + chance.Int63n(5), ended: never}
		b.asked = b.from - chance.Int63n(b.from)/(1+chance.Int63n(10))
		b.to = b.from + 1 + chance.Int63n(10)
		if chance.Intn(2) == 0 {
			b.ended = b.to + chance.Int63n(10)
		}
		if o.Kind == "read_write" && chance.Intn(2) == 0 {
			b.mode = "shared"
		}
		if o.Kind == "queue" {
			b.done = chance.Intn(8) == 0
		}
		if o.Kind == "fenced" {
			b.token = token
			token += 1 - int64(chance.Intn(4)/3)
		}
		at = b.to - int64(chance.Intn(3)/2)
		o.beliefs = append(o.beliefs, b)
	}
	o.inOrder()
	return &o
}

// A run of ten minutes with twenty names. The check takes some seconds of one core. The limit is a
// minute because the machine may be busy.
func TestTenMinutesAreJudgedWithinAMinute(t *testing.T) {
	var objects []*object
	for i := 0; i < 20; i++ {
		objects = append(objects, honest(rand.New(rand.NewSource(int64(i))), 5000))
	}
	start := time.Now()
	for _, v := range judge(&history{objects: objects}) {
		if !v.good() || v.operations < 9000 {
			t.Errorf("%d operations of a %s: %s %q", v.operations, v.name, v.result, v.complaints)
		}
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestOneOverlapInTenMinutesIsFound(t *testing.T) {
	for seed := int64(0); seed < 8; seed++ {
		o := honest(rand.New(rand.NewSource(seed)), 5000)
		b := &o.beliefs[4000]
		b.mode, b.to, b.ended = modes[o.Kind], b.to+1000, b.to+1000
		v := judgeObject(o, nil)
		if v.result != porcupine.Illegal {
			t.Errorf("%d operations of a %s: %s", v.operations, v.name, v.result)
		}
		complains(t, b.String(), v)
	}
}

// honest returns the history of a correct lock of a random kind. Sixteen processes acquire the lock
// again after each release.
func honest(chance *rand.Rand, holds int) *object {
	kinds := []object{{Kind: "lock", Permits: 1}, {Kind: "fenced", Permits: 1},
		{Kind: "read_write", Permits: 1}, {Kind: "semaphore", Permits: 3}}
	o := kinds[chance.Intn(len(kinds))]
	o.Name = o.Kind
	var asked [16]int64
	var active []belief
	at := int64(0)
	for hold := 0; hold < holds; at += chance.Int63n(100) {
		active = stillActive(active, at)
		who := chance.Intn(len(asked))
		b := belief{hold: int64(hold), process: fmt.Sprint(who), mode: modes[o.Kind], asked: asked[who],
			from: at + 2, to: at + 10 + chance.Int63n(200)}
		b.ended = b.to + chance.Int63n(500)
		if chance.Intn(50) == 0 {
			b.ended = never
		}
		if o.Kind == "read_write" && chance.Intn(4) > 0 {
			b.mode = "shared"
		}
		if asked[who] > at || tooMany(&o, append(active[:len(active):len(active)], b)) {
			continue
		}
		if o.Kind == "fenced" {
			b.token = int64(hold + 1)
		}
		active = append(active, b)
		o.beliefs = append(o.beliefs, b)
		asked[who] = b.to + 1
		hold++
	}
	o.inOrder()
	return &o
}
