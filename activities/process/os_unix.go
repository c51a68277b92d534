//go:build unix && !linux

package process

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

// Orphans leave the tree for process 1, so descendants are recorded.
const reapsOrphans = false

const waitAll = 0

// Guarantee reports whether this system lets Run end every process that a
// program leaves, and a sentence for the person who asks.
func Guarantee() (complete bool, why string) {
	return false, "best effort: this system cannot adopt orphans, so that a process is ended if it was seen below the program, once a second, or carries the marker at the next start; run the worker on Linux for the whole guarantee"
}

func becomeReaper() error { return nil }

func executableOfSelf() (string, error) { return os.Executable() }

func closeOnExec() error {
	fds, err := os.ReadDir("/dev/fd")
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

func maxRSS(u *syscall.Rusage) int64 {
	if runtime.GOOS == "darwin" {
		return u.Maxrss
	}
	return u.Maxrss * 1024
}

// ps runs /bin/ps and returns its lines and its own process id.
func ps(args ...string) ([]string, int, error) {
	c := exec.Command("/bin/ps", args...)
	c.Env = []string{"LC_ALL=C"}
	var out bytes.Buffer
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return nil, 0, err
	}
	return strings.Split(out.String(), "\n"), c.Process.Pid, nil
}

func processTable() ([]entry, error) {
	lines, self, err := ps("-axo", "pid=,ppid=,pgid=,stat=,lstart=")
	if err != nil {
		return nil, err
	}
	var table []entry
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		e := entry{start: strings.Join(f[4:], " "), ended: strings.HasPrefix(f[3], "Z")}
		var err1, err2, err3 error
		e.pid, err1 = strconv.Atoi(f[0])
		e.parent, err2 = strconv.Atoi(f[1])
		e.group, err3 = strconv.Atoi(f[2])
		if err1 == nil && err2 == nil && err3 == nil && e.pid != self {
			table = append(table, e)
		}
	}
	return table, nil
}

// markedProcesses reads the environments that ps shows after the command; the
// system hides those of its own programs.
func markedProcesses(_ []entry, prefix string) map[int]bool {
	found := map[int]bool{}
	lines, self, err := ps("-axEwwo", "pid=,command=")
	if err != nil {
		return found
	}
	for _, line := range lines {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil || pid == self {
			continue
		}
		for _, word := range f[1:] {
			if value, ok := strings.CutPrefix(word, MarkerVariable+"="); ok && carries(value, prefix) {
				found[pid] = true
			}
		}
	}
	return found
}
