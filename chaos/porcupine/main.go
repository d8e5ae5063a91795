// The judge reads a history that the referee of a chaos run has recorded. For each object, it
// decides whether a correct lock could have sent these replies. Porcupine, a checker of
// linearizability, decides this with the lock of model.go. README.md describes the rules and the
// method. Start at judge.go.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: check.sh HISTORY")
		os.Exit(2)
	}
	switch err := check(os.Args[1], os.Stdout); {
	case errors.Is(err, errWrong):
		os.Exit(1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
}

// errWrong means that the history could be read, but that no correct lock could have sent these
// replies.
var errWrong = errors.New("the history is wrong")

func check(path string, out io.Writer) error {
	start := time.Now()
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	history, err := read(file)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	verdicts := judge(history)
	if !report(verdicts, history.strays, time.Since(start), out) {
		return errWrong
	}
	return nil
}

// report prints a line for each object and a summary. It returns true if all objects are Ok.
func report(verdicts []verdict, strays int, took time.Duration, out io.Writer) bool {
	operations, wrong := 0, 0
	for _, v := range verdicts {
		operations += v.operations
		fmt.Fprintf(out, "%s: %d operations: %s\n", v.name, v.operations, v.said())
		for _, complaint := range v.complaints {
			fmt.Fprintf(out, "  %s\n", complaint)
		}
		if !v.good() {
			wrong++
		}
	}
	if strays > 0 {
		fmt.Fprintf(out, "%d lines end holds that never began\n", strays)
	}
	said := "all Ok"
	if wrong > 0 {
		said = fmt.Sprintf("%d of them wrong", wrong)
	}
	fmt.Fprintf(out, "%d objects, %d operations, in %.1f s: %s\n",
		len(verdicts), operations, took.Seconds(), said)
	return wrong == 0
}
