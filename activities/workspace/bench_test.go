package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each benchmark does the same thing by plain git commands in a folder of its own, by turns, and reports how
// many times as long ours takes.

const benchFiles = 2000

func benchSetup(b *testing.B) (f *fix, plain string) {
	b.Helper()
	f = setup(b, fmt.Sprintf(`git init -q -b main .
for i in $(seq 100); do mkdir d$i; for j in $(seq %d); do echo "line $i $j" > d$i/f$j; done; done
git add -A; git commit -q -m base`, benchFiles/100))
	plain = f.top + "/plain"
	sh(b, f.top, "git clone -q source plain")
	return f, plain
}

func run(b *testing.B, dir string, args ...string) {
	b.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x",
		"GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x"}
	out, err := cmd.CombinedOutput()
	require.NoError(b, err, "%s", out)
}

func line(b *testing.B, dir string, args ...string) string {
	b.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_AUTHOR_NAME=u", "GIT_AUTHOR_EMAIL=u@x",
		"GIT_COMMITTER_NAME=u", "GIT_COMMITTER_EMAIL=u@x"}
	out, err := cmd.Output()
	require.NoError(b, err)
	return string(out[:len(out)-1])
}

func compare(b *testing.B, prepare func(i int), ours, plain func(i int)) {
	b.Helper()
	var wall, cpu [2]time.Duration
	for i := 0; b.Loop(); i++ {
		prepare(i)
		for n, f := range []func(int){ours, plain} {
			start, used := time.Now(), usedCPU()
			f(i)
			wall[n] += time.Since(start)
			cpu[n] += usedCPU() - used
		}
	}
	b.ReportMetric(float64(wall[0])/float64(wall[1]), "ratio")
	b.ReportMetric(float64(cpu[0])/float64(cpu[1]), "cpu-ratio")
	b.ReportMetric(wall[0].Seconds()*1000/float64(b.N), "ours-ms")
	b.ReportMetric(wall[1].Seconds()*1000/float64(b.N), "plain-ms")
}

// usedCPU is the processor time of this program and of the gits it has run: on a busy machine it says more than
// the clock.
func usedCPU() time.Duration {
	var total time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err == nil {
			total += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return total
}

func edit(b *testing.B, dir string, i int) {
	for j := range 10 {
		require.NoError(b, os.WriteFile(fmt.Sprintf("%s/d%d/f%d", dir, j+1, j+1), fmt.Appendf(nil, "edit %d %d", i, j), 0o644))
	}
	require.NoError(b, os.WriteFile(dir+"/new", fmt.Appendf(nil, "new %d", i), 0o644))
}

func BenchmarkSnapshot(b *testing.B) {
	f, plain := benchSetup(b)
	compare(b, func(i int) {
		edit(b, f.ws.Dir(), i)
		edit(b, plain, i)
	}, func(i int) {
		c := f.snapshot()
		require.NotEmpty(b, c.Tree)
	}, func(i int) {
		run(b, plain, "add", "-A")
		tree := line(b, plain, "write-tree")
		run(b, plain, "update-ref", "refs/candidate", tree)
	})
}

func BenchmarkDiff(b *testing.B) {
	f, plain := benchSetup(b)
	edit(b, f.ws.Dir(), 0)
	edit(b, plain, 0)
	tree := f.snapshot().Tree
	run(b, plain, "add", "-A")
	other := line(b, plain, "write-tree")
	compare(b, func(i int) {}, func(i int) {
		list, err := f.store.Diff(f.ctx, f.base, tree)
		require.NoError(b, err)
		require.Len(b, list, 11)
	}, func(i int) {
		run(b, plain, "diff-tree", "-r", "-M", "-z", "--raw", "--numstat", "HEAD", other)
	})
}

func BenchmarkViewMove(b *testing.B) {
	f, plain := benchSetup(b)
	base := line(b, f.store.Dir(), "rev-parse", f.base+"^{tree}")
	edit(b, f.ws.Dir(), 0)
	tree := f.snapshot().Tree
	edit(b, plain, 0)
	run(b, plain, "add", "-A")
	run(b, plain, "commit", "-qm", "x")
	v := must(f.store.View("s1", "check"))
	require.NoError(b, v.Move(f.ctx, base, f.base))
	compare(b, func(i int) {}, func(i int) {
		require.NoError(b, v.Move(f.ctx, []string{tree, base}[i%2], f.base))
	}, func(i int) {
		run(b, plain, "reset", "-q", "--hard", []string{"HEAD", "HEAD"}[i%2]+[]string{"~1", "@{1}"}[i%2])
		run(b, plain, "clean", "-fdq")
	})
}

func BenchmarkCommit(b *testing.B) {
	f, plain := benchSetup(b)
	parent, other := f.base, line(b, plain, "rev-parse", "HEAD")
	tree := line(b, plain, "rev-parse", "HEAD^{tree}")
	compare(b, func(i int) {}, func(i int) {
		r := f.request(tree)
		r.Parent, r.When = parent, when.Add(time.Duration(i)*time.Second)
		parent = must(f.store.Commit(f.ctx, r))
	}, func(i int) {
		id := line(b, plain, "commit-tree", tree, "-p", other, "-m", fmt.Sprint("Do it ", i))
		run(b, plain, "update-ref", "refs/good", id)
		other = id
	})
}

func BenchmarkLedger(b *testing.B) {
	f, _ := benchSetup(b)
	for i := 0; b.Loop(); i++ {
		_, err := f.store.AppendLedger(f.ctx, "s1", 2*i+1, []string{fmt.Sprintf("%0300d", i), fmt.Sprintf("%0300d", -i)}, when)
		require.NoError(b, err)
	}
}
