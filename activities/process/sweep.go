//go:build unix

package process

import (
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"time"
)

// Sweep kills every process, with its descendants, whose marker is prefix or
// begins with prefix and "/", and returns how many it killed. A worker calls
// it with its home's identifier when it starts and holds the home's lock,
// before it runs anything: what is found then was left by a worker and a shim
// that both died. The caller and its ancestors are never killed.
//
// A program that kills its shim and also clears its environment escapes; only
// a sandbox with a process namespace prevents that.
func Sweep(prefix string) (int, error) {
	if err := checkMarker(prefix); err != nil {
		return 0, err
	}
	killed := map[int]bool{}
	find := func() []entry { return marked(prefix) }
	note := func(pid int) { killed[pid] = true }
	deadline := time.Now().Add(killWait)
	for pause := time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		if stopAndKill(find, note) == 0 {
			return len(killed), nil
		}
		if time.Now().After(deadline) {
			left := find()
			pids := make([]int, len(left))
			for i, e := range left {
				pids[i] = e.pid
			}
			if len(pids) == 0 {
				return len(killed), nil
			}
			return len(killed), fmt.Errorf("process: the processes %d do not end although they were killed: look what they wait for (ps -o pid,stat,wchan)", pids)
		}
		<-time.After(pause)
	}
}

// marked returns the living processes with that marker and their descendants.
func marked(prefix string) []entry {
	table, err := processTable()
	if err != nil {
		return nil
	}
	parent := map[int]int{}
	for _, e := range table {
		parent[e.pid] = e.parent
	}
	above := map[int]bool{}
	for pid := os.Getpid(); pid > 0 && !above[pid]; pid = parent[pid] {
		above[pid] = true
	}
	shared := map[int]bool{} // groups that must not be signalled as a whole
	for _, e := range table {
		if above[e.pid] {
			shared[e.group] = true
		}
	}
	carriers := markedProcesses(table, prefix)
	var found []entry
	var roots []int
	for _, e := range table {
		if carriers[e.pid] && !above[e.pid] && !e.ended {
			found = append(found, e)
			roots = append(roots, e.pid)
		}
	}
	found = append(found, descendants(table, roots)...)
	for i := range found {
		if shared[found[i].group] {
			found[i].group = 0
		}
	}
	return found
}

// checkMarker refuses what could not be told apart in an environment.
func checkMarker(m string) error {
	bad := func(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f }
	if m == "" || strings.HasSuffix(m, "/") || strings.ContainsFunc(m, bad) {
		return fmt.Errorf("process: marker %q must be a name without commas, spaces, control characters and a final slash", m)
	}
	return nil
}

// newMarker makes a run's marker unique, so that it can be swept alone.
func newMarker(m string) string { return m + "/" + rand.Text() }

// withMarker puts the marker into an environment, after those of the runs that
// the worker itself is in, so that a sweep for them finds this one too.
func withMarker(env []string, marker string) []string {
	out := make([]string, 0, len(env)+1)
	for _, e := range env {
		if !strings.HasPrefix(e, MarkerVariable+"=") {
			out = append(out, e)
		}
	}
	if outer := os.Getenv(MarkerVariable); outer != "" {
		marker = outer + "," + marker
	}
	return append(out, MarkerVariable+"="+marker)
}

// carries reports whether an environment's value of MarkerVariable has that
// marker.
func carries(value, prefix string) bool {
	for m := range strings.SplitSeq(value, ",") {
		if m == prefix || strings.HasPrefix(m, prefix+"/") {
			return true
		}
	}
	return false
}
