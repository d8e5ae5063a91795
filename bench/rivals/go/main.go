// Drives one Go library: reads jobs from stdin, one job on each line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
)

// A job, as the driver writes it. It has the fields of all kinds of jobs.
type job struct {
	Job     string `json:"job"`
	Tasks   int    `json:"tasks"`
	Names   int    `json:"names"`
	Name    string `json:"name"`
	Prefix  string `json:"prefix"`
	StartNs int64  `json:"start_ns"`
	Millis  int64  `json:"millis"`
	HoldUs  int64  `json:"hold_us"`
	LeaseMs int64  `json:"lease_ms"`
	Log     bool   `json:"log"`
}

// The reply to a job. Its fields depend on the kind of the job.
type answer map[string]any

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: rivals LIBRARY URL THREADS TTL_MS")
		os.Exit(1)
	}
	lib, err := connect(os.Args[1], os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	out := json.NewEncoder(os.Stdout)
	say(out, answer{"ready": true})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		say(out, reply(lib, lines.Bytes()))
	}
}

func reply(lib library, line []byte) answer {
	var asked job
	if err := json.Unmarshal(line, &asked); err != nil {
		return answer{"error": err.Error()}
	}
	found, err := perform(lib, asked)
	if err != nil {
		return answer{"error": err.Error()}
	}
	return found
}

func perform(lib library, asked job) (answer, error) {
	switch asked.Job {
	case "contend":
		return contend(lib, asked)
	case "enter":
		return enter(lib, asked)
	case "pairs":
		return pairs(lib, asked)
	case "seize":
		return seize(lib, asked)
	case "wait":
		return wait(lib, asked)
	}
	return nil, fmt.Errorf("no such job: %s", asked.Job)
}

func say(out *json.Encoder, said answer) {
	if err := out.Encode(said); err != nil {
		os.Exit(1)
	}
}
