//go:build unix

package process

import (
	"syscall"
	"time"
)

// entry is one line of the process table.
type entry struct {
	pid, parent, group int
	start              string // with pid, the identity of a process
	ended              bool   // a zombie
}

// kin finds and ends the descendants of a process. Where orphans leave the
// tree it remembers those that it once saw there.
type kin struct {
	remember bool
	seen     map[int]entry // by process id
}

// recordEvery is how often descendants are looked for where they must be
// remembered.
const recordEvery = time.Second

// find returns the living descendants of root and of all that it remembers.
func (k *kin) find(table []entry, root int) []entry {
	roots := []int{root}
	var found []entry
	for _, e := range table {
		if old, ok := k.seen[e.pid]; ok && old.start == e.start && !e.ended {
			found = append(found, e)
			roots = append(roots, e.pid)
		}
	}
	found = append(found, descendants(table, roots)...)
	if k.remember {
		k.seen = make(map[int]entry, len(found))
		for _, e := range found {
			k.seen[e.pid] = e
		}
	}
	return found
}

// look is find over the present process table. An unreadable table shows
// nothing; callers try again.
func (k *kin) look(root int) []entry {
	table, err := processTable()
	if err != nil {
		return nil
	}
	return k.find(table, root)
}

// stopAndKill stops what find finds until it finds nothing new, because what
// is stopped cannot fork, and then kills it. A round can miss a process that
// changes its parent meanwhile: callers repeat it until nothing is found.
func stopAndKill(find func() []entry, note func(pid int)) int {
	const rounds = 10
	own := syscall.Getpgrp()
	stopped := map[int]entry{}
	for range rounds {
		fresh := false
		for _, e := range find() {
			if _, ok := stopped[e.pid]; ok {
				continue
			}
			fresh = true
			stopped[e.pid] = e
			// The whole group too: that is atomic against a fork.
			if e.group > 1 && e.group != own {
				_ = syscall.Kill(-e.group, syscall.SIGSTOP)
			}
			_ = syscall.Kill(e.pid, syscall.SIGSTOP)
		}
		if !fresh {
			break
		}
	}
	for _, e := range stopped {
		note(e.pid)
		if e.group > 1 && e.group != own {
			_ = syscall.Kill(-e.group, syscall.SIGKILL)
		}
		_ = syscall.Kill(e.pid, syscall.SIGKILL)
	}
	return len(stopped)
}

// descendants returns the living processes below roots, without roots. It
// passes through zombies: the children of one are not yet adopted.
func descendants(table []entry, roots []int) []entry {
	children := map[int][]entry{}
	for _, e := range table {
		children[e.parent] = append(children[e.parent], e)
	}
	known := map[int]bool{}
	for _, pid := range roots {
		known[pid] = true
	}
	var found []entry
	for queue := roots; len(queue) > 0; queue = queue[1:] {
		for _, e := range children[queue[0]] {
			if known[e.pid] {
				continue
			}
			known[e.pid] = true
			queue = append(queue, e.pid)
			if !e.ended {
				found = append(found, e)
			}
		}
	}
	return found
}
