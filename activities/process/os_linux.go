package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Orphans below a child subreaper become its children.
const reapsOrphans = true

// waitAll also waits for children that clone made with another signal.
const waitAll = unix.WALL

// Guarantee reports whether this system lets Run end every process that a
// program leaves, and a sentence for the person who asks.
func Guarantee() (complete bool, why string) {
	if _, err := readEntry(os.Getpid()); err != nil {
		return false, fmt.Sprintf("best effort: /proc cannot be read (%v), so that processes that leave their group are not found; mount it", err)
	}
	return true, "complete: the shim is the reaper of every process below it and ends them all; only a program that kills its shim and also clears its environment escapes"
}

func becomeReaper() error {
	return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// executableOfSelf names the running file itself, also after an upgrade has
// replaced or removed it.
func executableOfSelf() (string, error) { return "/proc/self/exe", nil }

func closeOnExec() error {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range fds {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
	return nil
}

func maxRSS(u *syscall.Rusage) int64 { return u.Maxrss * 1024 }

func processTable() ([]entry, error) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer proc.Close()
	names, err := proc.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var table []entry
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		if e, err := readEntry(pid); err == nil {
			table = append(table, e)
		}
	}
	return table, nil
}

// readEntry reads /proc/PID/stat, whose second field can hold any byte.
func readEntry(pid int) (entry, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return entry{}, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	const state, parent, group, start = 0, 1, 2, 19
	if len(fields) <= start {
		return entry{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	e := entry{pid: pid, start: fields[start], ended: fields[state] == "Z" || fields[state] == "X"}
	var err1, err2 error
	e.parent, err1 = strconv.Atoi(fields[parent])
	e.group, err2 = strconv.Atoi(fields[group])
	return e, errors.Join(err1, err2)
}

// markedProcesses leaves out those whose environment belongs to another user:
// they could not be killed either.
func markedProcesses(table []entry, prefix string) map[int]bool {
	found := map[int]bool{}
	for _, e := range table {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", e.pid))
		if err != nil {
			continue
		}
		for v := range bytes.SplitSeq(b, []byte{0}) {
			if value, ok := bytes.CutPrefix(v, []byte(MarkerVariable+"=")); ok && carries(string(value), prefix) {
				found[e.pid] = true
			}
		}
	}
	return found
}
