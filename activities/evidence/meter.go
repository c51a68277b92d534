package evidence

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Meter tells every second, in one line for a person, how long a program has
// been running and how much it has written.
type Meter struct {
	label string
	tell  func(string)
	start time.Time
	bytes atomic.Int64
	stop  chan struct{}
	done  sync.WaitGroup
}

// NewMeter tells the first line at once. A nil tell tells nobody. Calls of
// tell never overlap.
func NewMeter(label string, tell func(string)) *Meter {
	m := &Meter{label: label, tell: tell, start: time.Now(), stop: make(chan struct{})}
	if tell == nil {
		return m
	}
	tell(m.line(0))
	m.done.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				tell(m.line(time.Since(m.start)))
			case <-m.stop:
				return
			}
		}
	})
	return m
}

// Add counts n bytes of output.
func (m *Meter) Add(n int) { m.bytes.Add(int64(n)) }

// Stop tells a last line. Nothing is told after it.
func (m *Meter) Stop() {
	close(m.stop)
	m.done.Wait()
	if m.tell != nil {
		m.tell(m.line(time.Since(m.start)))
	}
}

func (m *Meter) line(passed time.Duration) string {
	took := passed.Round(time.Second).String()
	if passed < time.Minute {
		took = fmt.Sprintf("%d s", int(passed.Round(time.Second).Seconds()))
	}
	return fmt.Sprintf("%s: %s, %s of output", m.label, took, bytesForPeople(m.bytes.Load()))
}

func bytesForPeople(n int64) string {
	switch {
	case n < 1000:
		return fmt.Sprintf("%d B", n)
	case n < 1_000_000:
		return fmt.Sprintf("%d kB", n/1000)
	default:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
}
